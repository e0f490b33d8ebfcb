"""Report of a release as one web page that needs no network connection.

The page shows the guarantee, the results and instructions. It contains no script, loads nothing
from a server, and follows the light or dark theme of the reader. The page uses only the release, so
it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcov.core.files import reserved
from dpcov.core.installing import installing
from dpcov.errors import OutputError
from dpcov.releases import Release
from dpcov.report.templates import rendered

if TYPE_CHECKING:
    import numpy as np

    from dpcov.api.ledger import Account


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
    """Return the report of a release as HTML.

    Parameters
    ----------
    release : Release
        Release to report. If a section is not available, the page states the reason.

    target : str, optional
        Feature to regress on the others. The page then has a section with the regression.

    features : sequence of str, optional
        Features of the regression. Default: all others.

    account : Account, optional
        Account of a ledger, to show how much budget is left.

    title : str, optional
        Title of the page.

    file : str, default "RELEASE"
        Name of the release file in the instructions.

    generator : numpy.random.Generator, optional
        Random numbers of the simulations for intervals. Default: the same numbers for every page.

    Returns
    -------
    str
        HTML text of the whole page.

    Raises
    ------
    OutputError
        If jinja2 or matplotlib is not installed.
    ReleaseError
        If the target or a feature is unknown.

    See Also
    --------
    write : Write the report to a file.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.random.default_rng(0).normal(size=(1_000, 2))
    >>> release = dpcov.release(table, lower=-4, upper=4, epsilon=1.0)
    >>> page = dpcov.report.render(release, title="Two columns")
    >>> page.count("<h1>")
    1

    """
    try:
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401  needed for the figures
    except ImportError:
        needed = installing("jinja2", "matplotlib")
        raise OutputError(
            f"The report needs jinja2 and matplotlib. Install both: {needed}"
        ) from None
    from dpcov.report.content import content

    facts: dict[str, Any] = content(release, target, features, generator) | {
        "title": title or "Private covariance release",
        "file": file,
        "account": account,
        "budget": None if account is None else account.tables()[0],
    }
    return rendered("page.html", facts)


def write(
    release: Release,
    out: str | Path,
    *,
    force: bool = False,
    inputs: Sequence[Path] = (),
    **options: Any,
) -> Path:
    """Write the report of a release to an HTML file.

    Parameters
    ----------
    release : Release
        Release to report.

    out : str or Path
        File to write.

    force : bool, default False
        If True, replace an existing file.

    inputs : sequence of Path, optional
        Files that must not be overwritten.

    **options : object
        Options of `render`.

    Returns
    -------
    Path
        The written file.

    Raises
    ------
    OutputError
        If the file exists and `force` is False, or if the file cannot be written.

    See Also
    --------
    render : Return the report as a text.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.random.default_rng(0).normal(size=(1_000, 2))
    >>> release = dpcov.release(table, lower=-4, upper=4, epsilon=1.0)
    >>> with TemporaryDirectory() as folder:
    ...     dpcov.report.write(release, f"{folder}/report.html").name
    'report.html'

    """
    with reserved(out, force=force, inputs=inputs) as output:
        output.write(render(release, **options))
    return output.path


__all__ = ["render", "write"]
