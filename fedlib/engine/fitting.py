"""Checks before the first step that a task's data, model, loss and metrics fit together.

A label without a model output would be a device assert on a GPU, a label of another shape may be
broadcast to a wrong loss, and a module that changes its buffers trains differently with every
backend. Here each is one line that names the client, the example and the value.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedlib import losses, process
from fedlib.arguments import called
from fedlib.clients import ClientData
from fedlib.engine.evaluation import metrics_of
from fedlib.engine.rows import Statistics
from fedlib.errors import Error
from fedlib.losses import each_examples, told
from fedlib.task import Metric, Task, identity

# The data of the catalogue's tasks were checked when they were prepared or imported. If they have
# more numbers than this, they may be on a disk and are not read again.
READ_AGAIN = 2**24


def require_fit(task: Task, model: nn.Module, dtype: torch.dtype) -> None:
    """Try a model on examples of the training and the test data, and check all labels.

    The model is called in training mode on the first example. If inputs are whole numbers, such as
    tokens, it is also called on those with the smallest and the largest number. If the loss
    declares its targets (:func:`fedlib.losses.needs`), all labels are compared with the outputs.
    Call it inside :func:`fedlib.process.alone`, as it seeds random numbers.

    Args:
        model: a spare model.
        dtype: type of its parameters.

    Raises:
        Error: something does not fit, with the client, the example and the value, or the buffers of
            a module change in its forward pass.
    """
    process.seed(0)
    trial = Trial(task, model.to(dtype), dtype)
    buffers = _buffers(model)
    task.require_names()
    for split, data in {"train": task.train, "test": task.test, **task.evaluated}.items():
        model.train(split == "train")
        require_finite(task, split, data, dtype)
        outputs = [trial.outputs(split, data, place) for place in _places(task, data)]
        if split == "train":
            after = _buffers(model)
            trial.outputs(split, data, 0)
            trial.require_constant(buffers, after)
        trial.check_transform(split, data)
        trial.check_losses(split, data, outputs[0])


class Trial:
    """Calls of a task's own functions, each on two copies of one example.

    Args:
        task, model, dtype: see :func:`require_fit`.
    """

    def __init__(self, task: Task, model: nn.Module, dtype: torch.dtype) -> None:
        self.task, self.model, self.dtype = task, model, dtype
        self.named = f"task {task.name}: the model {type(model).__name__}"
        self.device = next((p.device for p in model.parameters()), torch.device("cpu"))

    def outputs(self, split: str, data: ClientData, place: int) -> Tensor:
        """The model's outputs ``[2, ...]`` for the example at a position of ``data.index``."""
        client, example = _where(data, place)
        raw = data.x[[example, example]].to(self.device)
        training = split == "train"
        keys = torch.zeros(1, 2, dtype=torch.int64, device=self.device) if training else None
        what = f"{split} client {client}'s example {example}, {told(raw[0])}"
        whose = f"task {self.task.name}: the transform"
        transform = partial(_repeatable, whose, self.task.transform)
        x = called(f"{whose} on {what}", transform, raw.unsqueeze(0), keys)
        if not isinstance(x, Tensor) or x.shape[:2] != (1, 2):
            raise Error(f"{whose} gives {told(x)}, but must give [1, 2, ...]")
        if x.is_floating_point() and not torch.isfinite(x).all():
            raise Error(f"{whose} gives NaN or infinity for {what}")
        named = f"{self.named} in {'training' if training else 'evaluation'}"
        model = partial(_repeatable, named, self.model, keyed="torch" if training else "")
        outputs = called(f"{self.named} on {what}", model, self.held(x).squeeze(0))
        if not isinstance(outputs, Tensor) or outputs.is_complex() or outputs.shape[:1] != (2,):
            raise Error(
                f"{self.named} gives {told(outputs)} for 2 examples, but must give a tensor of "
                "real numbers whose first axis is the examples'"
            )
        return outputs

    def check_transform(self, split: str, data: ClientData) -> None:
        """Require a transform whose result for an example does not depend on other examples."""
        transform = self.task.transform
        if self.task.described or transform is identity:
            return
        whose = f"task {self.task.name}: the transform"
        places = np.linspace(0, data.sizes.sum() - 1, 5).astype(int)
        raw = data.x[data.index[places]].to(self.device)
        keys, others = torch.arange(10, device=self.device).view(2, -1)
        call = partial(_called_twice, whose, transform)

        def made(rows: list[Tensor], keyed: list[Tensor]) -> Tensor:
            given = torch.stack(keyed) if split == "train" else None
            shape = f"[{len(rows)}, {len(raw)}, ...]"
            x = called(f"{whose} on {told(raw)} as {shape}", call, torch.stack(rows), given)
            if not isinstance(x, Tensor) or x.shape[:2] != (len(rows), len(raw)):
                raise Error(f"{whose} gives {told(x)}, but must give {shape}")
            return x

        together = made([raw], [keys])[0]
        # Batches of copies of each, with other keys, and, as in training, a second row.
        for place in range(len(raw)):
            own = others.clone()
            own[place] = keys[place]
            alone = made([raw[[place] * len(raw)]], [own])[0]
            if not _same(alone[place], together[place]):
                raise Error(_beside(whose))
        if split == "train" and not _close(made([raw, raw.flip(0)], [keys, others])[0], together):
            raise Error(_beside(whose))

    def held(self, x: Tensor) -> Tensor:
        """Inputs in the run's type."""
        return x.to(self.dtype) if x.is_floating_point() else x

    def require_constant(self, before: dict[str, Tensor], first: dict[str, Tensor]) -> None:
        """Require that a forward pass keeps the buffers. It may fill a cache the first time."""
        for name, buffer in _buffers(self.model).items():
            for earlier in (before.get(name, buffer), first.get(name)):
                if earlier is None or not _same(earlier, buffer):
                    raise Error(
                        f"{self.named}: its forward pass changes the buffer {name!r}, which rows "
                        "and clients cannot share: keep it constant, or compute it from the batch"
                    )

    def check_losses(self, split: str, data: ClientData, outputs: Tensor | None = None) -> None:
        """Require labels that fit the outputs, and a loss and metrics that accept them.

        Args:
            outputs: outputs for two copies of the first example, ``[2, ...]``.
        """
        outputs = self.outputs(split, data, 0) if outputs is None else outputs
        kind, compared = getattr(self.task.loss, "targets", None), outputs
        if isinstance(self.task.loss, losses.OfTorch):
            kind, compared = self.task.loss.compared(outputs, data.y)
        if kind is not None:
            _check_labels(self.task, split, data, compared, kind)
        example = _where(data, 0)[1]
        other = example if self.task.described else _unlike(data, example)
        y = data.y[[example, other]].to(outputs.device)
        rows, labels = outputs.unsqueeze(0), y[[0, 0]].unsqueeze(0)
        trained = any(p.requires_grad for p in self.model.parameters())
        (value,) = self._own("loss", self.task.loss, rows, labels, y)
        if isinstance(self.task.loss, losses.OfTorch) and not self.task.described:
            self._require_mean(self.task.loss, outputs.detach(), y)
        if split == "train" and trained and not value.requires_grad:
            raise Error(
                f"task {self.task.name}: loss does not depend on the parameters of "
                f"{type(self.model).__name__}: its outputs are detached from them"
            )
        if split != "train":
            with torch.no_grad():
                for name, metric in metrics_of(self.task, outputs, data.y).items():
                    self._own(f"{name} (a metric)", metric, rows.detach(), labels, y)
        self._check_missing(split, data)

    def _require_mean(self, loss: losses.OfTorch, outputs: Tensor, y: Tensor) -> None:
        """Require that the loss of a batch follows from those of its examples.

        Raises:
            Error: it weighs the examples in a way that is not known.
        """
        whole, mean = loss.reduced(outputs, y)
        if whole.numel() == 1 and not _close(
            whole.reshape(1), mean.reshape(1), 1 + float(mean.abs())
        ):
            raise Error(
                f"task {self.task.name}: {loss.__name__} of two examples is {float(whole):g}, and "
                f"{float(mean):g} by their own losses, so it weighs examples in its mean. Use "
                "torch's own loss with weight=, or give a loss of each example, [R, B]"
            )

    def _own(
        self, name: str, function: Metric, rows: Tensor, labels: Tensor, y: Tensor
    ) -> tuple[Tensor, ...]:
        """A loss, or a metric's parts, for copies of an example ``[1, 2, ...]``.

        Args:
            y: the example's label and another one.

        Raises:
            Error: they are not separate for each example.
        """
        what, pairs = f"task {self.task.name}: {name}", name != "loss"
        if self.task.described:
            return _parts(what, partial(_repeatable, what, function), rows, labels, pairs)
        function = partial(_called_twice, what, function, keeps=True)
        own = _parts(what, function, rows, labels, pairs)
        first, last = rows.split(1, 1)
        scale = 1 + float(rows.detach().nan_to_num().abs().max())
        # As in training: several rows, and another number of examples.
        several = name == "loss" and len(self.task.train) > 1
        many = torch.tensor([[0, 1, 1], [1, 1, 0]] if several else [[1, 1, 0]])
        # Other outputs beside it, larger and smaller, but still probabilities.
        for other in (0.5 * last + 0.5, torch.min(last / 2, 2 * last)):
            both = torch.cat([first, other], 1)
            beside = _parts(what, function, both, y.unsqueeze(0), pairs)
            alone = all(_same(a[:, 0], b[:, 0]) for a, b in zip(own, beside, strict=True))
            if alone:
                others = _parts(what, function, both[0, many], y[many], pairs)
                both_ways = zip(beside, others, strict=True)
                alone = all(_close(a[0], b[-1, [2, 0]], scale) for a, b in both_ways)
            if not alone:
                shapes = f"outputs {_shape(rows[0])}, labels {_shape(labels[0])}"
                if abs(rows.dim() - labels.dim()) == 1 and 1 in (rows.shape[-1], labels.shape[-1]):
                    shapes += ", which broadcast to [B, B]: squeeze(-1) the axis of 1"
                raise Error(
                    f"{what} of an example changes with the others' outputs or labels, so that "
                    f"padding would count in it: it must be separate for each example ({shapes})"
                )
        return own

    def _check_missing(self, split: str, data: ClientData) -> None:
        """Require a finite loss if labels are not finite. Some losses leave such labels out."""
        if self.task.described or not data.y.is_floating_point():
            return
        bad = ~torch.isfinite(data.y.to(self.dtype))
        if (place := _first_place(data, bad)) is None:
            return
        example = int(data.index[place])
        outputs = self.outputs(split, data, place)
        y = data.y[[example, example]].to(outputs.device).unsqueeze(0)
        what = f"task {self.task.name}: loss"
        (loss,) = _parts(what, self.task.loss, outputs.unsqueeze(0), y, pairs=False)
        if not torch.isfinite(loss).all():
            named = f"{_value(data.y[example])}, so that its loss is {loss.flatten()[0].item()}"
            what = f"the label {named}; clean the data, or leave the example out"
            raise _wrong(self.task, split, data, place, what)


