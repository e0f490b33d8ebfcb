"""`make bench NAME=acceptance` compares made-up rows: equals are equal, and faults are caught."""

import string
import sys

import numpy as np
import pytest

import acceptance

SEEDS, TABLES = 50, tuple("abcdefgh")
MANY = tuple(string.ascii_letters)  # where a mean over tables is held to a few hundredths
PEER = "d'Orsi and Novikov 2025"
GENERATOR = np.random.default_rng()


@pytest.fixture(autouse=True)
def same_draws_whatever_ran_before(monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "GENERATOR", np.random.default_rng(0))


def row(method, table="a", kind="rho", size=0.5, rows=10_000, times=1.0, **more):
    """Return a method's rows; the errors have one distribution in all cells, times a factor."""
    drawn = {
        error: (times * GENERATOR.gamma(4, size=SEEDS)).tolist() for error in acceptance.ERRORS
    }
    place = {"table": table, "method": method, "rows": rows, kind: size}
    return {**place, "seeds": list(range(SEEDS)), "refused": [], **drawn, **more}


def in_all(method, times=1.0, tables=TABLES, **more):
    return [row(method, table, times=times, **more) for table in tables]


def cells(*runs):
    return acceptance.cells_of([one for run in runs for one in run])


def only(rows):
    (one,) = rows
    return one


def test_a_method_is_as_good_as_itself_and_alone_it_is_not_compared():
    own = in_all("now")
    found = only(acceptance.choices(cells(own, [{**one, "method": "its twin"} for one in own])))
    assert found["mean"] == 1
    assert found["ok"]
    assert list(acceptance.choices(cells(own))) == []


def test_of_many_equals_luck_does_not_choose_and_would_on_the_same_seeds():
    equals = cells(*(in_all(f"{k}", tables=MANY) for k in ["now", *range(20)]))
    found = only(acceptance.choices(equals))
    assert found["mean"] == pytest.approx(1, abs=0.03)
    assert found["ok"]
    lucky = [
        min(acceptance.means(entry, ["ols"]).item() for entry in field.values())
        / acceptance.means(field["now"], ["ols"]).item()
        for field in equals.values()
    ]
    assert np.exp(np.mean(np.log(lucky))) < 0.9


def test_a_default_that_is_a_third_worse_is_caught_and_one_that_is_better_is_not():
    worse = only(acceptance.choices(cells(in_all("now", 4 / 3, MANY), in_all("other", 1, MANY))))
    assert worse["mean"] == pytest.approx(4 / 3, abs=0.05)
    assert worse["from"] < worse["mean"] < worse["to"]
    assert not worse["ok"]
    assert only(acceptance.choices(cells(in_all("now", 3 / 4), in_all("other"))))["ok"]


def test_the_best_is_whose_worst_error_is_least():
    fine, lopsided = in_all("now", tables=MANY), in_all("other", 0.5, tables=MANY)
    for one in lopsided:
        one["ols"] = [16.0 * value for value in one["ols"]]
    assert only(acceptance.choices(cells(fine, lopsided)))["mean"] == 1
    means = acceptance.log_ratios(cells(fine, lopsided), "now", "other", ["means"])
    assert np.exp(np.mean(list(means.values()))) == pytest.approx(2, abs=0.1)


def test_one_cell_that_is_far_worse_shows_in_the_percentile_alone():
    runs = [in_all("now"), in_all("other")]
    runs[0][0] |= row("now", times=1.9)
    assert (
        not only(acceptance.choices(cells(*runs)))["mean"] > acceptance.MEAN[acceptance.ZCDP] * 1.1
    )
    runs[0][0] |= row("now", times=4)
    assert only(acceptance.choices(cells(*runs)))["95 %"] > acceptance.MOST


def test_small_budgets_are_held_against_the_former_goal():
    few = {"kind": "epsilon", "size": 0.1999}
    found = {
        (one["over"], one["where"]): one
        for one in acceptance.choices(
            cells(in_all("now", 1.3, **few), in_all(acceptance.REGRESSION, **few))
        )
    }
    assert not found[acceptance.REGRESSION, acceptance.BELOW]["ok"]
    assert found["the best", acceptance.BELOW]["bar"] is None
    at = {"kind": "epsilon", "size": 0.2}
    enough = cells(in_all("now", **at), in_all("other", **at))
    assert only(acceptance.choices(enough))["where"] == acceptance.ABOVE


def test_a_goal_is_compared_by_its_own_error_alone():
    good, other = in_all("now, frobenius"), in_all("now")
    for one in good:
        one["means"] = [9.0 * value for value in one["means"]]
    found = [
        one for one in acceptance.goals(cells(good, other)) if one["method"] == good[0]["method"]
    ]
    assert only(found)["ok"]
    for one in good:
        one["frobenius"] = [3.0 * value for value in one["frobenius"]]
    found = [
        one for one in acceptance.goals(cells(good, other)) if one["method"] == good[0]["method"]
    ]
    assert not only(found)["ok"]


def test_single_cells_are_beyond_where_the_test_is_sure():
    runs = [in_all("now"), in_all(acceptance.MATRIX)]
    assert all(
        one["ok"]
        for one in acceptance.beyond(acceptance.single(cells(*runs), acceptance.MATRIX), 1.25)
    )
    runs[0][3] |= row("now", TABLES[3], times=2.5)
    found = acceptance.beyond(acceptance.single(cells(*runs), acceptance.MATRIX), 1.25)
    assert {one["table"] for one in found if not one["ok"]} == {TABLES[3]}
    assert len(found) == len(TABLES) * len(acceptance.COMPARED)


