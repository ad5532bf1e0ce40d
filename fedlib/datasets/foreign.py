"""Tables, folders of images and LEAF's JSON, as the arrays or texts that an import checks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image
from pyarrow import parquet

from fedlib.datasets.dataset import SPLITS
from fedlib.errors import Error, first_line, unknown

TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
TEXTS = ("text", "label", "client", "split")
EVERY = 5  # every fifth example tests, where nothing says which do


def kind(path: Path) -> str:
    """A file's suffix, in small letters; of a compressed one with that of what is in it."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return "".join(suffixes[-2 if suffixes[-1:] == [".gz"] else -1 :])


def table(path: Path, columns: Mapping[str, str]) -> pd.DataFrame:
    """A CSV or Parquet file, its columns of labels, clients and splits under these names.

    Args:
        columns: for ``label``, ``client`` and ``split`` the file's name of the column.

    Returns:
        a row per example, its index counted from 0.

    Raises:
        Error: it cannot be read, lacks a column that was named, or would have two of a name.
    """
    try:
        codes = (columns["label"], columns["client"])
        frame = _parquet(path) if kind(path) == ".parquet" else _csv(path, codes)
    except UnicodeDecodeError as error:
        raise Error(f"{path.name} is not UTF-8 ({first_line(error)}); save it as UTF-8") from None
    except Exception as error:  # its bytes may say anything
        fields = isinstance(error, pd.errors.ParserError)
        advice = "; commas separate fields, those with commas are quoted" if fields else ""
        raise Error(f"{path.name} cannot be read: {first_line(error)}{advice}") from None
    if not len(frame):
        raise Error(f"{path.name} has no rows")
    owned = [name for name in frame.index.names if name in (*columns.values(), "text")]
    frame = frame.reset_index([name for name in owned if name not in frame])
    for role, name in columns.items():
        if twice := [other for other in columns if other != role and columns[other] == name]:
            raise Error(f"{path.name}: column {name!r} is named as {role} and as {twice[0]}")
        if name != role and name not in frame:
            raise Error(f"{path.name}: {unknown('column', name, map(str, frame.columns))}")
        if name != role and role in frame:
            raise Error(
                f"{path.name}: column {name!r} is named as the {role}, but there is a column "
                f"{role!r}, too; rename that one, or leave it out"
            )
    return frame.reset_index(drop=True).rename(columns={v: k for k, v in columns.items()})


def _parquet(path: Path) -> pd.DataFrame:
    """A Parquet file, whose texts are UTF-8: pandas does not look, and ends the process later."""
    parquet.read_table(path).validate(full=True)
    frame = pd.read_parquet(path)
    for name in frame:
        if frame[name].dtype == object and frame[name].map(type).eq(bytes).any():
            raise Error(f"column {name!r} holds bytes; decode them: frame[{name!r}].str.decode()")
    return frame


def _csv(path: Path, codes: Sequence[str]) -> pd.DataFrame:
    """A CSV file, in whose columns of words only an empty field is nothing: ``NA`` is a word.

    Args:
        codes: columns of labels and of clients, words too where one is not as a number is written:
            007, 1e5; clients also where they are no whole numbers, as 1.1 and 1.10 are two, or one
            number is written in two ways.
    """
    # With a head, pandas takes fields beyond it for names of rows, and renames a second 'label'.
    how: dict[str, Any] = {"sep": "\t" if ".tsv" in kind(path) else ","}
    first = pd.read_csv(path, header=None, nrows=1, dtype=str, sep="\0", engine="python")
    line = str(first.iloc[0, 0])
    if how["sep"] == "," and line.count(";") > line.count(","):  # as where a comma is decimal
        how["sep"] = ";"
        words = pd.read_csv(path, dtype=str, **how).stack()
        how["decimal"] = "," if words.str.fullmatch(r"[+-]?\d+,\d+").any() else "."
    head = pd.read_csv(path, header=None, nrows=2, dtype=str, **how).iloc[0].dropna()
    if head.duplicated().any():
        raise Error(f"two columns are {head[head.duplicated()].iloc[0]!r}; rename or drop one")
    frame = pd.read_csv(path, **how)
    words = [name for name in frame if frame[name].dtype.kind == "O" or frame[name].isna().all()]
    named = {name: str for name in (*words, *codes) if name in frame}
    if named:
        written = pd.read_csv(path, dtype=named, keep_default_na=False, na_values=[""], **how)
        for name in named:
            odd = written[name].str.contains(r"^[+-]?0\d|\d[eE]").any()
            if name == codes[-1]:  # +5 and 5 are two, too
                odd |= _whole(frame[name]).dtype.kind == "f"
                odd |= written[name].nunique() > frame[name].nunique()
            if name in words or odd:
                frame[name] = written[name]
    return frame


def _require_all(where: str, columns: Mapping[Any, pd.Series]) -> None:
    """Refuse columns in which something is missing."""
    for name, column in columns.items():
        if column.isna().any():
            row = int(np.flatnonzero(column.isna())[0])
            raise Error(f"{where}: row {row + 1} has nothing in {name!r}; fill it, or leave it out")


