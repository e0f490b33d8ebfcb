"""Variance inflation factors of the features of a regression, with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.analysis.declared import FEATURES_OPTION, command
from dpcov.analysis.features import chosen, names_of
from dpcov.analysis.intervals import CONFIDENCE_LEVEL
from dpcov.analysis.named_figures import Scale, inverse_correlation, named_figures, require
from dpcov.errors import ReleaseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcov.analysis.named_figures import NamedFigures
    from dpcov.core.arrays import Array, Matrix, Vector
    from dpcov.releases import Release

# A factor is at least 1, and 1 means that the other features explain nothing.
LOG_SCALE = Scale(np.log, lambda scaled: np.exp(np.maximum(scaled, 0.0)), (1.0, np.inf))


@command(
    "variance-inflation",
    "Print the variance inflation factor of each feature of a regression.",
    "--features age,income",
    features=FEATURES_OPTION,
)
def variance_inflation(
    release: Release,
    features: Sequence[str] | None = None,
    *,
    level: float = CONFIDENCE_LEVEL,
    generator: np.random.Generator | None = None,
) -> NamedFigures:
    """Return the variance inflation factors of features that enter a regression together.

    Parameters
    ----------
    release : Release
        Release with an intercept.

    features : sequence of str, optional
        Names of at least two features or columns. The default is all columns. The first level of a
        categorical column is left out.

    level : float, default 0.95
        Nominal coverage of each interval, between 0 and 1.

    generator : numpy.random.Generator, optional
        Random numbers for the simulation. The default gives the same result every time.

    Returns
    -------
    NamedFigures
        Factor of each feature with its interval.

    Raises
    ------
    NotReleasedError
        The release contains no covariances or has no noise distribution.
    ReleaseError
        A name is unknown, some features determine others, or there is only one feature.

    See Also
    --------
    dpcov.ols : Regression whose variances these factors describe.

    Notes
    -----
    The factor of a feature is 1 / (1 - R^2), where R is its multiple correlation with the other
    features. The intervals are normal on the scale of the logarithm. They cover too rarely if a
    factor is near 1.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.random.default_rng(0).normal(0, 0.2, (5000, 4))
    >>> release = dpcov.release(table, lower=-1, upper=1, epsilon=10.0)
    >>> dpcov.variance_inflation(release, ["x0", "x1"]).names
    ('x0', 'x1')

    """
    require(release)
    used = names_of(release, chosen(release, features, reference=True))
    if len(used) < 2:
        raise ReleaseError("Variance inflation needs at least two features.")

    def figures(_: Vector, covariance: Matrix) -> Array:
        return np.diag(inverse_correlation(covariance))

    title = "Variance inflation factors"
    asked: dict[str, Any] = {"level": level, "together": used, "generator": generator}
    return named_figures(release, title, used, used, figures, scale=LOG_SCALE, **asked)
