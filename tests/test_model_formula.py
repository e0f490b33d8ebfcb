"""Formulas: they name the model of statsmodels and R, and nothing in them is ever evaluated."""

from __future__ import annotations

import builtins
import re
import subprocess
import sys
import tomllib
from copy import deepcopy
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from hypothesis import given, settings
from hypothesis import strategies as st

import dpcov
from dpcov.analysis import model_formula, ols
from dpcov.analysis.model_formula import Regression, parsed
from dpcov.cli import completions
from dpcov.errors import ReleaseError
from dpcov.releases import Release

ROWS = 3000
NUMBER = {"kind": "number", "missing": "none"}
COLUMNS: dict[str, dict[str, Any]] = {
    "age": NUMBER | {"lower": 0, "upper": 100},
    "smoker": {"kind": "flag", "missing": "none"},
    "sex": {"kind": "categorical", "levels": ["f", "m"], "missing": "none"},
    "ward": {"kind": "categorical", "levels": ["icu", "surgery", "er"], "missing": "none"},
    "visit no": NUMBER | {"lower": 0, "upper": 10},
    "sbp": NUMBER | {"lower": 0, "upper": 300},
}
DERIVED = {
    "smoking_age": {"product": ["smoker", "age"]},
    "age_squared": {"square": "age"},
}
SCHEMA = {"version": 3, "columns": COLUMNS, "derived": DERIVED}
# Formulas that run code in other programs.
ATTACKS = [
    "sbp ~ np.log(age)",
    "sbp ~ I(age**2)",
    "sbp ~ Q('age')",
    "sbp ~ __import__('os').system('id')",
    "sbp ~ age.__class__.__mro__[1]",
    "sbp ~ (lambda: age)()",
    "sbp ~ lambda x: age",
    'sbp ~ f"{age}"',
    "sbp ~ C(sex, ref=f'{age}')",
    "sbp ~ C(sex, ref=open('x').read())",
    "sbp ~ C(sex, ref=(x := 'f'))",
    "sbp ~ (x := age)",
    "sbp ~ C(sex, ref='f' 'm' + \"'x'\")",
    "sbp ~ C(sex, Treatment('m'))",
    "sbp ~ C(__builtins__.__dict__['eval']('1'))",
    "sbp ~ C(sex)(age)",
    "sbp ~ C.__call__(sex)",
    "sbp ~ {eval('1')}",
    "sbp ~ {age}",
    "sbp ~ C(*sex)",
    "sbp ~ C(sex, **{'ref': 'f'})",
    "sbp ~ C(sex, ref=b'f')",
    "sbp ~ C(sex, ref=None)",
    "sbp ~ C(sex, ref=-1)",
    "sbp ~ C(sex for sex in age)",
    "sbp ~ C(`sex`.__class__)",
    "sbp ~ age[0]",
    "sbp ~ [age]",
    "sbp ~ age ** 2",
    "sbp ~ age ^ 2",
    "sbp ~ age / sex",
    "sbp ~ age %in% sex",
    "sbp ~ age | sex",
    "sbp ~ .",
    "sbp ~ 'age'",
    "sbp ~ 2 + age",
    "np.log(sbp) ~ age",
    "sbp + age ~ sex",
]


@lru_cache
def table() -> pd.DataFrame:
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": generator.integers(20, 90, ROWS).astype(float),
            "smoker": (generator.random(ROWS) < 0.3).astype(float),
            "sex": generator.choice(["m", "f"], ROWS),
            "ward": generator.choice(["icu", "surgery", "er"], ROWS, p=[0.2, 0.5, 0.3]),
            "visit no": generator.integers(0, 10, ROWS).astype(float),
        }
    )
    slope = 0.4 + 0.2 * frame["smoker"]
    frame["sbp"] = 90 + slope * frame["age"] + 6 * (frame["ward"] == "er") + frame["visit no"]
    frame["sbp"] += 3 * (frame["sex"] == "m") + generator.normal(0, 8, ROWS)
    return frame


@lru_cache
def released(**changes: Any) -> Release:
    schema = dpcov.Schema.parse(SCHEMA | changes)
    return dpcov.release(table(), schema=schema, epsilon=1e6, seed=0)


@lru_cache
def loose() -> Release:
    """Return a release without computed columns."""
    document = {name: part for name, part in SCHEMA.items() if name != "derived"}
    return dpcov.release(table(), schema=dpcov.Schema.parse(document), epsilon=1e6, seed=0)


