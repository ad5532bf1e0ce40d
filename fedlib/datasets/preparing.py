"""Prepare a data set from official files or by a recipe: fetch, check, read, store."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from fedlib import files, paths
from fedlib.arguments import checked
from fedlib.datasets import npy, store
from fedlib.datasets.catalogue import CATALOGUE, Edition, File, Recipe, Source, edition
from fedlib.datasets.fetching import Absent, Shelf
from fedlib.errors import Error, Failure, first_line

Card = dict[str, Any]
Save = Callable[..., Card]


@checked
def prepare(
    name: str,
    data_root: store.Root = None,
    *,
    overwrite: bool = False,
    from_folder: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> Card:
    """Download an edition of a data set, check it, and store it as arrays with a card.

    Files go to ``<data root>/raw/``, official files into ``<name>/``, a repository's files into
    ``<owner>+<repository>/``. A file that is already there is not downloaded again, and a file is
    read only if its SHA-256 is right. If both official files and a recipe give an edition, it is
    made of the official files, or by the recipe if these are not available.

    Args:
        name: a data set's name, for its official or only edition, or an edition's name. For
            instance ``"shakespeare_plays"`` is prepared as ``shakespeare``.
        data_root: folder of the data. Default: ``FEDLIB_DATA``, else ``data/``.
        overwrite: replace a prepared data set of that name.
        from_folder: a folder with the files, downloaded by hand, instead of a download. See
            :mod:`fedlib.datasets.fetching`.
        progress: show a progress bar.

    Returns:
        The new card.

    Raises:
        Error: a mistake in the arguments.
        Failure: no network, no space, or a file is missing in the folder or has the wrong SHA-256.
            Nothing is stored then.
    """
    how: dict[str, Any] = {"from_folder": from_folder, "progress": progress}
    ((_, made),) = prepare_all([edition(name)], data_root, overwrite=overwrite, **how)
    if isinstance(made, Error):
        raise made
    return made


def prepare_all(
    wanted: Sequence[Edition],
    data_root: store.Root = None,
    *,
    overwrite: bool = False,
    from_folder: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> Iterator[tuple[Edition, Card | Error]]:
    """Prepare editions one after the other, under one progress bar. See :func:`prepare`.

    Yields:
        Each edition with its new card, or with its error, which does not stop the others.
    """
    given = None if from_folder is None else Path(from_folder)
    if given and not given.is_dir():
        raise Error(f"there is no folder {given}")
    total, names = sum(item.size for item in wanted), ", ".join(item.data for item in wanted)
    shown: dict[str, Any] = {"unit": "B", "unit_scale": True, "disable": not progress}
    with tqdm(total=total, desc=names[:40], **shown) as bar:
        for item in wanted:
            shelf = Shelf(paths.data_root(data_root) / "raw", given, bar.update)
            try:
                yield item, _make(item, shelf, data_root, overwrite, progress)
            except Error as problem:
                yield item, problem


def _make(
    wanted: Edition, shelf: Shelf, data_root: store.Root, overwrite: bool, progress: bool
) -> Card:
    """Fetch and store an edition, from official files or else by its recipe."""
    store.require_new(wanted.data, data_root, overwrite)

    def save(about: Card, fill: Callable[[Path], Card], expected: str = "") -> Card:
        """Store the output of ``fill`` in a folder, unless its fingerprint is wrong."""
        with store.writing(wanted.data, data_root, overwrite) as folder:
            try:
                contents = fill(folder)
            except Exception as error:  # the files' SHA-256 was right, so this is unexpected
                if isinstance(error, Error) or getattr(error, "errno", None):  # a full disk
                    raise
                what = f"{type(error).__name__}, {first_line(error)}"
                whose = f"the files of {wanted.name!r} are not as fedlib expects"
                raise Failure(f"{whose}: {what}") from None
            known = {**CATALOGUE[wanted.data].origin(), "edition": wanted.name}
            card = store.write_card(folder, {**known, **about, **contents})
            if expected not in ("", card["fingerprint"]):
                what = f"{wanted.name!r} has the fingerprint {card['fingerprint'][:16]}..."
                why = f"but the published runs used {expected[:16]}..."
                raise Failure(f"{what}, {why}: check the version of Pillow")
            return card

    try:
        if wanted.source:
            try:
                return _official(wanted.name, wanted.source, shelf, save, progress)
            except Absent:
                if wanted.recipe is None:
                    raise
        assert wanted.recipe is not None
        return _by_recipe(wanted.name, wanted.recipe, shelf, save)
    except OSError as error:
        raise Failure(f"cannot write in {shelf.raw}: {files.reason(error)}") from None


def _official(name: str, source: Source, shelf: Shelf, save: Save, progress: bool) -> Card:
    """A data set from its official files."""
    from fedlib.datasets.writers import WRITERS  # with h5py, which nothing else needs

    raw = shelf.raw / name
    raw.mkdir(parents=True, exist_ok=True)
    files.clean(raw)
    needed = {"unpacked": source.unpacked, "prepared": source.prepared}
    _require_space(raw, shelf.missing(source.files, name), needed)
    fetched = [shelf.official(name, file) for file in source.files]
    unpacked = files.beside(raw / "unpacked")
    about: Card = {"source": source.origin or CATALOGUE[name].source}
    about["files"] = [
        {"name": file.name, "url": file.urls[0], "sha256": file.sha256}
        | {"sha256_from": source.hash_from}
        for file in source.files
    ]
    try:
        readable = _readable(source, fetched, unpacked)
        return save(about, lambda folder: WRITERS[name](readable, folder, progress))
    finally:
        files.remove(unpacked)


def _by_recipe(name: str, recipe: Recipe, shelf: Shelf, save: Save) -> Card:
    """An edition from files in public repositories, with the recipe's fingerprint."""
    from fedlib.datasets.conversions import CONVERSIONS  # which nothing else needs

    shelf.raw.mkdir(parents=True, exist_ok=True)
    missing = [file for source in recipe.sources for file in shelf.missing(source.downloads())]
    _require_space(shelf.raw, missing, {"prepared": recipe.prepared})
    contents = {source.role: shelf.repository(source) for source in recipe.sources}
    keys = ("role", "repo", "commit", "licence", "note")
    about = {
        "title": recipe.title,
        "about": recipe.about,
        "source": ", ".join(f"{part.repo} at {part.commit[:12]}" for part in recipe.sources),
        "licence": recipe.sources[0].licence,
        "repositories": [{key: getattr(part, key) for key in keys} for part in recipe.sources],
    }

    def fill(folder: Path) -> Card:
        arrays, clients = CONVERSIONS[name](contents)
        classes = arrays.pop("classes", None)
        description = npy.write(folder, arrays, clients, CATALOGUE[recipe.data])
        return description if classes is None else {**description, "classes": classes.tolist()}

    return save(about, fill, recipe.card)


