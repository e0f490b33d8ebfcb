"""What the room of the papers holds, by name: nothing else of the library knows that room.

Asking for one by name loads it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

ROOM = "dpcov.papers"

# Mechanism -> its module and class.
MECHANISMS = {
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

# Class -> mechanism.
CLASSES = {place.partition(":")[2]: name for name, place in MECHANISMS.items()}

# Noise law, as release files call it -> its module and class.
LAWS = {
    "nuclear-laplace": "samplers.nuclear:NuclearLaplace",
    "nuclear-laplace-square": "samplers.nuclear:SquareNuclearLaplace",
    "discrete-laplace-entrywise": "samplers.entrywise:EntrywiseLaplace",
    "centered-wishart": "samplers.additive_wishart:CenteredWishart",
}

# Mechanisms of the literature that protect nobody, and what shows it.
REFUTED = {
    "wishart": "Adding a Wishart matrix is not differentially private, whatever the papers say: "
    f"`python -m {ROOM}.wishart` shows it. Choose matrix-laplace.",
}


def loaded(place: str) -> Any:
    """The class at a place of the room."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"{ROOM}.{module}"), name)
