"""Random bits for noise: AES-256 with a fresh key, or a seeded stream for tests.

Every release draws its noise from `Entropy.system()`, which uses a new key from the operating
system each time. Threads can share one stream, because a lock orders their draws. A forked process
takes a new key before its first draw.

`Entropy.seeded` is for tests and simulations only. dpcov marks a release from a seeded stream
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

KEY_BYTES = 32  # length of an AES-256 key
# Seed of the simulations that an analysis of a release needs.
READING_SEED = 0


class Entropy:
    """Stream of independent uniform 64-bit words.

    The attribute `reproducible` is True for a seeded stream. A release from a seeded stream
    protects nobody.

    Parameters
    ----------
    key : bytes
        Key of the stream, 32 bytes.
    reproducible : bool
        True for a seeded stream.

    """

    def __init__(self, key: bytes, *, reproducible: bool) -> None:
        self.reproducible = reproducible
        self._lock = threading.Lock()
        self._take_key(key)

    @classmethod
    def system(cls) -> Entropy:
        """Return a stream with a key from the operating system.

        Only such a stream is safe for a release.
        """
        return cls(os.urandom(KEY_BYTES), reproducible=False)

    @classmethod
    def seeded(cls, seed: int) -> Entropy:
        """Return the stream of a seed, which is the same every time.

        A seeded stream is NOT PRIVATE. Use it for tests and simulations only.
        """
        return cls(_derived(b"noise", seed), reproducible=True)

    def _take_key(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        self._process = os.getpid()
        self._stream = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return independent uniform 64-bit words, as an array of shape ``(count,)``."""
        with self._lock:
            if os.getpid() != self._process and not self.reproducible:
                self._take_key(os.urandom(KEY_BYTES))
            return np.frombuffer(self._stream.update(bytes(8 * count)), dtype="<u8")


def simulation_generator(seed: int | None = None) -> np.random.Generator:
    """Return a generator for simulations of public distributions.

    The generator is independent of the noise of any release, even with the same seed. See
    docs/proofs/release.md, section 10.

    Parameters
    ----------
    seed : int, optional
        Seed of the generator. Without a seed, the generator is different each time.

    Returns
    -------
    numpy.random.Generator
        Generator for simulations.

    """
    if seed is None:
        return np.random.default_rng()
    return np.random.default_rng(int.from_bytes(_derived(b"simulation", seed), "little"))


def reading_generator(given: np.random.Generator | None = None) -> np.random.Generator:
    """Return the given generator, or a generator with a fixed seed.

    With the fixed seed, an analysis of the same release gives the same result every time.
    """
    return simulation_generator(READING_SEED) if given is None else given


def _derived(purpose: bytes, seed: int) -> bytes:
    return hashlib.sha256(b"dpcov:" + purpose + b":" + str(int(seed)).encode()).digest()
