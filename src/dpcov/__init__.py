"""dpcov: release a covariance matrix with differential privacy and analyse the release."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# All public names, by module. `make schemas` writes `__init__.pyi` for type checkers from this
# list. A name is imported on first use, so that `import dpcov` is fast. No name can be the name of
# a module of dpcov, because importing the module would replace it.
_PUBLIC = {
    "dpcov.analysis.any_function": ("standard_errors",),
    "dpcov.analysis.compare": ("compare",),
    "dpcov.analysis.correlation": (
        *("correlation", "correlation_standard_errors", "nearest_correlation"),
        "partial_correlations",
    ),
    "dpcov.analysis.cohens_d": ("cohens_d",),
    "dpcov.analysis.cronbach_alpha": ("cronbach_alpha",),
    "dpcov.analysis.crosstab": ("crosstab",),
    "dpcov.analysis.discriminant": ("lda",),
    "dpcov.analysis.intervals": (
        "coefficients",
        "eigenvalues",
        "explained_variance",
        "intervals",
        "several_intervals",
    ),
    "dpcov.analysis.mediation": ("mediation",),
    "dpcov.analysis.multiple_correlation": ("multiple_correlation",),
    "dpcov.analysis.noise_warnings": ("noise_warnings",),
    "dpcov.analysis.ols": ("ols",),
    "dpcov.analysis.partial_correlation": ("partial_correlation",),
    "dpcov.analysis.pca": ("pca",),
    "dpcov.analysis.penalty": ("ridge_alpha",),
    "dpcov.analysis.precision": ("precision", "precision_alpha"),
    "dpcov.analysis.ridge": ("ridge", "ridge_error_bound", "ridge_path"),
    "dpcov.analysis.standardized_coefficients": ("standardized_coefficients",),
    "dpcov.analysis.synthetic": ("sample",),
    "dpcov.analysis.table1": ("table1",),
    "dpcov.analysis.variance_inflation": ("variance_inflation",),
    "dpcov.api": ("release",),
    "dpcov.api.grouped": ("release_by",),
    "dpcov.api.plans.simulated": ("Assumptions",),
    "dpcov.api.ledger": ("Ledger",),
    "dpcov.api.plans": ("plan",),
    "dpcov.api.plans.half_widths": ("plan_half_width",),
    "dpcov.core.privacy": ("ApproxDP", "Guarantee", "Neighbors", "PureDP", "Unit", "ZCDP"),
    "dpcov.releases": ("Release", "load"),
    "dpcov.rows.schema": ("Schema",),
}
# Public modules that need no import of their own.
_MODULES = ("plot", "report", "signatures")
# Former names and their new names. Each former name works with a warning (`core.renamed`).
_FORMER = {"Guess": "Assumptions", "choose_alpha": "ridge_alpha", "drowned": "noise_warnings"}

_HOMES = {name: module for module, names in _PUBLIC.items() for name in names}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"dpcov.{name}")
    if name in _FORMER:
        from dpcov.core.renamed import warn_of_former_name

        warn_of_former_name(f"dpcov.{name}", f"dpcov.{_FORMER[name]}")
        name = _FORMER[name]
    if name not in _HOMES:
        raise AttributeError(f"module 'dpcov' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*_HOMES, *_MODULES])
