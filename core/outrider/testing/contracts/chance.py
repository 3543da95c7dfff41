"""Chi-square tests of what was drawn, with a false alarm once in a hundred million comparisons."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping

ALARM = 1e-8
"""How often a comparison may fail although nothing is wrong.

A contract makes about twenty, so all of them together stay below one in a million; the rest is
room for what the chi-square law is off by at such a distance from its mean.
"""
_FEW = 20
"""Cells in which less is expected are counted as one."""


def tail(statistic: float, freedom: int) -> float:
    """The probability that a chi-square variable exceeds `statistic`.

    Exact where `freedom` is even; an odd one is taken as the next even one, which is on the safe
    side.
    """
    half, term, total = statistic / 2, 1.0, 0.0
    for i in range(max(1, (freedom + 1) // 2)):
        term *= half / i if i else 1.0
        total += term
    return math.exp(math.log(total) - half)


def same_law(one: Mapping[Hashable, int], other: Mapping[Hashable, int]) -> float:
    """How probable it is that two samples of one law, equally many, differ so much by chance."""
    cells: list[tuple[int, int]] = []
    few = (0, 0)
    for cell in one.keys() | other.keys():
        pair = one.get(cell, 0), other.get(cell, 0)
        if sum(pair) < 2 * _FEW:
            few = few[0] + pair[0], few[1] + pair[1]
        else:
            cells.append(pair)
    if sum(few):
        cells.append(few)
    # given a cell's sum its parts are as coin flips, so that even small cells keep the law
    return tail(sum((a - b) ** 2 / (a + b) for a, b in cells), len(cells) - 1)


def follows(seen: Mapping[Hashable, int], expected: Mapping[Hashable, float]) -> float:
    """How probable it is that a sample differs so much by chance from what is expected."""
    cells: list[tuple[int, float]] = []
    few, rare = 0, 0.0
    for cell, mean in expected.items():
        if mean < _FEW:
            few, rare = few + seen.get(cell, 0), rare + mean
        else:
            cells.append((seen.get(cell, 0), mean))
    cells.append((few, rare + 1))  # one more, so that a cell in which nothing is expected counts
    return tail(sum((n - mean) ** 2 / mean for n, mean in cells), len(cells))
