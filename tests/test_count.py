"""The number of rows has a law and a share of its own, and whatever divides by it uses the best."""

import itertools
import json
from dataclasses import replace
from fractions import Fraction
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import dpcov
from dpcov.analysis.intervals import intervals
from dpcov.api.auditing import audit
from dpcov.api.auditing.adversaries import settings
from dpcov.api.request import Request
from dpcov.core.entropy import Entropy, simulation_generator
from dpcov.core.privacy import ZCDP, ApproxDP, Neighbors, PureDP, exact, gaussian_delta, gaussian_mu
from dpcov.core.samplers.discrete import MAX_SCALE
from dpcov.core.samplers.scalars import ScalarGaussian, ScalarLaplace
from dpcov.errors import MechanismError, ReleaseError, SourceError
from dpcov.estimate import Estimate
from dpcov.mechanisms import MECHANISMS, count, gaussian, mechanism_named
from dpcov.mechanisms.count import COUNT_EPSILON_SHARE, COUNT_RHO_SHARE
from dpcov.published.record import CountEstimate
from dpcov.releases import Release
from dpcov.rows.moment import Lattice, units_per_row
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows
from dpcov.rows.sources.partial import PartialMoment
from dpcov.rows.sources.rows import NormCounter, WithCount
from former_documents import former
from rounds_for_tests import changed, count_noise, count_of
from strategies import numeric

ADD, SWAP = Neighbors.ADD_REMOVE, Neighbors.REPLACE_ONE
PRODUCT = [name for name, kind in MECHANISMS.items() if kind.__module__.count("mechanisms")]
PURE, RHO, APPROX = PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-6)
LATTICE = Lattice.of(Schema.from_bounds(0, 1, ["a", "b", "c"]))
TABLE = np.random.default_rng(0).random((2000, 3))
NAMES = ["a", "b", "c"]


def planned(mechanism, budget, neighbors=ADD, lattice=LATTICE, per_row=1):
    return count.calibrated(mechanism_named(mechanism), lattice, budget, neighbors, per_row)


def released(table=TABLE, seed=1, **asked):
    return dpcov.release(table, lower=0, upper=1, seed=seed, **({"epsilon": 1.0} | asked))


def schema(columns=NAMES, **more):
    return Schema.parse({"columns": {name: numeric(0, 1) for name in columns}} | more)


def persons(n, each):
    frame = pd.DataFrame(np.random.default_rng(1).random((n, 3)), columns=NAMES)
    frame["id"] = np.arange(n) // each
    return frame


def weighted(n, largest=2.0):
    frame = pd.DataFrame(np.random.default_rng(2).random((n, 3)), columns=NAMES)
    frame["w"] = np.linspace(0, 1.5 * largest, n)
    return frame


OF_PERSONS = schema(unit={"column": "id", "max_rows": 2, "type": "integer"})
OF_WEIGHTS = schema(weight={"column": "w", "maximum": 2.0})


# What is counted.


@pytest.mark.parametrize("ask", ["second_moments", "total"])
@pytest.mark.parametrize("n", [0, 1, 7, 5000])
def test_rows_are_counted_by_the_way_of_any_question(n, ask):
    rows = open_rows(TABLE.repeat(3, axis=0)[:n], schema())
    getattr(rows, ask)()
    assert rows.total() == n


def test_counting_reads_no_more_than_the_mechanism_did(monkeypatch):
    rows = open_rows(TABLE, schema())
    rows.second_moments()
    monkeypatch.setattr(rows, "_sums", None)
    assert rows.total() == len(TABLE)
    fresh = open_rows(TABLE, schema())
    monkeypatch.setattr(fresh, "_sums", None)
    with pytest.raises(SourceError):
        fresh.total()


def test_of_a_person_no_more_rows_count_than_may():
    assert open_rows(persons(500, 5), OF_PERSONS).total() == 200
    assert open_rows(persons(500, 1), OF_PERSONS).total() == 500


def test_weights_are_summed_as_shares_of_the_largest():
    table = weighted(1000)
    rows = open_rows(table, OF_WEIGHTS)
    shares = np.clip(table["w"] / 2.0, 0, 1)
    assert rows.total() / units_per_row(OF_WEIGHTS) == pytest.approx(shares.sum(), rel=1e-5)
    assert rows.total() == int(rows.second_moments()[0].units[-1, -1])


