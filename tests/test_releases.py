"""Releases: save and load, hostile files, atomic writes."""

from __future__ import annotations

import copy
import json
import pickle
import random
import subprocess
import sys
import tracemalloc
from dataclasses import fields, replace
from itertools import product
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpcov
from dpcov.cli import json_schemas
from dpcov.core.files import check_writable, write
from dpcov.core.privacy import ZCDP, ApproxDP, Neighbors, PureDP
from dpcov.errors import NotReleasedError, OutputError, ReleaseError
from dpcov.published.kinds import NoisyCount, NoisySums, NoisyTrace
from dpcov.releases import Release, largest_file
from dpcov.rows.schema import Schema
from tables_for_tests import assert_same, correlated, mixed_table

SEEN = st.characters(codec="utf-8", exclude_categories=("Cc", "Cf", "Cs", "Zl", "Zp"))
NAMES = st.text(SEEN, min_size=1, max_size=6)
NUMERIC = st.builds(
    lambda lower, width, missing: {
        "kind": "numeric", "lower": lower, "upper": lower + width, "missing": missing,
    },
    st.floats(-1e6, 1e6), st.floats(1e-2, 1e6), st.sampled_from(["midpoint", "level"]),
)  # fmt: skip
CATEGORICAL = st.builds(
    lambda levels, other, missing: {
        "kind": "categorical", "levels": levels, "other": other, "missing": missing,
    },
    st.lists(st.sampled_from("abcdef"), min_size=1, max_size=3, unique=True),
    st.booleans(), st.sampled_from(["zeros", "level"]),
)  # fmt: skip


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    names = draw(st.lists(NAMES.map(str.strip).filter(bool), min_size=1, max_size=3, unique=True))
    fields = {
        "columns": {f"c{i} {name}": draw(NUMERIC | CATEGORICAL) for i, name in enumerate(names)},
        "intercept": draw(st.sampled_from([0, 0.3, 0.123456789, 1])),
        "radius": draw(st.none() | st.floats(0.1, 10)),
    }
    if draw(st.booleans()):
        fields["unit"] = {
            "column": "person",
            "type": "integer",
            "max_rows": draw(st.integers(1, 5)),
        }
    return Schema.parse(fields)


BUDGETS = st.sampled_from([
    (PureDP(1.0), "matrix-laplace"), (PureDP(0.01), "matrix-laplace"), (ZCDP(0.3), "gaussian"),
    (ApproxDP(0.7, 1e-9), "gaussian"), (ApproxDP(1 / 3, 1e-6), "auto"),
])  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    schema=schemas(), budget=BUDGETS, neighbors=st.sampled_from(Neighbors),
    denoise=st.sampled_from(["none", "project", "shrink"]), seed=st.none() | st.integers(0, 9),
    rows=st.integers(0, 40),
)  # fmt: skip
def test_a_saved_release_is_loaded_with_everything_equal(
    tmp_path_factory, schema, budget, neighbors, denoise, seed, rows
) -> None:
    figures, mechanism = budget
    made = dpcov.release(
        mixed_table(schema, rows), schema=schema, mechanism=mechanism, neighbors=neighbors,
        denoise=denoise, seed=seed, **{name: getattr(figures, name) for name in figures.__slots__},
    )  # fmt: skip
    path = tmp_path_factory.mktemp("r") / "x.json"
    made.save(path)
    assert_same(Release.load(path), made)
    jsonschema.Draft202012Validator(PUBLISHED).validate(json.loads(path.read_text()))


FOLDER = Path(__file__).parents[1] / "docs" / "json-schema"
PUBLISHED = json.loads((FOLDER / "release.schema.json").read_text())


def test_published_json_schemas_are_those_of_the_models(tmp_path: Path) -> None:
    json_schemas.write(tmp_path)
    for name in json_schemas.DOCUMENT_MODELS:
        text = (FOLDER / f"{name}.schema.json").read_text()
        advice = "run: python -m dpcov.cli.json_schemas docs/json-schema"
        assert text == (tmp_path / f"{name}.schema.json").read_text(), advice
        jsonschema.Draft202012Validator.check_schema(json.loads(text))


def small(**request) -> Release:
    defaults = {"lower": -1, "upper": 1, "epsilon": 1.0}
    return dpcov.release(correlated(200, 3), **{**defaults, **request})


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("r") / "x.json"
    small().save(path)
    return path.read_text()


def refusal(path: Path, text: str) -> str | None:
    """Return the refusal of `text`, or None if it loads. Only a ReleaseError counts."""
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        Release.load(path).correlation()
    except ReleaseError as error:
        return str(error)
    return None


