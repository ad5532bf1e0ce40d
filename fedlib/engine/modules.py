"""Whether a user's module trains by rows as it does in plain PyTorch, seen before the first step.

Rows take it for a function of its parameters and its inputs. One that keeps something from call to
call, or whose gradient goes by a way that rows do not see, would train to other numbers with every
backend, in silence: here it is one line, or it is called in the way that suits it.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedlib import process, randomness
from fedlib.arguments import called
from fedlib.engine.fitting import Trial
from fedlib.engine.rows import FlatModel, Statistics, seeded
from fedlib.errors import Error
from fedlib.models.layers import real_examples
from fedlib.task import Task

EXAMPLES = 5  # of a batch; the first and the last stand for padding
CANDIDATES = 4096  # examples among which others for the place of padding are sought
ROUNDING = 1e-4  # relative; what is above it is another number
# Relative to the gradient of one parameter, and of all: far above the rounding of deep networks in
# float32, far below what a hook or another weight makes of it.
OF_ONE, OF_ALL = 1e-2, 1e-4
LOUD = 1e3  # what the loss is multiplied by, so that hooks which clip gradients do


def require_repeatable(task: Task, *models: nn.Module) -> None:
    """Require that two models, made with the same random numbers, start from the same ones."""
    pairs = (chain(model.named_parameters(), model.named_buffers()) for model in models)
    for (name, one), (_, other) in zip(*pairs, strict=False):
        if _differ(one, other):
            raise Error(
                f"task {task.name}: model() gives another {name!r} at each call: it draws from a "
                "generator of its own; draw from torch's, NumPy's or Python's, which the run seeds"
            )


def suit(
    task: Task, model: FlatModel, used: nn.Module, fresh: nn.Module, configurations: int = 1
) -> None:
    """Try a user's module, and have ``model`` call it in the way that it needs.

    For the inside of :func:`fedlib.process.alone`, as random numbers are seeded.

    Args:
        model: of the run.
        used, fresh: two more from ``task.new_model()``, made with the same random numbers and of
            the same type. The first has been called, the second has not.
        configurations: that train together.

    Raises:
        Error: its outputs depend on more than parameters and inputs, or its gradient is another
            than plain PyTorch's; what to do about it.
    """
    process.seed(0)
    trial = ModuleTrial(task, fresh, model.dtype)
    changes = [trial.changes_inputs(used, training) for training in (True, False)]
    model.copies_inputs = any(changes)
    process.seed(1)
    trial.require_in_state(task.new_model())
    process.seed(0)
    trial.move()
    trial.require_unchanged()
    mixes = [trial.mixes(training) for training in (True, False)]
    if any(mixes) or trial.counts_padding(model):
        model.see_real_examples_only()
    model.carries_rows = model.carries_rows and trial.carries_rows(min(2, configurations))
    if not model.carries_rows:
        trial.compare(model)


class ModuleTrial(Trial):
    """Calls of a module that has not been called.

    Args:
        task, model, dtype: see :func:`suit`.
    """

    def __init__(self, task: Task, model: nn.Module, dtype: torch.dtype) -> None:
        super().__init__(task, model, dtype)
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.statistics = Statistics(model).initial().to(dtype)

    def changes_inputs(self, used: nn.Module, training: bool) -> bool:
        """Whether a call changes its inputs.

        Raises:
            Error: outputs depend on earlier calls.
        """
        x = self._inputs(self._spread(EXAMPLES), training)[:2]
        outputs, given = [], x.clone()
        for model, inputs in ((used, x.clone()), (self.model, given)):
            statistics = Statistics(model)
            statistics.values = self.statistics  # which earlier calls have moved
            statistics.put_values(0)
            outputs.append(self._outputs(model, inputs, training))
        if _differ(*outputs):
            raise Error(
                f"{self.named} gives other outputs after earlier calls, with the same parameters "
                "and inputs: it keeps something from call to call, or draws from a generator of "
                "its own; compute all from the inputs, and draw from torch's, in training only"
            )
        return not torch.equal(given, x)

    def require_in_state(self, other: nn.Module) -> None:
        """Require that another model, made with other random numbers, gives this one's outputs once
        it has this one's state dict, by which runs are read back.

        Raises:
            Error: it does not.
        """
        x, outputs = self._inputs(self._spread(EXAMPLES), False)[:2], []
        state = self.model.state_dict()  # a call may have added to it
        with contextlib.suppress(RuntimeError):  # of other parts, which has no outputs then
            other.to(self.device, self.dtype).load_state_dict(state, strict=False)
            for model in (self.model, other):
                statistics = Statistics(model)
                statistics.values = self.statistics
                statistics.put_values(0)
                outputs.append(self._outputs(model, x.clone(), False))
        if not outputs or _differ(*outputs):
            raise Error(
                f"{self.named} has random numbers that its state dict lacks, so that no run could "
                "be read back; keep them by register_buffer(name, tensor), or fix their seed"
            )

    def move(self) -> None:
        """Move the parameters a little, as training will: zeros too, which may hide what they
        scale. They stay where the model does not take others.
        """
        before = [parameter.detach().clone() for parameter in self.parameters]
        for parameter, old in zip(self.parameters, before, strict=True):
            scale, noise = old.square().mean().sqrt(), torch.randn_like(old)
            parameter.data += 0.05 * (scale * noise if scale else noise.abs())
        try:
            taken = self._outputs(self.model, self._inputs(self._spread(2), True))
        except Error:
            taken = torch.full((1,), torch.nan)
        if not taken.isfinite().all():
            for parameter, old in zip(self.parameters, before, strict=True):
                parameter.data.copy_(old)

    def require_unchanged(self) -> None:
        """Require that a call changes no parameter, nor larger ones, which it may bound.

        Raises:
            Error: it changes one.
        """
        named = {n: p for n, p in self.model.named_parameters() if p.is_floating_point()}
        before = {name: parameter.detach().clone() for name, parameter in named.items()}
        for scale in (1.0, 10.0):
            for name, parameter in named.items():
                parameter.data.copy_(scale * before[name])
            with contextlib.suppress(Error):  # the model does not take such ones
                self._outputs(self.model, self._inputs(self._spread(2), True))
            for name, parameter in named.items():
                if not torch.equal(parameter, scale * before[name]):
                    raise Error(
                        f"{self.named} changes its parameter {name!r} in its forward pass, as "
                        "max_norm of an embedding does, which rows would lose; compute with a "
                        "bounded one instead, for instance torch.renorm(self.weight, 2, 0, 1.0)"
                    )
        for name, parameter in named.items():
            parameter.data.copy_(before[name])

    def mixes(self, training: bool) -> bool:
        """Whether outputs change with padding beside their examples.

        Raises:
            Error: the model does not take a batch of one example where it has to: if they do, and
                in evaluation.
        """
        x = self._inputs(self._spread(EXAMPLES), training)
        real = torch.tensor([False, *[True] * (EXAMPLES - 2), False], device=self.device)

        def outputs(batch: Tensor) -> Tensor:
            with real_examples(real):
                return self._outputs(self.model, batch, training)[1:-1]

        wanted = outputs(x.clone())
        mixes = False
        for batch in self._replaced(x, training):
            try:
                found = outputs(batch)
            except Error:  # the model does not take such inputs
                continue
            mixes |= not torch.allclose(found, wanted, rtol=1e-5, atol=1e-6, equal_nan=True)
        if mixes or not training:
            called(
                f"{self.named}, which looks across its batch, on one example, as a client's last "
                "batch may be (fedlib.models.replace_batch_norm(model, by='group') can do that),",
                self.model,
                x[:1].clone(),
            )
        return mixes

    def counts_padding(self, model: FlatModel) -> bool:
        """Whether outputs in training change with how much padding is behind their examples.

        So they do where dropout sees another axis first than the examples', as of ``[T, B, F]``.
        """
        rows, count = FlatModel(self.model, self.dtype, self.device), 4 * EXAMPLES
        rows.copies_inputs, rows.carries_rows = model.copies_inputs, False
        x = self._inputs(self._spread(count + 1), True).unsqueeze(0)
        real = torch.arange(count + 1, device=self.device).unsqueeze(0) < count
        leaves, key = rows.leaves(rows.initial().unsqueeze(0)), torch.zeros_like(real[:, 0]).long()

        def outputs(length: int) -> Tensor:
            with randomness.masks(key), real_examples(real[:, :length]), torch.no_grad():
                made: Tensor = rows.rows(leaves, x[:, :length].clone())
            return made[:, :count]

        what = f"{self.named} on {count + 1} examples"
        return _differ(*(called(what, outputs, n) for n in (count, count + 1)), rounding=OF_ONE)

    def carries_rows(self, configurations: int) -> bool:
        """Whether rows at once give what each gives alone, without torch's own random numbers.

        Not so where a parameter is used past fedlib's layers, or meets a frozen one.
        """
        rows = FlatModel(self.model, self.dtype, self.device)
        x = self._inputs(self._spread(6), True).unflatten(0, (2, 3))
        x0, keys = rows.initial(), torch.arange(2, device=self.device)
        scale = torch.linspace(0.8, 1.2, 2 * configurations).unsqueeze(1)
        vectors = x0 * (scale * (0.7 + 0.6 * torch.rand(len(scale), len(x0)))).to(x0)
        states = process.random_states()

        def outputs(leaves: Sequence[Tensor], clients: slice) -> Tensor:
            with randomness.masks(keys[clients]):
                return rows.rows(leaves, x[clients].clone())  # type: ignore[no-any-return]

        clients = [slice(row, row + 1) for row in range(2) for _ in range(configurations)]
        with torch.no_grad():
            leaves = map(rows.leaves, vectors.split(1))
            alone = torch.cat([*map(outputs, leaves, clients)])
            try:
                together = outputs(rows.views(vectors), slice(2))
            except Exception:  # of a layer that takes no rows
                return False
        # Norms of few examples make more of rounding.
        same = not _differ(alone, together, rounding=10 * ROUNDING)
        return same and "torch" not in process.drawn_since(states)

    def compare(self, model: FlatModel) -> None:
        """Compare the gradient by rows with plain PyTorch's at the parameters as they are.

        Raises:
            Error: it is another one for a single row. Where it is under torch.func.vmap alone,
                the run's ``model`` is told to do without.
        """
        numbers = self._spread(2)
        x, y = self._inputs(numbers, True), self.task.train.y[numbers].to(self.device)
        rows = FlatModel(self.model, self.dtype, self.device)
        rows.copies_inputs, rows.carries_rows = model.copies_inputs, False
        if model.mixes:
            rows.see_real_examples_only()
        vector = rows.initial().clone()

        def loss(outputs: Tensor) -> Tensor:
            return LOUD * self.task.loss(outputs, y.unsqueeze(0)).mean()

        def plain() -> Tensor:
            self.model.zero_grad()
            outputs = _keyed(self.model, x.clone()).unsqueeze(0)
            loss(outputs).backward()
            grads = [parameter.grad for parameter in self.parameters]
            self.model.zero_grad()
            return rows.flatten(grads, ())

        def by_rows(rows: FlatModel, leaves: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
            """The gradient, and parameters that the loss goes back to beside the leaves."""
            with randomness.masks(torch.zeros(1, dtype=torch.int64, device=self.device)):
                outputs = rows.rows(leaves, x.unsqueeze(0).clone())
            total = loss(outputs)
            grads = torch.autograd.grad(total, leaves, allow_unused=True)
            return rows.flatten(grads, ()), [p for p in _ends(total) if isinstance(p, nn.Parameter)]

        def agrees(chosen: Callable[[], FlatModel], leaves: Sequence[Tensor]) -> bool:
            try:
                mine, beside = by_rows(chosen(), leaves)
            except Exception:  # whatever torch.func.vmap cannot run, or has no copy
                return False
            return not beside and _first_other(rows, mine, wanted) is None

        what = f"{self.named}: its gradient"
        wanted = called(what, plain)
        with torch.no_grad():
            for parameter in self.parameters:  # so that it shows where these are read
                parameter.mul_(0.9)
        mine, beside = called(what, by_rows, rows, rows.leaves(vector.clone().unsqueeze(0)))
        for held in beside:
            names = [name for name, p in self.model.named_parameters() if p is held]
            raise Error(
                f"{self.named} reads the parameter {''.join(names) or 'of another module'} past "
                "its layer, by a list, a closure or another copy of it, so that it would not train;"
                " read it as the layer's attribute"
            )
        if (place := _first_other(rows, mine, wanted)) is not None:
            raise Error(
                f"{self.named}: the gradient of {rows.names[place]!r} by rows is not plain "
                "PyTorch's; what may be the cause is torch.utils.checkpoint, a hook, or weights "
                "that are kept elsewhere as well: take it out of the forward pass"
            )
        leaves = rows.leaves(vector.clone().unsqueeze(0))
        model.copyable = agrees(lambda: copy.deepcopy(rows), leaves)
        # With an axis of rows, by torch.func.vmap as long as that can.
        leaves = [view.requires_grad_() for view in rows.views(vector.clone().unsqueeze(0))]
        if rows.vmaps and not (agrees(lambda: rows, leaves) and rows.vmaps):
            model.vmaps = False

    def _spread(self, count: int) -> Tensor:
        """Numbers of that many examples; some twice where there are fewer."""
        index = self.task.train.index
        return index[np.linspace(0, len(index) - 1, count).astype(int)]

    def _inputs(self, numbers: Tensor, training: bool) -> Tensor:
        """The model's inputs for some examples."""
        keys = torch.zeros(1, len(numbers), dtype=torch.int64, device=self.device)
        raw = self.task.train.x[numbers].to(self.device).unsqueeze(0)
        return self.held(self.task.transform(raw, keys if training else None)).squeeze(0)

    def _replaced(self, x: Tensor, training: bool) -> Iterator[Tensor]:
        """Inputs with others in the first and the last place: far ones, or the data's own."""
        whole = not x.is_floating_point()
        count = min(CANDIDATES, len(self.task.train.index)) if whole else EXAMPLES
        known = self._inputs(self._spread(count), training)
        others = [] if whole else [x + sign * (x.abs().amax() * 2 + 1) for sign in (1, -1)]
        for most in (True, False):
            other = x.clone()
            for end in (0, -1):
                counts = (known != x[end]).reshape(len(known), -1).sum(1)
                differing = counts.nonzero().flatten()
                if len(differing):
                    order = counts[differing].argsort(descending=most)
                    other[end] = known[differing[order[0]]]
            others.append(other)
        for other in others:
            batch = x.clone()
            batch[[0, -1]] = other[[0, -1]]
            yield batch

    def _outputs(self, model: nn.Module, x: Tensor, training: bool = True) -> Tensor:
        model.train(training)
        outputs: Tensor = called(f"{self.named} on {len(x)} examples", _keyed, model, x)
        return outputs


