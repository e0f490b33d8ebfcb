"""Releases with other answers, for tests."""

from dataclasses import replace

import numpy as np

from dpcov.published.kinds import EstimatedMatrix, NoisyCount, NoisyMatrix, NoisyTrace, RowMap


def changed(release, **fields):
    """Return a release with other parts of its rounds. Other fields are replaced as they are.

    The parts are noise, published (integers), shift, lattice, linear_map, center, lengths,
    published_trace, trace_noise, published_count and count_noise.
    """
    made = release
    if "lengths" in fields:
        made = made.with_published("norms", fields.pop("lengths"))
    if "published_count" in fields or "count_noise" in fields:
        made = _number(made, "count", NoisyCount, fields, "published_count", "count_noise")
    if "published_trace" in fields or "trace_noise" in fields:
        made = _number(made, "trace", NoisyTrace, fields, "published_trace", "trace_noise")
    parts = {"noise", "published", "shift", "lattice", "linear_map", "center"} & fields.keys()
    told = {name: fields.pop(name) for name in parts}
    if told:
        made = made.with_published("matrix", _matrix(made, told))
        if "lattice" in told and (trace := made.find(NoisyTrace)) is not None:
            made = made.with_published("trace", replace(trace, lattice=told["lattice"]))
    return replace(made, **fields) if fields else made


def _number(release, query, kind, fields, value, noise):
    """Return a release with another number, or without it if the value is None."""
    found = release.find(kind)
    names = {value: "value", noise: "noise"}
    new = {names[name]: fields.pop(name) for name in names if name in fields}
    if None in new.values():
        return release.with_published(query, None)
    return release.with_published(query, replace(found, **new))


def _matrix(release, told):
    matrix = release.matrix
    lattice, units = told.get("lattice", matrix.lattice), told.get("published", matrix.units)
    shift = told.get("shift", matrix.shift)
    if units is None:
        return None
    noise = told.get("noise", release.noise)
    if noise is None:
        return EstimatedMatrix(lattice, shift, units, lattice.dimension)
    linear_map, center = told.get("linear_map", release.linear_map), release.center
    center = told.get("center", center)
    transform = None
    if linear_map is not None:
        zeros = np.zeros(len(linear_map))
        transform = RowMap(linear_map, zeros if center is None else center)
    return NoisyMatrix(lattice, transform, shift, units, noise)


def trace_of(release):
    """Return the published trace, or None."""
    found = release.find(NoisyTrace)
    return None if found is None else found.value


def trace_noise(release):
    """Return the noise distribution of the published trace, or None."""
    found = release.find(NoisyTrace)
    return None if found is None else found.noise


def count_of(release):
    """Return the published number of rows, or None."""
    found = release.find(NoisyCount)
    return None if found is None else found.value


def count_noise(release):
    """Return the noise distribution of the published number of rows, or None."""
    found = release.find(NoisyCount)
    return None if found is None else found.noise
