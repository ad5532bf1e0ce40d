"""Whether a task's data, model, loss and metrics fit together, seen before the first step.

A label that the model has no output for would be a device assert on a GPU, one of another shape may
be broadcast to a wrong loss, and a module that changes its buffers trains differently with every
backend: here they are one line that names the client, the example and the value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from fedlib import losses, process
from fedlib.errors import Error, first_line
from fedlib.task import ACCURACY, ClientData, Task

# The data of the catalogue's tasks were checked when they were prepared or imported; more numbers
# than this, which may lie on a disk, are not read again.
READ_AGAIN = 2**24


def require_fit(task: Task, model: nn.Module, dtype: torch.dtype) -> None:
    """Try a model on examples of the training and the test data, and look at all labels.

    The model is called in training mode on the first example, and on those with the smallest and
    the largest number where inputs are whole numbers, such as tokens. All labels are compared with
    its outputs if the loss declares what it needs (:func:`fedlib.losses.needs`).

    Args:
        model: a spare one.
        dtype: of its parameters.

    Raises:
        Error: what does not fit, with the client, the example and the value; or a module whose
            buffers change in its forward pass.
    """
    with process.alone():
        process.seed(0)
        trial = Trial(task, model.to(dtype), dtype)
        buffers = _buffers(model)
        for split, data in {"train": task.train, "test": task.test, **task.evaluated}.items():
            model.train(split == "train")
            require_finite(task, split, data, dtype)
            outputs = [trial.outputs(split, data, place) for place in _places(task, data)]
            if split == "train" and outputs:
                after = _buffers(model)
                trial.outputs(split, data, 0)
                trial.require_constant(buffers, after)
            if outputs:
                trial.check_loss(split, data, outputs[0])


class Trial:
    """Calls of a task's own functions, each with two copies of one example.

    Args:
        task, model, dtype: see :func:`require_fit`.
    """

    def __init__(self, task: Task, model: nn.Module, dtype: torch.dtype) -> None:
        self.task, self.model, self.dtype = task, model, dtype
        self.named = f"task {task.name}: the model {type(model).__name__}"
        self.device = next((p.device for p in model.parameters()), torch.device("cpu"))

    def outputs(self, split: str, data: ClientData, place: int) -> Tensor:
        """The model's outputs ``[2, ...]`` for the example at a place of ``data.all_places()``."""
        client, example = _where(data, place)
        raw = data.x[[example, example]].to(self.device)
        keys = torch.zeros(1, 2, dtype=torch.int64, device=self.device)
        what = f"{split} client {client}'s example {example}, {_told(raw[0])}"
        training, whose = split == "train", f"task {self.task.name}: the transform"
        x = _called(
            f"{whose} does not take {what}",
            _repeatable(whose, self.task.transform),
            raw.unsqueeze(0),
            keys if training else None,
        )
        if not isinstance(x, Tensor) or x.shape[:2] != (1, 2):
            raise Error(f"{whose} gives {_told(x)}; need [1, 2, ...]")
        if x.is_floating_point() and not torch.isfinite(x).all():
            raise Error(f"{whose} gives NaN or infinity for {what}")
        named = f"{self.named} in {'training' if training else 'evaluation'}"
        forward = _repeatable(named, self.model, "torch" if training else "")
        outputs = _called(f"{self.named} does not take {what}", forward, self._held(x).squeeze(0))
        if not isinstance(outputs, Tensor) or outputs.is_complex() or outputs.shape[:1] != (2,):
            raise Error(
                f"{self.named} gives {_told(outputs)} for 2 examples; it must give a tensor of "
                "real numbers whose first axis is the examples'"
            )
        return outputs

    def _held(self, x: Tensor) -> Tensor:
        """Inputs in the run's type."""
        return x.to(self.dtype) if x.is_floating_point() else x

    def require_constant(self, before: dict[str, Tensor], first: dict[str, Tensor]) -> None:
        """Require that a forward pass leaves the buffers; a cache that the first made may stay."""
        for name, buffer in _buffers(self.model).items():
            for earlier in (before.get(name, buffer), first.get(name)):
                if earlier is None or not _same(earlier, buffer):
                    raise Error(
                        f"{self.named}: its forward pass changes the buffer {name!r}, which rows "
                        "and clients cannot share; keep it constant, or compute it from the batch"
                    )

    def check_loss(self, split: str, data: ClientData, outputs: Tensor) -> None:
        """Require labels that fit the outputs ``[2, ...]``, and a loss and metrics of them."""
        kind = getattr(self.task.loss, "targets", None)
        if isinstance(self.task.loss, losses.OfTorch):
            kind = self.task.loss.kind(outputs, data.y)
        if kind is not None:
            _check_labels(self.task, split, data, outputs, kind)
        example = _where(data, 0)[1]
        y = data.y[[example, example]].to(outputs.device).unsqueeze(0)
        rows = outputs.unsqueeze(0)
        first, last = rows.split(1, 1)
        # Larger and smaller, and probabilities still.
        changed = 0.5 * last + 0.5, torch.min(last / 2, 2 * last)
        others = [torch.cat([first, another], 1) for another in changed]
        if self.task.metrics is ACCURACY and not losses.of_classes(outputs, data.y):
            self.task.metrics = {}  # nobody asked for it
        named = {"loss": self.task.loss, **(self.task.metrics if split == "test" else {})}
        for name, function in named.items():
            what = f"task {self.task.name}: {name}" + ("" if name == "loss" else " (a metric)")
            value = _called(
                f"{what} does not take outputs {_told(outputs)}, labels {_told(y[0])} (as "
                "[R, B, ...], R rows of B examples, to give each example's own, [R, B])",
                _repeatable(what, function),
                rows,
                y,
            )
            if not self.task.described and not all(
                _same(_first(value), _first(function(other, y))) for other in others
            ):
                raise Error(
                    f"{what} of an example changes with the others' outputs, so that padding would "
                    "count in it; it must be of each example alone"
                )
            pair = value if isinstance(value, tuple) and name != "loss" else (value,)
            for part in pair:
                if not isinstance(part, Tensor) or part.shape != (1, 2) or part.is_complex():
                    raise Error(
                        f"{what} gives {_told(part)} for 1 row of 2 examples; need each example's "
                        "own, shape (1, 2)"
                    )
            trained = any(p.requires_grad for p in self.model.parameters())
            if name == "loss" and split == "train" and trained and not value.requires_grad:
                raise Error(
                    f"{what} does not depend on the parameters of {type(self.model).__name__}: "
                    "its outputs are detached from them"
                )


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
    wanted = {
        losses.CLASSES: f"whole numbers in 0..{count - 1}",
        losses.VALUES: "finite numbers",
        losses.SHARES: "numbers between 0 and 1",
    }[kind] + (f" of shape {tuple(shape)}" if shape else ", one for each example")

    def refuse(place: int) -> None:
        client, example = _where(data, place)
        raise Error(
            f"task {task.name}: {split} client {client}'s example {example} has the label "
            f"{_value(y[example])} ({str(y.dtype).removeprefix('torch.')}); {loss} needs {wanted}"
        )

    if y.is_complex() or (classes and y.is_floating_point()) or y.shape[1:] != shape:
        refuse(0)
    if task.described and y.numel() > READ_AGAIN:
        return
    if classes:
        bad = (y < 0) | (y.long() >= count)  # which may be beyond eight bits
    elif kind == losses.VALUES:
        bad = ~torch.isfinite(y)
    else:
        bad = ~((y >= 0) & (y <= 1))
    if (place := _first_place(data, bad)) is not None:
        refuse(place)


