"""Results as plain data: what `--json` prints, and what has to be said beside figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcov.analysis.drowned import drowned
from dpcov.analysis.expected import NOTHING_SHOWS, silent
from dpcov.core.show.plain import plain
from dpcov.releases import SEEDED
from dpcov.releases.carried import stated

if TYPE_CHECKING:
    from dpcov.releases import Release


def document(release: Release, **facts: Any) -> dict[str, Any]:
    """Facts from a release as JSON data, after what the release guarantees."""
    found = {
        **stated(release),
        "uninformative": release.uninformative,
        "drowned": list(drowned(release)),
    }
    return found | {name: plain(fact) for name, fact in facts.items()}


def caveats(release: Release) -> list[str]:
    """What figures can't say of themselves: whether anybody is protected, and anything shows."""
    return [SEEDED] * release.reproducible + [NOTHING_SHOWS] * silent(release)
