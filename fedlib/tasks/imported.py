"""Tasks from data sets, mostly imported ones, by one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from fedlib import datasets, partitioners
from fedlib.arguments import Seed, checked
from fedlib.clients import ClientData, require_owners
from fedlib.datasets import Dataset, TextDataset
from fedlib.datasets.catalogue import CATALOGUE
from fedlib.datasets.dataset import SPLITS
from fedlib.datasets.store import Root
from fedlib.datasets.text import any_words, post_words, tokenized
from fedlib.errors import Error, require, unknown
from fedlib.models import AttentionClassifier, SmallCNN, Softmax
from fedlib.partitioners import checks
from fedlib.task import Fixed, Task, Transform
from fedlib.tasks import images

Model = Callable[[], nn.Module]
MOST = 10**6  # largest number of words in a text
# Other fields of a task that may be given.
FIELDS = {"name", "loss", "metrics", "reduction", "l2", "rounds", "clients_per_round"}
FIELDS |= {"batch_size", "local_epochs", "hyperparameters", "client_hyperparameters", "cohorts"}
FIELDS |= {"evaluated", "version"}


@checked
def image_task(
    data: str,
    model: Model | None = None,
    *,
    clients: int | None = None,
    alpha: float | None = None,
    transform: Transform | None = None,
    seed: Seed = 0,
    data_root: Root = None,
    **fields: Any,
) -> Task:
    """A task of classifying the images of a data set, for instance an imported one.

    Args:
        data: the data set's name. ``fedlib data import NAME FILE.npz`` or
            :func:`fedlib.datasets.import_file` makes your own.
        model: makes the model. Inputs are ``[B, C, H, W]`` (or the result of ``transform``),
            outputs a logit per class. Default: :class:`fedlib.models.SmallCNN`.
        clients: number of clients that share the training images. With ``alpha`` the parts are
            equal, and a remainder smaller than the number of clients is left out. Default: the
            data's own clients. Each is then tested on its own test images, if these have clients.
            Otherwise all test images are one client.
        alpha: concentration of the Dirichlet distribution of the clients' labels. Small values are
            skewed. Default: a random split.
        transform: raw images ``[..., H, W]`` or ``[..., H, W, C]`` to inputs. Default: channels
            first, each shifted and scaled to mean 0 and deviation 1 over the training images.
        seed: seed of the split.
        data_root: folder of the data. Default: ``FEDLIB_DATA``, else ``data/``.
        **fields: fields of :class:`fedlib.Task`, for instance ``batch_size=32`` or ``loss=...``.

    Returns:
        The task, named ``<data>_images``. Its ``classes`` are the data set's names of classes.

    Raises:
        Error: the data do not exist, have no images or no clients, or the task has no such field.

    Example:
        >>> import fedlib
        >>> task = fedlib.image_task("first_digits", clients=10, alpha=0.5, batch_size=32)
        >>> task.name, len(task.train), task.batch_size
        ('first_digits_images', 10, 32)
    """
    dataset = datasets.load(data, data_root)
    shape = dataset.train_x.shape[1:]
    if len(shape) < 2:
        what = f"data set {data!r} holds {shape[0]} numbers an example, no images"
        raise Error(f"{what}: make a fedlib.Task")
    channels = shape[2] if len(shape) == 3 else 1
    usual = partial(SmallCNN, channels, shape[:2], images.classes(dataset))
    return _task(
        f"{data}_images",
        dataset,
        usual if model is None else model,
        *_splits(dataset),
        {"data": data, "clients": clients, "alpha": alpha},
        {"transform": _scaled(dataset) if transform is None else transform, "seed": seed, **fields},
    )


@checked
def text_task(
    data: str,
    model: Model | None = None,
    *,
    clients: int | None = None,
    alpha: float | None = None,
    words: int = 2000,
    length: int = 32,
    seed: Seed = 0,
    data_root: Root = None,
    **fields: Any,
) -> Task:
    """A task of classifying the labelled texts of a data set, for instance an imported one.

    A text becomes the numbers of its first words: 0 pads at the end, 1 stands for unknown words,
    2 starts and 3 ends a text. The most frequent words of the training texts have the numbers from
    4 on.

    Args:
        data: the data set's name. ``fedlib data import NAME FILE.jsonl`` or
            :func:`fedlib.datasets.import_file` makes your own.
        model: makes the model. Inputs are integers ``[B, length]`` below ``words``, outputs a
            logit per class. Default: :class:`fedlib.models.AttentionClassifier`.
        clients, alpha, seed, data_root: see :func:`image_task`.
        words: size of the vocabulary, including the four special words.
        length: length of an encoded text.
        **fields: fields of :class:`fedlib.Task`, for instance ``batch_size=32`` or ``loss=...``.

    Returns:
        The task, named ``<data>_texts``. Its ``classes`` are the labels if they are words.

    Raises:
        Error: the data do not exist or have no labels, a number is out of range, or the task has no
            such field.

    Example:
        >>> import fedlib
        >>> task = fedlib.text_task("ag_news", clients=5, words=100, length=8)
        >>> task.name, len(task.train), tuple(task.train.x.shape[1:])
        ('ag_news_texts', 5, (8,))
    """
    require(3 <= length <= MOST, "length", length, f"a whole number in 3..{MOST}")
    dataset = datasets.load_text(data, data_root)
    splits = ("train", "test")
    labels = [dataset.labels(split) for split in splits]
    texts = [[dataset.text(split, i) for i in range(dataset.size(split))] for split in splits]
    # The papers' words are in ASCII.
    split_text = post_words if data in CATALOGUE else any_words
    train, test, size = tokenized(texts[0], texts[1], words, length, split_text)
    x, test_x = torch.from_numpy(train), torch.from_numpy(test)
    classes = int(max(part.max() for part in labels)) + 1
    usual = partial(AttentionClassifier, classes, size, length)
    return _task(
        f"{data}_texts",
        dataset,
        usual if model is None else model,
        (x, labels[0], dataset.client("train")),
        (test_x, labels[1], dataset.client("test")),
        {"data": data, "clients": clients, "alpha": alpha, "words": words, "length": length},
        {"seed": seed, **fields},
    )


@checked
def table_task(
    frame: pd.DataFrame,
    model: Model | None = None,
    *,
    label: str | int = "label",
    client: str | int | None = None,
    split: str | int | None = None,
    clients: int | None = None,
    alpha: float | None = None,
    seed: Seed = 0,
    **fields: Any,
) -> Task:
    """A task of classifying the rows of a table that pandas has read.

    Args:
        frame: one row per example. All columns not named below are features. Features are numbers,
            each shifted and scaled to mean 0 and deviation 1 over the training rows.
        model: makes the model. Inputs are ``[B, features]``, outputs a logit per class. Default:
            :class:`fedlib.models.Softmax`.
        label: the column of labels, words or integers. In sorted order they are the classes.
        client: the column of the rows' clients. Default: the rows are split among ``clients``.
        split: the column of ``"train"`` and ``"test"``. Default: a fifth of each client's rows,
            drawn at random, is the test part.
        clients, alpha: how the training rows are split, see :func:`image_task`.
        seed: seed of the split and of the choice of test rows.
        **fields: fields of :class:`fedlib.Task`, for instance ``batch_size=32``. With
            ``version="1"`` runs are stored.

    Returns:
        The task, named ``table``. Its inputs, also for :func:`fedlib.predict`, are the raw
        features, ``frame.drop(columns=[label, client])``.

    Raises:
        Error: a column does not exist, a value is missing, or a feature is not a number.

    Example:
        >>> import pandas as pd
        >>> import fedlib
        >>> rows = {"age": [20, 30, 40, 50] * 5, "sick": ["no", "no", "yes", "yes"] * 5}
        >>> frame = pd.DataFrame(rows | {"clinic": ["north", "south"] * 10})
        >>> task = fedlib.table_task(frame, label="sick", client="clinic")
        >>> task.classes, task.train.ids, task.train.sizes.tolist()
        (('no', 'yes'), ['north', 'south'], [8, 8])
    """
    roles = {"label": label, "client": client, "split": split}
    for role, column in roles.items():
        if column is not None and column not in frame:
            raise unknown(f"{role} column", column, map(str, frame.columns))
    named = [column for column in roles.values() if column is not None]
    if not frame.columns.is_unique or len(set(named)) < len(named):
        raise Error("two columns of the table have the same name, or one column has two roles")
    features = frame.drop(columns=named)
    _require_numbers(frame[named], features)
    if frame[label].dtype.kind == "f" and (frame[label] % 1 != 0).any():
        raise Error(f"column {label!r} has fractions, no labels: for a regression make a Task")
    require_owners(f"column {label!r}", frame[label])
    y, names = pd.factorize(frame[label], sort=True)
    owners, ids = np.zeros(len(frame), np.int64), pd.Index(["all"])
    if client is not None:
        owners, ids = pd.factorize(frame[client], sort=True)
    if split is None:
        parts = partitioners.local_split(partitioners.by_user(owners), 0.2, seed)
        rows = [np.sort(np.concatenate(part)) for part in parts]
    else:
        if wrong := set(frame[split]) - set(SPLITS):
            what = f"column {split!r} has {wrong.pop()!r} (allowed: 'train' and 'test')"
            raise Error(f"{what}: leave these rows out, or rename them")
        rows = [np.flatnonzero(frame[split] == name) for name in SPLITS]
    x = features.to_numpy(np.float64)
    arrays: dict[str, Any] = {"classes": tuple(map(str, names)), "clients": tuple(map(str, ids))}
    for name, chosen in zip(SPLITS, rows, strict=True):
        arrays |= {f"{name}_x": x[chosen], f"{name}_y": y[chosen].astype(np.int64)}
        if client is not None:
            arrays[f"{name}_client"] = owners[chosen]
    dataset = Dataset("table", **arrays, source="a table of the user's")
    std, mean = torch.std_mean(torch.from_numpy(dataset.train_x), 0, correction=0)
    transform = Fixed(partial(_standard, mean=mean, std=torch.where(std == 0, 1.0, std)))
    return _task(
        "table",
        dataset,
        partial(Softmax, x.shape[1], len(names)) if model is None else model,
        *_splits(dataset),
        {"label": str(label), "clients": clients, "alpha": alpha},
        {"transform": transform, "seed": seed, **fields},
    )


def _standard(x: Tensor, keys: Tensor | None, *, mean: Tensor, std: Tensor) -> Tensor:
    """Features as float32, each shifted and scaled."""
    return ((x - mean.to(x.device)) / std.to(x.device)).float()


def _require_numbers(named: pd.DataFrame, features: pd.DataFrame) -> None:
    """Refuse a table with a missing value, or a feature that is not a finite number."""
    for name, column in [*named.items(), *features.items()]:
        if column.isna().any():
            row = int(np.flatnonzero(column.isna())[0])
            raise Error(f"column {name!r} has nothing in row {row}: fill it, or leave it out")
    if not features.size:
        raise Error("the table has no rows, or no columns of features")
    for name, column in features.items():
        if column.dtype.kind in "biuf":
            values = column.to_numpy(np.float64)
            if not np.isfinite(values).all():
                raise Error(f"column {name!r} has numbers that are not finite: leave them out")
            if column.dtype.kind in "iu" and (np.abs(values) >= 2**53).any():
                what = f"column {name!r} has whole numbers from 2**53 on, as ids have"
                raise Error(f"{what}: leave it out, or subtract their common part")
            continue
        first, ways = column.iloc[0] if len(column) else "", "pandas.get_dummies"
        if isinstance(first, (list, tuple, np.ndarray)):
            ways = f"pandas.DataFrame(frame[{name!r}].tolist())"
        elif isinstance(first, (bytes, dict)):
            ways = "of images, fedlib.from_datasets"
        what = f"column {name!r} is {column.dtype}, but a feature is a number"
        raise Error(f"{what}: make it numbers ({ways}), or leave it out")


# Inputs, labels, and the owners' codes if they are known.
Split = tuple[Tensor, np.ndarray, np.ndarray | None]


def _splits(dataset: Dataset) -> tuple[Split, Split]:
    train = (images.tensor(dataset.train_x), dataset.train_y, dataset.train_client)
    return train, (images.tensor(dataset.test_x), dataset.test_y, dataset.test_client)


def _task(
    name: str,
    dataset: Dataset | TextDataset,
    model: Model,
    train: Split,
    test: Split,
    options: dict[str, Any],
    fields: dict[str, Any],
) -> Task:
    """A task with training examples split by ``options``, and test examples split by owner."""
    for field in fields:
        if field not in (*FIELDS, "transform", "seed"):
            raise unknown("field of a task", field, FIELDS)
    said = {"name": name, "classes": dataset.classes or (), **images.origin(dataset)}
    said["options"] = {key: value for key, value in options.items() if value is not None}
    (x, y, owners), (test_x, test_y, test_owners) = train, test
    y, test_y = checks.labels("labels", y), checks.labels("test labels", test_y)
    parts, ids = _divided(dataset, y, owners, options, fields["seed"])
    tests, test_ids = [np.arange(len(test_y))], ["all"]
    if options["clients"] is None and test_owners is not None:
        tests, test_ids = _by_owner(test_owners, dataset.clients)
    return Task(
        **{**said, **fields},
        model=model,
        train=ClientData(x, images.tensor(y), parts, ids),
        test=ClientData(test_x, images.tensor(test_y), tests, test_ids),
    )


def _divided(
    dataset: Dataset | TextDataset,
    labels: np.ndarray,
    owners: np.ndarray | None,
    options: dict[str, Any],
    seed: int,
) -> tuple[list[np.ndarray], list[str]]:
    """The clients' training examples, and the clients' names."""
    clients, alpha = options["clients"], options["alpha"]
    if clients is None:
        if alpha is not None:
            raise Error(f"alpha is {alpha}, but the number of clients is missing: give clients too")
        if owners is None:
            what = f"data set {dataset.name!r} names no clients: give their number"
            raise Error(f"{what}, for instance clients=20, and alpha=0.3 for skewed labels")
        return _by_owner(owners, dataset.clients)
    if alpha is None:
        return partitioners.iid(len(labels), clients, seed), []
    size = max(1, len(labels) // max(1, clients))
    return partitioners.dirichlet(labels, clients, alpha, size, seed), []


def _by_owner(
    owners: np.ndarray, names: Sequence[str] | None
) -> tuple[list[np.ndarray], list[str]]:
    """The examples of each owner, and the owners' names."""
    ids = [str(code) if names is None else names[code] for code in np.unique(owners).tolist()]
    return partitioners.by_user(owners), ids


def _scaled(dataset: Dataset) -> Transform:
    """Each channel to mean 0 and deviation 1 over the training images."""
    x = np.asarray(dataset.train_x)
    grey = x.ndim == 3
    pixels = x.reshape(-1, 1 if grey else x.shape[-1])
    mean, std = (pixels.mean(0, dtype=np.float64), pixels.std(0, dtype=np.float64))
    std[std == 0] = 1.0
    constants = tuple(mean.tolist()), tuple(std.tolist())
    return Fixed(partial(images.scaled, constants=constants, white=1, grey=grey))
