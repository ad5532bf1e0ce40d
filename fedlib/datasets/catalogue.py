"""A card for every data set that fedlib knows by name, and the source of its files.

The cards come from ``catalogue.toml``, the official files from ``sources.toml`` and the recipes
from ``recipes.toml`` (copies in public repositories, which the published runs used). A data set can
have several **editions**: the official edition has the data set's name, a recipe's its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from fedlib.errors import Error, unknown
from fedlib.paths import read_toml


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Description:
    """The description of a data set before any copy of it is prepared.

    Attributes:
        kind: ``"arrays"`` (imported from ``.npz``), ``"text"`` (imported from ``.jsonl``), or
            ``"posts"`` (prepared only).
        shape: shape of one example, for arrays.
        class_count: number of labels. None if the texts have none.
        classes: names of the labels if they are known.
        polarity: polarity of handwriting in the copy that the papers used, which the stand-in
            follows. An imported copy's own polarity is measured and recorded in its card.
        stand_in: the data that replace it offline. Empty if there are none.
        built_in: whether the stand-in is the data set itself, which comes with a dependency.
        tasks: names of the tasks that use it, or use it if a better copy is missing.
    """

    name: str
    title: str
    about: str
    source: str
    kind: str = "arrays"
    licence: str = "not stated with the copies we have seen; see the source"
    shape: tuple[int, ...] | None = None
    class_count: int | None = None
    classes: tuple[str, ...] | None = None
    polarity: str | None = None
    stand_in: str = ""
    built_in: bool = False
    tasks: tuple[str, ...] = ()

    def origin(self) -> dict[str, Any]:
        """The fields that the card of a prepared or imported copy takes over."""
        keys = ("name", "title", "about", "source", "licence")
        return {key: getattr(self, key) for key in keys}

    def card(self) -> dict[str, Any]:
        """The description as a JSON-able dict."""
        card = asdict(self)
        card["stand_in_is"] = card.pop("stand_in")
        return card


CATALOGUE = {
    name: Description(name, **card) for name, card in read_toml("datasets/catalogue.toml").items()
}


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class File:
    """A file from others.

    Attributes:
        name: its name on disk. For a repository's file, its path there.
        sha256: SHA-256 of the file, hexadecimal. Empty if not known beforehand.
        size: size in bytes. Approximate if it was not published.
        urls: addresses of the same bytes, tried in this order. For a repository's file they follow
            from its path.
    """

    name: str
    sha256: str
    size: int
    urls: tuple[str, ...] = ()


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Source:
    """The files of a data set.

    Attributes:
        files: files to download.
        members: the required files of the archives, by name without folders. Empty if the files are
            read as they are.
        unpacked: bytes of those members. Approximate for TFF's.
        prepared: bytes of the arrays made from them. Approximate for TFF's.
        hash_from: the source of the files' SHA-256.
        origin: one line for the card if the catalogue describes more than this copy.
    """

    files: tuple[File, ...]
    members: tuple[str, ...] = ()
    unpacked: int = 0
    prepared: int = 0
    hash_from: str = ""
    origin: str = ""


SOURCES = {name: Source(**source) for name, source in read_toml("datasets/sources.toml").items()}


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Tree:
    """Many files of a repository.

    Attributes:
        pattern: a regular expression for their paths.
        files: number of files.
        bytes: size of all files.
        sha256: SHA-256 of the text with a line ``<SHA-256 of the file>  <path>`` for each file,
            sorted by the bytes of the paths.
    """

    pattern: str
    files: int
    bytes: int
    sha256: str


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Repository:
    """The files that a recipe takes from a public repository on GitHub: listed files, or a tree.

    Attributes:
        role: the purpose of the files in the recipe.
        repo: ``owner/name``.
        commit: the commit that has these files.
        licence: the licence in the repository.
        note: other facts about the licence.
    """

    role: str
    repo: str
    commit: str
    licence: str
    files: tuple[File, ...] = ()
    tree: Tree | None = None
    note: str = ""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return self.tree.bytes if self.tree else sum(file.size for file in self.files)

    @property
    def archive(self) -> str:
        """The address of all of the repository's files at the commit, as a ``.tar.gz``."""
        return f"https://codeload.github.com/{self.repo}/tar.gz/{self.commit}"

    def downloads(self) -> list[File]:
        """The files to download. For a tree it is the archive, whose own bytes are not fixed.

        Their names are their places in a folder of raw files.
        """
        folder = self.repo.replace("/", "+")
        if self.tree:
            return [File(f"{folder}.tar.gz", "", self.size, (self.archive,))]
        raw = f"https://raw.githubusercontent.com/{self.repo}/{self.commit}"
        return [
            File(f"{folder}/{file.name}", file.sha256, file.size, (f"{raw}/{quote(file.name)}",))
            for file in self.files
        ]


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Recipe:
    """How an edition of a data set is made from files in public repositories.

    Attributes:
        data: the data set's name, under which the edition is prepared.
        title, about: title and description of the edition.
        card: the fingerprint of the result, which published runs name.
        prepared: bytes of the arrays. Approximate for texts.
        sources: the repositories with the files.
        presets: presets whose runs take this edition.
        tasks: fingerprints of the arrays that text tasks encode at the sizes of published runs.
    """

    data: str
    title: str
    about: str
    card: str
    prepared: int
    sources: tuple[Repository, ...]
    presets: tuple[str, ...]
    tasks: tuple[str, ...] = ()


