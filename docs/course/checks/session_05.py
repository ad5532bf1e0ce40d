"""Session 5: recall at 5, and AdaGrad on the rows of an embedding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from fedlib.losses import recall_at_5 as fedlibs_recall

from .compare import results, same


def recall_at_5(function: Callable[..., Any], seed: int = 0, *, posts: int = 40) -> None:
    """``recall_at_5(scores, tags)`` against fedlib's; some posts have many tags, some none."""
    draw = np.random.default_rng(seed)
    scores = draw.standard_normal((posts, 12))
    tags = draw.random((posts, 12)) < draw.choice([0.0, 0.1, 0.6], (posts, 1))
    found, true = fedlibs_recall(torch.tensor(scores)[None], torch.tensor(tags)[None])
    hint = "true tags among the five largest scores over true tags, both over all posts"
    same("recall_at_5", function(scores, tags), float(found.sum() / true.sum()), hint)


def sparse_adagrad(function: Callable[..., Any], seed: int = 0, *, repeated: bool = False) -> None:
    """``sparse_adagrad(table, v, rows, g, lr, tau)`` against ``torch.optim.Adagrad`` on an
    embedding of its own, over three steps.

    Args:
        function: the student's.
        seed: of tables and words.
        repeated: whether a word may occur more than once in a step.
    """
    draw = np.random.default_rng(seed)
    table, v = draw.standard_normal((8, 3)), np.zeros((8, 3))
    layer = torch.nn.Embedding.from_pretrained(torch.tensor(table), freeze=False)
    right = torch.optim.Adagrad(layer.parameters(), lr=0.1, eps=0.01)
    for t in range(1, 4):
        rows = draw.integers(0, 4, 6) if repeated else draw.permutation(8)[:4]
        g = draw.standard_normal((len(rows), 3))
        given = function(table.copy(), v.copy(), rows.copy(), g.copy(), 0.1, 0.01)
        table, v = results("sparse_adagrad", given, "table, v")
        right.zero_grad()
        (layer(torch.tensor(rows)) * torch.tensor(g)).sum().backward()
        right.step()
        wanted = right.state[layer.weight]["sum"]
        hint = "gradients of one word are added, then squared" if repeated else "v adds g squared"
        same(f"v after step {t}", v, wanted, hint)
        same(f"the table after step {t}", table, layer.weight.detach(), "lr g / (sqrt(v) + tau)")