def test_another_intercept_of_images_does_not_change_what_weights_add_up_to():
    rows = open_rows(weighted(1000), OF_WEIGHTS)
    before = rows.total()
    rows.second_moments(lattice=rows.lattice().with_intercept(3))
    assert rows.total() == before


@pytest.mark.parametrize("declared", [schema(), OF_PERSONS, OF_WEIGHTS])
def test_one_unit_changes_the_count_by_no_more_than_the_sensitivity(declared):
    frame = persons(30, 3).assign(w=5.0)
    for gone in (frame["id"] == 4, frame.index == 7):
        difference = open_rows(frame, declared).total() - open_rows(frame[~gone], declared).total()
        if declared.unit is None and sum(gone) > 1:
            continue  # several rows are several units
        assert 0 <= difference <= declared.privacy_unit.max_rows * units_per_row(declared)
    whole = frame[frame["id"] == 4]
    per_row = units_per_row(declared)
    if declared is OF_PERSONS:  # it is reached
        assert open_rows(whole, declared).total() == 2 * per_row
    assert open_rows(whole[:1], declared).total() == per_row


def test_parts_of_a_count_add_up_and_survive_their_packing():
    blocks = [np.full((4, m), 2.0**19) for m in (3, 4096, 1)]
    for weights in (False, True):
        whole = WithCount(lambda: NormCounter(np.array([1.0]), 3), weighted=weights)
        for block in blocks:
            part = WithCount(lambda: NormCounter(np.array([1.0]), 3), weighted=weights)
            part.add(block)
            again = WithCount(lambda: NormCounter(np.array([1.0]), 3), weighted=weights)
            again.add_packed(part.packed())
            whole.merge(again)
        assert whole.total()[1] == 4100 * (2**38 if weights else 1)
        assert whole.total()[0].sum() == 4100


def test_sums_from_files_have_the_count_that_the_rows_have(tmp_path):
    for table, declared in ((TABLE, schema()), (weighted(800), OF_WEIGHTS)):
        halves = np.array_split(np.arange(len(table)), 2)
        frame = pd.DataFrame(table, columns=None if hasattr(table, "columns") else NAMES)
        one, other = (PartialMoment.of(frame.iloc[half], declared) for half in halves)
        path = tmp_path / f"{len(table)}.sums"
        one.merged(other).save(path)
        assert PartialMoment.load(path).seen(declared).total() == open_rows(frame, declared).total()
        made = dpcov.release(path, schema=declared, epsilon=1.0, seed=1, mechanism="matrix-laplace")
        plain = dpcov.release(
            frame, schema=declared, epsilon=1.0, seed=1, mechanism="matrix-laplace"
        )
        assert count_of(made) == count_of(plain) is not None


# What it costs.


@pytest.mark.parametrize("mechanism", PRODUCT)
@pytest.mark.parametrize("budget", [PURE, RHO, APPROX], ids=str)
def test_the_count_and_the_rest_spend_the_budget_and_no_more(mechanism, budget):
    try:
        laws = planned(mechanism, budget)
    except MechanismError:
        return  # not for this kind of budget
    if isinstance(laws.count, ScalarLaplace):
        assert COUNT_EPSILON_SHARE <= laws.spends <= COUNT_EPSILON_SHARE * (1 + Fraction(1, 10**12))
        assert exact(laws.laws.guarantee.budget.epsilon) + laws.spends == 1
        assert laws.count.scale == 1 / laws.spends
        assert float(laws.count.scale) <= 30
        return
    whole, extra = gaussian.concentration(mechanism, budget)
    left, _ = gaussian.concentration(mechanism, laws.laws.guarantee.budget)
    assert left + laws.spends == whole
    assert COUNT_RHO_SHARE <= laws.spends / whole < COUNT_RHO_SHARE * Fraction(1001, 1000)
    assert laws.count.variance == 1 / (2 * laws.spends) + extra
    assert laws.guarantee.budget == budget


