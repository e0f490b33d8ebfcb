"""Every registered mechanism keeps the promises of the design; one table drives all tests."""

import dataclasses
import doctest
import inspect
import itertools
import json
import math
import re

import numpy as np
import pyarrow as pa
import pytest
from cases import (
    ADDITIVE,
    BUDGETS,
    CASES,
    MAY_REFUSE,
    NOISE_FIRST,
    REFUSED,
    SOURCES,
    Watched,
    as_arrow,
    rows_of,
    table,
)
from typer.testing import CliRunner

import dpcov
from dpcov import mechanisms
from dpcov.api.ledger import Ledger
from dpcov.cli import app
from dpcov.core.entropy import Entropy, simulation_generator
from dpcov.core.privacy import Neighbors, PureDP
from dpcov.core.samplers.scalars import ScalarGaussian
from dpcov.denoise import denoise
from dpcov.errors import (
    DpcovError,
    MechanismError,
    MechanismRefused,
    NotReleasedError,
    SourceError,
)
from dpcov.mechanisms import MECHANISMS, additive, mechanism_named
from dpcov.mechanisms.replay import warn_of_mismatches
from dpcov.published.kinds import NoisySums
from dpcov.published.record import NOT_PRIVATE
from dpcov.releases import Release, unprotected
from dpcov.releases.file import to_document
from rounds_for_tests import trace_noise, trace_of

HEADINGS = [
    "Guarantee",
    "Sensitivity",
    "Not protected",
    "Parameters",
    "Returns",
    "Raises",
    "Cost",
    "Source",
    "Examples",
]
FIRST = {case.name: case for case in reversed(CASES)}.values()
each_case = pytest.mark.parametrize("case", CASES, ids=str)
each_mechanism = pytest.mark.parametrize("kind", MECHANISMS.values(), ids=MECHANISMS)
each_additive = pytest.mark.parametrize("case", ADDITIVE, ids=str)
add_remove = pytest.mark.parametrize(
    "case", [c for c in CASES if c.neighbors is Neighbors.ADD_REMOVE], ids=str
)
additive_add_remove = pytest.mark.parametrize(
    "case", [c for c in ADDITIVE if c.neighbors is Neighbors.ADD_REMOVE], ids=str
)


def keys(document):
    """Return the document without its values: the part that no data can change."""
    if isinstance(document, dict):
        return {key: keys(value) for key, value in document.items()}
    return [keys(document[0]), len(document)] if isinstance(document, list) else type(document)


def seeded(case, values, seed=1):
    return case.release(rows_of(values), Entropy.seeded(seed))


def seeded_or_refused(case, values):
    """Return the release, or None if so few rows are refused, as they can be."""
    try:
        return seeded(case, values)
    except MechanismRefused:
        assert case.may_refuse
        assert len(values) < case.enough
        return None


def test_the_table_covers_every_mechanism():
    assert BUDGETS.keys() == MECHANISMS.keys()


# A mechanism reaches rows only through a source. Every mechanism meets one source, in turn. One
# mechanism of each way of asking (for sums, for moments by norm, for the rows) meets all sources.
ASKING = {
    name: next(case for case in CASES if case.name == name)
    for name in ("matrix-laplace", "standardized", "whitened")
}
MEETINGS = dict.fromkeys(
    [
        *zip(CASES, itertools.cycle(SOURCES), strict=False),
        *itertools.product(ASKING.values(), SOURCES),
    ]
)


def stated(case, made):
    """Return the budget that a release states: pure noise spends no delta."""
    gaussian = isinstance(getattr(made.find(NoisySums), "noise", None), ScalarGaussian)
    return case.budget if gaussian else BUDGETS[case.name].kept[case.budget][0]


@pytest.mark.parametrize(("case", "source"), MEETINGS, ids=str)
def test_any_source_gives_the_stated_guarantee_and_the_same_integers(case, source, tmp_path):
    values = table(case.enough)
    made = case.release(rows_of(SOURCES[source](values, tmp_path)), Entropy.seeded(1))
    reference = seeded(case, values)
    assert made.guarantee.budget == stated(case, made)
    assert made.guarantee.neighbors is case.neighbors
    assert made.mechanism == case.name
    assert made.unit_count == (case.enough if case.neighbors is Neighbors.REPLACE_ONE else None)
    np.testing.assert_array_equal(integers_of(made), integers_of(reference))
    assert trace_of(made) == trace_of(reference)


