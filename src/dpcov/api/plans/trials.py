"""Errors to expect of a release, before anything is spent: trials on an imagined table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from dpcov.analysis.features import chosen
from dpcov.analysis.moments import Moments
from dpcov.analysis.normal_equations import Problem
from dpcov.analysis.penalty import GRID, squared_errors
from dpcov.api.plans.rehearsal import rehearse
from dpcov.core.entropy import simulation_generator
from dpcov.core.samplers import whole
from dpcov.denoise import Method, denoise
from dpcov.errors import SchemaError
from dpcov.mechanisms import additive, count
from dpcov.mechanisms.additive import Calibration
from dpcov.rows.moment import units_per_row

if TYPE_CHECKING:
    from dpcov.api.plans.rehearsal import ImaginedRows
    from dpcov.core.arrays import Matrix
    from dpcov.core.privacy import Budget, Neighbors
    from dpcov.core.samplers import MatrixLaw
    from dpcov.mechanisms import Calibrated, Mechanism
    from dpcov.mechanisms.count import WithCount
    from dpcov.releases import Release
    from dpcov.rows.moment import SecondMoment
    from dpcov.rows.schema import Schema

LEADING = 3  # eigenvalues that count as leading
TARGETS = 6  # columns that are regressed on the others, where none is asked for
SEED = 20_250_102
LARGEST_BITS = 62  # of an entry of what a release publishes


@dataclass(frozen=True, slots=True)
class Errors:
    """What separates releases from the table they were made of: noise, and what was clipped.

    Attributes
    ----------
    noise : root mean square error of an entry of the second moment per row, as published. Encoded
        rows: half the width of a column's bounds is 1. Exact where a mechanism adds noise to that
        moment, whose law is public. Where it learns a map or a radius first, measured on the
        releases, mapped back: with what clipping took away, and as good as the imagined table.
    entry : the same once denoised; the median over releases, as a few releases of a drowned table
        have most of the error.
    correlation : standard error of a correlation: root mean square error over all of them and over
        releases; None without an intercept or a pair.
    eigenvalue : mean relative error of the leading eigenvalues (at most 3) of the covariance of the
        encoded columns; the median over releases, as a noisy count has no mean to speak of.
    prediction : root mean square change of what ridge regression predicts, in standard deviations
        of the target; None where there is nothing to predict.

    """

    noise: float
    entry: float
    correlation: float | None
    eigenvalue: float | None
    prediction: float | None


@dataclass(frozen=True, slots=True)
class Trials:
    """A table's exact second moment, and what to ask of releases of it.

    Attributes
    ----------
    moment : of `rows` rows; exact.
    targets : positions of the features that are regressed on the others.
    method : how releases are denoised.
    door : onto imagined rows, where there are such: to run mechanisms on.

    """

    schema: Schema
    moment: SecondMoment
    rows: int
    targets: tuple[int, ...]
    method: Method = "shrink"
    door: ImaginedRows | None = None

    def errors(
        self, mechanism: Mechanism, budget: Budget, neighbors: Neighbors, repeats: int
    ) -> Errors:
        """Average errors of `repeats` simulated releases; the same draws every time.

        Where the mechanism adds noise of a public law to the second moment, that is simulated;
        else the mechanism is run, through the door.
        """
        per_row = units_per_row(self.schema)
        laws = count.calibrated(mechanism, self.moment.lattice, budget, neighbors, per_row)
        calibration = laws.laws
        if adds_noise(calibration):
            generator = simulation_generator(SEED)
            made = [self._release(mechanism, calibration, laws, generator) for _ in range(repeats)]
            return self.measured(made, calibration.matrix)
        if self.door is None:
            raise ValueError("there are no rows to run the mechanism on")
        made = list(rehearse(mechanism, self.door, budget, neighbors, repeats, self.method))
        # Mapped rows are clipped at another radius, of which the schema's says nothing. The door's
        # own schema knows no levels: by it rows were longer, and so their constants.
        radius = None if made[0].linear_map is None else self.door.declared.largest_norm
        return replace(self, moment=self.door.second_moments(radius=radius)[0]).measured(made)

    def measured(self, releases: Sequence[Release], law: MatrixLaw | None = None) -> Errors:
        """Average errors of releases of this table; `law` is that of their noise, if it is all."""
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
        return Errors(
            noise=noise / self.rows,
            entry=float(np.median(sizes)) / self.rows,
            correlation=_correlation_error(truth, releases) if related else None,
            eigenvalue=_eigenvalue_error(truth, releases) if related else None,
            prediction=_prediction_error(truth, releases, self.targets) if related else None,
        )

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
            made = count.told(made, laws, rows + round(laws.count.simulate(generator)))
        return denoise(made, self.method, generator=generator)

    def _truth(self, release: Release) -> Release:
        """A release that holds the exact matrix, about rows that nothing has mapped."""
        exact = self.moment.units.astype(np.float64) * self.moment.lattice.step**2
        shift = max(0, self.moment.trace().bit_length() - LARGEST_BITS)
        return replace(
            release,
            lattice=self.moment.lattice,
            linear_map=None,
            center=None,
            shift=shift,
            published=additive.coarse(self.moment.units, shift),
            published_count=None,
            count_noise=None,
            denoise="exact",
            denoised=exact,
            parameters={},
        )

    def _alike(self, release: Release, matrix: Matrix) -> Matrix:
        """The matrix of a release as if its rows had the constant of this table's.

        It is a share of the radius, which the mechanism may have chosen.
        """
        if not release.has_intercept:
            return matrix
        ours = self.moment.lattice.intercept_units * self.moment.lattice.step
        scales = np.ones(len(matrix))
        scales[-1] = ours / release.intercept()
        return matrix * np.outer(scales, scales)


def adds_noise(calibration: Calibrated) -> TypeGuard[Calibration]:
    """Whether all that separates releases from the exact moment is noise of a public law."""
    return isinstance(calibration, Calibration) and calibration.counts is None


def _size(difference: Matrix) -> float:
    return math.sqrt(float(np.mean(np.square(difference))))


def _as_published(release: Release) -> Matrix:
    return _as_if_whole(release).second_moment() if release.published is None else release.noisy()


def _as_if_whole(release: Release) -> Release:
    """A release that answers with its best estimate even if it holds less than a matrix.

    That estimate is what a plan measures the error of; a release itself refuses to state it.
    """
    published, order = release.published, release.lattice.dimension
    whole = np.zeros((order, order), np.int64) if published is None else published
    return replace(release, published=whole, parameters={})


def targets_of(schema: Schema, target: str | None) -> tuple[int, ...]:
    """Positions of the regression targets: the one asked for, or some numeric columns."""
    names = [feature.name for feature in schema.variables]
    if target is not None:
        if target not in names:
            raise SchemaError(f"There is no feature {target!r} in the schema to predict.")
        return (names.index(target),)
    numeric = [at for at, feature in enumerate(schema.variables) if not feature.is_indicator]
    places = np.linspace(0, len(numeric) - 1, min(TARGETS, len(numeric))).astype(int)
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
    values = np.linalg.eigvalsh(Moments.of(release).covariance)
    return np.asarray(values[::-1][:LEADING], np.float64)


def _prediction_error(
    truth: Release, releases: Sequence[Release], targets: Sequence[int]
) -> float | None:
    """By how much predictions differ from those without noise, in deviations of the target.

    Ridge regression on all other columns, each target with the penalty that is best on average;
    several targets count by their variance in encoded rows.
    """
    excess = total = 0.0
    for to in targets:
        at = chosen(truth, None, without=truth.schema.variables[to].column)
        exact = Problem.of(truth, [to], at, "encoded")
        least = float(exact.losses(exact.solutions(np.zeros(1)))[0, 0])
        grid = GRID * float(np.trace(exact.gram)) / len(at)
        risks = [squared_errors(exact, Problem.of(r, [to], at, "encoded"), grid) for r in releases]
        excess += max(float(np.min(np.mean(risks, axis=0))) - least, 0.0)
        total += float(exact.power[0])
    return math.sqrt(excess / total) if total > 0 else None
