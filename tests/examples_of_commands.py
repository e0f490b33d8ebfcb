"""Every command with the example of its help: what tests of all commands go by."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from dpcov import cli, signatures
from dpcov.analysis import declared
from dpcov.api import release
from dpcov.api.ledger import Ledger
from dpcov.core.privacy import PureDP
from dpcov.rows.schema import Schema
from dpcov.rows.sources.partial import PartialMoment
from tables_for_tests import unchained, write_people, write_smokers

COMMANDS = cli.commands()
EXAMPLES = {
    name: command.epilog.removeprefix("Example: dpcov ") for name, command in COMMANDS.items()
}
OPTIONS = {
    name: {option for part in command.params for option in part.opts}
    for name, command in COMMANDS.items()
}
ANALYSES = {name: found.example for name, found in declared.commands().items()}


def write_all(folder: Path, seed: int | None = None) -> None:
    """Write every file that an example reads."""
    for name, content in written(seed).items():
        (folder / name).write_bytes(content)


@cache
def written(seed: int | None) -> dict[str, bytes]:
    """Return the files, made once for all tests of a process."""
    with TemporaryDirectory() as folder:
        make_all(Path(folder), seed)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def make_all(folder: Path, seed: int | None) -> None:
    table, schema = write_people(folder)
    with TemporaryDirectory() as name:
        smokers, declared = write_smokers(Path(name))
        asked = {"epsilon": 20.0, "mechanism": "matrix-laplace", "seed": seed}
        made = release(smokers, schema=declared, **asked)
        later = release(smokers, schema=declared, **asked | {"epsilon": 10.0})
    made.save(folder / "people.release.json")
    later.save(folder / "later.release.json")
    signatures.create_key(folder / "lab.key")
    made.save(folder / "people.signed.json")
    signatures.sign(folder / "people.signed.json", folder / "lab.key")
    for name in ("people", "old"):
        Ledger.create(folder / f"{name}.ledger", PureDP(2.0))
    unchained(folder / "old.ledger")
    PartialMoment.of(table, Schema.load(schema)).save(folder / "people.sums")


def fresh(name: str, suffix: str = "") -> str:
    """Return the example of a command with a new file as output; `suffix` if it has none."""
    words = EXAMPLES[name].split()
    if "--out" in words:
        at = words.index("--out") + 1
        words[at] = f"new{Path(words[at]).suffix}"
    elif suffix:
        words += ["--out", f"new{suffix}"]
    words += ["--mechanism", "matrix-laplace"] if name == "plan" else []  # all of them take long
    line = " ".join(words).replace("ledger create people", "ledger create new")
    return line.replace("key create lab", "key create new")
