"""Declarations of an analysis: its command and its section of the report.

The command line, the completion in the shell, the documentation, the report and the tests read
these declarations.
"""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from dpcov.core.show.result import Result

Run = TypeVar("Run", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Option:
    """Option of a command, for one parameter of the function that the command calls.

    Attributes
    ----------
    flag : str
        Name of the option, such as ``--target``. A name without dashes is a positional argument.

    help : str
        Explanation in the help of the command.

    kind : type
        Type of the value.

    read : callable, optional
        Function that converts a given value to an argument of the function.

    completes : str, optional
        Name of the function in `dpcov.cli.completions` that offers values.

    choices : tuple of str
        Allowed values. An empty tuple allows every value.

    least : int, optional
        Smallest allowed value.

    """

    flag: str
    help: str
    kind: type = str
    read: Callable[[Any], Any] | None = None
    completes: str | None = None
    choices: tuple[str, ...] = ()
    least: int | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """Command that analyses a release file.

    Attributes
    ----------
    name : str
        Name on the command line.

    help : str
        Explanation on the command line.

    run : callable
        Function of a release and the options. An option can be missing if the function has a
        default for it.

    options : dict of str to Option
        Options by the name of the function's parameter.

    example : str
        Options that work on the example table of the documentation.

    several : bool
        True if the function also accepts a list of releases, from several files.

    """

    name: str
    help: str
    run: Callable[..., Result]
    options: dict[str, Option]
    example: str
    several: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """Section of the report.

    Attributes
    ----------
    run : callable
        Function of a release and any of the keywords ``target``, ``features`` and ``generator``. If
        the function has no default for ``target``, the section needs a target from the user.

    name : str
        Anchor of the section in the page. The seed of the simulations also depends on this name.

    heading : str
        Title of the section. ``{target}`` stands for the name of the target.

    lead : str
        First sentence of the section. ``{target}`` stands for the name of the target.

    place : int
        Position in the report. Sections appear in ascending order.

    folded : bool
        True if the reader must click to see the table.

    signal : bool
        True if the section is left out when no correlation is above the noise level.

    label : str
        Name of the section in the list of contents. The default is `name`.

    """

    run: Callable[..., Result]
    name: str
    heading: str
    lead: str
    place: int
    folded: bool = True
    signal: bool = True
    label: str = ""


# File that lists the commands. ``python -m dpcov.analysis.declared`` writes it.
LIST = Path(__file__).with_name("commands.json")
_COMMANDS: dict[str, Command] = {}
_SECTIONS: dict[str, Section] = {}
FEATURES_OPTION = Option(
    "--features",
    "Only these columns, separated by commas; default, all.",
    read=lambda text: [name.strip() for name in text.split(",")],
    completes="columns_list",
)
TARGET_OPTION = Option(
    "--target", "Column to predict; for a level of one, column=level.", completes="columns"
)
ALPHA_OPTION = Option(
    "--alpha", "Strength of the penalty; default, chosen from the release.", float
)


def command(
    name: str, text: str, example: str = "", *, several: bool = False, **options: Option
) -> Callable[[Run], Run]:
    """Declare a function from a release to a `Result` as a command.

    Parameters
    ----------
    name : str
        Name on the command line.

    text : str
        Explanation on the command line.

    example : str
        Options that work on the example table of the documentation.

    several : bool, default False
        True if the function also accepts a list of releases, from several files.

    **options : Option
        Options by the name of the function's parameter.

    Returns
    -------
    callable
        Decorator that returns the function unchanged.

    """

    def declare(run: Run) -> Run:
        _COMMANDS[name] = Command(name, text, run, options, example, several)
        return run

    return declare


def section(**facts: Any) -> Callable[[Run], Run]:
    """Declare a function from a release to a `Result` as a section of the report.

    The keywords are the attributes of `Section`, except `run`.
    """

    def declare(run: Run) -> Run:
        _SECTIONS[facts["name"]] = Section(run, **facts)
        return run

    return declare


def commands() -> dict[str, Command]:
    """Return all commands of the analyses, by name."""
    _load()
    return dict(sorted(_COMMANDS.items()))


def command_named(name: str) -> Command:
    """Return one of the listed commands. The function imports only the file that declares it."""
    import_module(listed_commands()[name]["module"])
    return _COMMANDS[name]


@cache
def listed_commands() -> dict[str, dict[str, str]]:
    """Return the module and the help of each command from a generated file, without any import."""
    found: dict[str, dict[str, str]] = json.loads(LIST.read_text(encoding="utf-8"))
    return found


def sections() -> list[Section]:
    """Return all sections of the report, in order."""
    _load()
    return sorted(_SECTIONS.values(), key=lambda part: part.place)


def _load() -> None:
    """Import every file of the folder, because each file can declare analyses."""
    folder = import_module("dpcov.analysis")
    for module in pkgutil.iter_modules(folder.__path__):
        import_module(f"dpcov.analysis.{module.name}")


def list_text() -> str:
    """Return the text of the file that lists the commands."""
    found = {
        name: {"module": own.run.__module__, "help": own.help} for name, own in commands().items()
    }
    return json.dumps(found, indent=2) + "\n"


if __name__ == "__main__":
    declared = import_module("dpcov.analysis.declared")  # whose commands the analyses declare
    LIST.write_text(declared.list_text(), encoding="utf-8")
