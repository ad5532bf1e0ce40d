"""What a task is: data of the clients, a model, a loss, metrics and the papers' settings."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import inspect
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, ValuesView
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils.data import DataLoader

from fedlib import losses, process
from fedlib.arguments import Numbers, called, check_fields, checked, shown
from fedlib.errors import Error, first_line, require, unknown
from fedlib.losses import accuracy, cross_entropy

# Whether a notebook's plan is being read, which is pure data: see :func:`refuse_in_a_plan`.
PLANNING: ContextVar[bool] = ContextVar("planning", default=False)
# Bytes of a tensor, and of a partition, that are read again whenever a task is asked whether it is
# as it was.
SMALL, PARTITION = 2**19, 2**24
# Aggregation weights that float32 holds, and their sums.
WEIGHTS = 1e-30, 1e30
# A per-example loss: outputs [R, B, ...], targets [R, B, ...] -> [R, B].
PerExample = Callable[[Tensor, Tensor], Tensor]
# A metric: per-example values, or a pair (numerators, denominators) that are summed apart.
Metric = Callable[[Tensor, Tensor], Tensor | tuple[Tensor, Tensor]]
# A transform of raw inputs: x [G, B, ...] and keys int64 [G, B] when training, None when
# evaluating.
Transform = Callable[[Tensor, Tensor | None], Tensor]
# Who takes part: round from 0 and clients_per_round -> different clients, as many as it likes.
Cohorts = Callable[[int, int], np.ndarray]


def refuse_in_a_plan(deed: str) -> None:
    """Refuse what a notebook's plan must not do.

    Raises:
        Error: while a plan is being read; see :mod:`fedlib.plans`.
    """
    if PLANNING.get():
        raise Error(f"it {deed}; a plan only says which runs there are")


class NamedParts(list[np.ndarray]):
    """The clients' parts, with their names in the same order."""

    def __init__(self, parts: Iterable[np.ndarray], names: Sequence[Any]) -> None:
        super().__init__(parts)
        self.names = list(names)


