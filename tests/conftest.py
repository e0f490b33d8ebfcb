"""One Hypothesis profile for all tests, and which of them are about the papers' mechanisms."""

import pytest
from hypothesis import HealthCheck, settings

from dpcov import registry

settings.register_profile(
    "dpcov",
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("dpcov")


def pytest_collection_modifyitems(items):
    """Mark what lies in a folder of the papers, or is run with one of their mechanisms."""
    for item in items:
        asked = getattr(item, "callspec", None)
        if "papers" in item.path.parts or (asked and any(map(is_paper, asked.params.items()))):
            item.add_marker(pytest.mark.papers)


def is_paper(parameter):
    """Whether a test's parameter is such a mechanism: its name, its class, itself or a case."""
    asked, value = parameter
    if not (asked in ("name", "mechanism") and isinstance(value, str)):
        value = getattr(value, "name", None)
    return isinstance(value, str) and value in registry.MECHANISMS
