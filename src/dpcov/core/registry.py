"""Names of the mechanisms and noise distributions from the literature.

The package `dpcov.papers` contains these classes. This module loads a class when another module
asks for its name. No other module of dpcov refers to that package.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

PAPERS_PACKAGE = "dpcov.papers"

# Name of each mechanism, with its module and class.
PAPER_MECHANISMS = {
    "nuclear-laplace": "nuclear_laplace:NuclearLaplace",
    "laplace": "laplace:Laplace",
    "separate-laplace": "separate_laplace:SeparateLaplace",
    "adaptive-laplace": "adaptive_laplace:AdaptiveLaplace",
    "separate-gaussian": "separate_gaussian:SeparateGaussian",
    "adaptive-gaussian": "adaptive_gaussian:AdaptiveGaussian",
    "eigenvector-sampling": "eigenvector_sampling:EigenvectorSampling",
    "kapralov-talwar": "kapralov_talwar:KapralovTalwar",
    "exponential-pca": "exponential_pca:ExponentialPCA",
    "preconditioned": "preconditioned:Preconditioned",
    "heavy-tailed": "heavy_tailed:HeavyTailed",
    "additive-wishart": "additive_wishart:AdditiveWishart",
    "stable-covariance": "stable_covariance:StableCovariance",
    "whitened": "whitened:Whitened",
    "ashtiani-liaw": "ashtiani_liaw:AshtianiLiaw",
    "unbounded-gaussian": "unbounded_gaussian:UnboundedGaussian",
}

# Name of each class, with the name of its mechanism.
PAPER_CLASSES = {place.partition(":")[2]: name for name, place in PAPER_MECHANISMS.items()}

# Name of each noise distribution in release files, with its module and class.
LAWS = {
    "nuclear-laplace": "samplers.nuclear:NuclearLaplace",
    "nuclear-laplace-square": "samplers.nuclear:SquareNuclearLaplace",
    "discrete-laplace-entrywise": "samplers.entrywise:EntrywiseLaplace",
    "centered-wishart": "samplers.additive_wishart:CenteredWishart",
}

# Mechanisms of the literature that protect nobody, with a message for each.
REFUTED_MECHANISMS = {
    "wishart": "Adding a Wishart matrix is not differentially private "
    f"(`python -m {PAPERS_PACKAGE}.wishart` shows why). Choose matrix-laplace.",
    "output-perturbation": "Output perturbation (Wang, Huai and Xu 2018) adds a Wishart matrix to "
    "the inverse covariance, which is not differentially private. Choose matrix-laplace, and "
    "compute the inverse from the release with `dpcov precision`.",
}


def loaded(place: str) -> Any:
    """Import a class of the package `dpcov.papers`.

    Parameters
    ----------
    place : str
        Module and class, separated by a colon.

    Returns
    -------
    type
        Imported class.

    """
    module, _, name = place.partition(":")
    return getattr(import_module(f"{PAPERS_PACKAGE}.{module}"), name)
