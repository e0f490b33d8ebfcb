"""scikit-learn's interfaces to private releases; needs scikit-learn, which `import dpcov` does not.

Each `fit` makes one release, under the budget in the constructor, and everything else is computed
from it. Fitting twice, or once for each fold of a cross-validation, spends twice: give a `ledger`
to keep count. What is fitted may be published. What `predict`, `transform`, `score` and
`mahalanobis` return are functions of the rows that they are given, and are not protected: on rows
that you hold and need not protect they cost nothing, on training rows they tell about those rows.
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
