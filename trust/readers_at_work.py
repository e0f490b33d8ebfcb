"""Hand malformed files to the command line, one after the other, in a process with little memory.

    python readers_at_work.py KIND FIRST LAST STEP
    python readers_at_work.py bomb NAME

Prints a line of JSON for each file: exit code, and what is wrong with the output, if anything.
The caller sees which file ended the process, if one did.
"""

from __future__ import annotations

import functools
import json
import os
import resource
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import typer.main

import bombs
from dpcov import cli
from hostile_files import PERSONS, SCHEMA, SECRET_NUMBER, SECRET_TEXT, mutant

MEMORY = 512 * 2**20  # bytes that one file may need, beyond what the process has when warm
NAMES = {"csv": "m.csv", "gz": "m.csv.gz", "parquet": "m.parquet"}
TABLE = "id,a,b,c,w\n" + f"{SECRET_TEXT},0.5,x,{SECRET_NUMBER},1\n" * 50
RELEASE = "release {data} --schema {schema} --epsilon 1 --ledger {ledger} --out r.json --force"
READERS = ["show m", "correlation m --json", "pca m", "sample m -n 3", "ridge m --target a"]

# Made once, as in a process that runs one command; making it takes longer than most commands.
typer.main.get_command = functools.cache(typer.main.get_command)


def lines(kind: str, number: int) -> list[str]:
    """Return the commands to run on file `number` of a kind."""
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
    line = RELEASE.format(**names)
    if number % 8 != 0:  # an entry of the ledger takes as long as all the rest
        line = line.replace(" --ledger x.ledger", "")
    options = ["", " --mechanism laplace --threads 2", " --delta 1e-6"]
    options += [" --mechanism laplace --neighbors replace-one"]
    return [line + " --denoise none" + options[number // 2 % 4]]


def run(line: str | list[str], output: Path) -> tuple[int, str]:
    """Exit code and all output of a command line, of compiled libraries too."""
    with output.open("w+b") as file:
        kept = [os.dup(stream) for stream in (1, 2)]
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
        code = 0
        try:
            cli.main(line.split() if isinstance(line, str) else line)
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
    """Return the faults of a command's end; `planted`: the data contain the secrets."""
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


def new_ledger() -> None:
    """Create a ledger without charges."""
    Path("x.ledger").unlink(missing_ok=True)
    code, text = run("ledger create x.ledger --epsilon 1e6 --delta 0.1 --pure 1e5", Path("output"))
    assert code == 0, text


def peak_memory() -> int:
    """Return this process's peak memory in bytes; `ru_maxrss` would include its parent's."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def grown(before: int) -> int:
    """Return the growth of the peak memory, at least 0.

    The kernel counts pages in batches, so the memory can seem to shrink.
    """
    return max(0, peak_memory() - before)


def limit_memory() -> int:
    """Refuse the process more than MEMORY from now on; returns what it held at most so far."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    return peak_memory()


def explode(name: str) -> None:
    """Hand over one bomb, made by a process of its own."""
    Path("n.toml").write_text(bombs.NUMERIC)
    Path("c.toml").write_text(bombs.CATEGORICAL)
    Path("t.csv").write_text("a\n0\n")
    child = os.fork()
    if not child:
        bombs.BOMBS[name](Path(name))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    output = Path("output")
    warm = bombs.line("x.csv").replace("x.csv", "t.csv")
    assert run(warm, output)[0] == 0, output.read_text()
    run("show r.json", output)
    before = limit_memory()
    code, text = run(bombs.line(name), output)
    found = faults(bombs.line(name), code, text, planted=False)
    reported = {"number": 0, "codes": [code], "faults": found, "peak": grown(before)}
    print(json.dumps(reported), flush=True)


def main(kind: str, first: int, last: int, step: int) -> None:
    """Run all files of a range."""
    Path("s.toml").write_text(SCHEMA)
    Path("p.toml").write_text(PERSONS)
    Path("t.csv").write_text(TABLE)
    new_ledger()
    output = Path("output")
    line = RELEASE.format(data="t.csv", schema="s.toml", ledger="x.ledger")
    assert run(line, output)[0] == 0, output.read_text()
    Path("m").write_bytes(Path("r.json").read_bytes())
    for warm in READERS:
        run(warm, output)
    before = limit_memory()
    name = Path(NAMES.get(kind, "m"))
    for done, number in enumerate(range(first, last, step)):
        if done % 100 == 99:
            new_ledger()
        name.write_bytes(mutant(kind, number))
        found, codes = [], []
        for command in lines(kind, number):
            Path("r.json").unlink(missing_ok=True)
            code, text = run(command, output)
            codes.append(code)
            found += faults(command, code, text, planted=kind != "release")
        peak = grown(before)
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
        if sys.argv[1] == "bomb":
            explode(sys.argv[2])
        else:
            main(sys.argv[1], *map(int, sys.argv[2:5]))
