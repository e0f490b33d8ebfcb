"""One check of parameters: what each may be is declared, the rest is refused in a sentence."""

import dataclasses
import inspect
from typing import Annotated, get_args, get_origin

import numpy as np
import pandas as pd
import pytest

import dpcov
from dpcov import api
from dpcov.api.ledger import Ledger
from dpcov.api.request import Request
from dpcov.core import parameters
from dpcov.core.entropy import Entropy
from dpcov.core.files import write
from dpcov.core.parameters import Interval, Share, check, check_shares, did_you_mean, kinds_of
from dpcov.core.privacy import PureDP
from dpcov.core.spelling import asked, named, shell_spelling
from dpcov.errors import DpcovError, MechanismError, ReleaseError
from dpcov.mechanisms import MECHANISMS, MechanismOptions, mechanism_named
from dpcov.rows.sources.rows import Rows

TABLE = np.random.default_rng(0).uniform(0, 1, (400, 3))
BOUNDS = {"lower": 0, "upper": 1}
LIMITS = ("epsilon", "delta", "rho", "neighbors", "lower", "upper")  # checked where they are read


@pytest.fixture
def untouched(tmp_path, monkeypatch):
    """Return a ledger; check at the end that nothing was read, drawn or charged."""
    ledger, touched = Ledger.create(tmp_path / "l", PureDP(9.0)), []
    for owner, name in ((Rows, "second_moments"), (Entropy, "words"), (api, "open_source")):
        monkeypatch.setattr(owner, name, lambda *_, name=name, **__: touched.append(name))
    yield ledger
    assert touched == []
    assert not ledger.account().entries


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epslon": 1.0}, "There is no option 'epslon'; did you mean 'epsilon'?"),
        ({"mechansim": "gaussian"}, "There is no option 'mechansim'; did you mean 'mechanism'?"),
        ({"trace_shar": 0.1}, "There is no option 'trace_shar'; did you mean 'trace_share'?"),
        ({"colour": "blue"}, "There is no option 'colour'."),
        ({"where": [3]}, "where must be text or a list of text, not of type list."),
        ({"threads": 0}, "threads must be a whole number, at least 1 or None, not 0."),
        ({"threads": "two"}, "threads must be a whole number, at least 1 or None, not 'two'."),
        ({"seed": True}, "seed must be a whole number or None, not True."),
        ({"seed": 0.5}, "seed must be a whole number or None, not 0.5."),
        ({"trust_views": "no"}, "trust_views must be True or False, not 'no'."),
        ({"schema": 3}, "schema must be Schema, text, Path or None, not 3."),
        ({"dataset": b"x"}, "dataset must be text or None, not of type bytes."),
        (
            {"radius": "secret"},
            "radius must be a number, 'private' or 'public' or None, not 'secret'.",
        ),
        ({"intercept": [1]}, "intercept must be a number or None, not of type list."),
        ({"denoise": None}, "denoise must be 'none', 'project' or 'shrink', not None."),
        ({"mechanism": None}, "mechanism must be text, not None."),
        ({"mechanism": "gausian"}, "The mechanism 'gausian' does not exist; did you"),
        ({"mechanism": "standardized", "look_share": 2}, "look_share must be above 0 and below 1"),
        ({"mechanism": "gaussian", "rank": 2}, "The mechanism 'gaussian' has no option 'rank'."),
        ({"trace_share": "x"}, "trace_share must be a number, not 'x'."),
        ({"epsilon": "1"}, "epsilon must be a number above 0, not of type str."),
    ],
    ids=str,
)
def test_a_wrong_argument_is_a_sentence_before_anything_is_read_or_booked(
    untouched, wrong, message
) -> None:
    with pytest.raises(DpcovError) as caught:
        dpcov.release(TABLE, **{**BOUNDS, "epsilon": 1.0, "ledger": untouched, **wrong})
    assert str(caught.value).startswith(message)


def test_a_ledger_of_another_kind_is_refused_before_anything_is_read(untouched) -> None:
    with pytest.raises(ReleaseError, match="ledger must be Ledger, text, Path or None"):
        dpcov.release(TABLE, **BOUNDS, epsilon=1.0, ledger=object())