def test_the_simultaneous_test_seldom_errs_and_single_ones_would():
    generator = np.random.default_rng(1)
    wrong = alone = 0
    for _ in range(100):
        draws = [generator.gamma(4, size=(2, SEEDS)) for _ in range(60)]
        pairs = [acceptance.Pair({}, own, other) for own, other in draws]
        wrong += not all(one["ok"] for one in acceptance.beyond(pairs, 1.0))
        alone += not all(one["ok"] for pair in pairs for one in acceptance.beyond([pair], 1.0))
    assert wrong <= 5
    assert alone > 20


def test_an_error_that_rises_with_the_budget_is_caught_and_others_are_not_compared():
    runs = [in_all("now", size=0.5), in_all("now", 0.5, size=2.0), in_all("now", 9, size=3.0)]
    found = acceptance.beyond(acceptance.rises(cells(*runs)), acceptance.OF_RISE)
    assert len(found) == len(TABLES) * len(acceptance.COMPARED)
    assert all(one["ok"] for one in found)
    runs[1][0] |= row("now", size=2.0, times=2.5)
    found = acceptance.beyond(acceptance.rises(cells(*runs)), acceptance.OF_RISE)
    assert {one["table"] for one in found if not one["ok"]} == {TABLES[0]}


def test_means_that_are_off_to_one_side_are_caught_and_noise_is_not():
    count, stated = 1600, [2.0, 2.0]
    reported = {"seeds": list(range(count)), "stated": [stated] * count}
    noise = GENERATOR.normal(scale=2, size=(count, 2))
    found = acceptance.biases([row("now", off=noise.tolist(), **reported)])
    assert all(one["ok"] for one in found)
    off = [row("now", off=np.add(noise, [0, 1]).tolist(), **reported)]
    found = acceptance.biases(off)
    assert [(one["column"], one["ok"]) for one in found] == [(1, False), (0, True)]
    assert found[0]["bias"] == pytest.approx(0.5, abs=0.15)


def test_the_best_peer_is_chosen_in_hindsight_for_each_error():
    runs = [in_all("now"), in_all(PEER, 3), in_all(acceptance.ENTRYWISE, 3), in_all("other", 0.1)]
    for one in runs[2]:
        one["relative"] = [value / 6 for value in one["relative"]]
    found = {one["error"]: one for one in acceptance.before_peers(cells(*runs))}
    assert found["frobenius"]["mean"] < 0.45
    assert found["frobenius"]["ok"]
    assert found["relative"]["mean"] > 1.5
    assert not found["relative"]["ok"]


def test_who_refuses_does_not_compete_and_the_default_may_not():
    refused = {"table": "a", "method": "other", "rows": 10_000, "rho": 0.5, "refused": ["no"]}
    found = acceptance.cells_of([row("now"), row("other"), {**refused, "seeds": [77]}])
    assert list(only(found.values())) == ["now"]
    reported = acceptance.summarised([{**refused, "method": "now", "seeds": [0]}, row("other")])
    assert not only(reported["Cells in which the default refuses"])["ok"]
    assert not acceptance.summarised([row("now")])["Cells in which the default refuses"]


def test_an_error_that_nobody_can_have_is_no_tie():
    none = {"correlation": [0.0] * SEEDS}
    runs = [in_all("now", 2, **none), in_all(acceptance.MATRIX, **none)]
    found = acceptance.beyond(acceptance.single(cells(*runs), acceptance.MATRIX), 1.25)
    assert "correlation" not in {one["error"] for one in found}
    assert only(acceptance.simple(cells(*runs)))["mean"] == pytest.approx(2, abs=0.1)


def test_seeds_of_several_runs_are_put_together():
    first, second = row("now"), {**row("now"), "seeds": list(range(SEEDS, 2 * SEEDS))}
    entry = only(cells([first, second]).values())["now"]
    both = np.concatenate([first["ols"], second["ols"]])
    assert acceptance.means(entry, ["ols"]) == pytest.approx(both.mean())
    assert acceptance.means(entry, ["ols"], 1) == pytest.approx(both[1::2].mean())


def test_the_moment_as_a_whole_and_seconds_are_held_against_the_former_default():
    """Medians of seconds ignore one slow release; everything above a threshold is reported."""

    def reported(times, seconds):
        goal, former = (
            in_all(name, seconds=[1.0, 1.0, 1.0]) for name in ("now, frobenius", "before")
        )
        own = in_all("now", times, seconds=[99.0, *2 * [seconds]])
        return acceptance.over_former(cells(own, goal, former))

    assert len(reported(1.0, 1.0)) == len(TABLES)
    fast, slow = (np.mean([one["seconds"] for one in reported(0.7, at)]) for at in (1.9, 2.1))
    assert (fast, slow) == pytest.approx((1.9, 2.1))
    assert all(one["ok"] for one in reported(0.7, 1.9))
    assert not any(one["ok"] for one in [*reported(0.7, 2.1), *reported(1.5, 1.0)])
    assert {one["where"] for one in reported(1.0, 1.0)} == {"rho"}