def _check_labels(task: Task, split: str, data: ClientData, outputs: Tensor, kind: str) -> None:
    """Require labels of the kind that the loss declares."""
    y, loss = data.y, getattr(task.loss, "__name__", "the loss")
    classes = kind == losses.CLASSES
    if classes and outputs.dim() < 2:
        raise Error(
            f"task {task.name}: the model gives one number for an example, but {loss} needs one "
            "for each class"
        )
    shape, count = (outputs.shape[1:-1], outputs.shape[-1]) if classes else (outputs.shape[1:], 0)
    need = {
        losses.CLASSES: f"whole numbers in 0..{count - 1}",
        losses.VALUES: "finite numbers",
        losses.SHARES: "numbers between 0 and 1",
        losses.SIGNS: "-1 and 1",
    }[kind] + (f" of shape {tuple(shape)}" if shape else ", one for each example")

    other = y.is_complex() or (classes and y.is_floating_point()) or y.shape[1:] != shape
    if task.described and y.numel() > READ_AGAIN and not other:
        return
    if other:
        bad = torch.ones(len(y), dtype=torch.bool)
    elif classes:
        bad = (y < 0) | (y.long() >= count)  # the count may exceed eight bits
        if (ignored := getattr(task.loss, "ignored", None)) is not None:
            bad &= y.long() != ignored
    elif kind == losses.VALUES:
        bad = ~torch.isfinite(y)
    elif kind == losses.SIGNS:
        bad = y.abs() != 1
    else:
        bad = ~((y >= 0) & (y <= 1))
    if (place := _first_place(data, bad)) is not None:
        label = y[data.index[place]]
        named = f"{_value(label)} ({str(y.dtype).removeprefix('torch.')})"
        if not other and label.numel() > 4:
            named = f"{named}, in it {label[bad[data.index[place]]][0].item()}"
        way = losses.way_out(outputs, y) if other else _way_out(y, kind, count)
        if classes and y.is_floating_point():
            way = ": give y.long(), or for a regression loss=nn.MSELoss()"
        raise _wrong(task, split, data, place, f"the label {named}, but {loss} needs {need}{way}")


