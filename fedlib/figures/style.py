"""One look for all figures, which needs only matplotlib: copy this file, ``fedlib.mplstyle`` and
``looks.toml`` to a paper's own scripts, and ``names.toml`` if you want its words.

A figure is as wide as a page's text or a column (:data:`WIDTH`, :data:`COLUMN`, inches), so that
its 6 to 8 points have this size on paper. Titles say the finding, a grey line below says the data.
A key names each method once, and the lines' ends have its numbers.
"""

from __future__ import annotations

import textwrap
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import Formatter
from numpy.typing import ArrayLike

WIDTH, COLUMN = 5.5, 3.25
# Any two differ by more than 19 in CIELAB, also to protanopes, deuteranopes and tritanopes.
COLORS = {
    "blue": "#0B4FA0",
    "red": "#C1440E",
    "green": "#2BA84A",
    "pink": "#A8478A",
    "amber": "#E69F00",
    "sky": "#7CC3F0",
    "brown": "#70543E",
    "black": "#000000",
    "grey": "#999999",
}
SMALL = 6.3  # points: size of words in a panel
TINT = "#F6F2E6"  # background of small problems that replace a paper's
LETTERS, BOLD = 23, 15.2  # letters of a grey line and of a title that fit into an inch
LINE = 0.108  # inches: the height of a label at a line's end
ALIKE = 0.015  # lines closer than this share of the axis look like one
EARLY = 0.05  # curves up to this share of the rounds do not affect the axis
MANY = "0.3"  # the colour of a label of several lines


@dataclass(frozen=True)
class Look:
    """The look of an algorithm, the same in every figure."""

    label: str
    color: str
    marker: str = "o"
    linestyle: str | tuple[int, tuple[float, ...]] = "-"

    def line(self) -> dict[str, Any]:
        """Keywords of ``Axes.plot``."""
        return {"color": self.color, "marker": self.marker, "linestyle": self.linestyle}


DASH, DOT, LONG = (0, (3.2, 1.2)), (0, (1.4, 1.0)), (0, (6, 2))
BROKEN = (0, (5, 1.2, 1.2, 1.2))
LINES: dict[str, Any] = {"solid": "-", "dash": DASH, "dot": DOT, "long": LONG, "broken": BROKEN}
SHEET, _LOOKS, _WORDS = map(
    Path(__file__).with_name, ("fedlib.mplstyle", "looks.toml", "names.toml")
)
LOOKS, CLIENT_LOOKS = (
    {
        name: Look(label, COLORS[c], marker, LINES[line])
        for name, (label, c, marker, line) in of.items()
    }
    for of in tomllib.loads(_LOOKS.read_text("utf-8")).values()
)
# Colours for lines without a look.
_OTHERS = [color for name, color in COLORS.items() if name not in ("black", "grey")]
NAMES: dict[str, str] = tomllib.loads(_WORDS.read_text("utf-8")) if _WORDS.is_file() else {}


def look(algorithm: str) -> Look:
    """The look of an algorithm or client optimizer. Other names give a fixed one."""
    known = LOOKS | CLIENT_LOOKS
    if algorithm in known:
        return known[algorithm]
    number = sum(algorithm.encode())
    return Look(algorithm, _OTHERS[number % len(_OTHERS)], "osv^D<>"[number % 7], DOT)