@dataclass(frozen=True)
class ClientData:
    """The examples of a population of clients; an example may belong to several of them.

    Args:
        x: inputs ``[N, ...]`` of any dtype; the task's transform makes them what the model takes.
            A tensor, or what NumPy, pandas or scikit-learn have of numbers. Neither these nor the
            targets are copied where they need not be.
        y: targets ``[N, ...]``.
        parts: for each client the indices of its examples, in its own order; or these by the
            client's name, as ``frame.groupby("user").indices`` has them.
        ids: names of the clients, each another (text or numbers, also a column of pandas), in the
            order of the parts; default theirs, or ``"0"``, ``"1"``, ...
        weights: aggregation weight of each client, 0 or 1e-30 to 1e30 and not all 0; default its
            number of examples. What is reported is averaged over examples all the same.

    Raises:
        Error: parts that are no indices of examples, or numbers that do not fit; names the client.

    Example:
        >>> data = ClientData(torch.eye(3), torch.arange(3), [[0, 2], [1]], ids=["ann", "bob"])
        >>> len(data), data.sizes.tolist(), data.client_weights().tolist()
        (2, [2, 1], [2.0, 1.0])
    """

    x: Tensor
    y: Tensor
    parts: Sequence[Any] = field(repr=False)
    ids: ArrayLike = field(default=(), repr=False)
    weights: Numbers | None = field(default=None, repr=False)
    sizes: np.ndarray = field(init=False, repr=False)
    index: Tensor = field(init=False, repr=False)
    starts: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        names: Sequence[Any] = getattr(self.parts, "names", ())
        if isinstance(self.parts, Mapping):
            require_owners("client data: parts", pd.Series([*self.parts], dtype=object).to_numpy())
            names = [str(name) for name in self.parts]
            self._set(parts=list(self.parts.values()), ids=self.ids if np.size(self.ids) else names)
        elif isinstance(self.parts, (ValuesView, Iterator)):
            self._set(parts=list(self.parts))
        self._require_places()
        self._set(x=_tensor("x", self.x), y=_tensor("y", self.y))
        check_fields(self)
        self._set(x=_plain("x", self.x), y=_plain("y", self.y))
        count = len(self.x)
        if count != len(self.y):
            raise Error(f"client data: {count} inputs but {len(self.y)} targets; need as many")
        parts = checked_parts("client data: ", self.parts, count)
        sizes = np.array([len(part) for part in parts], dtype=np.int64)
        index = np.concatenate([sizes[:0], *parts])
        ids = np.asarray(self.ids)
        # A copy of its own; torch's tensors of several axes warn when NumPy asks them for one.
        weights = None if self.weights is None else np.asarray(self.weights, np.float64).copy()
        for field_, given in (("weights", weights), ("ids", ids if ids.size else None)):
            if given is not None and given.shape != sizes.shape:
                shape = f"{field_} of shape {given.shape} for {len(sizes)} clients"
                raise Error(f"client data: {shape}; need one each")
        require_owners("client data: ids", ids)
        owners, names = [str(name) for name in names], [str(name) for name in ids.tolist()]
        for place, (name, owner) in enumerate(zip(names, owners, strict=False)):
            if name != owner and name in owners:
                raise Error(
                    f"client data: ids calls client {place} {name!r}, who is {owner!r}; give the "
                    "ids in the order of the parts (of by_user: np.unique's)"
                )
        for name, count in Counter(names).items():
            if count > 1:
                raise Error(f"client data: two clients have the id {name!r}; give each its own")
        if weights is not None:
            low, high = WEIGHTS
            wrong = np.flatnonzero(~((weights == 0) | ((weights >= low) & (weights <= high))))
            if len(wrong):
                what = f"client data: client {wrong[0]} has weight {weights[wrong[0]]}"
                raise Error(f"{what}; allowed: 0, or {low:g} to {high:g}")
            if len(weights) and not weights.sum() > 0:
                raise Error("client data: all weights are 0; at least one must be positive")
        self._set(
            weights=weights,
            sizes=sizes,
            index=torch.from_numpy(index),
            starts=np.concatenate([[0], np.cumsum(sizes)])[:-1],
            ids=names or [str(i) for i in range(len(sizes))],
            parts=np.split(index, np.cumsum(sizes)[:-1]) if len(sizes) else (),
        )

    def digest(self) -> str:
        """64 hex digits of the SHA-256 of everything here, as it is now."""
        sha = hashlib.sha256()
        arrays = (self.starts, self.sizes, self.client_weights())
        for tensor in (self.x, self.y, *map(torch.from_numpy, arrays), self.index):
            sha.update(f"{tuple(tensor.shape)} {tensor.dtype};".encode())
            sha.update(_bytes(tensor))
        return hashlib.sha256(repr((sha.hexdigest(), self.ids)).encode()).hexdigest()

    def _require_places(self) -> None:
        """Refuse labels of rows as parts where they are not the rows' places.

        Raises:
            Error: they are, as ``frame.groupby("user").groups`` has them.
        """
        index = getattr(self.x, "index", None)
        parts = self.parts if isinstance(self.parts, Sequence) else ()  # else refused below
        labels = any(isinstance(part, pd.Index) for part in parts)
        if labels and isinstance(index, pd.Index) and not index.equals(pd.RangeIndex(len(index))):
            what = "client data: parts are labels of rows, which here are not their places"
            raise Error(f"{what}; give frame.groupby(...).indices, or reset_index(drop=True)")

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if len(self):  # a copy's parts, too, are views of its index
            self._set(parts=np.split(self.index.numpy(), np.cumsum(self.sizes)[:-1]))

    def limits(self) -> list[tuple[Tensor, int]]:
        """Its tensors, and up to how many bytes each is read again to see whether it changed."""
        return [(self.x, SMALL), (self.y, SMALL), (self.index, PARTITION)]

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    @checked
    def from_datasets(
        cls, datasets: Any, *, inputs: str = "", targets: str = "", client: str = ""
    ) -> ClientData:
        """Clients' data from data sets whose items are pairs ``(input, target)`` or dicts.

        They are read once, so random transforms give one draw; put them in ``Task.transform``.

        Args:
            datasets: a ``torch.utils.data`` Dataset or Subset for each client, in a list or by the
                clients' names; or, with ``client``, one data set of dicts, for instance of Hugging
                Face's.
            inputs, targets: fields of dicts; default the usual names, as ``image`` and ``label``.
            client: the field that says whose an item is.

        Raises:
            Error: items of another kind, or of different shapes; a DataLoader, which gives batches.

        Example:
            >>> from torch.utils.data import TensorDataset
            >>> whole = TensorDataset(torch.eye(3), torch.arange(3))
            >>> ClientData.from_datasets({"ann": whole, "bob": whole}).sizes.tolist()
            [3, 3]
        """
        named = isinstance(datasets, Mapping) and not client
        if not (client or isinstance(datasets, Iterable)):
            raise Error(f"client data: datasets is {shown(datasets)}; give a list of data sets")
        given = datasets if named else dict(enumerate([datasets] if client else datasets))
        examples: list[tuple[Tensor, Tensor]] = []
        sizes, owners = [], []
        for name, source in given.items():
            before, whose = len(examples), f"data set {name}"
            for place, item in _items(whose, source):
                what = f"client data: item {place} of {whose}"
                examples.append(_example(what, item, inputs, targets))
                if client:
                    if not (isinstance(item, Mapping) and client in item):
                        raise Error(f"{what} has no field {client!r}, the client's")
                    owner = item[client]
                    one = isinstance(owner, Tensor) and owner.numel() == 1
                    owners.append(owner.item() if one else owner)
                first, own = ([[*part.shape] for part in examples[at]] for at in (0, -1))
                if own != first:
                    raise Error(f"{what} has shapes {own}, the first one {first}; make them alike")
            sizes.append(len(examples) - before)
        if not examples:
            raise Error("client data: these data sets have no items")
        x, y = (torch.stack(parts) for parts in zip(*examples, strict=True))
        if client:
            require_owners(f"client data: field {client!r}", np.array(owners, dtype=object))
            names = pd.Series(owners).map(str)
            by_owner = names.groupby(names).indices
            return cls(x, y, list(by_owner.values()), list(by_owner))
        return cls(
            x, y, np.split(np.arange(len(x)), np.cumsum(sizes)[:-1]), [*given] if named else ()
        )

    def __len__(self) -> int:
        return len(self.sizes)

    def codes(self) -> np.ndarray:
        """The client of each entry of ``index``, int64."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def client_weights(self) -> np.ndarray:
        """float64 ``[clients]``: what each client counts in the aggregation."""
        return self.sizes.astype(np.float64) if self.weights is None else np.asarray(self.weights)


# The usual names of inputs and targets.
INPUTS = ("x", "image", "img", "input", "inputs", "features", "pixel_values", "input_ids")
TARGETS = ("y", "label", "labels", "target", "targets", "fine_label")


def require_owners(what: str, owners: np.ndarray) -> None:
    """Refuse owners of which one is missing (None, NaN or pandas.NA), or two would have one name.

    Args:
        what: they are, for the error.
    """
    missing = np.flatnonzero(pd.isna(owners))
    if len(missing):
        raise Error(f"{what}: number {missing[0]} is missing; name it, or leave its examples out")
    if owners.dtype == object and owners.ndim == 1:
        distinct = pd.Series(owners).drop_duplicates()
        again = distinct[distinct.map(str).duplicated()]
        if len(again):
            first = distinct[distinct.map(str) == str(again.iloc[0])].iloc[0]
            what += f": {shown(first)} and {shown(again.iloc[0])} would have one name"
            raise Error(f"{what}; make all of them text")


def _items(whose: str, dataset: Any) -> Iterator[tuple[int, Any]]:
    """The items of a data set with their places.

    Raises:
        Error: it is none, or an item cannot be read.
    """
    if isinstance(dataset, DataLoader):
        advice = "give its dataset, or torch.utils.data.Subset(dataset, indices)"
        raise Error(f"client data: {whose} is a DataLoader, which gives batches; {advice}")
    if hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__"):
        for place in range(len(dataset)):
            what = f"client data: item {place} of {whose} ({type(dataset).__name__})"
            yield place, called(what, dataset.__getitem__, place)
    elif isinstance(dataset, Iterable):
        yield from enumerate(dataset)
    else:
        raise Error(f"client data: {whose} is {shown(dataset)}; give a torch.utils.data.Dataset")


def _example(what: str, item: Any, inputs: str, targets: str) -> tuple[Tensor, Tensor]:
    """An item of a data set as tensors."""
    if isinstance(item, Mapping):
        fields = [inputs or next((name for name in INPUTS if name in item), "x")]
        fields += [targets or next((name for name in TARGETS if name in item), "y")]
        for field_ in fields:
            if field_ not in item:
                raise Error(f"{what}: {unknown('field', field_, item)}; name inputs and targets")
        item = [item[field_] for field_ in fields]
    if not isinstance(item, (tuple, list)) or len(item) != 2:
        raise Error(f"{what} is {shown(item)}; it must be a pair (input, target), or a dict")
    if getattr(item[0], "mode", "") in ("P", "PA"):
        raise Error(f"{what} is an image of numbers of a palette; make it colours: convert('RGB')")
    try:
        x, y = (torch.as_tensor(p if isinstance(p, Tensor) else np.array(p)) for p in item)
    except (TypeError, ValueError) as error:
        raise Error(f"{what} is no pair of numbers: {first_line(error)}; transform it") from None
    return x, y


def _tensor(name: str, values: Any) -> Any:
    """Inputs or targets as a tensor, where NumPy takes them for numbers.

    Raises:
        Error: they are arrays or tables of something else.
    """
    if isinstance(values, Tensor) or not hasattr(values, "__array__"):
        return values
    array = np.asarray(values)
    if array.dtype.kind not in "biufc":
        what = f"client data: {name} is a {type(values).__name__} of {array.dtype}"
        raise Error(f"{what}; give numbers (pandas.get_dummies(dtype=float), pandas.factorize)")
    array = array.astype(array.dtype.newbyteorder("="), copy=not array.flags.writeable)
    return called(f"client data: torch.as_tensor({name})", torch.as_tensor, array)


def _plain(name: str, tensor: Tensor) -> Tensor:
    """Inputs or targets as a dense tensor without a graph, whole numbers with a sign.

    Raises:
        Error: one of another kind.
    """
    kinds = {
        "sparse": tensor.layout != torch.strided,
        "nested": tensor.is_nested,
        "quantized": tensor.is_quantized,
        "without values (device 'meta')": tensor.is_meta,
    }
    for kind, given in kinds.items():
        if given:
            raise Error(f"client data: {name} is {kind}; give a dense tensor")
    if not tensor.dim():
        raise Error(f"client data: {name} is one number; its first axis is the examples'")
    with torch.inference_mode(False):
        if tensor.dtype in (torch.uint16, torch.uint32, torch.uint64):
            tensor = tensor.long()  # torch computes little with these
        if tensor.is_floating_point() and tensor.dtype.itemsize < 2:
            tensor = tensor.float()
        return tensor.clone() if tensor.is_inference() else tensor.detach()


def _bytes(tensor: Tensor) -> memoryview:
    """A tensor's values, one after the other."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().data