def require_finite(task: Task, split: str, data: ClientData, dtype: torch.dtype) -> None:
    """Require inputs that are finite in the run's type; whole data are read once a run."""
    x = data.x
    if task.described or not x.is_floating_point() or not x.numel():
        return
    if torch.isfinite(torch.stack(x.aminmax()).to(dtype)).all():
        return
    if (place := _first_place(data, ~torch.isfinite(x.to(dtype)))) is not None:
        client, example = _where(data, place)
        values = x[example].flatten()
        value = values[~torch.isfinite(values.to(dtype))][0].item()
        raise Error(
            f"task {task.name}: {split} client {client}'s example {example} has the input {value}, "
            f"no finite {str(dtype).removeprefix('torch.')}; clean the data (torch.nan_to_num), or "
            "leave the example out"
        )


def _places(task: Task, data: ClientData) -> list[int]:
    """Places of examples to try: the first, and those of the extreme whole numbers."""
    count = int(data.sizes.sum())
    if not count:
        return []
    x, places = data.x, {0: None}
    whole = not (x.is_floating_point() or x.is_complex() or x.dtype == torch.bool)
    if whole and x[0].numel() and not (task.described and x.numel() > READ_AGAIN):
        numbers = data.places(data.all_places())
        low, high = x.flatten(1).aminmax(dim=1) if x.dim() > 1 else (x, x)
        places |= {int(low[numbers].argmin()): None, int(high[numbers].argmax()): None}
    return list(places)