@pytest.mark.parametrize("n", [0, 1, 20, 300, 20_000])
@each_case
def test_covariances_are_finite_symmetric_and_psd_for_any_number_of_rows(case, n):
    made = seeded_or_refused(case, table(n))
    if made is None:
        return
    made = denoise(made, generator=simulation_generator(2))
    for question in (Release.second_moment, Release.covariance, Release.correlation):
        matrix = held(made, question)
        assert np.isfinite(matrix).all()
        np.testing.assert_array_equal(matrix, matrix.T)
        assert np.linalg.eigvalsh(matrix)[0] >= -1e-9 * max(1.0, np.abs(matrix).max())
    assert np.isfinite(held(made, Release.mean)).all()
    assert np.all(held(made, Release.count) >= 0)


def held(made, question):
    """Return the release's answer; an empty answer if the release refuses the question."""
    reason = {
        Release.second_moment: made.reasons.matrix,
        Release.mean: made.reasons.means,
        Release.count: None if made.tells_count else "private",
    }.get(question, made.not_released)
    if reason is not None:
        with pytest.raises(NotReleasedError):
            question(made)
        return np.zeros((1, 1))
    return question(made)


@each_case
def test_a_release_survives_its_file(case, tmp_path):
    made = denoise(case.release(rows_of(table(case.enough)), Entropy.system()))
    made.save(tmp_path / "r.json")
    again = Release.load(tmp_path / "r.json")
    assert to_document(again) == to_document(made)
    assert (again.noise, trace_noise(again)) == (made.noise, trace_noise(made))
    assert (again.guarantee, again.lattice) == (made.guarantee, made.lattice)
    assert again.not_released == made.not_released
    warn_of_mismatches(again)  # no warning: the map follows from the file
    for question in (Release.mean, Release.correlation):
        np.testing.assert_array_equal(held(again, question), held(made, question))


@pytest.mark.parametrize("n", [0, 1, 300, None])
@add_remove
def test_files_of_n_and_of_n_plus_one_rows_have_the_same_form(case, n):
    n = case.enough if n is None else n
    made = [seeded_or_refused(case, table(k)) for k in (n, n + 1)]
    if None in made:
        return
    few, more = map(to_document, made)
    assert keys(few) == keys(more)
    # A variance is an exact fraction of what was published before: of any number of digits.
    texts = [re.sub(r'"\d+/\d+"', '""', json.dumps(document)) for document in (few, more)]
    lengths = [len(text) for text in texts]
    assert abs(lengths[0] - lengths[1]) < 0.01 * lengths[0]


@additive_add_remove
def test_under_add_remove_nothing_but_the_sum_depends_on_the_rows(case):
    one, other = (seeded(case, table(n)) for n in (200, 5000))
    for name in ("noise", "shift", "unit_count", "parameters", "lattice"):
        assert getattr(one, name) == getattr(other, name)
    assert trace_noise(one) == trace_noise(other)
    sums = [rows_of(table(n)).second_moments()[0] for n in (200, 5000)]
    change = (sums[1].units - sums[0].units).astype(float) / 2.0**one.shift
    assert np.abs(other.published - one.published - change).max() <= 1
    assert trace_of(other) - trace_of(one) == sums[1].trace() - sums[0].trace()


@pytest.mark.parametrize("n", [1, 5000])
@each_additive
def test_what_is_published_is_the_sum_plus_draws_of_the_stated_laws(case, n):
    rows = rows_of(table(n))
    made, entropy = seeded(case, table(n)), Entropy.seeded(1)
    calibration, moment = case.calibrate(rows.lattice()), rows.second_moments()[0]
    noise = calibration.matrix.sample(entropy)
    traces = [law.sample(entropy) for law in (calibration.trace, calibration.trace_alone)]
    gated = case.neighbors is Neighbors.REPLACE_ONE and n == 1
    assert (made.published is None) == gated
    assert trace_of(made) == moment.trace() + traces[gated]
    assert trace_noise(made) == (calibration.trace_alone if gated else calibration.trace)
    if not gated:
        coarse = additive.coarse(moment.units + noise, made.shift)
        np.testing.assert_array_equal(made.published, coarse)


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_a_budget_that_cannot_be_kept_is_refused_before_any_noise_or_read(case):
    watched = Watched(table(10))
    with pytest.raises(MechanismError, match=case.name):
        case.release(watched.rows(), watched.entropy())
    assert watched.events == []


@pytest.mark.parametrize("case", NOISE_FIRST, ids=str)
def test_all_noise_is_drawn_before_the_first_row_is_read(case):
    watched = Watched(table(10))
    case.release(watched.rows(), watched.entropy())
    first_read = watched.events.index("read")
    assert first_read > 0
    assert "noise" not in watched.events[first_read:]


@each_case
def test_the_data_is_read_at_most_as_often_as_stated(case):
    watched = Watched(table(case.enough))
    case.release(watched.rows(), watched.entropy())
    assert 1 <= watched.events.count("read") <= case.mechanism.passes


