"""The faults that `make mutants` plants, and the notes on those that change nothing."""

from pathlib import Path

import pytest

import mutant_tests
import mutants
from mutations import keys
from mutations import mutants as planted

ROOT = Path(__file__).resolve().parents[1]

SOURCE = '''
"""Docstring with 1."""
LIMIT: int = 3

def clip(x: int = 2) -> int:
    """The least of x and LIMIT."""
    if not 0 <= x < LIMIT:
        raise ValueError(f"{x} is above {LIMIT + 1}")
    return min(x, LIMIT) + 1
'''


def changes():
    return {(m.line, m.change): m for m in planted(SOURCE, "sample.py")}


def test_each_operator_bound_constant_and_statement_is_changed_once():
    assert [change for _, change in changes()] == [
        "3 -> 4",
        "2 -> 3",
        "not 0 <= x < LIMIT -> 0 <= x < LIMIT",
        "0 <= x < LIMIT -> 0 < x < LIMIT",
        "0 <= x < LIMIT -> 0 > x < LIMIT",
        "0 <= x < LIMIT -> 0 <= x <= LIMIT",
        "0 <= x < LIMIT -> 0 <= x >= LIMIT",
        "0 -> 1",
        "raise ValueError(f'{x} is above {LIMIT + 1}') -> pass",
        "return min(x, LIMIT) + 1 -> return None",
        "min(x, LIMIT) + 1 -> min(x, LIMIT) - 1",
        "min(x, LIMIT) -> max(x, LIMIT)",
        "1 -> 2",
    ]
    on_import = [change for (_, change), m in changes().items() if m.on_import]
    assert on_import == ["3 -> 4", "2 -> 3"]


def test_the_code_of_a_mutant_has_its_fault_and_no_other():
    def result(mutant, x):
        names = {}
        exec(mutant.code, names)  # noqa: S102
        return names["clip"](x)

    found = changes()
    assert result(found["return min(x, LIMIT) + 1", "1 -> 2"], 1) == 3
    assert result(found["return min(x, LIMIT) + 1", "min(x, LIMIT) -> max(x, LIMIT)"], 1) == 4
    with pytest.raises(ValueError, match="above 4"):
        result(found["return min(x, LIMIT) + 1", "1 -> 2"], 3)


def test_every_mutant_that_the_notes_argue_about_is_planted():
    for module, argued in mutants.argued().items():
        assert module in mutant_tests.TESTS
        assert argued <= keys((ROOT / module).read_text(encoding="utf-8"))


def test_keys_are_those_of_the_planted_mutants():
    assert keys(SOURCE) == {mutant.key for mutant in planted(SOURCE, "sample.py")}


def test_every_test_for_mutants_exists():
    for module, tests in mutant_tests.TESTS.items():
        assert (ROOT / module).is_file()
        for test in tests:
            file, _, name = test.partition("::")
            assert f"def {name.partition('[')[0]}" in (ROOT / file).read_text(encoding="utf-8")


def test_a_note_without_a_reason_is_refused(tmp_path, monkeypatch):
    notes = tmp_path / "notes.md"
    monkeypatch.setattr(mutants, "NOTES", notes)
    notes.write_text("## src/a.py\n\n- `f`, `x < 1`: `x < 1 -> x <= 1`, `1 -> 2`: a tie.\n")
    assert mutants.argued() == {
        "src/a.py": {("f", "x < 1", "x < 1 -> x <= 1"), ("f", "x < 1", "1 -> 2")}
    }
    notes.write_text("## src/a.py\n\n- `f`, `x < 1`: `1 -> 2`\n")
    with pytest.raises(SystemExit, match="not an argument"):
        mutants.argued()
