"""Local steps as CUDA graphs: a step is recorded once and then repeated without Python.

The steps of small models are hundreds of short operations. A GPU computes them faster than a
processor can launch them. A graph launches all of them at once. It reads and writes the same memory
each time, so a step here goes from a state in some memory to the next state in the same memory.
"""

from collections import Counter
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fedlib.algorithms.base import Algorithm, State
from fedlib.engine.oracles import Batch
from fedlib.engine.states import flat, map_state

Step = Callable[[Algorithm, State, Batch], State]
# A step from the state in some memory to the next in the same. Returns the loss [..., 1].
Work = Callable[[], Tensor]
# The occurrence at which a kind of step is recorded. A step that occurs once needs no graph, and
# the set-up of CUDA's libraries at their first call cannot be recorded.
COMING = 3
# Kinds of steps with a graph. Each takes memory, and clients of unequal sizes make many.
MOST = 64


class Capture:
    """Records work on the GPU without running it. All graphs share the memory between two steps."""

    def __init__(self, device: torch.device) -> None:
        # torch's own stream for this would be on the GPU that was current first.
        self.stream, self.pool = torch.cuda.Stream(device), torch.cuda.graph_pool_handle()

    def __call__(self, work: Work) -> Work:
        graph = torch.cuda.CUDAGraph()
        # If other threads use the GPU meanwhile, neither they nor the recording may fail.
        recording = torch.cuda.graph(
            graph, self.pool, self.stream, capture_error_mode="thread_local"
        )
        # The outer one is left in any case, as torch does not leave it if a recording fails.
        with torch.cuda.stream(self.stream), recording:
            loss = work()

        def replay() -> Tensor:
            graph.replay()
            return loss.clone()

        return replay


class Recorder:
    """Takes local steps, and repeats those that recur from a graph.

    The next step with states of the same shapes overwrites the memory of a state ``[n, C, .]`` that
    this returns.

    Args:
        step: returns the state after a step, and its loss, as a function of tensors alone.
        captures: returns a function that turns work into a function that repeats it.
    """

    def __init__(self, step: Step, captures: Callable[[], Callable[[Work], Work]]) -> None:
        self.step, self.captures = step, captures
        self._begin(None)

    def _begin(self, method: Algorithm | None) -> None:
        """Forget all graphs. The next ones belong to a method, whose numbers they contain."""
        self.method, self.capture = method, self.captures()
        self.seen: Counter[Hashable] = Counter()
        self.settled: dict[Hashable, Any] = {}
        self.states: dict[Hashable, State] = {}
        self.graphs: dict[Hashable, _Graph | None] = {}

    def __call__(self, method: Algorithm, state: State, batch: Batch) -> State:
        if method is not self.method:  # for instance after a configuration has diverged
            self._begin(method)
        before = _kind(flat(state))
        if before not in self.settled:
            after = self.step(method, state, batch)
            self.settled[before] = _settled(state, _without_loss(after))
            return after
        memory = self.settled[before]
        kind = memory, _kind(_tensors(batch))
        if kind not in self.graphs:
            self.seen[kind] += 1
            if memory is None or self.seen[kind] < COMING or len(self.graphs) == MOST:
                return self.step(method, state, batch)
            try:
                if memory not in self.states:
                    self.states[memory] = _room(state, memory)
                step = partial(self.step, method, self.states[memory])
                self.graphs[kind] = _Graph(step, self.capture, self.states[memory], batch)
            except RuntimeError:  # CUDA cannot record this, or has no memory left for it
                self.graphs[kind] = None
        graph = self.graphs[kind]
        return self.step(method, state, batch) if graph is None else graph(state, batch)


class _Reads(TorchDispatchMode):
    """Keeps the tensors that work reads but has not made itself, as a graph reads their memory.

    Others may release them, for instance a user's loss whose weights move to another device.
    """

    def __init__(self) -> None:
        super().__init__()
        self.inputs: dict[int, Tensor] = {}
        self.results = set[int]()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        for tensor in _leaves((args, kwargs)):
            place = tensor.untyped_storage()._cdata
            if place not in self.results:
                self.inputs.setdefault(place, tensor)
        results = function(*args, **(kwargs or {}))
        for tensor in _leaves(results):
            if (place := tensor.untyped_storage()._cdata) not in self.inputs:
                self.results.add(place)
        return results


