"""One Hypothesis profile for all tests."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "dpcov",
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("dpcov")
