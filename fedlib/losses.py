"""Per-example losses and metrics: outputs and targets ``[R, B, ...]`` to ``[R, B]``.

A metric may be a pair (numerator, denominator), each ``[R, B]``, which are summed separately.

A loss may declare the targets that it needs, as those here do with :func:`needs`. They are then
checked against the model's outputs before a run's first step. Losses without it are not checked.
"""

import copy
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedlib.errors import Error, require_known

# Kinds of targets that a loss may need, for outputs [..., K]: whole numbers [...] in 0..K-1, finite
# numbers of the outputs' shape, the same between 0 and 1, or -1 and 1.
CLASSES, VALUES, SHARES, SIGNS = "classes", "values", "shares", "signs"
# The targets of torch's losses with the shape of outputs. VALUES are not checked here, as a loss
# that becomes NaN is refused anyway. Functions have the same names in lower case.
LIKE_OUTPUTS = {
    **dict.fromkeys(("BCELoss", "BCEWithLogitsLoss", "MultiLabelSoftMarginLoss"), SHARES),
    **dict.fromkeys(("binary_cross_entropy", "binary_cross_entropy_with_logits"), SHARES),
    **dict.fromkeys(("multilabel_soft_margin_loss", "sigmoid_focal_loss"), SHARES),
    **dict.fromkeys(("SoftMarginLoss", "HingeEmbeddingLoss"), SIGNS),
    **dict.fromkeys(("soft_margin_loss", "hinge_embedding_loss"), SIGNS),
    **dict.fromkeys(("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss"), VALUES),
    **dict.fromkeys(("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"), VALUES),
    **dict.fromkeys(("PoissonNLLLoss", "poisson_nll_loss", "KLDivLoss", "kl_div"), VALUES),
}
# Torch's losses of classes.
OF_LABELS = ("CrossEntropyLoss", "cross_entropy", "NLLLoss", "nll_loss")
Loss = TypeVar("Loss", bound=Callable[[Tensor, Tensor], Tensor])


def needs(kind: str) -> Callable[[Loss], Loss]:
    """Declare that a loss needs targets of a kind: ``"classes"``, ``"values"`` or ``"shares"``.

    Example:
        >>> @needs(VALUES)
        ... def absolute_error(outputs: Tensor, targets: Tensor) -> Tensor:
        ...     return (outputs - targets).abs().mean(-1)
    """
    require_known("kind of targets", kind, (CLASSES, VALUES, SHARES))

    def declare(loss: Loss) -> Loss:
        loss.targets = kind  # type: ignore[attr-defined]
        return loss

    return declare


def of_classes(outputs: Tensor, targets: Tensor) -> bool:
    """Whether ``outputs [B, ..., K]`` are scores of K > 1 classes, with targets ``[N, ...]`` as
    labels.
    """
    whole = not (targets.is_floating_point() or targets.is_complex())
    scores = outputs.dim() == targets.dim() + 1 and outputs.shape[1:-1] == targets.shape[1:]
    return whole and scores and outputs.shape[-1] > 1


def of_torch(loss: Any) -> bool:
    """Whether a loss reduces a batch as in torch: a module or function with ``reduction``."""
    if isinstance(loss, nn.Module):
        return hasattr(loss, "reduction")
    try:
        return "reduction" in inspect.signature(loss).parameters
    except (TypeError, ValueError):
        return False


