"""Examples of data sets, as PyTorch and Hugging Face have them, item by item."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from fedlib.arguments import called, shown
from fedlib.errors import Error, first_line, unknown

# The usual names of inputs and targets.
INPUTS = ("x", "image", "img", "input", "inputs", "features", "pixel_values", "input_ids")
TARGETS = ("y", "label", "labels", "target", "targets", "fine_label")


def read_items(
    datasets: Mapping[Any, Any], inputs: str, targets: str, client: str
) -> tuple[Tensor, Tensor, list[Any]]:
    """The inputs, the targets and the owners of all items, one data set after the other.

    Args:
        datasets: data sets by name.
        inputs, targets, client: fields of items that are dicts. See
            :meth:`fedlib.ClientData.from_datasets`. Without ``client`` the owner is the position
            of the data set.
    """
    examples: list[tuple[Tensor, Tensor]] = []
    owners: list[Any] = []
    owner: Any
    for owner, (name, source) in enumerate(datasets.items()):
        for place, item in _items(f"data set {name}", source):
            what = f"client data: item {place} of data set {name}"
            examples.append(_example(what, item, inputs, targets))
            first, own = ([[*part.shape] for part in examples[at]] for at in (0, -1))
            if own != first:
                raise Error(f"{what} has shapes {own}, the first one {first}: make them alike")
            if client:
                if not (isinstance(item, Mapping) and client in item):
                    raise Error(f"{what} has no field {client!r} for the client")
                owner = item[client]
            one = isinstance(owner, Tensor) and owner.numel() == 1
            owners.append(owner.item() if one else owner)
    if not examples:
        raise Error("client data: these data sets have no items")
    x, y = (torch.stack(parts) for parts in zip(*examples, strict=True))
    return x, y, owners


def _items(whose: str, dataset: Any) -> Iterator[tuple[int, Any]]:
    """The items of a data set with their positions.

    Raises:
        Error: it is not a data set, or an item cannot be read.
    """
    if isinstance(dataset, DataLoader):
        advice = "give its dataset, or torch.utils.data.Subset(dataset, indices)"
        raise Error(f"client data: {whose} is a DataLoader, which gives batches: {advice}")
    if hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__"):
        for place in range(len(dataset)):
            what = f"client data: item {place} of {whose} ({type(dataset).__name__})"
            yield place, called(what, dataset.__getitem__, place)
    elif isinstance(dataset, Iterable):
        yield from enumerate(dataset)
    else:
        raise Error(f"client data: {whose} is {shown(dataset)}: give a torch.utils.data.Dataset")


def _example(what: str, item: Any, inputs: str, targets: str) -> tuple[Tensor, Tensor]:
    """An item of a data set as tensors."""
    if isinstance(item, Mapping):
        names = ((inputs, INPUTS), (targets, TARGETS))
        fields = [name or next((n for n in usual if n in item), usual[0]) for name, usual in names]
        for name in fields:
            if name not in item:
                raise Error(f"{what}: {unknown('field', name, item)}. Name inputs and targets")
        item = [item[name] for name in fields]
    if not isinstance(item, (tuple, list)) or len(item) != 2:
        raise Error(f"{what} is {shown(item)}, but must be a pair (input, target), or a dict")
    if getattr(item[0], "mode", "") in ("P", "PA"):
        raise Error(f"{what} is an image with a palette: make it colours with convert('RGB')")
    try:
        x, y = (torch.as_tensor(p if isinstance(p, Tensor) else np.array(p)) for p in item)
    except (TypeError, ValueError) as error:
        raise Error(f"{what} is no pair of numbers: {first_line(error)}. Transform it") from None
    return x, y
