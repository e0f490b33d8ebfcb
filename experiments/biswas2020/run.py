"""Biswas, Dong, Kamath and Ullman 2020, CoinPress: main figures on synthetic rows."""

from __future__ import annotations

from biswas2020 import covariances, means
from claims import alone

PARTS = (means.findings, alone("covariance-privacy", covariances.privacy), covariances.findings)