def indices(what: str, part: Any) -> np.ndarray:
    """A client's part as int64 ``[N]``.

    Args:
        what: it is, for the error.

    Raises:
        Error: a mask, fractions, or more than one dimension.
    """
    try:
        given = np.asarray(part)
    except (ValueError, TypeError, RuntimeError) as error:
        raise Error(f"{what} is no list of indices: {first_line(error)}") from None
    if given.ndim == 1 and (given.dtype.kind in "iu" or not given.size):
        return given.astype(np.int64, copy=False)
    if given.dtype == bool:
        raise Error(f"{what} is a mask; give indices, np.flatnonzero(mask)")
    raise Error(f"{what} is {given.dtype} of shape {given.shape}; give a list of indices")


def checked_parts(what: str, parts: Iterable[Any], count: int) -> list[np.ndarray]:
    """Clients' parts of ``count`` examples, as :func:`indices` gives each.

    Args:
        what: they are of, for the error.

    Raises:
        Error: one is no list of indices, or has one that is no example's; names the client.
    """
    read = [indices(f"{what}the part of client {i}", part) for i, part in enumerate(parts)]
    for client, part in enumerate(read):
        if len(part) and not 0 <= part.min() <= part.max() < count:
            outside = part[(part < 0) | (part >= count)][0]
            has = f"{what}client {client} has example {outside}, outside 0..{count - 1}"
            raise Error(f"{has}; check the partition")
    return read


