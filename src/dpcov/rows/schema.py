"""Schema: public declarations of the columns of a table.

A person writes the schema from public knowledge. The schema fixes the encoding of a row
(`dpcov.rows.encoder`). A numeric column becomes ``(x - midpoint) / half_range``, a value between -1
and 1. A categorical column becomes one indicator (0 or 1) per category. Each kind of numeric column
states its bounds, how cells are read, and how numbers are shown. No function in this module reads
data.
"""

from __future__ import annotations

import difflib
import math
import tomllib
import unicodedata
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    ValidationError,
    WithJsonSchema,
    field_validator,
    model_serializer,
    model_validator,
)

from dpcov.core import privacy
from dpcov.core.encodings import encoding_named
from dpcov.core.faults import reason
from dpcov.core.files import read_text
from dpcov.core.printable import listed, shown
from dpcov.core.renamed import warn_of_former_name
from dpcov.core.show import html
from dpcov.core.show.table import declared
from dpcov.errors import SchemaError
from dpcov.rows.dates import DAY, SECOND, moment_of, shown_date, shown_time
from dpcov.rows.derived import logarithm, product
from dpcov.rows.missing import (
    CategoryRule,
    Defaults,
    NumberRule,
    UnstatedMissingWarning,
    is_unstated,
    notice_of,
    refuse_no_rule,
    rule_of_derived,
    rules_wanted,
    with_rules,
)

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix
    from dpcov.rows.notation import Notation

MAX_TEXT_CHARACTERS = 200  # Maximum length of a declared text of a cell; cells can be longer.
MAX_SCHEMA_BYTES = 2**24  # Maximum size of a schema file in bytes.
MAX_BOUNDS_ERROR = 2.0**-21  # Maximum rounding error of a number, as a fraction of the half-range.
INVISIBLE_CATEGORIES = (
    "Cc",
    "Cf",
    "Cs",
    "Zl",
    "Zp",
)  # Unicode categories of characters forbidden in names.
SPACE_CHARACTERS = " \xa0\u1680\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)  # Category Zs.
MAX_FEATURES = 8191  # Squared norms of integer rows stay exact in float64: 8191 * 2^40 < 2^53.


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    if not TYPE_CHECKING:  # mypy derives the parameters from the fields

        def __init__(self, **fields: Any) -> None:
            """Build the object from its fields; raise `SchemaError` if a field is invalid."""
            try:
                super().__init__(**fields)
            except ValidationError as error:
                raise SchemaError(_sentences(error)) from None

        __init__.__pydantic_base_init__ = True  # pydantic builds nested models without it

    @classmethod
    def parse(cls, document: dict[str, Any]) -> Self:
        """Build the object from a plain document.

        Parameters
        ----------
        document : dict
            Parsed TOML or JSON.

        Returns
        -------
        Self
            Validated object.

        Raises
        ------
        SchemaError
            The document is invalid.

        Examples
        --------
        >>> import dpcov
        >>> age = {"kind": "integer", "lower": 0, "upper": 120, "missing": "midpoint"}
        >>> dpcov.Schema.parse({"version": 3, "columns": {"age": age}}).columns["age"].upper
        120.0

        """
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            raise SchemaError(_sentences(error)) from None


Reading = Literal["number", "whole", "flag", "day", "second"]  # Conversion of cells to numbers.
DecimalSign = Literal[".", ","]
GroupingSign = Literal[".", ",", " ", "'", "\u2019", "_", "\u00a0", "\u2007", "\u2009", "\u202f"]
# Texts as they stand in cells, which lose outer blanks.
Texts = tuple[Annotated[str, Field(min_length=1, max_length=MAX_TEXT_CHARACTERS)], ...]


