"""Standardized coefficients of a regression, with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.analysis.declared import FEATURES_OPTION, TARGET_OPTION, command
from dpcov.analysis.features import names_of, target_and_features
from dpcov.analysis.intervals import CONFIDENCE_LEVEL
from dpcov.analysis.named_figures import named_figures, regression, require

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcov.analysis.named_figures import NamedFigures
    from dpcov.core.arrays import Array, Matrix, Vector
    from dpcov.releases import Release


@command(
    "standardized-coefficients",
    "Print the coefficients of a regression in standard deviations, with intervals.",
    "--target income",
    target=TARGET_OPTION,
    features=FEATURES_OPTION,
)
def standardized_coefficients(
    release: Release,
    target: str,
    features: Sequence[str] | None = None,
    *,
    level: float = CONFIDENCE_LEVEL,
    generator: np.random.Generator | None = None,
) -> NamedFigures:
    """Return the coefficients of a regression in standard deviations of all features.

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
        Standardized coefficient of each feature with its interval.

    Raises
    ------
    NotReleasedError
        The release contains no covariances or has no noise distribution.
    ReleaseError
        A name is unknown, or some features determine others.

    See Also
    --------
    dpcov.ols : Coefficients in the units of the data.

    Notes
    -----
    A standardized coefficient is the coefficient times the standard deviation of its feature,
    divided by the standard deviation of the target. The interval includes the errors of both
    standard deviations.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.random.default_rng(0).normal(0, 0.2, (5000, 4))
    >>> release = dpcov.release(table, lower=-1, upper=1, epsilon=10.0)
    >>> dpcov.standardized_coefficients(release, "x0").names
    ('x1', 'x2', 'x3')

    """
    require(release)
    to, at = target_and_features(release, target, features, reference=True)
    used = names_of(release, [to, *at])
    behind = list(range(1, len(used)))

    def figures(_: Vector, covariance: Matrix) -> Array:
        deviations = np.sqrt(np.diag(covariance))
        return regression(covariance, [0], behind)[:, 0] * deviations[1:] / deviations[0]

    title = f"Standardized coefficients for {target}"
    asked: dict[str, Any] = {"level": level, "together": used[1:], "generator": generator}
    return named_figures(release, title, used, used[1:], figures, **asked)