def changed(text: str, where: str, value: object) -> str:
    document = json.loads(text)
    *parents, last = where.split(".")
    inner = document
    for parent in parents:
        inner = inner[int(parent)] if isinstance(inner, list) else inner[parent]
    inner[last] = value
    return json.dumps(document)


MATRIX, TRACE, COUNT = "rounds.4.answer", "rounds.5.answer", "rounds.6.answer"
LATTICE = f"{MATRIX}.rows.lattice"
BROKEN = {
    f"{MATRIX}.entries": [[], [1, 2], "x", None, [2**256 + 1] * 10, [0.5] * 10, [[0]] * 10],
    f"{MATRIX}.shift": [-1, 0, 129, 1.5, "1", None, True, 10**50],
    f"{MATRIX}.noise": [None, {}, {"law": "cauchy"}, {"law": "wishart-difference", "dimension": 4}],
    f"{MATRIX}.noise.dimension": [3, 5, 0, 10**9, "4"],
    f"{MATRIX}.noise.scale": [0, -1.0, float("nan"), 1e300, 1e-300],
    f"{MATRIX}.rows": [None, {}, {"lattice": None, "transform": None}],
    f"{MATRIX}.rows.transform.matrix": [[], [1.0] * 9, [0.0] * 9, [1.0, 0.0] * 4, None],
    f"{MATRIX}.rows.transform.center": [[], [0.5] * 4, None],
    f"{MATRIX}.kind": ["noisy trace", "estimated matrix", None],
    f"{TRACE}.value": [10**100, "x", None, 1.5],
    f"{TRACE}.noise.scale": ["0", "1/0", "-1", "1e9", "9" * 2000, "1/" + "9" * 2000, 5],
    f"{TRACE}.rows": [{}, 1],
    f"{COUNT}.value": ["1", None, 10**9],
    "rounds.0.answer.values": [[], [1] * 6, [1] * 8, ["1"] * 7, None],
    "rounds.3.answer.counts": [[], [1], None],
    "rounds.3.answer.ends": [[], [1.0], [1.0] * 3],
    "rounds.0.query": ["matrix", "norms", "directions", "look"],
    "rounds.0.spent": [{}, {"epsilon": "0"}, {"rho": "7/100"}, {"epsilon": "1/100"}, None],
    "rounds": [[], None],
    LATTICE + ".radius": [0, -1.0, 1e308, 1e-300, float("inf"), "1"],
    LATTICE + ".intercept_units": [0, 2**19, 2**20 + 1],
    LATTICE + ".step": [0.0, -1.0, 2.0**-3, 2.0**-40, float("nan"), None, "1"],
    LATTICE + ".side": [0, 2**19, 2**27, 1.5, None],
    "denoised": [[1.0], [float("nan")] * 10, [float("inf")] * 10, {"a": 1}],
    "guarantee.budget": [{}, {"definition": "pure"}, {"definition": "zcdp", "epsilon": 1}],
    "guarantee.budget.epsilon": [0, -1, float("nan"), "1e400", None, 0.01, 0.999],
    "guarantee.neighbors": ["swap", "replace-one", None],
    "guarantee.in_words": ["the best guarantee"],
    "unit_count": [5, -1],
    "status": ["", "public", None],
    "parameters": [{"x": float("nan")}, {"x": [1]}, []],
    "format": ["dpcov.release/1", "dpcov.release/2", "dpcov.release/4", None],
    "estimator": [0, "3", None],
    "schema.columns": [{}, {"x0": {"kind": "numeric", "lower": 1, "upper": 0}}],
    "surprise": [1],
    "k" * 100_000: [1],
    "\x1b[31m": [1],
}  # fmt: skip


@pytest.mark.parametrize("where", BROKEN, ids=lambda where: ascii(where)[:24])
def test_a_changed_file_is_refused_with_its_position(tmp_path: Path, text: str, where: str) -> None:
    for value in BROKEN[where]:
        message = refusal(tmp_path / "x.json", changed(text, where, value))
        assert message is not None, value
        assert message.isprintable()
        assert len(message) < 1000
        assert "is not a valid release file: " in message
        assert "must be" not in message.split("file: ")[1].split(":")[0], "no position"


@pytest.mark.parametrize(
    "content",
    [
        "", "null", "[]", "{}", "{", '"x"', "1" * 100_000, "[" * 100_000, '{"a":' * 100_000,
        "\ud800", "NaN", "\0" * 99, '{"published": ' + "9" * 10_000 + "}",
    ],
    ids=lambda content: ascii(content)[:12],
)  # fmt: skip
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: str) -> None:
    assert refusal(tmp_path / "x.json", content) is not None


