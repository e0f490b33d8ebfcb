"""Check that the transform and the clipping radius follow from the earlier answers of a release.

The mechanism standardized asks several queries. A fixed rule computes three settings of the later
queries from the earlier answers: the transform of the rows, the bins of the norm histogram and the
clipping radius. The rule can use random numbers from a seed. The release file contains all answers,
all settings and the seed. This module applies the rule again and compares the settings with the
file. A difference affects the estimates. The guarantee holds for every transform and radius.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpcov.core.entropy import simulation_generator
from dpcov.errors import MechanismError
from dpcov.mechanisms import standardized
from dpcov.mechanisms.row_transform import RowTransform
from dpcov.published.kinds import MAP_RULE, NoisyMatrix, NoisySums, NoisyTrace
from dpcov.published.norm_histogram import NormHistogram, bin_upper_ends
from dpcov.rows.moment import Lattice, LinearMap, SecondMoment, max_transformed_norm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpcov.core.arrays import Vector
    from dpcov.core.samplers import MatrixLaw
    from dpcov.published.kinds import RowMap
    from dpcov.published.record import Record

# Largest difference that rounding explains. The difference is relative for the map, the bins and
# the radius. The difference of the center is in half-widths of the bounds.
REPLAY_TOLERANCE = 1e-9
# Largest difference of a coefficient of the map, in units. The rule rounds each coefficient to a
# multiple of a unit (`LinearMap.rounded`). Two computers can round the same coefficient to
# different neighbouring multiples, so a difference of one unit is no mismatch.
MAX_MAP_UNITS = 1.5
MEMORY = "replay of the map"  # name in `Record.memory`
YES = "yes, the map and the clipping radius follow from the earlier answers"
MAP_ONLY = "yes, the map and the bins follow from the earlier answers"
NO = "no, these parts do not follow from the earlier answers: {parts}"
OTHER_RULE = "not replayed, because the file does not name the rule of this version"
MISMATCH = (
    "Parts of this release do not follow from the earlier answers: {parts}. The guarantee does not "
    "depend on them, but the estimates do, so use the file only if you trust its source."
)


class ReplayWarning(UserWarning):
    """Warning about a map or a clipping radius that does not follow from earlier answers."""


@dataclass(frozen=True, slots=True)
class Replay:
    """Result of a replay.

    Attributes
    ----------
    known : bool
        True if the file names a rule that this version knows.

    mismatches : tuple of str
        Parts of the file that the rule does not give, such as ``the center of the map``. dpcov
        stops at the first step of the rule with such a part, because later steps depend on it.

    has_radius : bool
        False if the release holds the trace only, because the radius depends on the matrix noise.

    """

    known: bool
    mismatches: tuple[str, ...] = ()
    has_radius: bool = True

    @classmethod
    def of(cls, record: Record) -> Replay | None:
        """Replay the rule of a release, or return None if its mechanism has no such rule."""
        if MEMORY not in record.memory:
            record.memory[MEMORY] = cls._computed(record)
        found: Replay | None = record.memory[MEMORY]
        return found

    @classmethod
    def _computed(cls, record: Record) -> Replay | None:
        """Compute the result of `of`."""
        pilot, last = record.find(NoisySums), record.transform
        if last is None:
            return None
        if pilot is None or last.rule != MAP_RULE or record.find(NormHistogram) is None:
            return cls(known=False)
        try:
            options = standardized.Standardized(**record.parameters)
        except (TypeError, MechanismError):
            return cls(True, ("the options of the mechanism",))
        with np.errstate(all="ignore"):  # a forged file can contain huge numbers
            steps = _differences(record, options, pilot, last)
            first = next((parts for parts in steps if parts), ())
        return cls(True, tuple(first), record.noise is not None)

    def in_words(self) -> str:
        """Return the result as the line that `dpcov show` prints."""
        if not self.known:
            return OTHER_RULE
        if self.mismatches:
            return NO.format(parts=", ".join(self.mismatches))
        return YES if self.has_radius else MAP_ONLY

    def warning(self) -> str | None:
        """Return a warning that names the mismatches, or None if there are none."""
        if not self.mismatches:
            return None
        return MISMATCH.format(parts=", ".join(self.mismatches))


def warn_of_mismatches(record: Record, *, depth: int = 1) -> None:
    """Warn if the map or the radius of a release does not follow from its earlier answers.

    Parameters
    ----------
    record : Record
        Release.

    depth : int, default 1
        Number of calls between the user's code and the call of this function.

    """
    found = Replay.of(record)
    if found is not None and (text := found.warning()) is not None:
        warnings.warn(text, ReplayWarning, stacklevel=depth + 2)


def _differences(
    record: Record, options: standardized.Standardized, pilot: NoisySums, last: RowMap
) -> Iterator[list[str]]:
    """Yield the parts that differ, for each step of the rule.

    Each step uses earlier parts of the file. If these parts differ, the later steps do not show
    which further parts differ.
    """
    asked = record.find(NoisyMatrix, "directions") or record.find(NoisyTrace, "directions trace")
    seen = _spread(record, pilot)
    made = seen.images(options.power, record.schema, on_grid=True, last=asked is None)
    if asked is not None and asked.transform is not None:
        yield _map_differences(made.map, asked.transform, " of the directions query")
        if isinstance(asked, NoisyMatrix):
            law, p = _relative(asked.noise, asked.lattice, record), asked.lattice.features
            radius = standardized.look_radius(made, law, p)
            close = _close(radius, asked.lattice.radius)
            yield [] if close else ["the clipping radius of the directions query"]
        whitened = _whitened(record, options.directions_power, last)
        made = whitened or seen.images(options.power, record.schema, on_grid=True)
    yield _map_differences(made.map, last, "")
    histogram = record.find(NormHistogram)
    assert histogram is not None  # noqa: S101  for type checkers: `Replay.of` requires one
    ends = bin_upper_ends(made.typical, _longest(record, last))
    same = len(ends) == len(histogram.upper_ends) and _close(ends, np.array(histogram.upper_ends))
    yield [] if same else ["the bins of the norm histogram"]
    if record.noise is not None:
        law, plain = _relative(record.noise, record.lattice, record), Lattice.of(record.schema)
        radius = standardized.best_radius(histogram, law, plain.relative(), options.loss_weight)
        yield [] if _close(radius, record.lattice.radius) else ["the clipping radius"]


def _spread(record: Record, pilot: NoisySums) -> standardized.Spread:
    """Return the estimates of the pilot query, from its published sums."""
    lattice = Lattice.of(record.schema)
    p = lattice.features
    units = np.zeros((p + 1, p + 1), object)
    units[np.arange(p), np.arange(p)] = pilot.values[:p]
    units[:p, -1] = units[-1, :p] = pilot.values[p:-1]
    units[-1, -1] = pilot.values[-1]
    moment, no_noise = SecondMoment(units, lattice, 0), np.zeros(2 * p + 1, np.int64)
    return standardized.look(moment, pilot.noise, no_noise, record.schema.missing_columns)


def _whitened(record: Record, power: float, last: RowMap) -> RowTransform | None:
    """Return the map of the directions query, drawn with the published seed."""
    directions = record.directions
    if directions is None or last.seed is None:
        return None
    return RowTransform.by_direction(directions, power, simulation_generator(last.seed))


def _longest(record: Record, stated: RowMap) -> float:
    """Return the upper bound on the norm of every row that this map transforms."""
    indicators = record.schema.indicators.values()
    radius = record.schema.effective_radius
    return max_transformed_norm(stated.matrix, stated.center, radius, indicators)


def _relative(noise: MatrixLaw, lattice: Lattice, record: Record) -> MatrixLaw:
    """Rescale the noise of a matrix to the lattice on which the rule compares radii."""
    return noise.rescaled(Lattice.of(record.schema).relative().bound / lattice.bound)


def _map_differences(made: LinearMap, stated: RowMap, of_what: str) -> list[str]:
    """Return the parts of a map that differ from the replayed map."""
    found = []
    if not np.allclose(made.center, stated.center, rtol=0, atol=REPLAY_TOLERANCE):
        found.append(f"the center of the map{of_what}")
    unit = np.ldexp(1.0, made.halvings - made.shifts[:, None])
    matrix = made.matrix()
    allowed = MAX_MAP_UNITS * unit + REPLAY_TOLERANCE * np.abs(matrix).max()
    if not np.all(np.abs(matrix - stated.matrix) <= allowed):
        found.append(f"the matrix of the map{of_what}")
    return found


def _close(made: float | Vector, stated: float | Vector) -> bool:
    """Return True if two results differ by rounding only."""
    return np.allclose(made, stated, rtol=REPLAY_TOLERANCE, atol=0)
