"""What an analysis can say if a person has several rows, or if a row is the mean of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpcov.core.spelling import spelled
from dpcov.errors import ReleaseError
from dpcov.estimate import has_dependent_rows

if TYPE_CHECKING:
    from dpcov.releases import Release


def refuse_means(release: Release, what: str) -> None:
    """Raise `ReleaseError` if the rows are means of persons.

    Parameters
    ----------
    release : Release
        Any release.

    what : str
        Analysis that needs rows with one level of each column, as the subject of a sentence.

    """
    if release.guarantee.unit.aggregate is not None:
        raise ReleaseError(
            f"{what} needs rows with one level of each column, but this release has one row per "
            'person, the mean of all rows. Release with max_rows instead of aggregate = "mean".'
        )


def sampling_factor(release: Release, design_effect: float | None) -> float:
    """Return the factor of sampling errors for a stated design effect.

    Parameters
    ----------
    release : Release
        Any release.

    design_effect : float or None
        Variance of an estimate from these rows, divided by its variance from as many independent
        rows. At least 1; None if it is not stated.

    Returns
    -------
    float
        Square root of the design effect.

    Raises
    ------
    ReleaseError
        The design effect is not a finite number of at least 1, or no person has several rows.

    """
    if design_effect is None:
        return 1.0
    if not (math.isfinite(design_effect) and design_effect >= 1):
        raise ReleaseError(
            f"The design effect must be a finite number of at least 1, not {design_effect:g}."
        )
    if not has_dependent_rows(release):
        raise ReleaseError(
            "No person has several rows in this release, so there is no design effect. Leave out "
            f"{spelled('design_effect', '--design-effect')}."
        )
    return math.sqrt(design_effect)


def no_tests_note(release: Release) -> str:
    """Return a sentence that explains why a regression has no p-values."""
    return (
        f"No p-values: one person can have {release.guarantee.unit.max_rows} rows, and the rows of "
        f"a person are alike. State {spelled('design_effect=1.5', '--design-effect 1.5')} with "
        'your own number, or release with aggregate = "mean".'
    )