def _way_out(y: Tensor, kind: str, count: int) -> str:
    """Advice for labels of the right shape with numbers that are usual elsewhere.

    Args:
        count: number of classes, 0 if labels are not classes.
    """
    some = y.flatten()[: 2**20].unique()[:300].tolist()
    low, high, two = min(some), max(some), len(some) == 2
    if count == 1:
        return ": give the model an output for each, or use nn.BCEWithLogitsLoss()"
    if low >= 0 and high == 255 and (two or kind == losses.SHARES):
        return ": give y // 255" if count else ": give y / 255"  # a mask as in image files
    if low == 1 and (high == count or (two and high == 2)):
        return ": classes are numbered from 0, so give y - 1"
    if kind == losses.SIGNS and 0 <= low <= high <= 1:
        return ": give 2 * y - 1"
    return ": give (y + 1) / 2" if kind == losses.SHARES and two and (low, high) == (-1, 1) else ""


def require_finite(task: Task, split: str, data: ClientData, dtype: torch.dtype) -> None:
    """Require inputs that are finite in the run's type. Whole data are read once per run."""
    x = data.x
    if task.described or not x.is_floating_point() or not x.numel():
        return
    if torch.isfinite(torch.stack(x.aminmax()).to(dtype)).all():
        return
    if (place := _first_place(data, ~torch.isfinite(x.to(dtype)))) is not None:
        values = x[data.index[place]].flatten()
        value = values[~torch.isfinite(values.to(dtype))][0].item()
        what = f"the input {value}, no finite {str(dtype).removeprefix('torch.')}; clean the data "
        what += "(torch.nan_to_num), or leave the example out"
        raise _wrong(task, split, data, place, what)


