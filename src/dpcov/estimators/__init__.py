"""Estimators with the interface of scikit-learn.

This package needs scikit-learn. `import dpcov` does not need it.

Each `fit` makes one release with the budget of the constructor. Every other result comes from this
release. Each further `fit`, such as a fold of a cross-validation, spends the budget again. A
`ledger` records every spend.

You may publish the fitted attributes. The results of `predict`, `transform`, `score` and
`mahalanobis` are functions of the given rows and are not protected. For training rows, these
results disclose private data.
"""

from __future__ import annotations

from importlib.util import find_spec

from dpcov.core.installing import installing

if find_spec("sklearn") is None:
    raise ImportError(
        "dpcov.release and the functions of dpcov do the same without scikit-learn, which "
        f"dpcov.estimators needs: {installing('scikit-learn')}"
    )

from dpcov.estimators.base import NullModelWarning
from dpcov.estimators.covariance import PrivateCovariance, PrivateGraphicalLasso
from dpcov.estimators.pca import PrivatePCA
from dpcov.estimators.ridge import PrivateRidge

__all__ = [
    "NullModelWarning",
    "PrivateCovariance",
    "PrivateGraphicalLasso",
    "PrivatePCA",
    "PrivateRidge",
]
