"""Rows: many parameter vectors through one model.

A configuration × client pair is a row. All parameters of a row are in one vector of length P. The
model sees views of them, either with a leading row axis (layers that support rows, or any module
through ``torch.func.vmap``) or in their ordinary shapes (one row, or row after row for a module
that ``vmap`` cannot run, such as ``torch.nn.GRU``).
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from fedlib import process, randomness
from fedlib.algorithms.base import Part
from fedlib.errors import Error
from fedlib.models import layers
from fedlib.models.batch_norm import BatchNorm2d

# Torch's generators belong to the process, and parts of a cohort train in threads.
_generators = threading.Lock()


class Refusal(Error):
    """A model whose results even the plain loop could not reproduce."""


class NoPadding(TorchFunctionMode):
    """Under torch.func.vmap: refuse embeddings with padding, whose gradient vmap gets wrong.

    The message mentions vmap, so that rows are then computed one after the other.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        padding = kwargs.get("padding_idx", args[2] if len(args) > 2 else None)
        if func is F.embedding and padding is not None:
            raise RuntimeError("torch.func.vmap ignores an embedding's padding_idx")
        return func(*args, **kwargs)


def seeded(function: Callable[[Tensor], Any], x: Tensor, key: Tensor) -> Any:
    """``function(x)`` with torch's generators seeded by a 0-d key, and restored afterwards."""
    devices = [x.device] if x.is_cuda else []
    with _generators, torch.random.fork_rng(devices=devices):
        torch.default_generator.manual_seed(int(key))
        if devices:
            torch.cuda.manual_seed(int(key))
        return function(x)


def draws(function: Callable[[Tensor], Any], x: Tensor) -> bool:
    """Whether a call advances torch's generators. They are restored."""
    devices = [x.device] if x.is_cuda else []
    with _generators, torch.random.fork_rng(devices=devices), torch.no_grad():
        before = process.random_states()
        function(x)
        return "torch" in process.drawn_since(before)


class Vector:
    """Some of a model's tensors as one vector. Other tensors replace them during a call.

    Args:
        kind: ``"_parameters"`` or ``"_buffers"``.
        places: for each tensor the modules that hold it and its names there.

    Attributes:
        shapes, sizes: shape and size of each tensor.
        size: size of all of them.
    """

    def __init__(self, kind: str, places: Sequence[Sequence[tuple[nn.Module, str]]]) -> None:
        self.kind, self.places = kind, places
        self.original: list[Tensor] = [vars(m)[kind][name] for ((m, name), *_) in places]
        self.shapes = [tensor.shape for tensor in self.original]
        self.sizes = [math.prod(shape) for shape in self.shapes]
        self.size = sum(self.sizes)

    def initial(self) -> Tensor:
        """The model's own tensors as one vector."""
        flat = [tensor.detach().reshape(-1) for tensor in self.original]
        return torch.cat(flat) if flat else torch.zeros(0)

    def views(self, x: Tensor) -> list[Tensor]:
        """Views of vectors ``x [..., size]`` in the tensors' shapes, with any leading axes."""
        parts = x.detach().split_with_sizes(self.sizes, -1)
        return [p.view((*x.shape[:-1], *s)) for p, s in zip(parts, self.shapes, strict=True)]

    def put(self, tensors: Sequence[Tensor]) -> None:
        """Put these tensors into the model."""
        for places, tensor in zip(self.places, tensors, strict=True):
            for module, name in places:
                vars(module)[self.kind][name] = tensor


