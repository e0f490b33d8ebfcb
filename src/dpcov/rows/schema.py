"""The schema: what a person declares, from public knowledge, about each column of a table.

It fixes the encoding of a row (`dpcov.rows.encoder`): a column of numbers becomes
``(x - midpoint) / half-range`` in [-1, 1], a categorical one a 0/1 indicator per
level. Whatever its kind, a column of numbers is its bounds, how a cell is read as a number, and how
a number is shown. Nothing here ever looks at data.
"""

from __future__ import annotations

import difflib
import math
import tomllib
import unicodedata
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
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
from dpcov.core.files import read_text
from dpcov.core.printable import shown
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

LARGEST_FILE = 2**24  # bytes of a schema
RESOLUTION = 2.0**-21  # of a half-range: what a number may be off by before it is encoded
UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")  # categories of characters that no name may hold
SPACES = " \xa0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))  # category Zs
MAX_FEATURES = 8191  # squared norms of integer rows stay exact in float64: 8191 * 2^40 < 2^53


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    @classmethod
    def parse(cls, document: dict[str, Any]) -> Self:
        """Validate a plain document (parsed TOML or JSON)."""
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            raise SchemaError(_sentences(error)) from None


Reading = Literal["number", "whole", "flag", "day", "second"]  # how a cell becomes a number


class Numeric(_Model):
    """A column of numbers with public bounds; values outside are moved to the nearer bound.

    Each kind of such columns is a subclass, which says how a cell is read and a number is shown.
    """

    reading: ClassVar[Reading] = "number"

    kind: str = "numeric"
    lower: FiniteFloat
    upper: FiniteFloat
    missing: NumberRule = Field(
        "midpoint",
        description="Missing values become the midpoint of the bounds; `level` adds an indicator; "
        "`pairwise` leaves them out: means and covariances are those of the rows that have them; "
        "`none` promises that there are none. Version 3 has no default.",
    )

    @model_validator(mode="after")
    def _ordered(self) -> Numeric:
        if not self.lower < self.upper:
            raise ValueError(
                f"lower = {self.shown(self.lower)} must be below upper = {self.shown(self.upper)}"
            )
        if self.half_range == 0:
            raise ValueError("lower and upper are too close to tell apart in floating point")
        if math.ulp(max(abs(self.lower), abs(self.upper))) > self.half_range * RESOLUTION:
            raise ValueError(
                "lower and upper are so far from 0 that float64 can't tell values between them "
                "apart to a millionth of their distance: subtract a public number from the column"
            )
        return self

    @cached_property
    def midpoint(self) -> float:
        return self.lower / 2 + self.upper / 2

    @cached_property
    def half_range(self) -> float:
        return self.upper / 2 - self.lower / 2

    @property
    def has_indicator(self) -> bool:
        """Whether a row tells whether its cell is missing."""
        return self.missing in ("level", "pairwise")

    @classmethod
    def shown(cls, value: float) -> str:
        """A number of this column, as its cells are written."""
        return f"{value:g}"


class Plain(Numeric):
    """A column of numbers, in a schema of version 1."""

    kind: Literal["numeric"] = "numeric"


class Number(Numeric):
    """A column of numbers."""

    kind: Literal["number"] = "number"


class Integer(Numeric):
    """A column of whole numbers; others are missing."""

    reading = "whole"

    kind: Literal["integer"] = "integer"


class Count(Numeric):
    """A column of whole numbers from 0 on; others are missing."""

    reading = "whole"

    kind: Literal["count"] = "count"
    lower: Annotated[float, Field(ge=0, le=0)] = 0.0


class Flag(Numeric):
    """A column of truth values: 0 or 1, true or false; anything else is missing."""

    reading = "flag"

    kind: Literal["flag"] = "flag"
    lower: Annotated[float, Field(ge=0, le=0)] = 0.0
    upper: Annotated[float, Field(ge=1, le=1)] = 1.0


