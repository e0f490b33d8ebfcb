"""A release: the noisy matrix with the guarantee that it carries, and what follows from it.

Nothing here sees data; everything computed from a release costs no further privacy.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpcov.core.files import read_text, write
from dpcov.core.printable import printable, shown
from dpcov.core.show import html
from dpcov.core.show.table import LONGEST, Row, Table
from dpcov.errors import ReleaseError
from dpcov.releases import dates, held
from dpcov.releases.advisories import VOID, advisories
from dpcov.releases.pairwise import completed, has_gaps, least_rows, proper
from dpcov.rows.moment import Lattice, longest_image, units_per_row

if TYPE_CHECKING:
    from dpcov.core.arrays import Integers, Matrix, Vector
    from dpcov.core.privacy import Guarantee
    from dpcov.core.samplers import MatrixLaw, ScalarLaw
    from dpcov.core.show.frames import Library
    from dpcov.releases.lengths import Lengths
    from dpcov.rows.schema import Schema

    Which = Literal["covariance", "correlation", "second_moment"]

NOT_PRIVATE = "reproducible: NOT PRIVATE"
SEEDED = "NOT PRIVATE: made with a seed, for tests only."
NAMED = 5  # features in the short form of a release
ROUNDING = 1e-13  # share of a second moment below which a variance is a rounding error
LARGEST_FILE = 2**33  # of a release of as many features as a schema may have
SMALLEST_VARIANCE = 1e-12  # of an encoded feature; below it a correlation is set to 0


def _provenance() -> dict[str, str]:
    today = datetime.now(UTC).date().isoformat()
    return {"library": f"dpcov {_version()}", "version": _version(), "date": today}


@cache  # looking it up takes longer than many a release
def _version() -> str:
    return version("dpcov")


class VoidReleaseWarning(UserWarning):
    """A release file that may hold no guarantee, for the version that made it."""


@dataclass(frozen=True, slots=True)
class Group:
    """The level of a column whose levels were released apart.

    `together` is what the releases of all levels guarantee at once.
    """

    column: str
    level: str
    together: Guarantee


@dataclass(frozen=True, slots=True)
class NoisyCount:
    """The best of what tells a private number of rows, without bias.

    Attributes
    ----------
    value : the published count and the published matrix's corner, by the inverse of variances.
    of_corner : the corner's weight; 0 where nothing but the count tells it.
    deviation : standard deviation of the noise in `value`.

    """

    value: float
    of_corner: float
    deviation: float

    @classmethod
    def of(cls, release: Release) -> NoisyCount | None:
        """That of a release with a published count; None of others."""
        if release.published_count is None or release.count_noise is None:
            return None
        unit, t = units_per_row(release.schema), release.lattice.intercept_units
        own = release.count_noise.standard_deviation / unit
        alone = release.published_count / unit
        if not t or release.noise is None or release.published is None:
            return cls(alone, 0.0, own)
        corner = float(release.published[-1, -1]) * 2.0**release.shift / t**2
        other = math.sqrt(release.noise.diagonal_variance) / t**2
        weight = 1 / (1 + (other / own) ** 2)
        value = weight * corner + (1 - weight) * alone
        return cls(value, weight, own * other / math.hypot(own, other))


@dataclass(frozen=True, slots=True)
class Sums:
    """What a first look told of features in [-1, 1]: sums over rows, in squared lattice steps.

    Attributes
    ----------
    values : 2 p + 1 integers: of each feature's square, of each times the intercept's constant, and
        of that squared, each plus noise. On the lattice of the schema, before any map.
    law : of the noise in each.

    """

    values: tuple[int, ...]
    law: ScalarLaw


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Release:
    """A second moment under differential privacy.

    Attributes
    ----------
    schema, lattice : what a row is, and the integer grid of its encoding.
    guarantee : what is guaranteed, between which tables, for whom.
    mechanism, parameters : how it was made.
    noise, trace_noise : public laws of the noise; `noise` is None where the mechanism does not
        just add noise (it samples eigenvectors, say), `trace_noise` where no trace was released.
    published : (d, d) integers; times 2^shift squared lattice steps it is S plus noise, or the
        mechanism's estimate of S. None where the public gate spent the whole budget on the trace.
    published_trace : integer, the trace of S plus noise, in squared lattice steps.
    unit_count : number of rows or persons where it is public (replace-one), else None.
    reproducible : True if a seed was used: then the release is NOT PRIVATE.
    linear_map, center : (p, p) map A and (p,) center c such that A (z - c) is what became of the
        encoded features z before the clip, where the mechanism learnt them; `published` and
        `lattice` are about mapped rows. None: none.
    denoise : how `denoised` was made from the above: none, project or shrink.
    denoised : (d, d) estimate of S in squared units of an encoded row.
    published_count, count_noise : integer, the number of rows plus noise, and its public law; in
        units of 1 / `units_per_row`, with weights the sum of their shares of the largest. None
        under replace-one, of mechanisms of papers, and of weighted rows without an intercept.
    group : the level of the rows, where those of each level were released apart, else None. Then
        `guarantee` is what this release alone would guarantee under add/remove.
    lengths : noisy counts of mapped rows by length, from which a private radius was chosen; they
        tell what the clip took. None: there are none.
    sums, directions : what else was published on the way: a first look at means and spreads, and a
        second moment from which directions were learnt. None: there was none.

    """

    schema: Schema
    lattice: Lattice
    guarantee: Guarantee
    mechanism: str
    parameters: Mapping[str, Any]
    noise: MatrixLaw | None
    trace_noise: ScalarLaw | None
    shift: int
    published: Integers | None
    published_trace: int | None
    unit_count: int | None
    reproducible: bool
    linear_map: Matrix | None = None
    center: Matrix | None = None
    denoise: str = "none"
    denoised: Matrix | None = None
    provenance: Mapping[str, str] = field(default_factory=_provenance)
    group: Group | None = None
    published_count: int | None = None
    count_noise: ScalarLaw | None = None
    lengths: Lengths | None = None
    sums: Sums | None = None
    directions: Release | None = None

    def __eq__(self, other: object) -> bool:
        """Whether all fields are equal, arrays by their entries."""
        if not isinstance(other, Release):
            return NotImplemented
        pairs = ((getattr(self, one.name), getattr(other, one.name)) for one in fields(self))
        return all(
            np.array_equal(mine, theirs) if isinstance(mine, np.ndarray) else mine == theirs
            for mine, theirs in pairs
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the p variables: the encoded features, without marks of missing cells."""
        return tuple(feature.name for feature in self.schema.variables)

    @property
    def whole_guarantee(self) -> Guarantee:
        """The guarantee that counts: of all levels together, where they were released apart."""
        return self.guarantee if self.group is None else self.group.together

    @property
    def may_be_void(self) -> bool:
        """Whether it comes from a version that read some tables so that nothing is guaranteed."""
        return "version" not in self.provenance

    def made_by(self) -> str:
        """Library, date and whatever else is told of how it was made, in words."""
        door, apart = self.provenance.get("door"), ("version", "door", "not_protected")
        told = [fact for name, fact in self.provenance.items() if name not in apart]
        return ", ".join([*told, *([f"read as {door}"] if door else [])])

    def not_protected(self) -> str:
        """What anybody may learn beside the release, in words."""
        public = ["the schema (columns, bounds, levels)", "the budget", "the running time"]
        if self.unit_count is not None:
            units = "rows" if self.guarantee.unit.column is None else "persons"
            public.append(f"the number of {units} ({self.unit_count})")
        found = f"{', '.join(public[:-1])} and {public[-1]}"
        caveat = self.provenance.get("not_protected", "").rstrip(".")
        return f"{found}. {caveat}" if caveat else found

    @property
    def has_intercept(self) -> bool:
        return self.lattice.dimension > self.lattice.features

    @property
    def row_count(self) -> int | None:
        """Number of rows where it is public: replace-one, and rows as units without weights."""
        plain = self.guarantee.unit.column is None and self.schema.weight is None
        return self.unit_count if plain else None

    @property
    def clipped(self) -> bool:
        """Whether rows may have been shortened to a radius that the mechanism took from the data.

        The second moment is then that of the shortened rows; what is missing, nobody knows.
        """
        longest = self.schema.effective_radius
        if self.linear_map is not None:
            exclusive = self.schema.indicators.values()
            longest = longest_image(self.linear_map, self.center, longest, exclusive)
        return self.lattice.radius < longest * (1 - 1e-9)

    def noisy(self) -> Matrix:
        """(d, d) second moment as published, in squared units of an encoded row (z, t).

        Unbiased where the mechanism adds noise (`noise` is its law).
        """
        return self.unmapped(self.noisy_mapped())

    def noisy_mapped(self) -> Matrix:
        """(d, d) second moment as published, of the mapped rows; see `linear_map`."""
        held.refuse(held.matrix_reason(self))
        assert self.published is not None  # noqa: S101  for type checkers: the line above
        return self.published.astype(np.float64) * (2.0**self.shift * self.lattice.step**2)

    def mapped(self, matrix: Matrix) -> Matrix:
        """(d, d) second moment of the mapped rows, from that of the encoded rows."""
        if self.linear_map is None:
            return matrix
        shift = None if self.center is None else -self.linear_map @ self.center / self.intercept()
        return _congruent(self.linear_map, shift, matrix)

    def unmapped(self, matrix: Matrix) -> Matrix:
        """(d, d) second moment of the encoded rows, from that of the mapped rows."""
        if self.linear_map is None:
            return matrix
        shift = None if self.center is None else self.center / self.intercept()
        return _congruent(np.linalg.inv(self.linear_map).astype(np.float64), shift, matrix)

    def second_moment(self) -> Matrix:
        """(d, d) denoised second moment of the encoded rows (z, t).

        Positive semidefinite, unless `denoise` is ``none``.
        With an intercept the last row and column hold t times the sums and t^2 times the count,
        with t = `intercept()`.

        Raises
        ------
        NotReleasedError : the release holds the trace only.

        """
        held.refuse(held.matrix_reason(self))
        return self.noisy() if self.denoised is None else self.denoised

    def intercept(self) -> float:
        """The constant t that is appended to each encoded row."""
        return self.lattice.intercept_units * self.lattice.step

    @property
    def tells_count(self) -> bool:
        """Whether anything tells the number of rows."""
        known = self.row_count is not None or self.count_noise is not None
        return known or held.moments_reason(self) is None

    @property
    def not_released(self) -> str | None:
        """The reason why means, covariances and correlations were not released, else None."""
        return held.moments_reason(self)

    def count(self) -> float:
        """Number of rows: exact where it is public, else a private estimate.

        Of the published count and of the corner of the published matrix, weighted by the inverse
        of their variances; of releases without the former from the denoised matrix.

        With survey weights, their sum over the largest: at most as many rows without weights would
        tell as much (Kish's effective number, (sum w)^2 / sum w^2, is at least that).
        `dpcov.drowned` tells where it is mostly noise.

        Raises
        ------
        NotReleasedError : the release holds no number of rows.

        """
        if self.row_count is not None:
            return float(self.row_count)
        if (best := NoisyCount.of(self)) is not None:
            return max(0.0, best.value)
        held.refuse(held.directions_reason(self) or (None if self.has_intercept else held.NO_COUNT))
        corner = self.noisy()[-1, -1]
        return max(0.0, float(corner / self.intercept() ** 2))

    def total_weight(self) -> float:
        """Sum of the survey weights, a private estimate; without weights, the number of rows."""
        return self.count() * (1.0 if self.schema.weight is None else self.schema.weight.maximum)

    def mean(self) -> Matrix:
        """(p,) means of the features in the data's own units; `dpcov.drowned` tells of noise.

        Raises
        ------
        NotReleasedError : the release holds no means: see `not_released`.

        """
        mean, _ = self._encoded()
        return self.centers + self.scales * mean

    def covariance(self) -> Matrix:
        """(p, p) covariance of the features (about their private mean, over the count).

        In the data's own units.

        Raises
        ------
        NotReleasedError : the release holds no covariances: see `not_released`.

        """
        _, covariance = self._encoded()
        return covariance * np.outer(self.scales, self.scales)

    def correlation(self) -> Matrix:
        """(p, p) correlations; 0 where a feature shows no variance, or nothing but noise.

        Raises
        ------
        NotReleasedError : the release holds no correlations: see `not_released`.

        """
        _, covariance = self._encoded()
        variances = np.diag(covariance)
        flat = variances <= SMALLEST_VARIANCE
        deviations = np.sqrt(np.where(flat, 1.0, variances))
        correlation = covariance / np.outer(deviations, deviations)
        correlation[flat, :] = correlation[:, flat] = 0.0
        np.fill_diagonal(correlation, 1.0)
        return np.clip(correlation, -1.0, 1.0)

    @property
    def uninformative(self) -> bool:
        """Whether no correlation rises above the noise, so that all of them are 0, or none is held.

        True of a release of the trace only; False where they were not released for another reason.
        """
        if self.published is None or self.not_released is not None:
            return self.published is None
        correlation = self.correlation()
        return len(correlation) > 1 and np.array_equal(correlation, np.eye(len(correlation)))

    @property
    def centers(self) -> Vector:
        """(p,) data values of the features that are encoded as 0."""
        return np.array([feature.center for feature in self.schema.variables])

    @property
    def scales(self) -> Vector:
        """(p,) data units in one unit of the encoded features."""
        return np.array([feature.scale for feature in self.schema.variables])

    def _encoded(self) -> tuple[Matrix, Matrix]:
        """Mean and covariance of the encoded features, by the Schur complement of the intercept."""
        held.refuse(self.not_released)
        moment, gaps = self.second_moment(), has_gaps(self.schema)
        if gaps:
            moment = completed(
                self.schema, self.with_count(moment), self.intercept(), least=least_rows(self)
            )
        sums, corner = moment[:-1, -1], moment[-1, -1]
        if corner <= 0:  # nothing shows but what rows were centred about
            about = np.zeros(len(sums)) if self.center is None else self.center
            return about, np.zeros((len(sums), len(sums)))
        with np.errstate(all="ignore"):
            means = sums / corner * self.intercept() if gaps else self._means(moment)
            mean = np.clip(means, -1.0, 1.0)
            centred = moment[:-1, :-1] - np.outer(sums, sums) / corner
        if not np.isfinite(centred).all():  # never of a positive semidefinite matrix
            raise ReleaseError(
                "This release has entries that are too large to compute with. Its file is damaged, "
                "or its denoised matrix is not positive semidefinite: denoise it again."
            )
        nothing = np.abs(np.diag(centred)) <= ROUNDING * np.diag(moment)[:-1]
        centred[nothing, :] = centred[:, nothing] = 0.0
        # Values lie in [-1, 1], so no variance is above 1, however small a count noise has left.
        count = max(self.count(), 1.0)
        if self.denoised is not None:
            if gaps:
                return mean, proper(centred / count)
            count = max(count, float(np.diag(centred).max(initial=0.0)))
        return mean, (centred + centred.T) / (2 * count)

    def _means(self, moment: Matrix) -> Matrix:
        """(p,) encoded means: sums over the corner, or over the better count where there is one.

        About the center of mapped rows, as the count's error moves means in proportion to how far
        they are from what sums are about.
        """
        t = self.intercept()
        if self.count_noise is None:
            return moment[:-1, -1] / moment[-1, -1] * t
        sums = self.mapped(moment)[:-1, -1] / (t * max(self.count(), 1.0))
        if self.linear_map is None:
            return sums
        center = np.zeros(len(sums)) if self.center is None else self.center
        return np.asarray(center + np.linalg.solve(self.linear_map, sums))

    def with_count(self, matrix: Matrix) -> Matrix:
        """The (d, d) second moment with the best of what tells the count in its corner.

        Of mapped rows it is the corner of their own moment, of which all entries hold some.
        """
        best = NoisyCount.of(self)
        known = self.row_count if best is None else best.value
        if known is None or not self.has_intercept:
            return matrix
        return self.with_corner(matrix, known * self.intercept() ** 2)

    def with_corner(self, matrix: Matrix, corner: float) -> Matrix:
        """The (d, d) matrix that has this corner where rows are mapped, in units of unmapped."""
        along = np.zeros(len(matrix))
        along[-1] = 1.0
        if self.center is not None:
            along[:-1] = self.center / self.intercept()
        return matrix + (corner - matrix[-1, -1]) * np.outer(along, along)

    def to_frame(self, which: Which = "covariance", library: Library = "pandas") -> Any:
        """A matrix of the release as a data frame with the features' names.

        Parameters
        ----------
        which : ``covariance`` or ``correlation``, or ``second_moment``: the denoised one of the
            encoded rows, whose last row is that of the intercept, if there is one.
        library : ``pandas``, ``polars`` or ``pyarrow``; see `dpcov.core.show.frames.frame`.

        """
        from dpcov.core.show.frames import frame

        if which not in ("covariance", "correlation", "second_moment"):
            raise ReleaseError(
                f"There is no matrix {which!r}. Choose: covariance, correlation, second_moment."
            )
        intercept = ["(intercept)"] if which == "second_moment" and self.has_intercept else []
        matrix: Matrix = getattr(self, which)()
        of = self.schema.features if which == "second_moment" else self.schema.variables
        return frame([*(feature.name for feature in of), *intercept], matrix, library)

    def with_denoised(self, method: str, matrix: Matrix | None) -> Release:
        """The same release with another denoised matrix."""
        return replace(self, denoise=method, denoised=matrix)

    def guarantee_in_words(self) -> str:
        """The guarantee as a sentence; says so where there is none."""
        if self.reproducible:
            return f"{NOT_PRIVATE}. A seed was used, so this release protects nobody."
        if self.group is not None:
            together = self.group.together.in_words()
            return f"Of the releases by {self.group.column!r} all together: {together}"
        return self.guarantee.in_words()

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the release as one JSON document, atomically.

        Raises
        ------
        OutputError : the file exists and `force` is not set, or can't be written.

        """
        write(path, self.to_text(), force=force)

    def to_text(self, indent: int | None = 1) -> str:
        """The release file as text."""
        from dpcov.releases.file import to_document

        return json.dumps(to_document(self), indent=indent) + "\n"

    @classmethod
    def load(cls, path: str | Path) -> Release:
        """Read a release file; validated, never executed. Warns of one that may be void.

        Raises
        ------
        ReleaseError : not a valid release file; says where.

        """
        from dpcov.releases.file import from_text

        text = read_text(path, "release", ReleaseError, most=LARGEST_FILE)
        loaded = from_text(text, shown(path))
        if loaded.may_be_void:
            warnings.warn(VOID, VoidReleaseWarning, stacklevel=2)
        return loaded

    def _facts(self) -> dict[str, str]:
        """What it is, in short."""
        names, more = self.columns[:NAMED], len(self.columns) - NAMED
        facts = {
            "guarantee": self.guarantee_in_words(),
            "mechanism": f"{self.mechanism}, denoised by {self.denoise}",
            "features": ", ".join(names) + (f" and {more} more" if more > 0 else ""),
        }
        if self.not_released is not None:
            facts["not released"] = self.not_released
        if self.row_count is not None:
            facts["rows"] = f"{self.row_count} (public)"
        elif self.tells_count:
            facts["rows"] = f"about {self.count():.0f} (private: with noise)"
        return facts | {"made by": self.made_by()}

    def __repr__(self) -> str:
        faults = advisories(self)
        facts = self._facts() | ({"warning": " ".join(faults)} if faults else {})
        return "\n".join(["Release", *(f"  {name}: {printable(it)}" for name, it in facts.items())])

    def _repr_html_(self) -> str:
        rows: list[Row] = [(name, [fact]) for name, fact in self._facts().items()]
        shown = [Table(("", ""), rows, "Private release", words=True)]
        if self.not_released is None:
            deviations = np.sqrt(np.maximum(np.diag(self.covariance()), 0.0))
            figures = zip(self.columns, self.mean().tolist(), deviations.tolist(), strict=True)
            means: list[Row] = [
                (
                    name,
                    [*dates.shown(self.schema, name, [mean]), dates.length(self.schema, name, own)],
                )
                for name, mean, own in figures
            ]
            left = max(len(means) - LONGEST, 0)
            heads = ("", "mean", "std. deviation")
            shown.append(Table(heads, means[:LONGEST], beyond=left, rest="features"))
        against = [NOT_PRIVATE] * self.reproducible + [*advisories(self)]
        return "".join(html.paragraph(told, "strong") for told in against) + html.tables(shown)


def load(path: str | Path) -> Release:
    """Read a release file; raises `ReleaseError` if it is not a valid one."""
    return Release.load(path)


def _congruent(linear_map: Matrix, shift: Matrix | None, matrix: Matrix) -> Matrix:
    """A M A', where A takes (z, t) to (L z + shift t, t), L the (p, p) `linear_map`."""
    whole = np.eye(len(matrix))
    whole[: len(linear_map), : len(linear_map)] = linear_map
    if shift is not None:
        whole[: len(linear_map), -1] = shift
    image = whole @ matrix @ whole.T
    return (image + image.T) / 2


def largest_file(schema: Schema, dimension: int) -> int:
    """Bytes that the file of a release of this order needs at most."""
    # An integer of the noisy matrix, a float of the denoised one, two of a map; all but the
    # denoised one again, and the schema, of a look at directions.
    entry = 176
    return entry * dimension * (dimension + 1) // 2 + 16 * len(schema.model_dump_json()) + 2**15
