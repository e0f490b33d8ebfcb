"""Facts that accompany every result of a release: the guarantee and the provenance."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dpcov.core.privacy import unit_document
from dpcov.estimate import dependent, has_dependent_rows
from dpcov.published.record import NOT_PRIVATE
from dpcov.releases.advisories import advisories
from dpcov.releases.dates import units_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from dpcov.releases import Release


def stated(release: Release) -> dict[str, Any]:
    """Return the guarantee of a release, its warnings and the meaning of its figures.

    Parameters
    ----------
    release : Release
        Any release.

    Returns
    -------
    dict
        The keys are ``status`` and ``guarantee``. ``warning`` is there if a fault of an old version
        can affect the release. ``sampling`` is there if a person can have several rows, and
        ``each_row`` if a row is the mean of a person's rows. ``dates`` names the unit of columns
        with dates or times.

    """
    found: dict[str, Any] = {
        "status": NOT_PRIVATE if release.reproducible else "private",
        "guarantee": release.guarantee_in_words(),
    }
    if faults := advisories(release):
        found["warning"] = " ".join(faults)
    if sentence := dependent(release):
        found["sampling" if has_dependent_rows(release) else "each_row"] = sentence
    if units := units_of(release.schema):
        found["dates"] = units
    return found


def carried(release: Release) -> dict[str, Any]:
    """Return all facts that accompany a result of a release.

    Parameters
    ----------
    release : Release
        Any release.

    Returns
    -------
    dict
        The facts of `stated`, and the budget, mechanism, denoising method and provenance.

    """
    group = release.group
    guarantee = release.whole_guarantee
    return {
        **stated(release),
        "budget": asdict(guarantee.budget),
        "neighbors": guarantee.neighbors.value,
        "unit": unit_document(guarantee.unit),
        "group": None if group is None else {"column": group.column, "level": group.level},
        "mechanism": release.mechanism,
        "denoise": release.denoise,
        "made_by": dict(release.provenance),
        "not_protected": release.not_protected(),
    }


def carried_by_all(releases: Sequence[Release]) -> dict[str, Any]:
    """Return all facts that accompany a result of several releases.

    Parameters
    ----------
    releases : sequence of Release
        Releases, at least one.

    Returns
    -------
    dict
        The facts of `carried` for one release. For several releases, the status, all guarantees,
        and the facts of each release under ``releases``.

    """
    facts = [carried(one) for one in releases]
    if len(facts) == 1:
        return facts[0]
    seeded = any(one.reproducible for one in releases)
    return {
        "status": NOT_PRIVATE if seeded else facts[0]["status"],
        "guarantee": " ".join(one["guarantee"] for one in facts),
        "mechanism": ", ".join(dict.fromkeys(one.mechanism for one in releases)),
        "releases": facts,
    }


def stamped(release: Release, table: pa.Table, others: Sequence[Release] = ()) -> pa.Table:
    """Return a table with the facts of its releases in its metadata, which Parquet files keep.

    Parameters
    ----------
    release : Release
        Release that the table was computed from.

    table : pyarrow.Table
        Table without these facts.

    others : sequence of Release
        Further releases that the table was computed from.

    Returns
    -------
    pyarrow.Table
        The same table with more metadata.

    """
    facts = carried_by_all([release, *others])
    texts = {
        "dpcov.status": facts["status"],
        "dpcov.guarantee": facts["guarantee"],
        "dpcov.release": json.dumps(facts),
    }
    return table.replace_schema_metadata({**(table.schema.metadata or {}), **texts})
