"""A slow, plain reference of the distribution, and a chi-square test."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray


def reference(
    row: NDArray[np.float32],
    *,
    temperature: float = 1.0,
    temperature_first: bool = False,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    repetition_penalty: float = 1.0,
    presence_penalty: float = 0.0,
    frequency_penalty: float = 0.0,
    penalty_last_n: int = 64,
    logit_bias: Mapping[int, float] | None = None,
    history: Sequence[int] = (),
    mask: NDArray[np.bool_] | None = None,
) -> NDArray[np.float64]:
    """Probabilities [n_vocab] in float64, of logits that are float32 until penalties are done.

    Rounding decides ties: a subnormal logit divided by a penalty can be itself.
    """
    x = row.copy()
    for token, bias in (logit_bias or {}).items():
        x[token] += np.float32(bias)
    window = list(history)[-penalty_last_n:] if penalty_last_n > 0 else list(history)
    if penalty_last_n == 0:
        window = []
    repetition, frequency, presence = np.float32(
        [repetition_penalty, frequency_penalty, presence_penalty]
    )
    for token in set(window):
        x[token] = x[token] * repetition if x[token] <= 0 else x[token] / repetition
        x[token] -= np.float32(window.count(token)) * frequency + presence
    x = x.astype(np.float64)
    if mask is not None:
        x[~mask] = -np.inf
    if temperature == 0:
        top_k, temperature = 1, 1.0
    order = [int(i) for i in np.lexsort((np.arange(len(x)), -x)) if np.isfinite(x[i])]
    if temperature_first:
        x = x / temperature
    if top_k > 0:
        order = order[:top_k]
    if top_p < 1:
        p = np.exp(x[order] - x[order[0]])
        p /= p.sum()
        order = order[: int((np.cumsum(p) - p < np.float32(top_p)).sum())]
    if min_p > 0:
        order = [i for i in order if x[i] >= x[order[0]] + math.log(min_p)]
    if not temperature_first:
        x = x / temperature
    result = np.zeros(len(x))
    result[order] = np.exp(x[order] - x[order[0]])
    return result / result.sum()


def chi_square_p(counts: NDArray[np.int64], p: NDArray[np.float64]) -> float:
    """How likely a worse fit would be by chance (Wilson and Hilferty's approximation).

    Cells that expect fewer than five draws are pooled, with a more common one if together they
    still do: a single draw in a cell that expects next to none would look impossible. Draws
    where p is 0 give 0.
    """
    if counts[p <= 0].sum() > 0:
        return 0.0
    order = np.argsort(p, kind="stable")
    observed, expected = counts[order], p[order] * counts.sum()
    pooled = int(np.searchsorted(expected, 5.0))
    if expected[:pooled].sum() < 5:
        pooled += 1
    observed = np.append(observed[:pooled].sum(), observed[pooled:])
    expected = np.append(expected[:pooled].sum(), expected[pooled:])
    degrees = len(observed) - 1
    if degrees < 1:
        return 1.0
    statistic = float(((observed - expected) ** 2 / expected).sum())
    spread = 2 / (9 * degrees)
    z = ((statistic / degrees) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)
    return 0.5 * math.erfc(z / math.sqrt(2))
