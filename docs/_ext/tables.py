"""What pages are generated from: the registry, the claims, the commands, the public names.

``<!-- generate: NAME -->`` in a page stands for the Markdown that `GENERATORS[NAME]` gives.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MARK = re.compile(r"^<!-- generate: ([a-z-]+) -->$", re.MULTILINE)


def generated(text: str) -> str:
    """A page's text with everything that is generated in its place."""
    return MARK.sub(lambda found: GENERATORS[found[1]](), text)


def papers() -> str:
    """Every claim of every paper, with its verdict."""
    return "\n".join(line for folder in _papers() for line in _paper(folder))


def verdicts() -> str:
    """How many claims of each paper got which verdict."""
    kinds = ["reproduced", "not reproduced", "refuted"]
    lines = [["paper", *kinds]]
    for folder in _papers():
        found = [claim["verdict"] for claim in _claims(folder)]
        lines.append([_title(folder), *(str(found.count(kind)) for kind in kinds)])
    return _table(lines)


def commands() -> str:
    """Every command with its arguments and options."""
    from typer.main import get_command

    from dpcov.cli import app

    return "\n".join(line for part in _walk("dpcov", get_command(app)) for line in part)


def public_names() -> str:
    """The public functions and classes of dpcov."""
    import dpcov

    return _documented([(f"dpcov.{name}", getattr(dpcov, name)) for name in sorted(dpcov.__all__)])


def mechanism_classes() -> str:
    """The mechanisms, in the order of the registry."""
    from dpcov.mechanisms import MECHANISMS

    return _documented(
        [(f"{kind.__module__}.{kind.__name__}", kind) for kind in MECHANISMS.values()],
        members=False,
    )


def estimators() -> str:
    """The classes with scikit-learn's interfaces."""
    return _module("dpcov.estimators")


def plots() -> str:
    """The functions that draw."""
    return _module("dpcov.plot")


GENERATORS: dict[str, Callable[[], str]] = {
    "papers": papers,
    "verdicts": verdicts,
    "commands": commands,
    "public-names": public_names,
    "mechanism-classes": mechanism_classes,
    "estimators": estimators,
    "plots": plots,
}


def _papers() -> list[Path]:
    return sorted(path.parent for path in (ROOT / "experiments").glob("*/claims.toml"))


def _claims(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomllib.loads((folder / "claims.toml").read_text())["claim"]
    return found


def _title(folder: Path) -> str:
    return (folder / "README.md").read_text().splitlines()[0].lstrip("# ")


def _paper(folder: Path) -> Iterator[str]:
    yield f"\n## {_title(folder)}\n"
    yield f"`experiments/{folder.name}`\n"
    lines = [["claim", "where", "expected", "verdict", "why"]]
    for claim in _claims(folder):
        verdict = f"**{claim['verdict']}**" if claim["verdict"] != "reproduced" else "reproduced"
        cells = [claim["claim"], claim["where"], claim["expected"], verdict, claim["why"]]
        lines.append([_plain(cell) for cell in cells])
    yield _table(lines)


def _plain(text: str) -> str:
    """Text of which Markdown makes nothing else; the verdict's own stars stay."""
    if text.startswith("**"):
        return text
    return re.sub(r"([\\|*_<>$\[\]`])", r"\\\1", text)


def _walk(name: str, command: Any) -> Iterator[list[str]]:
    """A section for each command that does something."""
    if hasattr(command, "commands"):
        for own, inner in command.commands.items():
            yield from _walk(f"{name} {own}", inner)
        return
    lines = [f"\n## {name}\n", f"{inspect.cleandoc(command.help or '')}\n"]
    rows = [["option", "meaning"]]
    for parameter in command.params:
        if parameter.name == "help":
            continue
        stated = parameter.param_type_name == "option"
        spelt = [*parameter.opts, *parameter.secondary_opts]
        first = ", ".join(spelt) if stated else parameter.metavar or parameter.name.upper()
        needed = " Required." if parameter.required and stated else ""
        text = " ".join((getattr(parameter, "help", None) or "").split())
        rows.append([f"`{first}`", _plain(text) + needed])
    yield [*lines, _table(rows) if len(rows) > 1 else ""]


def _module(name: str) -> str:
    """A module's public functions and classes."""
    from importlib import import_module

    module = import_module(name)
    own = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == name]
    names = getattr(module, "__all__", [key for key in own if not key.startswith("_")])
    return _documented([(f"{name}.{key}", getattr(module, key)) for key in names])


def _documented(named: list[tuple[str, Any]], *, members: bool = True) -> str:
    lines = ["```{eval-rst}"]
    for name, value in named:
        if inspect.isclass(value):
            lines += [f".. autoclass:: {name}", *(["   :members:"] if members else []), ""]
        else:
            lines += [f".. autofunction:: {name}", ""]
    return "\n".join([*lines, "```"])


def _table(lines: list[list[str]]) -> str:
    rows = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([rows[0], "|" + "---|" * len(lines[0]), *rows[1:]])
