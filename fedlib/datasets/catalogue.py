"""A card for every data set fedlib knows by name."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

_DIGITS = tuple("0123456789")
_LETTERS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


_SEE_SOURCE = "not stated with the copies we have seen; see the source"


@dataclass(frozen=True)
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
        tasks: names of the tasks that use it, or use it where a better copy is missing.
    """

    name: str
    title: str
    about: str
    source: str
    kind: str = "arrays"
    licence: str = _SEE_SOURCE
    shape: tuple[int, ...] | None = None
    class_count: int | None = None
    classes: tuple[str, ...] | None = None
    polarity: str | None = None
    stand_in: str = ""
    tasks: tuple[str, ...] = ()

    def card(self) -> dict[str, Any]:
        """The description as a JSON-able dict."""
        card = asdict(self)
        renamed = {"example_shape": card.pop("shape"), "stand_in_is": card.pop("stand_in")}
        return {**card, **renamed}


_SKLEARN = "scikit-learn's 1,797 real 8x8 digits, enlarged to 28x28 and varied by writer"
_WRITERS = f"{_SKLEARN}; only the ten digit labels of 62 occur"
_SHAPES = "procedurally drawn coloured shapes, 32x32x3"
_DOCSTRINGS = "docstrings of Python's standard library"
# Stand-ins of two data sets each.
_POSTS = f"{_DOCSTRINGS}, a module as a user, the modules it imports as tags"
_SUMMARIES = (
    f"first paragraphs of functions' {_DOCSTRINGS}, a module as a user; the label says whether the "
    "function returns a value"
)
_CIFAR = "Krizhevsky (2009), https://www.cs.toronto.edu/~kriz/cifar.html"
_NIST = "Cohen et al. (2017), derived from NIST Special Database 19"
# What several data sets share.
_TEN_DIGITS: dict[str, Any] = {"shape": (28, 28), "class_count": 10, "classes": _DIGITS}
_GLYPHS: dict[str, Any] = {"shape": (28, 28), "class_count": 62, "classes": _DIGITS + _LETTERS}
_SENTIMENT: dict[str, Any] = {
    **{"kind": "text", "class_count": 2, "classes": ("negative", "positive")},
    **{"stand_in": _SUMMARIES, "tasks": ("fair_sent140",)},
}
_EMNIST_TASKS = ("emnist_cr", "emnist_ae", "emnist_logistic", "emnist_mlp")

