"""Coverage-guided fuzzing by atheris, where it is installed; else skipped, with the reason.

    python coverage_guided.py TARGET RUNS

atheris (`make trust` installs it) instruments the library and steers its inputs towards new
branches. An error that is not the library's own ends the run.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from figure import Figure

TARGETS = {"text": 1, "schema": 10, "release": 10}  # and how many inputs of each, to one of text


def coverage_guided(runs: int) -> list[Figure]:
    """Count inputs that raise foreign errors, in about 21 times `runs` inputs."""
    attack = "malformed files, guided by coverage"
    if importlib.util.find_spec("atheris") is None:
        return [Figure(attack, "errors", "0", "skipped: atheris is not installed", True)]
    from importlib.metadata import version

    figures = []
    for target, share in TARGETS.items():
        done = subprocess.run(
            [sys.executable, __file__, target, str(runs * share)],
            capture_output=True,
            text=True,
            check=False,
        )
        ran = re.findall(r"^#(\d+)", done.stderr, re.M)
        what = f"atheris {version('atheris')}, {target}, {ran[-1] if ran else 0} inputs: errors"
        if done.returncode:
            print(done.stderr[-2000:])
        ok = done.returncode == 0 and bool(ran)
        figures.append(Figure(attack, what, "0", str(int(done.returncode != 0)), ok))
    return figures


def main(target: str, runs: str) -> None:
    """Fuzz one reader until `runs` inputs were read, or one is not refused by an error of ours."""
    import atheris

    with atheris.instrument_imports(include=["dpcov"]):
        import dpcov.releases.file
        import dpcov.rows.sources.text  # noqa: F401
        import hostile_files
        from dpcov.errors import DpcovError
        from dpcov.releases import Release
        from dpcov.rows.schema import Schema
        from dpcov.rows.sources import open_rows

    schema = Schema.parse(
        {
            "missing": ["", "NA"],
            "columns": {
                "a": {"kind": "numeric", "lower": 0, "upper": 1},
                "b": {"kind": "categorical", "levels": ["x", "y"]},
            },
        }
    )
    with TemporaryDirectory() as place:
        path = Path(place) / "m"
        seeds = Path(place) / "seeds"
        seeds.mkdir()
        kind = "csv" if target == "text" else target
        for number in range(30):
            (seeds / str(number)).write_bytes(hostile_files.mutant(kind, number))

        def read(content: bytes) -> None:
            path.write_bytes(b"a,b\n" + content if target == "text" else content)
            try:
                if target == "text":
                    open_rows(path, schema).second_moments()
                elif target == "schema":
                    Schema.load(path)
                else:
                    Release.load(path)
            except DpcovError:
                pass

        atheris.Setup(
            [
                sys.argv[0],
                f"-runs={runs}",
                "-max_len=20000",
                f"-artifact_prefix={place}/",
                str(seeds),
            ],
            read,
        )
        atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
