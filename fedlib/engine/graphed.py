"""The backend of rows for CUDA with each local step recorded as a CUDA graph.

A small model's step is dozens of kernels that each run shorter than their launch takes. A graph
launches them all at once. A step is recorded for the shapes of its batch and state, and replayed
for every later step with these shapes: its inputs are copied into the recording's buffers first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from fedlib.algorithms.base import Algorithm, State
from fedlib.engine.feed import Feed
from fedlib.engine.oracles import Batch
from fedlib.engine.rows import FlatModel
from fedlib.engine.states import map_state
from fedlib.engine.vectorized import Vectorized
from fedlib.errors import Error

# Recordings kept. Those of unequal clients have many shapes, each for the clients still running.
RECORDINGS = 64
# Runs before recording, in which libraries choose their algorithms and allocate workspaces.
WARM_UP = 3


class CudaGraph:
    """A function without arguments as one launch.

    Args:
        pool: memory that all graphs of a program share: what one computes is copied out before the
            next one runs.
    """

    def __init__(self, function: Callable[[], State], pool: Any) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                function()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool):
            self.outputs = function()

    @staticmethod
    def pool(device: torch.device) -> Any:
        """Memory for the graphs of a program.

        Raises:
            Error: the device has no CUDA graphs.
        """
        if device.type != "cuda":
            raise Error(
                f"backend 'graphed' needs a CUDA device, this run is on {device}; "
                "use backend='auto' or device='cuda'"
            )
        return torch.cuda.graph_pool_handle()

    def replay(self) -> None:
        """Run the function again on what its inputs hold now; ``outputs`` are written over."""
        self.graph.replay()


class Recording:
    """One local step for states and batches of given shapes.

    Args:
        step: of the state and the batch.
        record: makes what replays a function, for instance a :class:`CudaGraph`.
    """

    def __init__(
        self,
        step: Callable[[State, Batch], State],
        state: State,
        batch: Batch,
        record: Callable[[Callable[[], State]], Any],
    ) -> None:
        self.state = map_state(_own, state)
        self.inputs = map_state(_own, _tensors(batch))
        copied = replace(batch, **self.inputs)
        # A step may write to its state; recording it must not move the client.
        backup = map_state(torch.clone, self.state)
        self.recorded = record(lambda: step(self.state, copied))
        map_state(Tensor.copy_, self.state, backup)

    def __call__(self, state: State, batch: Batch) -> State:
        """The state after the step: a copy, as the next replay writes over the outputs."""
        map_state(Tensor.copy_, self.state, state)
        map_state(Tensor.copy_, self.inputs, _tensors(batch))
        self.recorded.replay()
        return map_state(torch.clone, self.recorded.outputs)


class Graphed(Vectorized):
    """See :class:`Vectorized`; steps are replayed from CUDA graphs.

    Args:
        graph: what records a function and replays it.
    """

    def __init__(self, feed: Feed, model: FlatModel, graph: type[Any] = CudaGraph) -> None:
        super().__init__(feed, model)
        pool = graph.pool(feed.device)
        self.record = lambda function: graph(function, pool)
        self.method: Algorithm | None = None
        self.recordings: OrderedDict[Any, Recording | None] = OrderedDict()

    def step(self, method: Algorithm, state: State, batch: Batch) -> State:
        """One local step of all rows; the state is the caller's to keep."""
        # Hyperparameters are part of what is recorded, so for a new method all is recorded anew.
        if method is not self.method:
            self.method = method
            self.recordings.clear()
        key = (_shapes(state), _shapes(_tensors(batch)), self.model.model.training)
        known = self.recordings.get(key)
        if known is None:
            if key in self.recordings:  # the second time: it will come again
                known = Recording(partial(super().step, method), state, batch, self.record)
            self.recordings[key] = known
            if len(self.recordings) > RECORDINGS:
                self.recordings.popitem(last=False)
        self.recordings.move_to_end(key)
        return super().step(method, state, batch) if known is None else known(state, batch)


def _own(tensor: Tensor) -> Tensor:
    """A copy with memory of its own, also where clients share the original."""
    return tensor.clone(memory_format=torch.contiguous_format)


def _tensors(batch: Batch) -> State:
    return {name: value for name, value in vars(batch).items() if value is not None}


def _shapes(state: State) -> tuple[Any, ...]:
    """Names, shapes and types of a state's tensors, at any depth."""
    return tuple(
        (name, _shapes(value))
        if isinstance(value, dict)
        else (name, tuple(value.shape), value.dtype)
        for name, value in state.items()
    )