@pytest.mark.filterwarnings("ignore::dpcov.releases.VoidReleaseWarning")
def test_random_damage_gives_a_clear_refusal_or_a_release(tmp_path: Path, text: str) -> None:
    generator = random.Random(1)  # noqa: S311
    refused = 0
    for _ in range(600):
        at, size = generator.randrange(len(text)), generator.randrange(1, 40)
        put = generator.choice(["", "9" * size, "{", "null", "-", "e99", '"', "\\", ",", "1e400"])
        damaged = generator.choice([text[:at], text[:at] + put + text[at + size :]])
        refused += refusal(tmp_path / "x.json", damaged) is not None
    assert refused > 450


def test_a_file_of_a_later_estimator_is_refused_with_what_to_do(tmp_path: Path) -> None:
    """An earlier estimator is no fault: it names the rules that wrote a stored matrix."""
    path = tmp_path / "r.json"
    dpcov.release(np.zeros((9, 2)), lower=-1, upper=1, epsilon=1.0).save(path)
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"estimator": document["estimator"] + 1}))
    with pytest.raises(ReleaseError, match="install the version of dpcov that wrote the file"):
        dpcov.load(path)
    path.write_text(json.dumps(document | {"estimator": document["estimator"] - 1}))
    dpcov.load(path)