@pytest.mark.parametrize(
    ("formula", "peer"),
    [
        ("sbp ~ age + smoker", "sbp ~ age + smoker"),
        ("sbp ~ age*smoker + sex", "sbp ~ age*smoker + sex"),
        ("sbp ~ C(sex) + smoker:age", "sbp ~ C(sex) + smoker:age"),
        (
            "sbp ~ age + sex + C(ward, ref='surgery') + age:smoker",
            "sbp ~ age + sex + C(ward, Treatment('surgery')) + age:smoker",
        ),
        ("sbp ~ (age + smoker)*sex - age:sex - smoker:sex", "sbp ~ age + smoker + sex"),
        ("sbp ~ 1 + age + `visit no`", "sbp ~ age + Q('visit no')"),
        ('`sex=m` ~ age + C(ward, ref="er")', "I(sex=='m') ~ age + C(ward, Treatment('er'))"),
    ],
)
def test_coefficients_names_and_reference_levels_are_those_of_statsmodels(formula, peer):
    frame = table()
    if peer.startswith("I("):
        peer, frame = "sbp" + peer.partition(")")[2], frame.assign(sbp=frame["sex"] == "m")
        frame["sbp"] = frame["sbp"].astype(float)
    expected = smf.ols(peer, frame).fit()
    plain = {
        re.sub(r"Treatment\('(\w+)'\)", r"ref='\1'", name): name for name in expected.params.index
    }
    plain = {re.sub(r"Q\('(.*)'\)", r"\1", name): own for name, own in plain.items()}
    fit = dpcov.ols(released(), formula)
    names = [name.replace('"', "'") for name in fit.names[1:]]
    assert sorted(names) == sorted(set(plain) - {"Intercept"})
    params = [expected.params["Intercept"], *(expected.params[plain[name]] for name in names)]
    errors = [expected.bse["Intercept"], *(expected.bse[plain[name]] for name in names)]
    assert fit.coefficients == pytest.approx(params, rel=1e-3, abs=1e-3)
    assert fit.sampling_errors == pytest.approx(errors, rel=1e-3)


def test_products_come_last_and_a_term_counts_once():
    fit = dpcov.ols(released(), "sbp ~ smoker:age + age + age + age:smoker + age_squared - age")
    assert fit.names == ("(intercept)", "age_squared", "smoker:age")
    assert fit.model.columns == ("age_squared", "smoking_age")


def test_the_reference_level_is_the_first_that_the_schema_declares_and_is_stated():
    fit = dpcov.ols(released(), "sbp ~ ward + C(sex, ref='m')")
    assert fit.names[1:] == ("ward[T.surgery]", "ward[T.er]", "C(sex, ref='m')[T.f]")
    assert "Reference levels: ward=icu, sex=m." in fit.summary()
    assert "Reference levels" not in dpcov.ols(released(), "sbp", ["ward"]).summary()
    named = dpcov.ols(released(), "sbp", ["ward", "sex=f"])
    assert fit.coefficients == pytest.approx(named.coefficients)


def test_a_level_is_a_term_and_a_number_names_a_level():
    fit = dpcov.ols(released(), "sbp ~ `ward=er`")
    assert fit.coefficients == pytest.approx(dpcov.ols(released(), "sbp", ["ward=er"]).coefficients)
    assert parsed("y ~ C(x, ref=2)")[1][-1].factors[0].reference == "2"
    assert parsed("y ~ C(x, ref=2.0)")[1][-1].factors[0].reference == "2"
    assert parsed("y ~ C(`my x`, ref='a')")[1][-1].factors[0].name == "my x"


def test_a_product_with_itself_is_the_square_and_a_note_says_so():
    fit = dpcov.ols(released(), "sbp ~ age:age + age")
    assert fit.names == ("(intercept)", "age", "age:age")
    assert fit.coefficients[1:] == pytest.approx(
        dpcov.ols(released(), "sbp", ["age", "age_squared"]).coefficients[1:]
    )
    assert "age:age is the square of age. In R and statsmodels, age:age means age." in fit.summary()


