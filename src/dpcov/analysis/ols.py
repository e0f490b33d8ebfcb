"""Ordinary least squares with standard errors, from one release."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from dpcov.analysis.declared import FEATURES_OPTION, TARGET_OPTION, Option, command, section
from dpcov.analysis.estimable import (
    NOT_ESTIMABLE,
    budget_sentences,
    span,
    sufficient_budgets,
    sufficient_divisors,
)
from dpcov.analysis.features import INTERCEPT_NAME, names_of, new_rows, target_and_features
from dpcov.analysis.intervals import (
    Coefficients,
    FitFigures,
    SeparateVariances,
    fit_moments,
    sentence_of_hidden,
    sentence_of_names,
    stated,
    titled,
)
from dpcov.analysis.model_formula import FORMULA_OPTION, Regression, given_target
from dpcov.analysis.noise_warnings import tail_warnings
from dpcov.analysis.normal_equations import Problem, solve
from dpcov.analysis.persons import no_tests_note, sampling_factor
from dpcov.analysis.ridge import Ridge, ridge
from dpcov.analysis.wald import Contrast, Fit, Hypothesis
from dpcov.core.entropy import reading_generator
from dpcov.core.parameters import Probability, check
from dpcov.core.printable import listed
from dpcov.core.renamed import REMOVAL_VERSION
from dpcov.core.show.result import OMITTED_FIELD, Picture, Result
from dpcov.core.show.table import ALWAYS_SHOWN_STRENGTH, Cell, Row, Table, beside, rows_of
from dpcov.errors import ReleaseError
from dpcov.estimate import Estimate, dependent, has_dependent_rows
from dpcov.estimate.errors import Stack
from dpcov.estimate.missing import DERIVATIVE_STEP, rows_of_pairs
from dpcov.published import record
from dpcov.releases.dates import dates_of, shown
from dpcov.releases.dates import length as length_of

if TYPE_CHECKING:
    from dpcov.analysis.intervals import Statistic
    from dpcov.analysis.wald import Step, WaldTest
    from dpcov.core.arrays import Booleans, Matrix, Vector
    from dpcov.core.privacy import Guarantee
    from dpcov.releases import Release

# Names of the figures of the fit in tables and sentences.
FIGURE_NAMES = ("(R-squared)", "(residual std)")
# Number of simulated sampling errors, if cells may be missing. 2.5% of 520 is a whole number.
SAMPLING_DRAWS = 519
BOTH_ERRORS_NOTE = (
    "Std. errors combine two sources: sampling error (classical formula: independent rows, equal "
    "residual variance) and privacy noise (simulated)."
)
# The upper end of the interval for the residual standard deviation is at most exp(700) times the
# estimate, because a larger factor would overflow.
MAX_LOG_FACTOR = 700.0
SAMPLING_ERROR_NOTE = (
    "Std. errors cover the sampling error only, because the distribution of the privacy noise is "
    "unknown."
)
ORIGIN_NOTE = (
    "The fit goes through the origin. R-squared therefore compares the residuals with 0, as in R."
)
DATED_MESSAGE = (
    "A regression through the origin needs numbers with a natural 0, but {name!r} is a date. "
    "Remove `- 1` or `0 +` from the formula."
)
REMOVED_NAME_MESSAGE = (
    "OLS.{name} is NaN, because an F test ignores the privacy noise. Use `OLS.wald`; version "
    "{version} removes this name."
)


@dataclass(frozen=True, slots=True)
class OLS(Result):
    """Least squares fit with standard errors and intervals.

    k is the number of features. All vectors have the shape (k + 1,) and start with the intercept.
    In a regression through the origin, they have the shape (k,).

    Attributes
    ----------
    model : Ridge
        Fitted model with the method `predict`.

    names : tuple of str
        ``(intercept)``, then the names of the features, or the terms of a formula.

    coefficients : ndarray, shape (k + 1,)
        Coefficients in the units of the data.

    sampling_errors : ndarray, shape (k + 1,)
        Classical standard errors. They assume independent rows and residuals of equal variance. If
        cells may be missing, the errors are at least the simulated sampling errors with missing
        cells.

    privacy_errors : ndarray, shape (k + 1,), or None
        Standard errors due to the privacy noise. None if the release has no noise distribution.

    standard_errors : ndarray, shape (k + 1,)
        Square root of the sum of both squared standard errors.

    t : ndarray, shape (k + 1,)
        Square roots of the Wald statistics of the single coefficients, with the signs of the
        estimates. Without noise, they are the coefficients divided by their standard errors. With
        noise, the test uses the errors under the hypothesis that the coefficient is 0.

    p_values : ndarray, shape (k + 1,)
        Two-sided p-values of the same tests. NaN if a person can have several rows and no design
        effect is stated.

    lower : ndarray, shape (k + 1,)
        Lower ends of the intervals. The squared half-width of an interval is the sum of the squared
        half-widths for sampling and for the privacy noise. NaN if an interval says nothing: it
        contains at least 99% of the coefficients that explain no more than the variance of the
        target. The ends of other intervals that say nothing are NaN too.

    upper : ndarray, shape (k + 1,)
        Upper ends of the intervals.

    level : float
        Nominal coverage of the intervals.

    trusted : ndarray of bool, shape (k + 1,)
        False if an interval depends on assumptions more than on the noise; see `Intervals`.

    residual_deviation : float
        Standard deviation of the residuals, in units of the target.

    residual_interval : ndarray, shape (2,)
        Interval for the standard deviation of the residuals, for the noise and for sampling.

    degrees : float
        Residual degrees of freedom.

    count : float
        Number of rows, which can be an estimate. If cells may be missing, `count` is the smallest
        number of rows in which two of the columns are both present.

    r_squared : float
        Estimated fraction of the variance that the model explains.

    r_squared_interval : ndarray, shape (2,)
        Interval for `r_squared`, for the noise and for sampling. It starts at 0 unless `wald` is
        significant at this level.

    adjusted_r_squared : float
        Fraction of the variance, adjusted for sampling but not for the privacy noise.

    digits : float
        Number of decimal digits of the coefficients that rounding leaves correct.

    wald : WaldTest
        Wald test that all coefficients except the intercept are 0.

    fit : Fit
        Fit with the error covariances for `vcov`, `contrast` and `wald_test`.

    assumed : tuple of str
        Sentences about missing cells.

    tail : tuple of str
        Sentences about a tail of the data that the noise hides.

    dependent : str
        Sentence about the rows of a person, or an empty string.

    below_noise : ndarray of bool, shape (k + 1,), or None
        True for a coefficient below the noise level. None if the release has no noise distribution.

    hidden : ndarray of bool, shape (k,), or None
        True for a feature that could follow from the other features, because the noise hides the
        variance that they do not explain. The true coefficient can then be arbitrarily large, and
        the interval is too short. None if the release has no noise distribution.

    sufficient_budget : ndarray, shape (k + 3,), or None
        Epsilon or rho of a release that would have an interval, for each interval that says
        nothing. Infinity if no such budget is known, and NaN for all other intervals. The last two
        entries are for `r_squared` and `residual_deviation`.

    guarantee : Guarantee or None
        Guarantee of the release.

    formula_notes : tuple of str
        Sentences about the reference levels and squares of a formula.

    no_tests : str
        Sentence about the missing p-values, or an empty string.

    See Also
    --------
    dpcov.ols : Fit by least squares.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
    >>> dpcov.ols(release, "x1").names
    ('(intercept)', 'x0')

    """

    model: Ridge = field(metadata=OMITTED_FIELD)
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
    residual_interval: Vector
    degrees: float
    count: float
    r_squared: float
    r_squared_interval: Vector
    adjusted_r_squared: float
    digits: float
    wald: WaldTest
    fit: Fit = field(metadata=OMITTED_FIELD, repr=False, compare=False)
    assumed: tuple[str, ...] = field(default=(), metadata=OMITTED_FIELD)
    tail: tuple[str, ...] = field(default=(), metadata=OMITTED_FIELD)
    dependent: str = field(default="", metadata=OMITTED_FIELD)
    below_noise: Booleans | None = None
    hidden: Booleans | None = None
    sufficient_budget: Vector | None = None
    guarantee: Guarantee | None = field(default=None, metadata=OMITTED_FIELD)
    formula_notes: tuple[str, ...] = field(default=(), metadata=OMITTED_FIELD)
    no_tests: str = field(default="", metadata=OMITTED_FIELD)

    @property
    def _features(self) -> tuple[str, ...]:
        """Names of the coefficients without the intercept."""
        return self.names[len(self.names) - len(self.model.columns) :]

    @property
    def _has_intercept(self) -> bool:
        """False in a regression through the origin."""
        return len(self.names) > len(self.model.columns)

    @property
    def f(self) -> float:
        """NaN. An F statistic would ignore the privacy noise."""
        return _gone("f")

    @property
    def f_p_value(self) -> float:
        """NaN. An F test would ignore the privacy noise."""
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
                strengths=[
                    *[ALWAYS_SHOWN_STRENGTH] * self._has_intercept,
                    *np.abs(self.model.effects),
                ],
                rest="features with small effects",
                notes=self._notes(),
            )
        ]

    def _shown(self) -> list[Row]:
        """Return the rows of the table. If the target is a date, the intercept is a date too."""
        schema, target = self.model.schema, self.model.target
        (name, cells), *rows = self._figures().rows
        if target in dates_of(schema):  # then the fit has an intercept
            value, *errors, t, p, low, high = cells
            value, low, high = shown(schema, target, [value, low, high])  # type: ignore[list-item]
            errors = [length_of(schema, target, one) for one in errors]  # type: ignore[arg-type]
            cells = [value, *errors, t, p, low, high]
        return [(name, cells), *rows]

    def _notes(self) -> tuple[str, ...]:
        residual = [
            length if isinstance(length, str) else format(length, ".4g")
            for length in (
                length_of(self.model.schema, self.model.target, float(value))
                for value in (self.residual_deviation, *self.residual_interval)
            )
        ]
        own = [format(value, ".3f") for value in (self.r_squared, *self.r_squared_interval)]
        ends = [
            NOT_ESTIMABLE if np.isnan(interval[0]) else f"{low} to {high}"
            for interval, (_, low, high) in (
                (self.r_squared_interval, own),
                (self.residual_interval, residual),
            )
        ]
        facts = (
            f"About {self.count:.0f} rows; estimated R-squared {own[0]} ({ends[0]}; adjusted for "
            f"sampling {self.adjusted_r_squared:.3f}); residual std {residual[0]} ({ends[1]}). "
            f"Rounding limits the coefficients to about {max(0.0, self.digits):.0f} digits."
        )
        covers = SAMPLING_ERROR_NOTE if self.privacy_errors is None else BOTH_ERRORS_NOTE
        if self.assumed:
            covers = covers.replace(
                "classical formula", "simulated, at least the classical formula"
            )
        below = np.zeros(len(self.names), bool) if self.below_noise is None else self.below_noise
        warning = sentence_of_names(below, self.names)
        if self.hidden is not None:
            warning += sentence_of_hidden(self.hidden, self._features)
        if self.sufficient_budget is not None and self.guarantee is not None:
            names = (*self.names, *FIGURE_NAMES)
            warning += budget_sentences(names, self.sufficient_budget, self.guarantee)
        untested = [self.no_tests] if self.no_tests else []
        notes = facts, *self.formula_notes, self.wald.words, *untested, covers
        return *notes, *self.assumed, *self.tail, *warning

    def data(self) -> Table:
        table = self._figures()
        if self.below_noise is not None:
            table = beside(table, {"below noise": self.below_noise.tolist()})
        if self.hidden is not None:
            hidden = [*[False] * self._has_intercept, *self.hidden.tolist()]
            table = beside(table, {"hidden": hidden})
        empty = len(table.heads) - 9
        figures: list[Row] = [
            (name, [value, None, None, None, None, None, *interval.tolist(), *[None] * empty])
            for name, value, interval in (
                (FIGURE_NAMES[0], self.r_squared, self.r_squared_interval),
                (FIGURE_NAMES[1], self.residual_deviation, self.residual_interval),
            )
        ]
        test: list[Cell] = [None, None, None, None]
        test += [self.wald.statistic, self.wald.p_value, None, None]
        rows = [*table.rows, *figures, ("(Wald test)", [*test, *[None] * empty])]
        return replace(table, rows=rows)

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
        """Return the intervals of the coefficients.

        Returns
        -------
        ndarray, shape (k + 1, 2)
            Lower ends in the first column, upper ends in the second column.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
        >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
        >>> dpcov.ols(release, "x1").conf_int().shape
        (2, 2)

        """
        return np.column_stack([self.lower, self.upper])

    def vcov(self, *, sampling: bool = True) -> Matrix:
        """Return the error covariance of the coefficients at their estimate.

        The diagonal contains the squares of `standard_errors`, or of `privacy_errors` without
        sampling.

        Parameters
        ----------
        sampling : bool, default True
            Include the sampling error. Otherwise, the covariance contains the errors due to the
            noise and clipping.

        Returns
        -------
        ndarray, shape (k + 1, k + 1)
            Covariance in the units of the data. A coefficient without a limit has an infinite
            variance.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
        >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
        >>> fit = dpcov.ols(release, "x1")
        >>> bool(np.allclose(np.sqrt(np.diag(fit.vcov())), fit.standard_errors, rtol=1e-6))
        True

        """
        privacy = self.fit.privacy()
        unlimited = ~np.isfinite(np.diag(privacy))
        privacy[unlimited, unlimited] = np.inf
        return privacy + self.fit.sampling if sampling else privacy

    def predict(self, rows: Any) -> Vector:
        """Predict the target for new rows.

        Values outside the bounds count as the nearer bound, as in the release.

        Parameters
        ----------
        rows : array-like, shape (m, k), or table
            Features in the order of `model.columns`, with 0 or 1 for a level of a categorical
            column. A table has the original columns instead.

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
        >>> dpcov.ols(release, "x1").predict([[0.2], [0.8]]).shape
        (2,)

        """
        return self.model.predict(rows)

    def prediction_errors(self, rows: Any, *, sampling: bool = True) -> Vector:
        """Return the standard errors of the predictions, from the covariance of the coefficients.

        The errors are about the mean of the target in rows with these features. They leave out the
        residuals of single rows.

        Parameters
        ----------
        rows : array-like, shape (m, k), or table
            New rows, as for `predict`.

        sampling : bool, default True
            Include the sampling error; see `vcov`.

        Returns
        -------
        ndarray, shape (m,)
            Standard errors in units of the target.

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
        >>> dpcov.ols(release, "x1").prediction_errors([[0.2], [0.8]]).shape
        (2,)

        """
        values = new_rows(self.model.schema, self.model.columns, rows)
        if self._has_intercept:
            values = np.column_stack([np.ones(len(values)), values])
        return _errors_of(values, self.vcov(sampling=sampling))

    def contrast(self, weights: Mapping[str, float]) -> Contrast:
        """Estimate a linear combination of the coefficients, with its interval and test.

        Parameters
        ----------
        weights : mapping of str to float
            Weight of each coefficient in the combination, by the name of the coefficient. All
            other coefficients have the weight 0.

        Returns
        -------
        Contrast
            Estimate, standard error, confidence interval and Wald test of the combination.

        Raises
        ------
        ReleaseError
            A name is unknown, a weight is not finite, or all weights are 0.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
        >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
        >>> found = dpcov.ols(release, "x1").contrast({"(intercept)": 1, "x0": 0.5})
        >>> bool(found.lower < found.estimate < found.upper)
        True

        """
        hypothesis = Hypothesis.weighted(self.names, weights)
        row = hypothesis.matrix
        sampling = _errors_of(row, self.fit.sampling)
        privacy = _errors_of(row, self.vcov(sampling=False))
        estimate, largest = row @ self.coefficients, self.fit.largest(row)

        def ends_at(divisor: float) -> Matrix:
            """Return the ends of the interval, shape (2, 1), with the noise divided."""
            return _ends(estimate, sampling, privacy / divisor, self.degrees, self.level)

        divisors = sufficient_divisors(lambda divisor: span(ends_at(divisor), (-largest, largest)))
        lower, upper = ends_at(1.0)[:, 0] if np.isnan(divisors[0]) else (np.nan, np.nan)
        enough = None
        if self.guarantee is not None:
            enough = float(sufficient_budgets(self.guarantee, divisors)[0])
        return Contrast(
            hypothesis.words.removesuffix(" = 0"),
            float(estimate[0]),
            float(np.hypot(sampling, privacy)[0]),
            float(lower),
            float(upper),
            self.level,
            self.fit.steps([hypothesis])[0].test(),
            enough,
            self.guarantee,
        )

    def wald_test(
        self,
        hypothesis: Matrix | Sequence[str] | str | None = None,
        values: Sequence[float] | None = None,
    ) -> WaldTest:
        """Test a hypothesis about the coefficients with the errors of sampling and of the noise.

        Parameters
        ----------
        hypothesis : ndarray, shape (q, k + 1) or (k + 1,), str or sequence of str, optional
            Matrix R, with one column for each coefficient in the order of `names`. A vector is a
            matrix with one row. You can also pass names of coefficients. The name of a categorical
            column stands for all its levels. The default is all coefficients except the intercept.

        values : sequence of float, length q, optional
            Values r of R b under the hypothesis. The default is 0.

        Returns
        -------
        WaldTest
            Result of the test.

        Raises
        ------
        ReleaseError
            A name is unknown, a shape is wrong, or the rows of R are linearly dependent.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
        >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
        >>> bool(dpcov.ols(release, "x1").wald_test("x0").p_value < 0.001)
        True

        """
        asked = Hypothesis.asked(self.names, self._with_levels(hypothesis), values)
        return self.fit.steps([asked])[0].test()

    def _with_levels(self, asked: Any) -> Any:
        """Replace the name of a categorical column by the names of its levels."""
        named = [asked] if isinstance(asked, str) else asked
        if named is None or not all(isinstance(one, str) for one in named):
            return asked
        levels: dict[str, list[str]] = {}
        columns = {feature.name: feature.column for feature in self.model.schema.features}
        for name, feature in zip(self._features, self.model.columns, strict=True):
            levels.setdefault(columns[feature], []).append(name)
        parts = [[one] if one in self.names else levels.get(one, [one]) for one in named]
        return [name for part in parts for name in part]

    def picture(self) -> Picture:
        return Picture("coefficients", {"found": self, "effects": True})

    def document(self) -> dict[str, Any]:
        sentences = self.assumed + self.tail
        assumed = {"assumed": sentences} if sentences else {}
        test = {"wald": self.wald.document()}
        return {"target": self.model.target, **Result.document(self), **test, **assumed}


@command(
    "ols",
    "Least squares with standard errors for sampling and privacy noise.",
    "--target age",
    formula=FORMULA_OPTION,
    target=TARGET_OPTION,
    features=FEATURES_OPTION,
    design_effect=Option(
        "--design-effect", "Factor of the sampling variance if a person has several rows.", float
    ),
)
def ols_command(
    release: Release,
    formula: str | None = None,
    target: str | None = None,
    features: Sequence[str] | None = None,
    design_effect: float | None = None,
) -> OLS:
    """Fit by least squares with a formula or a target; see `ols`."""
    asked = given_target(formula, target)
    return ols(release, asked, features, design_effect=design_effect)


def ols(
    release: Release,
    target: str,
    features: Sequence[str] | None = None,
    *,
    level: float = 0.95,
    design_effect: float | None = None,
    generator: np.random.Generator | None = None,
) -> OLS:
    """Fit a linear model by ordinary least squares.

    The model has an intercept, unless `target` is a formula with ``- 1``. `ols` starts from the
    same estimate as `intervals`. If the noise hides a direction of the features, `ols` still
    returns coefficients. Their standard errors are then large.

    Parameters
    ----------
    release : Release
        Release with an intercept.

    target : str
        Numeric column, a level of a categorical column such as ``sex=f``, or a formula such as
        ``"pressure ~ age + C(ward, ref='surgery') + age:smoker"``.

    features : sequence of str, optional
        Names of features or columns. The default is all columns except the target. If you name a
        categorical column, its first level is the reference level. Leave out this argument if
        `target` is a formula, because the formula names the features.

    level : float, default 0.95
        Nominal coverage of the intervals, between 0 and 1.

    design_effect : float, optional
        Factor of the sampling variance, at least 1, for releases in which a person can have several
        rows. Without it, such a fit has no p-values. State a number from another source.

    generator : numpy.random.Generator, optional
        Random numbers for the simulations. The default gives the same result every time.

    Returns
    -------
    OLS
        Coefficients, standard errors and intervals, in the units of the data.

    Raises
    ------
    NotReleasedError
        The release contains no means and covariances.
    ReleaseError
        A name is unknown, a formula is not valid, or there are too few rows. The error also occurs
        if some features determine others; use fewer features then, or `ridge`.

    See Also
    --------
    dpcov.ridge : Ridge regression, which always has a solution.
    dpcov.intervals : Intervals for other statistics.

    Notes
    -----
    For the tests (`wald`, `t` and `p_values`), dpcov computes the errors of the coefficients as if
    the hypothesis were true. For the intervals and `vcov`, it computes the errors as if the
    estimated coefficients were true. If the noise is large, the intervals are too wide. A p-value
    can then be below 0.05 although the 95% interval contains 0. The module `dpcov.analysis.wald`
    derives the tests.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
    >>> found = dpcov.ols(release, target="x1")
    >>> bool(abs(found.coefficients[1] + 1) < 0.2)
    True

    """
    record.refuse(release.not_released)
    check("level", level, Probability, ReleaseError)
    factor = sampling_factor(release, design_effect)
    has_p_values = design_effect is not None or not has_dependent_rows(release)
    asked = Regression.of(release, target, features)
    has_intercept, target, features = asked.has_intercept, asked.target, asked.features
    to, at = target_and_features(release, target, features, reference=True)
    if not has_intercept:
        _require_no_dates(release, [to, *at])
    record.refuse(release.reasons.directions)
    estimate = Estimate.of(release)
    if not release.schema.missing_columns:
        Estimate.required(release)
    named = features if features is None else tuple(features)
    statistic = Coefficients(target, named, has_intercept=has_intercept)
    draws = reading_generator(generator)
    matrix = _center(release, [to, *at])
    (moments,) = fit_moments(release, matrix[None], has_intercept=has_intercept)
    gram = moments[np.ix_(at, at)]
    inverse, rank = solve(gram, np.eye(len(at)))
    if rank < len(at):
        raise ReleaseError(_undetermined(release, at, gram))
    count = max(estimate.fewest_rows([to, *at]), 1.0)
    rows = count
    if release.row_count is None:  # a noisy count can be too small, so use at least k + 2 rows
        rows = max(count, len(at) + 2.0)
    start = int(has_intercept)  # position of the first feature
    degrees = rows - len(at) - start
    if degrees < 1:
        raise ReleaseError(
            f"A fit of {len(at)} features needs more rows than about {count:.0f}. Choose fewer "
            "features."
        )
    coefficients = statistic.values(release, matrix[None])[0]
    scales, unit = release.scales[at], release.scales[to]
    encoded = coefficients[start:] * scales / unit
    loss, power = _loss(release, moments, to, at, encoded, has_intercept=has_intercept)
    residual = loss * rows / degrees
    spread, units = np.diag(inverse), unit / scales
    if has_intercept:  # the target where all features are 0
        means = Stack.of(release, matrix[None]).means[0, at] + release.centers[at] / scales
        spread = np.append(1 + means @ inverse @ means, spread)
        units = np.append(unit, units)
    sampling = np.sqrt(residual / rows * spread) * units
    if release.schema.missing_columns:
        sampling = np.maximum(sampling, _simulated(release, statistic, matrix, draws))
    sampling *= factor
    independent = rows / factor**2  # independent rows with the same sampling errors
    free = max(independent - len(at) - start, 1.0)
    fit = Fit.of(
        release, statistic, to, at, matrix, sampling, free, deepcopy(draws),
        has_intercept=has_intercept,
    )  # fmt: skip
    fit = replace(fit, has_p_values=has_p_values)
    figures = FitFigures(to, tuple(at), has_intercept)
    privacy, trusted, below, hidden = None, np.ones(len(sampling), bool), None, None
    of_figures = np.zeros(2)
    if release.noise is not None:
        separate = SeparateVariances(tuple(at), has_intercept)
        noise, other, apart = stated(release, [statistic, figures, separate], False, draws)
        hidden = apart.hidden
        privacy = np.where(np.isnan(noise.deviations), np.inf, noise.deviations)  # no limit
        trusted = noise.trusted & ~np.append([False] * start, hidden).astype(bool)
        below, of_figures = noise.below_noise, other.deviations
    errors = sampling if privacy is None else np.hypot(sampling, privacy)
    explained = 1 - loss / power if power > 0 else 0.0
    names = names_of(release, at)
    terms = (*[INTERCEPT_NAME] * start, *asked.names(names))
    joint, t, p_values = _tests(fit, terms, coefficients, privacy)
    wald = joint.test()
    residual_deviation = float(np.sqrt(residual)) * unit
    largest = unit if has_intercept else unit + abs(release.centers[to])
    relative = gram * np.outer(scales, scales) / (unit**2 * power if power > 0 else np.inf)
    bias = fit.shrinkage_bias(figures)
    noise_errors = np.zeros(len(sampling)) if privacy is None else privacy

    def ends_at(divisor: float) -> Matrix:
        """Return the ends of all intervals, shape (2, k + 3), with the noise divided."""
        step = replace(joint, effects=joint.effects / divisor)
        own, factors = _intervals_of_figures(
            step, relative, float(explained), of_figures / divisor, bias / divisor, independent,
            level,
        )  # fmt: skip
        residuals = np.minimum(residual_deviation * factors, largest)
        alone = np.column_stack([own, residuals])
        of_noise = noise_errors / divisor
        return np.hstack([_ends(coefficients, sampling, of_noise, free, level), alone])

    of_coefficients = np.array(statistic.possible(release, matrix))
    limits = np.hstack([of_coefficients, [[0.0, 0.0], [1.0, largest]]])
    divisors = sufficient_divisors(lambda divisor: span(ends_at(divisor), limits))
    enough = sufficient_budgets(release.guarantee, divisors)
    lower, upper = np.where(np.isnan(enough), ends_at(1.0), np.nan)
    intercept = float(coefficients[0]) if has_intercept else 0.0
    of_model = errors if has_intercept else np.append(0.0, errors)
    model = Ridge(
        target, names, coefficients[start:], intercept, 0.0, "encoded",
        float(explained), of_model, release.schema, estimate.deviations[at],
    )  # fmt: skip
    return OLS(
        model=model,
        names=terms,
        coefficients=coefficients,
        sampling_errors=sampling,
        privacy_errors=privacy,
        standard_errors=errors,
        t=t,
        p_values=p_values,
        lower=lower[:-2],
        upper=upper[:-2],
        level=level,
        trusted=trusted,
        residual_deviation=residual_deviation,
        residual_interval=np.array([lower[-1], upper[-1]]),
        degrees=free,
        count=count,
        r_squared=float(explained),
        r_squared_interval=np.array([lower[-2], upper[-2]]),
        adjusted_r_squared=float(1 - (1 - explained) * (rows - start) / degrees),
        digits=_digits(release, moments[np.ix_([*at, to], [*at, to])]),
        wald=wald,
        fit=fit,
        assumed=estimate.assumptions,
        tail=tail_warnings(release),
        dependent=dependent(release, design_effect=design_effect),
        below_noise=below,
        hidden=hidden,
        sufficient_budget=enough,
        guarantee=release.guarantee,
        formula_notes=asked.notes if has_intercept else (*asked.notes, ORIGIN_NOTE),
        no_tests="" if has_p_values else no_tests_note(release),
    )


def _tests(
    fit: Fit, names: Sequence[str], coefficients: Vector, privacy: Vector | None
) -> tuple[Step, Vector, Vector]:
    """Test all features together, and each coefficient by itself.

    Returns
    -------
    joint : Step
        Newton step of the hypothesis that all coefficients except the intercept are 0.

    t : ndarray, shape (k + 1,)
        Signed square roots of the Wald statistics of the single coefficients.

    p_values : ndarray, shape (k + 1,)
        P-values of the single coefficients.

    """
    count = len(names)
    single = [Hypothesis.selecting(count, [at], f"{name} = 0") for at, name in enumerate(names)]
    joint, *steps = fit.steps([Hypothesis.asked(names, None, None), *single])
    found = [step.test() for step in steps]
    t = np.sqrt([one.statistic for one in found]) * np.sign(coefficients)
    p_values = np.array([one.p_value for one in found])
    if privacy is not None:
        t[np.isinf(privacy)] = 0.0
        p_values[np.isinf(privacy) & ~np.isnan(p_values)] = 1.0
    return joint, t, p_values


def _intervals_of_figures(
    joint: Step,
    relative: Matrix,
    explained: float,
    deviations: Vector,
    shrinkage: Vector,
    rows: float,
    level: float,
) -> tuple[Vector, Vector]:
    """Compute the intervals of R-squared and of the residual standard deviation.

    The variance of each estimate has three parts: the first-order effect of the noise, the sampling
    variance for normal residuals, and the variance of a quadratic form. This quadratic form is
    u' G u, where u is the error of the coefficients and G is the covariance of the features. The
    mean of u' G u is the upward bias of R-squared. dpcov subtracts this bias from the lower end.
    Denoising decreases R-squared. If R-squared was larger before denoising, the upper end increases
    by the difference.

    Parameters
    ----------
    joint : Step
        Newton step of the joint hypothesis.

    relative : ndarray, shape (k, k)
        Covariance of the features, divided by the variance of the target.

    explained : float
        R-squared.

    deviations : ndarray, shape (2,)
        Standard deviations of R-squared and of the logarithm of the residual variance due to the
        noise. NaN if the noise is too large for an estimate.

    shrinkage : ndarray, shape (2,)
        R-squared and the logarithm of the residual variance before denoising, minus the same
        figures of the fit. NaN if they are undefined.

    rows : float
        Number of rows.

    level : float
        Nominal coverage.

    Returns
    -------
    r_squared : ndarray, shape (2,)
        Interval for R-squared.

    factors : ndarray, shape (2,)
        Interval for the residual standard deviation, divided by the estimate.

    """
    z = scipy.special.ndtri((1 + level) / 2)
    left = max(1 - explained, np.finfo(float).tiny)
    biases, variances = [], []
    for covariance in (joint.noise + joint.sampling, joint.noise):
        product = relative @ covariance
        biases.append(float(np.trace(product)))
        variances.append(2 * float(np.sum(product * product.T)))
    sampled = 4 * max(explained, 0.0) * left**2 / rows
    reach = z * np.sqrt(deviations[0] ** 2 + sampled + variances[0])
    low, high = explained - biases[0] - reach, explained + reach + max(shrinkage[0], 0.0)
    if not joint.test_of_independent_rows().p_value <= 1 - level:  # no effect found, or no test
        low = 0.0
    r_squared = np.clip([low, high], 0.0, 1.0)
    spread = deviations[1] ** 2 + 2 / joint.degrees + variances[1] / left**2
    reach = z * np.sqrt(spread) / 2
    low, high = -reach + min(shrinkage[1], 0.0) / 2, reach + biases[1] / left / 2
    factors = np.exp([low, min(high, MAX_LOG_FACTOR)])
    open_ends = np.array([0.0, 1.0]), np.array([0.0, np.inf])
    return tuple(
        np.where(np.isfinite(ends), ends, others)
        for ends, others in zip((r_squared, factors), open_ends, strict=True)
    )  # type: ignore[return-value]


def _ends(
    values: Vector, sampling: Vector, privacy: Vector, degrees: float, level: float
) -> Matrix:
    """Return the lower and upper ends of intervals for sampling and privacy noise, shape (2, k).

    Sampling errors have quantiles of the t distribution; privacy errors have normal quantiles.
    """
    t = scipy.special.stdtrit(degrees, (1 + level) / 2)
    reach = np.hypot(t * sampling, scipy.special.ndtri((1 + level) / 2) * privacy)
    return np.array([values - reach, values + reach])


def _errors_of(rows: Matrix, covariance: Matrix) -> Vector:
    """Return the standard errors of m linear combinations of the coefficients.

    The (m, k + 1) rows contain the weights of the coefficients. An error is infinite if a
    coefficient with an infinite variance has a weight other than 0.
    """
    limited = np.isfinite(np.diag(covariance))
    known = rows[:, limited]
    variances = np.sum(known @ covariance[np.ix_(limited, limited)] * known, axis=1)
    variances[(rows[:, ~limited] != 0).any(axis=1)] = np.inf
    return np.asarray(np.sqrt(np.maximum(variances, 0.0)))


def _gone(name: str) -> float:
    """Warn that an attribute will be removed, and return NaN."""
    warnings.warn(
        REMOVED_NAME_MESSAGE.format(name=name, version=REMOVAL_VERSION), FutureWarning, stacklevel=3
    )
    return float("nan")


def _center(release: Release, at: list[int]) -> Matrix:
    """Return the (d, d) second moment of the fit, or raise if two columns share no row."""
    estimate = Estimate.of(release)
    gaps = bool(release.schema.missing_columns)
    if gaps and not estimate.second_moment.any():
        Estimate.required(release)  # raises with the reason
    matrix = estimate.center
    if matrix[-1, -1] <= 0:
        raise ReleaseError(
            "The noise hides the number of rows, so a regression is not determined. Use a larger "
            "epsilon or more rows."
        )
    if not gaps:
        return matrix
    rows = rows_of_pairs(release.schema, matrix, release.intercept())[np.ix_(at, at)]
    if rows.min() >= 1:
        return matrix
    own = np.flatnonzero(np.diag(rows) < 1)  # columns that no row has, even alone
    lacking = own[:1] if own.size else np.unravel_index(int(rows.argmin()), rows.shape)
    names = " and ".join(repr(name) for name in names_of(release, sorted(at[j] for j in lacking)))
    raise ReleaseError(
        f"The noise hides all rows with a value of {names}, so a regression with "
        f"{'it' if own.size else 'both'} is not determined. Choose other columns, or use ridge."
    )


def _require_no_dates(release: Release, variables: list[int]) -> None:
    """Raise if a variable of a regression through the origin is a date, which has no natural 0."""
    dates = dates_of(release.schema)
    for name in names_of(release, variables):
        if name in dates:
            raise ReleaseError(DATED_MESSAGE.format(name=name))


def _undetermined(release: Release, at: list[int], gram: Matrix) -> str:
    """Return a message that names the features without a unique coefficient."""
    names = []
    for own, name in enumerate(names_of(release, at)):
        others = [j for j in range(len(at)) if j != own]
        if solve(gram[np.ix_(others, others)], np.eye(len(others)))[1] == _rank(gram):
            names.append(name)
    return (
        "These features are constant or follow from the others in the released matrix, so their "
        f"coefficients are not unique: {listed(names)}. Choose fewer features, or use ridge."
    )


def _rank(matrix: Matrix) -> int:
    """Return the numerical rank of a positive semidefinite matrix."""
    return solve(matrix, np.eye(len(matrix)))[1]


def _loss(
    release: Release,
    moments: Matrix,
    to: int,
    at: list[int],
    coefficients: Vector,
    *,
    has_intercept: bool,
) -> tuple[float, float]:
    """Compute the variances of the residuals and of the target, both encoded.

    The function uses the denoised matrix. If cells may be missing, pairs of columns use different
    rows. The function then uses the moments of the fit. It also uses them through the origin.

    Returns
    -------
    loss : float
        Variance of the residuals.

    power : float
        Variance of the target.

    """
    problem = Problem.of(release, [to], at, "standardized")
    if release.schema.missing_columns or not has_intercept:
        problem = replace(
            problem,
            gram=moments[np.ix_(at, at)],
            cross=moments[np.ix_(at, [to])],
            power=moments[[to], [to]],
        )
    return float(problem.losses(coefficients[None, :, None])[0, 0]), float(problem.power[0])


def _digits(release: Release, covariance: Matrix) -> float:
    """Return the number of decimal digits that rounding leaves. The target is the last column."""
    deviations = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    if not deviations.min() > 0:
        return 0.0
    related = (covariance / np.outer(deviations, deviations))[:-1, :-1]
    off = release.lattice.step / 2 / deviations.min() * np.linalg.cond(related)
    return float(-np.log10(max(off, 1e-16)))


def _simulated(
    release: Release, statistic: Statistic, matrix: Matrix, generator: np.random.Generator
) -> Vector:
    """Return (k + 1,) standard deviations of the coefficients from simulated sampling errors."""
    errors = Estimate.of(release).row_model.errors(SAMPLING_DRAWS, generator)
    moves = statistic.values(release, matrix + DERIVATIVE_STEP * errors) - statistic.values(
        release, matrix[None]
    )
    return np.asarray(np.sqrt(np.mean(moves**2, axis=0)) / DERIVATIVE_STEP)


@section(
    name="regression",
    heading="Regression of {target}",
    lead="This regression predicts one column from the other columns.",
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
    """Fit by least squares, or by ridge regression if least squares has no solution.

    Parameters
    ----------
    release : Release
        Release with an intercept.

    target : str
        Numeric column, or a level of a categorical column.

    features : sequence of str, optional
        Names of features or columns. The default is all columns except the target.

    generator : numpy.random.Generator, optional
        Random numbers for the simulations.

    Returns
    -------
    OLS or Ridge
        Fitted model. A ridge model gives the reason in `why`.

    """
    try:
        return ols(release, target, features, generator=generator)
    except ReleaseError as error:
        why = f"Least squares has no solution here, so this is ridge regression. {error}"
        return replace(ridge(release, target, None, features, generator=generator), why=why)
