"""From official files, or by a recipe, to a prepared data set: fetch, check, read, store."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from fedlib import files, paths
from fedlib.arguments import checked
from fedlib.datasets import npy, store
from fedlib.datasets.catalogue import CATALOGUE, Edition, Recipe, Source, edition
from fedlib.datasets.fetching import NotDownloaded, Shelf
from fedlib.errors import Error, Failure, first_line


@checked
def prepare(
    name: str,
    data_root: store.Root = None,
    *,
    overwrite: bool = False,
    from_folder: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Download an edition of a data set, check it, and store it as arrays with a card.

    The files come to ``<data root>/raw/``, official ones into ``<name>/``, a repository's into
    ``<owner>+<repository>/``. A file that is there is not downloaded again, and nothing is read
    before its SHA-256 has been found right. An edition that both official files and a recipe make
    is made of the official ones, and by the recipe where these cannot be had.

    Args:
        name: a data set's, for its official edition or the only one; or an edition's, for instance
            ``"shakespeare_plays"``, which is prepared as ``shakespeare``.
        data_root: default ``FEDLIB_DATA``, else ``data/``.
        overwrite: replace a prepared data set of that name.
        from_folder: a folder with the files, downloaded by hand, in place of a download; see
            :mod:`fedlib.datasets.fetching`.
        progress: show a progress bar.

    Returns:
        The new card.

    Raises:
        Error: a mistake in what is asked.
        Failure: no network, no space, or a file that is not the right one. Nothing has been
            stored then.
    """
    wanted = edition(name)
    given = _given(from_folder)
    with bar([wanted], progress) as advance:
        return make(wanted, data_root, overwrite, given, advance, progress)