@pytest.mark.parametrize("formula", ATTACKS)
def test_nothing_is_evaluated(formula, monkeypatch):
    parsed("y ~ C(a, ref='b')")  # imports, which execute code of their own

    def never(*given: object, **named: object) -> None:
        raise AssertionError("evaluated")

    made = released()
    monkeypatch.setattr(builtins, "eval", never)
    monkeypatch.setattr(builtins, "exec", never)
    with pytest.raises(ReleaseError) as caught:
        dpcov.ols(made, formula)
    monkeypatch.undo()
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_control_the_patch_notices_an_evaluation(monkeypatch):
    from formulaic import model_matrix

    def never(*given: object, **named: object) -> None:
        raise AssertionError("evaluated")

    monkeypatch.setattr(builtins, "eval", never)
    with pytest.raises(Exception, match="evaluated"):
        model_matrix("np.log(age)", table())


def test_a_name_is_only_looked_up():
    for name in ("__import__", "os.system", "__builtins__", "`eval(1)`", "self"):
        with pytest.raises(ReleaseError, match="There is no feature"):
            dpcov.ols(released(), f"sbp ~ {name}")


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("sbp ~ np.log(age)", r"cannot contain 'np\.log\(age\)': use names of columns"),
        ("sbp ~ age +", "is not valid: .* Correct the formula"),
        ("sbp ~ age sex", "is not valid: Missing operator"),
        ("sbp ~ `age", "is not valid"),
        ("sbp ~", "needs one name, a single ~ and then the terms"),
        ("~ age", "needs one name"),
        ("sbp ~ age ~ sex", "needs one name"),
        ("sbp ~ 1", "No feature is left"),
        ("sbp ~ sbp", "own column 'sbp' can't be among"),
        ("sbp ~ agge", "Did you mean 'age'"),
        ("pressure ~ age", "There is no feature 'pressure'"),
        ("sbp ~ C(age)", r"Write age without C\(\)"),
        ("sbp ~ C(sex, ref='x')", r"no level 'x'\. Choose from: f, m"),
        ("sbp ~ sex + C(sex, ref='m')", "'sex' twice"),
        ("sbp ~ age:smoker:sex", "3 factors"),
        ("sbp ~ age*smoker*sex", "3 factors"),
        ("sbp ~ 1:age", "multiply by 0 or 1"),
        ("sbp ~ 0:age", "multiply by 0 or 1"),
        ("sbp ~ ward:age", "'ward' is not a column of numbers.* declare a flag column"),
        ("sbp ~ `ward=er`:age", "'ward=er' is not a column of numbers"),
        ("sbp ~ age_squared:age", "'age_squared' is not a column of numbers"),
        ("sbp ~ sex + C(sex) - 1", "'sex' twice"),
        ("sbp ~ 0", "No feature is left"),
        ("sbp ~ " + "age+(" * 5000 + "age" + ")" * 5000, "nested too deeply"),
        ("sbp ~ " + "age:" * 5000 + "age", "nested too deeply"),
        (
            "sbp ~ ("
            + "+".join(f"x{at}" for at in range(91))
            + ")"
            + ":(sex"
            + "".join(f"+y{at}" for at in range(91))
            + ")",
            "has 8372 terms",
        ),
        ("sbp ~ " + "+ age" * 20000, "has 100006 characters, but at most 65536"),
    ],
)
def test_a_refusal_states_the_problem_and_what_to_do(formula, message):
    with pytest.raises(ReleaseError, match=message) as caught:
        dpcov.ols(released(), formula)
    assert len(str(caught.value)) < 500


def test_a_long_sum_is_no_problem():
    target, terms = parsed("y ~ " + " + ".join(f"x{at}" for at in range(5000)))
    assert (target, len(terms)) == ("y", 5001)


@pytest.mark.parametrize("formula", ["sbp ~ age:smoker", "sbp ~ `visit no`*age", "sbp ~ age:age"])
def test_the_line_of_a_refusal_makes_the_next_release_hold_the_term(formula):
    with pytest.raises(ReleaseError, match="under \\[derived\\] in the schema: ") as caught:
        dpcov.ols(loose(), formula)
    line = str(caught.value).partition("in the schema: ")[2]
    derived = tomllib.loads(f"[derived]\n{line}")["derived"]
    schema = dpcov.Schema.parse(SCHEMA | {"derived": derived})
    made = dpcov.release(table(), schema=schema, epsilon=1e6, seed=0)
    assert len(dpcov.ols(made, formula).names) >= 2


