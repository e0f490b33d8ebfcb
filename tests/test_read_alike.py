"""A release is read alike each time, by whichever way."""

import numpy as np
import pytest

import dpcov
from dpcov.analysis.correlation import blocks
from dpcov.analysis.summary import summary
from tables_for_tests import correlated


@pytest.fixture(scope="module")
def made():
    return dpcov.release(correlated(5000, 4, seed=1), lower=-1, upper=1, epsilon=1.0)


READINGS = {
    "intervals": lambda made, generator: dpcov.intervals(made, "mean", generator=generator).low,
    "errors": lambda made, generator: dpcov.correlation_standard_errors(made, generator=generator),
    "ols": lambda made, generator: dpcov.ols(made, "x0", generator=generator).standard_errors,
    "ridge": lambda made, generator: dpcov.ridge(made, "x0", generator=generator).standard_errors,
    "precision": lambda made, generator: dpcov.precision(made, draws=5, generator=generator).shares,
}


@pytest.mark.parametrize("name", READINGS)
def test_what_is_simulated_is_the_same_each_time(name, made):
    """Control: with other draws it is not, but for shares of few graphs, which may agree."""
    read = READINGS[name]
    np.testing.assert_array_equal(read(made, None), read(made, None))
    if name != "precision":
        other = np.random.default_rng(1)
        assert not np.array_equal(read(made, None), read(made, other))


def test_a_page_and_show_report_the_same_errors(made):
    errors = blocks(made).errors[np.tril_indices(4, -1)]
    reported = summary(made).facts["correlation_standard_error"]
    assert reported == pytest.approx({"mean": errors.mean(), "worst": errors.max()}, rel=1e-12)