def spent(laws, lattice=LATTICE, per_row=1):
    """Return the epsilon or rho of the mechanism and of the count, from their noise alone."""
    most, of_trace = lattice.unit.max_rows * per_row, laws.laws.trace_alone
    if isinstance(laws.count, ScalarLaplace):
        return lattice.unit_bound / of_trace.scale, most / laws.count.scale
    extra = 8 if isinstance(laws.laws.guarantee.budget, ApproxDP) else 0
    both = (lattice.unit_bound, of_trace), (most, laws.count)
    return tuple(Fraction(moves) ** 2 / (2 * (law.variance - extra)) for moves, law in both)


def stated(laws):
    """Return the same for the budget that both together state."""
    budget = laws.guarantee.budget
    if isinstance(budget, ApproxDP) and isinstance(laws.count, ScalarGaussian):
        return Fraction(gaussian_mu(budget.epsilon * (1 - 1e-12), budget.delta)) ** 2 / 2
    return exact(budget.rho if isinstance(budget, ZCDP) else budget.epsilon)


def powers(least, most):
    return st.floats(least, most).map(lambda power: 10.0**power)


BUDGETS = st.one_of(
    powers(-7, 9).map(PureDP),
    powers(-7, 9).map(ZCDP),
    st.builds(ApproxDP, powers(-7, 10), powers(-299, -0.1)),
)
UNITS = [schema(), schema(unit={"column": "id", "max_rows": 7, "type": "integer"}), OF_WEIGHTS]


@example("gaussian", ApproxDP(1e10, 1e-6), UNITS[1])
@example("gaussian", ApproxDP(1e4, 1e-299), UNITS[2])
@example("matrix-laplace", ApproxDP(1.0, 1e-6), UNITS[1])
@example("matrix-laplace", ApproxDP(1.0, 1e-6), UNITS[2])
@given(st.sampled_from(["gaussian", "matrix-laplace"]), BUDGETS, st.sampled_from(UNITS))
def test_all_that_is_stated_is_spent_and_the_count_has_no_budget_refused(mechanism, budget, unit):
    lattice, per_row = Lattice.of(unit), units_per_row(unit)
    try:
        plain = mechanism_named(mechanism).calibrate(lattice, budget, ADD)
    except MechanismError:
        return  # not for this kind of budget
    laws = planned(mechanism, budget, ADD, lattice, per_row)
    kept, counting = spent(laws, lattice, per_row)
    assert kept + counting == stated(laws)
    assert counting == laws.spends
    assert 1 / 65 < counting / stated(laws) < 1 / 24
    assert laws.guarantee == plain.guarantee


@pytest.mark.parametrize("mechanism", ["gaussian", "matrix-laplace"])
def test_control_with_a_quieter_count_or_of_the_rest_s_budget_more_is_spent_than_stated(mechanism):
    laws = planned(mechanism, APPROX)
    of_rest = replace(laws, guarantee=laws.laws.guarantee)
    quieter = {
        "gaussian": lambda: ScalarGaussian(laws.count.variance - 1),
        "matrix-laplace": lambda: ScalarLaplace(laws.count.scale - 1),
    }[mechanism]()
    for wrong in (of_rest, replace(laws, count=quieter)):
        assert sum(spent(wrong)) > stated(wrong)


@pytest.mark.parametrize("budget", [PURE, PureDP(1e6), PureDP(1e-6)], ids=str)
@pytest.mark.parametrize("mechanism", PRODUCT)
def test_a_budget_without_a_delta_gets_no_gaussian_noise(mechanism, budget):
    """With a delta, dpcov calibrates the mechanism twice, with the same kind of noise."""
    if mechanism != "gaussian":  # which refuses it
        laws = mechanism_named(mechanism).calibrate(LATTICE, budget, ADD)
        assert count.is_gaussian(laws) is False


def test_what_float64_can_not_split_is_refused_whatever_noise_a_mechanism_can_draw():
    """Core mechanisms refuse it first: noise of so many digits can't be drawn."""
    bare, refused = mechanism_named("gaussian"), 0
    draws_any = mock.Mock(calibrate=lambda *_: bare.calibrate(LATTICE, APPROX, ADD))
    draws_any.name = bare.name
    for epsilon, delta in itertools.product((1e-18, 1e-17, 1e-16), np.linspace(2e-15, 9e-15, 40)):
        budget = ApproxDP(epsilon, delta)
        with pytest.raises(MechanismError, match="too small for the noise"):
            count.calibrated(bare, LATTICE, budget, ADD, 1)
        try:
            assert count.calibrated(draws_any, LATTICE, budget, ADD, 1).spends > 0
        except MechanismError:
            refused += 1
    assert refused
    with (
        mock.patch.object(count, "_less_mu", lambda _, budget: budget),
        pytest.raises(MechanismError, match="too small to count the rows"),
    ):
        planned("gaussian", APPROX)