class Statistics(Vector):
    """The running statistics of a model, which a forward pass in training changes.

    Args:
        model: its layers list in ``moving`` the buffers that they replace by new ones.

    Attributes:
        moved: ``[..., B]``, the values after the first pass in training of those that
            :meth:`tracking` put in.
    """

    def __init__(self, model: nn.Module) -> None:
        places = [(m, name) for m in model.modules() for name in getattr(m, "moving", ())]
        super().__init__("_buffers", [[place] for place in places])
        self.values = self.moved = self.initial()
        self.awaits = False

    def tracking(self, values: Tensor | None) -> AbstractContextManager[Statistics]:
        """In this context the model has these values, ``[..., B]``. They have one row for every row
        of parameters, or a number of rows that divides theirs and is repeated.

        The first forward pass in training mode moves them, see :attr:`moved`. None: unchanged.
        """
        return self._tracking(values) if self.size else nullcontext(self)

    @contextmanager
    def _tracking(self, values: Tensor | None) -> Iterator[Statistics]:
        before = self.values, self.moved, self.awaits
        if values is not None:
            self.values, self.moved, self.awaits = values, values, True
        try:
            yield self
        finally:
            # The moved values are read after the block.
            self.values, _, self.awaits = before

    @contextmanager
    def of_row(self, row: int) -> Iterator[Statistics]:
        """In this context the values are those of one row, and ``moved`` has the new ones."""
        before = self.values, self.moved, self.awaits
        if self.size:
            values = self.values.reshape(-1, self.size)
            self.values = values[row % len(values)]
        try:
            yield self
        finally:
            self.values, self.moved, self.awaits = before

    def gather(self, moved: list[Tensor], training: bool) -> None:
        """Store the new values of rows, each from :meth:`of_row`, unless some are stored yet."""
        if self.awaits and training:
            self.moved, self.awaits = torch.stack(moved).reshape(self.values.shape), False

    def train(self) -> None:
        """Put the layers that have statistics into training mode."""
        for ((layer, _),) in self.places:
            layer.train()

    def put_values(self, rows: int) -> None:
        """Give the layers their values: ``rows`` of them, or 0 for one model without this axis."""
        if not self.size:
            return
        values = self.values.reshape(-1, self.size)
        if rows:
            values = values.expand(rows // len(values), *values.shape).reshape(rows, self.size)
        self.put(self.views(values if rows else values.squeeze(0)))

    def take(self) -> None:
        """Store the new values, unless some are stored yet."""
        if self.awaits:
            rows = self.values.shape[:-1]
            flat = [getattr(*place).reshape(*rows, -1) for (place,) in self.places]
            self.moved, self.awaits = torch.cat(flat, -1), False


@contextmanager
def _quiet() -> Iterator[None]:
    """Without torch's warnings of operations that torch.func.vmap does row by row."""
    functorch: Any = torch._C._functorch
    functorch._set_vmap_fallback_warning_enabled(False)
    try:
        yield
    finally:
        functorch._set_vmap_fallback_warning_enabled(True)


# Torch's messages if torch.func.vmap cannot run a model: recurrent layers, decisions on values,
# NumPy.
NO_VMAP = ("atching rule", "vmap", "data pointer")
NORMS = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)


