"""The counter-based generator: published vectors, and independence of its streams."""

from __future__ import annotations

import numpy as np
import pytest
from outrider.native import Purpose, philox, uniform

# Known answers of philox4x32-10 from the Random123 distribution (kat_vectors).
ALL = 0xFFFFFFFF
VECTORS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ALL, ALL, ALL, ALL), (ALL, ALL), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "words"), VECTORS)
def test_published_vectors(counter: tuple, key: tuple, words: tuple) -> None:
    assert philox(counter, key) == words


def test_uniform_is_uniform() -> None:
    drawn = np.array([uniform(5, i) for i in range(40_000)])
    assert drawn.min() >= 0
    assert drawn.max() < 1
    counts, _ = np.histogram(drawn, 50, (0, 1))
    assert ((counts - 800) ** 2 / 800).sum() < 110  # chi-square, 49 degrees: p = 1e-6 at 110


@pytest.mark.parametrize("other", [(6, 0, Purpose.TOKEN), (5, 0, Purpose.DRAFT)])
def test_seeds_and_purposes_do_not_share_numbers(other: tuple) -> None:
    seed, offset, purpose = other
    a = np.array([uniform(5, i) for i in range(20_000)])
    b = np.array([uniform(seed, i + offset, purpose) for i in range(20_000)])
    assert not np.intersect1d(a, b).size
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.035


def test_a_number_is_a_function_of_seed_and_position() -> None:
    assert uniform(2**64 - 1, 2**40) == uniform(2**64 - 1, 2**40)
    assert uniform(2**63, 1) != uniform(0, 1)
