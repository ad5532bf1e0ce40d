"""A card for every data set fedlib knows by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_DIGITS = tuple("0123456789")
_LETTERS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


@dataclass(frozen=True)
class Entry:
    """What fedlib knows about a data set before any copy of it is imported.

    Attributes:
        kind: ``"arrays"`` (imported from ``.npz``) or ``"text"`` (imported from ``.jsonl``).
        shape: of one example, for arrays.
        class_count: number of labels; None if the texts have none.
        classes: names of the labels where they are known.
        polarity: of handwriting in the copy that the papers used, followed by the stand-in. An
            imported copy's own polarity is measured and stands in its card.
        stand_in: what stands in offline; empty if nothing does.
    """

    name: str
    title: str
    kind: str
    about: str
    source: str
    licence: str
    shape: tuple[int, ...] | None = None
    class_count: int | None = None
    classes: tuple[str, ...] | None = None
    polarity: str | None = None
    stand_in: str = ""

    def card(self) -> dict[str, Any]:
        """The entry as a JSON-able dict."""
        return {
            "name": self.name,
            "title": self.title,
            "kind": self.kind,
            "about": self.about,
            "source": self.source,
            "licence": self.licence,
            "example_shape": None if self.shape is None else list(self.shape),
            "class_count": self.class_count,
            "classes": None if self.classes is None else list(self.classes),
            "polarity": self.polarity,
            "stand_in_is": self.stand_in,
        }


_SKLEARN = "scikit-learn's 1,797 real 8x8 digits, enlarged to 28x28 and varied by writer"
_SHAPES = "procedurally drawn coloured shapes, 32x32x3"
_SEE_SOURCE = "not stated with the copies we have seen; see the source"

ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            name="cifar10",
            title="CIFAR-10",
            kind="arrays",
            about="50,000 training and 10,000 test colour photographs of 10 kinds of thing",
            source="Krizhevsky (2009), https://www.cs.toronto.edu/~kriz/cifar.html",
            licence=_SEE_SOURCE,
            shape=(32, 32, 3),
            class_count=10,
            classes=(
                *("airplane", "automobile", "bird", "cat", "deer"),
                *("dog", "frog", "horse", "ship", "truck"),
            ),
            stand_in=_SHAPES,
        ),
        Entry(
            name="cifar100",
            title="CIFAR-100",
            kind="arrays",
            about="50,000 training and 10,000 test colour photographs, 100 fine labels in 20 "
            "coarse ones",
            source="Krizhevsky (2009), https://www.cs.toronto.edu/~kriz/cifar.html",
            licence=_SEE_SOURCE,
            shape=(32, 32, 3),
            class_count=100,
            stand_in=_SHAPES,
        ),
        Entry(
            name="mnist",
            title="MNIST",
            kind="arrays",
            about="60,000 training and 10,000 test images of handwritten digits; the writers of "
            "the two parts are different people",
            source="LeCun, Cortes and Burges, http://yann.lecun.com/exdb/mnist/",
            licence=_SEE_SOURCE,
            shape=(28, 28),
            class_count=10,
            classes=_DIGITS,
            polarity="ink_bright",
            stand_in=_SKLEARN,
        ),
        Entry(
            name="fashion_mnist",
            title="Fashion-MNIST",
            kind="arrays",
            about="60,000 training and 10,000 test grey images of clothes, in MNIST's format",
            source="Xiao, Rasul and Vollgraf (2017), "
            "https://github.com/zalandoresearch/fashion-mnist",
            licence="MIT",
            shape=(28, 28),
            class_count=10,
            classes=(
                *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
                *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
            ),
            polarity="ink_bright",
            stand_in=_SKLEARN,
        ),
        Entry(
            name="emnist",
            title="EMNIST",
            kind="arrays",
            about="handwritten digits and letters, 62 labels; the papers use the federated copy, "
            "3,400 writers, in which paper is bright",
            source="Cohen et al. (2017), derived from NIST Special Database 19",
            licence=_SEE_SOURCE,
            shape=(28, 28),
            class_count=62,
            classes=_DIGITS + _LETTERS,
            polarity="ink_dark",
            stand_in=_SKLEARN + "; only the ten digit labels of 62 occur",
        ),
        Entry(
            name="femnist",
            title="FEMNIST",
            kind="arrays",
            about="handwritten digits and letters by writer as prepared by LEAF, 62 labels; "
            "paper is bright and the glyphs are small",
            source="Caldas et al. (2018), https://github.com/TalwalkarLab/leaf",
            licence=_SEE_SOURCE,
            shape=(28, 28),
            class_count=62,
            classes=_DIGITS + _LETTERS,
            polarity="ink_dark",
            stand_in=_SKLEARN + "; only the ten digit labels of 62 occur",
        ),
        Entry(
            name="shakespeare",
            title="Shakespeare by role",
            kind="text",
            about="the speeches of Shakespeare's plays; a role in a play is a client",
            source="the plays of William Shakespeare, for instance "
            "http://shakespeare.mit.edu; the papers use another edition",
            licence="public domain",
        ),
        Entry(
            name="ag_news",
            title="AG News",
            kind="text",
            about="titles and first sentences of news articles in 4 classes",
            source="Zhang, Zhao and LeCun (2015)",
            licence="for research and other non-commercial activity, as its readme says",
            class_count=4,
            classes=("World", "Sports", "Business", "Sci/Tech"),
        ),
        Entry(
            name="stackexchange",
            title="Stack Exchange posts",
            kind="text",
            about="tagged posts by user, in place of Stack Overflow",
            source="public dumps of Stack Exchange sites; attribute by site and post",
            licence="CC BY-SA",
        ),
        Entry(
            name="tweets",
            title="Tweets with sentiment",
            kind="text",
            about="tweets by user, negative (0) or positive (1), in place of Sent140",
            source="tweets about US airlines, from public copies",
            licence=_SEE_SOURCE,
            class_count=2,
            classes=("negative", "positive"),
        ),
    )
}
