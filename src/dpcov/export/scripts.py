"""Exports with a script, for software that reads means and covariances from files."""

from __future__ import annotations

from importlib.resources import files as resources
from typing import TYPE_CHECKING

from dpcov.core.printable import printable
from dpcov.export import tables

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix
    from dpcov.export.estimates import Estimates

TEMPLATES = resources(__name__.rpartition(".")[0]) / "templates"
MAX_MPLUS_NAME = 8  # Longest name of a variable in Mplus, in characters.
MODEL_SIZE = 6  # Largest number of variables in the example model of a script.
LEFT_OUT = (
    "This software cannot use the error covariance. Its standard errors and tests",
    "leave out the privacy noise. The standard errors are therefore too small.",
)
NOT_RUN = (
    "Not tested: dpcov's tests do not run this software. The file follows its documentation.",
    *LEFT_OUT,
)


def with_script(found: Estimates, name: str, template: str) -> dict[str, str]:
    """Return the CSV tables and a script that reads them."""
    text = (TEMPLATES / template).read_text(encoding="utf-8")
    return {name: text, **tables.files(found)}


def lavaan(found: Estimates) -> dict[str, str]:
    """Return the files for lavaan."""
    return with_script(found, "lavaan.R", "lavaan.R")


def psych(found: Estimates) -> dict[str, str]:
    """Return the files for psych."""
    return with_script(found, "psych.R", "psych.R")


def statsmodels(found: Estimates) -> dict[str, str]:
    """Return the files for statsmodels."""
    return with_script(found, "run_statsmodels.py", "statsmodels.py.txt")


def semopy(found: Estimates) -> dict[str, str]:
    """Return the files for semopy."""
    return with_script(found, "run_semopy.py", "semopy.py.txt")


def stata(found: Estimates) -> dict[str, str]:
    """Return the files for Stata: means and covariances as summary statistics, and a model."""
    means, covariance = _usual(found)
    names = tables.variables(found.columns)
    rows = " ///\n  \\ ".join(" ".join(map(repr, row)) for row in _triangle(covariance))
    lines = [
        *_comments(found, "*", names),
        "clear all",
        f"ssd init {' '.join(names)}",
        f"ssd set observations {found.count}",
        f"ssd set means {' '.join(map(repr, means))}",
        f"ssd set covariances ///\n  {rows}",
        "* Replace this model.",
        f"sem (F -> {' '.join(_items(found, names))})",
    ]
    return {"stata.do": _text(lines), **tables.files(found)}


def mplus(found: Estimates) -> dict[str, str]:
    """Return the files for Mplus: means, covariances and a model."""
    means, covariance = _usual(found)
    names = tables.variables(found.columns, MAX_MPLUS_NAME)
    used = _items(found, names)
    lines = [
        *_comments(found, "!", names),
        "TITLE: Private release;",
        "DATA: FILE = moments.dat;",
        "  TYPE = MEANS COVARIANCE;",
        f"  NOBSERVATIONS = {found.count};",
        "VARIABLE: NAMES =",
        *(f"  {name}" for name in names),
        "  ;",
        "  USEVARIABLES =",
        *(f"  {name}" for name in used),
        "  ;",
        "! Replace this model.",
        "MODEL: f BY",
        *(f"  {name}" for name in used),
        "  ;",
    ]
    data = "\n".join(" ".join(map(repr, row)) for row in [means, *_triangle(covariance)])
    return {"mplus.inp": _text(lines), "moments.dat": f"{data}\n", **tables.files(found)}


def jasp(found: Estimates) -> dict[str, str]:
    """Return the files for JASP: the covariance matrix and the steps."""
    names = tables.variables(found.columns)
    _, covariance = _usual(found)
    matrix = [",".join(names), *(",".join(map(repr, row)) for row in covariance.tolist())]
    lines = [
        *_comments(found, "#", names),
        "# 1. Open jasp_covariance.csv in JASP.",
        "# 2. Choose SEM, then Structural Equation Modeling.",
        f"# 3. Set Data to Variance-covariance matrix, with the sample size {found.count}.",
        "# 4. Replace this model:",
        f"f =~ {' + '.join(_items(found, names))}",
    ]
    text = "".join(f"{line}\n" for line in matrix)
    return {"jasp.txt": _text(lines), "jasp_covariance.csv": text, **tables.files(found)}


def _comments(found: Estimates, sign: str, names: tuple[str, ...]) -> list[str]:
    """Return the comments at the start of a file: its limits, its status and its variables."""
    lines = [*NOT_RUN, f"Status: {found.status}", "Variables and columns of the release:"]
    lines += [f"  {one}: {name}" for one, name in zip(names, found.columns, strict=True)]
    return [f"{sign} {printable(line)}" for line in lines]


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _items(found: Estimates, names: tuple[str, ...]) -> list[str]:
    """Return the variables of the example model: numeric columns if there are any, or others."""
    pairs = list(zip(names, found.columns, strict=True))
    numbers = [one for one, name in pairs if found.kinds[name] not in ("level", "missing")]
    return (numbers or list(names))[:MODEL_SIZE]


def _usual(found: Estimates) -> tuple[list[float], Matrix]:
    """Return the means, and the covariances with the usual divisor n - 1."""
    found.require_covariance()
    assert found.means is not None and found.covariance is not None  # noqa: S101, PT018  checked
    n = max(found.count, 2)
    return found.means.tolist(), found.covariance * (n / (n - 1))


def _triangle(matrix: Matrix) -> list[list[float]]:
    """Return the rows of the lower triangle."""
    return [row[: at + 1] for at, row in enumerate(matrix.tolist())]
