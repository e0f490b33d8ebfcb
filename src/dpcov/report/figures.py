"""Matplotlib figures as SVG elements with the fonts and colours of the page."""

from __future__ import annotations

import io
import re
import warnings
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any

from dpcov import plot
from dpcov.core.printable import shortened

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes

    from dpcov.core.show.result import Picture

SVG_NAMESPACE = "http://www.w3.org/2000/svg"
LINK_NAMESPACE = "http://www.w3.org/1999/xlink"
MAX_NARROW_INCHES = 8.0  # inches; a wider figure fills the width of the page
# Width of a figure for a phone, in inches. Text of 10 points is then as large as on a wide page.
PHONE_INCHES = 4.6
# Font size of names on a phone, and the height of a row with two lines in rows of a wide figure.
PHONE_POINTS, LINES_PER_NAME = 8, 1.4
PHONE_CHARACTERS = 18  # of a name in a graph; the widest letters then stay within the figure
TEXT_COLOUR = "#123456"  # placeholder for the text colour of the page
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "dpcov",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.linewidth": 0.6,
    "text.parse_math": False,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor"), TEXT_COLOUR),
    **dict.fromkeys(("xtick.color", "ytick.color"), TEXT_COLOUR),
}
ET.register_namespace("", SVG_NAMESPACE)
ET.register_namespace("xlink", LINK_NAMESPACE)


def svg(name: str, title: str, picture: Picture, *, narrow: bool = False) -> tuple[Markup, bool]:
    """Return a picture as an SVG element, and True if the figure is wide.

    Every identifier begins with `name`, so that a page can contain several figures. The docstring
    of the plot function describes the figure. A narrow figure has readable text on a phone.
    """
    from markupsafe import Markup
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    buffer = io.BytesIO()
    with rc_context(STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # characters that the font of matplotlib lacks
        figure = Figure(layout="constrained")
        draw = getattr(plot, picture.function)
        axes = draw(**picture.arguments, ax=figure)
        if narrow:
            _narrow(axes, picture.function)
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    root = ET.fromstring(buffer.getvalue())  # noqa: S314  matplotlib wrote it
    for metadata in root.findall(f"{{{SVG_NAMESPACE}}}metadata"):
        root.remove(metadata)
    for part in root.iter():
        _adapt(part, name)
    for size_in_points in ("width", "height"):
        root.attrib.pop(size_in_points, None)
    root.set("role", "img")
    description = str(draw.__doc__).split("\n", 1)[0]
    root.set("aria-labelledby", f"{name}-title {name}-description")
    for at, (kind, text) in enumerate((("title", title), ("desc", description))):
        part = ET.Element(f"{{{SVG_NAMESPACE}}}{kind}")
        part.text = text
        part.set("id", f"{name}-{'title' if kind == 'title' else 'description'}")
        root.insert(at, part)
    element = Markup(ET.tostring(root, encoding="unicode"))  # noqa: S704  escaped by ElementTree
    return element, figure.get_figwidth() > MAX_NARROW_INCHES


def _narrow(axes: Axes, function: str) -> None:
    """Make a figure as wide as a phone.

    Cells of a heatmap then have no space for figures. The names of a pair are on two lines.
    """
    figure: Any = axes.figure
    width, height = figure.get_size_inches()
    scale = min(PHONE_INCHES / width, 1.0)
    if function == "heatmap":
        for text in list(axes.texts):
            text.remove()
    if function == "graph":
        for text in axes.texts:
            text.set_fontsize(PHONE_POINTS)
            text.set_text(shortened(text.get_text(), PHONE_CHARACTERS))
        reach = 1 + (axes.get_xlim()[1] - 1) / scale
        axes.set_xlim(-reach, reach)
        axes.set_ylim(-reach, reach)
    if function in ("pairs", "coefficients"):
        names = [text.get_text().split(" - ") for text in axes.get_yticklabels()]
        labels = [" -\n".join(map(shortened, parts)) for parts in names]
        axes.set_yticks(axes.get_yticks(), labels=labels, parse_math=False, fontsize=PHONE_POINTS)
        axes.set_xlabel(axes.get_xlabel(), loc="right")
        height *= LINES_PER_NAME / scale
    figure.set_size_inches(width * scale, height * scale)


def _adapt(element: ET.Element, name: str) -> None:
    """Add a prefix to identifiers, and use the font and text colour of the page."""
    for key, value in list(element.attrib.items()):
        if key == "id":
            element.set(key, f"{name}-{value}")
        elif key == f"{{{LINK_NAMESPACE}}}href" and value.startswith("#"):
            element.set(key, f"#{name}-{value[1:]}")
        elif key in ("style", "clip-path", "fill", "stroke"):
            adapted = value.replace("url(#", f"url(#{name}-").replace(TEXT_COLOUR, "currentColor")
            element.set(key, re.sub(r"font-family: [^;]*; ?", "", adapted))
