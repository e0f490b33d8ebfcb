"""Named statistics agree with formulas on the rows, and their intervals cover the population."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import statsmodels.api as sm
from statsmodels.stats.outliers_influence import variance_inflation_factor

import dpcov
from dpcov import cli
from dpcov.errors import NotReleasedError, ReleaseError
from dpcov.rows.schema import Schema

NUMBERS = ["a", "b", "c", "d"]
MIX = np.array([[1.0, 0.5, 0.3, 0.4], [0, 0.8, 0.3, 0.5], [0, 0, 0.9, 0.2], [0, 0, 0, 0.7]])
SHARES, SHIFTS = np.array([0.5, 0.3, 0.2]), np.array([0.0, 0.5, 1.0])
GROUPS = np.array(["u", "v", "w"])
CHECKED = 200  # releases
ALARM = 0.01  # probability that one of all figures with a coverage of 95% is outside its range


def drawn(rows, draws):
    """Return rows of four numbers, of which the first depends on the group."""
    codes = draws.choice(3, rows, p=SHARES)
    numbers = draws.normal(size=(rows, 4)) @ MIX
    numbers[:, 0] += SHIFTS[codes]
    return pd.DataFrame(numbers, columns=NUMBERS).assign(group=GROUPS[codes])


def released(table, epsilon, **options):
    number = {"kind": "number", "lower": -8, "upper": 8, "missing": "midpoint"}
    group = {"kind": "categorical", "levels": list(GROUPS), "missing": "zeros"}
    columns = dict.fromkeys(NUMBERS, number) | {"group": group}
    schema = Schema.parse({"version": 3, "columns": columns})
    return dpcov.release(table, schema=schema, epsilon=epsilon, **options)


STATISTICS = {
    "partial correlation": lambda r: dpcov.partial_correlation(r, "a", "b", ["c", "d"]),
    "multiple correlation": lambda r: dpcov.multiple_correlation(r, "a", ["b", "c", "d"]),
    "alpha": lambda r: dpcov.cronbach_alpha(r, NUMBERS),
    "mediation": lambda r: dpcov.mediation(r, "a", ["b", "c"], "d"),
    "standardized": lambda r: dpcov.standardized_coefficients(r, "d", ["a", "b", "c"]),
    "inflation": lambda r: dpcov.variance_inflation(r, NUMBERS),
    "cohen": lambda r: dpcov.cohens_d(r, "a", "group"),
}


def truths(table):
    """Return the same statistics of rows, from statsmodels and from their formulas."""
    x = table[NUMBERS].to_numpy()
    design = {at: sm.add_constant(np.delete(x, at, axis=1)) for at in range(4)}
    others = sm.add_constant(x[:, 2:])
    rests = [sm.OLS(x[:, at], others).fit().resid for at in (0, 1)]
    fits = {at: sm.OLS(x[:, at], design[at]).fit() for at in range(4)}
    whole = np.cov(x.T)
    alpha = [4 / 3 * (1 - np.trace(whole) / whole.sum())]
    for at in range(4):
        part = np.delete(np.delete(whole, at, 0), at, 1)
        alpha.append(3 / 2 * (1 - np.trace(part) / part.sum()))
    first = [sm.OLS(x[:, at], sm.add_constant(x[:, 0])).fit().params[1] for at in (1, 2)]
    direct, *second = fits[3].params[1:]
    through = np.array(first) * second
    total = sm.OLS(x[:, 3], sm.add_constant(x[:, 0])).fit().params[1]
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    own = [table.loc[table["group"] == name, "a"] for name in GROUPS]
    pooled = np.sqrt(sum(len(one) * one.var(ddof=0) for one in own) / len(x))
    return {
        "partial correlation": [np.corrcoef(*rests)[0, 1]],
        "multiple correlation": [np.sqrt(fits[0].rsquared), fits[0].rsquared],
        "alpha": alpha,
        "mediation": [total, direct, *through, through.sum()],
        "standardized": sm.OLS(z[:, 3], z[:, :3]).fit().params,
        "inflation": [variance_inflation_factor(sm.add_constant(x), at + 1) for at in range(4)],
        "cohen": [(one.mean() - own[0].mean()) / pooled for one in own[1:]],
    }


@pytest.fixture(scope="module")
def table():
    return drawn(20_000, np.random.default_rng(0))


@pytest.fixture(scope="module")
def exact(table):
    return released(table, 1e6, seed=1)


@pytest.mark.parametrize("name", STATISTICS)
def test_with_a_large_budget_a_statistic_is_that_of_the_rows(name, table, exact):
    found = STATISTICS[name](exact)
    expected = np.array(truths(table)[name])
    assert len(found.names) == len(expected)
    assert np.allclose(found.values, expected, atol=2e-3)
    assert (found.noise_errors < 0.02 * found.standard_errors).all()
    assert ((found.lower < found.values) & (found.values < found.upper)).all()
    assert not found.below_noise.any()


def test_the_sampling_errors_are_the_classical_ones(table, exact):
    found = dpcov.partial_correlation(exact, "a", "b", ["c", "d"])
    assert found.standard_errors[0] == pytest.approx((1 - found.values[0] ** 2) / 141.4, rel=0.1)
    (first, second) = dpcov.cohens_d(exact, "a", "group").standard_errors
    sizes = table["group"].value_counts()
    assert first == pytest.approx(np.sqrt(1 / sizes["u"] + 1 / sizes["v"]), rel=0.1)
    assert second > first


def test_the_errors_are_the_standard_errors_of_the_same_function(exact):
    def alpha(_, covariance):
        return 4 / 3 * (1 - np.trace(covariance) / covariance.sum())

    found = dpcov.cronbach_alpha(exact, NUMBERS)
    for sampling, own in ((True, found.standard_errors), (False, found.noise_errors)):
        expected = dpcov.standard_errors(exact, alpha, sampling=sampling, columns=NUMBERS)
        assert own[0] == pytest.approx(expected, rel=1e-6)


def test_missing_numbers_and_flags_are_left_out_of_cohens_d():
    draws = np.random.default_rng(2)
    x = draws.normal(size=30_000)
    ill = (draws.random(30_000) < 0.3).astype(float)
    x += 0.8 * ill
    cells = pd.DataFrame({"x": np.where(draws.random(30_000) < 0.2, np.nan, x), "ill": ill})
    cells.loc[draws.random(30_000) < 0.1, "ill"] = np.nan
    columns = {
        "x": {"kind": "number", "lower": -5, "upper": 7, "missing": "level"},
        "ill": {"kind": "flag", "missing": "level"},
    }
    schema = Schema.parse({"version": 3, "columns": columns})
    made = dpcov.release(cells, schema=schema, epsilon=1e6, seed=1)
    both = cells.dropna()
    own = [both.loc[both["ill"] == value, "x"] for value in (0, 1)]
    pooled = np.sqrt(sum(len(one) * one.var() for one in own) / len(both))
    expected = (own[1].mean() - own[0].mean()) / pooled
    found = dpcov.cohens_d(made, "x", "ill")
    assert found.names == ("1 - 0",)
    assert found.values[0] == pytest.approx(expected, abs=0.01)
    swapped = dpcov.cohens_d(made, "x", "ill", reference="1")
    assert swapped.values[0] == pytest.approx(-found.values[0])


def test_what_a_statistic_cannot_use_is_refused(exact):
    for asked, message in (
        (
            lambda: dpcov.partial_correlation(exact, "a", "b", ["a"]),
            "different features|own column",
        ),
        (lambda: dpcov.cronbach_alpha(exact, ["a"]), "at least two items"),
        (lambda: dpcov.variance_inflation(exact, ["a"]), "at least two features"),
        (lambda: dpcov.mediation(exact, "a", [], "b"), "at least one mediator"),
        (lambda: dpcov.cohens_d(exact, "a", "b"), "not a flag"),
        (lambda: dpcov.cohens_d(exact, "group", "group"), "no column of numbers"),
        (lambda: dpcov.cohens_d(exact, "a", "group", "x"), "no group 'x'"),
        (lambda: dpcov.variance_inflation(exact, [f"group={g}" for g in GROUPS]), "determine"),
    ):
        with pytest.raises(ReleaseError, match=message):
            asked()
    sampled = dpcov.release(
        np.random.default_rng(0).uniform(size=(500, 3)), lower=0, upper=1, epsilon=1.0,
        mechanism="eigenvector-sampling",
    )  # fmt: skip
    with pytest.raises(NotReleasedError, match="error is unknown"):
        dpcov.cronbach_alpha(sampled)


def test_a_reversed_item_is_named(exact, table):
    turned = released(table.assign(d=-table["d"]), 1e6, seed=1)
    assert "Reverse them" in repr(dpcov.cronbach_alpha(turned, NUMBERS))
    assert "Reverse them" not in repr(dpcov.cronbach_alpha(exact, NUMBERS))


def test_a_command_prints_text_and_json(exact, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exact.save("r.json")
    found = STATISTICS["cohen"](exact)
    for more in ([], ["--json"]):
        with pytest.raises(SystemExit) as ended:
            cli.main(["cohens-d", "r.json", "a", "--by", "group", *more])
        assert ended.value.code == 0
    shown, document = capsys.readouterr().out.rsplit("\n{", 1)
    assert all(f"{value:.4g}" in shown for value in found.values)
    assert json.loads("{" + document)["values"] == pytest.approx(list(found.values))


@pytest.mark.statistics
def test_intervals_cover_the_statistics_of_the_population():
    """`CHECKED` releases of new rows of one population, each with every statistic."""
    population = truths(drawn(2_000_000, np.random.default_rng(99)))
    hits = {name: np.zeros(len(values)) for name, values in population.items()}
    control = {name: own.copy() for name, own in hits.items()}
    for seed in range(CHECKED):
        made = released(drawn(4000, np.random.default_rng(1000 + seed)), 2.0, seed=seed)
        for name, statistic in STATISTICS.items():
            found = statistic(made)
            inside = (found.lower <= population[name]) & (population[name] <= found.upper)
            hits[name] += inside
            errors = 0.7 * (found.upper - found.lower) / 2  # control: intervals are too short
            control[name] += np.abs(found.values - population[name]) <= errors
    covered = {name: np.round(own / CHECKED, 3).tolist() for name, own in hits.items()}
    print(json.dumps(covered))
    figures = sum(map(len, hits.values()))
    law = scipy.stats.binom(CHECKED, 0.95)
    least, most = law.ppf([ALARM / 2 / figures, 1 - ALARM / 2 / figures])
    assert all(least <= one <= most for own in hits.values() for one in own), covered
    short = [one < least for own in control.values() for one in own]
    assert np.mean(short) > 0.5, "a coverage of 83% is noticed in most figures"
