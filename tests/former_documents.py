"""A release in the form of files of format 2, to compare it with files of earlier versions."""

from dpcov.published.kinds import NoisyCount, NoisySums, NoisyTrace
from dpcov.published.record import NOT_PRIVATE
from dpcov.releases.documents import budget_document, lower
from dpcov.releases.file import _group_document


def former(release):
    """Return the document of format 2 that an earlier version would write."""
    lattice, guarantee = release.lattice, release.guarantee
    trace, count = release.find(NoisyTrace), release.find(NoisyCount)
    sums, lengths = release.find(NoisySums), release.lengths
    return {
        "format": "dpcov.release/2",
        "status": NOT_PRIVATE if release.reproducible else "private",
        "guarantee": {
            "budget": budget_document(guarantee.budget),
            "neighbors": guarantee.neighbors.value,
            "unit": guarantee.unit.column,
            "max_rows": guarantee.unit.max_rows,
            "in_words": release.guarantee_in_words(),
        },
        "mechanism": release.mechanism,
        "parameters": dict(release.parameters),
        "noise": None if release.noise is None else release.noise.to_json(),
        "trace_noise": None if trace is None else trace.noise.to_json(),
        "lattice": {
            "radius": lattice.radius,
            "step": lattice.step,
            "side": lattice.side,
            "intercept_units": lattice.intercept_units,
            "features": [feature.name for feature in release.schema.features],
        },
        "shift": release.shift,
        "published": None if release.published is None else lower(release.published),
        "published_trace": None if trace is None else trace.value,
        "unit_count": release.unit_count,
        "linear_map": None if release.linear_map is None else release.linear_map.ravel().tolist(),
        "center": None if release.center is None else release.center.tolist(),
        "denoise": release.denoise,
        "denoised": _denoised(release),
        "provenance": dict(release.provenance),
        "group": None if release.group is None else _group_document(release.group),
        "rungs": None,
        "published_count": None if count is None else count.value,
        "count_noise": None if count is None else count.noise.to_json(),
        "lengths": None
        if lengths is None
        else {
            "ends": list(lengths.upper_ends),
            "counts": list(lengths.counts),
            "noise": lengths.noise.to_json(),
        },
        "sums": None
        if sums is None
        else {"values": list(sums.values), "noise": sums.noise.to_json()},
        "directions": None if release.directions is None else former(release.directions),
        "schema": release.schema.model_dump(mode="json"),
    }


def _denoised(release):
    if release.published is None or release.denoise == "none":
        return None
    return lower(release.second_moment())