def _require_plain(what: str, model: nn.Module) -> None:
    """Refuse parameters whose rows would train otherwise; a copy of the model shows no more of it.

    Raises:
        Error: one with a hook, which sees no gradient, or two on the same memory.
    """
    last, end = "", 0
    trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad and not is_lazy(p)]
    named = [(parameter.data_ptr(), name, parameter) for name, parameter in trained]
    for start, name, parameter in sorted(named, key=lambda found: found[:2]):
        if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
            raise Error(
                f"{what}: the model's {name} has a hook, which would see no gradient; freeze it by "
                "requires_grad_(False), or change the gradient in a client optimizer"
            )
        if start and start < end:
            raise Error(
                f"{what}: the model's {name} lies on the memory of {last}; make them one Parameter,"
                " or give one its own memory by clone()"
            )
        strides = zip(parameter.shape, parameter.stride(), strict=True)
        span = sum((size - 1) * stride for size, stride in strides) + 1
        last, end = name, start + span * parameter.element_size() * bool(parameter.numel())


def _parts(model: nn.Module) -> set[int]:
    """The identities of a model's modules and parameters."""
    return {id(part) for part in (*model.modules(), *model.parameters())}


# Numbers that histories have beside a task's metrics; see engine/fairness.py.
RESERVED = (
    "loss",
    "accuracy_std",
    "accuracy_std_weighted",
    "accuracy_worst_30",
    "accuracy_worst_30_weighted",
    "accuracy_worst_10",
    "error_rsd",
)
# Splits of a history's frames beside the data in ``Task.evaluated``.
SPLITS = ("train", "test", "communication", "personal")
# What of a task decides its numbers.
PARTS = set("model train test loss metrics transform reduction l2 cohorts pool evaluated".split())
PARTS.add("by_weights")


