"""Medians, ratios and the divergence of two token lists."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

import attrs


@attrs.frozen
class Spread:
    """Repeated measurements of one thing."""

    median: float
    low: float
    high: float
    count: int


def spread(values: Iterable[float]) -> Spread:
    """Median and extremes. Raises ValueError for no values."""
    found = sorted(values)
    if not found:
        raise ValueError("there is nothing to take the median of")
    return Spread(statistics.median(found), found[0], found[-1], len(found))


def geometric_mean(values: Iterable[float]) -> float:
    """The mean that fits ratios: of a half and a double it is one."""
    logs = [math.log(v) for v in values]
    if not logs:
        raise ValueError("there is nothing to take the mean of")
    return math.exp(sum(logs) / len(logs))


def divergence(tokens: Sequence[int], reference: Sequence[int]) -> int | None:
    """Index of the first token that differs; None when one list continues the other."""
    for i, (a, b) in enumerate(zip(tokens, reference, strict=False)):
        if a != b:
            return i
    return None
