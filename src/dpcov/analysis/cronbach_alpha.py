"""Cronbach's alpha of a scale, with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.analysis.declared import Option, command
from dpcov.analysis.features import chosen, names_of
from dpcov.analysis.intervals import CONFIDENCE_LEVEL
from dpcov.analysis.named_figures import Scale, named_figures, require
from dpcov.errors import ReleaseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcov.analysis.named_figures import NamedFigures
    from dpcov.core.arrays import Array, Matrix, Vector
    from dpcov.releases import Release

ALPHA_SCALE = Scale(
    lambda alpha: -np.log1p(-alpha), lambda scaled: -np.expm1(-scaled), (-np.inf, 1.0)
)


def _alpha(covariance: Matrix) -> float:
    """Return alpha of the items with this covariance matrix."""
    k = len(covariance)
    return float(k / (k - 1) * (1 - np.trace(covariance) / covariance.sum()))


@command(
    "cronbach-alpha",
    "Print Cronbach's alpha of several columns, also without each of them.",
    "--items age,income",
    items=Option(
        "--items",
        "Columns of the scale, separated by commas; default, all.",
        read=lambda text: [name.strip() for name in text.split(",")],
        completes="columns_list",
    ),
)
def cronbach_alpha(
    release: Release,
    items: Sequence[str] | None = None,
    *,
    level: float = CONFIDENCE_LEVEL,
    generator: np.random.Generator | None = None,
) -> NamedFigures:
    """Return Cronbach's alpha of the sum of several items.

    Parameters
    ----------
    release : Release
        Release with an intercept.

    items : sequence of str, optional
        At least two features of the scale. The default is all features.

    level : float, default 0.95
        Nominal coverage of each interval, between 0 and 1.

    generator : numpy.random.Generator, optional
        Random numbers for the simulation. The default gives the same result every time.

    Returns
    -------
    NamedFigures
        Alpha of all items, and alpha without each item if there are at least three.

    Raises
    ------
    NotReleasedError
        The release contains no covariances or has no noise distribution.
    ReleaseError
        A name is unknown, or there are fewer than two items.

    See Also
    --------
    dpcov.pca : Principal components of the items.

    Notes
    -----
    With k items, alpha is k / (k - 1) times (1 minus the sum of the variances divided by the
    variance of the sum). The intervals are normal on the scale of log(1 - alpha).

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.random.default_rng(0).normal(0, 0.2, (5000, 4))
    >>> release = dpcov.release(table, lower=-1, upper=1, epsilon=10.0)
    >>> dpcov.cronbach_alpha(release, ["x0", "x1", "x2"]).names
    ('alpha', 'without x0', 'without x1', 'without x2')

    """
    require(release)
    features = names_of(release, chosen(release, items))
    k = len(features)
    if k < 2:
        raise ReleaseError("Cronbach's alpha needs at least two items.")
    kept = [[other for other in range(k) if other != one] for one in range(k if k > 2 else 0)]

    def figures(_: Vector, covariance: Matrix) -> Array:
        parts = [covariance, *(covariance[np.ix_(at, at)] for at in kept)]
        return np.array([_alpha(part) for part in parts])

    names = ["alpha", *(f"without {name}" for name in features[: len(kept)])]
    at = [release.columns.index(name) for name in features]
    with_sum = release.covariance()[np.ix_(at, at)].sum(axis=1)
    against = [name for name, value in zip(features, with_sum, strict=True) if value < 0]
    notes = [f"These items fall as the sum rises: {', '.join(against)}. Reverse them."]
    asked: dict[str, Any] = {"level": level, "notes": notes * bool(against), "generator": generator}
    return named_figures(
        release, "Cronbach's alpha", features, names, figures, scale=ALPHA_SCALE, **asked
    )
