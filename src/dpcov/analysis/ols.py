"""Ordinary least squares with standard errors, from one release."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from dpcov.analysis.below_noise import RULE
from dpcov.analysis.declared import FEATURES, TARGET, command, section
from dpcov.analysis.drowned import unseen
from dpcov.analysis.features import names_of, target_and_features
from dpcov.analysis.intervals import stated
from dpcov.analysis.moments import require_matrix, solve, spreads
from dpcov.analysis.normal_equations import Problem
from dpcov.analysis.plausible import estimate, sampling_errors
from dpcov.analysis.ridge import INTERCEPT, Ridge, ridge
from dpcov.analysis.statistics import Stack
from dpcov.analysis.statistics import coefficients as coefficients_of
from dpcov.core.entropy import reading_generator
from dpcov.core.parameters import Probability, check
from dpcov.core.show.result import OMITTED, Picture, Result
from dpcov.core.show.table import ALWAYS, Row, Table, beside, rows_of
from dpcov.errors import ReleaseError
from dpcov.releases import held
from dpcov.releases.dates import dates_of, length, shown
from dpcov.releases.pairwise import assumed, fewest_rows, has_gaps, rows_of_pairs
from dpcov.releases.persons import dependent, titled

if TYPE_CHECKING:
    from dpcov.analysis.statistics import Statistic
    from dpcov.core.arrays import Booleans, Matrix, Vector
    from dpcov.releases import Release

NAMED = 5  # features that a refusal names
DRAWS = 519  # of sampling errors, where cells may be missing
SMALL = 1e-3  # of them, for what they do to first order
COVERS = (
    "Std. errors combine two sources: sampling (classical formula: independent rows, equal "
    "residual variance) and privacy noise (its law, simulated)."
)
SAMPLING_ONLY = (
    "Std. errors cover sampling only: the privacy noise of this release has no law to simulate."
)
NO_TEST = "No F test and no test of R-squared: both would ignore the privacy noise."
GONE = (
    "OLS.{name} is NaN, as an F test ignores the privacy noise. Use the intervals of the "
    "coefficients; this name will be removed."
)


@dataclass(frozen=True, slots=True)
class OLS(Result):
    """A least squares fit with inference; all (k + 1,) vectors start with the intercept.

    Attributes
    ----------
    model : the fit, with `predict`.
    names : ``(intercept)``, then the features.
    coefficients : in the data's units.
    sampling_errors : classical standard errors: rows independent, residuals of equal variance.
        Where cells may be missing, at least what simulated gaps give (`sampling_errors` of
        `dpcov.analysis.plausible`): each product is then about rows of its own.
    privacy_errors : those of the privacy noise, as `intervals` have them; None where the release
        has no noise law.
    standard_errors : root of the sum of both squares.
    t, p_values : of the coefficients by these errors and Student's t.
    lower, upper : each end lies away from the coefficient by the root of the sum of the squares of
        how far those of Student's interval and of the privacy noise's do; `level` is the coverage
        meant.
    trusted : (k + 1,) `Intervals.trusted`.
    below_noise : (k + 1,) bool, which coefficients are below the noise level, by the rule of
        `dpcov.analysis.below_noise`; None where the release has no noise law.
    residual_deviation, degrees, count, r_squared, adjusted_r_squared : as usual, estimated from
        the release; `count` may be an estimate. Where cells may be missing it is the smallest
        number of rows that any two of the columns have together. R-squared is a point estimate
        without a test: privacy noise can raise it, and its adjustment is for sampling alone.
    f, f_p_value : NaN, with a `FutureWarning`: an F test would ignore the privacy noise.
    digits : about how many of a coefficient the lattice tells, were there no noise: half a step,
        over the least deviation, times the condition of the features' correlations.
    assumed : a sentence on missing cells, where there can be some.
    tail : one where the tail of the table is not seen.
    dependent : one where a person can have several rows.

    """

    model: Ridge = field(metadata=OMITTED)
    names: tuple[str, ...]
    coefficients: Vector
    sampling_errors: Vector
    privacy_errors: Vector | None
    standard_errors: Vector
    t: Vector
    p_values: Vector
    lower: Vector
    upper: Vector
    level: float
    trusted: Booleans
    residual_deviation: float
    degrees: float
    count: float
    r_squared: float
    adjusted_r_squared: float
    digits: float
    assumed: tuple[str, ...] = field(default=(), metadata=OMITTED)
    tail: tuple[str, ...] = field(default=(), metadata=OMITTED)
    dependent: str = field(default="", metadata=OMITTED)
    below_noise: Booleans | None = None

    @property
    def f(self) -> float:
        """NaN, as an F statistic would ignore the privacy noise."""
        return _gone("f")

    @property
    def f_p_value(self) -> float:
        """NaN, as an F test would ignore the privacy noise."""
        return _gone("f_p_value")

    def tables(self) -> list[Table]:
        tail = (1 - self.level) / 2
        heads = ("", "coef", "std err", "sampling", "privacy", "t", "P>|t|")
        return [
            replace(
                self._figures(),
                heads=(*heads, f"[{tail:.3g}", f"{1 - tail:.3g}]"),
                rows=self._shown(),
                title=titled(f"Least squares of {self.model.target}", self.dependent),
                forms=("{:.5g}", *["{:.4g}"] * 3, "{:.2f}", "{:.3f}", "{:.5g}", "{:.5g}"),
                strengths=[ALWAYS, *np.abs(self.model.effects)],
                rest="features with small effects",
                notes=self._notes(),
            )
        ]

    def _shown(self) -> list[Row]:
        """Rows of the table; of a date as the target, the intercept and its ends are dates."""
        schema, target = self.model.schema, self.model.target
        (name, cells), *rows = self._figures().rows
        if target in dates_of(schema):
            value, *errors, t, p, low, high = cells
            value, low, high = shown(schema, target, [value, low, high])  # type: ignore[list-item]
            errors = [length(schema, target, one) for one in errors]  # type: ignore[arg-type]
            cells = [value, *errors, t, p, low, high]
        return [(name, cells), *rows]

    def _notes(self) -> tuple[str, ...]:
        residual = length(self.model.schema, self.model.target, self.residual_deviation)
        facts = (
            f"About {self.count:.0f} rows; R-squared {self.r_squared:.3f}, as estimated (adjusted "
            f"for sampling {self.adjusted_r_squared:.3f}); residual std "
            f"{residual if isinstance(residual, str) else format(residual, '.4g')}. "
            f"The lattice tells {max(0.0, self.digits):.0f} digits."
        )
        covers = SAMPLING_ONLY if self.privacy_errors is None else COVERS
        if self.assumed:
            covers = covers.replace(
                "classical formula", "simulated, at least the classical formula"
            )
        below = np.zeros(len(self.names), bool) if self.below_noise is None else self.below_noise
        names = [name for name, flagged in zip(self.names, below, strict=True) if flagged]
        warning = (f"Below the noise level, as {RULE}: {', '.join(names)}.",) if names else ()
        return facts, covers, NO_TEST, *self.assumed, *self.tail, *warning

    def data(self) -> Table:
        table = self._figures()
        if self.below_noise is None:
            return table
        return beside(table, {"below noise": self.below_noise.tolist()})

    def _figures(self) -> Table:
        unknown = np.full(len(self.names), np.nan)
        columns = {
            "coefficient": self.coefficients,
            "std err": self.standard_errors,
            "sampling": self.sampling_errors,
            "privacy": unknown if self.privacy_errors is None else self.privacy_errors,
            "t": self.t,
            "p": self.p_values,
            "lower": self.lower,
            "upper": self.upper,
        }
        return Table(("", *columns), rows_of(self.names, *columns.values()))

    def conf_int(self) -> Matrix:
        """(k + 1, 2) `lower` and `upper`, side by side."""
        return np.column_stack([self.lower, self.upper])

    def picture(self) -> Picture:
        return Picture("coefficients", {"found": self, "effects": True})

    def document(self) -> dict[str, Any]:
        sentences = self.assumed + self.tail
        told = {"assumed": sentences} if sentences else {}
        return {"target": self.model.target, **Result.document(self), **told}


@command(
    "ols",
    "Least squares with standard errors for sampling and privacy noise.",
    "--target age",
    target=TARGET,
    features=FEATURES,
)
def ols(
    release: Release,
    target: str,
    features: Sequence[str] | None = None,
    *,
    level: float = 0.95,
    generator: np.random.Generator | None = None,
) -> OLS:
    """Ordinary least squares of `target` on `features`, with an intercept.

    Computed from the estimate that `intervals` lie about: where noise drowns a direction of the
    features, coefficients are uncertain and errors large, but there is an answer.

    Parameters
    ----------
    release : a release with an intercept.
    target : a numeric column, or a level of a categorical one (``sex=f``).
    features : names of features or columns; default, all but the target's column. Of each
        categorical column that is named as a whole the first level is the reference.
    level : coverage of the intervals.
    generator : for the simulations; default, the same each time.

    Raises
    ------
    ReleaseError : unknown names; too few rows; or some features determine others (then use fewer
        features, or `ridge`).

    """
    held.refuse(release.not_released)
    check("level", level, Probability, ReleaseError)
    to, at = target_and_features(release, target, features, reference=True)
    held.refuse(held.directions_reason(release))
    if not has_gaps(release.schema):
        require_matrix(release)
    statistic = coefficients_of(target, features)
    draws = reading_generator(generator)
    matrix = _estimate(release, [to, *at])
    stack = Stack.of(release, matrix[None])
    gram = stack.covariances[0][np.ix_(at, at)]
    inverse, rank = solve(gram, np.eye(len(at)))
    if rank < len(at):
        raise ReleaseError(_undetermined(release, at, gram))
    count = max(release.count(), 1.0)
    if has_gaps(release.schema):
        count = max(fewest_rows(release, [to, *at]), 1.0)
    rows = count
    if release.row_count is None:  # noise decides on it: then the fewest that can be fitted
        rows = max(count, len(at) + 2.0)
    degrees = rows - len(at) - 1
    if degrees < 1:
        raise ReleaseError(
            f"A fit of {len(at)} features needs more rows than there are (about {count:.0f})."
        )
    coefficients = statistic.values(release, matrix[None])[0]
    scales, unit = release.scales[at], release.scales[to]
    encoded = coefficients[1:] * scales / unit
    loss, power = _loss(release, stack.covariances[0], to, at, encoded)
    residual = loss * rows / degrees
    offsets = release.centers[at] / scales
    means = stack.means[0, at] + offsets  # about 0 in the data's units
    spread = np.concatenate([[1 + means @ inverse @ means], np.diag(inverse)])
    units = unit / np.concatenate([[1.0], scales])
    sampling = np.sqrt(residual / rows * spread) * units
    if has_gaps(release.schema):
        sampling = np.maximum(sampling, _simulated(release, statistic, matrix, draws))
    reach = scipy.stats.t.ppf((1 + level) / 2, degrees) * sampling
    privacy, trusted, below = None, np.ones(len(sampling), bool), None
    if release.noise is not None:
        noise = stated(release, [statistic], False, draws)[0]
        privacy = np.where(np.isnan(noise.deviations), np.inf, noise.deviations)  # may be any
        trusted, below = noise.trusted, noise.below_noise
        reach = np.hypot(reach, scipy.stats.norm.ppf((1 + level) / 2) * privacy)
    errors = sampling if privacy is None else np.hypot(sampling, privacy)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = coefficients / errors
    explained = 1 - loss / power if power > 0 else 0.0
    names = names_of(release, at)
    model = Ridge(
        target, names, coefficients[1:], float(coefficients[0]), 0.0, "encoded",
        float(explained), errors, release.schema, spreads(release, at),
    )  # fmt: skip
    return OLS(
        model=model,
        names=(INTERCEPT, *names),
        coefficients=coefficients,
        sampling_errors=sampling,
        privacy_errors=privacy,
        standard_errors=errors,
        t=t,
        p_values=2 * scipy.stats.t.sf(np.abs(t), degrees),
        lower=coefficients - reach,
        upper=coefficients + reach,
        level=level,
        trusted=trusted,
        residual_deviation=float(np.sqrt(residual)) * unit,
        degrees=degrees,
        count=count,
        r_squared=float(explained),
        adjusted_r_squared=float(1 - (1 - explained) * (rows - 1) / degrees),
        digits=_digits(release, stack.covariances[0][np.ix_([*at, to], [*at, to])]),
        assumed=assumed(release),
        tail=unseen(release),
        dependent=dependent(release),
        below_noise=below,
    )


def _gone(name: str) -> float:
    warnings.warn(GONE.format(name=name), FutureWarning, stacklevel=3)
    return float("nan")


def _estimate(release: Release, at: list[int]) -> Matrix:
    """(d, d) the second moment that errors are about; refuses features that no row has together."""
    if not has_gaps(release.schema):
        return estimate(release)
    if not release.second_moment().any():
        require_matrix(release)  # says so
    matrix = estimate(release)
    rows = rows_of_pairs(release.schema, matrix, release.intercept())[np.ix_(at, at)]
    if rows.min() >= 1:
        return matrix
    own = np.flatnonzero(np.diag(rows) < 1)  # of no row by itself, or of none with another
    lacking = own[:1] if own.size else np.unravel_index(int(rows.argmin()), rows.shape)
    names = " and ".join(repr(name) for name in names_of(release, sorted(at[j] for j in lacking)))
    raise ReleaseError(
        f"As far as the noise shows, no row has a value of {names}, so a regression with "
        f"{'it' if own.size else 'both'} is not determined. Choose other columns, or use ridge."
    )


def _undetermined(release: Release, at: list[int], gram: Matrix) -> str:
    """Say which features follow from the others, or do not vary, in the released matrix."""
    names = []
    for own, name in enumerate(names_of(release, at)):
        others = [j for j in range(len(at)) if j != own]
        if solve(gram[np.ix_(others, others)], np.eye(len(others)))[1] == _rank(gram):
            names.append(name)
    listed = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" * (len(names) > NAMED))
    return (
        "These features are constant or follow from the others in the released matrix, so their "
        f"coefficients are not determined: {listed}. Choose fewer features, or use ridge."
    )


def _rank(matrix: Matrix) -> int:
    return solve(matrix, np.eye(len(matrix)))[1]


def _loss(
    release: Release, covariance: Matrix, to: int, at: list[int], coefficients: Vector
) -> tuple[float, float]:
    """Encoded variance of the residuals, and of the target.

    By the denoised matrix; where cells may be missing by the matrix of the fit, as pairs of columns
    are about different rows.
    """
    problem = Problem.of(release, [to], at, "standardized")
    if has_gaps(release.schema):
        problem = replace(
            problem,
            gram=covariance[np.ix_(at, at)],
            cross=covariance[np.ix_(at, [to])],
            power=covariance[[to], [to]],
        )
    return float(problem.losses(coefficients[None, :, None])[0, 0]), float(problem.power[0])


def _digits(release: Release, covariance: Matrix) -> float:
    """Decimal digits that rounding leaves of coefficients: the target comes last."""
    deviations = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    if not deviations.min() > 0:
        return 0.0
    related = (covariance / np.outer(deviations, deviations))[:-1, :-1]
    off = release.lattice.step / 2 / deviations.min() * np.linalg.cond(related)
    return float(-np.log10(max(off, 1e-16)))


def _simulated(
    release: Release, statistic: Statistic, matrix: Matrix, generator: np.random.Generator
) -> Vector:
    """(k + 1,) standard deviations of coefficients by simulated sampling errors, to first order."""
    errors = sampling_errors(release, DRAWS, generator)
    moves = statistic.values(release, matrix + SMALL * errors) - statistic.values(
        release, matrix[None]
    )
    return np.asarray(np.sqrt(np.mean(moves**2, axis=0)) / SMALL)


@section(
    name="regression",
    heading="Regression of {target}",
    lead="How the other columns predict this one.",
    place=50,
    folded=False,
)
def regression(
    release: Release,
    target: str,
    features: Sequence[str] | None = None,
    *,
    generator: np.random.Generator | None = None,
) -> OLS | Ridge:
    """Least squares, or ridge regression where the noise does not allow it."""
    try:
        return ols(release, target, features, generator=generator)
    except ReleaseError as error:
        why = f"Least squares is not possible here, so this is ridge regression. {error}"
        return replace(ridge(release, target, None, features, generator=generator), why=why)