def _first_place(data: ClientData, bad: Tensor) -> int | None:
    """The place of the first example that a client holds with something ``bad [N, ...]``."""
    if not bad.any():
        return None
    wrong = bad.flatten(1).any(1) if bad.dim() > 1 else bad
    places = wrong[data.places(data.all_places())].nonzero()
    return int(places[0]) if len(places) else None


def _where(data: ClientData, place: int) -> tuple[int, int]:
    """The client and the number of the example at a place of ``data.all_places()``."""
    return int(data.codes()[place]), int(data.places(data.all_places())[place])


def _buffers(model: nn.Module) -> dict[str, Tensor]:
    """A copy of the buffers, but for those that a module says the engine keeps: ``moving``."""
    moving = {
        f"{name}.{buffer}".lstrip(".")
        for name, module in model.named_modules()
        for buffer in getattr(module, "moving", ())
    }
    buffers = model.named_buffers()
    return {name: buffer.detach().clone() for name, buffer in buffers if name not in moving}


def _first(value: Any) -> Tensor:
    """A loss or metric of the first example; nothing where it is not ``[1, 2]``."""
    value = value[0] if isinstance(value, tuple) else value
    good = isinstance(value, Tensor) and value.shape == (1, 2)
    return value[0, :1] if good else torch.zeros(0)


def _same(left: Tensor, right: Tensor) -> bool:
    both = left.shape == right.shape and left.dtype == right.dtype
    return both and bool(torch.equal(left.nan_to_num(), right.nan_to_num()))


def _repeatable(what: str, function: Callable[..., Any], keyed: str = "") -> Callable[..., Any]:
    """A function of the user's, refused where it draws from the process's random numbers.

    Args:
        keyed: whose may be drawn, as the engine seeds them.
    """

    def call(*args: Any) -> Any:
        states = process.random_states()
        value = function(*args)
        for whose in process.drawn_since(states):
            if whose != keyed:
                raise Error(
                    f"{what} draws from {whose}'s random numbers, whose state is not the run's; in "
                    "a transform draw by the keys (fedlib.randomness), in a model use torch's, in "
                    "training only (self.training)"
                )
        return value

    return call


def _called(what: str, function: Callable[..., Any], *args: Any) -> Any:
    """A function of the user's; what goes wrong in it is a :class:`fedlib.Error`."""
    try:
        return function(*args)
    except Error:
        raise
    except Exception as error:
        raise Error(f"{what}: {first_line(error)}") from error


def _told(values: Any) -> str:
    """A tensor's type and shape, and the range of whole numbers; else what it is."""
    if not isinstance(values, Tensor):
        return f"a {type(values).__name__}"
    text = f"{str(values.dtype).removeprefix('torch.')} of shape {tuple(values.shape)}"
    if values.numel() and not (values.is_floating_point() or values.is_complex()):
        text += f" from {values.min().item()} to {values.max().item()}"
    return text


def _value(label: Tensor) -> str:
    few = label.numel() <= 4
    return str(label.tolist()) if few else f"of shape {tuple(label.shape)}"