class FlatModel(Vector):
    """A model as a function of a flat parameter vector.

    Args:
        model: the module, from here on in training mode. Its parameters that require a gradient are
            replaced by views during each call. Tied weights stay tied.
        dtype, device: type and device of parameters and buffers.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype, device: torch.device) -> None:
        self.model = _prepared(model).to(device=device, dtype=dtype)
        self.model.train()
        self.dtype, self.device = dtype, device
        self.carries_rows = bool(getattr(model, "carries_rows", False))
        self._draws: bool | None = None  # whether torch's own random numbers are drawn in training
        # Whether rows use torch.func.vmap, until it cannot run the model, or runs it wrong.
        self.vmaps = True
        self._vmapped = False  # whether it has, once
        self.copies_inputs = False  # a user's model may change its inputs, which others need too
        self.copyable = True  # whether a copy is independent, which closures prevent
        # Whether forward passes are one by one, in the module's own parameters.
        self.plain = False
        trained = {n: p for n, p in self.model.named_parameters() if p.requires_grad}
        if not trained:
            raise Error(f"model {type(model).__name__} has no parameters to train")
        self.names = list(trained)
        super().__init__("_parameters", [self._held(parameter) for parameter in trained.values()])
        # Weights of layers, as opposed to the scales and shifts of normalisation.
        self._weights = [not isinstance(places[0][0], NORMS) for places in self.places]
        self.statistics = Statistics(self.model)
        for module in self.model.modules():
            # Its padding and statistics have rows of their own.
            self.vmaps &= not isinstance(module, BatchNorm2d)

    def layout(self) -> dict[str, Part]:
        """The place of each parameter in a vector ``x [..., P]``."""
        ends = itertools.accumulate(self.sizes, initial=0)
        places = map(slice, *zip(*itertools.pairwise(ends), strict=True))
        return dict(zip(self.names, map(Part, places, map(tuple, self.shapes)), strict=True))

    def _held(self, parameter: nn.Parameter) -> list[tuple[nn.Module, str]]:
        """The places of a parameter in the model, several if its weights are tied."""
        return [
            (module, name)
            for module in self.model.modules()
            for name, held in module._parameters.items()
            if held is parameter
        ]

    def leaves(self, x: Tensor) -> list[Tensor]:
        """The views as leaves of the graph. A single row ``[1, P]`` gives leaves without row axis.

        Differentiating by these and joining the gradients is faster than by ``x`` itself.
        """
        vectors = x.squeeze(0) if x.dim() == 2 and len(x) == 1 else x
        return [view.requires_grad_() for view in self.views(vectors)]

    def named(self, x: Tensor) -> dict[str, Tensor]:
        """A vector ``x [P + B]`` as named tensors on the CPU for ``load_state_dict``: tied weights
        under all their names, frozen parameters and buffers unchanged.
        """
        with self.statistics.tracking(x[self.size :]):
            self.put(self.views(x[: self.size]))
            self.statistics.put_values(0)
            try:
                named = self.model.state_dict()
            finally:
                self.put(self.original)
                self.statistics.put(self.statistics.original)
        # Nothing here counts batches tracked, and loading does not need their number.
        return {
            name: tensor.cpu().clone()
            for name, tensor in named.items()
            if not name.endswith("num_batches_tracked")
        }

    def flatten(self, grads: Sequence[Tensor | None], rows: tuple[int, ...]) -> Tensor:
        """Gradients in the parameters' shapes as vectors ``[*rows, P]``. None counts as zero."""
        flat = [
            self.original[0].new_zeros(*rows, size) if grad is None else grad.reshape(*rows, size)
            for grad, size in zip(grads, self.sizes, strict=True)
        ]
        return flat[0] if len(flat) == 1 else torch.cat(flat, dim=-1)

    def descend(
        self, x: Tensor, grads: Sequence[Tensor | None], lr: Tensor, out: Tensor | None = None
    ) -> Tensor:
        """``x - lr * gradient [n, C, P]`` of rows, with gradients in the parameters' shapes.

        Each gradient is read once in its own memory. Joining them first would write and read all of
        them again.

        Args:
            lr: broadcasts to ``[n, C, 1]``.
            out: the tensor to write to, which may be ``x``. Default: a new tensor.
        """
        new = torch.empty_like(x, memory_format=torch.contiguous_format) if out is None else out
        olds = x.split_with_sizes(self.sizes, -1)
        parts = olds if new is x else new.split_with_sizes(self.sizes, -1)
        for old, part, grad in zip(olds, parts, grads, strict=True):
            if grad is None:
                part.copy_(old)  # this does nothing if x is written to itself
            else:
                torch.addcmul(old, grad.reshape(old.shape), lr, value=-1, out=part)
        return new

    @staticmethod
    def descend_one(leaves: Sequence[Tensor], grads: Sequence[Tensor | None], lr: Tensor) -> None:
        """``leaf - lr * gradient`` in place, for the leaves of a single row, all at once.

        Args:
            leaves, grads: in the parameters' shapes, from :meth:`leaves` for one row.
            lr: one number, on the CPU.
        """
        pairs = [(leaf, grad) for leaf, grad in zip(leaves, grads, strict=True) if grad is not None]
        if pairs:
            moved, steps = zip(*pairs, strict=True)
            torch._foreach_add_(moved, steps, alpha=-float(lr))

    def squares(self, leaves: Sequence[Tensor]) -> Tensor:
        """The sum of the squares of the weights except normalisation's: ``[R, 1]``, or a number for
        leaves without a row axis.
        """
        parts = [
            leaf.square().flatten(leaf.dim() - len(shape)).sum(-1) if shape else leaf.square()
            for leaf, shape, counts in zip(leaves, self.shapes, self._weights, strict=True)
            if counts
        ]
        total = torch.stack(parts).sum(0)
        return total.unsqueeze(-1) if total.dim() else total

    def rows(self, leaves: Sequence[Tensor], x: Tensor, features: bool = False) -> Any:
        """Outputs ``[R, B, ...]`` of R models for inputs ``[G, B, ...]``, where G divides R.

        One model's leaves may lack a row axis.

        Args:
            features: return a pair: outputs, and the models' features ``[R, B, F]``.
        """
        if self.plain:
            return self._one_by_one(leaves, x, features)
        function = self._with_features if features else self.model
        if leaves[0].dim() == len(self.shapes[0]):
            return self._single(function, leaves, x.squeeze(0))
        if self.carries_rows:
            return self._call(function, leaves, x)
        rows = len(leaves[0])
        outer = randomness.MASKS.get()
        given: list[Any] = [list(leaves), x.repeat_interleave(rows // len(x), dim=0)]
        if outer is not None:
            given.append(outer.keys.repeat_interleave(rows // len(outer.keys)))
        if self.vmaps:
            try:
                with nullcontext() if self._vmapped else NoPadding(), _quiet():
                    outputs = torch.func.vmap(partial(self._row, function, True))(*given)
                self._vmapped = True
                return outputs
            except RuntimeError as error:
                if not any(word in str(error) for word in NO_VMAP):
                    raise
                self.vmaps = False
        return self._looped(function, *given)

    def _row(
        self,
        function: Callable[[Tensor], Any],
        vmapped: bool,
        leaves: Sequence[Tensor],
        inputs: Tensor,
        key: Tensor | None = None,
    ) -> Any:
        """One row, with its dropout masks."""
        with randomness.masks(key, vmapped):
            return self._call(function, leaves, inputs)

    def _looped(
        self, function: Callable[[Tensor], Any], leaves: Sequence[Tensor], *given: Tensor
    ) -> Any:
        """Row after row, for models that vmap cannot run."""
        real, outputs, moved = layers.REAL.get(), [], []
        for row in range(len(leaves[0])):
            mask = None if real is None else real[row // (len(leaves[0]) // len(real))]
            with layers.real_examples(mask), self.statistics.of_row(row) as statistics:
                alone = [leaf[row] for leaf in leaves]
                outputs.append(self._row(function, False, alone, *(part[row] for part in given)))
                moved.append(statistics.moved)
        self.statistics.gather(moved, self.model.training)
        return _each_part(lambda *rows: torch.stack(rows), *outputs)

    def _one_by_one(self, leaves: Sequence[Tensor], x: Tensor, features: bool) -> Any:
        """Row after row, each computed by :meth:`pass_of_one`."""
        if leaves[0].dim() == len(self.shapes[0]):
            leaves = [leaf.unsqueeze(0) for leaf in leaves]
        outputs, rows = [], len(leaves[0])
        for row in range(rows):
            with self.statistics.of_row(row), self.holding([leaf[row] for leaf in leaves]):
                outputs.append(self.pass_of_one(x[row * len(x) // rows], None, features))
        return _each_part(lambda *each: torch.stack(each), *outputs)

    @contextmanager
    def holding(self, values: Sequence[Tensor]) -> Iterator[None]:
        """In this context the module's own parameters, the same objects, have these values.

        Raises:
            Error: the module has changed one of them in the meantime.
        """
        with torch.no_grad():
            for parameter, value in zip(self.original, values, strict=True):
                parameter.data.copy_(value)
        self.statistics.put_values(0)
        try:
            yield
        finally:
            self.statistics.put(self.statistics.original)
        for name, parameter, value in zip(self.names, self.original, values, strict=True):
            if not torch.equal(parameter.nan_to_num(), value.nan_to_num()):
                raise Refusal(
                    f"the model {type(self.model).__name__} changes its parameter {name!r} in its "
                    "forward pass, as max_norm of an embedding does, which no optimizer would see: "
                    "compute with a bounded one, for instance torch.renorm(self.weight, 2, 0, 1.0)"
                )

    def pass_of_one(self, x: Tensor, key: Tensor | None, features: bool = False) -> Any:
        """Outputs ``[B, ...]`` of the module with its current values, for inputs ``[B, ...]``.

        Args:
            key: 0-d, the key of all random numbers of this pass in training mode, or None.
            features: return a pair: outputs, and the features.
        """
        function, x = self._with_features if features else self.model, x.clone()
        with randomness.masks(key):
            outputs = seeded(function, x, key) if key is not None else function(x)
        if self.model.training:
            self.statistics.take()
        return _each_part(lambda t: t.to(self.dtype) if t.is_floating_point() else t, outputs)

    def _with_features(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = self.model.features(x)  # type: ignore[operator]
        return self.model.head(z), z  # type: ignore[operator]

    @contextmanager
    def evaluating(self, running: bool = True) -> Iterator[None]:
        """The model in evaluation mode inside, without dropout.

        Args:
            running: use running statistics, if there are any. Otherwise the batch's own.
        """
        before = self.model.training
        self.model.eval()
        if not running:
            self.statistics.train()
        try:
            yield
        finally:
            self.model.train(before)

    def _single(
        self, function: Callable[[Tensor], Any], leaves: Sequence[Tensor], x: Tensor
    ) -> Any:
        """Rows of one model, whose layers see neither a row axis nor its cost."""
        keyed, real = randomness.MASKS.get(), layers.REAL.get()
        with layers.real_examples(None if real is None else real.squeeze(0)):
            key = None if keyed is None else keyed.keys.squeeze(0)
            outputs = self._row(function, False, leaves, x, key)
        return _each_part(lambda output: output.unsqueeze(0), outputs)

    def _call(self, function: Callable[[Tensor], Any], leaves: Sequence[Tensor], x: Tensor) -> Any:
        rows = 0 if leaves[0].dim() == len(self.shapes[0]) else len(leaves[0])
        self.put(leaves)
        self.statistics.put_values(rows)
        try:
            outputs = self._seeded(function, x.clone() if self.copies_inputs else x)
            if self.model.training:
                self.statistics.take()
        finally:
            self.put(self.original)
            self.statistics.put(self.statistics.original)
        return _each_part(lambda t: t.to(self.dtype) if t.is_floating_point() else t, outputs)

    def _seeded(self, function: Callable[[Tensor], Any], x: Tensor) -> Any:
        """A pass. torch's own random numbers are functions of a single row's key."""
        keyed = randomness.MASKS.get()
        plain = self.carries_rows or not self.model.training or self._draws is False
        if plain or keyed is None or keyed.keys.dim() or keyed.vmapped:
            return function(x)
        if self._draws is None:
            self._draws = draws(function, x.clone() if self.copies_inputs else x)
            keyed.calls = 0  # the trial used the keys of layers with keyed masks
            self.statistics.put_values(0)  # and it moved these
        if not self._draws:
            return function(x)
        return _of_real_examples(lambda inputs: seeded(function, inputs, keyed.keys), x)


def _of_real_examples(function: Callable[[Tensor], Any], x: Tensor) -> Any:
    """``function`` of a batch without its padding, for which the outputs ``[B, ...]`` repeat the
    first example's. A loss may be infinite at zeros, and give NaN with any weight.

    The number of random numbers from torch's generators depends on the number of examples, and the
    padding depends on which clients train together.
    """
    real = layers.REAL.get()
    if real is None:
        return function(x)

    def padded(output: Tensor) -> Tensor:
        whole = output.detach()[:1].expand(len(real), *output.shape[1:])
        return whole.index_put((real,), output)

    with layers.real_examples(None):
        return _each_part(padded, function(x[real]))


def _each_part(function: Callable[..., Tensor], *outputs: Any) -> Any:
    """A function of forward passes' outputs, applied to each part of tuples."""
    if isinstance(outputs[0], tuple):
        return tuple(function(*parts) for parts in zip(*outputs, strict=True))
    return function(*outputs)


def _prepared(model: nn.Module) -> nn.Module:
    """A model whose dropout is keyed instead of torch's.

    Raises:
        Error: its parameters cannot be replaced, or it has state that rows cannot share.
    """
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            where = f"{name or 'the module'} ({type(module).__name__})"
            raise Error(
                f"model {type(model).__name__}: {where} is scripted, so its parameters cannot be "
                "replaced: give the nn.Module"
            )
    model.train()  # a pretrained layer may stay in evaluation mode, and keep its statistics
    for name, module in list(model.named_modules()):
        tracks = isinstance(module, nn.modules.batchnorm._BatchNorm) and module.track_running_stats
        tracks = tracks and module.training
        if tracks and not getattr(module, "moving", ()):
            raise Error(
                f"model {type(model).__name__}: {name or 'module'} keeps running statistics, which "
                "rows cannot share. Use fedlib.models.replace_batch_norm(model, by='group')"
                + (", or by='batch', or by='running'" if type(module) is nn.BatchNorm2d else "")
                + ". A pretrained layer that train() leaves in evaluation mode may stay"
            )
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
            module.sparse = False  # as gradients are joined in one vector
        if type(module) is nn.Dropout and name:
            parent, _, leaf = name.rpartition(".")
            setattr(model.get_submodule(parent), leaf, layers.Dropout(module.p))
    return model