@each_case
def test_a_stream_answers_every_question_of_a_mechanism_and_is_booked(case, tmp_path):
    ledger = Ledger.create(tmp_path / "l", case.budget, neighbors=case.neighbors, count="sums")
    before = ledger.account().to_json()
    stream = as_arrow(table(case.enough)).to_reader()
    asked = {"lower": 0, "upper": 1, "mechanism": case.name, "neighbors": case.neighbors}
    asked |= dataclasses.asdict(case.budget) | (
        {"radius": "private"} if case.private_radius else {}
    )
    dpcov.release(stream, ledger=ledger, **asked)
    assert ledger.account().to_json() != before
    assert stream.read_all().num_rows == 0


@each_case
def test_a_failing_read_gives_a_fixed_text_and_no_release(case):
    watched = Watched(table(10), fault=ValueError("the cell 'secret' is no number"))
    with pytest.raises(SourceError) as caught:
        case.release(watched.rows(), watched.entropy())
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


@each_additive
def test_the_noise_grows_as_the_budget_shrinks(case):
    _, smaller, factor = BUDGETS[case.name].kept[case.budget]
    lattice = rows_of(table(1)).lattice()
    wide, narrow = case.calibrate(lattice, smaller), case.calibrate(lattice)
    ratios = [wide.matrix.frobenius_squared / narrow.matrix.frobenius_squared]
    for name in ("trace", "trace_alone"):
        laws = (getattr(wide, name), getattr(narrow, name))
        ratios.append((laws[0].standard_deviation / laws[1].standard_deviation) ** 2)
    if factor is None:
        assert min(ratios) > 3
    else:
        assert ratios == pytest.approx([factor] * 3, rel=2e-4)


@each_case
def test_a_relation_given_as_text_is_the_relation(case):
    lattice = rows_of(table(1)).lattice()
    as_text = case.mechanism.calibrate(lattice, case.budget, case.neighbors.value)
    assert as_text == case.calibrate(lattice)
    assert as_text.guarantee.neighbors is case.neighbors


@pytest.mark.parametrize(
    "budget",
    [
        {"epsilon": 1e-12},
        {"epsilon": 1e-300},
        {"epsilon": 1e300},
        {"rho": 1e-40},
        {"rho": 1e300},
        {"epsilon": 1e-9, "delta": 1e-9},
        {"epsilon": 1e-12, "delta": 1e-9, "mechanism": "matrix-laplace"},
        {"epsilon": 1e-12, "delta": 1e-9, "mechanism": "gaussian"},
        {"epsilon": 1.0, "trace_share": 1e-12},
        {"epsilon": 1.0, "trace_share": math.nan},
        {"epsilon": 1.0, "trace_share": "a tenth"},
    ],
    ids=str,
)
def test_noise_that_64_bits_cannot_hold_is_refused_and_nothing_is_spent(budget, tmp_path):
    ledger = Ledger.create(tmp_path / "l", PureDP(1e9), neighbors=Neighbors.ADD_REMOVE)
    before = ledger.account().to_json()
    with pytest.raises(DpcovError):
        dpcov.release(table(10), lower=0, upper=1, ledger=ledger, **budget)
    assert ledger.account().to_json() == before


def test_a_sum_beyond_64_bits_is_published_as_the_largest_number():
    noisy = np.array([[2**80, -(2**80)], [5, -5]], dtype=object)
    coarse = additive.coarse(noisy, 1)
    assert coarse.tolist() == [[2**63 - 1, -(2**63)], [3, -2]]


@each_mechanism
def test_the_docstring_has_every_section_and_a_checked_number(kind):
    lines = inspect.getdoc(kind).splitlines()
    found = [a for a, b in itertools.pairwise(lines) if b and set(b) == {"-"}]
    assert found == HEADINGS
    module = inspect.getmodule(kind)
    tests = [t for t in doctest.DocTestFinder().find(kind, kind.__name__, module) if t.examples]
    assert tests
    assert any(any(c.isdigit() for c in e.want) for t in tests for e in t.examples)
    for test in tests:
        assert doctest.DocTestRunner().run(test).failed == 0


@each_mechanism
def test_a_mechanism_is_frozen_data_with_public_fields(kind):
    assert kind.__dataclass_params__.frozen
    assert all(not field.name.startswith("_") for field in dataclasses.fields(kind))
    assert list(inspect.signature(kind.__call__).parameters) == [
        "self",
        "rows",
        "budget",
        "neighbors",
        "entropy",
    ]


@each_case
def test_a_seeded_release_says_not_private_wherever_it_shows(case, tmp_path):
    path = tmp_path / "r.json"
    for entropy, stamped in ((Entropy.seeded(1), True), (Entropy.system(), False)):
        made = denoise(case.release(rows_of(table(case.enough)), entropy))
        made.save(path, force=True)
        document = json.loads(path.read_text())
        loaded = Release.load(path)
        says = [
            document["status"] == NOT_PRIVATE,
            NOT_PRIVATE in loaded.guarantee_in_words(),
            loaded.reproducible,
        ]
        if case in FIRST:  # of the others' files the command reads the same words
            shown = CliRunner().invoke(app, ["show", str(path)])
            assert shown.exit_code == 0
            says.append("NOT PRIVATE" in shown.output)
        assert says == [stamped] * len(says)


