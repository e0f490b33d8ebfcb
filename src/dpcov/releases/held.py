"""What a release holds. One rule: what was not released is refused, with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcov.errors import NotReleasedError

if TYPE_CHECKING:
    from dpcov.releases import Release

TRACE_ONLY = (
    "This release holds the trace only: so few rows cannot rise above the noise of this budget. "
    "Use a larger epsilon or more rows."
)
FEW_DIRECTIONS = (
    "This release holds {held} of {order} directions of the second moment only, so it holds no "
    "means, covariances or counts. Set {option} = {order}, or choose another mechanism."
)
NO_INTERCEPT = (
    "This release was made without an intercept, so it holds no means and covariances. "
    "second_moment() is what it has; set intercept above 0 for the rest."
)
NO_COUNT = (
    "This release was made without an intercept, and it holds no number of rows, which is private. "
    "Set intercept above 0."
)
NO_LAW = (
    "The noise of the mechanism {mechanism!r} has no law that can be simulated, so the error of "
    "this release is not known. Choose a mechanism that adds noise, such as auto."
)
OPTIONS = ("components", "rank")  # of mechanisms, for the number of directions that they release


def matrix_reason(release: Release) -> str | None:
    """Return why the release holds no matrix of second moments; None if it holds one."""
    return TRACE_ONLY if release.published is None else None


def directions_reason(release: Release) -> str | None:
    """Return why the release does not hold the whole matrix; None if it does."""
    order = release.lattice.dimension
    for option in OPTIONS:
        held = release.parameters.get(option)
        if release.noise is None and type(held) is int and held < order:
            return FEW_DIRECTIONS.format(held=held, order=order, option=option)
    return matrix_reason(release)


def moments_reason(release: Release) -> str | None:
    """Return why the release holds no means and covariances; None if it holds them."""
    return directions_reason(release) or (None if release.has_intercept else NO_INTERCEPT)


def law_reason(release: Release) -> str | None:
    """Return why the error of the release is not known; None if it is."""
    if reason := directions_reason(release):
        return reason
    return NO_LAW.format(mechanism=release.mechanism) if release.noise is None else None


def refuse(reason: str | None) -> None:
    """Raise `NotReleasedError` if there is a reason."""
    if reason is not None:
        raise NotReleasedError(reason)
