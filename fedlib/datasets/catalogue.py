"""A card for every data set fedlib knows by name, read from ``catalogue.toml``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from fedlib.paths import read_toml


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Description:
    """What fedlib knows about a data set before any copy of it is prepared.

    Attributes:
        kind: ``"arrays"`` (imported from ``.npz``), ``"text"`` (imported from ``.jsonl``), or
            ``"posts"`` (prepared only).
        shape: of one example, for arrays.
        class_count: number of labels; None if the texts have none.
        classes: names of the labels where they are known.
        polarity: of handwriting in the copy that the papers used, followed by the stand-in. An
            imported copy's own polarity is measured and stands in its card.
        stand_in: what stands in offline; empty if nothing does.
        built_in: whether that is the data set itself: it comes with a dependency.
        tasks: names of the tasks that use it, or use it where a better copy is missing.
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
        """What a prepared or imported copy's card takes over."""
        keys = ("name", "title", "about", "source", "licence")
        return {key: getattr(self, key) for key in keys}

    def card(self) -> dict[str, Any]:
        """The description as a JSON-able dict."""
        card = asdict(self)
        renamed = {"example_shape": card.pop("shape"), "stand_in_is": card.pop("stand_in")}
        return {**card, **renamed}


CATALOGUE = {
    name: Description(name, **card) for name, card in read_toml("datasets/catalogue.toml").items()
}
