"""A result is drawn in every way by the same few functions, whatever analysis it is of."""

from __future__ import annotations

import csv
import inspect
import io
import json
from html.parser import HTMLParser

import matplotlib.pyplot as plt
import numpy as np
import pytest

from analysis_tables import released
from dpcov import plot
from dpcov.analysis import declared
from dpcov.core.show import html
from dpcov.core.show.result import Result
from dpcov.core.show.table import (
    ALWAYS_SHOWN_STRENGTH,
    MAX_FULL_ROWS,
    MAX_STRONGEST_ROWS,
    Table,
    square,
    triangle,
)
from dpcov.core.show.text import PIPE_WIDTH, print_tables, summary
from dpcov.report.documents import document

COMMANDS = declared.commands()
GIVEN = {"target": "y", "n": 3, "alpha": 0.1, "a": "group", "b": "sex"}
OWN = {
    "cohens-d": {"value": "y", "by": "sex"},
    "lda": {"target": "sex"},
    "mediation": {"treatment": "a", "mediators": "c", "outcome": "y"},
    "partial-correlation": {"first": "a", "second": "y"},
}


def found(run, **given) -> Result:
    taken = inspect.signature(run).parameters
    known = {name: value for name, value in (GIVEN | given).items() if name in taken}
    return run(released(100.0), **known)


RESULTS = {
    name: lambda name=name: found(COMMANDS[name].run, **OWN.get(name, {})) for name in COMMANDS
} | {f"section {part.name}": lambda part=part: found(part.run) for part in declared.sections()}


class Cells(HTMLParser):
    """Texts of the cells of some HTML."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.feed(text)

    def handle_data(self, data: str) -> None:
        self.cells.append(data)


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_text_html_csv_json_and_a_file(name: str, capsys, monkeypatch) -> None:
    # Workers of pytest inherit 80 columns from readline, at which a shell folds and splits tables.
    monkeypatch.setenv("COLUMNS", str(PIPE_WIDTH))
    result = RESULTS[name]()
    json.dumps(document(released(100.0), **result.document()), allow_nan=False)
    if not result.has_sentences:
        assert result.arrow().num_rows == 3
        return
    print_tables(result.tables())
    printed = capsys.readouterr().out.replace("; --csv prints", "; summary() shows")
    assert repr(result).split() == printed.split()
    text, cells = result.summary(), set(Cells(result._repr_html_()).cells)
    for table in result.tables():
        assert table.title in text
        for row in table.short()[0].texts():
            assert all(cell in text for cell in row)
            assert {cell for cell in row if cell} <= cells
    if not name.startswith("section"):
        heads, *rows = csv.reader(io.StringIO(result.csv()))
        file = result.arrow()
        assert file.column_names[1:] == heads[1:]
        assert file.to_pandas().iloc[:, 0].tolist() == [row[0] for row in rows]
        values = {"true": 1.0, "false": 0.0, "": np.nan}
        written = [[values.get(cell, cell) for cell in row[1:]] for row in rows]
        stored = file.to_pandas().iloc[:, 1:].to_numpy(float)
        assert np.array_equal(stored, np.array(written, float), equal_nan=True)


@pytest.mark.parametrize("name", RESULTS)
def test_a_picture_names_a_function_that_draws_it(name: str) -> None:
    picture = RESULTS[name]().picture()
    if picture is not None:
        draw = getattr(plot, picture.function)
        axes = plt.figure().add_subplot()
        assert draw(**picture.arguments, ax=axes) is axes
        figure = plt.figure()
        assert draw(**picture.arguments, ax=figure).figure is figure
        assert str(draw.__doc__).split("\n")[0].endswith(".")
        plt.close("all")


def test_every_option_is_of_a_parameter_and_every_section_has_its_place() -> None:
    for command in COMMANDS.values():
        parameters = inspect.signature(command.run).parameters
        assert command.options.keys() <= parameters.keys()
    places = [part.place for part in declared.sections()]
    assert places == sorted(set(places))
    assert all("generator" in inspect.signature(p.run).parameters for p in declared.sections())


def long(rows: int, **options: object) -> Table:
    cells = [(f"r{at}", [float(at)]) for at in range(rows)]
    strengths = [ALWAYS_SHOWN_STRENGTH, *range(rows - 1)]
    return Table(("", "figure"), cells, strengths=strengths, rest="rows", **options)


def test_of_many_rows_the_strongest_are_shown_and_the_others_counted() -> None:
    cut, left = long(MAX_FULL_ROWS + 1).short()
    assert (len(cut.rows), left) == (MAX_FULL_ROWS + 1, [])  # one of them is there always
    cut, left = long(MAX_FULL_ROWS + 2).short()
    assert [name for name, _ in cut.rows][:3] == [
        "r0",
        f"r{MAX_FULL_ROWS + 1}",
        f"r{MAX_FULL_ROWS}",
    ]
    assert left == [f"{MAX_FULL_ROWS + 1 - MAX_STRONGEST_ROWS} rows more"]
    assert f"<p>{left[0]}.</p>" in html.tables([long(MAX_FULL_ROWS + 2)])
    assert "more" not in summary([long(MAX_FULL_ROWS + 2)])


def test_columns_beyond_the_widest_are_counted() -> None:
    wide = Table(("", *"abc"), [("r", [1.0, 2.0, 3.0])], widest=2, other_columns="components")
    cut, left = wide.short()
    assert (cut.heads, cut.texts()) == (("", "a", "b"), [["r", "1", "2"]])
    assert left == ["1 components more"]


def test_what_does_not_fit_gives_way_to_another_table(monkeypatch, capsys) -> None:
    names = [f"feature {at}" for at in range(9)]
    other = Table(("", "x"), [("instead", [1.0])])
    whole = triangle("Matrix", names, np.eye(9), otherwise=other)
    assert whole is not None
    for columns, shown in ((200, "Matrix"), (40, "instead")):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TTY_COMPATIBLE", "1")
        print_tables([whole])
        assert shown in capsys.readouterr().out
    assert triangle("Matrix", ["x"] * 31, np.eye(31), otherwise=other) is other


def test_unknown_and_empty_cells_differ_and_names_of_columns_stay_apart() -> None:
    table = Table(("", "column", "column_"), [("r", [np.nan, None])])
    assert table.texts() == [["r", "-", ""]]
    file = square(("column", "x"), np.eye(2)).arrow()
    assert file.column_names == ["column_", "column", "x"]
