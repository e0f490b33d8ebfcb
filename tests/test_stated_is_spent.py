"""A release states and records what its rounds spend, by formulas of the test and dp-accounting."""

import json
import math
from fractions import Fraction

import dp_accounting
import numpy as np
import pandas as pd
import pytest

import dpcov
from dpcov.api.grouped import release_by
from dpcov.api.ledger import Ledger
from dpcov.core.privacy import ZCDP, ApproxDP, Neighbors, PureDP
from dpcov.releases.documents import budget_document
from dpcov.rows.moment import Lattice
from dpcov.rows.pilot_sensitivity import pilot_sensitivities
from dpcov.rows.schema import Schema

CLOSE = 1e-6
BUDGETS = {
    "pure": {"epsilon": 1.0},
    "rho": {"rho": 0.3},
    "delta 1e-6": {"epsilon": 1.0, "delta": 1e-6},
    "delta 1e-9": {"epsilon": 0.4, "delta": 1e-9},
}
COLUMNS = (1, 2, 5, 12, 20)
RELATIONS = ("add-remove", "replace-one")
MOST = 2  # rows of a person


def schema(columns, unit=False):
    """Return a schema of numbers, for rows or for persons."""
    number = {"kind": "numeric", "lower": -4, "upper": 4}
    reported = {"columns": {f"x{at}": number for at in range(columns)}}
    if unit:
        reported["unit"] = {"column": "id", "max_rows": MOST, "type": "integer"}
    return Schema.parse(reported)


