"""Ridge regression of any feature on any others, from one release (Amin et al. 2019, Lemma 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from dpcov.analysis.below_noise import LEVEL, RULE
from dpcov.analysis.declared import ALPHA, FEATURES, TARGET, Option, command
from dpcov.analysis.features import names_of, new_rows, position, target_and_features
from dpcov.analysis.intervals import shown_unasked, stated
from dpcov.analysis.moments import require_matrix, spreads
from dpcov.analysis.normal_equations import PENALTIES, Penalty, Problem
from dpcov.analysis.penalty import pull_of_mean, ridge_alpha
from dpcov.analysis.statistics import Coefficients
from dpcov.core.entropy import reading_generator
from dpcov.core.parameters import AtLeast0, check
from dpcov.core.show.result import OMITTED, Picture, Result
from dpcov.core.show.table import ALWAYS, Row, Table, beside, rows_of
from dpcov.errors import ReleaseError
from dpcov.releases.dates import dates_of, length, shown
from dpcov.releases.persons import dependent, titled

if TYPE_CHECKING:
    from dpcov.analysis.intervals import Stated
    from dpcov.core.arrays import Booleans, Matrix, Vector
    from dpcov.core.show.table import Cell
    from dpcov.releases import Release
    from dpcov.rows.schema import Schema

INTERCEPT = "(intercept)"
COVERS = "Std. errors: sampling and privacy noise, about what all rows would give at this alpha."


@dataclass(frozen=True, slots=True)
class Ridge(Result):
    """A linear model, in the data's units.

    Attributes
    ----------
    target : name of the feature that is predicted.
    columns : names of the k features it is predicted from.
    coefficients, intercept : the prediction is intercept + coefficients . x.
    alpha, penalty : what was minimised; see `ridge`.
    r_squared : share of the target's variance (without an intercept: of its mean square) that is
        explained, as estimated from the release.
    standard_errors : (k + 1,) of the intercept and the coefficients, from sampling and the privacy
        noise, as `intervals` have them: about those of all rows at this alpha, which are pulled
        towards 0 themselves. None where they were not asked for or can't be told.
    spreads : (k,) standard deviations of the features.
    below_noise : (k + 1,) bool, which of them are below the noise level, by the rule of
        `dpcov.analysis.below_noise`; None where standard errors are None.
    why : it is this model and no other, or "".
    dependent : a sentence where a person can have several rows, or "".

    """

    target: str
    columns: tuple[str, ...]
    coefficients: Vector
    intercept: float
    alpha: float
    penalty: Penalty
    r_squared: float
    standard_errors: Vector | None
    schema: Schema = field(metadata=OMITTED)
    spreads: Vector = field(metadata=OMITTED)
    why: str = field(default="", metadata=OMITTED)
    below_noise: Booleans | None = None
    dependent: str = field(default="", metadata=OMITTED)

    @property
    def effects(self) -> Vector:
        """(k,) changes of the prediction by one standard deviation of each feature."""
        return self.coefficients * self.spreads

    def predict(self, rows: Any) -> Vector:
        """(m,) predictions for new rows; of a level, its linear probability.

        Parameters
        ----------
        rows : (m, k) array of the features in order (0 or 1 for a level of a categorical column),
            or a table with the original columns. Values outside the bounds are moved to the
            nearer bound, as in the release.

        """
        values = new_rows(self.schema, self.columns, rows)
        return values @ self.coefficients + self.intercept

    def conf_int(self, level: float = 0.95) -> Matrix:
        """(k + 1, 2) ends of intervals by the standard errors; NaN where there are none."""
        reach = scipy.special.ndtri((1 + level) / 2) * self._errors()
        found = np.append(self.intercept, self.coefficients)
        return np.column_stack([found - reach, found + reach])

    def tables(self) -> list[Table]:
        rows, figures = self._shown(), np.append(np.nan, self.effects)
        told = self.standard_errors is not None
        alpha = f"{self.alpha:.4g} ({self.penalty})"
        facts = f"alpha = {alpha}; R^2 = {self.r_squared:.3f}, as estimated."
        return [
            Table(
                ("", "coefficient", "std err", "[0.025", "0.975]", "effect of 1 std"),
                [
                    (name, [*cells, effect])
                    for (name, cells), effect in zip(rows, figures, strict=True)
                ],
                titled(f"Ridge regression of {self.target}", self.dependent * told),
                (*["{:.5g}"] * 4, "{:.3g}"),
                strengths=[ALWAYS, *np.abs(self.effects)],
                rest="features with small effects",
                notes=(facts, *[COVERS] * told, *[self.why] * bool(self.why), *self._below()),
            )
        ]

    def _shown(self) -> list[Row]:
        """Rows of the table; of a date as the target, the intercept and its ends are dates."""
        (name, cells), *rows = self._figures().rows
        if self.target in dates_of(self.schema):
            value, error, *ends = cells
            value, *ends = shown(self.schema, self.target, [value, *ends])  # type: ignore[list-item]
            cells = [value, length(self.schema, self.target, error), *ends]  # type: ignore[arg-type]
        return [(name, cells), *rows]

    def data(self) -> Table:
        more: dict[str, list[Cell]] = {"effect of 1 std": [None, *self.effects.tolist()]}
        if self.below_noise is not None:
            more["below noise"] = self.below_noise.tolist()
        return beside(self._figures(), more)

    def document(self) -> dict[str, Any]:
        low, high = self.conf_int(LEVEL).T
        more = {"lower": low, "upper": high, "level": LEVEL, "effects": self.effects}
        return Result.document(self) | more

    def _below(self) -> tuple[str, ...]:
        """A sentence on coefficients that are below the noise level, if any are."""
        names = [INTERCEPT, *self.columns]
        below = [] if self.below_noise is None else self.below_noise.tolist()
        found = [name for name, flagged in zip(names, below, strict=False) if flagged]
        return (f"Below the noise level, as {RULE}: {', '.join(found)}.",) if found else ()

    def _figures(self) -> Table:
        columns = {
            "coefficient": np.append(self.intercept, self.coefficients),
            "std err": self._errors(),
            **dict(zip(("lower", "upper"), self.conf_int().T, strict=True)),
        }
        return Table(("", *columns), rows_of((INTERCEPT, *self.columns), *columns.values()))

    def _errors(self) -> Vector:
        """(k + 1,) standard errors; NaN where there are none."""
        unknown = np.full(len(self.columns) + 1, np.nan)
        return unknown if self.standard_errors is None else self.standard_errors

    def picture(self) -> Picture:
        return Picture("coefficients", {"found": self, "effects": True})


@dataclass(frozen=True, slots=True)
class RidgePath:
    """Ridge models for several alphas.

    Attributes
    ----------
    target, columns, penalty : as in `Ridge`.
    alphas : (a,)
    coefficients : (a, k)
    intercepts, r_squared : (a,)

    """

    target: str
    columns: tuple[str, ...]
    penalty: Penalty
    alphas: Vector
    coefficients: Matrix
    intercepts: Vector
    r_squared: Vector


@command(
    "ridge",
    "Predict a column from others by ridge regression.",
    "--target age",
    target=TARGET,
    alpha=ALPHA,
    features=FEATURES,
    penalty=Option("--penalty", "Units in which coefficients are penalised.", choices=PENALTIES),
)
def ridge(
    release: Release,
    target: str,
    alpha: float | None = None,
    features: Sequence[str] | None = None,
    *,
    intercept: bool = True,
    penalty: Penalty = "encoded",
    errors: bool = True,
    generator: np.random.Generator | None = None,
) -> Ridge:
    r"""Ridge regression of `target` on `features`.

    Minimises over w (and b, which is not penalised), in the data's units,

        1/n sum_i 1/2 (w . x_i + b - y_i)^2  +  alpha sum_j (s_j w_j)^2,

    where s_j is, for feature j, by `penalty`: ``encoded``, its half-range (upper - lower) / 2, 1
    for a level: the objective of Amin et al. 2019 on encoded rows; ``standardized``, its standard
    deviation (root mean square without an intercept); ``raw``, 1: scikit-learn's ``Ridge`` with
    its alpha divided by 2n. The solution is w = (C + 2 alpha n diag(s^2))^-1 c, with C and c the
    released moments n times.

    Parameters
    ----------
    release : with an intercept; without one if `intercept` is false, bounds are symmetric about 0
        and the number of rows is public.
    target : a numeric column, or a level of a categorical one (``sex=f``), as in
        `Release.columns`.
    alpha : strength of the penalty, at least 0; default, chosen from the release by
        `ridge_alpha`; the intercept is then moved to the midpoint of the target's bounds by as
        much as the noise in the target's mean asks for (`pull_of_mean`).
    features : names of features or columns; default, all but the target's column.
    intercept : whether to fit b.
    penalty : ``encoded``, ``standardized`` or ``raw``.
    errors : whether to simulate standard errors; beyond 200 features there are none.
    generator : for the simulations that choose alpha and tell errors; default, the same each time.

    Raises
    ------
    ReleaseError : unknown names, alpha below 0, target among the features, nothing but the trace
        was released, or alpha has to be chosen and the release has no noise law.

    """
    pull, draws = 0.0, reading_generator(generator)
    if alpha is None:
        alpha = ridge_alpha(
            release, target, features, intercept=intercept, penalty=penalty, generator=draws
        )
        if intercept:
            pull = pull_of_mean(release, position(release, target), draws)
    path = ridge_path(release, target, [alpha], features, intercept=intercept, penalty=penalty)
    asked = errors and intercept and shown_unasked(release)
    noise = _errors(release, path, draws) if asked else None
    at = [release.columns.index(name) for name in path.columns]
    return Ridge(
        target,
        path.columns,
        path.coefficients[0],
        float(path.intercepts[0]) + pull,
        float(alpha),
        penalty,
        float(path.r_squared[0]),
        None if noise is None else noise.deviations,
        release.schema,
        spreads(release, at),
        dependent=dependent(release),
        below_noise=None if noise is None else noise.below_noise,
    )


def _errors(release: Release, path: RidgePath, draws: np.random.Generator) -> Stated:
    """Standard errors of the first model of a path, and what of them is due to the noise alone."""
    to, at = target_and_features(release, path.target, path.columns)
    weights = Problem.of(release, [to], at, path.penalty).weights
    penalties = tuple((2 * path.alphas[0] * weights).tolist())
    statistic = Coefficients(path.target, path.columns, penalties)
    return stated(release, [statistic], True, draws)[0]


def ridge_path(
    release: Release,
    target: str,
    alphas: Sequence[float] | Vector,
    features: Sequence[str] | None = None,
    *,
    intercept: bool = True,
    penalty: Penalty = "encoded",
) -> RidgePath:
    """Ridge regressions for several alphas; parameters and errors as in `ridge`."""
    strengths = np.asarray(alphas, np.float64)
    for alpha in strengths.ravel().tolist():
        check("alpha", alpha, AtLeast0, ReleaseError)
    require_matrix(release)
    to, at = target_and_features(release, target, features)
    problem = Problem.of(release, [to], at, penalty, intercept=intercept)
    solutions = problem.solutions(strengths)
    losses = problem.losses(solutions)[:, 0]
    solutions = solutions[:, :, 0]
    units = release.scales[to]
    offsets = problem.target_means[0] - solutions @ problem.means
    power = problem.power[0]
    return RidgePath(
        target,
        names_of(release, at),
        penalty,
        strengths,
        solutions * units / release.scales[at],
        offsets * units,
        1 - losses / power if power > 0 else np.zeros(len(losses)),
    )


def ridge_error_bound(difference: Matrix, coefficients: Vector, penalty: float) -> float:
    """Lemma 1 of Amin et al. 2019: how far ridge coefficients can be from those of the true matrix.

    ||w - w_hat||_2 <= (||D||_{2,1} + ||D||_2 ||w_hat||_2) / penalty, where D = C - C_hat and
    ||.||_{2,1} is the largest norm of a column. The lemma's denominator lambda_min(C) + 2 alpha n
    is private; without lambda_min(C) >= 0 the bound is public wherever D is simulated.

    Parameters
    ----------
    difference : (p, p) C - C_hat, unnormalised (n times the moments), both encoded, C_hat positive
        semidefinite (see `Release.second_moment`): w_hat must solve its own normal equations.
    coefficients : (k,) w_hat, of the encoded features.
    penalty : 2 alpha n, above 0.

    Returns
    -------
    The bound; any target and features of the matrix.

    """
    if not penalty > 0:
        raise ReleaseError("Lemma 1 needs a penalty above 0.")
    columns = float(np.linalg.norm(difference, axis=0).max())
    spectral = float(np.abs(np.linalg.eigvalsh(difference)).max())
    return (columns + spectral * float(np.linalg.norm(coefficients))) / penalty
