"""How large the noise in releases of mapped rows is, over what their law states."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dpcov.releases import Release
from dpcov.rows.sources.rows import Rows


def noise_ratios(make: Callable[[int], Release], rows: Rows, seeds: Iterable[int]) -> Any:
    """Return (n,) squared norms of the difference to the exact moment, one for each seed."""
    moment = rows.second_moments()[0]
    exact = moment.units.astype(float) * moment.lattice.step**2
    constant = moment.lattice.intercept_units * moment.lattice.step
    ratios = []
    for seed in seeds:
        made = make(seed)
        assert made.noise is not None
        scales = np.ones(len(exact))
        scales[-1] = made.intercept() / constant
        truth = made.mapped(exact * np.outer(scales, scales)) / made.lattice.step**2
        noise = made.noisy_mapped() / made.lattice.step**2 - truth
        ratios.append(np.sum(noise**2) / made.noise.frobenius_squared)
    return np.array(ratios)