RECIPES = {name: Recipe(**recipe) for name, recipe in read_toml("datasets/recipes.toml").items()}


@dataclass(frozen=True)
class Edition:
    """An edition of a data set, as ``fedlib data prepare`` knows it by name.

    Attributes:
        data: the data set's name.
        source: the official files, if it is made of them.
        recipe: the files in public repositories, if it is made of them. Both give the same arrays.
    """

    name: str
    data: str
    source: Source | None
    recipe: Recipe | None

    @property
    def size(self) -> int:
        """Bytes to download."""
        if self.source:
            return sum(file.size for file in self.source.files)
        return sum(source.size for source in self.recipe.sources) if self.recipe else 0


def editions(data: str | None = None) -> dict[str, Edition]:
    """The editions that can be prepared, by name: all, or those of one data set (official first).

    Example:
        >>> list(editions("shakespeare"))
        ['shakespeare', 'shakespeare_plays']
    """
    known = {}
    for name in dict.fromkeys((*SOURCES, *RECIPES)):
        recipe = RECIPES.get(name)
        known[name] = Edition(name, recipe.data if recipe else name, SOURCES.get(name), recipe)
    return {name: item for name, item in known.items() if data in (None, item.data)}


def edition(name: str) -> Edition:
    """An edition by its name, or by the name of a data set that has only one.

    Raises:
        Error: there is no such edition, or no data set of that name can be prepared.
    """
    known = editions()
    if name in known:
        return known[name]
    theirs = list(editions(name).values())
    if len(theirs) != 1:
        other = "import a copy of another with 'fedlib data import NAME FILE', see data/README.md"
        raise Error(f"{unknown('data set to prepare', name, known)}, or {other}")
    return theirs[0]


def edition_for(preset: str, names: Sequence[str]) -> Edition | None:
    """The edition that a preset's runs take, of data sets in order of preference.

    The laptop preset takes the data of the published runs. The paper preset takes the papers' data
    if there is an official source.
    """
    theirs = [item for name in names for item in editions(name).values()]

    def rank(item: Edition) -> tuple[Any, ...]:
        other = not (item.recipe and preset in item.recipe.presets)
        place = names.index(item.data)
        return (other, place) if preset == "laptop" else (place, other, item.source is None)

    return min(theirs, key=rank, default=None)


_BY_FINGERPRINT = {
    fingerprint: name
    for name, recipe in RECIPES.items()
    for fingerprint in (recipe.card, *recipe.tasks)
}


def edition_of(fingerprint: str) -> str | None:
    """The name of a recipe's edition by the fingerprint on a card, or of a published run's data.

    It is None for other data.
    """
    return _BY_FINGERPRINT.get(fingerprint)