@pytest.mark.parametrize("budget", [PureDP(5e-324), ZCDP(5e-324)], ids=str)
def test_a_budget_of_which_nothing_is_left_is_refused_as_too_small(budget):
    with pytest.raises(MechanismError, match="cannot generate noise"):
        planned("gaussian", budget)


def test_a_count_that_can_not_be_drawn_is_refused_before_anything_is_read():
    laws = planned("matrix-laplace", PURE)
    with pytest.raises(MechanismError, match="too small for the noise"):
        replace(laws, count=ScalarLaplace(MAX_SCALE + 1))


def test_a_delta_that_allows_no_gaussian_noise_leaves_the_noise_of_a_pure_budget():
    assert planned("matrix-laplace", ApproxDP(1.0, 1e-300)) == planned("matrix-laplace", PURE)


def test_the_count_has_the_noise_that_the_proof_states():
    assert float(planned("matrix-laplace", PURE).count.scale) == pytest.approx(25)
    assert float(planned("gaussian", RHO).count.variance) == pytest.approx(64)


def test_of_a_delta_the_exact_curve_holds_for_count_and_rest_together():
    for budget in (APPROX, ApproxDP(0.01, 1e-3), ApproxDP(20.0, 1e-12), ApproxDP(1e-9, 0.1)):
        laws = planned("gaussian", budget)
        left, extra = gaussian.concentration("gaussian", laws.laws.guarantee.budget)
        spent = 1 / (2 * (laws.count.variance - extra))
        mu = float(2 * (left + spent)) ** 0.5
        assert gaussian_delta(mu, budget.epsilon) <= budget.delta
        assert gaussian_delta(mu * 1.01, budget.epsilon) > budget.delta  # a control: it is tight


@pytest.mark.parametrize("name", sorted(set(MECHANISMS) - set(PRODUCT)))
def test_control_mechanisms_of_papers_keep_their_budgets_whole(name):
    kind = mechanism_named(name)
    for budget in (PURE, RHO, APPROX):
        try:
            plain = kind.calibrate(LATTICE, budget, ADD)
        except dpcov.errors.DpcovError:
            continue
        laws = count.calibrated(kind, LATTICE, budget, ADD, 1)
        assert laws.count is None
        assert laws.guarantee == plain.guarantee


@pytest.mark.parametrize("mechanism", ["auto", "matrix-laplace", "standardized"])
def test_control_a_public_number_of_rows_costs_nothing_and_has_no_noise(mechanism):
    made = released(neighbors="replace-one", mechanism=mechanism)
    assert count_of(made) is count_noise(made) is None
    assert made.count() == len(TABLE)
    if mechanism != "auto":
        assert planned(mechanism, PURE, SWAP).laws == mechanism_named(mechanism).calibrate(
            LATTICE, PURE, SWAP
        )


def test_a_unit_of_many_rows_or_of_weights_has_as_much_more_noise():
    plain = planned("gaussian", RHO).count
    five = Lattice.of(schema(unit={"column": "id", "max_rows": 5, "type": "integer"}))
    assert planned("gaussian", RHO, lattice=five).count.variance == 25 * plain.variance
    unit = units_per_row(OF_WEIGHTS)
    assert unit == Lattice.of(OF_WEIGHTS).intercept_units ** 2 > 1
    assert planned("gaussian", RHO, per_row=unit).count.variance == unit**2 * plain.variance


def test_without_an_intercept_weighted_rows_have_no_count():
    bare = schema(weight={"column": "w", "maximum": 2.0}, intercept=0.0)
    made = dpcov.release(weighted(100), schema=bare, epsilon=1.0, seed=1)
    assert count_noise(made) is None
    with pytest.raises(ReleaseError, match="without an intercept"):
        made.count()


@pytest.mark.parametrize("mechanism", ["matrix-laplace", "gaussian", "auto"])
@pytest.mark.parametrize("epsilon", [1e9, 1e15])
def test_huge_budgets_are_not_refused_on_account_of_the_count(mechanism, epsilon):
    made = released(epsilon=epsilon, mechanism=mechanism, delta=1e-6)
    assert made.count() == pytest.approx(2000, abs=3)