def test_a_new_name_does_not_replace_a_column():
    columns = COLUMNS | {"age_smoker": NUMBER | {"lower": 0, "upper": 1}}
    schema = dpcov.Schema.parse({"version": 3, "columns": columns})
    term = parsed("y ~ age:smoker")[1][-1]
    assert model_formula._line(schema, term).startswith("age_smoker_ = ")


def test_a_column_with_a_tilde_is_a_name():
    schema = dpcov.Schema.from_bounds(0, 1, ["a~b", "c"])
    rows = np.random.default_rng(0).random((500, 2))
    made = dpcov.release(rows, schema=schema, epsilon=1e6, seed=0)
    assert dpcov.ols(made, "a~b").names == ("(intercept)", "c")
    assert dpcov.ols(made, "`a~b` ~ c").model.target == "a~b"


def test_features_and_a_formula_exclude_each_other():
    with pytest.raises(ReleaseError, match="Leave out the other list"):
        dpcov.ols(released(), "sbp ~ age", ["sex"])


def test_ridge_reads_the_same_formulas():
    fit = dpcov.ridge(released(), "sbp ~ age*smoker + C(ward, ref='er')", 0.1)
    columns = ("age", "smoker", "ward=icu", "ward=surgery", "smoking_age")
    assert fit.columns == columns
    named = dpcov.ridge(released(), "sbp", 0.1, columns)
    assert np.array_equal(fit.coefficients, named.coefficients)
    assert [name for name, _ in fit.data().rows] == [
        "(intercept)", "age", "smoker", "C(ward, ref='er')[T.icu]", "C(ward, ref='er')[T.surgery]",
        "age:smoker",
    ]  # fmt: skip
    assert "Reference levels: ward=er." in fit.summary()
    assert fit.document()["terms"] == fit.terms
    assert "terms" not in named.document()


def test_ridge_fits_without_an_intercept():
    rows = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    made = dpcov.release(rows, lower=-1, upper=1, epsilon=1e6, seed=0, neighbors="replace-one")
    for formula in ("x0 ~ x1 - 1", "x0 ~ 0 + x1", "x0 ~ -1 + x1"):
        found = dpcov.ridge(made, formula, 0.01)
        expected = dpcov.ridge(made, "x0", 0.01, intercept=False)
        assert found.intercept == expected.intercept == 0
        assert np.array_equal(found.coefficients, expected.coefficients)


ORIGIN = (
    "sbp ~ age - 1",
    "sbp ~ 0 + age",
    "sbp ~ -1 + age*smoker",
    "sbp ~ C(ward) - 1",
    "sbp ~ age + C(ward) + C(sex) - 1",
    "smoker ~ sbp + age - 1",
)


@pytest.mark.parametrize("formula", ORIGIN)
def test_a_fit_through_the_origin_is_the_one_of_statsmodels(formula):
    """Control: with an intercept, the slopes differ."""
    expected, fit = smf.ols(formula, table()).fit(), dpcov.ols(released(), formula)
    renamed = list(fit.names)
    assert "(intercept)" not in fit.names
    assert sorted(renamed) == sorted(expected.params.index)
    order = [list(expected.params.index).index(name) for name in renamed]
    params, errors = expected.params.to_numpy()[order], expected.bse.to_numpy()[order]
    covariance = expected.cov_params().to_numpy()[np.ix_(order, order)]
    assert fit.coefficients == pytest.approx(params, rel=1e-3)
    assert fit.standard_errors == pytest.approx(errors, rel=2e-3)
    assert fit.vcov() == pytest.approx(covariance, rel=5e-3, abs=1e-3 * covariance.max())
    assert fit.conf_int() == pytest.approx(expected.conf_int().to_numpy()[order], rel=3e-3)
    assert fit.t == pytest.approx(expected.tvalues.to_numpy()[order], rel=2e-3)
    assert fit.p_values == pytest.approx(expected.pvalues.to_numpy()[order], abs=1e-3)
    explained = 1 - expected.ssr / expected.uncentered_tss
    assert fit.r_squared == pytest.approx(explained, abs=1e-4)
    if "C(ward)" not in formula:  # the levels of a factor hold the constant
        assert fit.adjusted_r_squared == pytest.approx(expected.rsquared_adj, abs=1e-4)
        joint = expected.f_test(np.eye(len(order)))
        assert fit.wald.statistic == pytest.approx(len(order) * float(joint.fvalue), rel=0.01)
        control = dpcov.ols(
            released(), formula.replace("- 1", "").replace("0 +", "").replace("-1 +", "")
        )
        assert abs(control.coefficients[1:] / params - 1).max() > 0.01
    assert fit.residual_deviation == pytest.approx(np.sqrt(expected.mse_resid), rel=1e-3)
    assert fit.degrees == pytest.approx(expected.df_resid, abs=1)
    rows = table().head(20)
    predicted = expected.get_prediction(rows).summary_frame()
    assert fit.predict(rows) == pytest.approx(np.asarray(predicted["mean"]), rel=2e-3)
    assert fit.prediction_errors(rows) == pytest.approx(np.asarray(predicted["mean_se"]), rel=5e-3)