def _whole(column: pd.Series) -> pd.Series:
    """Labels or clients as integers where they are whole floats, as pandas and LEAF write them; and
    as words where they are true or false, or dates.
    """
    kind = getattr(column.dtype, "kind", "O")
    if kind != "f":
        return column.astype(str) if kind in "bM" else column
    whole = ((column % 1 == 0) & (column.abs() < 2**53)).all()
    return column.astype(np.int64) if whole else column


def leaf(folder: Path) -> pd.DataFrame:
    """What LEAF's scripts write, ``train/*.json`` and ``test/*.json``, as a table.

    Raises:
        Error: a file is not of this kind.
    """
    rows = []
    for split in SPLITS:
        for file in sorted((folder / split).glob("*.json")):
            try:
                for user, examples in json.loads(file.read_text("utf-8"))["user_data"].items():
                    pairs = zip(examples["x"], examples["y"], strict=True)
                    rows += [(split, str(user), label, x) for x, label in pairs]
            except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
                reason = f"{type(error).__name__}: {first_line(error)}"
                raise Error(f"{split}/{file.name} is not as LEAF writes it: {reason}") from None
    frame = pd.DataFrame(rows, columns=["split", "client", "label", "x"])
    if not len(frame) or isinstance(frame["x"][0], str):
        return frame.rename(columns={"x": "text"})
    try:
        x = np.array(frame.pop("x").tolist(), dtype=np.float32)
        features = pd.DataFrame(x.reshape(len(x), -1))  # rows of pictures one after the other
    except (TypeError, ValueError) as error:
        what = f"{folder.name}: x is neither texts nor numbers: {first_line(error)}"
        raise Error(f"{what}; of rows of words, as Sent140's, keep the text, x[4]") from None
    return pd.concat([frame, features], axis=1)


def texts(frame: pd.DataFrame, where: str) -> bytes:
    """The rows of a table with a column ``text`` as the lines of a ``.jsonl`` file."""
    _require_all(where, {name: frame[name] for name in TEXTS if name in frame})
    frame = frame.assign(**{key: _whole(frame[key]) for key in ("label", "client") if key in frame})
    given: dict[str, object] = {"client": "all"}
    if "split" not in frame:
        given["split"] = _splits(frame, where)
    frame = frame.assign(**{key: value for key, value in given.items() if key not in frame})
    frame["client"] = frame["client"].astype(str)
    lines: str = frame.to_json(orient="records", lines=True, force_ascii=False)
    return lines.encode()


def arrays(frame: pd.DataFrame, where: str, whole: bool) -> dict[str, np.ndarray]:
    """The rows of another table as the arrays of a ``.npz`` file.

    Args:
        where: it comes from, for errors.
        whole: leave whole numbers such: they are the points of images.

    Raises:
        Error: no labels, a split that is none, something missing, or features that are words.
    """
    if "label" not in frame:
        known = ", ".join(map(repr, frame.columns))
        raise Error(f"{where} has no column 'label', but {known:.200}; name it by --label")
    codes = {name: frame.pop(name) for name in ("label", "client") if name in frame}
    named = frame.pop("split") if "split" in frame else None
    split = pd.Series(_splits(pd.DataFrame(codes), where)) if named is None else named
    codes["split"] = split
    _require_all(where, {**codes, **dict(frame.items())})
    codes = {name: _whole(column) for name, column in codes.items()}
    for name, column in frame.items():
        kind = getattr(column.dtype, "kind", "O")
        if str(name).startswith("Unnamed: "):  # as pandas calls a column whose head is empty
            raise Error(
                f"{where}: a column has no name; name it, or if it counts the rows leave it out "
                "(DataFrame.to_csv(index=False))"
            )
        if kind not in "biuf":
            raise Error(
                f"{where}: column {name!r} is {column.dtype}, a feature is numbers; encode it "
                "(pandas.get_dummies), or leave it out"
            )
        numbers = np.zeros(0, int) if whole or kind == "b" else _whole(column).to_numpy()
        lost = numbers.astype(np.float32) != numbers
        if numbers.dtype.kind in "iu" and lost.any():
            raise Error(
                f"{where}: column {name!r} has {numbers[lost][0]}, which float32 holds as "
                f"{np.float32(numbers[lost][0]):.0f}; subtract a number, scale it, or leave it out"
            )
    if wrong := set(split) - set(SPLITS):
        raise Error(f"{where}: split is {wrong.pop()!r}; allowed: 'train' or 'test'")
    members = {}
    for name in SPLITS:
        chosen = (split == name).to_numpy()
        x = frame[chosen].to_numpy()
        members[f"{name}_x"] = x if whole else x.astype(np.float64)
        for key, column in (("y", "label"), ("client", "client")):
            if column in codes:
                kept = getattr(codes[column].dtype, "kind", "O") in "iuf"
                values = codes[column] if kept else codes[column].astype(str)
                members[f"{name}_{key}"] = values[chosen].to_numpy(dtype=None if kept else str)
    return members