@pytest.mark.parametrize("mechanism", PRODUCT)
def test_the_noise_of_the_count_is_drawn_before_any_row_is_read(mechanism, monkeypatch):
    order = []
    for law in (ScalarLaplace, ScalarGaussian):
        whole = law.sample
        monkeypatch.setattr(
            law, "sample", lambda self, e, whole=whole: order.append(self) or whole(self, e)
        )
    asked = Request(lower=0, upper=1, seed=1, epsilon=1.0, mechanism=mechanism, delta=1e-6)
    request = dpcov.api.prepare(TABLE, asked)
    read = type(request.rows)._sums
    monkeypatch.setattr(
        type(request.rows), "_sums", lambda *a, **k: order.append("read") or read(*a, **k)
    )
    request.run()
    assert order.index(request.laws.count) < order.index("read")


@pytest.mark.parametrize(("mechanism", "budget"), [("gaussian", RHO), ("matrix-laplace", PURE)])
def test_the_audit_finds_the_count_to_spend_its_share_and_no_more(mechanism, budget):
    only = mock.patch("dpcov.api.auditing.settings", return_value=settings(4)[1:2])
    with only:
        found = audit(mechanism_named(mechanism), budget=budget, neighbors=ADD)
    shares = {worst.round: worst.share for worst in found.worst}
    assert not found.violated
    assert shares["number of rows"] == pytest.approx(1)
    assert 0.999 < shares["all rounds"] <= 1 + 1e-10
    with only:
        swapped = audit(mechanism_named(mechanism), budget=budget, neighbors=SWAP)
    assert "number of rows" not in {worst.round for worst in swapped.worst}


def test_control_a_count_with_less_noise_than_its_share_is_caught(monkeypatch):
    whole = count.calibrated

    def quieter(*asked):
        laws = whole(*asked)
        return replace(laws, count=ScalarLaplace(laws.count.scale * Fraction(99, 100)))

    monkeypatch.setattr(count, "calibrated", quieter)
    with mock.patch("dpcov.api.auditing.settings", return_value=settings(4)[:1]):
        assert audit(mechanism_named("matrix-laplace"), budget=PURE, neighbors=ADD).violated


# How near it is.


