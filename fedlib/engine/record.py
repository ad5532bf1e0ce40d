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
from fedlib.engine.history import History
from fedlib.task import Task


class Recorder:
    """Collects the numbers of S C configurations and makes tidy frames of them.

    Args:
        tasks: of the S replicas; configs: of the first replica, then of the next.
    """

    def __init__(self, tasks: Sequence[Task], configs: Sequence[RunConfig]) -> None:
        self.tasks, self.configs = tasks, configs
        self.columns = len(configs) // len(tasks)
        self.rows: list[list[tuple[int, str, str, float]]] = [[] for _ in configs]
        self.last: list[dict[str, Tensor]] = [{} for _ in configs]
        self.diverged: dict[int, int] = {}

    def training(
        self,
        round: int,
        alive: list[int],
        loss: Tensor,
        good: Tensor,
        floats: Sequence[tuple[int, int]],
    ) -> list[int]:
        """Note the training losses ``[S C]``; returns the configurations that are still finite.

        Args:
            good: ``[S C]``, which are; floats: that each replica's cohort received and sent.
        """
        for one, value, finite in zip(alive, loss.tolist(), good.tolist(), strict=True):
            if one in self.diverged:
                continue
            down, up = floats[one // self.columns]
            self.rows[one] += [
                (round, "train", "loss", value),
                (round, "communication", "floats_down", float(down)),
                (round, "communication", "floats_up", float(up)),
            ]
            if not finite:
                self.diverged[one] = round
        return [one for one in alive if one not in self.diverged]

    def evaluation(self, round: int, alive: list[int], result: Evaluated) -> None:
        """Note the evaluation of the configurations ``alive``, which are of one task."""
        task = self._task(alive[0])
        columns = {name: values.tolist() for name, values in result.mean.items()}
        if len(task.test) > 1:
            for name in task.metrics:
                columns[f"{name}_unweighted"] = result.clients[name].nanmean(1).tolist()
            if "accuracy" in task.metrics:
                each = result.clients["accuracy"]
                sizes = torch.from_numpy(task.test.sizes).to(each.device)
                spread = fairness(each, sizes)
                columns.update((name, values.tolist()) for name, values in spread.items())
        for position, one in enumerate(alive):
            if one in self.diverged:
                continue
            self.rows[one] += [
                (round, "test", name, column[position]) for name, column in columns.items()
            ]
            self.last[one] = {name: values[position] for name, values in result.clients.items()}

    def state_dict(self) -> dict[str, Any]:
        """Everything recorded so far, in lists, numbers and tensors, not copied."""
        return {"rows": self.rows, "last": self.last, "diverged": self.diverged}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what :meth:`state_dict` gave."""
        self.rows, self.last, self.diverged = state["rows"], state["last"], state["diverged"]

    def histories(self, params: Sequence[dict[str, Tensor]], meta: dict[str, Any]) -> list[History]:
        """A history per configuration, with its final parameters and what all share."""
        names = ["round", "split", "metric", "value"]
        return [
            History(
                frame=pd.DataFrame(self.rows[one], columns=names),
                clients=self._clients(one),
                params=params[one],
                config=config,
                meta={**meta, "diverged": self.diverged.get(one)},
            )
            for one, config in enumerate(self.configs)
        ]

    def _task(self, one: int) -> Task:
        return self.tasks[one // self.columns]

    def _clients(self, one: int) -> pd.DataFrame:
        """``client, split, metric, value, examples`` at one configuration's last evaluation."""
        data = self._task(one).test
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
