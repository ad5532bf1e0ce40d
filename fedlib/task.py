"""Tasks: data of the clients, a model, a loss, metrics and the papers' settings."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import inspect
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from fedlib import losses, process
from fedlib.arguments import called, check_fields
from fedlib.clients import WEIGHTS, ClientData, as_bytes
from fedlib.errors import Error, require
from fedlib.losses import accuracy, cross_entropy

# Whether a notebook's plan is being read, which must be pure data: see :func:`refuse_in_a_plan`.
PLANNING: ContextVar[bool] = ContextVar("planning", default=False)
# A per-example loss: outputs [R, B, ...], targets [R, B, ...] -> [R, B].
PerExample = Callable[[Tensor, Tensor], Tensor]
# A metric: per-example values, or a pair (numerators, denominators) that are summed separately.
Metric = Callable[[Tensor, Tensor], Tensor | tuple[Tensor, Tensor]]
# A transform of raw inputs: x [G, B, ...] and keys int64 [G, B] when training, None when
# evaluating.
Transform = Callable[[Tensor, Tensor | None], Tensor]
# Chooses cohorts: round from 0 and clients_per_round -> different clients, any number of them.
Cohorts = Callable[[int, int], np.ndarray]


def refuse_in_a_plan(deed: str) -> None:
    """Refuse an action that a notebook's plan must not do.

    Raises:
        Error: a plan is being read, see :mod:`fedlib.plans`.
    """
    if PLANNING.get():
        raise Error(f"it {deed}, but a plan only lists runs")


def _require_plain(what: str, model: nn.Module) -> None:
    """Refuse parameters that would train differently in rows, and that a copy does not reveal.

    Raises:
        Error: a parameter has a hook, which sees no gradient, or two share their memory.
    """
    last, end = "", 0
    trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad and not is_lazy(p)]
    named = [(parameter.data_ptr(), name, parameter) for name, parameter in trained]
    for start, name, parameter in sorted(named, key=lambda found: found[:2]):
        if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
            raise Error(
                f"{what}: the model's {name} has a hook, which would see no gradient. Freeze it by "
                "requires_grad_(False), or change the gradient in a client optimizer"
            )
        if start and start < end:
            raise Error(
                f"{what}: the model's {name} shares the memory of {last}. Make them one Parameter,"
                " or give one its own memory by clone()"
            )
        strides = zip(parameter.shape, parameter.stride(), strict=True)
        span = sum((size - 1) * stride for size, stride in strides) + 1
        last, end = name, start + span * parameter.element_size() * bool(parameter.numel())


def _parts(model: nn.Module) -> set[int]:
    """The identities of a model's modules and parameters."""
    return {id(part) for part in (*model.modules(), *model.parameters())}


# Numbers in histories besides a task's metrics, see engine/fairness.py.
RESERVED = (
    "loss",
    "accuracy_std",
    "accuracy_std_weighted",
    "accuracy_worst_30",
    "accuracy_worst_30_weighted",
    "accuracy_worst_10",
    "error_rsd",
)
# Splits of a history's frames besides the data in ``Task.evaluated``.
SPLITS = ("train", "test", "communication", "personal")


def identity(x: Tensor, keys: Tensor | None) -> Tensor:
    """The inputs as they are."""
    return x


@dataclass(frozen=True)
class Fixed:
    """A deterministic transform: an example always becomes the same inputs.

    Small data are transformed once, before the first round.

    Args:
        function: the transform. Its keys are always None.
        read: for data that stay in the host's memory or a file, a function that gives, for raw
            inputs, the tensors there that the transform needs. They are moved to the device, and
            the transform takes them in place of the inputs.

    Example:
        >>> import torch
        >>> import fedlib.task
        >>> fedlib.task.Fixed(lambda x, keys: x / 255)(torch.tensor([255.0]))
        tensor([1.])
    """

    function: Callable[[Any, Tensor | None], Tensor]
    read: Callable[[Tensor], dict[str, Tensor]] | None = None

    def __call__(self, x: Tensor, keys: Tensor | None = None) -> Tensor:
        return self.function(x if self.read is None else self.read(x), None)


def _of_inputs(function: Callable[..., Tensor], x: Tensor, keys: Tensor | None) -> Tensor:
    return function(x)