def prepare_all(
    wanted: Sequence[Edition],
    data_root: store.Root = None,
    *,
    from_folder: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> Iterator[tuple[Edition, dict[str, Any] | Error]]:
    """Prepare editions one after the other, under one progress bar; see :func:`prepare`.

    Yields:
        each edition with its new card, or with what prevented it, which leaves the others alone.
    """
    given = _given(from_folder)
    with bar(wanted, progress) as advance:
        for item in wanted:
            try:
                yield item, make(item, data_root, False, given, advance)
            except Error as problem:
                yield item, problem


def _given(folder: str | os.PathLike[str] | None) -> Path | None:
    if folder is not None and not Path(folder).is_dir():
        raise Error(f"there is no folder {folder}")
    return None if folder is None else Path(folder)


def bar(wanted: Sequence[Edition], progress: bool) -> Any:
    """A progress bar over the bytes of editions' files."""
    total = sum(item.size for item in wanted)
    shown: dict[str, Any] = {"unit": "B", "unit_scale": True, "disable": not progress}
    return tqdm(total=total, desc=", ".join(item.data for item in wanted)[:40], **shown)


def make(
    wanted: Edition,
    data_root: store.Root,
    overwrite: bool,
    given: Path | None,
    advance: tqdm[Any],
    progress: bool = False,
) -> dict[str, Any]:
    """Fetch and store one edition; see :func:`prepare`."""
    store.require_new(wanted.data, data_root, overwrite)
    root = paths.data_root(data_root)
    shelf = Shelf(root / "raw", given, advance.update)
    source, recipe = wanted.source, wanted.recipe
    if source and recipe and given is not None:
        if not all(shelf.holds(wanted.data, file) for file in source.files):
            source = None
    try:
        if source:
            try:
                return _official(wanted.name, source, shelf, data_root, overwrite, progress)
            except NotDownloaded:
                if recipe is None:
                    raise
        assert recipe is not None
        return _by_recipe(wanted.name, recipe, shelf, data_root, overwrite)
    except OSError as error:
        raise Failure(f"cannot write in {shelf.raw}: {files.reason(error)}") from None


def _official(
    name: str,
    source: Source,
    shelf: Shelf,
    data_root: store.Root,
    overwrite: bool,
    progress: bool,
) -> dict[str, Any]:
    """A data set from its official files."""
    raw = shelf.raw / name
    raw.mkdir(parents=True, exist_ok=True)
    files.clean(raw)
    missing = [file.size for file in source.files if not (raw / file.name).exists()]
    needed = {
        "to download": sum(missing) if shelf.given is None else 0,
        "unpacked": source.unpacked,
        "prepared": source.prepared,
    }
    _require_space(shelf.raw, needed)
    fetched = [shelf.official(name, file) for file in source.files]
    unpacked = files.beside(raw / "unpacked")
    try:
        readable = _readable(source, fetched, unpacked)
        with store.writing(name, data_root, overwrite) as folder:
            made = _made(name, readable, folder, progress)
            return store.write_card(folder, {**_about(name, source), **made})
    finally:
        files.remove(unpacked)


def _by_recipe(
    name: str, recipe: Recipe, shelf: Shelf, data_root: store.Root, overwrite: bool
) -> dict[str, Any]:
    """An edition from files in public repositories; its fingerprint is the recipe's."""
    from fedlib.datasets.conversions import CONVERSIONS  # which nothing else needs

    shelf.raw.mkdir(parents=True, exist_ok=True)
    missing = sum(file.size for source in recipe.sources for file in shelf.missing(source))
    _require_space(shelf.raw, {"to download": missing, "prepared": recipe.prepared})
    contents = {source.role: shelf.repository(source) for source in recipe.sources}
    known = CATALOGUE[recipe.data]
    origin = {
        "title": recipe.title,
        "about": recipe.about,
        "source": ", ".join(f"{part.repo} at {part.commit[:12]}" for part in recipe.sources),
        "licence": recipe.sources[0].licence,
        "edition": name,
        "repositories": [
            {key: getattr(part, key) for key in ("role", "repo", "commit", "licence", "note")}
            for part in recipe.sources
        ],
    }
    with store.writing(recipe.data, data_root, overwrite) as folder:
        try:
            arrays, clients = CONVERSIONS[name](contents)
        except Exception as error:  # the files' SHA-256 was right, so they should be as expected
            what = f"{type(error).__name__}, {first_line(error)}"
            raise Failure(f"the files of {name!r} are not as fedlib expects: {what}") from None
        classes = arrays.pop("classes", None)
        card = {**known.origin(), **origin, **npy.write(folder, arrays, clients, known)}
        if classes is not None:
            card["classes"] = classes.tolist()
        card = store.write_card(folder, card)
        if card["fingerprint"] != recipe.card:
            what = f"{name!r} came out with fingerprint {card['fingerprint'][:16]}..."
            why = "not the published runs'; is Pillow another version?"
            raise Failure(f"{what}, {recipe.card[:16]}... was expected: it is {why}")
        return card


def _made(name: str, readable: dict[str, Path], folder: Path, progress: bool) -> dict[str, Any]:
    """What the official files become. Their SHA-256 was right, so they should be as expected."""
    from fedlib.datasets.writers import WRITERS  # with h5py, which nothing else needs

    try:
        return WRITERS[name](readable, folder, progress)
    except Exception as error:
        if isinstance(error, Error) or getattr(error, "errno", None):  # the latter: a full disk
            raise
        what = f"{type(error).__name__}, {first_line(error)}"
        raise Failure(f"the official files of {name!r} are not as fedlib expects: {what}") from None


def _require_space(folder: Path, needed: dict[str, int]) -> None:
    """Refuse to begin what will not fit: bytes by what they are for."""
    free, total = shutil.disk_usage(folder).free, sum(needed.values())
    if total > free:
        parts = ", ".join(f"{size / 1e6:,.1f} MB {what}" for what, size in needed.items() if size)
        what = f"about {total / 1e6:,.1f} MB needed ({parts}), {free / 1e6:,.1f} MB free"
        raise Failure(f"not enough space in {folder}: {what}")


def _readable(source: Source, fetched: list[Path], unpacked: Path) -> dict[str, Path]:
    """The files to read by name: the downloaded ones, or what is in these archives.

    Of a tar, Python's ``data`` filter refuses members that would leave the folder, links to
    elsewhere and devices. A zip's members that would leave the folder are passed over.

    Raises:
        Failure: an archive is damaged or not safe, or lacks a file; or there is no space.
    """
    if not source.members:
        return {path.name: path for path in fetched}
    for archive in fetched:
        safely: dict[str, Any] = {} if archive.suffix == ".zip" else {"filter": "data"}
        try:
            shutil.unpack_archive(archive, unpacked, **safely)
        except Exception as error:  # whatever a damaged archive makes the readers raise
            raise Failure(f"{archive.name} cannot be unpacked: {first_line(error)}") from None
    readable = {path.name: path for path in unpacked.rglob("*") if path.is_file()}
    missing = [member for member in source.members if member not in readable]
    if missing:
        archives = ", ".join(path.name for path in fetched)
        raise Failure(f"there is no {missing[0]} in {archives}")
    return readable


def _about(name: str, source: Source) -> dict[str, Any]:
    """The part of the card that does not depend on what is in the files."""
    known, hash_from = CATALOGUE[name], {"sha256_from": source.hash_from}
    fetched = [
        {"name": file.name, "url": file.urls[0], "sha256": file.sha256} | hash_from
        for file in source.files
    ]
    origin = {"source": source.origin or known.source, "edition": name}
    return {**known.origin(), **origin, "files": fetched}