@pytest.mark.parametrize(
    "call",
    [
        lambda **given: dpcov.release_by("no.csv", "site", schema="no.toml", **given),
        lambda **given: dpcov.release("no.csv", schema="no.toml", **given),
        lambda **given: dpcov.plan("no.toml", 100, **given),
    ],
)
def test_functions_that_take_the_same_arguments_refuse_the_same(call) -> None:
    with pytest.raises(MechanismError, match=r"'epslon'; did you mean 'epsilon'\?"):
        call(epslon=1.0)
    with pytest.raises(ReleaseError, match=r"goal must be 'all', .*, not 'truth'"):
        call(epsilon=1.0, goal="truth")
    with pytest.raises(DpcovError, match=r"no\.toml"):  # control: nothing is wrong with the rest
        call(epsilon=1.0, goal="frobenius")


def test_release_and_release_by_write_out_the_fields_of_a_request() -> None:
    request = {**inspect.signature(Request).parameters}
    whole = {**inspect.signature(dpcov.release).parameters}
    by = {**inspect.signature(dpcov.release_by).parameters}
    assert [*whole] == ["data", *request]
    assert {*by, "lower", "upper", "missing", "n_features"} == {*whole, "by"}
    for one in (whole, by):
        assert one.pop("options").kind is inspect.Parameter.VAR_KEYWORD
    assert {name: one for name, one in whole.items() if name != "data"} == {
        name: one for name, one in request.items() if name != "options"
    }
    for name in by.keys() - {"by", "schema"}:  # release_by needs a schema
        assert by[name] == whole[name]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"options": {"seed": 1}}, "There is no option 'seed'."),
        ({"options": {"epslon": 1}}, "There is no option 'epslon'; did you mean 'epsilon'?"),
        ({"threads": 0}, "threads must be a whole number, at least 1 or None, not 0."),
        ({"rho": 1.0}, "Give rho alone, or epsilon with an optional delta, not both."),
        ({"neighbors": "swap"}, "There is no neighbour relation 'swap'."),
        ({"mechanism": "gausian"}, "The mechanism 'gausian' does not exist; did you mean"),
    ],
    ids=str,
)
def test_a_request_is_checked_without_any_data(wrong, message) -> None:
    with pytest.raises(DpcovError) as caught:
        Request(**{"epsilon": 1.0, **wrong})
    assert str(caught.value).startswith(message)


def test_an_argument_that_release_by_does_not_have_is_refused() -> None:
    for name in ("lower", "n_features", "missing"):
        with pytest.raises(MechanismError, match=f"There is no option '{name}'"):
            dpcov.release_by("no.csv", "site", schema="no.toml", epsilon=1.0, **{name: 1})
    with pytest.raises(ReleaseError, match="schema must be Schema, text or Path, not None"):
        dpcov.release_by("no.csv", "site", schema=None, epsilon=1.0)


def test_every_option_of_a_mechanism_is_one_of_the_signature_and_says_what_it_may_be() -> None:
    fields = {
        (kind, field.name): kinds_of(kind)[field.name]
        for kind in MECHANISMS.values()
        for field in dataclasses.fields(kind)
    }
    assert {name for _, name in fields} - {"radius", "upper"} == set(kinds_of(MechanismOptions))
    assert [where for where, stated in fields.items() if says_nothing(stated)] == []


def says_nothing(kind) -> bool:
    """Return True if an annotation leaves the range of a number open."""
    return kind is float or (get_origin(kind) is not Annotated and float in get_args(kind))


def test_a_number_of_numpy_becomes_a_plain_one() -> None:
    made = mechanism_named("unbounded-gaussian", looks=np.int64(3), value_share=np.float32(0.25))
    assert (type(made.looks), made.looks) == (int, 3)
    assert (type(made.value_share), made.value_share) == (float, 0.25)
    assert dpcov.release(TABLE, **BOUNDS, epsilon=1.0, seed=np.int64(3)).reproducible


@pytest.mark.parametrize("value", [0.0, 1.0, -1, 2, np.nan, np.inf, "x", None, True])
def test_a_share_of_the_budget_lies_between_nothing_and_all(value) -> None:
    with pytest.raises(MechanismError, match="share must be above 0 and below 1, not"):
        check("share", value, Share, MechanismError)
    check("share", 0.5, Share, MechanismError)