def _number() -> str:
    return os.urandom(8).hex()


def identity(x: Tensor, keys: Tensor | None) -> Tensor:
    """The inputs as they are."""
    return x


@dataclass(frozen=True)
class Fixed:
    """A transform without chance: whenever and however often, an example becomes the same inputs.

    Small data are transformed once, before the first round.

    Args:
        function: the transform; its keys are always None.
        read: for data that stay in the host's memory or a file: gives, for raw inputs, the tensors
            there that the function needs. They are moved to the device, and the function takes them
            in place of the inputs.

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


def _of_inputs(function: Callable[[Tensor], Tensor], x: Tensor, keys: Tensor | None) -> Tensor:
    return function(x)


def _takes_keys(transform: Any) -> bool:
    """Whether a transform takes keys beside the inputs; torchvision's take inputs alone."""
    module = isinstance(transform, nn.Module)
    try:
        signature = inspect.signature(transform.forward if module else transform)
    except (TypeError, ValueError):
        return True
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    named = kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD)
    many = inspect.Parameter.VAR_POSITIONAL in kinds and not module
    return many or named + kinds.count(inspect.Parameter.POSITIONAL_ONLY) > 1


@dataclass
class Task:
    """A federated learning problem, ready to run.

    Args:
        name: the task's name.
        model: makes the model; called with torch's, NumPy's and Python's random numbers seeded by
            the run's initialisation seed. An ordinary ``nn.Module`` works; one that declares
            ``carries_rows`` (see :mod:`fedlib.models`) is much faster. A module in place of the
            function, or one that it gives again, stays as it is: copies of it train.
        train, test: the clients' data. ``test`` may be one client that holds everything.
        loss: per-example loss, or one of torch's (``nn.CrossEntropyLoss(weight=...)``,
            ``F.mse_loss``), of which each example's own is taken; see
            ``fedlib.losses.OfTorch``.
        metrics: per-example values that are averaged over examples and, where the test data has
            clients, over clients; or pairs (numerators, denominators) that are summed over examples
            apart and divided. Default the accuracy, where outputs are scores of classes. The loss
            is always reported. They are called without gradients.
        transform: raw inputs to model inputs, with augmentation keyed per example in training;
            one without any is a function of the inputs alone, or :class:`fedlib.task.Fixed`.
        reduction: of a batch's losses in training, ``"mean"`` or ``"sum"``.
        l2: this times the sum of the squares of the model's weights is added to each example's
            training loss, but not to the reported one; parameters of normalisation layers do not
            count. The gradient grows by ``2 * l2`` times the weights.
        rounds, clients_per_round, batch_size, local_epochs: the paper's settings (``batch_size``
            None: the whole client is one batch; ``clients_per_round`` None: all clients).
        hyperparameters: for each algorithm the paper's values, by override key.
        client_hyperparameters: the same for each client optimizer; they count where the override
            ``client_optimizer`` names it, before ``hyperparameters``.
        preset, seed, options: how the task was loaded.
        stand_in: whether the data is an offline stand-in for the paper's.
        source, fingerprint: where the data comes from, and the hash of its contents.
        version: of a task that is not the catalogue's: your word that its code is the same wherever
            this text is. With it runs are stored, and answered for a task of the same name,
            version, data and parameters' shapes, or where ``model`` is a module their numbers;
            without it (the default) every run trains.
        classes: names of the labels 0, 1, ..., where they have any.
        cohorts: names the clients of a round, by their places in ``train``: a function of the
            round's number (from 0) and of ``clients_per_round``, which may give more or fewer, or
            none. Default that many uniformly without replacement, by the run's seed.
        pool: makes the centralised form, where it is more than all examples with one owner.
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
    pool: Callable[[], Task] | None = field(default=None, repr=False)
    evaluated: Mapping[str, ClientData] = field(default_factory=dict, repr=False)
    version: str = ""
    # Whether reported means are by the clients' weights: a quadratic's test loss is the objective.
    by_weights: bool = field(default=False, repr=False, compare=False)
    # What was here when the catalogue described it; None of a task that is made by hand, or a copy
    # with another part.
    _as_described: list[Any] | None = field(default=None, init=False, repr=False, compare=False)
    # Whether model() gives what it has given before, as far as that is known.
    _shares: bool | None = field(default=None, init=False, repr=False, compare=False)
    # Names it among the tasks of all processes; anew with each part that is set.
    number: str = field(default_factory=_number, init=False, repr=False, compare=False)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in PARTS:  # no longer what the catalogue describes
            super().__setattr__("_as_described", None)
            super().__setattr__("number", _number())
        if name == "model":  # a module stands for its copies
            if isinstance(value, nn.Module):
                _require_plain(f"task {self.name}", value)
            value = partial(copy.deepcopy, value) if isinstance(value, nn.Module) else value
            self._shares = None
        if name == "transform" and callable(value) and not _takes_keys(value):
            value = Fixed(partial(_of_inputs, value))
        if name == "loss" and isinstance(value, type):
            raise Error(f"task {self.name}: loss is the class {value.__name__}; give one of it")
        if name == "loss" and losses.of_torch(value):
            value = losses.OfTorch(value)
        super().__setattr__(name, value)

    @property
    def described(self) -> bool:
        """Whether name, options and fingerprint say everything, as of the catalogue's tasks.

        Not of one with another part, metric or split, that says another preset, seed or option than
        it was loaded with, or whose data or partition were changed in place: by torch, or, where
        they are small, through NumPy.
        """
        return self._as_described is not None and self._as_described == self._contents()

    @described.setter
    def described(self, yes: bool) -> None:
        self._as_described = self._contents() if yes else None

    def _contents(self) -> list[Any]:
        """What shows changes within the parts; of the data's numbers few are read."""
        data = [self.train, self.test, *self.evaluated.values()]
        limits = [(t, most) for each in data for t, most in each.limits()]
        versions = [tensor._version for tensor, _ in limits]
        sums = [zlib.crc32(_bytes(tensor)) for tensor, most in limits if tensor.nbytes <= most]
        clients = [part for each in data for part in (each.starts, each.sizes, each.weights)]
        sums += [zlib.crc32(part.tobytes()) for part in clients if isinstance(part, np.ndarray)]
        parts = [*self.metrics.items(), *self.evaluated, *map(id, data)]
        parts += [list(cast(list[str], each.ids)) for each in data]
        return [parts, versions, sums, self.preset, self.seed, dict(self.options)]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_as_described": self.described}  # a copy has other tensors

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.described = state["_as_described"]

    @property
    def identity(self) -> str:
        """What a configuration says of the data, taken now.

        Of a task of the catalogue its fingerprint; of one with a version a hash of its data and its
        parameters' names and shapes, and their numbers where a module was given that has them; of
        any other a number that no other task has, of this process or another, nor itself before it
        was changed.
        """
        if self.described:
            return self.fingerprint
        if not self.version:
            return f"task {self.number} {zlib.crc32(repr(self._contents()).encode()):08x}"
        with process.alone():
            process.seed(0)  # for what model() draws beside a module that it gives again
            model = self.new_model()
        shapes = [(name, tuple(parameter.shape)) for name, parameter in model.named_parameters()]
        data = [self.train.digest(), self.test.digest()]
        data += [f"{name} {more.digest()}" for name, more in self.evaluated.items()]
        if self._shares or getattr(self.model, "func", None) is copy.deepcopy:
            numbers = map(_bytes, (*model.parameters(), *model.buffers()))
            data += [hashlib.sha256(part).hexdigest() for part in numbers]
        parts = (data, shapes, self.reduction, self.l2)
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def centralized(self) -> Task:
        """The same problem with one client that holds every client's examples.

        An example that several clients hold is there once, and all count the same, whatever the
        clients' weights. The test data keep their clients.
        """
        pooled = self._pooled() if self.pool is None else self.pool()
        pooled.described, pooled.number = self.described, self.number
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

    def __post_init__(self) -> None:
        refuse_in_a_plan("loads a task")
        check_fields(self)
        known = self.reduction in ("mean", "sum")
        require(known, f"task {self.name}: reduction", self.reduction, "'mean', 'sum'")
        most = WEIGHTS[1]
        require(0 <= self.l2 <= most, f"task {self.name}: l2", self.l2, f"0 to {most:g}")
        self.l2 = float(self.l2)  # tensors take no whole number beyond 64 bits
        self.require_names()
        if not self.train.sizes.sum():
            lacking = f"none of the {len(self.train)} training clients has examples"
            lacking = lacking if len(self.train) else "no training clients"
            raise Error(f"task {self.name}: {lacking}; check the partition")
        if not self.test.sizes.sum():
            raise Error(f"task {self.name}: no test examples; nothing could be evaluated")

    def require_names(self) -> None:
        """Require metrics and evaluated data that are not named as something of fedlib's."""
        for name in self.metrics:
            if name in RESERVED or name.endswith("_unweighted"):
                raise Error(f"task {self.name}: metric {name!r} is a number of fedlib's; rename it")
        for split, data in self.evaluated.items():
            if split in SPLITS:
                raise Error(
                    f"task {self.name}: evaluated {split!r} is a split of fedlib's; rename it"
                )
            if not data.sizes.sum():
                raise Error(f"task {self.name}: evaluated {split!r} has no examples; leave it out")

    def new_model(self) -> nn.Module:
        """A new model, drawn from torch's generator as it stands.

        Raises:
            Error: ``model`` fails, or makes something else.
        """
        model = self._made()
        _require_plain(f"task {self.name}", model)
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            if is_lazy(tensor):
                raise Error(
                    f"task {self.name}: the model's {name} has no values yet; call the model on a "
                    "batch in the function that makes it, or give the layer its input size"
                )
            if tensor.is_complex():
                raise Error(f"task {self.name}: the model's {name} is complex; parts must be real")
            if tensor.is_meta:
                raise Error(f"task {self.name}: the model's {name} has no values (device 'meta')")
        if self._shares is None:
            self._shares = not self.described and bool(_parts(model) & _parts(self._made()))
        if not self._shares:
            return model
        what = f"task {self.name}: a copy of the module that model() gives again (make a new one)"
        copied: nn.Module = called(what, copy.deepcopy, model)
        return copied

    def trained(self, params: Mapping[str, Tensor]) -> nn.Module:
        """The model with trained parameters, a history's ``params``, in evaluation mode.

        Raises:
            Error: they are not this task's.
        """
        with process.alone():
            model = self.new_model()
        kinds = {tensor.dtype for tensor in params.values() if tensor.is_floating_point()}
        if kinds:  # the run's type, which the module may not have been made in
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
            raise Error(f"task {self.name}: model() gives a {kind}; it must make a torch.nn.Module")
        return model

    def __repr__(self) -> str:
        data = "stand-in data" if self.stand_in else "data"
        return (
            f"Task({self.name!r}, preset={self.preset!r}: {len(self.train)} training clients, "
            f"{int(self.train.sizes.sum())} examples, {data}: {self.source or 'in memory'})"
        )
