"""Hand malformed files to the command line, one after the other, in a process with little memory.

    python readers_at_work.py KIND FIRST LAST STEP

Prints a line of JSON for each file: exit code, and what is wrong with the output, if anything.
The caller sees which file ended the process, if one did.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from dpcov import cli
from mutants import PERSONS, SCHEMA, SECRET_NUMBER, SECRET_TEXT, mutant

MEMORY = 512 * 2**20  # bytes that one file may need, beyond what the process has when warm
NAMES = {"csv": "m.csv", "gz": "m.csv.gz", "parquet": "m.parquet"}
TABLE = "id,a,b,c,w\n" + f"{SECRET_TEXT},0.5,x,{SECRET_NUMBER},1\n" * 50
RELEASE = "release {data} --schema {schema} --epsilon 1 --ledger {ledger} --out r.json --force"
READERS = ["show m", "correlation m --json", "pca m", "sample m -n 3", "ridge m --target a"]


def lines(kind: str, number: int) -> list[str]:
    """What is run on file `number` of a kind."""
    names = {"data": "t.csv", "schema": "s.toml", "ledger": "x.ledger"}
    match kind:
        case "release":
            return [READERS[number % len(READERS)]]
        case "ledger":
            names["ledger"] = "m"
            return [RELEASE.format(**names), "ledger show m", "ledger verify m"]
        case "schema":
            names["schema"] = "m"
        case _:
            names["data"] = NAMES[kind]
            names["schema"] = ["s.toml", "p.toml"][number % 2]
    options = ["", " --threads 2", " --delta 1e-6", " --neighbors replace-one --epsilon 2"]
    names["ledger"] = "y.ledger" if number % 4 == 3 else names["ledger"]
    return [RELEASE.format(**names) + " --denoise none" + options[number % 4]]


def run(line: str, output: Path) -> tuple[int, str]:
    """Exit code and all output of a command line, of compiled libraries too."""
    with output.open("w+b") as file:
        kept = [os.dup(stream) for stream in (1, 2)]
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
        code = 0
        try:
            cli.main(line.split())
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        except BaseException as error:
            code = 99
            os.write(2, f"Traceback: {type(error).__name__}".encode())
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for stream, old in zip((1, 2), kept, strict=True):
                os.dup2(old, stream)
                os.close(old)
    return code, output.read_text(errors="replace")


def faults(line: str, code: int, text: str, planted: bool) -> list[str]:
    """What is wrong with how a command ended; `planted` says that the secrets are in data."""
    found = []
    if code not in (0, 2):
        found.append(f"exit code {code}: {text.strip()[-200:]}")
    if "Traceback" in text or 'File "' in text:
        found.append("traceback")
    written = Path("r.json").read_text() if Path("r.json").exists() else ""
    if planted and any(secret in text + written for secret in (SECRET_TEXT, SECRET_NUMBER)):
        found.append("secret")
    if any(Path().glob(".dpcov-*")):
        found.append("a file left behind")
    return [f"{line}: {fault}" for fault in found]


def new_ledgers() -> None:
    """Ledgers that were not filled yet."""
    for name in ("x.ledger", "y.ledger"):
        Path(name).unlink(missing_ok=True)
        neighbors = "replace-one" if name == "y.ledger" else "add-remove"
        line = f"ledger create {name} --epsilon 1e6 --delta 0.1 --neighbors {neighbors}"
        assert run(line, Path("output"))[0] == 0, Path("output").read_text()


def main(kind: str, first: int, last: int, step: int) -> None:
    """Run all files of a range."""
    Path("s.toml").write_text(SCHEMA)
    Path("p.toml").write_text(PERSONS)
    Path("t.csv").write_text(TABLE)
    new_ledgers()
    output = Path("output")
    line = RELEASE.format(data="t.csv", schema="p.toml", ledger="x.ledger")
    assert run(line, output)[0] == 0, output.read_text()
    Path("m").write_bytes(Path("r.json").read_bytes())
    for warm in READERS:
        run(warm, output)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    name = Path(NAMES.get(kind, "m"))
    for done, number in enumerate(range(first, last, step)):
        if done % 100 == 99:
            new_ledgers()
        name.write_bytes(mutant(kind, number))
        found, codes = [], []
        for command in lines(kind, number):
            Path("r.json").unlink(missing_ok=True)
            code, text = run(command, output)
            codes.append(code)
            found += faults(command, code, text, planted=kind != "release")
        peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        print(
            json.dumps(
                {
                    "number": number,
                    "codes": codes,
                    "faults": found,
                    "peak": peak,
                    "text": text[:150],
                }
            )
        )
        sys.stdout.flush()


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        os.chdir(place)
        main(sys.argv[1], *map(int, sys.argv[2:5]))
