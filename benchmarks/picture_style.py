"""Style of the pictures in docs/figures: SVG for light and dark pages, readable on a phone."""

from __future__ import annotations

import math
import re
from io import StringIO
from itertools import combinations, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from dpcov.plot import NEGATIVE_COLOUR, POSITIVE_COLOUR

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
# Width of a picture in inches. On a page of 390 px, 10 points are then 11 px.
WIDTH = 4.7
SMALL_POINTS = 9
GREY = "0.5"
# The colours of `dpcov.plot` and three others, readable on white and on black backgrounds.
COLOURS = (POSITIVE_COLOUR, NEGATIVE_COLOUR, "#2a9d76", GREY, "#a564c8")
PALE = 0.18  # opacity of an area
TEXT_COLOUR = "#123456"  # placeholder for the text colour of the page
STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # matplotlib contains this font
    "font.size": 10,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "legend.fontsize": SMALL_POINTS,
    "svg.fonttype": "path",
    "text.parse_math": False,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor"), TEXT_COLOUR),
    **dict.fromkeys(("xtick.color", "ytick.color"), TEXT_COLOUR),
}
# The reader's system chooses light or dark. The background has the same choice, so the text is
# readable on any page.
THEME = (
    "<style>svg{color:#1c1e21;background:#fff}"
    "@media(prefers-color-scheme:dark){svg{color:#e6e6e6;background:#131416}}</style>"
)
MAX_BYTES = 100_000
MARGIN = 1.0  # pixels that a text can leave the picture or enter another text


def figure(height: float) -> Figure:
    """Return an empty picture with a height in inches."""
    return Figure((WIDTH, height), layout="constrained")


def canvas(height: float) -> tuple[Figure, Axes]:
    """Return a picture for a diagram, and axes whose unit is one inch from the upper left."""
    made = Figure((WIDTH, height))
    axes = made.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(height, 0))
    axes.set_axis_off()
    return made, axes


def svg(drawn: Figure, name: str) -> str:
    """Return a picture as SVG.

    Raises
    ------
    ValueError
        A text is cut or overlaps another text, or the file is too large.

    """
    if found := clashes(drawn):
        raise ValueError(f"{name}: {'; '.join(found)}")
    buffer = StringIO()
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        drawn.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = re.sub(r"<metadata>.*?</metadata>", "", buffer.getvalue(), flags=re.DOTALL)
    text = re.sub(r' d="[^"]*"|translate\([^)]*\)', lambda part: _rounded(part[0]), text)
    text = re.sub(r">\n *<", "><", text)
    text = text.replace(TEXT_COLOUR, "currentColor").replace("<defs>", f"{THEME}<defs>", 1)
    if len(text) > MAX_BYTES:
        raise ValueError(f"{name}: {len(text)} bytes are more than {MAX_BYTES}")
    return text


def clashes(drawn: Figure) -> list[str]:
    """Return a sentence for each text of a picture that is cut or overlaps another text."""
    with mpl.rc_context(STYLE):
        FigureCanvasAgg(drawn).draw()
        texts = list(_texts(drawn))
    whole = drawn.bbox.padded(MARGIN)
    cut = [
        f"{text!r} is cut"
        for text, pieces in texts
        if not all(whole.contains(box.x0, box.y0) and whole.contains(*box.max) for box in pieces)
    ]
    pairs = combinations(texts, 2)
    over = [f"{a[0]!r} overlaps {b[0]!r}" for a, b in pairs if _overlap(a[1], b[1])]
    return cut + over


def _texts(drawn: Figure) -> Iterator[tuple[str, list[Bbox]]]:
    """Yield each visible text with the boxes that cover it."""
    hidden = set(_hidden_labels(drawn))
    for text in drawn.findobj(Text):
        if text.get_text().strip() and text.get_visible() and text not in hidden:
            yield text.get_text(), _pieces(text)


def _pieces(text: Text) -> list[Bbox]:
    """Return one box, or a row of small boxes if the text is oblique."""
    box, angle = text.get_window_extent(), text.get_rotation()
    if angle % 90 == 0:
        return [box.padded(-MARGIN)]
    text.set_rotation(0)
    flat = text.get_window_extent()
    text.set_rotation(angle)
    half = flat.height / 2 / math.sqrt(2)
    reach = flat.width / 2 - half
    count = math.ceil(flat.width / flat.height) + 1
    x, y = (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2
    pieces = []
    for k in range(count):
        along = reach * (2 * k / (count - 1) - 1)
        at = x + along * math.cos(math.radians(angle)), y + along * math.sin(math.radians(angle))
        pieces.append(Bbox.from_extents(at[0] - half, at[1] - half, at[0] + half, at[1] + half))
    return pieces


def _hidden_labels(drawn: Figure) -> Iterator[Text]:
    """Yield the tick labels that matplotlib does not draw, beyond the limits of their axis."""
    for axes in drawn.axes:
        for axis in (axes.xaxis, axes.yaxis):
            shown = axis._update_ticks() if axes.axison else []
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if tick not in shown:
                    yield from (tick.label1, tick.label2)


def _overlap(first: list[Bbox], second: list[Bbox]) -> bool:
    return any(
        a.x0 < b.x1 and b.x0 < a.x1 and a.y0 < b.y1 and b.y0 < a.y1
        for a, b in product(first, second)
    )


def _rounded(part: str) -> str:
    """Return a path or a shift with two decimals, which are at most 1/100 point."""
    return re.sub(r"-?\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", part)
