"""Partial correlation of two features, with an interval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.analysis.declared import Option, command
from dpcov.analysis.features import chosen, names_of, position
from dpcov.analysis.intervals import CONFIDENCE_LEVEL
from dpcov.analysis.named_figures import FISHER, named_figures, regression, require
from dpcov.errors import ReleaseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcov.analysis.named_figures import NamedFigures
    from dpcov.core.arrays import Array, Matrix, Vector
    from dpcov.releases import Release


@command(
    "partial-correlation",
    "Print the correlation of two columns given other columns, with an interval.",
    "age income",
    first=Option("FIRST", "First feature.", completes="columns"),
    second=Option("SECOND", "Second feature.", completes="columns"),
    given=Option(
        "--given",
        "Columns to adjust for, separated by commas; default, all others.",
        read=lambda text: [name.strip() for name in text.split(",")],
        completes="columns_list",
    ),
)
def partial_correlation(
    release: Release,
    first: str,
    second: str,
    given: Sequence[str] | None = None,
    *,
    level: float = CONFIDENCE_LEVEL,
    generator: np.random.Generator | None = None,
) -> NamedFigures:
    """Return the correlation of two features given other features.

    Parameters
    ----------
    release : Release
        Release with an intercept.

    first, second : str
        Numeric columns, or levels of categorical columns, such as ``sex=f``.

    given : sequence of str, optional
        Features or columns to adjust for. The default is all other columns. If you name a
        categorical column, its first level is left out.

    level : float, default 0.95
        Nominal coverage of each interval, between 0 and 1.

    generator : numpy.random.Generator, optional
        Random numbers for the simulation. The default gives the same result every time.

    Returns
    -------
    NamedFigures
        Partial correlation with its interval.

    Raises
    ------
    NotReleasedError
        The release contains no covariances or has no noise distribution.
    ReleaseError
        A name is unknown or occurs twice, or some features determine others.

    See Also
    --------
    dpcov.partial_correlations : Matrix of all partial correlations, without intervals.

    Notes
    -----
    The figure is the correlation of the residuals of both features after a regression on the given
    features. The interval is normal on the scale of Fisher's z.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.random.default_rng(0).normal(0, 0.2, (5000, 4))
    >>> release = dpcov.release(table, lower=-1, upper=1, epsilon=10.0)
    >>> dpcov.partial_correlation(release, "x0", "x1", ["x2"]).names
    ('x0 - x1',)

    """
    require(release)
    pair = [position(release, first), position(release, second)]
    own = {release.schema.variables[at].column for at in pair}
    if given is None:
        given = [name for name in release.schema.encoded_columns if name not in own]
    others = chosen(release, given, reference=True) if given else []
    if len({*pair, *others}) < 2 + len(others):
        raise ReleaseError("A partial correlation needs different features. Name each one once.")
    features = names_of(release, [*pair, *others])
    behind = list(range(2, len(features)))

    def figures(_: Vector, covariance: Matrix) -> Array:
        rest = covariance[:2, :2]
        if behind:
            rest = rest - covariance[:2, behind] @ regression(covariance, [0, 1], behind)
        return np.array([rest[0, 1] / np.sqrt(rest[0, 0] * rest[1, 1])])

    title = f"Partial correlation of {first} and {second}"
    note = f"Given: {', '.join(features[2:])}." if behind else "Given nothing."
    asked: dict[str, Any] = {"level": level, "together": features, "notes": [note]}
    asked["generator"] = generator
    names = [f"{first} - {second}"]
    return named_figures(release, title, features, names, figures, scale=FISHER, **asked)
