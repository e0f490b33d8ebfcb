"""Export of the estimates of a release to a folder that other software reads.

An export contains only numbers that follow from the release file, so it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dpcov.core.files import reserved
from dpcov.core.printable import printable, shown
from dpcov.core.spelling import asked
from dpcov.errors import OutputError
from dpcov.export import for_r, scripts
from dpcov.export.estimates import Estimates

if TYPE_CHECKING:
    from dpcov.releases import Release

README = "README.txt"


@dataclass(frozen=True, slots=True)
class Target:
    """Software that an export is for.

    Attributes
    ----------
    title : str
        Name of the software.

    files : callable
        Function that returns the text of each file, by its name, from the estimates.

    steps : tuple of str
        Lines of the README that say how to continue.

    """

    title: str
    files: Callable[[Estimates], dict[str, str]]
    steps: tuple[str, ...]


def _run(command: str) -> tuple[str, ...]:
    """Return the lines of the README that say how to run a script."""
    return ("Read and change the script, then run it in this folder:", "", f"  {command}")


TARGETS: dict[str, Target] = {
    "r": Target("the R package dpcov", for_r.files, for_r.NEXT),
    "lavaan": Target("lavaan", scripts.lavaan, _run("Rscript lavaan.R")),
    "psych": Target("psych", scripts.psych, _run("Rscript psych.R")),
    "statsmodels": Target("statsmodels", scripts.statsmodels, _run("python run_statsmodels.py")),
    "semopy": Target("semopy", scripts.semopy, _run("python run_semopy.py")),
    "jasp": Target("JASP", scripts.jasp, ("Follow jasp.txt.", *scripts.NOT_RUN)),
    "stata": Target("Stata", scripts.stata, (*_run("stata -b do stata.do"), *scripts.NOT_RUN)),
    "mplus": Target("Mplus", scripts.mplus, (*_run("mplus mplus.inp"), *scripts.NOT_RUN)),
}


def contents(found: Estimates, target: str, folder: str) -> dict[str, str]:
    """Return the content of each file of an export.

    Parameters
    ----------
    found : Estimates
        Estimates to export.

    target : str
        Name in `TARGETS`.

    folder : str
        Name of the folder, for the README.

    Returns
    -------
    dict of str
        Text of each file, by its name.

    """
    chosen = TARGETS[target]
    files = chosen.files(found)
    return {README: _readme(found, chosen, folder, list(files)), **files}


def _readme(found: Estimates, target: Target, folder: str, files: list[str]) -> str:
    release = found.release
    lines = [
        f"Private estimates for {target.title}, written by dpcov.",
        "",
        f"Guarantee: {release.guarantee_in_words()}",
        f"Status: {found.status}",
        f"Made by: {release.made_by()}",
        f"Columns: {', '.join(found.columns)}",
        f"Files: {', '.join(files)}",
        "",
        *(f"Caution: {caution}" for caution in found.cautions),
        *([""] if found.cautions else []),
        *(line.format(folder=folder) for line in target.steps),
        "",
        "These numbers follow from the release alone, so further analyses cost no privacy.",
    ]
    return "".join(f"{printable(line)}\n" for line in lines)


def write_folder(
    release: Release,
    target: str,
    folder: Path,
    *,
    columns: Sequence[str] | None = None,
    force: bool = False,
    inputs: Iterable[Path] = (),
) -> list[Path]:
    """Write the export of a release to a folder.

    Parameters
    ----------
    release : Release
        Release to export.

    target : str
        Name in `TARGETS`.

    folder : Path
        Folder to write. It must be new or empty, unless `force` is True.

    columns : sequence of str, optional
        Columns to export. Default: all columns.

    force : bool, default False
        Replace files of the same names in an existing folder.

    inputs : iterable of Path, optional
        Files that must not be overwritten.

    Returns
    -------
    list of Path
        Written files.

    Raises
    ------
    OutputError
        If the folder contains files and `force` is False, or if a file cannot be written.

    """
    _refuse_full(folder, force=force)
    files = contents(Estimates.of(release, columns), target, folder.name)
    made = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or "the system refuses"
        raise OutputError(f"The folder {shown(folder)!r} cannot be written: {reason}.") from None
    try:
        with ExitStack() as stack:
            given = list(inputs)
            outputs = [
                stack.enter_context(reserved(folder / name, force=force, inputs=given))
                for name in files
            ]
            for output, text in zip(outputs, files.values(), strict=True):
                output.write(text)
    except OutputError:
        if made:
            with suppress(OSError):  # rmdir keeps a folder with files
                folder.rmdir()
        raise
    return [folder / name for name in files]


def _refuse_full(folder: Path, *, force: bool) -> None:
    """Raise an error if the folder is a file, or contains files and `force` is False."""
    try:
        full = any(folder.iterdir())
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "this is not a valid name"
        raise OutputError(f"The folder {shown(folder)!r} cannot be written: {reason}.") from None
    if full and not force:
        raise OutputError(
            f"The folder {shown(folder)!r} contains files. Choose another folder, or "
            f"{asked('force')} to replace files of the same names."
        )
