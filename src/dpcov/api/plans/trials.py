"""Predicted errors of a release, from simulated releases of a simulated table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from dpcov.analysis.features import chosen
from dpcov.analysis.normal_equations import Problem
from dpcov.analysis.penalty import ALPHA_GRID, squared_errors
from dpcov.api.plans.simulated_rows import simulated_releases
from dpcov.core.entropy import simulation_generator
from dpcov.core.samplers import whole
from dpcov.denoise import Method, denoise
from dpcov.errors import SchemaError
from dpcov.estimate import Estimate
from dpcov.mechanisms import additive, count
from dpcov.mechanisms.additive import Calibration
from dpcov.published.kinds import EstimatedMatrix, NoisyMatrix, Round
from dpcov.rows.moment import units_per_row

if TYPE_CHECKING:
    from dpcov.api.plans.simulated_rows import SimulatedRows
    from dpcov.core.arrays import Matrix
    from dpcov.core.privacy import Budget, Neighbors
    from dpcov.core.samplers import MatrixLaw
    from dpcov.mechanisms import Calibrated, Mechanism
    from dpcov.mechanisms.count import WithCount
    from dpcov.releases import Release
    from dpcov.rows.moment import SecondMoment
    from dpcov.rows.schema import Schema

# Number of eigenvalues, the largest ones, whose error a plan reports.
LEADING_COUNT = 3
# Largest number of columns that are regressed on the others by default. The limit keeps plans fast.
MAX_TARGETS = 6
# Seed of the simulated noise: the same public numbers always give the same plan.
NOISE_SEED = 20_250_102
# Largest number of bits of an entry in a release.
MAX_BITS = 62


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors of releases compared with their table, from noise and clipping.

    All errors are for encoded rows: half the width of a column's bounds is 1.

    Attributes
    ----------
    noise : float
        Root mean square error of an entry of the published second moment per row. The error is
        exact if the mechanism adds noise from a public distribution to the second moment. For
        other mechanisms the error is simulated and includes the clipping bias.

    entry : float
        Root mean square error of an entry of the denoised second moment per row, as the median
        over the releases.

    correlation : float or None
        Standard error of a correlation: the root mean square error over all pairs and all releases.
        None without an intercept, with only one feature, or if the release contains sums only.

    eigenvalue : float or None
        Mean relative error of the 3 largest eigenvalues of the covariance matrix, as the median
        over the releases. None if `correlation` is None.

    prediction : float or None
        Root mean square change of the predictions of ridge regression, in standard deviations of
        the target. None if no column can be predicted.

    """

    noise: float
    entry: float
    correlation: float | None
    eigenvalue: float | None
    prediction: float | None