def images(folder: Path) -> dict[str, np.ndarray]:
    """A folder ``<class>/<image>``, or ``train/`` and ``test/`` with such ones, as arrays.

    Raises:
        Error: a class has no images, a file that is not hidden is none or lies elsewhere, as in
            ``val/``, or they differ in shape.
    """
    apart = all((folder / split).is_dir() for split in SPLITS)
    members: dict[str, np.ndarray] = {}
    for part in SPLITS if apart else ("",):
        try:
            paths, y = _listed(folder, part, apart)
            x = _stacked(folder, paths)
        except Error:
            raise
        except Exception as error:  # of one that is damaged, too
            raise Error(f"{folder.name}: its images cannot be read: {first_line(error)}") from None
        if all(path.parents[1] != folder / part for path in paths):
            raise Error(
                f"{folder.name}: its images lie deeper than <class>/<image>, so that '{y[0]}' "
                "is no class; name the splits 'train' and 'test', or give the folder of the classes"
            )
        split = np.full(len(y), part) if apart else _splits(pd.DataFrame({"label": y}), folder.name)
        for name in (part,) if apart else SPLITS:
            members |= {f"{name}_x": x[split == name], f"{name}_y": y[split == name]}
    return members


def _listed(folder: Path, part: str, apart: bool) -> tuple[list[Path], np.ndarray]:
    """The images of ``part`` and their classes; every class has some, no file is left out."""
    # Its first import takes a second, and nothing else here needs it.
    from torchvision.datasets import ImageFolder

    # A hidden folder, as .ipynb_checkpoints is, is a class to it, without images.
    shows = partial(_is_shown, folder)
    listed = ImageFolder(str(folder / part), is_valid_file=shows, allow_empty=True)
    there = {listed.classes[label] for label in listed.targets}
    empty = [name for name in listed.classes if name not in there]
    if missing := [name for name in empty if not name.startswith(".") or not there]:
        raise ValueError(f"class {missing[0]!r} has none; put some there, or remove it")
    left = [path for path in folder.iterdir() if apart and path.name not in SPLITS]
    left += [path for path in (folder / part).iterdir() if not path.is_dir()]
    if shown := sorted(path for path in left if _is_shown(folder, str(path))):
        what = f"{shown[0].relative_to(folder)} would be left out"
        raise Error(f"{folder.name}: {what}; put it into a class, of train or test, or elsewhere")
    return [Path(path) for path, _ in listed.samples], np.array(listed.classes)[listed.targets]


def _stacked(folder: Path, paths: Sequence[Path]) -> np.ndarray:
    """The images' points, uint8 ``[N, H, W]`` or ``[N, H, W, 3]``."""
    points = [_points(path) for path in paths]
    for path, image in zip(paths, points, strict=True):
        if image.shape != points[0].shape:
            first, odd = (f"{p.parent.name}/{p.name}" for p in (paths[0], path))
            what = f"{odd} has shape {image.shape}, {first} {points[0].shape}"
            raise Error(f"{folder.name}: {what}; give all one size, and colours or none")
    return np.stack(points)


def _is_shown(folder: Path, path: str) -> bool:
    """Whether neither a file nor a folder that it lies in is hidden, as ``.DS_Store`` is."""
    return not any(part.startswith(".") for part in Path(path).relative_to(folder).parts)


def _points(path: Path) -> np.ndarray:
    """An image as uint8, ``[H, W]`` if it is grey, else ``[H, W, 3]``."""
    with Image.open(path) as image:
        where, npz = f"{path.parent.name}/{path.name}", "or give a .npz file"
        # Conversions cut these off at 255, and 16 bits of each colour down to the higher 8.
        if image.mode[0] in "IF" or ";16" in str(image.tile):
            what = f"{where} has more than 8 bits a point ({image.mode})"
            raise Error(f"{what}; save it with 8, {npz} of float32")
        if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
            # The colours behind what is transparent are often black, as all of an icon's are.
            if np.asarray(image.convert("RGBA"))[..., 3].min() < 255:
                raise Error(f"{where} has transparent points; save it on a background, {npz}")
        # A camera's .jpg may have a second image beside its picture.
        if (many := getattr(image, "n_frames", 1)) > 1 and image.format != "MPO":
            raise Error(f"{where} holds {many} images; save each in a file, {npz}")
        return np.asarray(image.convert("L" if image.mode in ("1", "L") else "RGB"))


def _splits(frame: pd.DataFrame, where: str) -> np.ndarray:
    """The splits of a table that names none: every fifth row tests.

    Raises:
        Error: labels or clients come in turns, so that most of what tests is of those that no other
            row has.
    """
    tests = np.arange(len(frame)) % EVERY == EVERY - 1
    for name in [name for name in ("label", "client") if name in frame]:
        rows = pd.Series(tests).groupby(frame[name].astype(str).to_numpy()).agg(["all", "sum"])
        lost = rows.index[rows["all"] & (rows["sum"] >= EVERY)]
        if 2 * rows["sum"][lost].sum() > tests.sum():
            what = f"every fifth row would test, and so all rows of {name} {lost[0]!r}"
            raise Error(
                f"{where}: {what}; give a column of splits, or put the rows in another order"
            )
    return np.where(tests, "test", "train")
