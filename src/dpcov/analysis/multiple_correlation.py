"""Multiple correlation of a feature with other features, with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.analysis.declared import FEATURES_OPTION, TARGET_OPTION, command
from dpcov.analysis.features import names_of, target_and_features
from dpcov.analysis.intervals import CONFIDENCE_LEVEL
from dpcov.analysis.named_figures import Scale, named_figures, regression, require

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcov.analysis.named_figures import NamedFigures
    from dpcov.core.arrays import Array, Matrix, Vector
    from dpcov.releases import Release


def _to_z(figures: Array) -> Array:
    """Return Fisher's z of R, from R and from its square."""
    return np.arctanh(np.stack([figures[0], np.sqrt(figures[1])]))


def _from_z(scaled: Array) -> Array:
    """Return R and its square from Fisher's z of R. A negative z stands for 0."""
    own = np.tanh(np.maximum(scaled, 0.0))
    return np.stack([own[0], own[1] ** 2])


@command(
    "multiple-correlation",
    "Print the correlation of a column with its best prediction from others, with intervals.",
    "--target income",
    target=TARGET_OPTION,
    features=FEATURES_OPTION,
)
def multiple_correlation(
    release: Release,
    target: str,
    features: Sequence[str] | None = None,
    *,
    level: float = CONFIDENCE_LEVEL,
    generator: np.random.Generator | None = None,
) -> NamedFigures:
    """Return the multiple correlation R of a feature with other features, and its square.

    Parameters
    ----------
    release : Release
        Release with an intercept.

    target : str
        Numeric column, or a level of a categorical column.

    features : sequence of str, optional
        Names of features or columns. The default is all columns except the target. The first level
        of a categorical column is left out.

    level : float, default 0.95
        Nominal coverage of each interval, between 0 and 1.

    generator : numpy.random.Generator, optional
        Random numbers for the simulation. The default gives the same result every time.

    Returns
    -------
    NamedFigures
        R and R squared with their intervals.

    Raises
    ------
    NotReleasedError
        The release contains no covariances or has no noise distribution.
    ReleaseError
        A name is unknown, or some features determine others.

    See Also
    --------
    dpcov.ols : Regression with coefficients.

    Notes
    -----
    The intervals are normal on the scale of Fisher's z of R. They cover too rarely if R is near 0,
    because R is never negative.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.random.default_rng(0).normal(0, 0.2, (5000, 4))
    >>> release = dpcov.release(table, lower=-1, upper=1, epsilon=10.0)
    >>> dpcov.multiple_correlation(release, "x0").names
    ('R', 'R squared')

    """
    require(release)
    to, at = target_and_features(release, target, features, reference=True)
    used = names_of(release, [to, *at])
    behind = list(range(1, len(used)))

    def figures(_: Vector, covariance: Matrix) -> Array:
        slopes = regression(covariance, [0], behind)[:, 0]
        square = covariance[0, behind] @ slopes / covariance[0, 0]
        return np.array([np.sqrt(square), square])

    title = f"Multiple correlation of {target}"
    notes = [f"With: {', '.join(used[1:])}."]
    scale = Scale(_to_z, _from_z, (0.0, 1.0))
    asked: dict[str, Any] = {"level": level, "together": used[1:], "notes": notes}
    asked["generator"] = generator
    return named_figures(release, title, used, ["R", "R squared"], figures, scale=scale, **asked)
