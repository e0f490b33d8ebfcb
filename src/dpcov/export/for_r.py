"""Export for the R package: one JSON document with all estimates and their errors."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from dpcov.core.show.plain import json_text
from dpcov.estimate import Estimate

if TYPE_CHECKING:
    from dpcov.export.estimates import Estimates

FILE = "estimate.json"
# Name and version of the format, which the R package reads.
EXPORT_FORMAT, FORMAT_VERSION = "dpcov export for R", 1
NEXT = (
    "In R, with the package dpcov:",
    "",
    '  release <- dpcov::read_release("{folder}")',
    "  summary(release)",
)


def document(found: Estimates) -> dict[str, Any]:
    """Return the content of the JSON file. Estimates that are not released are null."""
    release = found.release
    errors: dict[str, Any] | None = None
    if found.has_errors:
        errors = {
            "names": found.figures,
            "privacy": found.errors(sampling=False),
            "total": found.errors(sampling=True),
        }
    return {
        "format": EXPORT_FORMAT,
        "version": FORMAT_VERSION,
        "dpcov": version("dpcov"),
        "status": found.status,
        "guarantee": release.guarantee_in_words(),
        "cautions": found.cautions,
        "not_released": release.not_released,
        "made_by": release.made_by(),
        "columns": found.columns,
        "kinds": found.kinds,
        "dates": list(found.units),
        "units": found.units,
        "groups": found.groups,
        "count": release.count(),
        "count_error": Estimate.of(release).count_deviation,
        "mean": found.means,
        "variance": found.variances,
        "covariance": found.covariance,
        "correlation": found.correlation,
        "error_covariance": errors,
        "intervals": found.intervals(),
    }


def files(found: Estimates) -> dict[str, str]:
    """Return the content of each file by its name."""
    return {FILE: json_text(document(found)) + "\n"}
