"""The ResNet-18 and ResNet-50 for 32x32 images of Delta-SGD's CIFAR tasks."""

import torch.nn.functional as F
from torch import Tensor, nn

from fedlib.errors import require_known
from fedlib.models.architecture import Architecture
from fedlib.models.batch_norm import BatchNorm2d
from fedlib.models.layers import Conv2d, GlobalAvgPool2d, GroupNorm, Linear, scaled

# Depth -> blocks per stage, and whether they are bottlenecks (He et al., 2015, Table 1).
DEPTHS = {18: ((2, 2, 2, 2), False), 50: ((3, 4, 6, 3), True)}
NORMS = ("group", "batch", "tracked")


def make_norm(norm: str, channels: int, groups: int) -> nn.Module:
    """A normalisation layer by name."""
    if norm == "group":
        return GroupNorm(groups, channels)
    return BatchNorm2d(channels, track=norm == "tracked")


class Block(nn.Module):
    """Convolutions with norms and ReLUs, added to the input. A ReLU follows the sum.

    Args:
        channels: of the input, the inner convolutions and the output.
        kernels: sizes of the convolutions: (3, 3) basic, (1, 3, 1) bottleneck.
        stride: stride of the first 3x3 convolution.
        norm, groups: see :class:`ResNet`.

    If shape or channels change, the input passes a 1x1 convolution and a norm of its own.
    """

    def __init__(
        self,
        channels: tuple[int, int, int],
        kernels: tuple[int, ...],
        stride: int,
        norm: str,
        groups: int,
    ) -> None:
        super().__init__()
        inputs, inner, outputs = channels
        sizes = [inputs, *[inner] * (len(kernels) - 1), outputs]
        strides = [1] * len(kernels)
        strides[kernels.index(3)] = stride
        self.convolutions = nn.ModuleList(
            Conv2d(a, b, kernel, stride=step, padding=kernel // 2, bias=False)
            for a, b, kernel, step in zip(sizes, sizes[1:], kernels, strides, strict=False)
        )
        # The authors' basic blocks keep no running statistics.
        inside = "batch" if norm == "tracked" and len(kernels) == 2 else norm
        self.norms = nn.ModuleList(make_norm(inside, count, groups) for count in sizes[1:])
        self.shortcut: nn.Sequential | None = None
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                Conv2d(inputs, outputs, 1, stride=stride, bias=False),
                make_norm(norm, outputs, groups),
            )

    def forward(self, x: Tensor) -> Tensor:
        y = x
        *inner, last = zip(self.convolutions, self.norms, strict=True)
        for convolution, norm in inner:
            y = F.relu(norm(convolution(y)))
        convolution, norm = last
        y = norm(convolution(y))
        return F.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class ResNet(Architecture):
    """ResNet with a 3x3 stem and no pooling after it, as in the authors' code.

    Its stages have 64, 128, 256 and 512 channels (times 4 in bottlenecks). The last three have
    stride 2, so sizes go from 32 to 4. With 10 classes ResNet-18 has 11,173,962 parameters and
    ResNet-50 23,520,842, for every norm.

    The paper does not mention normalisation. The authors' code has batch normalisation. Its layers
    within ResNet-18's blocks keep no running statistics, while stem and shortcuts (and all of
    ResNet-50) average their statistics over clients: ``norm="tracked"``. ``norm="batch"``
    normalises with the batch's own statistics everywhere, also in evaluation, see
    :mod:`fedlib.models.batch_norm`, so clients share parameters only. ``norm="group"`` has no
    statistics at all.

    Initial values are torch's default.

    Args:
        depth: 18 or 50.
        classes: number of outputs.
        width: multiplies all channel counts (rounded to multiples of ``groups``).
        norm: ``"group"``, ``"batch"`` or ``"tracked"``.
        groups: groups of GroupNorm. FedOpt gives 2 for its ResNet-18, which allows narrow networks.

    Raises:
        Error: an unknown depth or norm.

    Input ``[..., 3, 32, 32]``, output logits ``[..., classes]``.
    """

    def __init__(
        self,
        depth: int = 18,
        classes: int = 10,
        width: float = 1.0,
        norm: str = "group",
        groups: int = 2,
    ) -> None:
        super().__init__()
        require_known("depth of ResNet", str(depth), [*map(str, DEPTHS)])
        require_known("norm of ResNet", norm, NORMS)
        counts, bottleneck = DEPTHS[depth]
        kernels = (1, 3, 1) if bottleneck else (3, 3)
        channels = scaled(64, width, groups)
        self.conv = Conv2d(3, channels, 3, padding=1, bias=False)
        self.norm = make_norm(norm, channels, groups)
        blocks = []
        for stage, count in enumerate(counts):
            inner = scaled(64 * 2**stage, width, groups)
            outputs = 4 * inner if bottleneck else inner
            for number in range(count):
                stride = 2 if stage and not number else 1
                blocks.append(Block((channels, inner, outputs), kernels, stride, norm, groups))
                channels = outputs
        self.blocks = nn.Sequential(*blocks)
        self.average = GlobalAvgPool2d()
        self.dense = Linear(channels, classes)

    def features(self, x: Tensor) -> Tensor:
        """The pooled features, ``[..., 512]`` (ResNet-50: 2048) at full width."""
        return self.average(self.blocks(F.relu(self.norm(self.conv(x)))))
