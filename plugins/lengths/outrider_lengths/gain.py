"""How many drafts are worth verifying: pure functions of acceptance and cost.

A draft i holds with probability a_i, given that those before it held. A step with k drafts emits
1 + Σ_{i≤k} Π_{j≤i} a_j tokens on average (Leviathan, Kalman and Matias, "Fast inference from
transformers via speculative decoding", 2023, with one rate a position) and costs what 1 + k
verify rows and k drafts cost. The best k brings the most tokens a unit of time. Costs may have any
shape: every k is looked at, nothing is assumed to grow.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as ListOf
from itertools import accumulate
from operator import mul

_NONE = -1.0
"""In place of a chance: the sequence has no further position."""


def chances(acceptance: ListOf[float]) -> list[float]:
    """Chance that draft i and all before it hold, from conditional acceptance by position."""
    return list(accumulate(acceptance, mul))


def expected_tokens(acceptance: ListOf[float], k: int) -> float:
    """Tokens that a step with `k` drafts emits on average."""
    return 1.0 + sum(chances(acceptance[:k]))


def best_length(acceptance: ListOf[float], costs: ListOf[float]) -> tuple[int, float]:
    """The k with the most expected tokens a unit of cost, and that rate.

    `costs[k]` is the cost of a step with k drafts; of equals the smallest k is taken. At most
    `min(len(acceptance), len(costs) - 1)` drafts.
    """
    expected, chance = 1.0, 1.0
    best, rate = 0, 1.0 / costs[0]
    for k in range(1, min(len(acceptance), len(costs) - 1) + 1):
        chance *= acceptance[k - 1]
        expected += chance
        found = expected / costs[k]
        if found > rate:
            best, rate = k, found
    return best, rate


def allocate(acceptance: ListOf[ListOf[float]], cost: Callable[[ListOf[int]], float]) -> list[int]:
    """Draft lengths of several sequences that share one verify batch.

    `acceptance[s]` bounds the length of sequence s; `cost` is that of a step with such lengths.
    For any number of rows the likeliest drafts are the best ones, and within a sequence they come
    in order, so it is enough to add the likeliest next draft again and again and to keep the
    best step seen on the way.
    """
    lengths = [0] * len(acceptance)
    following = [a[0] if a else _NONE for a in acceptance]
    expected = float(len(lengths))
    best, rate = list(lengths), expected / cost(lengths)
    while True:
        chance = max(following, default=_NONE)
        if chance == _NONE:
            return best
        s = following.index(chance)
        lengths[s] += 1
        expected += chance
        k = lengths[s]
        following[s] = chance * acceptance[s][k] if k < len(acceptance[s]) else _NONE
        found = expected / cost(lengths)
        if found > rate:
            best, rate = list(lengths), found
