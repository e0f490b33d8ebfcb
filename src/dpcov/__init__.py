"""dpcov: a covariance matrix under differential privacy, and everything that follows from it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpcov.analysis.correlation import nearest_correlation, partial_correlations
    from dpcov.analysis.discriminant import lda
    from dpcov.analysis.drowned import drowned
    from dpcov.analysis.expected import expected_correlation_error
    from dpcov.analysis.intervals import intervals, several_intervals
    from dpcov.analysis.ols import ols
    from dpcov.analysis.pca import pca
    from dpcov.analysis.penalty import choose_alpha
    from dpcov.analysis.precision import precision
    from dpcov.analysis.ridge import ridge, ridge_error_bound, ridge_path
    from dpcov.analysis.statistics import coefficients, eigenvalues, explained_variance
    from dpcov.analysis.synthetic import sample
    from dpcov.api import release
    from dpcov.grouped import release_by
    from dpcov.imagined import Guess
    from dpcov.ledger import Ledger
    from dpcov.plans import plan
    from dpcov.privacy import ZCDP, ApproxDP, Guarantee, Neighbors, PureDP, Unit
    from dpcov.releases import Release, load
    from dpcov.schema import Schema

# Where each public name lives; looked up on first use, so that `import dpcov` stays instant.
# No name may be that of a module of dpcov, which would take its place once it is imported.
_HOMES = {
    "ApproxDP": "dpcov.privacy",
    "Guarantee": "dpcov.privacy",
    "Guess": "dpcov.imagined",
    "Ledger": "dpcov.ledger",
    "Neighbors": "dpcov.privacy",
    "PureDP": "dpcov.privacy",
    "Release": "dpcov.releases",
    "Schema": "dpcov.schema",
    "Unit": "dpcov.privacy",
    "ZCDP": "dpcov.privacy",
    "choose_alpha": "dpcov.analysis.penalty",
    "coefficients": "dpcov.analysis.statistics",
    "drowned": "dpcov.analysis.drowned",
    "eigenvalues": "dpcov.analysis.statistics",
    "expected_correlation_error": "dpcov.analysis.expected",
    "explained_variance": "dpcov.analysis.statistics",
    "intervals": "dpcov.analysis.intervals",
    "lda": "dpcov.analysis.discriminant",
    "load": "dpcov.releases",
    "nearest_correlation": "dpcov.analysis.correlation",
    "ols": "dpcov.analysis.ols",
    "partial_correlations": "dpcov.analysis.correlation",
    "pca": "dpcov.analysis.pca",
    "plan": "dpcov.plans",
    "precision": "dpcov.analysis.precision",
    "release": "dpcov.api",
    "release_by": "dpcov.grouped",
    "ridge": "dpcov.analysis.ridge",
    "ridge_error_bound": "dpcov.analysis.ridge",
    "ridge_path": "dpcov.analysis.ridge",
    "sample": "dpcov.analysis.synthetic",
    "several_intervals": "dpcov.analysis.intervals",
}

__all__ = [
    "ZCDP",
    "ApproxDP",
    "Guarantee",
    "Guess",
    "Ledger",
    "Neighbors",
    "PureDP",
    "Release",
    "Schema",
    "Unit",
    "choose_alpha",
    "coefficients",
    "drowned",
    "eigenvalues",
    "expected_correlation_error",
    "explained_variance",
    "intervals",
    "lda",
    "load",
    "nearest_correlation",
    "ols",
    "partial_correlations",
    "pca",
    "plan",
    "precision",
    "release",
    "release_by",
    "ridge",
    "ridge_error_bound",
    "ridge_path",
    "sample",
    "several_intervals",
]


_MODULES = ("plot", "report")  # that `import dpcov` makes reachable by itself


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"dpcov.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'dpcov' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES, *_MODULES])