def _places(task: Task, data: ClientData) -> list[int]:
    """Positions of examples to try: the first, and those with the extreme whole numbers."""
    x, places = data.x, {0: None}
    whole = not (x.is_floating_point() or x.is_complex() or x.dtype == torch.bool)
    if whole and x[0].numel() and not (task.described and x.numel() > READ_AGAIN):
        low, high = x.flatten(1).aminmax(dim=1) if x.dim() > 1 else (x, x)
        places |= {int(low[data.index].argmin()): None, int(high[data.index].argmax()): None}
    return list(places)


def _first_place(data: ClientData, bad: Tensor) -> int | None:
    """The position of the first example of a client with something ``bad [N, ...]``."""
    if not bad.any():
        return None
    wrong = bad.flatten(1).any(1) if bad.dim() > 1 else bad
    places = wrong[data.index].nonzero()
    return int(places[0]) if len(places) else None


def _where(data: ClientData, place: int) -> tuple[int, int]:
    """The client and the number of the example at a position of ``data.index``."""
    return int(data.codes()[place]), int(data.index[place])


def _wrong(task: Task, split: str, data: ClientData, place: int, what: str) -> Error:
    """The error for the example at a position of ``data.index``: its fault, and advice."""
    client, example = _where(data, place)
    return Error(f"task {task.name}: {split} client {client}'s example {example} has {what}")