def distinct(labels: Collection[str], known: Mapping[str, Look] | None = None) -> dict[str, Look]:
    """A look for each line of one picture, all different.

    Args:
        labels: labels of the lines.
        known: looks that some lines have already, whatever their own label.
    """
    given = known or {}
    looks = {label: replace(given[label], label=label) for label in labels if label in given}
    taken = {look.color for look in looks.values()}
    free = [color for color in _OTHERS if color not in taken] or _OTHERS
    for number, label in enumerate(label for label in labels if label not in looks):
        line: Any = ("-", DASH, DOT, BROKEN)[number // len(free) % 4]
        looks[label] = Look(label, free[number % len(free)], "osv^D<>"[number % 7], line)
    return looks


def name(word: str) -> str:
    """The usual name of a method, task, data set or metric.

    >>> [name(word) for word in ("SGD_decay", "mse_x1000", "fedavg", "recall_at_5")]
    ['SGD (decay)', 'MSE × 1000', 'FedAvg', 'recall at 5']
    """
    known = LOOKS | CLIENT_LOOKS
    if word.lower() in known:
        return known[word.lower()].label
    return NAMES.get(word, word.replace("_", " "))


def ink(color: Any) -> str:
    """A colour for words: dark enough for a contrast of 4.5 : 1 against white.

    >>> ink("#000000"), ink("#E69F00")
    ('#000000', '#9D6C00')
    """
    rgb = np.array(to_rgb(color))
    while True:
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        if 1.05 / (linear @ (0.2126, 0.7152, 0.0722) + 0.05) >= 4.5:
            return to_hex(tuple(rgb)).upper()
        rgb = 0.98 * rgb


def tints(count: int) -> list[Any]:
    """Shades of one hue for the values of a parameter, from light to dark.

    >>> len(tints(3))
    3
    """
    return [matplotlib.colormaps["cividis_r"](place) for place in np.linspace(0.25, 1, count)]


def apply() -> None:
    """Use the style for everything drawn from now on."""
    matplotlib.style.use(SHEET)


def context() -> AbstractContextManager[None]:
    """Use the style inside a ``with`` block only, whatever was set before."""
    return matplotlib.style.context(SHEET, after_reset=True)


@contextmanager
def axes(ax: Axes | None = None, size: tuple[float, float] = (WIDTH, 3.0)) -> Iterator[Axes]:
    """Given axes, or those of a new figure of a size in inches, with the style inside the block."""
    with context():
        yield Figure(figsize=size).subplots() if ax is None else ax


@contextmanager
def panels(
    rows: int, columns: int, size: tuple[float, float], count: int | None = None, **options: Any
) -> Iterator[tuple[Figure, np.ndarray]]:
    """A new figure and its panels, row after row, with the style inside the ``with`` block only.

    Args:
        rows, columns: numbers of rows and columns of panels.
        size: size of the figure, in inches.
        count: number of panels needed. The last ones are removed. Default: all.
        **options: options of ``Figure.subplots``, for instance ``sharey=True``.
    """
    with context():
        figure = Figure(figsize=size)
        grid = figure.subplots(rows, columns, squeeze=False, **options).ravel()
        for ax in grid[len(grid) if count is None else count :]:
            ax.remove()
        yield figure, grid[:count]
        align(grid[:count])


def grid(count: int, most: int) -> tuple[int, int]:
    """The rows and columns in which panels leave the fewest places empty, with at most this number
    of columns.

    >>> [grid(count, most=4) for count in (1, 3, 4, 5, 6, 7)]
    [(1, 1), (1, 3), (1, 4), (2, 3), (2, 3), (2, 4)]
    """
    tried = range(min(count, most), min(count, 2) - 1, -1)
    columns = min(tried, key=lambda number: -count % number)
    return -(-count // columns), columns


# ------------------------------------------------------------------------------ words in a picture


_BELOW = "below the title"


def _pad(lines: int) -> float:
    """Points between a panel and its title, with this number of grey lines between them."""
    return 3 + 7.2 * lines + (lines > 0)


def titled(ax: Axes, title: str, below: str = "", *, small: bool = False) -> None:
    """A panel's title at the left, with a grey description below. Small problems are tinted."""
    spec = ax.get_subplotspec()
    inches = ax.get_figure(root=True).get_figwidth()  # type: ignore[union-attr]
    share = (spec.colspan.stop - spec.colspan.start) / spec.get_gridspec().ncols if spec else 1.0
    # The axis' numbers take the rest, but a title may extend above the next panel's.
    room, last = inches * share - 0.38, bool(spec and spec.is_last_col())
    most = max(20, int(LETTERS * (room + 0.15 * (not last))))
    even = len(below) // max(1, -(-len(below) // most)) + 8  # no line of one word
    lines = [
        line
        for part in below.split("\n")
        for line in textwrap.wrap(part, min(most, even), break_on_hyphens=False)
    ]
    for old in [text for text in ax.texts if text.get_gid() == _BELOW]:
        old.remove()
    # Three panels are narrow, and short titles end above the next one's axis.
    over = 0.33 if spec and spec.get_gridspec().ncols == 3 else 0.25
    heads = [
        textwrap.fill(part, max(14, int(BOLD * (room + over * (not last)))))
        for part in title.split("\n")
    ]
    ax.set_title("\n".join(heads), loc="left", fontweight="bold", pad=_pad(len(lines)))
    if lines:
        words: dict[str, Any] = {"fontsize": 6, "color": "0.35", "va": "bottom"}
        place: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
        words |= {"linespacing": 1.1, "gid": _BELOW}
        shown = ax.annotate("\n".join(lines), (0, 1), (0, 2.5), **place, **words)
        shown.set_in_layout(last)  # not beyond the figure's border
    if small:
        ax.set_facecolor(TINT)


def below(ax: Axes) -> str:
    """The grey description below a panel's title."""
    return " ".join(text.get_text() for text in ax.texts if text.get_gid() == _BELOW).replace(
        "\n", " "
    )


def headed(figure: Figure, title: str, below: str) -> None:
    """A figure's title above all panels, with a grey description below."""
    lines = textwrap.wrap(below, int(22.5 * figure.get_figwidth()))
    words: dict[str, Any] = {"x": 0.01, "ha": "left", "va": "top"}
    figure.suptitle(title + "\n" * len(lines), fontsize=8, weight="bold", **words)
    grey = figure.text(y=1 - 0.17 / figure.get_figheight(), s="\n".join(lines), **words)
    grey.set(fontsize=6, color="0.35", linespacing=1.1, in_layout=False)


def listed(names: Sequence[str]) -> str:
    """Join names in a sentence.

    >>> listed(["FedAvg", "FedAdam", "FedYogi"]), listed(["FedAvg"])
    ('FedAvg, FedAdam and FedYogi', 'FedAvg')
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def align(panels: Sequence[Axes]) -> None:
    """Align the tops of the titles of panels in one row."""
    rows: dict[Any, list[tuple[Axes, list[Any]]]] = {}
    for ax in panels:
        spec = ax.get_subplotspec()
        below = [text for text in ax.texts if text.get_gid() == _BELOW]
        rows.setdefault(spec.rowspan.start if spec else None, []).append((ax, below))
    for row in rows.values():
        most = max(
            (text.get_text().count("\n") + 1 for _, below in row for text in below), default=0
        )
        for ax, below in row:
            if title := ax.get_title("left"):
                ax.set_title(title, loc="left", fontweight="bold", pad=_pad(most))
            for text in below:
                up = most - text.get_text().count("\n") - 1
                text.set_position((0, 2.5 + 7.2 * up))


def key(figure: Figure, looks: Sequence[Look] = (), *more: Line2D, columns: int = 6) -> None:
    """The methods' names, once and in their colours: above all panels, or below them if the figure
    has a title.

    Args:
        looks: the looks to name. Default: those of all labelled lines.
        more: further handles, after the methods.
    """
    handles: dict[str, Any] = {
        one.label: Line2D([], [], **{**one.line(), "marker": ""}) for one in looks
    }
    for ax in figure.axes if not looks else ():
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    handles |= {str(one.get_label()): one for one in more}
    edge = "lower" if figure.get_suptitle() else "upper"
    how: dict[str, Any] = {
        "columnspacing": 1.4,
        "handletextpad": 0.5,
        "borderpad": 0.1,
        "fontsize": 7,
    }
    how |= {"ncols": min(columns, len(handles)), "fontsize": 7, "loc": f"outside {edge} left"}
    shown = figure.legend(list(handles.values()), list(handles), **how)
    for text, handle in zip(shown.get_texts(), handles.values(), strict=True):
        text.set(color=ink(handle.get_color()) if isinstance(handle, Line2D) else "0.2")


def say(ax: Axes, words: str, at: tuple[float, float], color: Any = "0.25", **options: Any) -> None:
    """Words in a panel, in the colour of their subject.

    Args:
        at: position in the axes' data, or with ``xycoords="axes fraction"`` in shares of the panel.
        options: options of ``Axes.annotate``, for instance ``ha``. ``to=(x, y)`` adds an arrow from
            the words to there.
    """
    look: dict[str, Any] = {"fontsize": SMALL, "color": ink(color), "va": "center"}
    to = options.pop("to", None)
    if to is not None:
        arrow = {"arrowstyle": "->", "linewidth": 0.6, "color": "0.35", "shrinkA": 1, "shrinkB": 2}
        look |= {"xytext": at, "textcoords": options.get("xycoords", "data"), "arrowprops": arrow}
    ax.annotate(words, at if to is None else to, **{"linespacing": 1.1, **look, **options})


def level(ax: Axes, y: float, words: str = "", *, x: float = 0.99, above: bool = True) -> None:
    """A grey reference line across a panel, with its name."""
    ax.axhline(y, color="0.55", linewidth=0.7, linestyle=DOT, zorder=1)
    place = ax.get_yaxis_transform()
    way: dict[str, Any] = {"textcoords": "offset points", "ha": "right" if x > 0.5 else "left"}
    way |= {"va": "bottom" if above else "top", "fontsize": 6, "color": "0.35"}
    if words:
        ax.annotate(words, (x, y), (0, 1 if above else -1.5), xycoords=place, **way)


def band(ax: Axes, x: ArrayLike, mean: Any, std: Any, color: Any, alpha: float) -> None:
    """Shade one standard deviation around a mean."""
    ax.fill_between(x, mean - std, mean + std, color=color, alpha=alpha, linewidth=0)


def apart(values: ArrayLike, gap: float, highest: float = np.inf) -> np.ndarray:
    """Places as near as possible to some values, in their order and at least a gap apart. None is
    below 0, and the largest is at most ``highest``.

    >>> apart([0.5, 0.5, 0.9], 0.1).round(6).tolist()
    [0.45, 0.55, 0.9]
    """
    heights = np.asarray(values, float)
    order = np.argsort(heights, kind="stable")
    steps = gap * np.arange(len(heights))
    blocks: list[list[float]] = []  # of values that touch: their mean and their number
    for value in heights[order] - steps:
        blocks.append([value, 1])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (low, n), (high, m) = blocks[-2:]
            blocks[-2:] = [[(n * low + m * high) / (n + m), n + m]]
    level = np.concatenate([[mean] * int(count) for mean, count in blocks] or [[]])
    places = np.empty(len(heights))
    top = highest - steps[::-1]
    places[order] = np.minimum(np.maximum(level + steps, steps), top)
    return places


def label_ends(
    ax: Axes,
    printed: Mapping[str, float] | None = None,
    lost: Collection[str] = (),
    *,
    numbers: bool = True,
    names: bool = True,
    alike: float = ALIKE,
) -> None:
    """Write the labels and last values of lines behind their ends, in their colours (a joint label
    of several lines in grey) and one below the other.

    Args:
        ax: axes with their limits set. Lines that overlap get one label.
        printed: the paper's numbers by label, in brackets after ours.
        lost: labels of runs that diverged. They have this word instead of the number.
        numbers: write each line's last number.
        names: write each line's label before it. Otherwise a key has to name the lines.
        alike: up to this distance, in axes' heights, lines overlap.
    """
    ax.get_xlim(), ax.get_ylim()  # autoscaling waits for these
    place, stated = ax.transData + ax.transAxes.inverted(), printed or {}
    groups: list[list[Line2D]] = []
    for line in ax.get_lines():
        if str(line.get_label()).startswith("_"):
            continue
        known = (group for group in groups if names and _apart_by(line, group[0], place) < alike)
        alone = {str(line.get_label())} & set(lost)
        group = None if alone else next(known, None)
        groups.append([line]) if group is None else group.append(line)
    points = [place.transform(np.asarray(group[0].get_xydata())[-1]) for group in groups]
    ends = np.clip(np.nan_to_num([y for _, y in points]), 0, 1)
    spec = ax.get_subplotspec()
    rows = spec.get_gridspec().nrows if spec else 1
    height = ax.get_figure(root=True).get_figheight() / rows  # type: ignore[union-attr]
    # A panel is lower than its share: title, grey lines, axis.
    grey = sum(text.get_text().count("\n") + 1 for text in ax.texts if text.get_gid() == _BELOW)
    step = LINE / max(0.5, height - 0.55 - 0.1 * grey)
    lasts = {line: float(np.asarray(line.get_ydata())[-1]) for group in groups for line in group}
    largest = max(map(abs, filter(np.isfinite, lasts.values())), default=0.0)
    # Labels move as little as possible, and none is beside the line under the title.
    for group, point, end, y in zip(
        groups, points, ends, apart(ends, step, 1 - step / 2), strict=True
    ):
        labels = [str(line.get_label()) for line in group]
        last = dict.fromkeys(short(lasts[line], largest) for line in group)
        joint = " = " if len(last) == 1 or not numbers else ", "
        colon = ":" if numbers and labels[-1][-1].isdigit() else ""
        words = [joint.join(labels) + colon] if names else []
        if labels[0] in lost:
            words.append("diverged")
        elif numbers:
            words.append(", ".join(last))
        theirs = [stated[name] for name in labels if np.isfinite(stated.get(name, np.nan))]
        words += [f"[{', '.join(short(each, largest) for each in theirs)}]"] if theirs else []
        color = group[0].get_color() if len(group) == 1 else MANY
        arrow = {"arrowstyle": "-", "color": color, "linewidth": 0.4, "relpos": (0, 0.5)}
        arrow |= {"shrinkA": 0, "shrinkB": 2}
        style: dict[str, Any] = {"fontsize": 6.5, "color": ink(color), "va": "center"}
        where: dict[str, Any] = {"xy": (point[0], end), "xytext": (1.05, y)}
        ax.annotate(" ".join(words), **where, xycoords="axes fraction", arrowprops=arrow, **style)


def _apart_by(line: Line2D, other: Line2D, place: Any) -> float:
    """The distance of two lines after their beginnings. Infinite if their x differ."""
    points = (np.asarray(drawn.get_xydata(), float) for drawn in (line, other))
    first, second = map(place.transform, points)
    if first.shape != second.shape or not np.allclose(first[:, 0], second[:, 0]):
        return np.inf
    late = first[:, 0] > EARLY * first[-1, 0]
    return float(np.nanmax(np.abs(first - second)[late, 1], initial=0.0))


def readable(value: object) -> str:
    """A hyperparameter as people write it: powers of the root of ten with one digit.

    >>> [readable(value) for value in (10**-1.5, 10**0.5, 100.0, 1e-5, 0.25, "sgd")]
    ['0.03', '3', '100', '1e-5', '0.25', 'sgd']
    """
    if not isinstance(value, (int, float)):
        return str(value)
    halves = 2 * np.log10(value) if value > 0 else 0.5
    rounded = float(f"{value:.{1 if abs(halves - round(halves)) < 1e-6 else 3}g}")
    return f"{rounded:g}".replace("e-0", "e-").replace("e+0", "e")


def power(value: float, among: Sequence[float] = ()) -> str:
    """A rate as an axis' tick. Powers of ten with many digits are written as powers.

    Args:
        among: the axis' ticks. If one of them is below 0.01, a hundredth is a power, too.

    >>> [power(value) for value in (1000.0, 0.001, 0.01, 10**-0.5)]
    ['10³', '10⁻³', '0.01', '0.3']
    >>> powers([0.001, 0.01, 0.1, 1])
    ['10⁻³', '10⁻²', '0.1', '1']
    """
    exponent = float(np.log10(value)) if value > 0 else 0.0
    least = -1.5 if any(0 < tick < 0.005 for tick in among) else -2.5
    if least < exponent < 1.5 or abs(exponent - round(exponent)) > 1e-6:
        return readable(value)
    raised = str(round(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}"


def powers(values: Sequence[float]) -> list[str]:
    """All ticks of an axis, see :func:`power`."""
    return [power(value, values) for value in values]


class PowersOfTen(Formatter):
    """The ticks of a logarithmic axis, see :func:`power`."""

    def __call__(self, value: float, pos: int | None = None) -> str:
        axis: Any = self.axis
        low, high = sorted(axis.get_view_interval())
        return power(value, [at for at in axis.get_majorticklocs() if low <= at <= high])


def short(value: float, largest: float = 0) -> str:
    """A number in few letters: one digit after the point from 10 on, below two or three.

    Args:
        largest: of the numbers beside it. They have the same digits if it is 10 or more.

    >>> [short(value) for value in (0, 0.0056, 0.034, -0.5, 2.306, 77.44, 200.6, 2000, 1.6e30)]
    ['0.0', '6e-3', '0.034', '-0.50', '2.31', '77.4', '200.6', '2e3', '2e30']
    >>> short(4.88, largest=30)
    '4.9'
    """
    if 10 <= largest < 1000 > abs(value):
        return f"{value:.1f}"
    if abs(value) >= 1000 or 0 < abs(value) < 0.01:
        return f"{value:.0e}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")
    digits = 1 if abs(value) >= 10 or value == 0 else 2 if abs(value) >= 0.1 else 3
    return f"{value:.{digits}f}"


def ahead(value: float, other: float) -> float:
    """The difference of two numbers as :func:`short` writes them, as a reader computes it.

    >>> round(ahead(77.351, 73.604), 3), 77.351 - 73.604 < 3.75
    (3.8, True)
    """
    return float(short(value)) - float(short(other))