def _leaves(values: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


class _Graph:
    """A recorded step.

    Args:
        step: a step from a state in some memory.
        state: this memory, which also receives the next state.
        batch: a batch like those that it will take.
    """

    def __init__(
        self,
        step: Callable[[Batch], State],
        capture: Callable[[Work], Work],
        state: State,
        batch: Batch,
    ) -> None:
        self.state = state
        self.inputs = {name: _copy(tensor) for name, tensor in _tensors(batch).items()}
        places = {tensor.untyped_storage().data_ptr() for tensor in flat(state).values()}

        def apart(old: Tensor, new: Tensor) -> Tensor:
            """The new tensor, or a copy of it if it is a view of memory that will be written."""
            looks = new.untyped_storage().data_ptr() in places and not _same(old, new)
            return new.clone() if looks else new

        def work() -> Tensor:
            after = step(Batch(**self.inputs))
            map_state(_fill, state, map_state(apart, state, _without_loss(after)))
            loss: Tensor = after["loss"]
            return loss

        with _Reads() as reads:
            self.replay = capture(work)
        self.reads = list(reads.inputs.values())

    def __call__(self, state: State, batch: Batch) -> State:
        map_state(_fill, self.state, state)
        for name, tensor in self.inputs.items():
            _fill(tensor, getattr(batch, name))
        return {**self.state, "loss": self.replay()}


def _without_loss(state: State) -> State:
    return {name: part for name, part in state.items() if name != "loss"}


def _tensors(batch: Batch) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in vars(batch).items() if tensor is not None}


def _kind(tensors: dict[str, Tensor]) -> Hashable:
    """Names, shapes and types of tensors, and which axes repeat."""
    return tuple((name, t.shape, t.dtype, *_repeats(t)) for name, t in tensors.items())


def _settled(before: State, after: State) -> Any:
    """The kind of memory that fits before and after a step, or None if none does.

    Axes repeat only in tensors that the step leaves in place. So these are equal along them.
    """
    old, new = flat(before), flat(after)
    forms = [{name: (t.shape, t.dtype) for name, t in each.items()} for each in (old, new)]
    if forms[0] != forms[1]:
        return None
    return tuple(
        (name, t.shape, t.dtype, *(_same(t, new[name]) and r for r in _repeats(t)))
        for name, t in old.items()
    )


def _room(state: State, kind: Any) -> State:
    """Memory of a kind, for states like this one."""
    kinds = iter(kind)

    def room(part: Tensor) -> Tensor:
        _, shape, _, *repeats = next(kinds)
        sizes = [1 if r else size for r, size in zip(repeats, shape, strict=True)]
        return part.new_empty(sizes).expand(shape)

    return map_state(room, state)


def _repeats(tensor: Tensor) -> list[bool]:
    """Which axes repeat the same numbers."""
    axes = zip(tensor.stride(), tensor.shape, strict=True)
    return [stride == 0 and size > 1 for stride, size in axes]


def _once(tensor: Tensor, repeats: list[bool]) -> Tensor:
    """The tensor without the repeats along these axes."""
    return tensor[tuple(slice(0, 1) if r else slice(None) for r in repeats)]


def _copy(tensor: Tensor) -> Tensor:
    """A copy that repeats along the same axes."""
    return _once(tensor, _repeats(tensor)).clone().expand(tensor.shape)


def _same(left: Tensor, right: Tensor) -> bool:
    """Whether two tensors of one shape are the same memory."""
    return left.data_ptr() == right.data_ptr() and left.stride() == right.stride()


def _fill(old: Tensor, new: Tensor) -> Tensor:
    """Write into memory. Axes that repeat there also repeat in the new tensor."""
    if not _same(old, new):
        repeats = _repeats(old)
        _once(old, repeats).copy_(_once(new, repeats))
    return old
