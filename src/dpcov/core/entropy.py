"""Random bits: fresh operating-system keys for AES-256-CTR, or a seed that marks its releases.

Rule: whoever draws noise for a release takes `Entropy.system()`, a new key each time.
Threads may share one object (a lock orders them); a forked child takes a new key before its
first draw. `Entropy.seeded` is for tests and simulation: a release made with it is stamped
``NOT PRIVATE``.
"""

from __future__ import annotations

import hashlib
import os
import threading
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

KEY_BYTES = 32
READING = 0  # seed of what is simulated of a release


class Entropy:
    """A stream of independent uniform 64-bit words.

    `reproducible` is True for seeded streams, whose releases protect nobody.
    """

    def __init__(self, key: bytes, *, reproducible: bool) -> None:
        self.reproducible = reproducible
        self._lock = threading.Lock()
        self._take_key(key)

    @classmethod
    def system(cls) -> Entropy:
        """A stream keyed by the operating system; the only kind fit for a release."""
        return cls(os.urandom(KEY_BYTES), reproducible=False)

    @classmethod
    def seeded(cls, seed: int) -> Entropy:
        """The same stream every time. NOT PRIVATE: for tests and simulation."""
        return cls(_derived(b"noise", seed), reproducible=True)

    def _take_key(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        self._process = os.getpid()
        self._stream = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()

    def words(self, count: int) -> NDArray[np.uint64]:
        """(count,) independent uniform 64-bit words."""
        with self._lock:
            if os.getpid() != self._process and not self.reproducible:
                self._take_key(os.urandom(KEY_BYTES))
            return np.frombuffer(self._stream.update(bytes(8 * count)), dtype="<u8")


def simulation_generator(seed: int | None = None) -> np.random.Generator:
    """Generator for simulating public laws; keyed independently of any release's noise.

    See docs/proofs/release.md 10.
    """
    if seed is None:
        return np.random.default_rng()
    return np.random.default_rng(int.from_bytes(_derived(b"simulation", seed), "little"))


def reading_generator(given: np.random.Generator | None = None) -> np.random.Generator:
    """The one given, or one that draws the same each time, so that a release is read alike."""
    return simulation_generator(READING) if given is None else given


def _derived(purpose: bytes, seed: int) -> bytes:
    return hashlib.sha256(b"dpcov:" + purpose + b":" + str(int(seed)).encode()).digest()