def _require_space(folder: Path, missing: Sequence[File], needed: dict[str, int]) -> None:
    """Raise if there is no space for the files to download, and for bytes by their purpose."""
    needed = {"to download": sum(file.size for file in missing), **needed}
    free, total = shutil.disk_usage(folder).free, sum(needed.values())
    if total > free:
        parts = ", ".join(f"{size / 1e6:,.1f} MB {what}" for what, size in needed.items() if size)
        what = f"about {total / 1e6:,.1f} MB needed ({parts}), {free / 1e6:,.1f} MB free"
        raise Failure(f"not enough space in {folder}: {what}")


def _readable(source: Source, fetched: list[Path], unpacked: Path) -> dict[str, Path]:
    """The files to read by name: downloaded files, or files in these archives.

    For a tar, Python's ``data`` filter refuses members outside the folder, links to elsewhere and
    devices. For a zip, members outside the folder are skipped.

    Raises:
        Failure: an archive is damaged or not safe, or lacks a file, or there is no space.
    """
    if not source.members:
        return {path.name: path for path in fetched}
    for archive in fetched:
        safely: dict[str, Any] = {} if archive.suffix == ".zip" else {"filter": "data"}
        try:
            shutil.unpack_archive(archive, unpacked, **safely)
        except Exception as error:  # a damaged archive can make the readers raise anything
            raise Failure(f"{archive.name} cannot be unpacked: {first_line(error)}") from None
    readable = {path.name: path for path in unpacked.rglob("*") if path.is_file()}
    missing = [member for member in source.members if member not in readable]
    if missing:
        archives = ", ".join(path.name for path in fetched)
        raise Failure(f"there is no {missing[0]} in {archives}")
    return readable
