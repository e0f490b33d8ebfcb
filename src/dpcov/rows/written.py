"""Tables as text files in the notation that a schema declares.

The functions are the reverse of reading. dpcov reads every cell of a written file back as the same
number, date, truth value or category, with the same schema. All cells come from the schema and from
a release, so they are not private.
"""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.csv import WriteOptions, write_csv

from dpcov.core.printable import harmless
from dpcov.errors import OutputError
from dpcov.rows.notation import Notation
from dpcov.rows.schema import Categorical, FileOptions, Flag, Numeric, Schema, level_text

if TYPE_CHECKING:
    from dpcov.core.arrays import Booleans

# Text of an undeclared category.
OTHER_TEXT = "(other)"
STANDARD_QUOTE = '"'
# Texts that no spreadsheet computes, although they can begin with a sign.
_SIGNED_NUMBER = r"^[+-]?[0-9.,]*\Z"
UNWRITABLE_MESSAGE = (
    "A text file with the encoding, separator and quotes of the schema cannot contain one of the "
    "names or categories. Write a .parquet file."
)


@dataclass(frozen=True, slots=True)
class TextFile:
    """Table as a text file in the notation of a schema.

    Each row has an id of its own if the schema protects persons, and the largest weight if the
    schema has weights. dpcov can therefore release the file with the same schema.

    Attributes
    ----------
    schema : Schema
        Schema that states the notation.

    table : pyarrow.Table
        Texts and numbers of the cells, in the order of the file.

    altered : tuple of str
        Categories that begin with an apostrophe in the file, because a spreadsheet could compute
        them. dpcov reads them as undeclared categories.

    """

    schema: Schema
    table: pa.Table
    altered: tuple[str, ...]

    @classmethod
    def of(cls, schema: Schema, table: pa.Table, others: Mapping[str, Booleans]) -> TextFile:
        """Write the cells of a table as texts.

        Parameters
        ----------
        schema : Schema
            Schema that states the notation.

        table : pyarrow.Table, n rows
            Encoded columns of the schema. A missing cell is null.

        others : mapping of str to ndarray of bool, shape (n,)
            True for each undeclared category, by column. The table can have null there.

        Returns
        -------
        TextFile
            Texts of the cells.

        """
        columns, altered = _ids_and_weights(schema, table.num_rows), []
        for name, column in schema.encoded_columns.items():
            cells = _texts(table[name].combine_chunks(), column, schema)
            if isinstance(column, Categorical):
                if name in others:
                    cells = pc.if_else(pa.array(others[name]), OTHER_TEXT, cells)
                altered += [one for one in map(level_text, column.levels) if _is_computed(one)]
            columns[name] = cells
        if not schema.file.header:  # the file then has exactly the declared columns
            empty = pa.nulls(table.num_rows, pa.string())
            columns = {name: columns.get(name, empty) for name in schema.columns}
        return cls(schema, pa.table(columns), tuple(dict.fromkeys(altered)))

    def text(self) -> str:
        """Return the text of the file.

        Raises
        ------
        OutputError
            A cell contains a character that the declared file cannot contain.

        """
        options, buffer = self.schema.file, io.BytesIO()
        rows = self.table
        if options.extra_cell is not None:
            at = 0 if options.extra_cell == "first" else rows.num_columns
            rows = rows.add_column(at, "", pa.nulls(rows.num_rows, pa.string()))
        quote = options.quote_sign
        heads = [_quoted(harmless(name), options) for name in self.table.column_names]
        _require_quotable(rows, options)
        style = "needed" if quote == STANDARD_QUOTE else "none"
        how = WriteOptions(include_header=False, delimiter=options.separator, quoting_style=style)
        try:
            write_csv(rows, buffer, how)
        except pa.ArrowInvalid:  # Arrow refuses a cell that needs quotes
            raise OutputError(UNWRITABLE_MESSAGE) from None
        header = options.separator.join(heads) + "\n" if options.header else ""
        return "\n" * options.skip_lines + header + buffer.getvalue().decode()

    @property
    def is_utf8(self) -> bool:
        """True if the declared encoding writes the texts as UTF-8 does."""
        encoding = self.schema.file.encoding
        if encoding == "utf-8":
            return True
        text = self.text()
        return text.encode(encoding, errors="replace") == text.encode()

    def content(self, first_line: str = "") -> bytes:
        """Return the file in the declared encoding and compression, below a first line."""
        options = self.schema.file
        try:
            content = (first_line + self.text()).encode(options.encoding)
        except UnicodeEncodeError:
            raise OutputError(UNWRITABLE_MESSAGE) from None
        return gzip.compress(content, mtime=0) if options.compression == "gzip" else content

    def dialect(self) -> dict[str, Any]:
        """Return the unusual options of the file in the format CSV on the Web."""
        options = self.schema.file
        stated = {
            "delimiter": (options.separator, ","),
            "header": (options.header, True),
            "encoding": (options.encoding, "utf-8"),
            "quoteChar": (options.quote_sign, STANDARD_QUOTE),
            "skipRows": (options.skip_lines, 0),
        }
        return {name: found for name, (found, usual) in stated.items() if found != usual}

    def datatypes(self) -> dict[str, Any]:
        """Return the unusual datatypes of columns in the format CSV on the Web."""
        found: dict[str, Any] = {}
        for name, column in self.schema.encoded_columns.items():
            if name not in self.table.column_names or isinstance(column, Categorical):
                continue
            notation = _notation(column, self.schema)
            if isinstance(column, Flag) and (column.true or column.false):
                words = "|".join(_truth_words(column, self.schema))
                found[name] = {"base": "boolean", "format": words}
            elif notation is not None and not notation.plain:
                signs = {"decimalChar": notation.decimal, "groupChar": notation.thousands}
                form = {sign: one for sign, one in signs.items() if one is not None}
                found[name] = {"base": "number", "format": form}
        return found


