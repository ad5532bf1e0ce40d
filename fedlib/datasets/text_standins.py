"""Offline stand-ins for texts: the docstrings of the installed Python standard library.

Two sets of posts are generated, and how hard they are is known: :func:`rare_words` and
:func:`word_chains`.

A module is a client: its authors have a vocabulary and a style of their own, so the split among
clients is a natural one. The source files are parsed, never imported. The texts depend on the
Python version, which the source line names; numbers from them must not be compared with a paper's.
"""

from __future__ import annotations

import ast
import gc
import inspect
import json
import platform
import re
import sysconfig
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedlib.datasets.catalogue import CATALOGUE, read_toml
from fedlib.datasets.dataset import TextDataset, describe, fingerprint
from fedlib.datasets.text import post_words
from fedlib.errors import Error
from fedlib.randomness import numpy_generator

_LABELS = read_toml("topics.toml")
# The labels of the news stand-ins: which modules a topic holds, which topics a group of AG News.
TOPICS: dict[str, list[str]] = _LABELS["topics"]
GROUPS: dict[str, list[str]] = _LABELS["groups"]
MOST_TAGS = 5  # of a post, as on Stack Overflow
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
_NAMED = (ast.ClassDef, *_FUNCTION)
_RETURNS = ("returns nothing", "returns a value")
NAMES = (
    *("shakespeare", "stackoverflow", "stackexchange", "sent140", "tweets", "ag_news", "dbpedia"),
    *("rare_words", "word_chains"),
)


@lru_cache(maxsize=len(NAMES))
def make(name: str) -> TextDataset:
    """The stand-in of a text data set; the same Python always gives the same texts.

    ``shakespeare``: paragraphs of docstrings, a module is a role. ``stackoverflow`` and
    ``stackexchange``: whole docstrings under the name of what they describe; the tags are the first
    five modules that the author's module imports. ``sent140`` and ``tweets``: the first paragraph
    of a function's docstring; label 1 if the function returns a value (of the more frequent label
    so many are left out that both are equally frequent). ``ag_news`` and ``dbpedia``: paragraphs,
    the label is the topic of their module (4 and 14 topics), one client.

    A fifth of each client's texts, spread evenly, is its test split. No text occurs twice.

    Raises:
        Error: no such stand-in, or this Python has no source files of its library.
    """
    if name not in NAMES:
        raise Error(
            f"there is no offline stand-in for {name!r}; there is one for: {', '.join(NAMES)}"
        )
    if name in ("rare_words", "word_chains"):
        return _dataset(name, (rare_words if name == "rare_words" else word_chains)(), 5)
    if name == "shakespeare":
        return _dataset(name, _paragraphs(20), 2)
    if name in ("stackoverflow", "stackexchange"):
        return _dataset(name, _posts(), 5)
    if name in ("sent140", "tweets"):
        return _dataset(name, _balanced(_summaries()), 5, _RETURNS)
    topics = GROUPS if name == "ag_news" else {topic: [topic] for topic in TOPICS}
    return _dataset(name, _topical(topics), 5, tuple(topics))


# --------------------------------------------------------------------------------- the docstrings


class _Doc(NamedTuple):
    """A docstring: of what, and whether that is a function that returns a value."""

    name: str
    function: bool
    returns: bool
    text: str


class _Module(NamedTuple):
    """A module with docstrings: dotted name, modules it imports in order, docstrings in order."""

    name: str
    imports: tuple[str, ...]
    docs: tuple[_Doc, ...]


@lru_cache(maxsize=1)
def _library() -> tuple[_Module, ...]:
    """The modules named in ``TOPICS``, sorted by name; parsed once per process."""
    root = Path(sysconfig.get_path("stdlib"))
    tops = sorted({name for names in TOPICS.values() for name in names})
    files = [file for top in tops for file in (root / f"{top}.py", *(root / top).rglob("*.py"))]
    # Syntax trees are very many objects and no garbage; looking for some takes half of the time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        modules = [module for file in files if (module := _module(file, root)) is not None]
    finally:
        if collecting:
            gc.enable()
    if not modules:
        raise Error(
            f"no source files of Python's standard library in {root}, and the offline text "
            "stand-ins are made from them: import real data ('fedlib data import --help')"
        )
    return tuple(sorted(modules, key=lambda module: module.name))


