"""Standard errors of any function of the means and covariances of a release."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dpcov.estimate.error_covariance import standard_errors_of

if TYPE_CHECKING:
    import numpy as np

    from dpcov.core.arrays import Array, Matrix, Vector
    from dpcov.releases import Release


def standard_errors(
    release: Release,
    function: Callable[[Vector, Matrix], Any],
    *,
    sampling: bool = True,
    columns: Sequence[str] | None = None,
    generator: np.random.Generator | None = None,
) -> Array:
    """Return standard errors of a function of the means and the covariance matrix.

    Parameters
    ----------
    release : Release
        Release with a noise distribution.

    function : callable
        Smooth function of two arguments: the means, shape (p,), and the covariance matrix, shape
        (p, p). Both are in the units of the data and in the order of `release.columns`, or of
        `columns`. The
        function returns a number or an array. dpcov calls it about twice for each mean and
        covariance.

    sampling : bool, default True
        Include the sampling error. The standard errors then apply to the population. If False, they
        contain only the errors due to privacy noise, clipping and rounding.

    columns : sequence of str, optional
        Features whose means and covariances the function receives, in this order. The default is
        all features. Few features are much faster than many.

    generator : numpy.random.Generator, optional
        Random numbers for the simulation. The default gives the same result every time.

    Returns
    -------
    ndarray
        Standard errors, in the shape of the function's result.

    Raises
    ------
    NotReleasedError
        The release contains no covariances or has no noise distribution.

    See Also
    --------
    Release.error_covariance : Covariance matrix of the errors.
    dpcov.intervals : Intervals for named statistics.

    Notes
    -----
    dpcov applies the delta method to the simulated errors of `Release.error_covariance`. The
    function `intervals` multiplies sampling errors by 1.1, because several columns can be extreme
    in the same rows. `standard_errors` does not.

    Examples
    --------
    The coefficient of variation of each column:

    >>> import dpcov
    >>> import numpy as np
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
    >>> def variation(means, covariance):
    ...     return np.sqrt(np.diag(covariance)) / means
    >>> dpcov.standard_errors(release, variation).shape
    (2,)

    """
    return standard_errors_of(release, function, sampling, generator, columns)
