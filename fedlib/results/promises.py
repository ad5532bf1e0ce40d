"""Several folders stored as one: all of them, or none, whenever the process is killed.

They are written beside their places first. Before any gets its name, a promise says which gets
which; whoever comes after a killed process keeps it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from fedlib import files
from fedlib.errors import Failure

NAME, UNFINISHED = "promise", "promise-unfinished"


@contextmanager
def promised(root: Path, moves: Mapping[Path, Path]) -> Iterator[None]:
    """The time in which this process gives whole folders their names.

    Args:
        root: where the promise lies; the folders are below it.
        moves: a folder, as :func:`fedlib.files.replacing` gave it -> its name.

    Raises:
        Failure: the promise cannot be written.
    """
    names = {str(a.relative_to(root)): str(b.relative_to(root)) for a, b in moves.items()}
    promise, unfinished = files.beside(root / NAME), files.beside(root / UNFINISHED)
    try:
        try:
            unfinished.write_text(json.dumps(names), encoding="utf-8")
            os.rename(unfinished, promise)
        except OSError as problem:
            raise Failure(f"cannot write in {root}: {files.reason(problem)}") from None
        yield
    finally:
        files.remove(unfinished)
        files.remove(promise)


def keep(root: Path) -> None:
    """Give their names to the folders of processes that were killed before they had done so."""
    for left in files.remains(root):
        if left.name.endswith(f".{NAME}"):
            with suppress(OSError):  # as far as it can be done here
                for aside, path in json.loads(left.read_text(encoding="utf-8")).items():
                    if (root / aside).is_dir():
                        files.install(root / aside, root / path)
                files.remove(left)
        elif left.name.endswith(f".{UNFINISHED}"):
            files.remove(left)