def _keyed(model: nn.Module, x: Tensor) -> Any:
    """A call with a row's random numbers."""
    key = torch.zeros((), dtype=torch.int64, device=x.device)
    with randomness.masks(key):
        return seeded(model, x, key)


def _ends(value: Tensor) -> Iterator[Tensor]:
    """The leaves of a value's graph."""
    seen, ahead = set(), [value.grad_fn]
    while ahead:
        node = ahead.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            yield node.variable
        ahead += [following for following, _ in node.next_functions]


def _differ(one: Tensor, other: Tensor, *, rounding: float = ROUNDING) -> bool:
    """Whether more than rounding is between two."""
    if one.shape != other.shape or torch.equal(one, other):
        return one.shape != other.shape
    one, other = (values.detach().double().nan_to_num() for values in (one, other))
    return bool((one - other).norm() > rounding * one.norm())


def _first_other(rows: FlatModel, one: Tensor, wanted: Tensor) -> int | None:
    """The number of the first parameter whose gradient is another than was wanted."""
    allowed = OF_ALL * wanted.nan_to_num().norm()
    pairs = zip(*(v.nan_to_num().split(rows.sizes) for v in (one, wanted)), strict=True)
    for number, (mine, plain) in enumerate(pairs):
        if (mine - plain).norm() > OF_ONE * plain.norm() + allowed:
            return number
    return None