def test_without_an_intercept_the_levels_of_the_first_factor_are_its_means():
    fit = dpcov.ols(released(), "sbp ~ C(ward, ref='er') + C(sex, ref='m') - 1")
    assert fit.names == (
        "C(ward, ref='er')[icu]", "C(ward, ref='er')[surgery]", "C(ward, ref='er')[er]",
        "C(sex, ref='m')[T.f]",
    )  # fmt: skip
    assert fit.formula_notes == ("Reference levels: sex=m.", ols.ORIGIN_NOTE)
    assert ols.ORIGIN_NOTE in fit.summary()
    alone = dpcov.ols(released(), "sbp ~ ward - 1")
    means = table().groupby("ward")["sbp"].mean()[["icu", "surgery", "er"]]
    assert alone.coefficients == pytest.approx(means.to_numpy(), rel=1e-3)
    assert alone.wald_test("ward").degrees == 3
    assert alone.contrast({"ward[er]": 1, "ward[icu]": -1}).estimate > 0
    assert not alone.hidden.any()


def test_a_fit_through_the_origin_prints_plots_and_becomes_data():
    fit = dpcov.ols(released(), "sbp ~ age + smoker - 1")
    assert [name for name, _ in fit.data().rows][:2] == ["age", "smoker"]
    assert "(intercept)" not in fit.summary()
    assert [name for name, _ in fit.tables()[0].rows] == ["age", "smoker"]
    assert len(dpcov.plot.coefficients(fit).get_yticklabels()) == 2


def test_coverage_through_the_origin_is_that_of_the_level():
    """Control: with a tenth of the stated errors, the intervals cover seldom."""
    generator = np.random.default_rng(7)
    covered, narrow = np.zeros((2, 60, 2), np.bool_)
    for seed in range(60):
        x = generator.normal([2.0, 1.0], 1.0, (2000, 2)).clip(-6, 6)
        y = x @ [1.0, -2.0] + generator.normal(0, 1, 2000)
        rows = np.column_stack([x, y])
        made = dpcov.release(rows, lower=-8, upper=8, epsilon=1.0, seed=seed)
        fit = dpcov.ols(made, "x2 ~ x0 + x1 - 1")
        covered[seed] = (fit.lower <= [1, -2]) & (fit.upper >= [1, -2])
        narrow[seed] = abs(fit.coefficients - [1, -2]) < 0.196 * fit.standard_errors
    assert covered.mean() >= 0.9
    assert narrow.mean() < 0.5


def test_a_date_has_no_origin():
    columns = {
        "day": {"kind": "date", "lower": "2020-01-01", "upper": "2024-12-31", "missing": "none"},
        "x": NUMBER | {"lower": 0, "upper": 1},
    }
    rows = pd.DataFrame(
        {"day": pd.date_range("2020-01-01", periods=500), "x": np.linspace(0, 1, 500)}
    )
    made = dpcov.release(
        rows, schema=dpcov.Schema.parse({"version": 3, "columns": columns}), epsilon=10.0
    )
    for formula in ("day ~ x - 1", "x ~ day - 1"):
        with pytest.raises(ReleaseError, match="natural 0, but 'day' is a date"):
            dpcov.ols(made, formula)


