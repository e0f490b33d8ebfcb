"""Ridge regression of a feature on other features, from one release (Amin et al. 2019, lemma 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from dpcov.analysis.declared import ALPHA_OPTION, FEATURES_OPTION, TARGET_OPTION, Option, command
from dpcov.analysis.features import (
    INTERCEPT_NAME,
    names_of,
    new_rows,
    position,
    target_and_features,
)
from dpcov.analysis.intervals import (
    CONFIDENCE_LEVEL,
    Coefficients,
    sentence_of_names,
    shown_unasked,
    stated,
    titled,
)
from dpcov.analysis.model_formula import FORMULA_OPTION, Regression, given_target
from dpcov.analysis.normal_equations import PENALTIES, Penalty, Problem
from dpcov.analysis.penalty import pull_of_mean, ridge_alpha
from dpcov.core.entropy import reading_generator
from dpcov.core.parameters import AtLeast0, check
from dpcov.core.show.result import OMITTED_FIELD, Picture, Result
from dpcov.core.show.table import ALWAYS_SHOWN_STRENGTH, Row, Table, beside, rows_of
from dpcov.errors import ReleaseError
from dpcov.estimate import Estimate, dependent
from dpcov.releases.dates import dates_of, length, shown

if TYPE_CHECKING:
    from dpcov.analysis.intervals import Stated
    from dpcov.core.arrays import Booleans, Matrix, Vector
    from dpcov.core.show.table import Cell
    from dpcov.releases import Release
    from dpcov.rows.schema import Schema

COEFFICIENT_ERRORS_NOTE = (
    "Std. errors combine sampling error and privacy noise, for the coefficients at this alpha."
)


@dataclass(frozen=True, slots=True)
class Ridge(Result):
    """Linear model of a target, in the units of the data.

    k is the number of features.

    Attributes
    ----------
    target : str
        Name of the predicted feature.

    columns : tuple of str
        Names of the k features.

    coefficients : ndarray, shape (k,)
        Coefficients of the features.

    intercept : float
        Prediction if all features are 0.

    alpha : float
        Strength of the penalty; see `ridge`.

    penalty : str
        Units in which coefficients are penalised; see `ridge`.

    r_squared : float
        Estimated fraction of the target's variance that the model explains. Without an intercept,
        the fraction is of the target's mean square.

    standard_errors : ndarray, shape (k + 1,), or None
        Standard errors of the intercept and the coefficients, from sampling and privacy noise. The
        errors are about the ridge coefficients of all rows at the same alpha. None if the errors
        were not requested or are unknown.

    schema : Schema
        Schema of the release.

    spreads : ndarray, shape (k,)
        Standard deviations of the features.

    why : str
        Reason for ridge regression, or an empty string.

    below_noise : ndarray of bool, shape (k + 1,), or None
        True for an intercept or coefficient below the noise level. None without standard errors.

    dependent : str
        Sentence about persons with several rows, or an empty string.

    terms : tuple of str
        Terms of a formula for the k features. Empty if the features were named without a formula.

    formula_notes : tuple of str
        Sentences about the reference levels and squares of a formula.

    See Also
    --------
    dpcov.ridge : Fit by ridge regression.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
    >>> dpcov.ridge(release, "x1", alpha=1e-4).columns
    ('x0',)

    """

    target: str
    columns: tuple[str, ...]
    coefficients: Vector
    intercept: float
    alpha: float
    penalty: Penalty
    r_squared: float
    standard_errors: Vector | None
    schema: Schema = field(metadata=OMITTED_FIELD)
    spreads: Vector = field(metadata=OMITTED_FIELD)
    why: str = field(default="", metadata=OMITTED_FIELD)
    below_noise: Booleans | None = None
    dependent: str = field(default="", metadata=OMITTED_FIELD)
    terms: tuple[str, ...] = field(default=(), metadata=OMITTED_FIELD)
    formula_notes: tuple[str, ...] = field(default=(), metadata=OMITTED_FIELD)

    @property
    def effects(self) -> Vector:
        """Change of the prediction if a feature increases by one standard deviation, shape (k,)."""
        return self.coefficients * self.spreads

    def predict(self, rows: Any) -> Vector:
        """Predict the target for new rows.

        Values outside the bounds count as the nearer bound, as in the release.

        Parameters
        ----------
        rows : array-like, shape (m, k), or table
            Features in the order of `columns`, with 0 or 1 for a level of a categorical column. A
            table has the original columns instead.

        Returns
        -------
        ndarray, shape (m,)
            Predictions in units of the target. If the target is a level, each prediction is a
            linear probability.

        Raises
        ------
        ReleaseError
            The rows have a wrong number of columns, or a column is missing.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
        >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
        >>> dpcov.ridge(release, "x1", alpha=1e-4).predict([[0.2], [0.8]]).shape
        (2,)

        """
        values = new_rows(self.schema, self.columns, rows)
        return values @ self.coefficients + self.intercept

    def conf_int(self, level: float = 0.95) -> Matrix:
        """Return intervals of the intercept and the coefficients.

        Parameters
        ----------
        level : float, default 0.95
            Nominal coverage, between 0 and 1.

        Returns
        -------
        ndarray, shape (k + 1, 2)
            Lower and upper ends; NaN without standard errors.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
        >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
        >>> dpcov.ridge(release, "x1", alpha=1e-4).conf_int().shape
        (2, 2)

        """
        reach = scipy.special.ndtri((1 + level) / 2) * self._errors()
        found = np.append(self.intercept, self.coefficients)
        return np.column_stack([found - reach, found + reach])

    def tables(self) -> list[Table]:
        rows, figures = self._shown(), np.append(np.nan, self.effects)
        has_errors = self.standard_errors is not None
        alpha = f"{self.alpha:.4g} ({self.penalty})"
        facts = f"alpha = {alpha}; estimated R-squared {self.r_squared:.3f}."
        return [
            Table(
                ("", "coefficient", "std err", "[0.025", "0.975]", "effect of 1 std"),
                [
                    (name, [*cells, effect])
                    for (name, cells), effect in zip(rows, figures, strict=True)
                ],
                titled(f"Ridge regression of {self.target}", self.dependent),
                (*["{:.5g}"] * 4, "{:.3g}"),
                strengths=[ALWAYS_SHOWN_STRENGTH, *np.abs(self.effects)],
                rest="features with small effects",
                notes=(
                    facts,
                    *self.formula_notes,
                    *[COEFFICIENT_ERRORS_NOTE] * has_errors,
                    *[self.why] * bool(self.why),
                    *self._below(),
                ),
            )
        ]

    def _shown(self) -> list[Row]:
        """Return the rows of the table. If the target is a date, the intercept is a date too."""
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
        low, high = self.conf_int(CONFIDENCE_LEVEL).T
        more = {"lower": low, "upper": high, "level": CONFIDENCE_LEVEL, "effects": self.effects}
        if self.terms:
            more["terms"] = self.terms
        return Result.document(self) | more

    def _below(self) -> tuple[str, ...]:
        """Return a sentence that lists the coefficients below the noise level, if there are any."""
        if self.below_noise is None:
            return ()
        return sentence_of_names(self.below_noise, self._names())

    def _figures(self) -> Table:
        columns = {
            "coefficient": np.append(self.intercept, self.coefficients),
            "std err": self._errors(),
            **dict(zip(("lower", "upper"), self.conf_int().T, strict=True)),
        }
        return Table(("", *columns), rows_of(self._names(), *columns.values()))

    def _names(self) -> tuple[str, ...]:
        """Return the (k + 1,) names of the intercept and of the coefficients in the output."""
        return (INTERCEPT_NAME, *(self.terms or self.columns))

    def _errors(self) -> Vector:
        """Return the (k + 1,) standard errors, or NaN if there are none."""
        unknown = np.full(len(self.columns) + 1, np.nan)
        return unknown if self.standard_errors is None else self.standard_errors

    def picture(self) -> Picture:
        return Picture("coefficients", {"found": self, "effects": True})


@dataclass(frozen=True, slots=True)
class RidgePath:
    """Ridge models for several strengths of the penalty.

    a is the number of strengths, and k is the number of features.

    Attributes
    ----------
    target : str
        Name of the predicted feature.

    columns : tuple of str
        Names of the k features.

    penalty : str
        Units in which coefficients are penalised; see `ridge`.

    alphas : ndarray, shape (a,)
        Strengths of the penalty.

    coefficients : ndarray, shape (a, k)
        Coefficients in the units of the data.

    intercepts : ndarray, shape (a,)
        Intercepts in units of the target.

    r_squared : ndarray, shape (a,)
        Estimated fractions of the target's variance that the models explain.

    See Also
    --------
    dpcov.ridge_path : Fit the models.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
    >>> dpcov.ridge_path(release, "x1", [0.001, 0.1]).coefficients.shape
    (2, 1)

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
    formula=FORMULA_OPTION,
    target=TARGET_OPTION,
    alpha=ALPHA_OPTION,
    features=FEATURES_OPTION,
    penalty=Option("--penalty", "Units in which coefficients are penalised.", choices=PENALTIES),
)
def ridge_command(
    release: Release,
    formula: str | None = None,
    target: str | None = None,
    alpha: float | None = None,
    features: Sequence[str] | None = None,
    penalty: Penalty = "encoded",
) -> Ridge:
    """Fit by ridge regression with a formula or a target; see `ridge`."""
    return ridge(release, given_target(formula, target), alpha, features, penalty=penalty)


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
    """Fit a linear model by ridge regression.

    The model minimises the mean squared error plus a penalty on the squared coefficients. The
    intercept b is not penalised. In the units of the data, `ridge` minimises

        1/n sum_i 1/2 (w . x_i + b - y_i)^2  +  alpha sum_j (s_j w_j)^2

    over the coefficients w and the intercept b. The parameter `penalty` sets the units s_j.

    Parameters
    ----------
    release : Release
        Release with an intercept. Without an intercept, set `intercept` to False; the bounds must
        then be symmetric about 0, and the number of rows must be public.

    target : str
        Numeric column, a level of a categorical column such as ``sex=f``, or a formula as for
        `ols`. In a formula, ``- 1`` removes the intercept.

    alpha : float, optional
        Strength of the penalty, at least 0. The default is the choice of `ridge_alpha`. With the
        default, `ridge` also moves an uncertain intercept towards the midpoint of the target's
        bounds.

    features : sequence of str, optional
        Names of features or columns. The default is all columns except the target.

    intercept : bool, default True
        Fit an intercept.

    penalty : {"encoded", "standardized", "raw"}, default "encoded"
        Units s_j of the coefficients in the penalty. With ``encoded``, s_j is the half-range of the
        feature, and 1 for a level. With ``standardized``, s_j is the standard deviation of the
        feature. With ``raw``, s_j is 1.

    errors : bool, default True
        Simulate standard errors. With more than 200 features, there are no standard errors.

    generator : numpy.random.Generator, optional
        Random numbers for the simulations. The default gives the same result every time.

    Returns
    -------
    Ridge
        Coefficients and standard errors, in the units of the data.

    Raises
    ------
    NotReleasedError
        The release holds the trace only, or alpha is missing and the release has no noise
        distribution.
    ReleaseError
        A name is unknown, a formula is not valid, alpha is negative, or the target is among the
        features.

    See Also
    --------
    dpcov.ols : Ordinary least squares.
    dpcov.ridge_alpha : Choose the strength of the penalty.
    dpcov.ridge_path : Models for several strengths.

    Notes
    -----
    Let C be the covariance of the features, c their covariance with the target and S the diagonal
    matrix with entries s_j^2. The solution is w = (C + 2 alpha S)^-1 c (Hoerl and Kennard 1970,
    equation 2.1, for S = I). With ``encoded``, the
    objective is the one of Amin et al. (2019) on encoded rows. With ``raw``, the solution equals
    scikit-learn's ``Ridge`` with the penalty 2 n alpha. Without an intercept, ``standardized`` uses
    root mean squares in place of standard deviations.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
    >>> found = dpcov.ridge(release, target="x1", alpha=1e-4)
    >>> bool(abs(found.coefficients[0] + 1) < 0.2)
    True

    """
    asked = Regression.of(release, target, features)
    target, features = asked.target, asked.features
    intercept = intercept and asked.has_intercept
    pull, draws = 0.0, reading_generator(generator)
    if alpha is None:
        alpha = ridge_alpha(
            release, target, features, intercept=intercept, penalty=penalty, generator=draws
        )
        if intercept:
            pull = pull_of_mean(release, position(release, target), draws)
    path = ridge_path(release, target, [alpha], features, intercept=intercept, penalty=penalty)
    with_errors = errors and intercept and shown_unasked(release)
    noise = _errors(release, path, draws) if with_errors else None
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
        Estimate.of(release).deviations[at],
        dependent=dependent(release, sampling=noise is not None),
        below_noise=None if noise is None else noise.below_noise,
        terms=asked.names(path.columns) if asked.labels else (),
        formula_notes=asked.notes,
    )