def _days(stated: object) -> float:
    moment = moment_of(stated)
    if moment is None:
        raise ValueError("must be a date, such as 1990-12-31")
    return float(moment // DAY)


def _seconds(stated: object) -> float:
    moment = moment_of(stated)
    if moment is None:
        raise ValueError("must be a date and time, such as 1990-12-31T23:59:00")
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
    WithJsonSchema({"type": "string", "description": "A date and time of ISO 8601."}),
]


class Date(Numeric):
    """A column of dates, encoded as days; of a time, its day in UTC. Anything else is missing."""

    reading = "day"

    kind: Literal["date"] = "date"
    lower: _Days
    upper: _Days

    @classmethod
    def shown(cls, value: float) -> str:
        return shown_date(value)


class Time(Numeric):
    """A column of dates with times, encoded as seconds, in UTC. Anything else is missing."""

    reading = "second"

    kind: Literal["time"] = "time"
    lower: _Seconds
    upper: _Seconds

    @classmethod
    def shown(cls, value: float) -> str:
        return shown_time(value)


class Formula(_Model):
    """What a derived column is: the product of two columns of numbers, or of one a square or log.

    Missing where a column that it is made from is.
    """

    product: tuple[str, str] | None = None
    square: str | None = None
    log: str | None = Field(None, description="Natural; of a column with a lower bound above 0.")

    @model_validator(mode="after")
    def _one(self) -> Formula:
        if sum(part is not None for part in (self.product, self.square, self.log)) != 1:
            raise ValueError("must be one of square, product and log")
        return self

    @property
    def parents(self) -> tuple[str, ...]:
        """The columns that it is made from: one of a logarithm, else two."""
        if self.log is not None:
            return (self.log,)
        return self.product or (str(self.square),) * 2

    def of(self, *values: Any) -> Matrix:
        """Its values, from those of its parents within their bounds."""
        return logarithm(*values) if self.log is not None else product(*values)

    def column(self, *parents: Numeric) -> Derived:
        """The column with the bounds that follow."""
        one, other = parents[0], parents[-1]
        if self.log is not None and one.lower <= 0:
            raise ValueError("a log needs a column whose lower bound is above 0")
        if self.log is not None:
            ends = [float(self.of(end)) for end in (one.lower, one.upper)]
        elif self.parents[0] == self.parents[1]:
            ends = [x * x for x in (one.lower, one.upper, min(max(one.lower, 0.0), one.upper))]
        else:
            ends = [x * y for x in (one.lower, one.upper) for y in (other.lower, other.upper)]
        if not math.isfinite(sum(ends)):
            raise ValueError("its bounds are beyond the numbers of float64")
        missing = rule_of_derived([parent.missing for parent in parents])
        return Derived(lower=min(ends), upper=max(ends), missing=missing, formula=self)


class Derived(Numeric):
    """A column that no table has: it is computed of each row."""

    kind: Literal["derived"] = "derived"
    formula: Formula


class Categorical(_Model):
    """A column with declared levels, one 0/1 indicator each.

    An undeclared value is all zeros, or the level ``other`` where `other` is true.
    """

    kind: Literal["categorical"] = "categorical"
    levels: tuple[bool | int | float | str, ...] = Field(min_length=1)
    other: bool = False
    missing: CategoryRule = Field(
        "zeros",
        description="Missing values become all zeros; `level` adds an indicator; `other` counts "
        "them with undeclared ones; `none` promises that there are none. Version 3 has no default.",
    )

    @field_validator("levels")
    @classmethod
    def _distinct(cls, levels: tuple[Any, ...]) -> tuple[Any, ...]:
        if len({level_text(level) for level in levels}) < len(levels):
            raise ValueError("a level is declared twice")
        if not all(isinstance(level, str) or abs(level) <= 2**53 for level in levels):
            raise ValueError(
                "a level that is nan or beyond 2^53 is no exact number in float64: "
                "declare it as text"
            )
        return levels

    @model_validator(mode="after")
    def _other_is_declared(self) -> Categorical:
        if self.missing == "other" and not self.other:
            raise ValueError('missing = "other" needs other = true')
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
        """Position among `labels` of the indicator of a missing value; -1 where it has none."""
        if self.missing == "other":
            return len(self.levels)
        return len(self.labels) - 1 if self.missing == "level" else -1

    @property
    def is_full(self) -> bool:
        """Whether every value, missing ones too, has exactly one indicator."""
        return self.other and self.missing in ("level", "other")