def _module(file: Path, root: Path) -> _Module | None:
    """What a source file says; None without docstrings, and for damaged files and tests."""
    place = file.relative_to(root).with_suffix("").parts
    if {"test", "tests"} & set(place):
        return None
    try:
        source = file.read_bytes()
        tree = ast.parse(source) if b'"""' in source else None
    except (OSError, SyntaxError, ValueError):
        return None
    if tree is None:
        return None
    name = ".".join(place).removesuffix(".__init__")
    docs = tuple(_docs(tree, name))
    return _Module(name, _imports(tree), docs) if docs else None


def _docs(node: ast.AST, name: str) -> Iterator[_Doc]:
    """The docstrings of a module and of its classes and functions, also inside each other."""
    if isinstance(node, (ast.Module, *_NAMED)):
        text = ast.get_docstring(node, clean=False)
        if text and text.strip():
            function = isinstance(node, _FUNCTION)
            yield _Doc(name, function, function and _returns(node), inspect.cleandoc(text))
    for child in _statements(node):
        if not hasattr(child, "body"):
            continue
        inner = f"{name}.{child.name}" if isinstance(child, _NAMED) else name
        yield from _docs(child, inner)


def _statements(node: ast.AST) -> list[ast.stmt]:
    """The statements directly inside a statement; expressions hold no docstrings."""
    inside: list[ast.stmt] = []
    for field in ("body", "orelse", "finalbody"):
        inside += getattr(node, field, ())
    for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        inside += part.body
    return inside


def _returns(function: ast.AST) -> bool:
    """Whether a function, nested ones aside, has ``return`` with a value other than None."""
    inside = _statements(function)
    while inside:
        node = inside.pop()
        if isinstance(node, ast.Return) and node.value is not None:
            if not (isinstance(node.value, ast.Constant) and node.value.value is None):
                return True
        if not isinstance(node, _NAMED):
            inside += _statements(node)
    return False