class _Cells(_Model):
    """Column with its own texts for missing cells."""

    missing_codes: Texts = Field(
        (),
        description="Further texts and numbers that mean a missing value in this column.",
    )

    @field_validator("missing_codes", "true", "false", check_fields=False)
    @classmethod
    def _trimmed(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        """Refuse texts that no cell can contain, because cells lose outer blanks."""
        if any(text != text.strip() for text in texts):
            raise ValueError("a text begins or ends with a blank. Remove the blank")
        return texts

    @model_serializer(mode="wrap")
    def _as_before(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out unset newer keys, because earlier versions of dpcov do not know them."""
        found: dict[str, Any] = write(self)
        return {name: one for name, one in found.items() if name not in _LATER_KEYS or one}


# Keys that state how a column writes its values.
SPELLING_KEYS = ("decimal", "thousands", "true", "false")
_LATER_KEYS = ("missing_codes", *SPELLING_KEYS)


class Numeric(_Cells):
    """A numeric column with public bounds; values outside the bounds count as the nearer bound."""

    reading: ClassVar[Reading] = "number"

    kind: str = "numeric"
    lower: FiniteFloat
    upper: FiniteFloat
    missing: NumberRule = Field(
        "midpoint",
        description="Rule for missing values. `midpoint` replaces them by the midpoint of the "
        "bounds. `level` also adds an indicator. `pairwise` excludes them from means and "
        "covariances. `none` states that no value is missing. Version 3 has no default.",
    )

    @model_validator(mode="after")
    def _ordered(self) -> Numeric:
        """Refuse bounds that are in the wrong order or too close for float64."""
        if not self.lower < self.upper:
            raise ValueError(
                f"lower is {self.shown(self.lower)}, but upper is {self.shown(self.upper)}. "
                "Set lower below upper"
            )
        if self.half_range == 0:
            raise ValueError(
                "lower and upper are too close for floating-point numbers. Multiply the column "
                "by a public number"
            )
        if math.ulp(max(abs(self.lower), abs(self.upper))) > self.half_range * MAX_BOUNDS_ERROR:
            raise ValueError(
                "the bounds are too far from 0 for the precision of float64. Subtract a "
                "public number from the column"
            )
        return self

    @cached_property
    def midpoint(self) -> float:
        """Midpoint of the bounds, in the units of the column."""
        return self.lower / 2 + self.upper / 2

    @cached_property
    def half_range(self) -> float:
        """Half of the distance between the bounds, in the units of the column."""
        return self.upper / 2 - self.lower / 2

    @property
    def has_indicator(self) -> bool:
        """True if an encoded row contains a missingness indicator for this column."""
        return self.missing in ("level", "pairwise")

    @property
    def reads_plain_numbers(self) -> bool:
        """True if the column contains all numbers, and declares no notation and no codes."""
        return self.reading == "number" and not self.missing_codes

    @property
    def has_two_values(self) -> bool:
        """True if the bounds allow only two whole numbers, as for a flag."""
        whole = self.reading in ("whole", "flag") and self.lower.is_integer()
        return whole and self.upper == self.lower + 1

    @classmethod
    def shown(cls, value: float) -> str:
        """Return a value of this column as text, as in a table."""
        return f"{value:g}"


class Plain(Numeric):
    """A numeric column in a schema of version 1."""

    kind: Literal["numeric"] = "numeric"


class _Written(Numeric):
    """Numeric column whose texts can have their own decimal sign."""

    decimal: DecimalSign | None = Field(
        None, description="Decimal sign of the texts in this column, in every kind of file."
    )
    thousands: GroupingSign | None = Field(
        None, description="Character that groups digits by three in the texts of this column."
    )

    def within(self, file: FileOptions) -> Self:
        """Return the column with the sign under ``[file]`` if it declares the other sign only."""
        if self.decimal is None and self.thousands is None:
            return self
        decimal = self.decimal or file.decimal
        grouping = file.thousands if file.thousands != decimal else None
        return self.model_copy(update={"decimal": decimal, "thousands": self.thousands or grouping})

    @property
    def notation(self) -> Notation | None:
        """Notation of the texts, or None if the column declares none."""
        if self.decimal is None and self.thousands is None:
            return None
        from dpcov.rows.notation import Notation  # imports pyarrow

        return Notation(self.decimal or ".", self.thousands)

    @property
    def reads_plain_numbers(self) -> bool:
        """True if the column contains all numbers, and declares no notation and no codes."""
        return super().reads_plain_numbers and self.notation is None


class Number(_Written):
    """A numeric column."""

    kind: Literal["number"] = "number"


class Integer(_Written):
    """A column of whole numbers; other numbers count as missing."""

    reading = "whole"

    kind: Literal["integer"] = "integer"


class Count(_Written):
    """A column of whole numbers of at least 0; other numbers count as missing."""

    reading = "whole"

    kind: Literal["count"] = "count"
    lower: Annotated[float, Field(ge=0, le=0)] = 0.0


class Flag(Numeric):
    """A column of truth values: 0, 1, true or false; other cells count as missing."""

    reading = "flag"

    kind: Literal["flag"] = "flag"
    lower: Annotated[float, Field(ge=0, le=0)] = 0.0
    upper: Annotated[float, Field(ge=1, le=1)] = 1.0
    true: Texts = Field((), description="Further texts that mean 1, such as yes.")
    false: Texts = Field((), description="Further texts that mean 0, such as no.")

    @model_validator(mode="after")
    def _clear(self) -> Flag:
        """Refuse a text with two meanings, and numbers."""
        if not (self.true or self.false):
            return self
        from dpcov.rows.numbers import number_of  # imports pyarrow

        words = (*self.true, *self.false, *self.missing_codes)
        if len({*words}) < len(words):
            raise ValueError("a text occurs twice in true, false and missing_codes. Remove one")
        if any(number_of(word) is not None for word in (*self.true, *self.false)):
            raise ValueError(
                "true and false need texts, not numbers. For codes such as 1 and 2, use kind = "
                "'categorical'"
            )
        return self


def _days(stated: object) -> float:
    """Convert a stated date to days since 1970-01-01."""
    moment = moment_of(stated)
    if moment is None:
        raise ValueError("must be a date, for example 1990-12-31")
    return float(moment // DAY)


def _seconds(stated: object) -> float:
    """Convert a stated date and time to seconds since 1970-01-01."""
    moment = moment_of(stated)
    if moment is None:
        raise ValueError("must be a date and time, for example 1990-12-31T23:59:00")
    return moment / SECOND


_Days = Annotated[
    float,
    BeforeValidator(_days),
    PlainSerializer(shown_date, return_type=str),
    WithJsonSchema({"type": "string", "format": "date"}),
]
_Seconds = Annotated[
    float,
    BeforeValidator(_seconds),
    PlainSerializer(shown_time, return_type=str),
    WithJsonSchema({"type": "string", "description": "Date and time in ISO 8601."}),
]


class Date(Numeric):
    """A column of dates, encoded as days; other cells are missing.

    A time counts as its day in UTC.
    """

    reading = "day"

    kind: Literal["date"] = "date"
    lower: _Days
    upper: _Days

    @classmethod
    def shown(cls, value: float) -> str:
        """Return a number of days as a date in ISO 8601."""
        return shown_date(value)


class Time(Numeric):
    """A column of dates with times, encoded as seconds in UTC; other cells are missing."""

    reading = "second"

    kind: Literal["time"] = "time"
    lower: _Seconds
    upper: _Seconds

    @classmethod
    def shown(cls, value: float) -> str:
        """Return a number of seconds as a date and time in ISO 8601."""
        return shown_time(value)


class Formula(_Model):
    """Definition of a derived column: a product, a square or a logarithm of numeric columns.

    The derived value is missing if a parent value is missing.
    """

    product: tuple[str, str] | None = None
    square: str | None = None
    log: str | None = Field(
        None, description="Natural logarithm of a column whose lower bound is above 0."
    )

    @model_validator(mode="after")
    def _one(self) -> Formula:
        """Refuse a definition without exactly one operation."""
        if sum(part is not None for part in (self.product, self.square, self.log)) != 1:
            raise ValueError("a derived column needs exactly one of square, product and log")
        return self

    @property
    def parents(self) -> tuple[str, ...]:
        """Names of the parent columns: one for a logarithm, otherwise two."""
        if self.log is not None:
            return (self.log,)
        return self.product or (str(self.square),) * 2

    def of(self, *values: Any) -> Matrix:
        """Compute the derived values from parent values within their bounds.

        Parameters
        ----------
        *values : array_like, shape (n,)
            Values of each parent.

        Returns
        -------
        ndarray, shape (n,)

        """
        return logarithm(*values) if self.log is not None else product(*values)

    def column(self, *parents: Numeric) -> Derived:
        """Return the derived column with the bounds that follow from its parents.

        Parameters
        ----------
        *parents : Numeric
            Declarations of the parent columns.

        Returns
        -------
        Derived

        """
        one, other = parents[0], parents[-1]
        if self.log is not None and one.lower <= 0:
            raise ValueError(
                "a logarithm needs a column with a lower bound above 0. Raise the lower bound "
                "or remove the logarithm"
            )
        if self.log is not None:
            ends = [float(self.of(end)) for end in (one.lower, one.upper)]
        elif self.parents[0] == self.parents[1]:
            ends = [x * x for x in (one.lower, one.upper, min(max(one.lower, 0.0), one.upper))]
        else:
            ends = [x * y for x in (one.lower, one.upper) for y in (other.lower, other.upper)]
        if not math.isfinite(sum(ends)):
            raise ValueError(
                "the bounds of the derived column are too large for float64. Rescale the parent "
                "columns"
            )
        missing = rule_of_derived([parent.missing for parent in parents])
        return Derived(lower=min(ends), upper=max(ends), missing=missing, formula=self)


class Derived(Numeric):
    """A column that is computed from other columns of the same row."""

    kind: Literal["derived"] = "derived"
    formula: Formula


class Categorical(_Cells):
    """A categorical column with declared levels; each level becomes one indicator (0 or 1).

    An undeclared value sets no indicator, or the indicator ``(other)`` if `other` is true.
    """

    kind: Literal["categorical"] = "categorical"
    levels: tuple[bool | int | float | str, ...] = Field(min_length=1)
    other: bool = False
    missing: CategoryRule = Field(
        "zeros",
        description="Rule for missing values. `zeros` sets no indicator. `level` adds an indicator "
        "for missing values. `other` counts them as undeclared values. `none` states that no value "
        "is missing. Version 3 has no default.",
    )

    @field_validator("levels")
    @classmethod
    def _distinct(cls, levels: tuple[Any, ...]) -> tuple[Any, ...]:
        """Refuse levels that are declared twice or not exact in float64."""
        if len({level_text(level) for level in levels}) < len(levels):
            raise ValueError("a level is declared twice. Remove one of them")
        if not all(isinstance(level, str) or abs(level) <= 2**53 for level in levels):
            raise ValueError(
                "a level is nan or beyond 2^53, so float64 cannot represent it exactly. "
                "Declare the level as text"
            )
        return levels

    @model_validator(mode="after")
    def _other_is_declared(self) -> Categorical:
        """Refuse the rule "other" without an indicator for other values."""
        if self.missing == "other" and not self.other:
            raise ValueError(
                'missing = "other" needs other = true. Add other = true or choose another rule'
            )
        return self

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the indicators in encoding order: levels, then other, then missing."""
        return (
            *(level_text(level) for level in self.levels),
            *(["(other)"] if self.other else []),
            *(["(missing)"] if self.missing == "level" else []),
        )

    @property
    def absent(self) -> int:
        """Position in `labels` of the indicator for missing values; -1 if there is none."""
        if self.missing == "other":
            return len(self.levels)
        return len(self.labels) - 1 if self.missing == "level" else -1

    @cached_property
    def is_full(self) -> bool:
        """True if every value, including missing values, sets exactly one indicator."""
        return self.other and self.missing in ("level", "other")


class Ignored(_Model):
    """A column that dpcov does not read.

    The declaration keeps the place of a column in a file without a header.
    """

    kind: Literal["ignored"] = "ignored"


DeclaredKind = Literal[
    "numeric",
    "number",
    "integer",
    "count",
    "flag",
    "date",
    "time",
    "categorical",
    "ignored",
]
Kind = Literal[DeclaredKind, "unknown"]
Bounds = float | Sequence[float] | NDArray[np.float64]  # One for all columns, or one per column.
Cells = Literal["number", "text", "boolean"]
Column = Annotated[
    Plain | Number | Integer | Count | Flag | Date | Time | Categorical | Ignored,
    Field(discriminator="kind"),
]


def _without_required_rows(document: dict[str, Any]) -> None:
    """Make `max_rows` optional in the JSON Schema, because an aggregate implies its value."""
    document["required"] = [name for name in document["required"] if name != "max_rows"]


class PersonUnit(_Model):
    """Privacy unit of persons: the id column, and how the rows of one person count.

    Either at most `max_rows` rows of a person count, or one row, the mean of all rows.
    """

    model_config = ConfigDict(json_schema_extra=_without_required_rows)

    column: str
    type: Literal["integer", "decimal", "uuid", "text"] | None = Field(
        None,
        description="Type of the ids. Two ids that are equal as values of this type are the same "
        "person. dpcov reads no table without it; releases before version 0.2.0 lack the type.",
    )
    max_rows: int = Field(
        ge=1,
        le=2**20,
        description="Largest number of rows of a person that count. Required without `aggregate`.",
    )
    aggregate: Literal["mean"] | None = Field(
        None,
        description="With `mean`, each person becomes one row, the mean of all rows. `max_rows` is "
        "then 1.",
    )

    @model_validator(mode="before")
    @classmethod
    def _one_row(cls, document: Any) -> Any:
        """Add `max_rows = 1` to a unit whose rows are averaged."""
        if isinstance(document, dict) and document.get("aggregate") is not None:
            return {"max_rows": 1} | document
        return document

    @model_validator(mode="after")
    def _consistent(self) -> PersonUnit:
        """Refuse an aggregate of a limited number of rows."""
        if self.aggregate is not None and self.max_rows != 1:
            raise ValueError(
                'aggregate = "mean" uses all rows of a person, as one row. Remove max_rows or '
                "aggregate"
            )
        return self

    @model_serializer(mode="wrap")
    def _as_before(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out an unset aggregate, because earlier versions of dpcov do not know it."""
        found: dict[str, Any] = write(self)
        return {name: one for name, one in found.items() if name != "aggregate" or one is not None}


class Weight(_Model):
    """Survey weights: the column of weights, and the largest weight that counts.

    A weight above `maximum` counts as `maximum`. A missing or negative weight counts as 0.
    """

    column: str
    maximum: float = Field(
        gt=1e-100, lt=1e100, description="Public upper bound, not computed from the data."
    )


class FileOptions(_Model):
    """Options for reading a text file."""

    header: bool = True
    separator: str = Field(",", min_length=1, max_length=1)
    skip_lines: int = Field(
        0, ge=0, description="Number of lines to skip at the top, before any header."
    )
    comment: str | None = Field(
        None,
        min_length=1,
        max_length=1,
        description=(
            "Character that starts a comment line. dpcov skips comment lines above the header only."
        ),
    )
    quote: bool | str = Field(
        True,
        description='True if "..." quotes a cell, or the character that quotes a cell. A quote '
        "inside a quoted cell is doubled.",
    )
    records: Literal["quoted", "lines"] = Field(
        "quoted",
        description=(
            "With `quoted`, a quoted cell can contain line breaks. With `lines`, each line is a "
            "row."
        ),
    )
    max_record_lines: int = Field(
        1000, ge=1, le=10**6, description="Maximum number of lines of a record; public."
    )
    extra_cell: Literal["first", "last"] | None = Field(
        None,
        description="Each row has one cell more than the header. The extra cell is the `first` "
        "one if R's write.table wrote row names, and the `last` one if rows end with a separator.",
    )
    rows: int | None = Field(
        None,
        ge=1,
        le=2**40,
        description="Public number of rows, for replace-one. dpcov drops further rows and adds "
        "rows without values if the table has fewer rows.",
    )
    encoding: str = Field(
        "utf-8", description="utf-8, utf-16, utf-32, or an encoding with one byte per character."
    )
    decimal: DecimalSign = "."
    thousands: GroupingSign | None = Field(
        None,
        description="Character that groups digits by three in numeric columns. A space matches "
        "every kind of space. A no-break or thin space matches all no-break and thin spaces.",
    )
    compression: Literal["auto", "none", "gzip"] = Field(
        "auto", description="`auto` uses the ending of the file name."
    )

    @field_validator("separator", "comment")
    @classmethod
    def _single_byte(cls, value: str | None) -> str | None:
        """Refuse a separator or comment character that is not one usable ASCII character."""
        if value is not None and (not value.isascii() or value in '"\r\n'):
            raise ValueError("must be one ASCII character other than a quote or a line end")
        return value

    @field_validator("quote")
    @classmethod
    def _quotes(cls, value: bool | str) -> bool | str:
        """Refuse a quote character that is not one usable ASCII character."""
        if isinstance(value, str) and (len(value) != 1 or not value.isascii() or value in "\r\n"):
            raise ValueError("must be true, false or one ASCII character other than a line end")
        return value

    @field_validator("encoding")
    @classmethod
    def _decodable(cls, value: str) -> str:
        """Refuse an encoding that dpcov cannot decode."""
        return encoding_named(value)

    @model_validator(mode="after")
    def _different(self) -> FileOptions:
        """Refuse options that contradict each other."""
        if self.quote_sign is not None and self.quote_sign in (self.separator, self.comment):
            raise ValueError(
                "quote must differ from separator and comment. Choose another character"
            )
        if self.decimal == self.thousands:
            raise ValueError("decimal and thousands must differ. Choose another character")
        if self.extra_cell is not None and not self.header:
            raise ValueError("extra_cell needs a header. Declare all columns of the file instead")
        if self.comment is not None and not self.header:
            raise ValueError(
                "comment needs a header, because a row of a file without a header could "
                "start like a comment. Use skip_lines to skip lines at the top"
            )
        return self

    @model_serializer(mode="wrap")
    def _as_before(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out unset newer options, because earlier versions of dpcov do not know them."""
        found: dict[str, Any] = write(self)
        later = ("extra_cell", "rows")
        return {name: one for name, one in found.items() if name not in later or one is not None}

    @property
    def quote_sign(self) -> str | None:
        """Character that quotes a cell; None if no character does."""
        if isinstance(self.quote, bool):
            return '"' if self.quote else None
        return self.quote

    @classmethod
    def checked(cls, **options: Any) -> FileOptions:
        """Build validated options; raise `SchemaError` if an option is invalid."""
        return cls.parse(options)


@dataclass(frozen=True, slots=True)
class Feature:
    """One coordinate of an encoded row.

    Attributes
    ----------
    name : str
        Name of the feature.

    column : str
        Name of the column that the feature belongs to.

    center, scale : float
        A data value equals ``center + scale * coordinate``.

    variable : bool
        False if the feature only indicates missing values of another feature.

    is_indicator : bool
        True if the feature is 0 or 1: the indicator of a level, or of a missing number.

    """

    name: str
    column: str
    center: float = 0.0
    scale: float = 1.0
    variable: bool = True
    is_indicator: bool = dataclass_field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_indicator", self.name != self.column)


class Schema(_Model):
    """Public declarations about a table: its columns, clipping radius and privacy unit.

    Parameters
    ----------
    version : {1, 2, 3}
        Version of the schema format.

    defaults : Defaults, optional
        Rules for missing values of columns that state no rule of their own. Only for version 3.

    columns : dict of str to column
        Declaration of each column, in order.

    derived : dict of str to Formula, optional
        Columns that dpcov computes from other columns of the same row.

    radius : float, optional
        Clipping radius: bound on the Euclidean norm of an encoded row. The default is the largest
        norm that the columns allow.

    intercept : float
        Size of the constant that dpcov appends to each row, as a fraction of the radius. With an
        intercept, the second moment also contains means and the number of rows.

    missing : tuple of str
        Texts that mean a missing value.

    unit : PersonUnit, optional
        Privacy unit. The default is one row.

    weight : Weight, optional
        Column of survey weights.

    by : str, optional
        Categorical column; dpcov makes one release for each of its levels.

    where : dict of str to str
        Types of columns that conditions use and that are not features.

    file : FileOptions
        Options for reading a text file.

    See Also
    --------
    Schema.load : Read a schema from a TOML file.
    Schema.from_bounds : Build a schema from bounds.

    Examples
    --------
    >>> import dpcov
    >>> age = {"kind": "integer", "lower": 0, "upper": 120, "missing": "midpoint"}
    >>> schema = dpcov.Schema.parse({"version": 3, "columns": {"age": age}})
    >>> [feature.name for feature in schema.features]
    ['age']

    """

    model_config = ConfigDict(
        json_schema_extra={"description": "Public declarations about the columns of a table."}
    )

    version: Literal[1, 2, 3] = Field(
        1,
        description="Version 1 has the kinds numeric, categorical and ignored. Version 2 has all "
        "kinds except numeric. Version 3 also requires a rule for missing values in each column.",
    )
    defaults: Defaults | None = Field(None, description="Default rules for columns of version 3.")
    columns: dict[str, Column] = Field(min_length=1)
    derived: dict[str, Formula] = Field(
        {}, description="Columns that dpcov computes from numeric columns of the same row."
    )
    radius: float | None = Field(None, gt=1e-100, lt=1e100)
    intercept: float = Field(0.3, ge=0, le=1)
    missing: tuple[str, ...] = Field(("",), description="Texts that mean a missing value.")
    unit: PersonUnit | None = None
    weight: Weight | None = None
    by: str | None = Field(
        None, description="Categorical column; dpcov makes one release for each level."
    )
    where: dict[str, Cells] = Field(
        {}, description="Types of columns that conditions use and that are not features."
    )
    file: FileOptions = FileOptions()

    @model_validator(mode="before")
    @classmethod
    def _stripped(cls, document: Any) -> Any:
        """Remove outer blanks from column names, as dpcov does for the names in a table."""
        return _without_blanks(document) if isinstance(document, dict) else document

    @model_serializer(mode="wrap")
    def _as_before(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write a schema of version 1 or 2 without the entries of later versions."""
        found: dict[str, Any] = write(self)
        later = {1: ("version", "derived", "defaults"), 2: ("defaults",), 3: ()}[self.version]
        return {name: part for name, part in found.items() if name not in later}

    @model_validator(mode="before")
    @classmethod
    def _with_rules(cls, document: Any) -> Any:
        """Add the default rules for missing values."""
        return with_rules(document)

    @model_validator(mode="after")
    def _with_notations(self) -> Schema:
        """Complete the signs of each column, and refuse a decimal sign that also groups digits."""
        for name, column in self.columns.items():
            if not isinstance(column, _Written):
                continue
            self.columns[name] = whole = column.within(self.file)
            if whole.decimal is not None and whole.decimal == whole.thousands:
                raise ValueError(
                    f"columns.{name}: decimal and thousands must differ. Choose another character"
                )
        return self

    @model_validator(mode="after")
    def _of_its_version(self) -> Schema:
        """Refuse kinds and rules of other versions, and invalid derived columns."""
        if self.defaults is not None and self.version < 3:
            raise ValueError(
                "defaults need version = 3. Run `dpcov schema migrate` to change the version"
            )
        for name, column in self.columns.items():
            if self.version == 1 and not isinstance(column, Plain | Categorical | Ignored):
                raise ValueError(
                    f"columns.{name}: kind = {column.kind!r} needs version = 2 or later. Run "
                    "`dpcov schema migrate` to change the version"
                )
            if self.version > 1 and isinstance(column, Plain):
                raise ValueError(
                    f"columns.{name}: kind = 'numeric' does not exist in version "
                    f"{self.version}. Use 'number', 'integer', 'count' or 'flag'"
                )
            if self.version < 3 and getattr(column, "missing", None) == "none":
                raise ValueError(
                    f'columns.{name}: missing = "none" needs version = 3. Run `dpcov schema '
                    "migrate` to change the version"
                )
        if self.derived and self.version == 1:
            raise ValueError(
                "derived columns need version = 2 or later. Run `dpcov schema migrate` to "
                "change the version"
            )
        for name, formula in self.derived.items():
            if name in self.columns:
                raise ValueError(
                    f"derived.{name}: a column has this name already. Choose another name"
                )
            parents: list[Numeric] = []
            for parent in formula.parents:
                found = self.columns.get(parent)
                if not isinstance(found, Numeric) or isinstance(found, Date | Time):
                    raise ValueError(
                        f"derived.{name}: {parent!r} is not a column of numbers, counts or "
                        "flags. Choose such a column"
                    )
                parents.append(found)
            try:
                formula.column(*parents)
            except (SchemaError, ValueError) as error:
                raise ValueError(f"derived.{name}: {error}") from None
        return self

    @model_validator(mode="after")
    def _legible(self) -> Schema:
        """Refuse names with invisible characters or characters that control a terminal."""
        parts = [self.unit, self.weight]
        names = [*self.columns, *self.derived, *self.where]
        names += [part.column for part in parts if part is not None]
        for column in self.encoded_columns.values():
            names += map(level_text, column.levels if isinstance(column, Categorical) else ())
        for name in names:
            if any(unicodedata.category(character) in INVISIBLE_CATEGORIES for character in name):
                raise ValueError(
                    f"the name {name[:50]!r} contains an invisible control or formatting "
                    "character. Rename the column or level"
                )
        return self

    @model_validator(mode="after")
    def _consistent(self) -> Schema:
        """Refuse declarations that contradict each other."""
        if not self.features:
            raise ValueError(
                "no column is numeric or categorical. Declare at least one such column"
            )
        if len(self.features) > MAX_FEATURES:
            raise ValueError(
                f"the schema has more than {MAX_FEATURES} encoded features. Declare fewer "
                "columns or levels"
            )
        if len({feature.name for feature in self.features}) < len(self.features):
            raise ValueError("two encoded features have the same name. Rename a column or a level")
        if self.missing_columns and not self.intercept:
            raise ValueError(
                'missing = "pairwise" needs an intercept to estimate the number of rows. '
                "Set intercept above 0, or choose another rule"
            )
        for part, role in ((self.unit, "person id"), (self.weight, "weight")):
            if part is not None and part.column in self.encoded_columns:
                raise ValueError(
                    f"the column {part.column!r} is the {role}, so it cannot be a feature. "
                    "Remove one of the two declarations"
                )
            if part is not None and not self.file.header and part.column not in self.columns:
                raise ValueError(
                    f"a file without a header needs a declaration of the {role} column. Add "
                    "it to the columns with kind = 'ignored'"
                )
        if self.person_means and self.weight is not None:
            raise ValueError(
                'aggregate = "mean" gives each person one row without a weight. Remove [weight] '
                "or aggregate"
            )
        if self.unit is not None and self.file.rows is not None:
            raise ValueError(
                "file.rows cannot fix the number of persons. Remove file.rows or [unit]"
            )
        for name in self.where:
            if name in self.encoded_columns:
                raise ValueError(
                    f"[where] contains {name!r}, but the declaration of this column already "
                    "states its type. Remove it from [where]"
                )
            if not self.file.header and name not in self.columns:
                raise ValueError(
                    f"a file without a header needs a declaration of {name!r}, which [where] "
                    "contains. Add it to the columns with kind = 'ignored'"
                )
        if self.by is not None:
            self.grouped_by(self.by)
        return self

    @model_validator(mode="after")
    def _complete(self) -> Schema:
        """Compute what follows from the columns, so that later accesses compute nothing."""
        _ = self.variables, self.indicators, self.missing_columns, self.person_means
        _ = [one.is_full for one in self.encoded_columns.values() if isinstance(one, Categorical)]
        return self

    @property
    def read_columns(self) -> dict[str, Numeric | Categorical]:
        """Encoded columns of the table, in order, without derived columns.

        Examples
        --------
        >>> import dpcov
        >>> list(dpcov.Schema.from_bounds(0, 1, ["a", "b"]).read_columns)
        ['a', 'b']

        """
        return {
            name: column for name, column in self.columns.items() if not isinstance(column, Ignored)
        }

    @cached_property
    def encoded_columns(self) -> dict[str, Numeric | Categorical]:
        """Encoded columns in order; derived columns are last.

        Examples
        --------
        >>> import dpcov
        >>> list(dpcov.Schema.from_bounds(0, 1, ["a", "b"]).encoded_columns)
        ['a', 'b']

        """
        found = self.read_columns
        for name, formula in self.derived.items():
            parents = [found[parent] for parent in formula.parents]
            found[name] = formula.column(*(one for one in parents if isinstance(one, Numeric)))
        return found

    @property
    def unstated(self) -> tuple[str, ...]:
        """Names of the columns of a schema of version 2 that state no rule for missing values.

        Examples
        --------
        >>> import dpcov
        >>> age = {"kind": "integer", "lower": 0, "upper": 120}
        >>> dpcov.Schema.parse({"version": 2, "columns": {"age": age}}).unstated
        ('age',)

        """
        columns = self.read_columns.items() if self.version == 2 else ()
        return tuple(name for name, one in columns if "missing" not in one.model_fields_set)

    @property
    def needed(self) -> tuple[str, ...]:
        """Names of the columns that dpcov reads, including the id and weight columns.

        Examples
        --------
        >>> import dpcov
        >>> unit = {"column": "patient", "max_rows": 8}
        >>> dpcov.Schema.from_bounds(0, 120, ["age"], unit=unit).needed
        ('age', 'patient')

        """
        others = [part.column for part in (self.unit, self.weight) if part is not None]
        return tuple(dict.fromkeys([*self.read_columns, *others]))

    @property
    def numbers(self) -> frozenset[str]:
        """Names of the columns whose cells are numbers in the notation under ``[file]``.

        Examples
        --------
        >>> import dpcov
        >>> sorted(dpcov.Schema.from_bounds(0, 1, ["a", "b"]).numbers)
        ['a', 'b']

        """
        features = [
            name
            for name, column in self.read_columns.items()
            if isinstance(column, Numeric)
            and column.reading in ("number", "whole")
            and getattr(column, "notation", None) is None
        ]
        tested = (name for name, cells in self.where.items() if cells == "number")
        return frozenset([*features, *tested, *([self.weight.column] if self.weight else [])])

    def grouped_by(self, by: str) -> Categorical:
        """Return the categorical column that separates the releases.

        Parameters
        ----------
        by : str
            Name of the column.

        Returns
        -------
        Categorical
            Declaration of the column.

        Raises
        ------
        ValueError
            The column cannot separate releases.

        See Also
        --------
        dpcov.release_by : One release for each category of a column.

        Examples
        --------
        >>> import dpcov
        >>> x = {"kind": "numeric", "lower": 0, "upper": 1}
        >>> site = {"kind": "categorical", "levels": ["a", "b"]}
        >>> schema = dpcov.Schema.parse({"columns": {"x": x, "site": site}})
        >>> schema.grouped_by("site").levels
        ('a', 'b')

        """
        column = self.columns.get(by)
        if not isinstance(column, Categorical):
            others = [name for name, c in self.columns.items() if isinstance(c, Categorical)]
            near = difflib.get_close_matches(by, others, 1) or others[:1]
            hint = f". Did you mean {near[0]!r}?" if near else ". Declare the column as categorical"
            raise ValueError(f"by = {by!r} is not a categorical column of the schema{hint}")
        if self.unit is not None:
            raise ValueError(
                f"by = {by!r} protects rows, because one person can have rows in several "
                "levels. Remove [unit] or by"
            )
        if len(self.encoded_columns) == 1:
            raise ValueError(f"by = {by!r} leaves no column to release. Declare another column")
        return column

    @cached_property
    def features(self) -> tuple[Feature, ...]:
        """Coordinates of an encoded row, without the intercept.

        Examples
        --------
        >>> import dpcov
        >>> [feature.name for feature in dpcov.Schema.from_bounds(0, 1, ["a", "b"]).features]
        ['a', 'b']

        """
        found: list[Feature] = []
        for name, column in self.encoded_columns.items():
            if isinstance(column, Categorical):
                found += [Feature(f"{name}={label}", name) for label in column.labels]
                continue
            found.append(Feature(name, name, column.midpoint, column.half_range))
            if column.has_indicator:
                variable = column.missing == "level"
                found.append(Feature(f"{name}=(missing)", name, variable=variable))
        return tuple(found)

    @cached_property
    def variables(self) -> tuple[Feature, ...]:
        """Features that statistics describe.

        These are all features except missingness indicators of the rule ``pairwise``.

        Examples
        --------
        >>> import dpcov
        >>> schema = dpcov.Schema.from_bounds(0, 1, ["a", "b"], missing="pairwise")
        >>> [feature.name for feature in schema.variables]
        ['a', 'b']

        """
        return tuple(feature for feature in self.features if feature.variable)

    def is_binary(self, feature: Feature) -> bool:
        """Return True for a flag, an indicator, or an integer with two possible values.

        Parameters
        ----------
        feature : Feature
            One of `features`.

        Returns
        -------
        bool
            Whether the feature has two values.

        Examples
        --------
        >>> import dpcov
        >>> columns = {"ill": {"kind": "flag"}, "age": {"kind": "number", "lower": 0, "upper": 99}}
        >>> schema = dpcov.Schema.parse({"version": 2, "columns": columns})
        >>> [schema.is_binary(feature) for feature in schema.features]
        [True, False]

        """
        if feature.is_indicator:
            return True
        column = self.encoded_columns[feature.column]
        return isinstance(column, Numeric) and column.has_two_values

    @cached_property
    def indicators(self) -> dict[str, list[int]]:
        """Positions of the indicators of each column.

        At most one of them is 1, and the others are 0.

        Examples
        --------
        >>> import dpcov
        >>> site = {"kind": "categorical", "levels": ["a", "b"]}
        >>> dpcov.Schema.parse({"columns": {"site": site}}).indicators
        {'site': [0, 1]}

        """
        found: dict[str, list[int]] = {}
        for position, feature in enumerate(self.features):
            if feature.is_indicator:
                found.setdefault(feature.column, []).append(position)
        return found

    @cached_property
    def missing_columns(self) -> dict[int, int]:
        """Position of the missingness indicator, by the position of its feature.

        Only features with the rule ``pairwise`` have an entry.

        Examples
        --------
        >>> import dpcov
        >>> dpcov.Schema.from_bounds(0, 1, ["a", "b"], missing="pairwise").missing_columns
        {0: 1, 2: 3}

        """
        indicators = [j for j, feature in enumerate(self.features) if not feature.variable]
        return {j - 1: j for j in indicators}

    @property
    def gaps(self) -> dict[int, int]:
        """Former name of `missing_columns`."""
        warn_of_former_name("Schema.gaps", "Schema.missing_columns")
        return self.missing_columns

    @property
    def largest_norm(self) -> float:
        """Largest Euclidean norm of an encoded row.

        Every column adds at most 1 to the squared norm.

        Examples
        --------
        >>> import dpcov
        >>> dpcov.Schema.from_bounds(0, 1, ["a", "b", "c", "d"]).largest_norm
        2.0

        """
        return math.sqrt(len(self.encoded_columns))

    @property
    def effective_radius(self) -> float:
        """Clipping radius of the encoded rows.

        The value is the declared radius, but at most the largest norm that the columns allow.

        Examples
        --------
        >>> import dpcov
        >>> dpcov.Schema.from_bounds(0, 1, ["a", "b", "c", "d"], radius=1.5).effective_radius
        1.5

        """
        return min(self.largest_norm, self.radius or math.inf)

    @property
    def privacy_unit(self) -> privacy.Unit:
        """Privacy unit: a row, or a person with a maximum number of rows.

        Examples
        --------
        >>> import dpcov
        >>> unit = {"column": "patient", "max_rows": 8}
        >>> print(dpcov.Schema.from_bounds(0, 120, ["age"], unit=unit).privacy_unit)
        one person (column 'patient'), up to 8 rows

        """
        if self.unit is None:
            return privacy.Unit()
        return privacy.Unit(self.unit.column, self.unit.max_rows, self.unit.aggregate)

    @cached_property
    def person_means(self) -> bool:
        """True if each encoded row is the mean of all rows of one person.

        A flag or an indicator of a level is then a fraction of the person's rows.

        Examples
        --------
        >>> import dpcov
        >>> unit = {"column": "patient", "aggregate": "mean"}
        >>> dpcov.Schema.from_bounds(0, 120, ["age"], unit=unit).person_means
        True

        """
        return self.unit is not None and self.unit.aggregate is not None

    def with_rows(self, rows: int | None) -> Schema:
        """Return the schema with a public number of rows.

        Parameters
        ----------
        rows : int or None
            Public number of rows (`file.rows`); None returns the schema unchanged.

        Returns
        -------
        Schema
            Schema with the number of rows.

        Examples
        --------
        >>> import dpcov
        >>> dpcov.Schema.from_bounds(0, 1, ["a"]).with_rows(100).file.rows
        100

        """
        if rows is None:
            return self
        document = self.model_dump()
        return Schema.parse(document | {"file": document["file"] | {"rows": rows}})

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        r"""Read a schema from a TOML file.

        The function warns if the schema has version 2 and states no rule for missing values.

        Parameters
        ----------
        path : str or Path
            File of the schema.

        Returns
        -------
        Schema
            Validated schema.

        Raises
        ------
        SchemaError
            The file cannot be read, or the schema is invalid. The message lists each fault.

        Examples
        --------
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> import dpcov
        >>> age = 'age = {kind = "integer", lower = 0, upper = 120, missing = "none"}'
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder) / "visits.toml"
        ...     _ = path.write_text(f"version = 3\n[columns]\n{age}")
        ...     dpcov.Schema.load(path).columns["age"].upper
        120.0

        """
        text, name = read_text(path, "schema", SchemaError, most=MAX_SCHEMA_BYTES), shown(path)
        try:
            found = cls.parse(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise SchemaError(
                f"The schema {name!r} is not valid TOML: {error}. Correct the file at this "
                "position."
            ) from None
        except RecursionError:
            raise SchemaError(f"The schema {name!r} is nested too deeply. Simplify it.") from None
        except SchemaError as error:
            raise SchemaError(f"{name}: {error}") from None
        if found.unstated:
            warnings.warn(notice_of(found.unstated, name), UnstatedMissingWarning, stacklevel=2)
        return found

    @classmethod
    def from_bounds(
        cls,
        lower: Bounds,
        upper: Bounds,
        names: Sequence[str],
        missing: NumberRule | Sequence[str] | None = None,
        **fields: Any,
    ) -> Schema:
        """Return the schema of a numeric table with public bounds.

        Parameters
        ----------
        lower, upper : float or sequence of float, length p
            Bounds of all columns, or of each column.

        names : sequence of str, length p
            Names of the columns.

        missing : str or sequence of str, optional
            A str is the rule for missing values of all columns (default "midpoint"). A sequence
            contains the texts that mean a missing value.

        **fields : object
            Other fields of the schema, such as `radius`.

        Returns
        -------
        Schema
            Validated schema.

        Raises
        ------
        SchemaError
            The bounds or names are invalid.

        Examples
        --------
        >>> import dpcov
        >>> schema = dpcov.Schema.from_bounds([0, 50], [120, 250], ["age", "pressure"])
        >>> schema.columns["pressure"].midpoint
        150.0

        """
        lows, highs = (_per_column(bound, len(names)) for bound in (lower, upper))
        if len(set(names)) < len(names):
            raise SchemaError("Two columns have the same name. Rename one of them.")
        kind = {"kind": "numeric"}
        if isinstance(missing, str):
            refuse_no_rule(missing)
            kind = {"kind": "number", "missing": missing}
            fields["version"] = 3
        elif missing is not None:
            fields["missing"] = missing
        columns = {
            name: {**kind, "lower": low, "upper": high}
            for name, low, high in zip(names, lows, highs, strict=True)
        }
        return cls.parse({"columns": columns, **fields})

    def _repr_html_(self) -> str:
        """Return a table of the columns in HTML, for notebooks."""
        title = (
            f"Schema: {len(self.features)} features, radius {self.effective_radius:.4g}, "
            f"protects {self.privacy_unit}"
        )
        return html.tables([declared(self.columns | self.encoded_columns, title)])


def number_codes(schema: Schema) -> dict[str, tuple[str, ...]]:
    """Return the missing-value codes of each column in the notation under ``[file]``."""
    columns = schema.read_columns
    return {
        name: (*schema.missing, *(columns[name].missing_codes if name in columns else ()))
        for name in schema.numbers
    }


def _without_blanks(document: dict[str, Any]) -> dict[str, Any]:
    """Remove outer blanks from the column names in a plain schema document."""
    found = dict(document)
    for part in ("columns", "derived", "where"):
        if isinstance(named := found.get(part), dict):
            found[part] = {_stripped(name): value for name, value in named.items()}
            if len(found[part]) < len(named):
                raise ValueError(
                    f"{part}: two names differ only in outer blanks. Rename one of them"
                )
    for part in ("unit", "weight"):
        if isinstance(one := found.get(part), dict) and "column" in one:
            found[part] = one | {"column": _stripped(one["column"])}
    if isinstance(derived := found.get("derived"), dict):
        found["derived"] = {name: _stripped(formula) for name, formula in derived.items()}
    return found | ({"by": _stripped(found["by"])} if "by" in found else {})


def _stripped(name: Any) -> Any:
    """Remove outer blanks from a name, several names or a formula."""
    if isinstance(name, list | tuple):
        return [_stripped(one) for one in name]
    if isinstance(name, dict):
        return {key: _stripped(one) for key, one in name.items()}
    return name.strip(SPACE_CHARACTERS) if isinstance(name, str) else name


def level_text(level: bool | int | float | str) -> str:
    """Return the text of a declared level.

    The text names the level and matches cells of text files.
    """
    if isinstance(level, bool):
        return "true" if level else "false"
    if isinstance(level, float) and level.is_integer():
        return str(int(level))
    return str(level).strip()


def _per_column(bound: Bounds, count: int) -> list[float]:
    """Return one bound per column."""
    try:
        values = [bound] * count if isinstance(bound, int | float) else [float(b) for b in bound]
    except (TypeError, ValueError):
        values = []
    if len(values) != count:
        raise SchemaError(
            "lower and upper must be a number, or a sequence with one number for each of "
            f"{count} columns."
        )
    return values


_NO_KIND_FAULT = "union_tag_not_found"  # Type of pydantic's error for a column without a kind.


def _sentences(error: ValidationError) -> str:
    """Describe the faults in sentences; entries that are not filled in yet come last."""
    faults = error.errors()
    unfilled = [_place(fault) for fault in faults if fault["type"] == "missing"]
    unfilled += [f"{_place(fault)}.kind" for fault in faults if fault["type"] == _NO_KIND_FAULT]
    unstated = [fault for fault in faults if is_unstated(fault)]
    others = [
        fault
        for fault in faults
        if fault["type"] not in ("missing", _NO_KIND_FAULT) and fault not in unstated
    ][:5]
    found = [": ".join(filter(None, (_place(fault), _words(fault)))) for fault in others]
    # With several faults, the message states the problems without the remedies.
    sentences = found if len(found) < 2 else ["; ".join(map(_problem, found)) + "."]
    if unstated and not unfilled and not any(fault["loc"][0] == "defaults" for fault in others):
        places, kinds = zip(*(fault["loc"][1:3] for fault in unstated), strict=True)
        sentences.append(rules_wanted(places, kinds))
    if unfilled:
        unfilled += map(_place, unstated)
        sentences.append(
            f"Not filled in yet: {listed(unfilled, 10)}. Declare them from public "
            "knowledge, not from the data; `dpcov schema DATA --interactive --out FILE` asks for "
            "them."
        )
    return " ".join(sentences)


def _problem(text: str) -> str:
    """Return the first sentence of a message, without its full stop."""
    return text.split(". ", 1)[0].rstrip(".")


def _words(fault: Any) -> str:
    """Describe one fault in one or two sentences."""
    text = reason(fault)
    if fault["type"] == "extra_forbidden":
        text = _unknown_entry(fault["loc"])
    elif fault["type"] == "string_type" and "missing_codes" in fault["loc"]:
        text = 'must be text. Put the number in quotes, such as "-9"'
    elif fault["type"] == "union_tag_invalid":
        kind = fault["ctx"]["tag"]
        near = difflib.get_close_matches(kind, get_args(DeclaredKind), 1)
        hint = f"Did you mean {near[0]!r}?" if near else "Choose a kind of the documentation."
        text = f"the kind {kind[:50]!r} does not exist. {hint}"
    return text if text.endswith((".", "?")) else f"{text}."


def _unknown_entry(place: Sequence[Any]) -> str:
    """Describe an entry that does not exist at this place, such as `decimal` of a date."""
    models = {one.model_fields["kind"].default: one for one in get_args(get_args(Column)[0])}
    if len(place) == 4 and place[0] == "columns" and place[2] in models:
        own, key = models[place[2]].model_fields, str(place[3])
        others = [kind for kind, model in models.items() if key in model.model_fields]
        if others:
            named = ", ".join(kind for kind in others if kind != "numeric")
            return (
                f"a column of the kind {place[2]!r} has no such entry. Remove the entry, or "
                f"choose another kind: {named}"
            )
        if near := difflib.get_close_matches(key, own, 1):
            return f"this entry does not exist. Did you mean {near[0]!r}?"
    return "this entry does not exist. Check its spelling"


def _place(fault: Any) -> str:
    """Return the place of a fault in the document, with dots between the keys."""
    return ".".join(str(part) for part in fault["loc"] if part not in get_args(DeclaredKind))
