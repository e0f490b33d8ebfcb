"""Templates of the pages: jinja2 with all names escaped."""

from __future__ import annotations

from typing import Any

from dpcov.core.installing import library
from dpcov.core.printable import printable
from dpcov.errors import OutputError

KEPT_CHARACTERS = "\n\N{NARROW NO-BREAK SPACE}"


def rendered(template: str, values: dict[str, Any]) -> str:
    """Return the HTML text of a template of this package.

    Parameters
    ----------
    template : str
        File name of the template.

    values : dict
        Values that the template shows.

    Returns
    -------
    str
        HTML text of the whole page.

    Raises
    ------
    OutputError
        If jinja2 is not installed.

    """
    jinja2 = library("jinja2", "The page needs jinja2. Install it", OutputError)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("dpcov.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    text: str = environment.get_template(template).render(values)
    return text


def _finalized(value: Any) -> Any:
    """Return a value for the template, with a question mark for each unprintable character."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return printable(value, KEPT_CHARACTERS)
