"""Effects of a feature on another one, directly and through mediators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.analysis.declared import Option, command
from dpcov.analysis.features import chosen, names_of, position
from dpcov.analysis.intervals import CONFIDENCE_LEVEL
from dpcov.analysis.named_figures import named_figures, regression, require
from dpcov.errors import ReleaseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcov.analysis.named_figures import NamedFigures
    from dpcov.core.arrays import Array, Matrix, Vector
    from dpcov.releases import Release


def _listed(text: str) -> list[str]:
    """Return the names in a list with commas."""
    return [name.strip() for name in text.split(",")]


@command(
    "mediation",
    "Print the direct effect of a column on another one, and the effect through mediators.",
    "--treatment sex=f --mediators age --outcome income",
    treatment=Option("--treatment", "Column whose effect is asked for.", completes="columns"),
    mediators=Option(
        "--mediators",
        "Columns between both, separated by commas.",
        read=_listed,
        completes="columns_list",
    ),
    outcome=Option("--outcome", "Column that is affected.", completes="columns"),
    covariates=Option(
        "--covariates",
        "Columns to adjust for, separated by commas; default, none.",
        read=_listed,
        completes="columns_list",
    ),
)
def mediation(
    release: Release,
    treatment: str,
    mediators: Sequence[str] | str,
    outcome: str,
    covariates: Sequence[str] | None = None,
    *,
    level: float = CONFIDENCE_LEVEL,
    generator: np.random.Generator | None = None,
) -> NamedFigures:
    """Return the total, direct and mediated effects of a feature on an outcome.

    Parameters
    ----------
    release : Release
        Release with an intercept.

    treatment : str
        Feature whose effect is asked for.

    mediators : str or sequence of str
        Features between the treatment and the outcome. Several mediators are parallel.

    outcome : str
        Feature that is affected.

    covariates : sequence of str, optional
        Features or columns to adjust for in every regression. The default is none.

    level : float, default 0.95
        Nominal coverage of each interval, between 0 and 1.

    generator : numpy.random.Generator, optional
        Random numbers for the simulation. The default gives the same result every time.

    Returns
    -------
    NamedFigures
        Total and direct effect, and the effect through the mediators, in the units of the data.

    Raises
    ------
    NotReleasedError
        The release contains no covariances or has no noise distribution.
    ReleaseError
        A name is unknown or occurs twice, or some features determine others.

    See Also
    --------
    dpcov.ols : Regressions behind these effects.

    Notes
    -----
    The effect through a mediator is the product of two slopes: of the mediator on the treatment,
    and of the outcome on the mediator given the treatment. All models are linear, without
    interactions, so the total effect is the sum of the direct and the mediated effects. The
    intervals are normal (delta method; Sobel 1982). They are causal only if no other variable
    affects two of these features.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.random.default_rng(0).normal(0, 0.2, (5000, 4))
    >>> release = dpcov.release(table, lower=-1, upper=1, epsilon=10.0)
    >>> dpcov.mediation(release, "x0", "x1", "x2").names
    ('total', 'direct', 'through x1')

    """
    require(release)
    through = [mediators] if isinstance(mediators, str) else list(mediators)
    ends = [position(release, one) for one in (treatment, outcome, *through)]
    others = chosen(release, covariates, reference=True) if covariates else []
    if not through or len({*ends, *others}) < len(ends) + len(others):
        raise ReleaseError("Name at least one mediator, and each feature once.")
    used = names_of(release, [*ends, *others])
    middle = list(range(2, len(ends)))
    behind = list(range(len(ends), len(used)))

    def figures(_: Vector, covariance: Matrix) -> Array:
        first = regression(covariance, middle, [0, *behind])[0]
        second = regression(covariance, [1], [0, *middle, *behind])[:, 0]
        mediated = first * second[1 : 1 + len(middle)]
        whole = [mediated.sum()] * (len(middle) > 1)
        return np.array([mediated.sum() + second[0], second[0], *mediated, *whole])

    names = ["total", "direct", *(f"through {name}" for name in through)]
    names += ["through all mediators"] * (len(middle) > 1)
    title = f"Effects of {treatment} on {outcome}"
    notes = [f"Given: {', '.join(used[len(ends) :])}."] * bool(behind)
    together = [name for name in used if name != used[1]]
    asked: dict[str, Any] = {"level": level, "together": together, "notes": notes}
    asked["generator"] = generator
    return named_figures(release, title, used, names, figures, **asked)
