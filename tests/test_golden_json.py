"""The output of `--json` stays the same for every command; floats to 1e-9.

The plan is for one mechanism whose errors follow from its noise distribution. Simulations of other
mechanisms take half a minute, and rounding on another CPU can change their choices.

Run `python tests/test_golden_json.py` only for intended changes: it replaces `golden_json.json`.
"""

import contextlib
import io
import json
import shutil
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from dpcov import cli, signatures
from dpcov.api.ledger import Ledger
from dpcov.core.privacy import Guarantee, Neighbors, PureDP
from examples_of_commands import ANALYSES, OPTIONS
from tables_for_tests import unchained, write_people
from test_golden import CLOSE, same

FILE = Path(__file__).with_name("golden_json.json")
# A file of the previous version, so that changes of new releases do not change the analyses.
RELEASE = Path(__file__).with_name("data") / "0.2.0" / "auto-zcdp.json"
OTHER_RELEASE = RELEASE.with_name("gaussian.json")
PAIR = """
[columns.age]
kind = "numeric"
lower = 0
upper = 100

[columns.income]
kind = "numeric"
lower = 0
upper = 200000
"""
LINES = [
    "show r.json",
    "passport r.json --curator Hospital --published 2026-01-02",
    "mechanisms",
    "correlation r.json",
    "covariance r.json",
    "compare r.json other.json",
    "table1 r.json --by c",
    "pca r.json",
    "ridge r.json --target b",
    "ols r.json --target b",
    "lda r.json --target c",
    "precision r.json",
    "sample r.json -n 2 --seed 1",
    "plan pair.toml --rows 400 --rho 0.5 --mechanism gaussian",
    "audit --mechanism gaussian --epsilon 1 --delta 1e-5",
    "ledger create new.db --epsilon 1",
    "ledger show l.db",
    "ledger verify l.db",
    "ledger migrate old.db",
    "ledger add-budget l.db --epsilon 1",
    "ledger renew l.db --dataset second",
    "release people.csv --schema people.toml --epsilon 20 --seed 1 --out new.json",
    "key create new.key",
    "sign r.json --key lab.key",
    "verify signed.json --key lab.key.pub",
]
GUARANTEE = Guarantee(PureDP(0.5), Neighbors.ADD_REMOVE)
# Hashes of times, the version, times, and hashes of new keys.
MASKED = {"head", "made_by", "time", "fingerprint"}


def masked(document):
    if isinstance(document, dict):
        return {
            key: "masked" if key in MASKED else masked(value) for key, value in document.items()
        }
    return [masked(part) for part in document] if isinstance(document, list) else document


def printed(line):
    """Return the document that a command prints, with repeatable generators of simulations."""
    write_people(Path())
    Path("pair.toml").write_text(PAIR)
    shutil.copy(RELEASE, "r.json")
    shutil.copy(OTHER_RELEASE, "other.json")
    shutil.copy(RELEASE, "signed.json")
    signatures.create_key("lab.key")
    signatures.sign("signed.json", "lab.key")
    for name in ("l.db", "old.db"):
        Ledger.create(name, PureDP(2.0))
    unchained(Path("old.db"))
    Ledger.open("l.db").reserve(GUARANTEE, note="gaussian")
    fresh = np.random.default_rng
    out = io.StringIO()
    with (
        mock.patch("numpy.random.default_rng", lambda seed=0: fresh(seed)),
        contextlib.redirect_stdout(out),
        pytest.raises(SystemExit) as ended,
    ):
        cli.main([*line.split(), "--json"])
    assert ended.value.code == 0
    return masked(json.loads(out.getvalue()))


GOLDEN = json.loads(FILE.read_text()) if FILE.exists() else {}


def test_every_command_with_json_has_a_golden_document():
    reported = {name for name, options in OPTIONS.items() if "--json" in options}
    golden = {name for name in reported for line in LINES if f"{line} ".startswith(f"{name} ")}
    assert reported - golden <= ANALYSES.keys()  # one that is new has a test of its own
    assert len(golden) == len(LINES)
    assert list(GOLDEN) == LINES


@pytest.mark.parametrize("line", LINES)
def test_json_is_as_it_was(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert same(printed(line), GOLDEN[line])


def test_what_is_masked_is_all_that_may_differ():
    one = {"head": "ab", "left": {"epsilon": 1.0}, "releases": [{"time": "today", "rho": 0.5}]}
    assert masked(one) == masked(one | {"head": "cd"})
    assert not same(masked(one), masked(one | {"left": {"epsilon": 1 + 10 * CLOSE}}))
    assert not same(masked(one), masked(one | {"releases": []}))


if __name__ == "__main__":
    found = {}
    for line in LINES:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            found[line] = printed(line)
    lines = [f"{json.dumps(line)}: {json.dumps(document)}" for line, document in found.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
