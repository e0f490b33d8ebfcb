"""Every option of every mechanism is set by ``--set NAME=VALUE``, or refused before the spend."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

from dpcov import cli
from dpcov.api import PreparedRelease, prepare
from dpcov.api.ledger import Ledger
from dpcov.api.request import Request
from dpcov.core.parameters import kinds_of
from dpcov.core.privacy import ApproxDP
from dpcov.errors import DpcovError
from dpcov.mechanisms import MECHANISMS, options_of
from dpcov.mechanisms.radius import Radius
from dpcov.papers import separate
from dpcov.rows.schema import Schema

SCHEMA = Schema.from_bounds(-1, 1, ("a", "b"))
TABLE = np.zeros((3, 2))
BUDGETS: list[dict[str, Any]] = [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.5}]
OPTIONS = [(name, option) for name in MECHANISMS for option in options_of(name)]
NUMBERS = {"rank": "1", "degrees": "60", "leverage": "40.5", "looks": "2", "references": "3"}
NUMBERS |= {"eigenvalue_bound": "0.5"}  # of options that are None by default
BESIDE = {"eigenvector-sampling values=rayleigh": ["allocation=uniform"]}
WRONG = ["", "word", "[0.1]", "{a = 1}", "2020-01-01", "nan", "-inf", "-0.1", "'0.1'", "\x1b[1m"]


def set_to(name: str, *stated: str) -> PreparedRelease:
    """Return a request with options as the command line reads them, with a suitable budget."""
    refusals = []
    for budget in BUDGETS:
        try:
            options: dict[str, Any] = dict(map(cli._option, stated))
            radius = options.pop("radius", None)
            request = Request(
                schema=SCHEMA, mechanism=name, **budget, radius=radius, options=options
            )
            return prepare(TABLE, request)
        except DpcovError as error:
            refusals.append(error)
    raise refusals[0]


def right(name: str, option: str) -> list[str]:
    """Return texts of valid values of the option."""
    default = options_of(name)[option]
    hint = get_type_hints(MECHANISMS[name], localns={"Radius": Radius, "separate": separate})[
        option
    ]
    if isinstance(default, bool):
        return ["true", "false"]
    if isinstance(default, str):
        return [str(choice) for choice in get_args(hint) if isinstance(choice, str)]
    return [NUMBERS[option]] if default is None else [repr(default)]


def test_no_option_of_a_mechanism_has_the_name_of_another_figure_of_a_request() -> None:
    assert {option for _, option in OPTIONS} & kinds_of(Request).keys() == {"radius"}, (
        "which prepare hands on"
    )


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_every_option_is_set_from_text(name: str, option: str) -> None:
    texts = right(name, option)
    assert texts
    for text in texts:
        stated = f"{option}={text}"
        beside = BESIDE.get(f"{name} {stated}", [])
        value = getattr(set_to(name, stated, *beside).mechanism, option)
        assert str(value).lower() == text


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_text_that_is_no_value_of_an_option_is_refused_before_anything_is_read(
    name: str, option: str
) -> None:
    for text in WRONG:
        with pytest.raises(DpcovError):
            set_to(name, f"{option}={text}")


@pytest.mark.parametrize(
    "stated", ["eigenvalue_bound=word", "eigenvalue_bound=0", "upper=1", "lower=1", "radius=-1"]
)
def test_the_command_refuses_in_a_sentence_and_spends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stated: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("a,b\n0,1\n")
    Path("s.toml").write_text(
        '[columns]\na = {kind = "numeric", lower = 0, upper = 1}\n'
        'b = {kind = "numeric", lower = 0, upper = 1}\n'
    )
    ledger = Ledger.create("l.db", ApproxDP(1.0, 1e-5), count="sums")
    line = "release t.csv --schema s.toml --out r.json --ledger l.db --epsilon 0.5 --delta 1e-6"
    whole = [*line.split(), "--mechanism", "heavy-tailed", "--set"]
    with pytest.raises(SystemExit) as ended:
        cli.main([*whole, stated])
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert ledger.account().spent == {"epsilon": 0.0, "delta": 0.0}
    with pytest.raises(SystemExit) as ended:
        cli.main([*whole, "eigenvalue_bound=2"])
    assert ended.value.code == 0
