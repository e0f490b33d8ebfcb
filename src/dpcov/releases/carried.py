"""What everything that is computed from a release carries with it: guarantee and provenance."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dpcov.releases import NOT_PRIVATE, VOID

if TYPE_CHECKING:
    import pyarrow as pa

    from dpcov.releases import Release


def stated(release: Release) -> dict[str, Any]:
    """What a release guarantees, and what speaks against it."""
    found = {
        "status": NOT_PRIVATE if release.reproducible else "private",
        "guarantee": release.guarantee_in_words(),
    }
    return found | ({"warning": VOID} if release.may_be_void else {})


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