@each_case
def test_two_releases_share_no_noise(case):
    values = table(case.enough)
    one, other = (case.release(rows_of(values), Entropy.system()) for _ in range(2))
    assert (integers_of(one) != integers_of(other)).mean() > 0.5
    if trace_of(one) is not None:
        assert trace_of(one) != trace_of(other)
    same = [integers_of(seeded(case, values, seed=5)) for _ in range(2)]
    np.testing.assert_array_equal(*same)


def integers_of(made):
    """Return the published integers of the matrix, or else of the sums."""
    if made.published is None:
        return np.array(made.find(NoisySums, "sums").values)
    return made.published[np.tril_indices(len(made.published))]


@pytest.mark.parametrize("case", MAY_REFUSE, ids=str)
def test_a_refusal_is_spent_and_says_the_same_of_every_table(case, tmp_path, monkeypatch):
    monkeypatch.setattr(Entropy, "system", lambda: Entropy.seeded(1))
    texts, few = set(), BUDGETS[case.name].too_few
    for i, values in enumerate((table(few), table(few, seed=1), table(few + 9) * 1e-3)):
        ledger = Ledger.create(
            tmp_path / str(i), case.budget, neighbors=case.neighbors, count="sums"
        )
        asked = {"lower": 0, "upper": 1, "mechanism": case.name, "neighbors": case.neighbors}
        # A stream, whose number of rows is not known before the spend.
        names = [f"x{j}" for j in range(values.shape[1])]
        stream = pa.table(list(values.T), names).to_reader()
        with pytest.raises(MechanismRefused) as caught:
            dpcov.release(stream, ledger=ledger, **asked, **dataclasses.asdict(case.budget))
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
        assert ledger.account().to_json()["spent"] == dataclasses.asdict(case.budget)
        texts.add(str(caught.value))
    assert len(texts) == 1
    text = texts.pop()
    least = re.search(r", and at least [\d,]+ rows \(persons\) with this budget", text)
    assert least is not None
    assert not any(character.isdigit() for character in text.replace(least[0], ""))


def test_an_unknown_name_or_option_is_refused_with_the_choices():
    with pytest.raises(MechanismError, match=", ".join([*MECHANISMS, "auto"])):
        mechanism_named("nonsense")
    for name in MECHANISMS:
        with pytest.raises(MechanismError, match=f"{name!r} has no option 'sigma'"):
            mechanism_named(name, sigma=1.0)
    assert set(mechanisms.__all__) >= {"MECHANISMS", "Mechanism"}


@each_mechanism
def test_an_option_of_the_wrong_type_is_refused_and_right_ones_are_kept(kind):
    defaults = mechanisms.options_of(kind.name)
    options = [one for one in dataclasses.fields(kind) if one.name not in kind.set_by_goal]
    assert defaults == {one.name: one.default for one in options}
    assert mechanism_named(kind.name, **defaults) == kind()
    for name in (name for name, default in defaults.items() if default is not False):
        with pytest.raises(MechanismError):
            mechanism_named(kind.name, **{name: object()})


def test_the_text_of_a_type_error_is_not_shown():
    with pytest.raises(MechanismError, match="alpha must be above 0, not 'a tenth'") as caught:
        mechanism_named("heavy-tailed", alpha="a tenth")
    assert caught.value.__cause__ is None


# Words of the section *Not protected*, with words of the sentences that `dpcov show` prints.
OWN_FACTS = {
    "pilot queries": "pilot queries",
    "memory": "memory",
    "directions": "directions",
    "of eigenvalues": "eigenvalues",
    "radius": "clipping radius",
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_release_states_what_its_mechanism_does_not_protect(name):
    documented = inspect.getdoc(MECHANISMS[name]).split("Not protected\n")[1].split("Parameters\n")
    stated = " ".join(unprotected.of_mechanism(name, ()))
    facts = [words for words in OWN_FACTS if words in documented[0]]
    assert bool(stated) == bool(facts)
    assert all(OWN_FACTS[words] in stated for words in facts)


def test_a_release_states_which_noise_is_drawn_in_floating_point():
    exact, inexact = (
        dpcov.release(np.eye(50), lower=0, upper=1, epsilon=1.0, seed=1, mechanism=name)
        for name in ("laplace", "matrix-laplace")
    )
    assert "float64" not in exact.not_protected()
    assert inexact.not_protected().endswith("in float64 before rounding: second moment")
