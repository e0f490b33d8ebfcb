"""List the compared methods: the default, every registered mechanism, variants, simple answers.

Each method estimates the (d, d) second moment of a table's rows, in squared units of an encoded
row. The estimate satisfies the stated budget under the stated neighbouring relation. The module
`paper_methods` contains the papers' own algorithms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpcov.core.entropy import Entropy, simulation_generator
from dpcov.core.privacy import Neighbors
from dpcov.denoise import best_estimate, denoise
from dpcov.mechanisms import MECHANISMS, NuclearLaplace, options_of
from dpcov.mechanisms.additive import Calibration
from dpcov.mechanisms.choice import choose, least_noise

if TYPE_CHECKING:
    from mechanism_tables import PreparedTable
    from numpy.typing import NDArray

    from dpcov.core.privacy import Budget
    from dpcov.denoise import Method as Denoising
    from dpcov.mechanisms import Mechanism
    from dpcov.releases import Release

    Matrix = NDArray[np.float64]
    Estimate = Callable[[PreparedTable, Budget, Neighbors, int], Matrix]

Role = Literal["default", "mechanism", "variant", "peer", "simple"]
DEFAULT = "default"
NARROW = 10  # columns, above which mechanisms that take seconds for a release stay out
FEW_ROWS, MANY_ROWS = 1000, 10_000  # range of row counts for mechanisms that compare all rows
SLOW = ("unbounded-gaussian", "stable-covariance", "whitened")
ABSENT = ("ashtiani-liaw",)  # It refuses tables of this size, after up to ten seconds.
WIDE = 200  # Columns. Mechanisms of many rounds or draws skip wider tables.
MANY_VALUES = 1_000_000  # Rows times columns. Mechanisms of many passes skip larger tables.
MANY_READINGS = ("preconditioned", "heavy-tailed")
MANY_ROUNDS = (*MANY_READINGS, "kapralov-talwar", "eigenvector-sampling")
REMEMBERED = 64  # cached releases of a cell, for methods that share a release
COSTLY = (*SLOW, *MANY_READINGS, "additive-wishart")
FEW = 3
PATIENCE = 20  # order up to which a draw of nuclear-Laplace noise takes less than a second
OWN_INTERCEPT = ("standardized",)


@dataclass(frozen=True)
class Method:
    """A competitor; `enters` decides from public numbers whether it can use a table.

    Methods marked `costly` are measured with at most `FEW` repeats. `estimate` raises
    `MechanismError` if the method cannot satisfy the budget. It raises `MechanismRefused` if the
    method declines to answer: the user then has nothing, and the zero matrix gives the error.
    """

    name: str
    role: Role
    estimate: Estimate
    enters: Callable[[PreparedTable], bool] = lambda prepared: True
    costly: bool = False


@lru_cache(maxsize=REMEMBERED)
def released(
    prepared: PreparedTable, mechanism: Mechanism, budget: Budget, neighbors: Neighbors, seed: int
) -> Release:
    """Release a table's rows; methods that differ only in their denoising share the release."""
    source = prepared.centred_source if mechanism.name in OWN_INTERCEPT else prepared.source
    return mechanism(source, budget=budget, neighbors=neighbors, entropy=Entropy.seeded(seed))


@lru_cache(maxsize=REMEMBERED)
def denoised(
    prepared: PreparedTable,
    mechanism: Mechanism,
    budget: Budget,
    neighbors: Neighbors,
    seed: int,
    denoising: Denoising,
) -> Matrix:
    """Return the denoised second moment of a release, with the table's intercept."""
    made = released(prepared, mechanism, budget, neighbors, seed)
    found = best_estimate(denoise(made, denoising, generator=simulation_generator(seed))).copy()
    if prepared.centred:  # of mapped rows it has another
        own = prepared.source.lattice()
        over = own.intercept_units * own.step / made.intercept()
        found[-1] *= over
        found[:, -1] *= over
    return found


def default(denoising: Denoising = "shrink") -> Estimate:
    """Return the library's default, for which only the budget is stated."""

    def estimate(
        prepared: PreparedTable, budget: Budget, neighbors: Neighbors, seed: int
    ) -> Matrix:
        mechanism = choose(prepared.source.schema, budget, neighbors).mechanism
        return denoised(prepared, mechanism, budget, neighbors, seed, denoising)

    return estimate


def of_registry(name: str, denoising: Denoising = "shrink", **fields: object) -> Estimate:
    """Return a registered mechanism with the library's denoising."""
    mechanism = MECHANISMS[name](**fields)

    def estimate(
        prepared: PreparedTable, budget: Budget, neighbors: Neighbors, seed: int
    ) -> Matrix:
        return denoised(prepared, mechanism, budget, neighbors, seed, denoising)

    return estimate


def affordable(name: str) -> Callable[[PreparedTable], bool]:
    """Return the rule that excludes tables where this mechanism needs many seconds."""

    def enters(prepared: PreparedTable) -> bool:
        d = prepared.source.lattice().dimension
        if name == NuclearLaplace.name:
            return d <= PATIENCE
        if name in SLOW:
            return prepared.features <= NARROW and FEW_ROWS <= prepared.rows <= MANY_ROWS
        if name in MANY_READINGS and prepared.rows * prepared.features > MANY_VALUES:
            return False
        return name not in MANY_ROUNDS or d <= WIDE

    return enters


def zero(prepared: PreparedTable, budget: Budget, neighbors: Neighbors, seed: int) -> Matrix:
    """Return the zero matrix, which needs no budget."""
    return np.zeros_like(prepared.truth)


def isotropic(prepared: PreparedTable, budget: Budget, neighbors: Neighbors, seed: int) -> Matrix:
    """Return the identity times a private trace that uses the whole budget.

    The trace is shrunk in the manner of James and Stein, as in the library. A public number of
    rows bounds the trace and determines the part of the intercept.
    """
    lattice = prepared.source.lattice()
    law = least_noise(lattice, budget, neighbors).mechanism.calibrate(lattice, budget, neighbors)
    assert isinstance(law, Calibration)
    moment = prepared.source.second_moments()[0]
    noisy = moment.trace() + law.trace_alone.sample(Entropy.seeded(seed))
    count = prepared.rows if neighbors == Neighbors.REPLACE_ONE else None
    trace = float(noisy) if count is None else min(float(noisy), float(count * lattice.bound))
    variance = law.trace_alone.standard_deviation**2
    kept = max(0.0, trace - 2 * variance / trace) if trace > 0 else 0.0
    diagonal = np.zeros(lattice.dimension)
    corner = min(kept, float((count or 0) * lattice.intercept_units**2))
    diagonal[: lattice.features] = (kept - corner) / lattice.features
    diagonal[lattice.features :] = corner
    return np.diag(diagonal) * lattice.step**2


def methods() -> Iterator[Method]:
    """List all methods except the peers; the default is first."""
    yield Method(DEFAULT, "default", default())
    yield Method("default, projected", "variant", default("project"))
    for name in MECHANISMS:
        if name in ABSENT:
            continue
        costly = name in COSTLY
        yield Method(name, "mechanism", of_registry(name), affordable(name), costly)
        if "radius" in options_of(name):
            private = of_registry(name, radius="private")
            yield Method(f"{name}, private radius", "variant", private, affordable(name))
    yield Method("zero matrix", "simple", zero)
    yield Method("scaled identity", "simple", isotropic)
