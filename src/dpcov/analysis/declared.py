"""What an analysis declares of itself beside its code: its command, its place in the report.

The command line, the shell's completion, the documentation, the report and the tests read it here.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from dpcov.core.show.result import Result

Run = TypeVar("Run", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a command, for a parameter of the function behind it.

    Attributes
    ----------
    flag, help : as the command line spells and explains it.
    kind : type of its value.
    read : makes the argument of the function from the value, where it was given.
    completes : function of `dpcov.cli.completions` that offers values.
    choices : the only values.
    least : smallest value.

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
    """A command that computes something from a release file.

    Attributes
    ----------
    name, help : as the command line has them.
    run : takes a release and the options; what it has a default for may be left out.
    options : of parameters of `run`.
    example : options that work on the table that the documentation's examples use.

    """

    name: str
    help: str
    run: Callable[..., Result]
    options: dict[str, Option]
    example: str


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report.

    Attributes
    ----------
    run : takes a release and, by name, any of ``target``, ``features`` and ``generator``; where it
        has no default for the target, the section is there only if one was asked for.
    name : of the place in the page, also the seed of its simulations.
    heading, lead : what it is about; ``{target}`` stands for what was asked to be predicted.
    place : sections stand in this order.
    folded : whether the table is shown only when asked for.
    signal : whether it is left out where no correlation rises above the noise.

    """

    run: Callable[..., Result]
    name: str
    heading: str
    lead: str
    place: int
    folded: bool = True
    signal: bool = True


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


def command(name: str, text: str, example: str = "", **options: Option) -> Callable[[Run], Run]:
    """Make a command of a function from a release to a `Result`."""

    def declare(run: Run) -> Run:
        _COMMANDS[name] = Command(name, text, run, options, example)
        return run

    return declare


def section(**facts: Any) -> Callable[[Run], Run]:
    """Make a section of the report of a function from a release to a `Result`."""

    def declare(run: Run) -> Run:
        _SECTIONS[facts["name"]] = Section(run, **facts)
        return run

    return declare


def commands() -> dict[str, Command]:
    """All commands that analyses declare."""
    _load()
    return dict(sorted(_COMMANDS.items()))


def sections() -> list[Section]:
    """All sections of the report, in order."""
    _load()
    return sorted(_SECTIONS.values(), key=lambda part: part.place)


def _load() -> None:
    """Import every analysis: an analysis is a file of the folder, and nothing lists them."""
    folder = import_module("dpcov.analysis")
    for module in pkgutil.iter_modules(folder.__path__):
        import_module(f"dpcov.analysis.{module.name}")
