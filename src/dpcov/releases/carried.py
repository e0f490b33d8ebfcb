"""What everything that is computed from a release carries with it: guarantee and provenance."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dpcov.releases import NOT_PRIVATE
from dpcov.releases.advisories import advisories
from dpcov.releases.dates import units_of
from dpcov.releases.persons import dependent

if TYPE_CHECKING:
    import pyarrow as pa

    from dpcov.releases import Release


def stated(release: Release) -> dict[str, Any]:
    """Return what a release guarantees, what speaks against it, and what its figures mean.

    `sampling` is there where a person can have several rows; `dates` says what numbers of dates
    and times count.
    """
    found: dict[str, Any] = {
        "status": NOT_PRIVATE if release.reproducible else "private",
        "guarantee": release.guarantee_in_words(),
    }
    if faults := advisories(release):
        found["warning"] = " ".join(faults)
    if sentence := dependent(release):
        found["sampling"] = sentence
    if units := units_of(release.schema):
        found["dates"] = units
    return found


def carried(release: Release) -> dict[str, Any]:
    """What everything that is computed from a release should carry with it."""
    group = release.group
    guarantee = release.whole_guarantee
    return {
        **stated(release),
        "budget": asdict(guarantee.budget),
        "neighbors": guarantee.neighbors.value,
        "unit": asdict(guarantee.unit),
        "group": None if group is None else {"column": group.column, "level": group.level},
        "mechanism": release.mechanism,
        "denoise": release.denoise,
        "made_by": dict(release.provenance),
        "not_protected": release.not_protected(),
    }


def stamped(release: Release, table: pa.Table) -> pa.Table:
    """The table with what it carries as metadata, which Parquet files keep."""
    facts = carried(release)
    texts = {
        "dpcov.status": facts["status"],
        "dpcov.guarantee": facts["guarantee"],
        "dpcov.release": json.dumps(facts),
    }
    return table.replace_schema_metadata({**(table.schema.metadata or {}), **texts})