@dataclass(frozen=True, slots=True)
class Trials:
    """Exact second moment of a table, for a comparison with simulated releases.

    Attributes
    ----------
    schema : Schema
        Schema of the table.

    moment : SecondMoment
        Exact second moment of the table.

    rows : int
        Number of rows of the table.

    targets : tuple of int
        Positions of the features that are regressed on the others.

    method : str
        Method that denoises the releases.

    source : SimulatedRows or None
        Simulated rows, for mechanisms that need rows.

    with_mu : bool
        True if all noise must be Gaussian with a known mu.

    """

    schema: Schema
    moment: SecondMoment
    rows: int
    targets: tuple[int, ...]
    method: Method = "shrink"
    source: SimulatedRows | None = None
    with_mu: bool = False

    def errors(
        self, mechanism: Mechanism, budget: Budget, neighbors: Neighbors, repeats: int
    ) -> Errors:
        """Average the errors of simulated releases, with the same noise in each call.

        If the mechanism only adds noise from a public distribution, the method simulates this
        noise. Otherwise the method runs the mechanism on the simulated rows.

        Parameters
        ----------
        mechanism : Mechanism
            Mechanism of the releases.

        budget : Budget
            Budget of each release.

        neighbors : Neighbors
            Relation between neighbouring tables.

        repeats : int
            Number of releases.

        Returns
        -------
        Errors
            Average errors of the releases.

        """
        laws = self._laws(mechanism, budget, neighbors)
        made = list(self.releases(mechanism, budget, neighbors, repeats))
        if adds_noise(laws.laws):
            return self.measured(made, laws.laws.matrix)
        assert self.source is not None  # noqa: S101  for type checkers: the releases have rows
        # The exact second moment of transformed rows must not clip any row. No row exceeds the
        # largest norm of the declared schema.
        radius = None if made[0].linear_map is None else self.source.schema.largest_norm
        return replace(self, moment=self.source.second_moments(radius=radius)[0]).measured(made)

    def releases(
        self, mechanism: Mechanism, budget: Budget, neighbors: Neighbors, repeats: int
    ) -> Iterator[Release]:
        """Generate simulated releases. `errors` explains the parameters."""
        laws = self._laws(mechanism, budget, neighbors)
        calibration = laws.laws
        if adds_noise(calibration):
            generator = simulation_generator(NOISE_SEED)
            for _ in range(repeats):
                yield self._release(mechanism, calibration, laws, generator)
            return
        if self.source is None:
            raise ValueError("The mechanism needs rows, but there are no simulated rows.")
        asked = mechanism, self.source, budget, neighbors, repeats, self.method
        yield from simulated_releases(*asked, with_mu=self.with_mu)

    def _laws(self, mechanism: Mechanism, budget: Budget, neighbors: Neighbors) -> WithCount:
        per_row, lattice = units_per_row(self.schema), self.moment.lattice
        return count.calibrated(
            mechanism, lattice, budget, neighbors, per_row, with_mu=self.with_mu
        )

    def measured(self, releases: Sequence[Release], law: MatrixLaw | None = None) -> Errors:
        """Average the errors of releases of this table.

        Parameters
        ----------
        releases : sequence of Release
            Releases of the table.

        law : MatrixLaw or None
            Noise distribution of the releases. None if the releases have other errors too.

        Returns
        -------
        Errors
            Average errors of the releases.

        """
        if releases[0].sums_alone is not None:
            return self._of_sums(releases)
        truth, dimension = self._truth(releases[0]), self.moment.lattice.dimension
        exact = truth.second_moment()
        if law is None:
            raw = [self._alike(made, _as_published(made)) - exact for made in releases]
            noise = math.sqrt(float(np.mean(np.square(raw))))
        else:
            noise = math.sqrt(law.frobenius_squared) / dimension * self.moment.lattice.step**2
        releases = [_as_if_whole(made) for made in releases]
        sizes = [_size(self._alike(made, made.second_moment()) - exact) for made in releases]
        related = truth.has_intercept and len(truth.columns) > 1
        # A column with its missingness indicator has two features, but no other column explains it.
        explained = related and len({one.column for one in self.schema.variables}) > 1
        return Errors(
            noise=noise / self.rows,
            entry=float(np.median(sizes)) / self.rows,
            correlation=_correlation_error(truth, releases) if related else None,
            eigenvalue=_eigenvalue_error(truth, releases) if related else None,
            prediction=_prediction_error(truth, releases, self.targets) if explained else None,
        )

    def _of_sums(self, releases: Sequence[Release]) -> Errors:
        """Average the errors of releases of sums, which have no covariances."""
        last, step = self.moment.lattice.features, self.moment.lattice.step
        exact = np.append(np.diag(self.moment.units)[:last], self.moment.units[:, last]) * step**2
        noise, sizes = [], []
        for made in releases:
            sums, moment = made.sums_alone, Estimate.of(made).moment
            assert sums is not None  # noqa: S101  for type checkers: all releases hold sums
            noise.append(_size(np.array(sums.values, float) * step**2 - exact.astype(float)))
            found = np.append(np.diag(moment)[:last], moment[:, last])
            sizes.append(_size(found - exact.astype(float)))
        raw = math.sqrt(float(np.mean(np.square(noise))))
        return Errors(raw / self.rows, float(np.median(sizes)) / self.rows, None, None, None)

    def _release(
        self,
        mechanism: Mechanism,
        calibration: Calibration,
        laws: WithCount,
        generator: np.random.Generator,
    ) -> Release:
        trace = calibration.trace
        draws = additive.Draws(
            whole(calibration.matrix.simulate(generator)),
            None if trace is None else round(trace.simulate(generator)),
            round(calibration.trace_alone.simulate(generator)),
            reproducible=True,
        )
        made = additive.published(mechanism, self.schema, calibration, draws, self.moment)
        if laws.count is not None:
            rows = self.rows * units_per_row(self.schema)
            made = count.with_count(made, laws, rows + round(laws.count.simulate(generator)))
        return denoise(made, self.method, generator=generator)

    def _truth(self, release: Release) -> Release:
        """Return a release with the exact second moment of the encoded rows."""
        exact = self.moment.units.astype(np.float64) * self.moment.lattice.step**2
        shift = max(0, self.moment.trace().bit_length() - MAX_BITS)
        units = additive.coarse(self.moment.units, shift)
        lattice = self.moment.lattice
        truth = EstimatedMatrix(lattice, shift, units, lattice.dimension)
        rounds = (Round("matrix", truth, release.guarantee.budget),)
        return replace(release, rounds=rounds, denoise="exact", denoised=exact)

    def _alike(self, release: Release, matrix: Matrix) -> Matrix:
        """Rescale the matrix of a release to the intercept of this table.

        The intercept is a fraction of the clipping radius, and the mechanism can choose the radius.
        """
        if not release.has_intercept:
            return matrix
        ours = self.moment.lattice.intercept_units * self.moment.lattice.step
        scales = np.ones(len(matrix))
        scales[-1] = ours / release.intercept()
        return matrix * np.outer(scales, scales)