CASES = {
    "a column": (TABLE[:500, :1], {}),
    "a constant column": (np.ones((500, 1)), {}),
    "no row": (TABLE[:0], {}),
    "rare flags": ((np.random.default_rng(3).random((500, 5)) < 0.01).astype(float), {}),
    "no intercept": (TABLE[:500], {"intercept": 0.0}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("budget", "bar"), [({"epsilon": 0.1}, 300), ({"rho": 0.05}, 22.4)])
def test_the_mean_error_of_the_count_is_within_its_bar(case, budget, bar):
    table, more = CASES[case]
    asked = {"lower": 0, "upper": 1, "denoise": "none"} | budget | more
    made = [dpcov.release(table, seed=seed, **asked) for seed in range(40)]
    assert np.mean([abs(one.count() - len(table)) for one in made]) < 1.25 * bar  # of 40 releases


@pytest.mark.parametrize("mechanism", ["auto", "matrix-laplace"])
def test_control_the_corner_alone_is_farther_off(mechanism):
    table, asked = np.full((20_000, 1), 0.4), {"mechanism": mechanism, "intercept": 0.1}
    errors = []
    for seed in range(12):
        made = released(table, seed, epsilon=0.3, **asked)
        alone = changed(made, published_count=None, count_noise=None)
        errors.append([abs(one.count() - len(table)) for one in (made, alone)])
    best, corner = np.mean(errors, axis=0)
    assert corner > 3 * best


@pytest.mark.parametrize("asked", [{"mechanism": "gaussian", "rho": 0.05}, {"epsilon": 0.1}])
def test_the_best_count_is_not_biased_and_has_the_stated_deviation(asked):
    asked = {"epsilon": None} | asked
    asked |= {"denoise": "none"}
    found = [CountEstimate.of(released(seed=seed, **asked)) for seed in range(100)]
    errors = np.array([one.value - 2000 for one in found]) / found[0].deviation
    assert abs(errors.mean()) < 4 / np.sqrt(len(errors))
    assert 0.75 < errors.std() < 1.3


def test_the_two_figures_are_weighted_by_the_inverse_of_their_variances():
    made = released(rho=0.5, epsilon=None, mechanism="gaussian")
    best, t = CountEstimate.of(made), made.lattice.intercept_units
    corner = float(made.noise.variance) / t**4
    own = float(count_noise(made).variance)
    assert best.of_corner == pytest.approx((1 / corner) / (1 / corner + 1 / own))
    assert best.deviation**-2 == pytest.approx(1 / corner + 1 / own)
    assert best.value == pytest.approx(
        best.of_corner * made.noisy()[-1, -1] / made.intercept() ** 2
        + (1 - best.of_corner) * count_of(made)
    )


@pytest.mark.parametrize("mechanism", ["auto", "gaussian", "standardized"])
def test_means_are_sums_over_the_best_count(mechanism):
    made = released(TABLE / 10 + 0.85, rho=0.5, epsilon=None, mechanism=mechanism)
    sums = made.mapped(made.second_moment())[:-1, -1] / made.intercept()
    if made.linear_map is not None:
        sums = np.linalg.solve(made.linear_map, sums)
    center = 0.0 if made.center is None else made.center
    expected = (center + sums / made.count()) / 2 + 0.5
    assert made.mean() == pytest.approx(expected)
    assert made.mean() == pytest.approx(TABLE.mean(axis=0) / 10 + 0.85, abs=0.03)


def test_means_about_a_private_center_do_not_move_with_the_count():
    table = 0.9 + 0.02 * (TABLE - 0.5)
    made = released(table, rho=0.5, epsilon=None)
    assert made.center is not None
    twice = changed(made, published_count=2 * count_of(made))
    assert abs(twice.mean() - made.mean()).max() < 0.01
    plain = released(table, rho=0.5, epsilon=None, mechanism="gaussian")
    moved = changed(plain, published_count=2 * count_of(plain))  # a control: about midpoints
    assert abs(moved.mean() - plain.mean()).max() > 0.05


@pytest.mark.parametrize("published", [-(10**6), 0, 1, 10**9])
@pytest.mark.parametrize("mechanism", ["auto", "matrix-laplace"])
def test_no_variance_is_above_1_nor_a_mean_out_of_bounds_whatever_the_count(mechanism, published):
    table = (np.random.default_rng(4).random((300, 4)) < 0.5).astype(float)
    made = changed(released(table, mechanism=mechanism), published_count=published)
    assert made.count() >= 0
    assert np.diag(made.covariance()).max() <= 0.25 * (1 + 1e-9)
    assert ((made.mean() >= 0) & (made.mean() <= 1)).all()
    assert np.linalg.eigvalsh(made.covariance())[0] > -1e-9


def test_without_an_intercept_the_count_is_still_reported():
    made = released(intercept=0.0)
    assert made.count() == pytest.approx(2000, abs=300)
    assert "about" in repr(made)
    bare = changed(made, published_count=None, count_noise=None)  # a control: as it was
    assert not bare.tells_count


@pytest.mark.parametrize("mechanism", ["auto", "gaussian"])
def test_the_stated_deviation_of_the_count_is_that_of_both_figures(mechanism):
    made = released(rho=0.1, epsilon=None, mechanism=mechanism)
    best = CountEstimate.of(made)
    assert Estimate.of(made).noise_deviations[0] == best.deviation
    errors = [
        CountEstimate.of(
            released(seed=s, rho=0.1, epsilon=None, mechanism=mechanism, denoise="none")
        ).value
        - 2000
        for s in range(100)
    ]
    assert np.std(errors) == pytest.approx(best.deviation, rel=0.25)


@pytest.mark.parametrize("asked", [{"rho": 0.05, "mechanism": "gaussian"}, {"rho": 0.05}])
def test_intervals_of_means_cover_with_the_best_count_in_the_corner(asked):
    table, hits, widths = TABLE / 5 + 0.75, [], []
    for seed in range(30):
        made = released(table, seed, epsilon=None, **asked)
        found = intervals(made, "mean", sampling=False, generator=simulation_generator(seed))
        truth = table.mean(axis=0)
        hits.append((found.low <= truth) & (truth <= found.high))
        widths.append(found.high - found.low)
    assert np.mean(hits) > 0.88
    alone = changed(made, published_count=None, count_noise=None)
    wide = intervals(alone, "mean", sampling=False, generator=simulation_generator(0))
    assert np.mean(widths[-1]) <= np.mean(wide.high - wide.low) * 1.1


def test_plausible_moments_of_mapped_rows_move_with_the_count_as_their_own_moment_does():
    made = released(TABLE / 10 + 0.85, rho=0.5, epsilon=None)
    plausible = Estimate.of(made).errors(sampling=False, generator=simulation_generator(1))
    t = made.intercept()
    corner = made.mapped(plausible.center)[-1, -1]
    assert corner == pytest.approx(CountEstimate.of(made).value * t**2)
    spread = np.concatenate(list(plausible.batches()))[:, -1, -1].std() / t**2
    assert spread == pytest.approx(CountEstimate.of(made).deviation, rel=0.2)


# Where it goes.


def test_the_count_and_its_law_survive_the_file(tmp_path):
    made = released(rho=0.5, epsilon=None)
    made.save(tmp_path / "x.json")
    again = Release.load(tmp_path / "x.json")
    assert (count_of(again), count_noise(again)) == (count_of(made), count_noise(made))
    assert again.count() == made.count()


@pytest.mark.parametrize("gone", [("published_count", "count_noise"), ("published_count",)])
def test_a_file_without_a_count_loads_and_one_without_its_law_is_refused(gone, tmp_path):
    document = former(released())
    for name in gone:
        del document[name]
    path = tmp_path / "x.json"
    path.write_text(json.dumps(document))
    if len(gone) == 2:
        old = Release.load(path)
        assert count_noise(old) is None
        assert old.count() == pytest.approx(2000, abs=1500)
        return
    with pytest.raises(ReleaseError, match="count or its noise is missing"):
        Release.load(path)


def test_a_count_with_noise_is_refused_where_the_number_is_public(tmp_path):
    document = former(released(neighbors="replace-one"))
    document |= {"published_count": 3, "count_noise": {"law": "discrete-laplace", "scale": "25"}}
    (tmp_path / "x.json").write_text(json.dumps(document))
    with pytest.raises(ReleaseError, match="add-remove only"):
        Release.load(tmp_path / "x.json")


def test_each_level_has_a_count_of_its_own_rows():
    table = pa.table({"x": [0.25, 0.75] * 4000, "site": ["a"] * 3000 + ["b"] * 5000})
    declared = Schema.parse(
        {
            "columns": {
                "x": numeric(0, 1),
                "site": {"kind": "categorical", "levels": ["a", "b", "c"]},
            }
        }
    )
    for neighbors in Neighbors:
        made = dpcov.release_by(
            table, "site", schema=declared, epsilon=2.0, seed=1, neighbors=neighbors
        )
        assert all(count_noise(one) is not None for one in made.values())
        found = [one.count() for one in made.values()]
        assert found == pytest.approx([3000, 5000, 0], abs=250)


def test_a_plan_knows_what_the_count_takes():
    """The prediction uses a closed form. Under replace-one, count and trace use no budget."""
    asked = {"mechanism": "matrix-laplace", "factors": ()}
    private, public = (
        dpcov.plan(schema(), 2000, epsilon=epsilon, neighbors=neighbors, **asked)
        for epsilon, neighbors in ((1.0, ADD), (2.0, SWAP))
    )
    ratio = private.predictions[0].errors.noise / public.predictions[0].errors.noise
    assert ratio == pytest.approx(float(1 / (1 - COUNT_EPSILON_SHARE)) / 0.9)


def test_seeds_repeat_the_count_and_others_do_not():
    found = [count_of(released(seed=seed)) for seed in (1, 1, 2, 3)]
    assert found[0] == found[1]
    assert any(one != other for one, other in itertools.pairwise(found[1:]))


def test_the_count_is_drawn_from_the_release_s_own_entropy():
    laws = planned("matrix-laplace", PURE)
    rows = open_rows(TABLE, schema())
    made = count.run(mechanism_named("matrix-laplace"), rows, laws, Entropy.seeded(5))
    assert count_of(made) == 2000 + laws.count.sample(Entropy.seeded(5))
