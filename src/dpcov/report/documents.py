"""Results as JSON data, and the caveats that every result needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcov.analysis.intervals import NO_SIGNAL_MESSAGE
from dpcov.analysis.noise_warnings import noise_warnings
from dpcov.core.show.plain import plain
from dpcov.estimate import Estimate
from dpcov.releases import SEEDED
from dpcov.releases.carried import stated

if TYPE_CHECKING:
    from dpcov.releases import Release


def document(release: Release, **facts: Any) -> dict[str, Any]:
    """Return the guarantee of a release and further facts as JSON data."""
    below = list(noise_warnings(release))
    found = {
        **stated(release),
        "uninformative": release.uninformative,
        "noise_warnings": below,
        "drowned": below,  # former key, until version 0.5
    }
    return found | {name: plain(fact) for name, fact in facts.items()}


def caveats(release: Release) -> list[str]:
    """Return the caveats: the release has a seed, or all its figures are below the noise level."""
    hidden = Estimate.of(release).hides_correlations
    return [SEEDED] * release.reproducible + [NO_SIGNAL_MESSAGE] * hidden
