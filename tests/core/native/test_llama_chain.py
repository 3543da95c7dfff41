"""The kernels against llama.cpp's own sampler chain, row by row."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llama_chain import LlamaChain
from numpy.typing import NDArray
from outrider import Pipeline
from outrider.native import RowSampler, SamplingOptions

N_VOCAB = 8192
BIAS = {5: -np.inf, 17: 3.0, 4000: -1.5}
HISTORY = [17, 17, 4000, 5, 8191, 17, *range(100, 160)]

TRUNCATIONS: list[dict[str, Any]] = [
    {},
    {"top_k": 20, "top_p": 0.95},
    {"top_k": 40, "top_p": 0.95, "min_p": 0.05},
    {"top_k": 500, "min_p": 0.01},
    {"top_p": 0.9},
    {"min_p": 0.1},
]
EXTRAS: list[dict[str, Any]] = [
    {},
    {"repetition_penalty": 1.2, "presence_penalty": 0.3, "frequency_penalty": 0.1},
    {"logit_bias": BIAS},
    {"logit_bias": BIAS, "repetition_penalty": 1.1, "penalty_last_n": 8},
]
EDGE = 5e-6
"""Cumulative probability by which a row may miss a truncation: llama.cpp adds up in float32."""
TEMPERATURES = (0.0, 0.3, 0.7, 1.0, 1.5)


def random_rows(count: int) -> NDArray[np.float32]:
    """Flat, peaked and skewed rows."""
    rng = np.random.default_rng(11)
    spread = rng.choice([0.5, 1.0, 2.0, 4.0, 8.0], size=(count, 1))
    skew = rng.choice([0.0, 0.15], size=(count, 1))
    rows = rng.normal(size=(count, N_VOCAB)) * spread
    return (rows + skew * np.abs(rows) ** 1.5).astype(np.float32)


def largest_gap(row: NDArray[np.float32], options: dict[str, Any]) -> tuple[float, float]:
    """The largest difference in probability, and what separates the nucleus from its limit.

    llama.cpp adds up a nucleus over the whole vocabulary in float32. Where the mass of the
    nucleus is nearer to top_p than such a sum is exact, one token more or less is not a
    disagreement; the second number tells how near it was.
    """
    chain, sampler = LlamaChain(N_VOCAB, **options), RowSampler(N_VOCAB)
    chain.accept(HISTORY)
    theirs = np.zeros(N_VOCAB)
    for token, p in chain.distribution(row).items():
        theirs[token] = p
    chain.close()
    history = np.array(HISTORY, np.int32)
    ids, probs = sampler.distribution(row, SamplingOptions(**options), history=history)
    ours = np.zeros(N_VOCAB)
    ours[ids] = probs
    margin = 1.0
    if options.get("top_p", 1.0) < 1:
        before = {**options, "top_p": 1.0, "min_p": 0.0}
        if not options.get("temperature_first"):
            before["temperature"] = 1.0
        kept, mass = sampler.distribution(row, SamplingOptions(**before), history=history)
        mass = mass[np.lexsort((kept, -mass))]
        margin = float(np.abs(np.cumsum(mass) - np.float32(options["top_p"])).min())
    return float(np.abs(ours - theirs).max()), margin


def disagreements(rows: NDArray[np.float32]) -> tuple[list[str], int]:
    """Rows that differ by more than 1e-6, one combination of options a row; and edge cases."""
    combinations = list(itertools.product(TRUNCATIONS, EXTRAS, TEMPERATURES, (False, True)))
    wrong, edges = [], 0
    for i, row in enumerate(rows):
        truncation, extra, temperature, first = combinations[i * 7 % len(combinations)]
        options = {
            **truncation, **extra, "temperature": temperature, "temperature_first": first,
        }  # fmt: skip
        if temperature == 0 and first:
            options["temperature"] = 0.5
        gap, margin = largest_gap(row, options)
        if gap > 1e-6:
            if margin < EDGE:
                edges += 1
            else:
                wrong.append(f"row {i}, {options}: {gap:.2g}, margin {margin:.2g}")
    return wrong, edges


def real_rows(pipeline: Pipeline, text: str, count: int) -> NDArray[np.float32]:
    """What the embedded model says after each of the first tokens of a text."""
    target, tokens = pipeline.engine.target, pipeline.tokenize(text)[:count]
    assert len(tokens) == count
    rows = np.empty((count, target.n_vocab), np.float32)
    target.clear()
    for start in range(0, count, 16):
        target.batch.clear()
        target.batch.extend(tokens[start : start + 16], start, 0, True)
        target.decode()
        for i in range(target.batch.size):
            rows[start + i] = target.logits(i)
    target.clear()
    return rows


def test_a_thousand_real_rows_agree_to_one_in_a_million(
    open_pipeline: Callable[..., Pipeline], root: Path
) -> None:
    pipeline = open_pipeline("sampler.use=rejection", "drafter.use=suffix", "draft_length.k=15")
    text = (root / "models" / "outrider-nano" / "README.md").read_text()
    wrong, edges = disagreements(real_rows(pipeline, text, 1000))
    assert wrong == []
    assert edges <= 10


def test_a_thousand_random_rows_agree_to_one_in_a_million() -> None:
    wrong, edges = disagreements(random_rows(1000))
    assert wrong == []
    assert edges <= 10


@pytest.mark.parametrize("first", [False, True])
def test_every_combination_of_options_agrees(first: bool) -> None:
    row = random_rows(3)[2]
    for truncation, extra, temperature in itertools.product(TRUNCATIONS, EXTRAS, (0.7, 1.3)):
        options = {
            **truncation, **extra, "temperature": temperature, "temperature_first": first,
        }  # fmt: skip
        gap, margin = largest_gap(row, options)
        assert gap <= 1e-6 or margin < EDGE, options


def test_the_two_orders_are_not_the_same() -> None:
    row = random_rows(1)[0]
    sampler = RowSampler(N_VOCAB)
    options = {"temperature": 0.5, "top_p": 0.8}
    last = sampler.distribution(row, SamplingOptions(**options))[0]
    first = sampler.distribution(row, SamplingOptions(**options, temperature_first=True))[0]
    assert len(first) < len(last)
