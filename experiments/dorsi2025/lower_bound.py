"""A lower bound for every Schatten norm, on the second question of section 3.

The proof awaits an independent check. The bound packs matrices, as Hardt and Talwar (2010) do for
linear queries. Let D = d(d+1)/2. Let M be positive semidefinite with a trace of at most t. At most
t + d rows of norm at most 1 have the second moment M: an eigenvalue l needs the next integer above
l. All other rows are 0.

- **Volumes.** The nuclear ball is the convex hull of the set of these M for t = 1 and its
  reflection. Its volume is at most 2^D times the volume of this set (Rogers and Shephard 1958). A
  largest set of matrices M that are more than 2r apart in nuclear norm therefore has at least
  (t/(4r))^D members.
- **Privacy.** Suppose that a mechanism errs by at most r with a probability of 1/2 for each member.
  The balls around the members are disjoint. The table of zeros differs from the table of a member
  in at most t + d rows. The output on the table of zeros is thus in each ball with a probability of
  at least exp(-eps (t + d))/2. There are at most 2 exp(eps (t + d)) members.
- **Other norms.** A nuclear error of r is a Schatten error of at least d^(1/p - 1) r, for every p.

The best t is D/eps, so r is at least D/(4 e eps) (2 exp(eps d))^(-1/D), if n is at least t + d.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

import seeds
from claims import Finding
from dorsi2025.norms import OURS, SPECTRA
from slopes import Mean, log_slope

ORDERS = (1.0, 1.25, 1.5, 2.0, math.inf)
TOLERANCE = 0.05


def least_error(d: int, p: float) -> float:
    """Return a Schatten-p error of X'X that no 1-DP mechanism is below for every table.

    Every mechanism has this error for some table, with a probability of at least 1/2.
    """
    size = d * (d + 1) / 2
    nuclear = size / 4 / math.e * math.exp(-(math.log(2) + d) / size)
    return float(d ** (1 / p - 1) * nuclear)


def other_orders(small: bool, folder: Path) -> Finding:
    """Compare the bound with the noise of the default, and fit its exponent of d."""
    generator, ratios, slopes = seeds.generator(20250006), [], {}
    for d in (10, 30, 100):
        draws = [SPECTRA[OURS](d, generator) for _ in range(10)]
        for p in ORDERS:
            error = float(np.median([np.linalg.norm(values, p) for values in draws]))
            ratios.append(error / least_error(d, p))
    for p in ORDERS:
        sizes = (1_000, 10_000, 100_000)
        slopes[p] = log_slope(sizes, [Mean(least_error(d, p), 0.0) for d in sizes]).value
    return Finding(
        "exponents of d "
        + ", ".join(f"{found:.3f} (p = {p:g})" for p, found in slopes.items())
        + f"; matrix Laplace noise has {min(ratios):.1f} to {max(ratios):.1f} times the bound at "
        "d = 10 to 100",
        all(abs(found - 1 - 1 / p) <= TOLERANCE for p, found in slopes.items())
        and min(ratios) >= 1,
    )
