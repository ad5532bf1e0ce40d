"""The usual choices for a user's batch normalisation in federated learning, by name."""

import math

import torch.nn.functional as F
from torch import Tensor, nn

from fedlib.arguments import shown
from fedlib.errors import Error, require_known
from fedlib.models.batch_norm import BatchNorm2d

GROUPS = 32  # GroupNorm's usual number, or fewer if they do not divide the channels


class _GroupNorm(nn.GroupNorm):
    """GroupNorm of ``[B, C, ...]``. Flat features ``[B, C]`` are one group, as a group would have
    only a few values otherwise.
    """

    def forward(self, input: Tensor) -> Tensor:
        groups = 1 if input.dim() == 2 else self.num_groups
        return F.group_norm(input, groups, self.weight, self.bias, self.eps)


def replace_batch_norm(model: nn.Module, by: str) -> nn.Module:
    """Replace every BatchNorm layer of a model by another normalisation.

    Args:
        model: changed in place. Scales and shifts are kept.
        by: ``"group"`` is GroupNorm, which uses one example at a time (any dimension). Flat
            features are one group, which is LayerNorm.
            ``"batch"`` uses the statistics of the batch, in training and in evaluation.
            ``"running"`` uses running statistics, which the clients' steps move and the server
            averages with the model, from their current values. The last two are for images
            (BatchNorm2d). If a pretrained network's statistics shall stay fixed, replace nothing:
            a module whose ``train`` keeps its BatchNorm layers in evaluation mode trains as it is.

    Returns:
        The model, or the new layer if the model itself is a BatchNorm layer.

    Raises:
        Error: an unknown choice, or a layer that it does not cover. The message names the layer.

    Example:
        >>> from torch import nn
        >>> from fedlib.models import replace_batch_norm
        >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
        >>> replace_batch_norm(model, by="group")[1]
        GroupNorm(8, 8, eps=1e-05, affine=True)
    """
    if not isinstance(model, nn.Module):
        raise Error(f"replace_batch_norm: model is {shown(model)}: give a module, not its class")
    require_known("normalisation", by, ("group", "batch", "running"))
    for name, layer in list(model.named_modules()):
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            new = _replacement(name or "the model", layer, by)
            if not name:
                return new
            parent, _, leaf = name.rpartition(".")
            setattr(model.get_submodule(parent), leaf, new)
    return model


def _replacement(name: str, layer: nn.modules.batchnorm._BatchNorm, by: str) -> nn.Module:
    channels, new = layer.num_features, nn.Module()
    if by == "group":
        images = isinstance(layer, (nn.BatchNorm2d, nn.BatchNorm3d))
        kind = nn.GroupNorm if images else _GroupNorm
        new = kind(math.gcd(GROUPS, channels), channels, layer.eps, layer.affine)
    elif isinstance(layer, nn.BatchNorm2d) and layer.affine and layer.momentum == 0.1:
        new = BatchNorm2d(channels, layer.eps, track=by == "running")
        if by == "running" and layer.running_mean is not None:
            new.load_state_dict(layer.state_dict())
    else:
        raise Error(
            f"{name} ({type(layer).__name__}): {by!r} is for BatchNorm2d with a scale, a shift and "
            "momentum 0.1: use by='group'"
        )
    if layer.affine:
        new.weight, new.bias = layer.weight, layer.bias
    return new
