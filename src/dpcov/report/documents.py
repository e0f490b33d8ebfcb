"""Results as plain data: what `--json` prints, and what has to be said beside figures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.analysis.drowned import drowned
from dpcov.analysis.expected import NOTHING_SHOWS, silent
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
    return found | {name: _plain(fact) for name, fact in facts.items()}


def caveats(release: Release) -> list[str]:
    """What figures can't say of themselves: whether anybody is protected, and anything shows."""
    return [SEEDED] * release.reproducible + [NOTHING_SHOWS] * silent(release)


def _plain(value: Any) -> Any:
    """As JSON has it; a number that is not finite becomes null."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return {k: _plain(part) for k, part in value.items()} if isinstance(value, dict) else value