class Ignored(_Model):
    """A column left out; needed only to keep its place in a file without a header."""

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
Bounds = float | Sequence[float] | NDArray[np.float64]  # of all columns, or of each
Cells = Literal["number", "text", "boolean"]
Column = Annotated[
    Plain | Number | Integer | Count | Flag | Date | Time | Categorical | Ignored,
    Field(discriminator="kind"),
]


class PersonUnit(_Model):
    """Protect persons, not rows: the id column, and how many rows of one person may count."""

    column: str
    type: Literal["integer", "decimal", "uuid", "text"] | None = Field(
        None,
        description="What an id is: ids that are equal by it are one person. A table is read only "
        "where it is declared; releases made before version 0.2.0 lack it.",
    )
    max_rows: int = Field(ge=1, le=2**20)


class Weight(_Model):
    """Survey weights: the column that holds them, and the largest that counts.

    Weights above `maximum` are moved to it; those that are missing or below 0 are 0.
    """

    column: str
    maximum: float = Field(gt=1e-100, lt=1e100, description="Public; never taken from the data.")


class FileOptions(_Model):
    """How to read a text file."""

    header: bool = True
    separator: str = Field(",", min_length=1, max_length=1)
    skip_lines: int = Field(0, ge=0, description="Lines to skip at the top, before any header.")
    comment: str | None = Field(
        None,
        min_length=1,
        max_length=1,
        description="Lines that start with this are skipped, above the header only.",
    )
    quote: bool | str = Field(
        True,
        description='Whether "..." quotes a cell, or the character that does. A quote in a quoted '
        "cell is written twice.",
    )
    records: Literal["quoted", "lines"] = Field(
        "quoted",
        description="Whether a quoted cell may hold line breaks; with `lines` each line is a row.",
    )
    max_record_lines: int = Field(
        1000, ge=1, le=10**6, description="Of how many lines a record may be; public."
    )
    extra_cell: Literal["first", "last"] | None = Field(
        None,
        description="Each row has one cell more than the header: `first` where R's write.table "
        "puts row names, `last` where rows alone end with a separator.",
    )
    rows: int | None = Field(
        None,
        ge=1,
        le=2**40,
        description="The number of rows, public and known from elsewhere, for replace-one: rows "
        "beyond are dropped, and missing ones are rows without values.",
    )
    encoding: str = Field(
        "utf-8", description="utf-8, utf-16, utf-32, or one of a byte for each character."
    )
    decimal: Literal[".", ","] = "."
    thousands: (
        Literal[".", ",", " ", "'", "\u2019", "_", "\u00a0", "\u2007", "\u2009", "\u202f"] | None
    ) = Field(
        None,
        description="What may group the digits of columns of numbers by three. A space stands for "
        "all kinds of spaces, and a no-break or thin space for all of these.",
    )
    compression: Literal["auto", "none", "gzip"] = Field(
        "auto", description="`auto` goes by the file's name."
    )

    @field_validator("separator", "comment")
    @classmethod
    def _single_byte(cls, value: str | None) -> str | None:
        if value is not None and (not value.isascii() or value in '"\r\n'):
            raise ValueError("must be one ASCII character other than a quote or a line end")
        return value

    @field_validator("quote")
    @classmethod
    def _quotes(cls, value: bool | str) -> bool | str:
        if isinstance(value, str) and (len(value) != 1 or not value.isascii() or value in "\r\n"):
            raise ValueError("must be true, false or one ASCII character other than a line end")
        return value

    @field_validator("encoding")
    @classmethod
    def _decodable(cls, value: str) -> str:
        return encoding_named(value)

    @model_validator(mode="after")
    def _different(self) -> FileOptions:
        if self.quote_sign is not None and self.quote_sign in (self.separator, self.comment):
            raise ValueError("quote must differ from separator and comment")
        if self.decimal == self.thousands:
            raise ValueError("decimal and thousands must differ")
        if self.extra_cell is not None and not self.header:
            raise ValueError("extra_cell needs a header: without one, declare all columns")
        if self.comment is not None and not self.header:
            raise ValueError(
                "comment needs a header, below which no line is a comment: without one a row could "
                "be taken for a comment. Skip the lines at the top with skip_lines"
            )
        return self

    @model_serializer(mode="wrap")
    def _as_before(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out later options that are not set: earlier versions of dpcov know none of them."""
        found: dict[str, Any] = write(self)
        later = ("extra_cell", "rows")
        return {name: one for name, one in found.items() if name not in later or one is not None}

    @property
    def quote_sign(self) -> str | None:
        """What quotes a cell, if anything does."""
        if isinstance(self.quote, bool):
            return '"' if self.quote else None
        return self.quote

    @classmethod
    def checked(cls, **options: Any) -> FileOptions:
        """Validated options; raises `SchemaError`."""
        return cls.parse(options)


@dataclass(frozen=True, slots=True)
class Feature:
    """One coordinate of an encoded row; a data value is `center + scale * coordinate`."""

    name: str
    column: str
    center: float = 0.0
    scale: float = 1.0
    variable: bool = True  # or it only tells in which rows a variable is missing

    @property
    def is_indicator(self) -> bool:
        """Whether it is 0 or 1: of a level, or of a missing number."""
        return self.name != self.column


class Schema(_Model):
    """What each column may hold, the radius of an encoded row, and who is protected.

    `radius` bounds the L2 norm of an encoded row and defaults to the largest norm that the
    columns allow. `intercept` is the weight, as a share of the radius, of the constant that
    is appended to each row so that one matrix holds moments, sums and the count. `by` is a
    categorical column, for a release for each of its levels. `where` tells how conditions read
    columns that are no features.
    """

    version: Literal[1, 2, 3] = Field(
        1,
        description="1 knows the kinds numeric, categorical and ignored; 2 all but numeric; 3 "
        "requires `missing` of each column.",
    )
    defaults: Defaults | None = Field(None, description="What columns of version 3 share.")
    columns: dict[str, Column] = Field(min_length=1)
    derived: dict[str, Formula] = Field(
        {}, description="Features that are computed of each row, from columns of numbers."
    )
    radius: float | None = Field(None, gt=1e-100, lt=1e100)
    intercept: float = Field(0.3, ge=0, le=1)
    missing: tuple[str, ...] = Field(("",), description="Cell texts that mean a missing value.")
    unit: PersonUnit | None = None
    weight: Weight | None = None
    by: str | None = Field(None, description="One release for each level of this column.")
    where: dict[str, Cells] = Field(
        {}, description="How conditions read columns that are no features."
    )
    file: FileOptions = FileOptions()

    @model_validator(mode="before")
    @classmethod
    def _stripped(cls, document: Any) -> Any:
        """Strip the names of columns, as those of a table are."""
        return _without_blanks(document) if isinstance(document, dict) else document

    @model_serializer(mode="wrap")
    def _as_before(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A schema of version 1 or 2 is written as before there was a later one."""
        found: dict[str, Any] = write(self)
        later = {1: ("version", "derived", "defaults"), 2: ("defaults",), 3: ()}[self.version]
        return {name: part for name, part in found.items() if name not in later}

    @model_validator(mode="before")
    @classmethod
    def _with_rules(cls, document: Any) -> Any:
        return with_rules(document)

    @model_validator(mode="after")
    def _of_its_version(self) -> Schema:
        """Refuse kinds and rules of the other versions, and what can't be derived."""
        if self.defaults is not None and self.version < 3:
            raise ValueError("defaults need version = 3")
        for name, column in self.columns.items():
            if self.version == 1 and not isinstance(column, Plain | Categorical | Ignored):
                raise ValueError(f"columns.{name}: kind = {column.kind!r} needs version = 2")
            if self.version > 1 and isinstance(column, Plain):
                raise ValueError(
                    f"columns.{name}: version {self.version} calls kind = 'numeric' number (or "
                    "integer, count, flag, ...)"
                )
            if self.version < 3 and getattr(column, "missing", None) == "none":
                raise ValueError(f'columns.{name}: missing = "none" needs version = 3')
        if self.derived and self.version == 1:
            raise ValueError("derived columns need version = 2")
        for name, formula in self.derived.items():
            if name in self.columns:
                raise ValueError(f"derived.{name}: a column has this name already")
            parents: list[Numeric] = []
            for parent in formula.parents:
                found = self.columns.get(parent)
                if not isinstance(found, Numeric) or isinstance(found, Date | Time):
                    raise ValueError(
                        f"derived.{name}: {parent!r} is no column of numbers, counts or flags"
                    )
                parents.append(found)
            try:
                formula.column(*parents)
            except ValidationError as error:
                raise ValueError(f"derived.{name}: {_sentences(error)}") from None
            except ValueError as error:
                raise ValueError(f"derived.{name}: {error}") from None
        return self

    @model_validator(mode="after")
    def _legible(self) -> Schema:
        """Refuse names that are not what they look like, or act on a terminal."""
        parts = [self.unit, self.weight]
        names = [*self.columns, *self.derived, *self.where]
        names += [part.column for part in parts if part is not None]
        for column in self.encoded_columns.values():
            names += map(level_text, column.levels if isinstance(column, Categorical) else ())
        for name in names:
            if any(unicodedata.category(character) in UNSEEN for character in name):
                raise ValueError(
                    f"the name {name[:50]!r} holds a control or formatting character, which nobody "
                    "sees: rename the column or level"
                )
        return self

    @model_validator(mode="after")
    def _consistent(self) -> Schema:
        if not self.features:
            raise ValueError("no column is numeric or categorical")
        if len(self.features) > MAX_FEATURES:
            raise ValueError(f"more than {MAX_FEATURES} encoded features")
        if len({feature.name for feature in self.features}) < len(self.features):
            raise ValueError("two encoded features have the same name; rename a column or a level")
        if self.gaps and not self.intercept:
            raise ValueError(
                'missing = "pairwise" needs an intercept above 0, which tells the number of rows'
            )
        for part, role in ((self.unit, "person id"), (self.weight, "weight")):
            if part is not None and part.column in self.encoded_columns:
                raise ValueError(
                    f"column {part.column!r} is the {role} and can't be a feature as well"
                )
            if part is not None and not self.file.header and part.column not in self.columns:
                raise ValueError(
                    f"a file without a header needs the {role} among the columns, as kind = "
                    "'ignored'"
                )
        if self.unit is not None and self.file.rows is not None:
            raise ValueError(
                "file.rows does not fix the number of persons: leave out rows, or the unit"
            )
        for name in self.where:
            if name in self.encoded_columns:
                raise ValueError(f"where names {name!r}, whose type its column tells: leave it out")
            if not self.file.header and name not in self.columns:
                raise ValueError(
                    f"a file without a header needs {name!r}, which where names, among the "
                    "columns, as kind = 'ignored'"
                )
        if self.by is not None:
            self.grouped_by(self.by)
        return self

    @property
    def read_columns(self) -> dict[str, Numeric | Categorical]:
        """The columns of the table that are encoded, in order."""
        return {
            name: column for name, column in self.columns.items() if not isinstance(column, Ignored)
        }

    @cached_property
    def encoded_columns(self) -> dict[str, Numeric | Categorical]:
        """The columns that are encoded, in order; those that are derived are the last."""
        found = self.read_columns
        for name, formula in self.derived.items():
            parents = [found[parent] for parent in formula.parents]
            found[name] = formula.column(*(one for one in parents if isinstance(one, Numeric)))
        return found

    @property
    def unstated(self) -> tuple[str, ...]:
        """Columns of a schema of version 2 that leave open what a missing cell means."""
        columns = self.read_columns.items() if self.version == 2 else ()
        return tuple(name for name, one in columns if "missing" not in one.model_fields_set)

    @property
    def needed(self) -> tuple[str, ...]:
        """Names of the columns that must be read."""
        others = [part.column for part in (self.unit, self.weight) if part is not None]
        return tuple(dict.fromkeys([*self.read_columns, *others]))

    @property
    def numbers(self) -> frozenset[str]:
        """Names of the columns whose cells are read as numbers, as a file writes them."""
        features = [
            name
            for name, column in self.read_columns.items()
            if isinstance(column, Numeric) and column.reading in ("number", "whole")
        ]
        tested = (name for name, cells in self.where.items() if cells == "number")
        return frozenset([*features, *tested, *([self.weight.column] if self.weight else [])])

    def grouped_by(self, by: str) -> Categorical:
        """The categorical column `by`; raises `ValueError` where it can't set apart releases."""
        column = self.columns.get(by)
        if not isinstance(column, Categorical):
            others = [name for name, c in self.columns.items() if isinstance(c, Categorical)]
            near = difflib.get_close_matches(by, others, 1) or others[:1]
            hint = f"; did you mean {near[0]!r}?" if near else ", which has none"
            raise ValueError(f"by = {by!r} is not a categorical column of the schema{hint}")
        if self.unit is not None:
            raise ValueError(
                "releases by the levels of a column protect rows: a person's rows may have several "
                "levels, so leave out the unit or by"
            )
        if len(self.encoded_columns) == 1:
            raise ValueError(f"no column is left beside by = {by!r}")
        return column

    @cached_property
    def features(self) -> tuple[Feature, ...]:
        """Coordinates of an encoded row, without the intercept."""
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
        """The features that statistics are about: without those of `missing` = ``pairwise``."""
        return tuple(feature for feature in self.features if feature.variable)

    @cached_property
    def indicators(self) -> dict[str, list[int]]:
        """Positions of the indicators of each column: at most one of them is 1, the others 0."""
        found: dict[str, list[int]] = {}
        for position, feature in enumerate(self.features):
            if feature.is_indicator:
                found.setdefault(feature.column, []).append(position)
        return found

    @cached_property
    def gaps(self) -> dict[int, int]:
        """Of each feature with `missing` = ``pairwise``, where the one is that marks its gaps."""
        marks = [j for j, feature in enumerate(self.features) if not feature.variable]
        return {j - 1: j for j in marks}

    @property
    def largest_norm(self) -> float:
        """Largest L2 norm of an encoded row: every column contributes at most 1 to its square."""
        return math.sqrt(len(self.encoded_columns))

    @property
    def effective_radius(self) -> float:
        """The declared radius, and at most the largest norm that the columns allow."""
        return min(self.largest_norm, self.radius or math.inf)

    @property
    def privacy_unit(self) -> privacy.Unit:
        """Who is protected."""
        if self.unit is None:
            return privacy.Unit()
        return privacy.Unit(self.unit.column, self.unit.max_rows)

    def with_rows(self, rows: int | None) -> Schema:
        """Return the schema of a table of so many rows (`file.rows`); itself if None."""
        if rows is None:
            return self
        document = self.model_dump()
        return Schema.parse(document | {"file": document["file"] | {"rows": rows}})

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read a TOML schema; raises `SchemaError` with one line for each fault.

        Warn if it is of version 2 and leaves open what missing cells of a column mean.
        """
        text, name = read_text(path, "schema", SchemaError, most=LARGEST_FILE), shown(path)
        try:
            found = cls.parse(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise SchemaError(f"The schema {name!r} is not valid TOML: {error}.") from None
        except RecursionError:
            raise SchemaError(f"The schema {name!r} is nested too deeply.") from None
        except SchemaError as error:
            raise SchemaError(f"The schema {name!r} has a fault. {error}") from None
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
        """Return the schema of an all-numeric table with public bounds, scalars or one a column.

        `missing` is the rule for missing cells of all columns (default ``midpoint``), or the cell
        texts that mean a missing value.
        """
        lows, highs = (_per_column(bound, len(names)) for bound in (lower, upper))
        if len(set(names)) < len(names):
            raise SchemaError("Two columns have the same name.")
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
        title = (
            f"Schema: {len(self.features)} features, radius {self.effective_radius:.4g}, "
            f"protects {self.privacy_unit}"
        )
        return html.tables([declared(self.columns | self.encoded_columns, title)])


def _without_blanks(document: dict[str, Any]) -> dict[str, Any]:
    """Strip each name of a column in a plain document of a schema."""
    found = dict(document)
    for part in ("columns", "derived", "where"):
        if isinstance(named := found.get(part), dict):
            found[part] = {_stripped(name): value for name, value in named.items()}
            if len(found[part]) < len(named):
                raise ValueError(f"{part}: two names differ by blanks at their ends only")
    for part in ("unit", "weight"):
        if isinstance(one := found.get(part), dict) and "column" in one:
            found[part] = one | {"column": _stripped(one["column"])}
    if isinstance(derived := found.get("derived"), dict):
        found["derived"] = {name: _stripped(formula) for name, formula in derived.items()}
    return found | ({"by": _stripped(found["by"])} if "by" in found else {})


def _stripped(name: Any) -> Any:
    """Strip a name, or each of several, or of a formula; leave what is none to be refused."""
    if isinstance(name, list | tuple):
        return [_stripped(one) for one in name]
    if isinstance(name, dict):
        return {key: _stripped(one) for key, one in name.items()}
    return name.strip(SPACES) if isinstance(name, str) else name


def level_text(level: bool | int | float | str) -> str:
    """The text by which a declared level is named and matched in text files."""
    if isinstance(level, bool):
        return "true" if level else "false"
    if isinstance(level, float) and level.is_integer():
        return str(int(level))
    return str(level).strip()


def _per_column(bound: Bounds, count: int) -> list[float]:
    try:
        values = [bound] * count if isinstance(bound, int | float) else [float(b) for b in bound]
    except (TypeError, ValueError):
        values = []
    if len(values) != count:
        raise SchemaError(f"lower and upper must be a number, or one for each of {count} columns.")
    return values


_NO_KIND = "union_tag_not_found"  # of a column without a kind


def _sentences(error: ValidationError) -> str:
    """The faults, what is not filled in yet in a sentence of its own."""
    faults = error.errors()
    gaps = [_place(fault) for fault in faults if fault["type"] == "missing"]
    gaps += [f"{_place(fault)}.kind" for fault in faults if fault["type"] == _NO_KIND]
    unstated = [fault for fault in faults if is_unstated(fault)]
    others = [
        fault
        for fault in faults
        if fault["type"] not in ("missing", _NO_KIND) and fault not in unstated
    ][:5]
    found = "; ".join(
        ": ".join(filter(None, (_place(fault), str(fault["msg"]).removeprefix("Value error, "))))
        for fault in others
    )
    sentences = [f"{found}."] if found else []
    if unstated and not gaps and not any(fault["loc"][0] == "defaults" for fault in others):
        places, kinds = zip(*(fault["loc"][1:3] for fault in unstated), strict=True)
        sentences.append(rules_wanted(places, kinds))
    if gaps:
        gaps += map(_place, unstated)
        more = f" and {len(gaps) - 10} more" if len(gaps) > 10 else ""
        sentences.append(
            f"Not filled in yet: {', '.join(gaps[:10])}{more}. Declare them from public knowledge, "
            "never from the data; `dpcov schema DATA --interactive --out FILE` asks for them."
        )
    return " ".join(sentences)


def _place(fault: Any) -> str:
    return ".".join(str(part) for part in fault["loc"] if part not in get_args(DeclaredKind))
