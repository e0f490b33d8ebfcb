"""dpcov: a covariance matrix under differential privacy, and everything that follows from it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpcov.analysis.expected import expected_correlation_error
    from dpcov.api import load, release
    from dpcov.ledger import Ledger
    from dpcov.privacy import ZCDP, ApproxDP, Guarantee, Neighbors, PureDP, Unit
    from dpcov.releases import Release
    from dpcov.schema import Schema

# Where each public name lives; looked up on first use, so that `import dpcov` stays instant.
# No name may be that of a module of dpcov, which would take its place once it is imported.
_HOMES = {
    "ApproxDP": "dpcov.privacy",
    "Guarantee": "dpcov.privacy",
    "Ledger": "dpcov.ledger",
    "Neighbors": "dpcov.privacy",
    "PureDP": "dpcov.privacy",
    "Release": "dpcov.releases",
    "Schema": "dpcov.schema",
    "Unit": "dpcov.privacy",
    "ZCDP": "dpcov.privacy",
    "expected_correlation_error": "dpcov.analysis.expected",
    "load": "dpcov.api",
    "release": "dpcov.api",
}

__all__ = [
    "ZCDP",
    "ApproxDP",
    "Guarantee",
    "Ledger",
    "Neighbors",
    "PureDP",
    "Release",
    "Schema",
    "Unit",
    "expected_correlation_error",
    "load",
    "release",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dpcov' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
