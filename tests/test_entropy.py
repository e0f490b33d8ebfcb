"""Random bits: the cipher, fresh keys, forks and threads, seeds."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from dpcov.core.entropy import Entropy, simulation_generator


def counter_mode(key: bytes, blocks: int) -> bytes:
    """Return AES-256-CTR from the block cipher: the encrypted counters 0, 1, 2, ..."""
    block = Cipher(algorithms.AES256(key), modes.ECB()).encryptor()  # noqa: S305  one block at a time
    return b"".join(block.update(count.to_bytes(16, "big")) for count in range(blocks))


def test_the_block_cipher_is_aes_256() -> None:
    """FIPS 197, appendix C.3."""
    block = Cipher(algorithms.AES256(bytes(range(32))), modes.ECB()).encryptor()  # noqa: S305
    plain = bytes.fromhex("00112233445566778899aabbccddeeff")
    assert block.update(plain).hex() == "8ea2b7ca516745bfeafc49904b496089"


def test_words_are_the_counter_mode_stream_of_the_key() -> None:
    key = hashlib.sha256(b"dpcov:noise:7").digest()
    expected = np.frombuffer(counter_mode(key, 100), "<u8")
    assert np.array_equal(Entropy.seeded(7).words(200), expected)
    assert np.array_equal(Entropy(key, reproducible=True).words(200), expected)


def test_words_do_not_depend_on_how_many_are_asked_at_once() -> None:
    entropy = Entropy.seeded(1)
    parts = [entropy.words(count) for count in (1, 0, 7, 3)]
    assert np.array_equal(np.concatenate(parts), Entropy.seeded(1).words(11))


def test_a_seed_repeats_and_is_marked() -> None:
    assert np.array_equal(Entropy.seeded(3).words(9), Entropy.seeded(3).words(9))
    assert not np.array_equal(Entropy.seeded(3).words(9), Entropy.seeded(4).words(9))
    assert Entropy.seeded(3).reproducible
    assert not Entropy.system().reproducible


def test_each_system_stream_has_a_key_of_its_own() -> None:
    assert len({int(Entropy.system().words(1)[0]) for _ in range(2000)}) == 2000


def test_words_are_uniform_bits() -> None:
    bits = np.unpackbits(Entropy.system().words(2**16).view(np.uint8))
    assert abs(bits.mean() - 0.5) < 6 * 0.5 / np.sqrt(bits.size)


def first_word_of_child(entropy: Entropy) -> int:
    """Return the first draw of a forked child that does nothing else."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, entropy.words(1).tobytes())
        finally:
            os._exit(0)
    os.close(write)
    word = os.read(read, 8)
    os.close(read)
    os.waitpid(child, 0)
    assert len(word) == 8
    return int.from_bytes(word, "little")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forks_draw_distinct_words_and_none_of_the_parents() -> None:
    entropy = Entropy.system()
    entropy.words(5)
    children = [first_word_of_child(entropy) for _ in range(10)]
    assert len({*children, *entropy.words(1000).tolist()}) == 1010


FORKS = """
import sys
sys.path.append(sys.argv[1])

from test_entropy import Entropy, first_word_of_child
entropy = Entropy.system()
entropy.words(5)
children = [first_word_of_child(entropy) for _ in range(1000)]
print(len({*children, *entropy.words(1000).tolist()}))
"""


def test_a_thousand_forks_draw_distinct_words_and_none_of_the_parents() -> None:
    """The test forks a small process: a fork of the test process takes twenty times as long."""
    command = [sys.executable, "-c", FORKS, str(Path(__file__).parent)]
    assert subprocess.run(command, check=True, capture_output=True).stdout == b"2000\n"


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_seeded_stream_goes_on_in_a_child() -> None:
    entropy = Entropy.seeded(1)
    assert first_word_of_child(entropy) == int(entropy.words(1)[0])


@pytest.mark.parametrize("shared", [True, False])
def test_two_hundred_threads_draw_distinct_words(shared: bool) -> None:
    one = Entropy.system()
    with ThreadPoolExecutor(200) as threads:
        drawn = threads.map(
            lambda _: (one if shared else Entropy.system()).words(50).tolist(), range(200)
        )
        words = [word for words in drawn for word in words]
    assert len(set(words)) == len(words) == 10_000


def test_simulation_is_independent_of_the_noise_of_the_same_seed() -> None:
    simulated = simulation_generator(5).integers(0, 2**64, 1000, dtype=np.uint64)
    again = simulation_generator(5).integers(0, 2**64, 1000, dtype=np.uint64)
    assert np.array_equal(simulated, again)
    noise = Entropy.seeded(5).words(1000)
    assert not np.isin(simulated, noise).any()
    assert abs(np.corrcoef(simulated / 2.0**64, noise / 2.0**64)[0, 1]) < 0.2
    fresh = simulation_generator().integers(0, 2**64, 10, dtype=np.uint64)
    assert not np.array_equal(fresh, simulation_generator().integers(0, 2**64, 10, dtype=np.uint64))