CATALOGUE: dict[str, Description] = {
    known.name: known
    for known in (
        Description(
            name="cifar10",
            title="CIFAR-10",
            about="50,000 training and 10,000 test colour photographs of 10 kinds of thing",
            source=_CIFAR,
            shape=(32, 32, 3),
            class_count=10,
            classes=(
                *("airplane", "automobile", "bird", "cat", "deer"),
                *("dog", "frog", "horse", "ship", "truck"),
            ),
            stand_in=_SHAPES,
            tasks=("cifar10", "fair_cifar10", "cifar10_resnet18"),
        ),
        Description(
            name="cifar100",
            title="CIFAR-100",
            about="50,000 training and 10,000 test colour photographs, 100 fine labels in 20 "
            "coarse ones",
            source=_CIFAR,
            shape=(32, 32, 3),
            class_count=100,
            stand_in=_SHAPES,
            tasks=("cifar100", "cifar100_resnet18", "cifar100_resnet50"),
        ),
        Description(
            name="fed_cifar100",
            title="Federated CIFAR-100",
            about="CIFAR-100 dealt to 500 training and 100 test clients by Pachinko allocation, "
            "100 images each, as the papers use it",
            source="TensorFlow Federated, from Krizhevsky (2009)",
            shape=(32, 32, 3),
            class_count=100,
            tasks=("cifar100",),
        ),
        Description(
            name="mnist",
            title="MNIST",
            about="60,000 training and 10,000 test images of handwritten digits; the writers of "
            "the two parts are different people",
            source="LeCun, Cortes and Burges, http://yann.lecun.com/exdb/mnist/",
            **_TEN_DIGITS,
            polarity="ink_bright",
            stand_in=_SKLEARN,
            tasks=("mnist",),
        ),
        Description(
            name="fashion_mnist",
            title="Fashion-MNIST",
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
            tasks=("fashion_mnist",),
        ),
        Description(
            name="emnist",
            title="EMNIST",
            about="handwritten digits and letters, 62 labels; the papers use the federated copy, "
            "3,400 writers, in which paper is bright",
            source=_NIST,
            **_GLYPHS,
            polarity="ink_dark",
            stand_in=_WRITERS,
            tasks=_EMNIST_TASKS,
        ),
        Description(
            name="emnist_digits",
            title="EMNIST digits",
            about="the digits of the federated EMNIST, 3,383 writers; paper is bright",
            source=_NIST,
            **_TEN_DIGITS,
            polarity="ink_dark",
        ),
        Description(
            name="emnist_byclass",
            title="EMNIST ByClass",
            about="697,932 training and 116,323 test images of handwritten digits and letters, "
            "62 labels; the writers are not given, and ink is bright",
            source=f"{_NIST}, https://www.nist.gov/itl/products-and-services/emnist-dataset",
            **_GLYPHS,
            polarity="ink_bright",
        ),
        Description(
            name="femnist",
            title="FEMNIST",
            about="handwritten digits and letters by writer as prepared by LEAF, 62 labels; "
            "paper is bright and the glyphs are small",
            source="Caldas et al. (2018), https://github.com/TalwalkarLab/leaf",
            **_GLYPHS,
            polarity="ink_dark",
            stand_in=_WRITERS,
            tasks=("fair_femnist", *_EMNIST_TASKS),
        ),
        Description(
            name="shakespeare",
            title="Shakespeare by role",
            kind="text",
            about="the speeches of Shakespeare's plays; a role in a play is a client",
            source="the plays of William Shakespeare, for instance "
            "http://shakespeare.mit.edu; the papers use another edition",
            licence="public domain",
            stand_in=f"paragraphs of {_DOCSTRINGS}, a module as a role",
            tasks=("shakespeare",),
        ),
        Description(
            name="ag_news",
            title="AG News",
            kind="text",
            about="titles and first sentences of news articles in 4 classes",
            source="Zhang, Zhao and LeCun (2015)",
            licence="for research and other non-commercial activity, as its readme says",
            class_count=4,
            classes=("World", "Sports", "Business", "Sci/Tech"),
            stand_in=f"paragraphs of {_DOCSTRINGS}, the labels are 4 groups of modules",
            tasks=("ag_news",),
        ),
        Description(
            name="dbpedia",
            title="DBpedia",
            kind="text",
            about="560,000 training and 70,000 test abstracts of Wikipedia articles in 14 classes",
            source="Zhang, Zhao and LeCun (2015), from DBpedia 2014",
            licence="CC BY-SA 3.0 and GFDL, as DBpedia's",
            class_count=14,
            classes=(
                *("Company", "EducationalInstitution", "Artist", "Athlete", "OfficeHolder"),
                *("MeanOfTransportation", "Building", "NaturalPlace", "Village", "Animal"),
                *("Plant", "Album", "Film", "WrittenWork"),
            ),
            stand_in=f"paragraphs of {_DOCSTRINGS}, the labels are 14 groups of modules",
            tasks=("dbpedia",),
        ),
        Description(
            name="stackoverflow",
            title="Stack Overflow",
            kind="posts",
            about="135,818,730 training sentences of 342,477 users with titles and tags, and "
            "two smaller splits for validation and test, as the papers use it",
            source="TensorFlow Federated, from Stack Overflow's posts",
            licence="CC BY-SA 3.0",
            stand_in=_POSTS,
            tasks=("stackoverflow_nwp", "stackoverflow_lr"),
        ),
        Description(
            name="stackexchange",
            title="Stack Exchange posts",
            kind="text",
            about="tagged posts by user, in place of Stack Overflow",
            source="public dumps of Stack Exchange sites; attribute by site and post",
            licence="CC BY-SA",
            stand_in=_POSTS,
            tasks=("stackoverflow_nwp", "stackoverflow_lr"),
        ),
        Description(
            name="sent140",
            title="Sent140",
            about="1,600,000 tweets of 2009 by user, negative (0) or positive (1) by the emoticon "
            "that they held",
            source="Go, Bhayani and Huang (2009), http://help.sentiment140.com/for-students",
            **_SENTIMENT,
        ),
        Description(
            name="tweets",
            title="Tweets with sentiment",
            about="tweets by user, negative (0) or positive (1), in place of Sent140",
            source="tweets about US airlines, from public copies",
            **_SENTIMENT,
        ),
    )
}