def _imports(tree: ast.Module) -> tuple[str, ...]:
    """The top-level modules that a module imports, in order, each once; its own package aside."""
    names: dict[str, None] = {}
    inside = list(tree.body)
    while inside:
        node = inside.pop(0)
        if isinstance(node, ast.Import):
            names.update((alias.name.split(".")[0], None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names[node.module.split(".")[0]] = None
        elif isinstance(node, (ast.If, ast.Try)):
            inside = _statements(node) + inside
    names.pop("__future__", None)
    return tuple(names)


# -------------------------------------------------------------------------------------- the texts


class _Text(NamedTuple):
    client: str
    text: str
    target: int | tuple[str, ...] | None = None


def _paragraphs(characters: int) -> Iterator[_Text]:
    """Paragraphs of at least so many characters."""
    for module in _library():
        for doc in module.docs:
            for part in re.split(r"\n[ \t]*\n", doc.text):
                part = inspect.cleandoc(part)
                if len(part) >= characters:
                    yield _Text(module.name, part)


def _posts() -> Iterator[_Text]:
    """Docstrings of at least 5 words under the words of the name of what they describe."""
    for module in _library():
        tags = module.imports[:MOST_TAGS]
        for doc in module.docs:
            if tags and len(post_words(doc.text)) >= 5:
                title = re.sub(r"[._]+", " ", doc.name).strip()
                yield _Text(module.name, f"{title}\n{doc.text}", tags)


def _summaries() -> Iterator[_Text]:
    """First paragraphs of functions' docstrings, on one line, of at least 3 words."""
    for module in _library():
        for doc in module.docs:
            text = " ".join(re.split(r"\n[ \t]*\n", doc.text)[0].split())
            if doc.function and len(post_words(text)) >= 3:
                yield _Text(module.name, text, int(doc.returns))


def _balanced(texts: Iterable[_Text]) -> Iterator[_Text]:
    """Of texts with label 0 or 1 so many, evenly spread, that both labels are equally frequent.

    Sent140 is balanced as a whole too, while its users are not.
    """
    texts = list(texts)
    counts = Counter(text.target for text in texts)
    keep, seen = min(counts[0], counts[1]), {0: 0, 1: 0}
    for text in texts:
        label = int(text.target == 1)
        before, seen[label] = seen[label], seen[label] + 1
        if seen[label] * keep // counts[label] > before * keep // counts[label]:
            yield text


def _topical(topics: Mapping[str, list[str]]) -> Iterator[_Text]:
    """Paragraphs of at least 8 words; the target is the position of their module's topic."""
    labels = {
        top: label
        for label, parts in enumerate(topics.values())
        for part in parts
        for top in TOPICS[part]
    }
    for paragraph in _paragraphs(40):
        label = labels.get(paragraph.client.split(".")[0])
        text = " ".join(paragraph.text.split())
        if label is not None and len(post_words(text)) >= 8:
            yield _Text("all", text, label)


# The generated posts: users and their posts; topics, words of a topic, common words.
USERS, POSTS = 200, 15
TOPIC_TAGS, OWN_WORDS, COMMON_WORDS = 40, 4, 20
_OWN_TOPICS = 5  # of a user
_AT_HOME = 0.5  # the share of a user's posts that are about these
_HINTED = 0.9  # how often a post has a word of its topic
_LONG = 8  # words of a post


def rare_words() -> Iterator[_Text]:
    """Posts whose tags hang on rare words, as generated: how hard they are is known.

    40 topics, the k-th as frequent as 1 / sqrt(k) (the first five are a quarter of all); a user
    writes half of the posts about five of them. A post has one topic or, as often, two,
    which are its tags. For each of them it holds, with probability 0.9, one of the four words that
    no other topic has, and the rest of its eight words are common ones (30, the k-th as frequent as
    1 / k), which tell nothing. So a topic's word occurs in 0.7 % of the posts, a common one in 10
    to 80 %. Who knows the words finds nine of ten tags and guesses the others.
    """
    random = numpy_generator(0, "stand-in rare_words")
    topics = np.arange(1, TOPIC_TAGS + 1) ** -0.5
    common = 1 / np.arange(1, COMMON_WORDS + 1)
    topics, common = topics / topics.sum(), common / common.sum()
    for user in range(USERS):
        home = random.choice(TOPIC_TAGS, _OWN_TOPICS, replace=False, p=topics)
        for _ in range(POSTS):
            source = (home, topics[home] / topics[home].sum())
            if random.random() > _AT_HOME:
                source = (np.arange(TOPIC_TAGS), topics)
            about = random.choice(source[0], random.integers(1, 3), replace=False, p=source[1])
            own = [
                f"word{topic}{'abcd'[random.integers(OWN_WORDS)]}"
                for topic in about
                if random.random() < _HINTED
            ]
            filler = random.choice(COMMON_WORDS, _LONG - len(own), p=common)
            words = random.permutation([*own, *(f"the{number}" for number in filler)])
            tags = tuple(f"topic{topic}" for topic in sorted(about))
            yield _Text(f"user {user}", "\n" + " ".join(words), tags)


# The generated chains: speakers and their sentences, words and how many of a sentence.
SPEAKERS, SENTENCES, CHAIN_WORDS, CHAIN_LENGTH = 200, 10, 120, 20
_FOLLOWS = 0.6  # how often a word is followed by its successor
_OWN_WORDS = 12  # of a speaker, who takes half of the other words from them


def word_chains() -> Iterator[_Text]:
    """Sentences whose words foretell the next ones, as generated: how hard they are is known.

    Of 120 words the k-th is drawn as often as 1 / k. Each has a successor among its three
    neighbours in frequency, which follows it with probability 0.6; else the next word is drawn
    anew, half of the time from twelve words of the speaker's own. Who knows all successors is right
    in six of ten cases; who knows the commonest word only, in one of eleven. The rarer half of the
    words makes up a seventh of the text.
    """
    random = numpy_generator(0, "stand-in word_chains")
    share = 1 / np.arange(1, CHAIN_WORDS + 1)
    share /= share.sum()
    # Rings of four neighbours in frequency: 0 -> 1 -> 2 -> 3 -> 0, 4 -> 5 ...
    rings = np.arange(CHAIN_WORDS).reshape(-1, 4)
    after = np.roll(rings, -1, axis=1).ravel()
    for speaker in range(SPEAKERS):
        own = random.choice(CHAIN_WORDS, _OWN_WORDS, replace=False, p=share)
        for _ in range(SENTENCES):
            words = [random.choice(CHAIN_WORDS, p=share)]
            while len(words) < CHAIN_LENGTH:
                anew = random.choice(own) if random.random() < 0.5 else None
                anew = random.choice(CHAIN_WORDS, p=share) if anew is None else anew
                words.append(after[words[-1]] if random.random() < _FOLLOWS else anew)
            text = " ".join(f"word{word}" for word in words)
            yield _Text(f"speaker {speaker}", "\n" + text, ("chain",))


def _dataset(
    name: str, texts: Iterable[_Text], least: int, classes: tuple[str, ...] | None = None
) -> TextDataset:
    """Each text once, of clients with at least ``least`` texts, client by client."""
    distinct: dict[str, _Text] = {}
    clients: dict[str, list[_Text]] = defaultdict(list)
    for text in texts:
        distinct.setdefault(text.text, text)
    for text in distinct.values():
        clients[text.client].append(text)
    clients = {client: kept for client, kept in clients.items() if len(kept) >= least}
    splits: dict[str, list[tuple[int, _Text]]] = {"train": [], "test": []}
    for code, kept in enumerate(clients.values()):
        for place, text in enumerate(kept):
            # Every fifth text is for testing, and the last one of a client with fewer.
            last = len(kept) < 5 and place == len(kept) - 1
            splits["test" if place % 5 == 4 or last else "train"].append((code, text))
    arrays: dict[str, np.ndarray] = {}
    for split, rows in splits.items():
        arrays |= _ragged(split, "text", "offsets", [text.text.encode() for _, text in rows])
        arrays[f"{split}_client"] = np.array([code for code, _ in rows], dtype=np.int64)
        targets = [text.target for _, text in rows]
        if classes is not None:
            arrays[f"{split}_label"] = np.array(targets, dtype=np.int64)
        elif isinstance(targets[0], tuple):
            tags = [json.dumps(names).encode() for names in targets]
            arrays |= _ragged(split, "tags", "tags_offsets", tags)
    for array in arrays.values():
        array.setflags(write=False)
    records = {key: describe(array) for key, array in arrays.items()}
    return TextDataset(
        name=name,
        arrays=arrays,
        clients=tuple(clients),
        classes=classes,
        stand_in=True,
        source=f"offline stand-in for {CATALOGUE[name].title}: {CATALOGUE[name].stand_in} "
        f"(Python {platform.python_version()})",
        fingerprint=fingerprint({**records, "clients": list(clients)}, classes),
    )


def _ragged(split: str, field: str, offsets: str, parts: list[bytes]) -> dict[str, np.ndarray]:
    return {
        f"{split}_{field}": np.frombuffer(b"".join(parts), dtype=np.uint8).copy(),
        f"{split}_{offsets}": np.cumsum([0, *map(len, parts)], dtype=np.int64),
    }