def _takes_keys(transform: Any) -> bool:
    """Whether a transform takes keys besides the inputs. Torchvision's transforms do not."""
    module = isinstance(transform, nn.Module)
    try:
        signature = inspect.signature(transform.forward if module else transform)
    except (TypeError, ValueError):
        return True
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    named = kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD)
    many = inspect.Parameter.VAR_POSITIONAL in kinds and not module
    return many or named + kinds.count(inspect.Parameter.POSITIONAL_ONLY) > 1


@dataclass(frozen=True, eq=False)
class Task:
    """A federated learning problem, ready to run.

    A task never changes: ``dataclasses.replace(task, l2=1e-4)`` gives a new one, which counts as
    the user's own even if the original was fedlib's.

    Args:
        name: the task's name.
        model: makes the model. It is called with torch's, NumPy's and Python's random numbers
            seeded by the run's initialisation seed. An ordinary ``nn.Module`` works. A module that
            declares ``carries_rows`` (see :mod:`fedlib.models`) is much faster. You may also give a
            module, or a function that returns the same one each time: only copies of it train.
        train, test: the clients' data. ``test`` may be one client that holds everything.
        loss: per-example loss, or one of torch's (``nn.CrossEntropyLoss(weight=...)``,
            ``F.mse_loss``), which is then evaluated per example, see ``fedlib.losses.OfTorch``.
        metrics: per-example values that are averaged over examples and, if the test data has
            clients, over clients. Or pairs (numerators, denominators) that are summed over examples
            separately and divided. Default: the accuracy, if outputs are scores of classes. The
            loss is always reported. Metrics are called without gradients.
        transform: raw inputs to model inputs, with augmentation keyed per example in training. A
            transform without augmentation is a function of the inputs alone, or
            :class:`fedlib.task.Fixed`.
        reduction: reduction of a batch's losses in training, ``"mean"`` or ``"sum"``.
        l2: this times the sum of the squares of the model's weights is added to each example's
            training loss, but not to the reported loss. Parameters of normalisation layers do not
            count. The gradient grows by ``2 * l2`` times the weights.
        rounds, clients_per_round, batch_size, local_epochs: the paper's settings (``batch_size``
            None: the whole client is one batch, ``clients_per_round`` None: all clients).
        hyperparameters: for each algorithm the paper's values, by override key.
        client_hyperparameters: the same for each client optimizer. If the override
            ``client_optimizer`` names it, they replace ``hyperparameters``.
        preset, seed, options: how the task was loaded.
        stand_in: whether the data is an offline stand-in for the paper's.
        source, fingerprint: source of the data, and the hash of its contents.
        version: for your own task, your promise that its code has not changed while this text has
        not. With it
            runs are stored, and reused for a task with the same name, version, data and parameters'
            shapes (or their numbers, if ``model`` is a module). Without it (the default) every run
            trains.
        classes: names of the labels 0, 1, ..., if they have any.
        cohorts: chooses the clients of a round, by their positions in ``train``: a function of the
            round's number (from 0) and of ``clients_per_round``, which may give more or fewer, or
            none. Default: that many, uniformly without replacement, by the run's seed.
        pool: makes the centralised form of a task, if it is not just all examples with one owner.
        evaluated: more data that the server model is evaluated on, by the split's name in a
            history's frames, for instance ``{"local": everything_that_each_client_holds}``.

    Example:
        >>> import numpy as np
        >>> import torch
        >>> import fedlib
        >>> x, y = torch.randn(60, 5), torch.arange(60) % 3
        >>> parts = np.split(np.arange(60), 4)  # of four clients
        >>> train, test = fedlib.ClientData(x, y, parts), fedlib.ClientData(x, y, [range(60)])
        >>> task = fedlib.Task("mine", lambda: torch.nn.Linear(5, 3), train, test)
        >>> fedlib.run(task, "fedavg", rounds=2)
        History(fedavg on mine, 2 rounds)
    """

    name: str
    model: Callable[[], nn.Module]
    train: ClientData
    test: ClientData
    loss: PerExample = cross_entropy
    metrics: Mapping[str, Metric] = field(default_factory=lambda: {"accuracy": accuracy})
    transform: Transform = identity
    reduction: str = "mean"
    l2: float = 0.0
    rounds: int = 100
    clients_per_round: int | None = 10
    batch_size: int | None = 20
    local_epochs: int = 1
    hyperparameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    client_hyperparameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    preset: str = "quick"
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    stand_in: bool = False
    source: str = ""
    fingerprint: str = ""
    classes: Sequence[str] = ()
    cohorts: Cohorts | None = field(default=None, repr=False)
    pool: Callable[[Task], Task] | None = field(default=None, repr=False)
    evaluated: Mapping[str, ClientData] = field(default_factory=dict, repr=False)
    version: str = ""
    # Whether reported means use the clients' weights: a quadratic's test loss is the objective.
    by_weights: bool = field(default=False, repr=False)
    # The contents when the catalogue described the task. None for the user's own task.
    _seal: list[Any] | None = field(default=None, init=False, repr=False)
    # Whether model() always gives the same model, as far as known.
    _shares: bool | None = field(default=None, init=False, repr=False)
    # Identifies it among the tasks of all processes.
    number: str = field(default_factory=lambda: os.urandom(8).hex(), init=False, repr=False)

    def __post_init__(self) -> None:
        refuse_in_a_plan("loads a task")
        what = f"task {self.name}"
        if isinstance(self.model, nn.Module):  # its copies will train
            _require_plain(what, self.model)
            self._set(model=partial(copy.deepcopy, self.model))
        own = self.transform is not identity and callable(self.transform)
        if own and not _takes_keys(self.transform):
            self._set(transform=Fixed(partial(_of_inputs, self.transform)))
        if isinstance(self.loss, type):
            raise Error(f"{what}: loss is the class {self.loss.__name__}: give an instance of it")
        if losses.of_torch(self.loss):
            self._set(loss=losses.OfTorch(self.loss))
        check_fields(self)
        known = self.reduction in ("mean", "sum")
        require(known, f"{what}: reduction", self.reduction, "'mean', 'sum'")
        if isinstance(self.loss, losses.OfTorch) and self.loss.total and self.reduction == "mean":
            raise Error(
                f"{what}: loss {self.loss.__name__} sums over a batch, but the task's reduction is "
                "'mean': give reduction='sum' to the task, or reduction='mean' to the loss"
            )
        most = WEIGHTS[1]
        require(0 <= self.l2 <= most, f"{what}: l2", self.l2, f"0 to {most:g}")
        self._set(l2=float(self.l2))  # tensors accept no whole number beyond 64 bits
        self.require_names()
        if not self.train.sizes.sum():
            lacking = f"none of the {len(self.train)} training clients has examples"
            lacking = lacking if len(self.train) else "no training clients"
            raise Error(f"{what}: {lacking}: check the partition")
        if not self.test.sizes.sum():
            raise Error(f"{what}: there are no test examples, so nothing could be evaluated")

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def as_described(self, **fields: Any) -> Task:
        """The catalogue's task of this name, which name, options and fingerprint identify."""
        task = dataclasses.replace(self, **fields)
        task._set(_seal=task._contents())
        return task

    @property
    def described(self) -> bool:
        """Whether it is the catalogue's task, and neither its dicts nor its data were changed in
        place, by torch or through NumPy (for large data a sample is compared).
        """
        return self._seal is not None and self._seal == self._contents()

    def _contents(self) -> list[Any]:
        dicts = [dict(each) for each in (self.metrics, self.evaluated, self.options)]
        data = (self.train, self.test, *self.evaluated.values())
        return [*dicts, *(each.contents() for each in data)]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_seal": self.described}  # a copy has other tensors

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._set(_seal=self._contents() if state["_seal"] else None)

    @property
    def identity(self) -> str:
        """The task's data in a configuration's description, computed now.

        For a task of the catalogue it is the fingerprint. For a task with a version it is a hash of
        its data and its parameters' names and shapes, and of their numbers if a module was given.
        For any other task it is a number that no other task has, in this process or another, nor
        the task itself before it was changed.
        """
        if self.described:
            return self.fingerprint
        if not self.version:
            return f"task {self.number} {zlib.crc32(repr(self._contents()).encode()):08x}"
        with process.alone():
            process.seed(0)  # for draws in a model() that returns the same module again
            model = self.new_model()
        shapes = [(name, tuple(parameter.shape)) for name, parameter in model.named_parameters()]
        data = [self.train.digest(), self.test.digest()]
        data += [f"{name} {more.digest()}" for name, more in self.evaluated.items()]
        if self._shares or getattr(self.model, "func", None) is copy.deepcopy:
            numbers = map(as_bytes, (*model.parameters(), *model.buffers()))
            data += [hashlib.sha256(part).hexdigest() for part in numbers]
        parts = (data, shapes, self.reduction, self.l2)
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def centralized(self) -> Task:
        """The same problem with one client that holds every client's examples.

        An example that several clients hold occurs once, and all count the same, whatever the
        clients' weights. The test data keep their clients.
        """
        pooled = self._pooled() if self.pool is None else self.pool(self)
        pooled = pooled.as_described() if self.described else pooled
        pooled._set(number=self.number)
        return pooled

    def _pooled(self) -> Task:
        data = self.train
        everything = np.unique(data.index.numpy())
        pooled = ClientData(data.x, data.y, [everything], ["all"])
        return dataclasses.replace(
            self,
            train=pooled,
            clients_per_round=None,
            cohorts=None,
            options={**self.options, "centralized": True},
        )

    def require_names(self) -> None:
        """Refuse metrics and evaluated data whose names fedlib itself uses."""
        for name in self.metrics:
            if name in RESERVED or name.endswith("_unweighted"):
                raise Error(f"task {self.name}: fedlib itself has a metric {name!r}: rename it")
        for split, data in self.evaluated.items():
            if split in SPLITS:
                what = f"task {self.name}: evaluated {split!r}"
                raise Error(f"{what} has the name of a split of fedlib's own: rename it")
            if not data.sizes.sum():
                raise Error(f"task {self.name}: evaluated {split!r} has no examples: leave it out")

    def new_model(self) -> nn.Module:
        """A new model, drawn from torch's generator in its current state.

        Raises:
            Error: ``model`` fails, or returns something else.
        """
        model = self._made()
        _require_plain(f"task {self.name}", model)
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            if is_lazy(tensor):
                raise Error(
                    f"task {self.name}: the model's {name} has no values yet. Call the model on a "
                    "batch in the function that makes it, or give the layer its input size"
                )
            if tensor.is_complex():
                raise Error(f"task {self.name}: the model's {name} is complex, but must be real")
            if tensor.is_meta:
                raise Error(f"task {self.name}: the model's {name} has no values (device 'meta')")
        if self._shares is None:
            again = not self.described and _parts(model) & _parts(self._made())
            self._set(_shares=bool(again))
        if not self._shares:
            return model
        what = f"task {self.name}: a copy of the module that model() gives again (make a new one)"
        copied: nn.Module = called(what, copy.deepcopy, model)
        return copied

    def trained(self, params: Mapping[str, Tensor]) -> nn.Module:
        """The model with trained parameters, a history's ``params``, in evaluation mode.

        Raises:
            Error: they do not belong to this task.
        """
        if complex_ones := [name for name, tensor in params.items() if tensor.is_complex()]:
            what = f"{complex_ones[0]} is complex"
            raise Error(f"task {self.name}: these are not its parameters: {what}")
        with process.alone():
            model = self.new_model()
        kinds = {tensor.dtype for tensor in params.values() if tensor.is_floating_point()}
        if kinds:  # the run's type, which may differ from the module's
            model.to(max(kinds, key=lambda kind: kind.itemsize))
        try:
            model.load_state_dict(params)
        except RuntimeError as error:
            reason = " ".join(str(error).split())
            raise Error(f"task {self.name}: these are not its parameters: {reason}") from None
        model.eval()
        return model

    def _made(self) -> nn.Module:
        model = called(f"task {self.name}: model()", self.model)
        if not isinstance(model, nn.Module):
            kind = type(model).__name__
            raise Error(f"task {self.name}: model() gives a {kind}, not a torch.nn.Module")
        return model

    def __repr__(self) -> str:
        data = "stand-in data" if self.stand_in else "data"
        return (
            f"Task({self.name!r}, preset={self.preset!r}: {len(self.train)} training clients, "
            f"{int(self.train.sizes.sum())} examples, {data}: {self.source or 'in memory'})"
        )