def adds_noise(calibration: Calibrated) -> TypeGuard[Calibration]:
    """Return True if noise from a public distribution is the only error of a release."""
    return isinstance(calibration, Calibration) and calibration.counts is None


def _size(difference: Matrix) -> float:
    return math.sqrt(float(np.mean(np.square(difference))))


def _as_published(release: Release) -> Matrix:
    return _as_if_whole(release).second_moment() if release.published is None else release.noisy()


def _as_if_whole(release: Release) -> Release:
    """Return a release that gives its best estimate even if it contains less than a matrix.

    A plan measures the error of this estimate. An ordinary release refuses to show it.
    """
    matrix, lattice = release.matrix, release.lattice
    if isinstance(matrix, NoisyMatrix):
        return release
    order = lattice.dimension
    if matrix is not None:
        return release.with_published("matrix", replace(matrix, directions=order))
    nothing = EstimatedMatrix(lattice, 0, np.zeros((order, order), np.int64), order)
    added = Round("matrix", nothing, release.guarantee.budget)
    return replace(release, rounds=(*release.rounds, added))


def targets_of(schema: Schema, target: str | None) -> tuple[int, ...]:
    """Return the positions of the regression targets.

    Parameters
    ----------
    schema : Schema
        Schema of the table.

    target : str or None
        Name of the target. None for some numeric columns.

    Returns
    -------
    tuple of int
        Positions of the targets among the variables.

    Raises
    ------
    SchemaError
        The schema has no such feature.

    """
    names = [feature.name for feature in schema.variables]
    if target is not None:
        if target not in names:
            raise SchemaError(
                f"The schema has no feature {target!r} to predict. Choose a feature of the schema "
                "as the target."
            )
        return (names.index(target),)
    numeric = [at for at, feature in enumerate(schema.variables) if not feature.is_indicator]
    places = np.linspace(0, len(numeric) - 1, min(MAX_TARGETS, len(numeric))).astype(int)
    return tuple(numeric[at] for at in dict.fromkeys(places.tolist()))


def _correlation_error(truth: Release, releases: Sequence[Release]) -> float:
    below = np.tril_indices(len(truth.columns), -1)
    exact = truth.correlation()
    return _size(np.array([(release.correlation() - exact)[below] for release in releases]))


def _eigenvalue_error(truth: Release, releases: Sequence[Release]) -> float:
    leading = _leading(truth)
    found = [_leading(release) for release in releases]
    return float(np.median(np.mean(np.abs(np.array(found) / leading - 1), axis=1)))


def _leading(release: Release) -> Matrix:
    values = np.linalg.eigvalsh(Estimate.of(release).covariance)
    return np.asarray(values[::-1][:LEADING_COUNT], np.float64)


def _prediction_error(
    truth: Release, releases: Sequence[Release], targets: Sequence[int]
) -> float | None:
    """Return the error of predictions, in standard deviations of the target.

    The predictions come from ridge regression on all other columns. Each target has the penalty
    with the smallest average error. The variances of the encoded targets weight the targets.
    """
    excess = total = 0.0
    for to in targets:
        at = chosen(truth, None, without=truth.schema.variables[to].column)
        exact = Problem.of(truth, [to], at, "encoded")
        least = float(exact.losses(exact.solutions(np.zeros(1)))[0, 0])
        grid = ALPHA_GRID * float(np.trace(exact.gram)) / len(at)
        risks = [squared_errors(exact, Problem.of(r, [to], at, "encoded"), grid) for r in releases]
        excess += max(float(np.min(np.mean(risks, axis=0))) - least, 0.0)
        total += float(exact.power[0])
    return math.sqrt(excess / total) if total > 0 else None
