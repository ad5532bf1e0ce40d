"""From tensors of C configurations to tidy frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from fedlib.engine.config import RunConfig
from fedlib.engine.evaluation import Evaluated
from fedlib.engine.fairness import fairness
from fedlib.task import Task


class Recorder:
    """Collects the numbers of C configurations and makes tidy frames of them."""

    def __init__(self, task: Task, configs: Sequence[RunConfig]) -> None:
        self.task = task
        self.rows: list[list[tuple[int, str, str, float]]] = [[] for _ in configs]
        self.last: list[dict[str, Tensor]] = [{} for _ in configs]
        self.diverged: dict[int, int] = {}
        self.by_client = len(task.test) > 1
        self.test_sizes = torch.from_numpy(task.test.sizes)
        self.floats = (0, 0)  # received and sent by the cohort of the current round

    def training(self, round: int, alive: list[int], loss: Tensor, good: Tensor) -> list[int]:
        """Note the training losses ``[C]``; returns the configurations that are still finite."""
        for one, value, finite in zip(alive, loss.tolist(), good.tolist(), strict=True):
            self.rows[one] += [
                (round, "train", "loss", value),
                (round, "communication", "floats_down", float(self.floats[0])),
                (round, "communication", "floats_up", float(self.floats[1])),
            ]
            if not finite:
                self.diverged[one] = round
        return [one for one in alive if one not in self.diverged]

    def evaluation(self, round: int, alive: list[int], result: Evaluated) -> None:
        """Note the evaluation of the configurations ``alive``."""
        columns = {name: values.tolist() for name, values in result.mean.items()}
        if self.by_client:
            for name in self.task.metrics:
                columns[f"{name}_unweighted"] = result.clients[name].nanmean(1).tolist()
            if "accuracy" in self.task.metrics:
                each = result.clients["accuracy"]
                spread = fairness(each, self.test_sizes.to(each.device))
                columns.update((name, values.tolist()) for name, values in spread.items())
        for position, one in enumerate(alive):
            self.rows[one] += [
                (round, "test", name, column[position]) for name, column in columns.items()
            ]
            self.last[one] = {name: values[position] for name, values in result.clients.items()}

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Everything recorded so far: names and numbers for JSON, and tensors."""
        names = sorted({(split, name) for rows in self.rows for _, split, name, _ in rows})
        codes = {pair: code for code, pair in enumerate(names)}
        tensors: dict[str, Tensor] = {}
        for one, rows in enumerate(self.rows):
            numbers = [(round, codes[split, name]) for round, split, name, _ in rows]
            tensors[f"recorded/{one}/where"] = torch.tensor(numbers).view(-1, 2)
            values = torch.tensor([value for *_, value in rows], dtype=torch.float64)
            tensors[f"recorded/{one}/value"] = values
            for name, each in self.last[one].items():
                tensors[f"last/{one}/{name}"] = each
        about = {
            "names": names,
            "diverged": list(self.diverged.items()),
            "metrics": [list(last) for last in self.last],
        }
        return about, tensors

    def restore(self, about: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Take up what :meth:`state` gave."""
        names = [tuple(pair) for pair in about["names"]]
        self.diverged = {int(one): int(round) for one, round in about["diverged"]}
        for one in range(len(self.rows)):
            where = tensors[f"recorded/{one}/where"].tolist()
            values = tensors[f"recorded/{one}/value"].tolist()
            self.rows[one] = [
                (round, *names[code], value)
                for (round, code), value in zip(where, values, strict=True)
            ]
            self.last[one] = {name: tensors[f"last/{one}/{name}"] for name in about["metrics"][one]}

    def frame(self, one: int) -> pd.DataFrame:
        """``round, split, metric, value`` of one configuration."""
        return pd.DataFrame(self.rows[one], columns=["round", "split", "metric", "value"])

    def clients(self, one: int) -> pd.DataFrame:
        """``client, split, metric, value, examples`` at one configuration's last evaluation."""
        data = self.task.test
        frames = [
            pd.DataFrame(
                {
                    "client": data.ids,
                    "split": "test",
                    "metric": name,
                    "value": values.double().cpu().numpy(),
                    "examples": data.sizes,
                }
            )
            for name, values in self.last[one].items()
        ]
        return pd.concat(frames, ignore_index=True)
