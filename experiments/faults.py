"""Faults of mechanisms, which the claims about them must notice.

Every mechanism of the experiments asks here how many times its noise is as large as it should be.
That is once, but while a fault is in force.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from dpcov.core.privacy import ZCDP, ApproxDP, Budget, PureDP, gaussian_mu

Draw = Callable[[int, np.random.Generator], NDArray[np.float64]]


@dataclass(frozen=True)
class Fault:
    """Noise of some mechanisms times noise * d^d * n^n * log(d)^log_d.

    A sensitivity that is too small by the root of two is noise = 0.7071.
    """

    of: tuple[str, ...]
    noise: float = 1.0
    d: float = 0.0
    n: float = 0.0
    log_d: float = 0.0

    @classmethod
    def parse(cls, fields: dict[str, Any]) -> Fault:
        """Parse a fault of `claims.toml`; `of` is one name or a list."""
        of = fields["of"]
        return cls(**fields | {"of": (of,) if isinstance(of, str) else tuple(of)})

    def at(self, d: int, n: float) -> float:
        """Return the factor for d columns and n rows."""
        grown = self.noise * d**self.d * n**self.n
        return grown * math.log(d) ** self.log_d if self.log_d else grown

    def __str__(self) -> str:
        powers = (("d", self.d), ("n", self.n), ("(log d)", self.log_d))
        parts = [f"{self.noise:g}"] if self.noise != 1 else []
        parts += [f"{name}^{power:g}" for name, power in powers if power]
        return f"noise of {', '.join(self.of)} times {' '.join(parts)}"


_now: Fault | None = None
_missed: set[str] = set()


@contextmanager
def in_force(fault: Fault) -> Iterator[None]:
    """Give the mechanisms of a fault their wrong noise.

    Raises
    ------
    ValueError : none of them was run, so that the fault could change nothing.

    """
    global _now, _missed
    _now, _missed = fault, set(fault.of)
    try:
        yield
    finally:
        _now = None
    if _missed:
        raise ValueError(f"no such mechanism was run: {', '.join(sorted(_missed))}")


def factor(mechanism: str, d: int = 1, n: float = 1) -> float:
    """Return the factor by which the noise of a mechanism exceeds the correct noise."""
    if _now is None or mechanism not in _now.of:
        return 1.0
    _missed.discard(mechanism)
    return _now.at(d, n)


def budget(right: Budget, mechanism: str, d: int = 1, n: float = 1) -> Budget:
    """Return the budget with which a mechanism has the noise of the active fault, if any."""
    times = factor(mechanism, d, n)
    if times == 1:
        return right
    if isinstance(right, PureDP):
        return PureDP(float(right.epsilon) / times)
    if isinstance(right, ZCDP):
        return ZCDP(float(right.rho) / times**2)
    assert isinstance(right, ApproxDP)
    delta, mu = float(right.delta), gaussian_mu(float(right.epsilon), float(right.delta)) / times
    epsilon = brentq(lambda e: gaussian_mu(math.exp(e), delta) - mu, math.log(1e-3), math.log(1e3))
    return ApproxDP(math.exp(epsilon), delta)


def faulty(mechanism: str) -> Callable[[Draw], Draw]:
    """Decorate a draw of noise for d columns, which is as wrong as the fault in force says."""

    def decorate(draw: Draw) -> Draw:
        @wraps(draw)
        def drawn(d: int, generator: np.random.Generator) -> NDArray[np.float64]:
            return factor(mechanism, d) * draw(d, generator)

        return drawn

    return decorate
