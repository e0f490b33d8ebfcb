"""Results as plain data: what `--json` prints."""

from __future__ import annotations

import math
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.analysis.drowned import drowned
from dpcov.analysis.expected import expected_correlation_error
from dpcov.carried import carried, stated

if TYPE_CHECKING:
    from dpcov.releases import Release

_LEFT_OUT = ("schema", "model")  # of a result: the release has the one, the other is code


def document(release: Release, **facts: Any) -> dict[str, Any]:
    """Facts from a release as JSON data, after what the release guarantees."""
    found = {
        **stated(release),
        "uninformative": release.uninformative,
        "drowned": list(drowned(release)),
    }
    return found | {name: _plain(fact) for name, fact in facts.items()}


def result(found: Any) -> dict[str, Any]:
    """The fields of an analysis (a frozen dataclass), for `document`."""
    named = {field.name: getattr(found, field.name) for field in fields(found)}
    facts = {name: value for name, value in named.items() if name not in _LEFT_OUT}
    if edges := getattr(found, "edges", None):
        facts["edges"] = [asdict(edge) for edge in edges]
    return facts


def summary(release: Release) -> dict[str, Any]:
    """What a release is and how accurate, as `dpcov show` says it."""
    below = np.tril_indices(len(release.columns), -1)
    error = expected_correlation_error(release) if release.has_intercept else None
    expected = None
    if error is not None and below[0].size:
        expected = {"mean": error[below].mean(), "worst": error[below].max()}
    return document(
        release,
        **carried(release),
        columns=release.columns,
        public_count=release.unit_count,
        count=release.count() if release.has_intercept else None,
        correlation_error=expected,
    )


def _plain(value: Any) -> Any:
    """As JSON has it; a number that is not finite becomes null."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return {k: _plain(part) for k, part in value.items()} if isinstance(value, dict) else value