def test_predictions_need_only_the_columns_of_the_table():
    formula = "sbp ~ age*smoker + C(ward, ref='surgery')"
    rows = table().head(20)[["age", "smoker", "ward"]]
    expected = smf.ols(formula.replace("ref=", "Treatment(").replace("y')", "y'))"), table()).fit()
    fit = dpcov.ols(released(), formula)
    reported = expected.get_prediction(rows).summary_frame()
    assert fit.predict(rows) == pytest.approx(np.asarray(reported["mean"]), abs=0.01)
    assert fit.prediction_errors(rows) == pytest.approx(np.asarray(reported["mean_se"]), rel=1e-3)
    assert np.all(fit.prediction_errors(rows, sampling=False) < 1e-3)
    assert fit.wald_test("age:smoker").p_value < 1e-6
    unlimited = deepcopy(fit.vcov())
    unlimited[2, 2] = np.inf
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(fit), "vcov", lambda *_, **__: unlimited)
        errors = fit.prediction_errors(rows)
    assert np.array_equal(np.isinf(errors), rows["smoker"] == 1)


def test_contrasts_and_factors_are_those_of_statsmodels():
    formula = "sbp ~ age*smoker + C(ward, ref='surgery')"
    expected = smf.ols(formula.replace("ref=", "Treatment(").replace("y')", "y'))"), table()).fit()
    fit = dpcov.ols(released(), formula)
    peers = [name.replace("ref=", "Treatment(").replace("y')", "y'))") for name in fit.names]
    row = np.zeros(len(peers))
    row[[list(expected.params.index).index(peers[fit.names.index("smoker")])]] = 1
    row[[list(expected.params.index).index("age:smoker")]] = 50
    truth, found = expected.t_test(row), fit.contrast({"smoker": 1, "age:smoker": 50})
    assert found.estimate == pytest.approx(truth.effect.item(), rel=1e-3)
    assert found.standard_error == pytest.approx(truth.sd.item(), rel=1e-3)
    assert [found.lower, found.upper] == pytest.approx(truth.conf_int()[0], rel=1e-3)
    assert "Contrast" in found.summary()
    assert found.contrast == "1 * smoker + 50 * age:smoker"
    assert found.document()["wald"]["p_value"] == found.wald.p_value
    levels = [name for name in fit.names if name.startswith("C(ward")]
    factor = expected.wald_test_terms(scalar=True).table.loc["C(ward, Treatment('surgery'))"]
    assert fit.wald_test("ward") == fit.wald_test(levels)
    assert fit.wald_test("ward").statistic == pytest.approx(2 * factor["statistic"], rel=0.01)


def test_a_missing_package_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "formulaic"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "formulaic.parser", None)
    with pytest.raises(ReleaseError, match=r"the package formulaic: .*install .*formulaic"):
        dpcov.ols(released(), "sbp ~ age")
    assert dpcov.ols(released(), "sbp", ["age"]).names == ("(intercept)", "age")


def test_the_package_is_loaded_for_a_formula_only():
    code = "import sys, dpcov.analysis.ols as _; print({'formulaic', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


PIECES = st.sampled_from(
    ["age", "smoker", "sex", "C(sex)", "C(ward, ref='er')", "`visit no`", "1", "0", "+", "-", ":",
     "*", "(", ")", "~", " ", "'", "`", "{", "}", "[", "%", "\\", "C(", "é", "\x00", "**", ","]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=12))
def test_any_text_is_a_regression_or_refused(pieces):
    try:
        found = Regression.of(released(), "sbp ~ " + "".join(pieces), None)
    except ReleaseError:
        return
    known = {*released().columns, *COLUMNS, *DERIVED}
    assert set(found.features or ()) <= known


def test_the_last_name_of_a_formula_is_completed(monkeypatch):
    monkeypatch.setattr(completions, "_columns", lambda ctx: ("age", "sex=f", "a b"))
    assert completions.formula(None, "sbp~ag") == ["sbp~age"]  # type: ignore[arg-type]
    assert completions.formula(None, "sbp~age+") == ["sbp~age+age", "sbp~age+sex=f"]  # type: ignore[arg-type]
    assert completions.formula(None, "") == ["age", "sex=f"]  # type: ignore[arg-type]


def test_the_command_reads_a_formula(run):
    released().save("r.json")
    fit = dpcov.ols(Release.load("r.json"), "sbp ~ age*smoker")
    lines = run("ols r.json sbp~age*smoker --csv").out.splitlines()
    assert [line.partition(",")[0] for line in lines if line[:1] != "#"][1:5] == list(fit.names)
    assert "age:smoker" in run("ridge r.json sbp~age*smoker --alpha 0.1").out
    for line in ("ols r.json", "ridge r.json sbp~age --target sbp"):
        assert "needs a formula or a target, and not both" in run(line).err
