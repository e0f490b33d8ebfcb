"""Compare what clipping removed from the second moment of a table with its estimates.

    make bench NAME=clipping

The release of a table has a clipping radius and a linear map. The script clips the rows of the
table itself, so the true loss is known. It compares the true loss with two estimates that have the
same trace:

- the centered second moment;
- the estimate of dpcov: the loss of simulated rows (`published.clipping`), and the centered second
  moment for what they do not explain.

Errors are Frobenius norms, as fractions of the trace of the true loss. The trace of each estimate
is the true one, because dpcov takes the trace from the norm histogram.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import dpcov
from benchmark_tables import PARTS, table_named
from calibration import encoded
from dpcov.estimate import Estimate
from dpcov.published.clipping import SimulatedLoss, simulated_loss
from results import Kept, show

COMMAND = "make bench NAME=clipping"
RELEASES = 5
EPSILON = 1.0
# A table that loses less than this fraction of its total variance has no shape to compare.
LEAST_LOST = 1e-5


def table_row(name: str) -> Iterator[dict[str, Any]]:
    """Yield the mean errors of a table, if clipping removes enough from it."""
    table = table_named(name)
    schema = dpcov.Schema.parse(table.declared())
    found = []
    for seed in range(RELEASES):
        release = dpcov.release(table.frame, schema=schema, epsilon=EPSILON, seed=seed)
        if release.lengths is not None:
            found += compared(release, encoded(table, release))
    if found:
        means = {key: float(np.mean([one[key] for one in found])) for key in found[0]}
        yield {"table": name, "releases": len(found), **means}


def compared(release: dpcov.Release, rows: Any) -> list[dict[str, float]]:
    """Return the errors of one release, or nothing if clipping removes next to nothing."""
    p, estimate = rows.shape[1], Estimate.of(release)
    moment = release.mapped(estimate.second_moment)
    truth, clip = true_loss(release, rows), estimate.clipping
    total = float(np.trace(truth))
    simulated: SimulatedLoss | None = simulated_loss(release, moment)
    if total < LEAST_LOST * float(np.trace(moment[:p, :p])) or simulated is None:
        return []
    part = min(1.0, total / simulated.squared_norm) if simulated.squared_norm > 0 else 0.0
    rest = total - part * simulated.squared_norm
    mixed = part * simulated.moment[:p, :p] + rest * clip.shape
    whole = total * clip.shape
    return [
        {
            "moment": float(np.linalg.norm(whole - truth)) / total,
            "dpcov": float(np.linalg.norm(mixed - truth)) / total,
            "variances, moment": float(np.linalg.norm(np.diag(whole - truth))) / total,
            "variances, dpcov": float(np.linalg.norm(np.diag(mixed - truth))) / total,
            "simulated": simulated.squared_norm / total,
        }
    ]


def true_loss(release: dpcov.Release, rows: Any) -> Any:
    """Return what clipping removes from the second moment of encoded rows, shape (p, p)."""
    if release.center is not None:
        rows = rows - release.center
    if release.linear_map is not None:
        rows = rows @ release.linear_map.T
    norms = np.linalg.norm(rows, axis=1)
    kept = np.minimum(1.0, release.lattice.radius / np.maximum(norms, 1e-300))
    return (rows * (1 - kept**2)[:, None]).T @ rows


def main() -> int:
    kept = Kept("clipping.json", COMMAND)
    for name in (*PARTS["tune"], *PARTS["posterior"], *PARTS["default"]):
        kept.part(name, partial(table_row, name))
    show("Relative errors of the shape of the loss", kept.rows)
    return int(not kept.done())


if __name__ == "__main__":
    sys.exit(main())