@pytest.mark.parametrize("path", ["nowhere.json", ".", "nul\0.json"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(ReleaseError, match="cannot be read"):
        Release.load(str(tmp_path / path))


def test_an_existing_file_is_kept_without_force(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("old")
    with pytest.raises(OutputError, match="force=True"):
        small().save(path)
    assert path.read_text() == "old"
    small().save(path, force=True)
    assert Release.load(path).columns == ("x0", "x1", "x2")


def test_a_place_that_cannot_be_written_is_found_before(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("file/x", "no/x", "n" * 300, "."):
        with pytest.raises(OutputError):
            check_writable(tmp_path / name, force=True)
    with pytest.raises(OutputError, match="is an input"):
        check_writable(tmp_path / "file", force=True, inputs=[tmp_path / "file"])
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    """The limit of the process simulates the limit of the disk."""
    path = tmp_path / "x.json"
    path.write_text("old")
    code = (
        "import resource, signal, sys; from pathlib import Path\n\n"
        "from dpcov.errors import OutputError\n"
        "from dpcov.core.files import write\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: write(sys.argv[1], 'new' * 1000, force=True)\n"
        "except OutputError: sys.exit(3)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False, timeout=60)
    assert done.returncode == 3
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("x.json", "old")]


def test_a_folder_that_is_none_any_more_is_an_output_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be written"):
        write(tmp_path / "file" / "x.json", "{}", force=False)


def test_a_killed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("old")
    code = (
        "import os, signal, sys; from pathlib import Path\n\n"
        "from dpcov.core.files import write\n"
        "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
        "write(sys.argv[1], 'new' * 100000, force=True)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False, timeout=60)
    assert done.returncode == -9
    assert path.read_text() == "old"


def test_others_may_read_a_release_as_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    write(tmp_path / "x.json", "{}", force=False)
    assert (tmp_path / "x.json").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_peak_memory_is_bounded_by_the_file(tmp_path: Path, text: str) -> None:
    """Declaring a huge matrix allocates nothing: the entries have to be there."""
    columns = {f"x{i}": {"kind": "numeric", "lower": 0, "upper": 1} for i in range(8000)}
    bomb = changed(text, "schema.columns", columns)
    bomb = changed(bomb, "rounds", json.loads(bomb)["rounds"][4:5])
    bomb = changed(bomb, "rounds.0.answer.rows.transform", None)
    bomb = changed(bomb, "rounds.0.answer.noise.dimension", 8001)
    tracemalloc.start()
    message = refusal(tmp_path / "x.json", bomb)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert message is not None
    assert "entries" in message
    assert peak < 2 * 10**8 < 8001**2 * 8


def test_entries_too_large_to_compute_with_are_refused() -> None:
    made = small()
    damaged = np.full_like(made.second_moment(), 1e200)
    damaged[-1, -1] = 1e-200
    for ask in (Release.covariance, Release.correlation, Release.mean):
        with pytest.raises(ReleaseError, match="numbers that are too large"):
            ask(replace(made, denoised=damaged))


def test_without_an_intercept_there_are_no_means(tmp_path: Path) -> None:
    made = small(intercept=0.0)
    assert made.second_moment().shape == (3, 3)
    for question in (made.mean, made.covariance, made.correlation):
        with pytest.raises(NotReleasedError, match="without an intercept"):
            question()


def test_too_few_rows_give_the_trace_alone() -> None:
    made = small(epsilon=1e-3, neighbors="replace-one")
    assert made.published is None
    assert made.uninformative
    assert made.not_released is not None
    with pytest.raises(NotReleasedError, match="a noisy trace, because"):
        made.noisy()


@pytest.mark.parametrize("mechanism", ["matrix-laplace", "gaussian"])
@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("columns", [1, 2])
def test_the_gate_is_for_more_than_one_column_and_a_public_number_of_rows(
    columns, neighbors, mechanism
) -> None:
    table = np.zeros((1, columns))
    budget = {"epsilon": 1e-3} if mechanism == "matrix-laplace" else {"rho": 1e-6}
    made = dpcov.release(
        table, lower=-1, upper=1, intercept=0.0, neighbors=neighbors, mechanism=mechanism, **budget
    )
    shut = columns > 1 and neighbors == Neighbors.REPLACE_ONE
    assert (made.published is None) == shut
    assert (made.noise is None) == shut
    assert (made.find(NoisyTrace) is None) == (columns == 1)


@pytest.mark.parametrize("columns", [1, 30, 200])
@pytest.mark.parametrize("epsilon", [1e-2, 100.0, 1e4])
def test_no_file_is_larger_than_the_space_that_is_reserved(tmp_path, columns, epsilon) -> None:
    table = np.random.default_rng(0).uniform(-1, 1, (500, columns))
    made = dpcov.release(table, lower=-1, upper=1, epsilon=epsilon)
    made.save(path := tmp_path / "r.json")
    space = largest_file(made.schema, made.lattice.dimension)
    assert path.stat().st_size < space
    if (columns, epsilon) == (200, 1e4):  # two pilots with entries of full length
        assert path.stat().st_size > space / 3


def test_no_variance_is_above_the_squared_half_range() -> None:
    """A noisy count can be very small. Control: without the limit, some variances are larger."""
    rows = np.random.default_rng(1).uniform(-3, 3, (60, 4))
    plain = []
    for seed, epsilon in product(range(60), (0.1, 0.5)):
        asked = {"epsilon": epsilon, "mechanism": "standardized"}
        made = dpcov.release(rows, lower=-3, upper=3, seed=seed, **asked)
        limited = made.covariance()
        assert np.diag(limited).max() <= 9 * (1 + 1e-9)
        matrix = made.second_moment()
        if made.count() > 0 and matrix[-1, -1] > 0:
            centred = matrix[:-1, :-1] - np.outer(matrix[:-1, -1], matrix[-1, :-1]) / matrix[-1, -1]
            plain.append(9 * np.diag(centred).max() / max(made.count(), 1.0))
            if plain[-1] <= 9:
                assert np.diag(limited).max() == pytest.approx(plain[-1], rel=1e-6)
    assert min(plain) < 9 < max(plain)


def test_releases_are_equal_where_all_their_fields_are():
    table = np.random.default_rng(0).normal(size=(500, 3))
    asked = {"lower": -4, "upper": 4, "epsilon": 1.0}
    one, same, other = (dpcov.release(table, seed=seed, **asked) for seed in (1, 1, 2))
    assert one == same
    assert one != other
    assert one != replace(one, rounds=(*one.rounds[:1], *other.rounds[1:]))
    assert one != replace(one, provenance={})
    assert one != "a release"


def test_a_release_has_twelve_fields_and_twenty_five_names() -> None:
    made = small()
    assert len(fields(made)) <= 12
    assert len([name for name in dir(made) if not name.startswith("_")]) <= 25
    assert all(hasattr(made, name) for name in dir(made))


@pytest.mark.parametrize(
    ("name", "kind", "part"),
    [
        ("sums", NoisySums, None), ("trace_noise", NoisyTrace, "noise"),
        ("published_trace", NoisyTrace, "value"), ("count_noise", NoisyCount, "noise"),
        ("published_count", NoisyCount, "value"),
    ],
)  # fmt: skip
def test_former_attributes_work_with_a_warning(name, kind, part) -> None:
    made = small()
    with pytest.warns(FutureWarning, match=f"Release.{name} is deprecated"):
        found = getattr(made, name)
    answer = made.find(kind)
    assert found == (answer if part is None else getattr(answer, part))
    with pytest.raises(AttributeError, match="has no attribute 'published_counts'"):
        _ = made.published_counts


def test_a_copied_release_is_equal() -> None:
    made = small()
    assert copy.deepcopy(made) == made
    assert pickle.loads(pickle.dumps(made)) == made
