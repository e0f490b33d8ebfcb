"""Lines of code are counted by package and folder."""

from pathlib import Path

import pytest

import lines

ROOT = Path(__file__).parents[1]

SOURCE = '''"""A docstring
of two lines."""

import os  # counts once

# A comment.


class A:
    """One line."""

    text = """three
    lines of
    data"""

    def f(self):
        """Only told."""


def g(
    x,
):
    # Another.
    return (
        x
    )
'''


def test_code_counts_and_what_is_said_about_it_does_not():
    assert lines.code_lines(SOURCE) == 1 + 1 + 3 + 1 + 3 + 3
    assert lines.code_lines("") == 0
    assert lines.code_lines('"""Told."""\n') == 0
    assert lines.code_lines('x = 1\n"""a text that is no docstring"""\n') == 2


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("src/dpcov/api.py", "src/dpcov"),
        ("src/dpcov/rows/sources/spark.py", "src/dpcov/rows"),
        ("src/dpcov/papers/samplers/frame.py", "src/dpcov/papers"),
        ("tests/papers/test_frames.py", "tests/papers"),
        ("tests/statistical/checks.py", "tests"),
        ("benchmarks/mechanisms/summary.py", "benchmarks"),
    ],
)
def test_a_file_belongs_to_one_package(path, name):
    assert lines.package(Path(path)) == name


def test_the_count_of_a_folder_is_the_sum_of_its_packages(tmp_path):
    for path, text in (
        ("src/dpcov/api.py", "x = 1\ny = 2\n"),
        ("src/dpcov/papers/p.py", "z = 3\n"),
        ("tests/test_api.py", "t = 4\n"),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert lines.counted(tmp_path) == {
        "product without papers": 2,
        "src/dpcov": 2,
        "src/dpcov/papers": 1,
        "tests": 1,
    }
