"""Choice of features by name, and computation of features for new rows.

A numeric column is one feature, in its own units. A categorical column ``c`` is a 0/1 feature
``c=level`` for each level.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.core.printable import listed
from dpcov.errors import ReleaseError
from dpcov.rows.schema import Categorical, Derived, Numeric, number_codes

if TYPE_CHECKING:
    import pyarrow as pa

    from dpcov.core.arrays import Matrix
    from dpcov.releases import Release
    from dpcov.rows.schema import Schema

# Name of the intercept among the coefficients of a regression.
INTERCEPT_NAME = "(intercept)"
# Largest number of features that an error message names.
MAX_LISTED_NAMES = 20


def names_of(release: Release, positions: Sequence[int]) -> tuple[str, ...]:
    """Return the names of the features at these positions."""
    names = release.columns
    return tuple(names[j] for j in positions)


def position(release: Release, name: str) -> int:
    """Return the position of a feature.

    Parameters
    ----------
    release : Release
        Release that contains the feature.

    name : str
        Name of the feature.

    Returns
    -------
    int
        Position of the feature.

    Raises
    ------
    ReleaseError
        The name is unknown, or it is the name of a categorical column. The message lists possible
        names.

    """
    names = release.columns
    if name in names:
        return names.index(name)
    levels = [feature.name for feature in release.schema.variables if feature.column == name]
    if levels:
        raise ReleaseError(
            f"{name!r} is a column of categories. Choose one of its levels: "
            f"{listed(levels, MAX_LISTED_NAMES)}."
        )
    raise _unknown("feature", name, names)


def target_column(release: Release, name: str) -> Categorical:
    """Return a categorical column of the release.

    Parameters
    ----------
    release : Release
        Release that contains the column.

    name : str
        Name of the column.

    Returns
    -------
    Categorical
        Declaration of the column.

    Raises
    ------
    ReleaseError
        There is no categorical column of this name. The message lists the categorical columns.

    """
    columns = release.schema.encoded_columns
    column = columns.get(name)
    if isinstance(column, Categorical):
        return column
    categories = [other for other, kind in columns.items() if isinstance(kind, Categorical)]
    if not categories:
        raise ReleaseError("This release has no column of categories to classify.")
    raise _unknown("column of categories", name, categories)


def chosen(
    release: Release,
    features: Sequence[str] | None,
    *,
    without: str | None = None,
    reference: bool = False,
) -> list[int]:
    """Return the positions of the chosen features.

    Parameters
    ----------
    release : Release
        Release that contains the features.

    features : sequence of str, or None
        Names of features or columns. A column stands for all its features, unless its missingness
        indicator is named too. None stands for all columns.

    without : str, optional
        Column of the target. If `features` is None, this column is left out.

    reference : bool, default False
        Leave out the first level of each categorical column that is named as a whole.

    Returns
    -------
    list of int
        Positions of the features.

    Raises
    ------
    ReleaseError
        A name is unknown, a feature occurs twice, no feature is left, or the column of the target
        is among the features.

    """
    columns = release.schema.encoded_columns
    if features is None:
        features = [name for name in columns if name != without]
    if isinstance(features, str):
        features = [features]
    places: dict[str, list[int]] = {}
    parts: dict[str, list[int]] = {name: [] for name in columns}
    for j, feature in enumerate(release.schema.variables):
        places[feature.name] = [j]
        parts[feature.column].append(j)
    own = [] if without is None else parts[without]
    named = {*features}
    for name, column in columns.items():  # a column stands for all its features
        others = {release.schema.variables[j].name for j in parts[name]} - {name}
        if name not in places or named.isdisjoint(others):
            places[name] = parts[name][reference and isinstance(column, Categorical) :]
    found: list[int] = []
    for name in features:
        if name not in places:
            raise _unknown("feature", name, list(columns))
        if name == without or not set(places[name]).isdisjoint(own):
            raise ReleaseError(f"The target's own column {without!r} can't be among the features.")
        found += places[name]
    if len(set(found)) < len(found):
        raise ReleaseError("A feature is given twice.")
    if not found:
        raise ReleaseError("No feature is left to work with.")
    return found


def target_and_features(
    release: Release, target: str, features: Sequence[str] | None, *, reference: bool = False
) -> tuple[int, list[int]]:
    """Return the position of the target and the positions of the features.

    Parameters
    ----------
    release : Release
        Release that contains the features.

    target : str
        Name of the feature to predict.

    features : sequence of str, or None
        Names of features or columns; see `chosen`.

    reference : bool, default False
        Leave out the first level of each categorical column that is named as a whole.

    Returns
    -------
    target : int
        Position of the target.

    features : list of int
        Positions of the features.

    """
    to = position(release, target)
    column = release.schema.variables[to].column
    return to, chosen(release, features, without=column, reference=reference)


def new_rows(schema: Schema, names: Sequence[str], data: Any) -> Matrix:
    """Compute features of new rows in the units of the data.

    The rules for cells are the rules of a release:

    - A number outside the bounds becomes the nearer bound.
    - A missing number becomes the midpoint of the bounds.
    - An undeclared level is 0 in every indicator of its column.

    Parameters
    ----------
    schema : Schema
        Schema of the release.

    names : sequence of str, length k
        Names of the features.

    data : array-like, shape (m, k), or table
        Features in the order of `names`, or a table with the original columns. A table is a frame
        of pandas, polars, pyarrow or DuckDB, a dict of columns, or the path of a file.

    Returns
    -------
    ndarray, shape (m, k)
        Values of the features.

    Raises
    ------
    ReleaseError
        The rows have a wrong number of columns, or a column is missing.

    """
    if _is_table(data):
        return _from_table(schema, names, data)
    try:
        array = np.array(data, np.float64, ndmin=2)
    except (TypeError, ValueError):
        raise ReleaseError("New rows must be numbers, or a table with named columns.") from None
    if array.ndim != 2 or array.shape[1] != len(names):
        raise ReleaseError(
            f"New rows need {len(names)} columns, one for each feature in order; this array "
            f"has the shape {array.shape}."
        )
    columns = schema.encoded_columns
    features = {feature.name: feature for feature in schema.features}
    for j, name in enumerate(names):
        column = columns[features[name].column]
        indicator = isinstance(column, Categorical) or name != features[name].column
        array[:, j] = _indicator(array[:, j]) if indicator else _bounded(array[:, j], column)
    return array


def _indicator(values: Matrix) -> Matrix:
    return np.clip(np.nan_to_num(values), 0.0, 1.0)


def _bounded(values: Matrix, column: Any) -> Matrix:
    filled = np.where(np.isnan(values), column.midpoint, values)
    return np.clip(filled, column.lower, column.upper)


def _is_table(data: Any) -> bool:
    tables = ("__arrow_c_stream__", "iloc")
    return isinstance(data, str | Path | dict) or any(hasattr(data, name) for name in tables)


def _from_table(schema: Schema, names: Sequence[str], data: Any) -> Matrix:
    import pyarrow as pa

    from dpcov.rows.sources import open_source  # the readers load slowly

    by_name = {feature.name: feature for feature in schema.features}
    wanted = list(dict.fromkeys(by_name[name].column for name in names))
    needed = list(dict.fromkeys(own for name in wanted for own in _read_for(schema, name)))
    source = open_source(
        pa.table(data) if isinstance(data, dict) else data,
        schema.file.model_copy(update={"rows": None}),  # reads all new rows
        () if schema.file.header else tuple(schema.columns),
        number_codes(schema),
    )
    if lacking := [name for name in needed if name not in source.names]:
        raise ReleaseError(f"The new rows lack the column {lacking[0]!r}.")
    parts = []
    for batch in source.batches(needed):
        values = {name: _features_of(schema, name, batch) for name in wanted}
        parts.append(np.column_stack([values[by_name[name].column][name] for name in names]))
    return np.vstack([np.zeros((0, len(names))), *parts])


def _read_for(schema: Schema, name: str) -> tuple[str, ...]:
    """Return the names of the columns to read for a column: its parents, or the column itself."""
    column = schema.encoded_columns[name]
    return column.formula.parents if isinstance(column, Derived) else (name,)


def _features_of(schema: Schema, name: str, batch: pa.RecordBatch) -> dict[str, Matrix]:
    """Return the values of each feature of a column, by the name of the feature."""
    from dpcov.rows.cells import codes_of

    column = schema.encoded_columns[name]
    if isinstance(column, Numeric):
        numbers = _numbers_of(schema, name, column, batch)
        absent = np.isnan(numbers).astype(np.float64)
        return {name: _bounded(numbers, column), f"{name}=(missing)": absent}
    codes = codes_of(batch.column(name), column, schema.missing)
    return {
        f"{name}={label}": (codes == at).astype(np.float64)
        for at, label in enumerate(column.labels)
    }


def _numbers_of(schema: Schema, name: str, column: Numeric, batch: pa.RecordBatch) -> Matrix:
    """Return the values of a numeric column, with NaN for missing cells."""
    from dpcov.rows.cells import values_of

    if not isinstance(column, Derived):
        return values_of(batch.column(name), column, schema.missing)
    parents = []
    for parent in column.formula.parents:
        own = schema.encoded_columns[parent]
        if isinstance(own, Numeric):
            numbers = _numbers_of(schema, parent, own, batch)
            parents.append(np.clip(numbers, own.lower, own.upper))
    return column.formula.of(*parents)


def _unknown(what: str, name: str, names: Sequence[str]) -> ReleaseError:
    folded = {other.casefold(): other for other in reversed(names)}
    near = difflib.get_close_matches(name.casefold(), list(folded), 1)
    hint = f" Did you mean {folded[near[0]]!r}?" if near else ""
    return ReleaseError(
        f"There is no {what} {name!r}.{hint} Choose from: {listed(names, MAX_LISTED_NAMES)}."
    )