@pytest.mark.parametrize(
    ("kind", "held", "refused"),
    [
        (parameters.ShareOrNone, (0, 0.5), (-1e-9, 1)),
        (parameters.Probability, (1e-9, 0.999), (0, 1)),
        (parameters.Power, (0, 0.5, 1), (-1e-9, 1.001)),
        (parameters.Above0, (1e-300, 0.5, 1e300), (0, -1)),
        (parameters.AtLeast0, (0, 0.5), (-1e-9,)),
        (parameters.AtLeast1, (1, 1.5), (0.999,)),
        (parameters.Whole, (0, 7), (-1, 0.5)),
        (parameters.Count, (1, 7), (0, 1.5)),
        (parameters.Samples, (3, 7), (2, 3.5)),
        (Annotated[float, Interval(0), Interval(-1, 1)], (0.5,), (-0.5, 1.5)),
    ],
)
def test_what_a_kind_of_parameter_holds_and_what_not(kind, held, refused) -> None:
    for value in held:
        check("it", value, kind, MechanismError)
    for value in refused:
        with pytest.raises(MechanismError, match="it must be"):
            check("it", value, kind, MechanismError)


def test_a_long_value_is_quoted_in_short() -> None:
    for length in (57, 58):  # with its quotes below and at the limit
        with pytest.raises(MechanismError, match=f"not '{'x' * length}'\\.$"):
            check("it", "x" * length, int, MechanismError)
    with pytest.raises(MechanismError, match=r"not 'x{59}\.\.\.\.$"):
        check("it", "x" * 1000, int, MechanismError)


def test_a_number_without_a_text_is_refused_all_the_same() -> None:
    with pytest.raises(MechanismError, match="below 1, not of type int"):
        check("share", 10**5000, Share, MechanismError)


def test_intervals_hold_the_ends_that_they_name() -> None:
    ends = {"neither": (False, False), "left": (True, False), "both": (True, True)}
    for closed, held in ends.items():
        assert (0 in Interval(0, 1, closed), 1 in Interval(0, 1, closed)) == held
    assert 1e308 in Interval(0)
    assert np.inf not in Interval(0, closed="both")


def test_shares_that_leave_nothing_are_refused_by_name() -> None:
    @dataclasses.dataclass
    class Shares:
        one: float
        two: float

    check_shares(Shares(0.4, 0.5), "one", "two")
    with pytest.raises(MechanismError, match="one and two leave nothing for the release"):
        check_shares(Shares(0.5, 0.5), "one", "two")


def test_a_message_never_quotes_what_may_hold_rows() -> None:
    frame = pd.DataFrame({"salary": [71_234.0, 99_999.0]})
    for name in ("schema", "ledger", "seed", "table", "radius", "where", "denoise"):
        with pytest.raises(DpcovError) as caught:
            dpcov.release(TABLE, **BOUNDS, epsilon=1.0, **{name: frame})
        assert "71" not in str(caught.value)
        assert "DataFrame" in str(caught.value)
    with pytest.raises(ReleaseError) as caught:
        dpcov.release(TABLE, **BOUNDS, epsilon=1.0, seed="postgresql://me:secret@host/db")
    assert "secret" not in str(caught.value)


def test_the_nearest_name_is_suggested_if_any_is_near() -> None:
    assert did_you_mean("epslon", ["delta", "epsilon"]) == "; did you mean 'epsilon'?"
    assert did_you_mean("colour", ["delta", "epsilon"]) == "."


def test_python_names_arguments_and_the_shell_flags(tmp_path) -> None:
    assert (named("trust_views"), asked("force"), asked("table", "NAME")) == (
        "trust_views",
        "force=True",
        "table='NAME'",
    )
    path = tmp_path / "x"
    path.write_text("old")
    with shell_spelling():
        assert (named("trust_views"), named("n"), asked("force")) == (
            "--trust-views",
            "-n",
            "--force",
        )
        assert asked("table", "NAME") == "--table NAME"
        with pytest.raises(DpcovError, match="--force"):
            write(path, "new", force=False)
        with pytest.raises(ReleaseError, match="--threads must be"):
            Request(epsilon=1.0, threads=-1)
    with pytest.raises(DpcovError, match="force=True"):
        write(path, "new", force=False)


@pytest.mark.parametrize("kind", [float, float | None])
def test_control_an_option_without_a_range_is_noticed(kind) -> None:
    assert says_nothing(kind)
    assert not says_nothing(Share | None)


def test_the_rows_of_a_plan_are_a_whole_number() -> None:
    schema = dpcov.Schema.from_bounds(0, 1, ["a", "b"])
    for rows in (0, 1.5, 10**13, "many"):
        with pytest.raises(ReleaseError, match="rows must be a whole number, at least 1 and at"):
            dpcov.plan(schema, rows, epsilon=1.0)
