"""A release as one web page that needs no network: what it is, what it guarantees, what it shows.

The page holds no script, asks nothing of any server, and follows the reader's light or dark theme.
Everything on it is computed from the release, at no further cost in privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcov.core.files import reserved
from dpcov.core.installing import installing
from dpcov.core.printable import printable
from dpcov.errors import OutputError
from dpcov.releases import Release

if TYPE_CHECKING:
    import numpy as np

    from dpcov.api.ledger import Account

KEPT = "\n\N{NARROW NO-BREAK SPACE}"


def render(
    release: Release,
    *,
    target: str | None = None,
    features: Sequence[str] | None = None,
    account: Account | None = None,
    title: str | None = None,
    file: str = "RELEASE",
    generator: np.random.Generator | None = None,
) -> str:
    """The page as HTML.

    Parameters
    ----------
    release : any release; what it can't tell is left out, with the reason.
    target : feature to regress on the others, in a section of its own.
    features : that it is regressed on; default, all others.
    account : of a ledger: what is left of the budget.
    title : of the page.
    file : name of the release file in the instructions.
    generator : for the simulations behind intervals; default, the same for every page.

    Raises
    ------
    OutputError : jinja2 or matplotlib is not installed.
    ReleaseError : an unknown target or feature.

    """
    try:
        import jinja2
        import matplotlib as _  # noqa: F401  the figures import its parts
    except ImportError:
        needed = installing("jinja2", "matplotlib")
        raise OutputError(f"The report needs jinja2 and matplotlib: {needed}") from None
    from dpcov.report.content import content

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("dpcov.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    facts: dict[str, Any] = content(release, target, features, generator) | {
        "title": title or "Private covariance release",
        "file": file,
        "account": account,
        "budget": None if account is None else account.tables()[0],
    }
    return environment.get_template("page.html").render(facts)


def _finalized(value: Any) -> Any:
    """A value of the template; what is no printable character in a text becomes a question mark."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return printable(value, KEPT)


def write(
    release: Release,
    out: str | Path,
    *,
    force: bool = False,
    inputs: Sequence[Path] = (),
    **options: Any,
) -> Path:
    """Write the page of `render` (which has the options) to the file `out`, none of the `inputs`.

    Raises
    ------
    OutputError : the file exists and `force` is not set, or can't be written.

    """
    with reserved(out, force=force, inputs=inputs) as output:
        output.write(render(release, **options))
    return output.path


__all__ = ["render", "write"]