def _errors(release: Release, path: RidgePath, draws: np.random.Generator) -> Stated:
    """Compute the standard errors of the first model of a path."""
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
    """Fit ridge models for several strengths of the penalty.

    Parameters
    ----------
    release : Release
        Release with an intercept; see `ridge` for releases without one.

    target : str
        Numeric column, or a level of a categorical column, such as ``sex=f``.

    alphas : sequence of float, length a
        Strengths of the penalty, at least 0.

    features : sequence of str, optional
        Names of features or columns. The default is all columns except the target.

    intercept : bool, default True
        Fit an intercept.

    penalty : {"encoded", "standardized", "raw"}, default "encoded"
        Units in which coefficients are penalised; see `ridge`.

    Returns
    -------
    RidgePath
        Coefficients of all models, in the units of the data.

    Raises
    ------
    NotReleasedError
        The release holds the trace only.
    ReleaseError
        A name is unknown, a strength is negative, or the target is among the features.

    See Also
    --------
    dpcov.ridge : Fit one ridge model.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
    >>> path = dpcov.ridge_path(release, "x1", [0.001, 0.1, 10.0])
    >>> path.coefficients.shape
    (3, 1)

    """
    strengths = np.asarray(alphas, np.float64)
    for alpha in strengths.ravel().tolist():
        check("alpha", alpha, AtLeast0, ReleaseError)
    Estimate.required(release)
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
    """Bound the distance of private ridge coefficients from the coefficients of the true matrix.

    Parameters
    ----------
    difference : ndarray, shape (p, p)
        True moment minus estimated moment of the encoded features, in sums over rows. The estimated
        moment must be positive semidefinite; `Release.second_moment` returns such a moment.

    coefficients : ndarray, shape (k,)
        Private coefficients of the encoded features.

    penalty : float
        Penalty 2 alpha n for n rows, above 0.

    Returns
    -------
    float
        Bound on the Euclidean distance, for any target and features of the matrix.

    Raises
    ------
    ReleaseError
        The penalty is not above 0.

    See Also
    --------
    dpcov.ridge : Fit a ridge model.

    Notes
    -----
    Lemma 1 of Amin et al. (2019) is ||w - w_hat||_2 <= (||D||_{2,1} + ||D||_2 ||w_hat||_2) /
    penalty. D is `difference`, and ||D||_{2,1} is the largest norm of a column. The denominator of
    the lemma also contains the smallest eigenvalue of the true moment, which is private. This
    function replaces the eigenvalue by its lower bound 0.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> from dpcov.analysis.ridge import ridge_error_bound
    >>> dpcov.ridge_error_bound(np.zeros((3, 3)), np.ones(2), penalty=1.0)
    0.0

    """
    if not penalty > 0:
        raise ReleaseError(f"penalty is {penalty:g}, but lemma 1 needs a penalty above 0.")
    columns = float(np.linalg.norm(difference, axis=0).max())
    spectral = float(np.abs(np.linalg.eigvalsh(difference)).max())
    return (columns + spectral * float(np.linalg.norm(coefficients))) / penalty
