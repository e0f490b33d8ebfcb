"""dpcov: a covariance matrix under differential privacy, and everything that follows from it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Every public name, by the module where it lives: the one list of them. `__init__.pyi`, which type
# checkers read, is written from it by `make schemas`.
# Looked up on first use, so that `import dpcov` stays instant. No name may be that of a module of
# dpcov, which would take its place once it is imported.
_PUBLIC = {
    "dpcov.analysis.correlation": ("nearest_correlation", "partial_correlations"),
    "dpcov.analysis.discriminant": ("lda",),
    "dpcov.analysis.drowned": ("drowned",),
    "dpcov.analysis.expected": ("correlation_standard_errors",),
    "dpcov.analysis.intervals": ("intervals", "several_intervals"),
    "dpcov.analysis.ols": ("ols",),
    "dpcov.analysis.pca": ("pca",),
    "dpcov.analysis.penalty": ("ridge_alpha",),
    "dpcov.analysis.precision": ("precision", "precision_alpha"),
    "dpcov.analysis.ridge": ("ridge", "ridge_error_bound", "ridge_path"),
    "dpcov.analysis.statistics": ("coefficients", "eigenvalues", "explained_variance"),
    "dpcov.analysis.synthetic": ("sample",),
    "dpcov.api": ("release",),
    "dpcov.api.grouped": ("release_by",),
    "dpcov.api.plans.simulated": ("Guess",),
    "dpcov.api.ledger": ("Ledger",),
    "dpcov.api.plans": ("plan",),
    "dpcov.core.privacy": ("ApproxDP", "Guarantee", "Neighbors", "PureDP", "Unit", "ZCDP"),
    "dpcov.releases": ("Release", "load"),
    "dpcov.rows.schema": ("Schema",),
}
# Modules that `import dpcov` makes reachable by itself.
_MODULES = ("plot", "report")
_FORMER = {"choose_alpha": "ridge_alpha"}  # names that still work

_HOMES = {name: module for module, names in _PUBLIC.items() for name in names}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"dpcov.{name}")
    name = _FORMER.get(name, name)
    if name not in _HOMES:
        raise AttributeError(f"module 'dpcov' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES, *_MODULES])
