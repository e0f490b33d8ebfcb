"""Base class of the estimators, which makes one release from a table and public bounds."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, get_args

import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from dpcov.analysis.features import new_rows
from dpcov.analysis.intervals import NO_SIGNAL_MESSAGE
from dpcov.api import release
from dpcov.core.entropy import simulation_generator
from dpcov.core.parameters import Count, check
from dpcov.errors import EstimatorError, ReleaseError
from dpcov.rows.schema import Schema
from dpcov.rows.sources.array import column_names, names_by_bounds
from dpcov.rows.sources.training import is_frame, training_table

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix, Vector
    from dpcov.core.privacy import Guarantee, NeighborsName
    from dpcov.mechanisms.choice import Goal
    from dpcov.releases import Release

T = TypeVar("T")
Missing = Literal["midpoint", "pairwise", "none"]  # `level` would add features
NO_BOUNDS_MESSAGE = (
    "Give {name}: public lower and upper bounds of {what}, from what is known without the data. "
    "They are never taken from the data, because they would disclose single rows."
)
NO_LARGEST_WEIGHT_MESSAGE = (
    "Give largest_weight: the largest sample weight by the design of the survey, without the data. "
    "Larger ones count as the largest."
)
RELEASE_PARAMETERS = (
    "epsilon",
    "delta",
    "rho",
    "neighbors",
    "mechanism",
    "goal",
    "denoise",
    "radius",
)
LEDGER_PARAMETERS = ("ledger", "dataset")
NULL_MODEL_NOTE = "What was fitted is the null model: see null_reason_. The release is in release_."


class NullModelWarning(UserWarning):
    """Warning about a release that does not contain the figures that a model needs.

    The estimator also warns if no figure rises above the noise. The fitted model is then the null
    model, which ignores all columns.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from dpcov.estimators import PrivateCovariance
    >>> few = np.array([[0.1, 0.2], [0.3, 0.1]])
    >>> model = PrivateCovariance(bounds=(0, 1), epsilon=0.01, neighbors="replace-one")
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = model.fit(few)
    >>> caught[0].category.__name__
    'NullModelWarning'

    """


@dataclass(eq=False, repr=False)
class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """Estimator whose `fit` makes one release.

    Parameters
    ----------
    bounds : tuple of two bounds, or dict of tuples by column name
        Public bounds: one number, or one number for each column. Required. A value outside the
        bounds counts as the nearer bound. A list of rows needs one bound for each column, or
        `n_features`.

    missing : {'midpoint', 'pairwise', 'none'}, default 'midpoint'
        Meaning of a missing value. With ``midpoint`` it counts as the midpoint of its bounds. With
        ``pairwise`` means and covariances omit the value. With ``none`` you promise that no value
        is missing.

    epsilon, delta, rho : float, optional
        Budget of each `fit`: epsilon, epsilon with delta, or rho.

    neighbors : {'add-remove', 'replace-one'}, default 'add-remove'
        Relation between neighbouring tables, as in `dpcov.release`.

    mechanism : str, default 'auto'
        Name of the mechanism, as in `dpcov.release`. The estimator sets the `goal`.

    denoise : {'shrink', 'project', 'none'}, default 'shrink'
        Method that denoises the release.

    radius : float, 'private' or 'public', optional
        Clipping radius, as in `dpcov.release`.

    ledger : Ledger, str or Path, optional
        Ledger that records the budget of each `fit` before dpcov draws noise.

    dataset : str, optional
        Data set in the ledger.

    n_features : int, optional
        Public number of columns of a list of rows whose bounds are single numbers. A row of another
        length is a row of missing values.

    random_state : int, optional
        Seed for tests. A release with a seed is marked ``NOT PRIVATE``.

    Attributes
    ----------
    release_ : Release
        Release of the last `fit`.

    guarantee_ : Guarantee
        Guarantee of the release.

    null_reason_ : str or None
        Reason for the null model: the release does not contain what the model needs, or no figure
        is above the noise level. `fit` warns and does not raise, because the budget is spent.

    """

    goal: ClassVar[Goal] = "all"  # figures that the mechanism makes most accurate

    bounds: Any = None
    _: KW_ONLY
    missing: Missing = "midpoint"
    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    neighbors: NeighborsName = "add-remove"
    mechanism: str = "auto"
    denoise: Any = "shrink"
    radius: Any = None
    ledger: Any = None
    dataset: str | None = None
    n_features: int | None = None
    random_state: int | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # a missing value is the midpoint
        tags.non_deterministic = self.random_state is None
        return tags

    def _make_release(
        self,
        table: Any,
        *,
        target: Any = None,
        target_bounds: Any = None,
        weights: Any = None,
        largest_weight: float | None = None,
    ) -> None:
        """Make the release and set `release_` and `guarantee_`.

        The method refuses invalid parameters before it spends any budget.

        Parameters
        ----------
        table : array-like, shape (n, p), or table
            Rows.

        target : array-like, shape (n,) or (n, t), optional
            Targets.

        target_bounds : tuple or dict, optional
            Public bounds of the targets.

        weights : array-like, shape (n,), or float, optional
            Weights of the rows.

        largest_weight : float, optional
            Public bound of the weights.

        """
        seed = self._seed()
        rows = training_table(
            table,
            target,
            self._names(),
            targets=_names_of_list(target_bounds),
            weights=weights,
        )
        self._check_width(len(rows.features))
        shape = table if is_frame(table) else np.empty((0, len(rows.features)))
        validate_data(self, shape, skip_check_array=True)
        self.n_features_in_: int  # set by `validate_data`
        self._check_request(len(rows.features), len(rows.targets))
        if self.missing not in get_args(Missing):
            raise EstimatorError(
                f"There is no missing = {self.missing!r} for estimators. Choose: "
                f"{', '.join(get_args(Missing))}."
            )
        rule = None if self.missing == "midpoint" else self.missing
        lower, upper = _bounds(self.bounds, rows.features, "bounds", "the columns")
        if target is not None:
            low, high = _bounds(target_bounds, rows.targets, "target_bounds", "the target")
            lower, upper = [*lower, *low], [*upper, *high]
        declared = _weight(rows.weights, largest_weight)
        schema = Schema.from_bounds(lower, upper, rows.features + rows.targets, rule, **declared)
        self.release_: Release = release(
            rows,
            schema=schema,
            seed=seed,
            **{name: getattr(self, name) for name in (*RELEASE_PARAMETERS, *LEDGER_PARAMETERS)},
        )
        self.guarantee_: Guarantee = self.release_.guarantee
        self.null_reason_: str | None = None
        single = all(rows.types[name] == pa.float32() for name in rows.features)
        self._dtype = np.dtype(np.float32 if single else np.float64)

    def _names(self) -> tuple[str, ...]:
        """Return the names of the columns of a list, if their number is known."""
        if self.n_features is None:
            return _names_of_list(self.bounds)
        check("n_features", self.n_features, Count, EstimatorError)
        return column_names(self.n_features)

    def _check_width(self, width: int) -> None:
        """Refuse a table with a number of columns other than `n_features`."""
        if self.n_features is not None and self.n_features != width:
            raise EstimatorError(
                f"n_features is {self.n_features}, but there are {width} columns. Leave out "
                "n_features, or give the table that it is for."
            )

    def _check_request(self, features: int, targets: int) -> None:
        """Refuse parameters that are invalid for this number of columns and targets."""

    def _analyzed(self, analysis: Callable[[], T]) -> T | None:
        """Return the result of an analysis, or warn and return None if the analysis refuses.

        The budget is already spent, so an error would only lose the release. The method also warns
        if no correlation is above the noise level.

        Parameters
        ----------
        analysis : callable
            Function without arguments.

        Returns
        -------
        object or None
            Result of the function.

        """
        found, reason = None, None
        try:
            found = analysis()
        except ReleaseError as error:
            reason = str(error)
        else:
            reason = NO_SIGNAL_MESSAGE if self.release_.uninformative else None
        if reason is not None:
            self.null_reason_ = reason
            warnings.warn(f"{reason} {NULL_MODEL_NOTE}", NullModelWarning, stacklevel=3)
        return found

    def _means(self) -> Vector:
        """Return the (p,) means, or the midpoints of the bounds if there are no means."""
        made = self.release_
        return made.mean() if made.not_released is None else made.centers

    def _count(self) -> float:
        """Return the number of rows, at least 1. If the release has no number, return 1."""
        return max(self.release_.count(), 1.0) if self.release_.tells_count else 1.0

    def _seed(self) -> int | None:
        seed = self.random_state
        if seed is not None and (isinstance(seed, bool) or not hasattr(seed, "__index__")):
            raise EstimatorError("random_state must be None, or an integer for tests.")
        return None if seed is None else int(seed)

    def _simulation(self) -> np.random.Generator:
        """Return random numbers for simulations of the noise. They do not affect the privacy."""
        return simulation_generator(self._seed())

    def _new_rows(self, table: Any) -> tuple[Matrix, Any]:
        """Check the column names of new rows and move their values into the bounds.

        Returns
        -------
        rows : ndarray, shape (m, p)
            New rows.

        kind : dtype
            Type of the results.

        """
        kinds = [np.float64, np.float32]
        rows = validate_data(self, table, reset=False, dtype=kinds, ensure_all_finite=False)
        names = self.release_.columns[: self.n_features_in_]
        return new_rows(self.release_.schema, names, rows), np.result_type(rows, self._dtype)


def _weight(names: tuple[str, ...], largest: float | None) -> dict[str, Any]:
    """Return the declaration of the column of weights, if there is one."""
    if names and largest is None:
        raise EstimatorError(NO_LARGEST_WEIGHT_MESSAGE)
    return {"weight": {"column": names[0], "maximum": largest}} if names else {}


def _bounds(
    bounds: Any, names: tuple[str, ...], parameter: str, what: str
) -> tuple[list[float], list[float]]:
    """Return lower and upper bounds, one for each name."""
    if bounds is None:
        raise EstimatorError(NO_BOUNDS_MESSAGE.format(name=parameter, what=what))
    if isinstance(bounds, Mapping):
        if lacking := [name for name in names if name not in bounds]:
            raise EstimatorError(f"{parameter} has no entry for the column {lacking[0]!r}.")
        pairs = [bounds[name] for name in names]
    else:
        pairs = list(
            zip(*(_each(bound, len(names), parameter) for bound in _pair(bounds)), strict=True)
        )
    lows, highs = zip(*map(_pair, pairs), strict=True)
    try:
        return [float(low) for low in lows], [float(high) for high in highs]
    except (TypeError, ValueError):
        raise EstimatorError(f"{parameter} must be numbers.") from None


def _names_of_list(bounds: Any) -> tuple[str, ...]:
    """Return the names of the columns of a list, or () if the bounds are single numbers."""
    return () if bounds is None or isinstance(bounds, Mapping) else names_by_bounds(*_pair(bounds))


def _pair(value: Any) -> tuple[Any, Any]:
    try:
        lower, upper = value
    except (TypeError, ValueError):
        raise EstimatorError("Bounds come in pairs: (lower, upper).") from None
    return lower, upper


def _each(bound: Any, count: int, parameter: str) -> list[Any]:
    """Return one bound for each of the columns."""
    single = isinstance(bound, str) or not hasattr(bound, "__len__")
    values = [bound] * count if single else list(bound)
    if len(values) != count:
        raise EstimatorError(
            f"{parameter} needs one number for all {count} columns, or one for each; not "
            f"{len(values)}."
        )
    return values