def _buffers(model: nn.Module) -> dict[str, Tensor]:
    """A copy of the buffers, except those that the engine keeps for a module: ``moving``."""
    moving = [*map(id, Statistics(model).original)]
    buffers = model.named_buffers()
    return {name: buffer.detach().clone() for name, buffer in buffers if id(buffer) not in moving}


def _unlike(data: ClientData, example: int) -> int:
    """Another example of a client, with another label if there is one."""
    unlike = (data.y[data.index] != data.y[example]).view(len(data.index), -1).any(1)
    return int(data.index[int(unlike.int().argmax())])


def _parts(
    what: str, function: Callable[..., Any], outputs: Tensor, y: Tensor, pairs: bool
) -> tuple[Tensor, ...]:
    """A loss, or a metric's parts, ``[R, B]``. See :func:`fedlib.losses.each_examples`."""
    value = called(
        f"{what} on outputs {told(outputs[0])}, labels {told(y[0])} (as [R, B, ...], R rows of B "
        "examples, to give each example's own, [R, B])",
        function,
        outputs,
        y,
    )
    return each_examples(what, value, y, pairs)


def _close(left: Tensor, right: Tensor, scale: float = 1.0) -> bool:
    """Whether numbers are equal up to rounding, as other sizes are computed in another order."""
    return torch.allclose(left, right, rtol=1e-2, atol=1e-4 * scale, equal_nan=True)


def _same(left: Tensor, right: Tensor) -> bool:
    both = left.shape == right.shape and left.dtype == right.dtype
    return both and bool(torch.equal(left.nan_to_num(), right.nan_to_num()))


def _repeatable(what: str, function: Callable[..., Any], *args: Any, keyed: str = "") -> Any:
    """The result of a user's function. Refused if it draws the process's random numbers.

    Args:
        keyed: the library whose numbers may be drawn, as the engine seeds them.
    """
    states = process.random_states()
    value = function(*args)
    for whose in process.drawn_since(states):
        if whose != keyed:
            raise Error(
                f"{what} draws from {whose}'s random numbers, whose state is not the run's. Make "
                "a transform a function of x and keys, which draws by these (fedlib.randomness, "
                "None in evaluation). A model may use torch's generator if self.training is true"
            )
    return value


def _called_twice(
    what: str, function: Callable[..., Any], *args: Tensor | None, keeps: bool = False
) -> Any:
    """The result of a user's function. Refused if it differs the next time.

    Args:
        keeps: also refuse a function that writes to its arguments.
    """
    given, again = ([arg if arg is None else arg.clone() for arg in args] for _ in range(2))
    first, second = _repeatable(what, function, *given), function(*again)
    if keeps and not _alike(given, list(args)):
        raise Error(f"{what} writes to its arguments, which others need: let it make new ones")
    if not _alike(first, second):
        raise Error(
            f"{what} gives something else when it is called again: it must depend on its "
            "arguments alone, and in a transform draw by the keys (fedlib.randomness)"
        )
    return first


def _alike(left: Any, right: Any) -> bool:
    """Whether two results, or tuples or lists of them, are the same tensors."""
    if isinstance(left, (tuple, list)) and isinstance(right, (tuple, list)):
        return len(left) == len(right) and all(map(_alike, left, right))
    return not isinstance(left, Tensor) or (isinstance(right, Tensor) and _same(left, right))


def _beside(what: str) -> Error:
    return Error(
        f"{what} of an example changes with the others in its batch or their keys, so that padding "
        "would count in it: it must be separate for each example of x [G, B, ...] and keys [G, B]"
    )


def _shape(batch: Tensor) -> str:
    return f"[{', '.join(['B', *map(str, batch.shape[1:])])}]"


def _value(label: Tensor) -> str:
    few = label.numel() <= 4
    return str(label.tolist()) if few else f"of shape {tuple(label.shape)}"