class OfTorch:
    """One of torch's losses, or a similar one, per example: ``[R, B]``.

    Further axes are averaged, or with ``reduction`` "sum" or "batchmean" summed. Labels equal to
    ``ignore_index`` do not count, and others count by the ``weight`` of their class. Means over an
    example, a batch or a data set are the same as torch's, which divides by these counts. Targets
    ``[R, B]`` are also allowed for outputs ``[R, B, 1]``. Classes are the last axis of outputs or,
    as in torch, the axis after ``B``. If both would fit, an error is raised.

    Args:
        loss: a module or function with ``reduction`` for a batch ``[B, ...]``.

    Example:
        >>> smoothed = OfTorch(nn.CrossEntropyLoss(label_smoothing=0.1))
        >>> smoothed(torch.zeros(1, 2, 4), torch.tensor([[0, 3]])).shape
        torch.Size([1, 2])
    """

    def __init__(self, loss: Any) -> None:
        self.loss, self._placed = loss, dict[tuple[Any, ...], Any]()
        self.__name__ = getattr(getattr(loss, "func", loss), "__name__", type(loss).__name__)
        self.given = copy.deepcopy(loss)
        if isinstance(loss, nn.Module):
            for kind in type(loss).__mro__:  # a class derived from torch's computes what that does
                alike = getattr(kind, "forward", None) is getattr(type(loss), "forward", loss)
                if kind.__module__ == nn.modules.loss.__name__ and alike:
                    self.__name__ = kind.__name__
            self.loss = copy.deepcopy(loss)
            given = {**vars(loss), **dict(self.loss.named_buffers())}
            self.loss.reduction = "none"
        else:
            self.loss = functools.partial(loss, reduction="none")
            parameters = inspect.signature(loss).parameters.items()
            given = {name: parameter.default for name, parameter in parameters}
        self.sums = given.get("reduction") in ("sum", "batchmean")
        self.total = given.get("reduction") == "sum"
        self.ignored: int | None = given.get("ignore_index")
        # The weights of classes, if torch's mean uses them.
        weighed = self.__name__ in OF_LABELS and not self.sums
        self.weight: Tensor | None = given.get("weight") if weighed else None
        if self.weight is not None and not (self.weight >= 0).all():
            least = self.weight.min().item()
            raise Error(f"{self.__name__}: a weight of a class is {least:g} (allowed: >= 0)")

    def compared(self, outputs: Tensor, targets: Tensor) -> tuple[str | None, Tensor]:
        """The kind of targets that are needed, see :func:`needs`, or None if unknown, and the
        outputs in the order of axes that this kind refers to.

        Raises:
            Error: outputs ``[B, ...]`` of one class, or that are not logarithms of probabilities
                though the loss needs these.
        """
        name, shape = self.__name__, targets.shape[1:]
        classes = of_classes(outputs, targets)
        if (like := LIKE_OUTPUTS.get(name)) is not None:
            alone = outputs.shape[1:] == (*shape, 1)
            outputs = outputs.squeeze(-1) if alone else outputs
            if name in ("KLDivLoss", "kl_div") and float(outputs.detach().max()) > 1e-2:
                raise _no_logarithms(name)
            return None if like == VALUES or outputs.shape[1:] != shape else like, outputs
        if name not in OF_LABELS:  # a user's own loss may have a similar name
            known = "CrossEntropy" in name or "NLL" in name
            return CLASSES if known and classes else None, outputs
        if outputs.shape[1:2] == (1,) and not classes:
            what = f"{name} needs an output for each class, and the model gives one"
            raise Error(f"{what}: use nn.BCEWithLogitsLoss() or a model with more outputs")
        if outputs.shape[1:] == shape:
            return SHARES, outputs
        if not classes and outputs.dim() > 2:
            outputs = outputs.movedim(1, -1)  # in torch the classes are first
        if not of_classes(outputs, targets):
            return None, outputs
        sums = outputs.detach().double().logsumexp(-1)
        if name in ("NLLLoss", "nll_loss") and float(sums.abs().max()) > 1e-2:
            raise _no_logarithms(name)
        return CLASSES, outputs

    def counted(self, targets: Tensor, weight: Tensor | None = None) -> Tensor | None:
        """The weight of each example's labels ``targets [N, ...]``, ``[N]``: their number, or the
        sum of the weights of their classes. None if all count the same.

        Args:
            weight: weights of classes on the targets' device. Default: the weights of the loss.
        """
        if self.sums or self.ignored is None or targets.is_floating_point():
            return None
        labels = targets.long()  # with eight bits -100 would become 156
        counts = (labels != self.ignored).long()
        if self.weight is not None:
            weight = self.weight.to(targets.device) if weight is None else weight
            counts = weight[labels.clamp(0, len(weight) - 1)] * counts
        return counts.flatten(1).sum(1) if counts.dim() > 1 else counts

    def _on(self, outputs: Tensor) -> Any:
        """The loss on a device and in a type: a cached copy, as a recorded step may read it.

        Each copy is made from the given loss, so that no weight is rounded twice.
        """
        if not isinstance(self.loss, nn.Module):
            return self.loss
        changes = [buffer._version for buffer in self.loss.buffers()]
        place = outputs.device, outputs.dtype, *changes
        if place not in self._placed:
            self._placed[place] = copy.deepcopy(self.loss).to(outputs)
        return self._placed[place]

    def _as_torch(self, o: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs and targets of a batch in the shapes and types that torch takes."""
        outputs = o
        shapes = f"{self.__name__} has outputs {[*o.shape]} and targets {[*y.shape]} a batch"
        if o.dim() == y.dim() + 1 and o.shape[-1] == 1:
            o = o.squeeze(-1)
        if o.dim() == y.dim() + 1 and self.__name__ not in LIKE_OUTPUTS:
            if y.is_floating_point():
                raise Error(f"{shapes}: give y.long() if these are classes, else equal shapes")
            y = y.long()
            if o.shape[1:-1] == y.shape[1:] == o.shape[2:] != ():
                which = f"{self.__name__} has outputs {[*o.shape]}, whose axis of classes may be"
                raise Error(f"{which} the second or the last: give your own loss with [R, B]")
            if o.shape[1:-1] == y.shape[1:]:
                o = o.movedim(-1, 1)  # in torch the classes are first
        elif o.shape == y.shape:
            if self.weight is not None and not y.is_floating_point():
                raise Error(f"{shapes}: give y.float() if these are shares of classes")
            y = y.to(o.dtype)
        else:
            way = way_out(outputs, y)
            raise Error(f"{shapes}{way or ': the two must have the same shape'}")
        return o, y

    def reduced(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The given loss of a batch ``[B, ...]``, and the same from its examples' losses."""
        o, y = self._as_torch(outputs, targets)
        given = copy.deepcopy(self.given).to(o) if isinstance(self.given, nn.Module) else self.given
        each, counted = self(outputs[None], targets[None])[0], self.counted(y)
        if counted is not None:
            return given(o, y), (each * counted).sum() / counted.sum()
        return given(o, y), each.sum() if self.total else each.mean()

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        o, y = self._as_torch(outputs.flatten(0, 1), targets.flatten(0, 1))
        loss = self._on(o)
        each = loss(o, y)
        each = each.flatten(1) if each.dim() > 1 else each.unsqueeze(-1)
        if (counted := self.counted(y, getattr(loss, "weight", None))) is not None:
            counted = torch.where(counted > 0, counted, 1).to(each.dtype)
            return (each.sum(-1) / counted).view(targets.shape[:2])
        return (each.sum(-1) if self.sums else each.mean(-1)).view(targets.shape[:2])


def _no_logarithms(name: str) -> Error:
    what = f"{name} needs the logarithms of probabilities, which the model does not give"
    return Error(f"{what}: end it by nn.LogSoftmax(1), or use nn.CrossEntropyLoss()")


def way_out(outputs: Tensor, targets: Tensor) -> str:
    """The advice for targets ``[N, ...]`` with an axis too many or too few for ``outputs [B,
    ...]``, or with vectors of 0 and 1 instead of classes. Empty if none is known.
    """
    needed, given = outputs.shape[1:], targets.shape[1:]
    if needed == (1, *given):
        return ": give y[:, None]"
    if given[-1:] == (1,) and given[:-1] in (needed, needed[:-1], needed[1:]):
        return ": give y.squeeze(-1)"
    if given[:1] == (1,) and given[1:] in (needed, needed[:-1], needed[1:]):
        return ": give y.squeeze(1)"
    return ": give y.argmax(-1)" if given == needed and given[-1:] > (1,) else ""


def counted_labels(loss: Any, targets: Tensor) -> Tensor | None:
    """The weight of each example with targets ``[N, ...]`` in a mean of a loss, ``[N]``.

    It is None if all count the same.
    """
    return loss.counted(targets) if isinstance(loss, OfTorch) else None


# On a CPU torch's log_softmax is slow along a short last axis. For forward and backward at 10
# classes on one thread it took 3.3 times as long for 20,000 examples, 1.2 for 1000, 0.6 for 100.
SHORT = 32


def short_cross_entropy(logits: Tensor, targets: Tensor) -> tuple[Tensor, Callable[..., Tensor]]:
    """Cross-entropies ``[..., B]`` along a short last axis, and their gradient.

    They are log sum_j exp(z_j) - z_y, with z shifted by its maximum. The gradient is a function of
    ``weights [..., B]``: weight * (softmax - e_y), by the logits of the weighted sum.
    """
    index = targets.long().unsqueeze(-1)
    shifted = logits - logits.amax(-1, keepdim=True)
    at_target = shifted.gather(-1, index).squeeze(-1)
    # Below -80 a term is under 1e-34 of the sum. As zero it is exact enough for float64, while
    # the denormal numbers near exp(-90) would run a hundred times slower.
    terms = torch.threshold_(shifted, -80.0, -torch.inf).exp_()
    # A product with ones sums short rows several times faster than sum(-1).
    total = terms @ terms.new_ones(terms.shape[-1], 1)

    def gradient(weights: Tensor) -> Tensor:
        weights = weights.unsqueeze(-1)
        return (terms * (weights / total)).scatter_add_(-1, index, -weights)

    return total.squeeze(-1).log() - at_target, gradient


class _ShortCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> Tensor:
        losses, ctx.gradient = short_cross_entropy(logits, targets)
        return losses

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.gradient(grads[0]), None


@needs(CLASSES)
def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropies ``[R, B]`` of ``outputs [R, B, classes]`` at whole ``targets [R, B]``."""
    if outputs.device.type == "cpu" and outputs.shape[-1] < SHORT:
        return _ShortCrossEntropy.apply(outputs, targets)
    flat = F.cross_entropy(outputs.flatten(0, 1), targets.long().flatten(), reduction="none")
    return flat.view(targets.shape)


def correct(outputs: Tensor, targets: Tensor) -> Tensor:
    """1 if the largest output is at the target, else 0: ``[R, B]``."""
    return (outputs.contiguous().argmax(-1) == targets).to(outputs.dtype)


def accuracy(outputs: Tensor, targets: Tensor, ignored: int | None = None) -> Any:
    """The share of correct predictions among labels ``targets [R, B, ...]`` except ``ignored``.

    It is a task's default metric. If ``outputs [R, B, ..., K]`` are not scores of classes, it is
    left out.
    """
    if targets.dim() == 2 and ignored is None:
        return correct(outputs, targets)
    y = targets.reshape(*targets.shape[:2], -1)
    ignore = () if ignored is None else (ignored,)
    return masked_accuracy(ignore)(outputs.reshape(*y.shape, -1), y)


@needs(CLASSES)
def sequence_cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy ``[R, B]`` over all T steps, including padding.

    The published runs of language models averaged over padding: until 2022 Keras did not pass masks
    to custom losses. ``outputs [R, B, T, V]``, ``targets [R, B, T]`` of any integer type.
    """
    flat = F.cross_entropy(outputs.flatten(0, 2), targets.long().flatten(), reduction="none")
    return flat.view(targets.shape).mean(-1)


def masked_accuracy(ignore: Sequence[int]) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """A metric: the share of correct predictions among target tokens except those in ``ignore``.

    The maximum is taken over the whole vocabulary, special tokens included.
    """

    def accuracy(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        y = targets.long()
        counted = torch.ones_like(y, dtype=torch.bool)
        for token in ignore:
            counted &= y != token
        hits = (outputs.argmax(-1) == y) & counted
        return hits.sum(-1).to(outputs.dtype), counted.sum(-1).to(outputs.dtype)

    return accuracy


@needs(VALUES)
def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean squared error ``[R, B]`` over the features of ``outputs, targets [R, B, F]``."""
    return (outputs - targets).square().mean(-1)


@needs(SHARES)
def binary_cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean binary cross-entropy ``[R, B]`` over the tags of logits ``outputs [R, B, K]``.

    ``targets [R, B, K]`` of 0 and 1.
    """
    each = F.binary_cross_entropy_with_logits(outputs, targets.to(outputs.dtype), reduction="none")
    return each.mean(-1)


def recall_at_5(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """A metric: the share of all true tags of all examples among the example's five largest.

    ``outputs, targets [R, B, K]``. Sums over examples come first ("micro"), as in Keras.
    """
    top = outputs.topk(min(5, outputs.shape[-1]), dim=-1).indices
    positives = targets.to(outputs.dtype)
    return positives.gather(-1, top).sum(-1), positives.sum(-1)


def each_examples(what: str, value: Any, y: Tensor, pairs: bool) -> tuple[Tensor, ...]:
    """The result of a loss or a metric for labels ``y [R, B, ...]``: one value, or two parts.

    Args:
        pairs: whether two parts are allowed, as of a metric.

    Raises:
        Error: they are not ``[R, B]``, one for each example.
    """
    rows, count = y.shape[:2]
    parts = value if isinstance(value, tuple) and pairs else (value,)
    for part in parts:
        if not isinstance(part, Tensor) or part.shape != (rows, count) or part.is_complex():
            raise Error(
                f"{what} gives {told(part)} for {rows} row{'s' * (rows > 1)} of {count} examples, "
                f"but must give one value per example, shape {(rows, count)}"
            )
    return parts


def told(values: Any) -> str:
    """A tensor's type and shape, and the range of whole numbers, or another value's type."""
    if not isinstance(values, Tensor):
        return f"a {type(values).__name__}"
    text = f"{str(values.dtype).removeprefix('torch.')} of shape {tuple(values.shape)}"
    if values.numel() and not (values.is_floating_point() or values.is_complex()):
        text += f" from {values.min().item()} to {values.max().item()}"
    return text
