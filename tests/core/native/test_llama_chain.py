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
TEMPERATURES = (0.0, 0.3, 0.7, 1.0, 1.5)


def random_rows(count: int) -> NDArray[np.float32]:
    """Flat, peaked and skewed rows."""
    rng = np.random.default_rng(11)
    spread = rng.choice([0.5, 1.0, 2.0, 4.0, 8.0], size=(count, 1))
    skew = rng.choice([0.0, 0.15], size=(count, 1))
    rows = rng.normal(size=(count, N_VOCAB)) * spread
    return (rows + skew * np.abs(rows) ** 1.5).astype(np.float32)


def distributions(
    row: NDArray[np.float32], options: dict[str, Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What llama.cpp's chain and the kernel say about a row, [n_vocab] each."""
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
    return theirs, ours


def kept_in_float32(row: NDArray[np.float32], options: dict[str, Any]) -> set[int]:
    """What stays of a row when the probabilities of the nucleus are added up in float32.

    llama.cpp adds them so (`llama_sampler_top_p_apply`); the kernel does it in float64.
    """
    before = {**options, "top_p": 1.0, "min_p": 0.0}
    if not options["temperature_first"]:
        before["temperature"] = 1.0
    chain = LlamaChain(N_VOCAB, **before)
    chain.accept(HISTORY)
    chain.fill(row)
    chain.apply()
    ids, logits = (chain.data[name][: chain.array.size].copy() for name in ("id", "logit"))
    chain.close()
    x = (logits - logits.max()).astype(np.float64)
    p = np.exp(x).astype(np.float32)
    p /= np.cumsum(p)[-1]
    order = np.lexsort((ids, -p))
    nucleus = order[: int((np.cumsum(p[order]) < np.float32(options["top_p"])).sum()) + 1]
    return set(ids[nucleus[np.exp(x[nucleus]) >= options.get("min_p", 0.0)]].tolist())


def disagreement(row: NDArray[np.float32], options: dict[str, Any]) -> str:
    """Empty where both say the same to 1e-6, "edge" where only float32 parts them, else a report.

    An edge is not excused by being near to top_p: llama.cpp must have kept exactly the tokens that
    a sum in float32 gives.
    """
    theirs, ours = distributions(row, options)
    gap = float(np.abs(theirs - ours).max())
    if gap <= 1e-6:
        return ""
    truncated = options.get("top_p", 1.0) < 1 and options["temperature"] > 0
    if truncated and set(np.flatnonzero(theirs).tolist()) == kept_in_float32(row, options):
        return "edge"
    return f"{options}: {gap:.2g}"


def disagreements(rows: NDArray[np.float32]) -> tuple[list[str], int]:
    """Reports of the rows that differ, one combination of options a row; and edge cases."""
    combinations = list(itertools.product(TRUNCATIONS, EXTRAS, TEMPERATURES, (False, True)))
    found = []
    for i, row in enumerate(rows):
        truncation, extra, temperature, first = combinations[i * 7 % len(combinations)]
        options = {
            **truncation, **extra, "temperature": temperature, "temperature_first": first,
        }  # fmt: skip
        if temperature == 0 and first:
            options["temperature"] = 0.5
        found.append(disagreement(row, options))
    wrong = [f"row {i}, {report}" for i, report in enumerate(found) if report not in ("", "edge")]
    return wrong, found.count("edge")


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
    text = (root / "LICENSE").read_text()
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
        assert disagreement(row, options) in ("", "edge")


def test_the_two_orders_are_not_the_same() -> None:
    row = random_rows(1)[0]
    sampler = RowSampler(N_VOCAB)
    options = {"temperature": 0.5, "top_p": 0.8}
    last = sampler.distribution(row, SamplingOptions(**options))[0]
    first = sampler.distribution(row, SamplingOptions(**options, temperature_first=True))[0]
    assert len(first) < len(last)