def _ids_and_weights(schema: Schema, count: int) -> dict[str, pa.Array]:
    """Return an id of its own and the largest weight for each row, if the schema declares them."""
    found = {}
    if schema.unit is not None:
        numbers = range(1, count + 1)
        is_uuid = schema.unit.type == "uuid"
        ids = [str(UUID(int=one)) if is_uuid else str(one) for one in numbers]
        found[schema.unit.column] = pa.array(ids, pa.string())
    if schema.weight is not None:
        plain = repr(schema.weight.maximum).replace(".", schema.file.decimal)
        found[schema.weight.column] = pa.array([plain] * count, pa.string())
    return found


def _texts(cells: pa.Array, column: Numeric | Categorical, schema: Schema) -> pa.Array:
    """Return cells as texts in the notation of a column, or unchanged if Arrow writes them so."""
    if isinstance(column, Categorical):
        found = _harmless(_as_text(cells))
    elif column.reading == "flag":
        words = _truth_words(column, schema)
        found = cells if words == ["true", "false"] else pc.if_else(cells, *words)
    else:
        notation, found = _notation(column, schema), cells
        if notation is not None and not notation.plain:  # digits without groups fit every notation
            found = pc.replace_substring(_as_text(cells), ".", notation.decimal)
    missing = _missing_text(column, schema)
    return found if missing is None else pc.if_else(found.is_valid(), _as_text(found), missing)


def _as_text(cells: pa.Array) -> pa.Array:
    if pa.types.is_boolean(cells.type):
        return pc.if_else(cells, "true", "false")
    return cells.cast(pa.string())


def _notation(column: Numeric, schema: Schema) -> Notation | None:
    """Return the notation of the numbers in a column, or None for other kinds of cells."""
    if column.reading not in ("number", "whole"):
        return None
    own: Notation | None = getattr(column, "notation", None)
    return own or Notation(schema.file.decimal, schema.file.thousands)


def _truth_words(column: Numeric, schema: Schema) -> list[str]:
    """Return the texts for true and false."""
    missing = (*schema.missing, *column.missing_codes)
    found = []
    for key in ("true", "false"):
        words = (*getattr(column, key, ()), key)
        usable = (one for one in words if one not in missing and not _is_computed(one))
        found.append(next(usable, key))
    return found


def _missing_text(column: Numeric | Categorical, schema: Schema) -> str | None:
    """Return a text that means a missing value in a column, or None for an empty cell."""
    if "" in schema.missing:
        return None
    texts = [one for one in (*column.missing_codes, *schema.missing) if one == one.strip()]
    return next((one for one in texts if not _is_computed(one)), None)


def _is_computed(text: str) -> bool:
    """Return True if a spreadsheet could compute a text."""
    return harmless(text) != text and not re.match(_SIGNED_NUMBER, text)


def _harmless(texts: pa.Array) -> pa.Array:
    """Add an apostrophe to each text that a spreadsheet could compute."""
    words = texts.dictionary_encode()
    safe = [harmless(one) if _is_computed(one) else one for one in words.dictionary.to_pylist()]
    return pa.array(safe, pa.string()).take(words.indices)


def _quoted(name: str, options: FileOptions) -> str:
    """Return a name as a cell of the header."""
    quote = options.quote_sign
    if quote is not None:
        return f"{quote}{name.replace(quote, quote * 2)}{quote}"
    if options.separator in name:
        raise OutputError(UNWRITABLE_MESSAGE)
    return name


def _require_quotable(rows: pa.Table, options: FileOptions) -> None:
    """Refuse cells that contain an unusual quote character, which Arrow cannot double."""
    quote = options.quote_sign
    if quote in (None, STANDARD_QUOTE):
        return
    for column in rows.columns:
        if pa.types.is_string(column.type) and pc.any(pc.match_substring(column, quote)).as_py():
            raise OutputError(UNWRITABLE_MESSAGE)