def table(columns, rows=1500):
    """Return correlated columns that fill a part of their bounds, with ids of persons."""
    rng = np.random.default_rng(columns)
    values = 0.5 * rng.normal(size=(rows, 1)) + 0.4 * rng.normal(size=(rows, columns)) + 1
    frame = pd.DataFrame(values, columns=[f"x{at}" for at in range(columns)])
    return frame.assign(id=np.arange(rows) // MOST)


def cost(noise, absolute, squared, extra):
    """Return (epsilon, rho) that a number or a matrix costs, as its noise has only one of them."""
    match noise["law"]:
        case "discrete-laplace":
            return absolute / Fraction(noise["scale"]), Fraction(0)
        case "wishart-difference":
            return absolute / (2 * Fraction(noise["scale"])), Fraction(0)
        case _:
            return Fraction(0), squared / (2 * (Fraction(noise["variance"]) - extra))


def beside_matrix(noise, matrix, bound, extra):
    """Return what a trace costs beside a matrix, if A of trace `bound` replaces nothing or A'."""
    alone = cost(noise, bound, bound**2, extra)
    if matrix is None:
        return alone
    half = cost(matrix, bound, bound**2, extra)  # of the matrix, if A replaces nothing
    return tuple(max(Fraction(0), one - other) for one, other in zip(alone, half, strict=True))


def rounds(document):
    """Yield the cost of each round of a release file."""
    told, schema = document["guarantee"], Schema.model_validate(document["schema"])
    unit = schema.privacy_unit
    k, sides = unit.max_rows, 2 if told["neighbors"] == "replace-one" else 1
    extra = 8 if told["budget"]["definition"] == "approx" else 0
    matrix = None
    for one in document["rounds"]:
        answer = one["answer"]
        match answer["kind"]:
            case "noisy count":
                absolute, squared = k, k * k
            case "noisy sums":
                squared, absolute = pilot_sensitivities(
                    Lattice.of(schema), Neighbors(told["neighbors"])
                )
            case "norm histogram":
                absolute, squared = k * sides, k * k * sides
            case "noisy matrix":
                lattice = answer["rows"]["lattice"]
                bound = k * (lattice["side"] ** 2 + lattice["intercept_units"] ** 2)
                absolute, squared = bound * sides, bound**2 * sides
            case "noisy trace":
                absolute, squared = bound, bound**2
            case kind:
                raise AssertionError(kind)
        epsilon, rho = cost(answer["noise"], absolute, squared, extra)
        if answer["kind"] == "noisy trace" and sides == 2:
            epsilon, rho = beside_matrix(answer["noise"], matrix, bound, extra)
        matrix = answer["noise"] if answer["kind"] == "noisy matrix" else None
        stated = one["spent"]
        yield one["query"], stated, (epsilon, rho)


def check(document):
    """Assert that the rounds spend what the file states, by dp-accounting if there is a delta."""
    found = list(rounds(document))
    for _, stated, spent in found:
        name, amount = next(iter(stated.items()))
        assert Fraction(amount) == spent[name == "rho"]
    epsilon, rho = (sum(spent[at] for _, _, spent in found) for at in (0, 1))
    check_budget(document["guarantee"]["budget"], epsilon, rho)


def check_budget(budget, epsilon, rho):
    """Assert that a budget is what rounds of one kind cost."""
    assert min(epsilon, rho) == 0
    match budget["definition"]:
        case "pure":
            assert float(epsilon) == pytest.approx(budget["epsilon"], rel=CLOSE)
        case "zcdp":
            assert float(rho) == pytest.approx(budget["rho"], rel=CLOSE)
        case _:
            found = dp_accounting.get_epsilon_gaussian(1 / math.sqrt(2 * rho), budget["delta"])
            assert found == pytest.approx(budget["epsilon"], rel=CLOSE)


def document_of(release):
    return json.loads(release.to_text())


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
@pytest.mark.parametrize("unit", [False, True], ids=["rows", "persons"])
def test_what_is_stated_and_recorded_is_what_the_rounds_spend(
    budget, neighbors, columns, unit, tmp_path
):
    kinds = {"epsilon": PureDP, "rho": ZCDP}
    whole = ApproxDP(**budget) if "delta" in budget else kinds[next(iter(budget))](**budget)
    ledger = Ledger.create(tmp_path / "l", whole, neighbors=Neighbors(neighbors), count="sums")
    made = dpcov.release(
        table(columns),
        schema=schema(columns, unit),
        neighbors=neighbors,
        ledger=ledger,
        threads=1,
        denoise="none",
        **budget,
    )
    document = document_of(made)
    check(document)
    of_directions = [spent for query, _, spent in rounds(document) if query.startswith("dir")]
    if of_directions:
        part = budget_document(made.directions.guarantee.budget)
        check_budget(part, *(sum(spent[at] for spent in of_directions) for at in (0, 1)))
    (entry,) = ledger.account().entries
    assert entry.guarantee == made.guarantee
    if "delta" in budget:
        laplace = "epsilon" in document["rounds"][0]["spent"]
        assert made.guarantee.budget == (PureDP(budget["epsilon"]) if laplace else whole)


def test_control_a_file_that_states_less_is_noticed():
    made = dpcov.release(table(3), schema=schema(3), epsilon=1.0, denoise="none", threads=1)
    document = document_of(made)
    document["guarantee"]["budget"]["epsilon"] = 0.9
    with pytest.raises(AssertionError):
        check(document)


def test_pure_noise_leaves_the_delta_of_a_ledger(tmp_path):
    """Ten such releases fit a ledger of (10, 1e-6); a second one was refused before."""
    ledger = Ledger.create(tmp_path / "l", ApproxDP(10.0, 1e-6), count="sums")
    asked = {"schema": schema(2), "epsilon": 1.0, "delta": 1e-6, "ledger": ledger, "threads": 1}
    for _ in range(10):
        assert dpcov.release(table(2, 200), **asked).guarantee.budget == PureDP(1.0)
    assert ledger.account().left == {"epsilon": 0.0, "delta": 1e-6}


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_groups_with_pure_noise_spend_no_delta_together(neighbors, tmp_path):
    reported = schema(2).model_dump()
    reported["columns"]["g"] = {"kind": "categorical", "levels": ["u", "v"]}
    frame = table(2, 300).assign(g=np.where(np.arange(300) % 3, "u", "v"))
    ledger = Ledger.create(
        tmp_path / "l", ApproxDP(1.0, 1e-6), neighbors=Neighbors(neighbors), count="sums"
    )
    made = release_by(
        frame,
        "g",
        schema=Schema.parse(reported),
        neighbors=neighbors,
        ledger=ledger,
        epsilon=1.0,
        delta=1e-6,
    )
    together = {one.group.together.budget for one in made.values()}
    assert together == {PureDP(1.0)} == {ledger.account().entries[0].guarantee.budget}
    half = 0.5 if neighbors == "replace-one" else 1.0
    assert {one.guarantee.budget for one in made.values()} == {PureDP(half)}
