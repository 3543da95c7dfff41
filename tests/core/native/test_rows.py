"""Single rows: argmax, the runner-up, log-probabilities, and rows nothing can be drawn from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from outrider.errors import LogitsError
from outrider.native import RowSampler, SamplingOptions, argmax, top2

LOGITS = st.floats(-1e4, 1e4, width=32) | st.just(-np.inf)
ROWS = arrays(np.float32, st.integers(1, 700), elements=LOGITS)
USABLE = ROWS.filter(lambda row: bool(np.isfinite(row).any()))


@given(USABLE)
def test_argmax_is_the_first_of_the_largest(row: np.ndarray) -> None:
    assert argmax(row) == int(np.argmax(row + np.float32(0)))


@given(USABLE)
def test_the_runner_up_is_the_largest_of_the_rest(row: np.ndarray) -> None:
    best = top2(row)
    assert best.token == argmax(row)
    rest = np.delete(row, best.token)
    if not np.isfinite(rest).any():
        assert best == (best.token, -1, float("inf"))
    else:
        assert row[best.runner_up] == rest.max()
        assert best.runner_up != best.token
        assert best.gap == pytest.approx(float(row[best.token]) - float(rest.max()), abs=1e-3)


@given(USABLE, st.integers(0, 699), st.sampled_from([np.nan, -np.nan]))
def test_a_nan_anywhere_is_an_error(row: np.ndarray, where: int, nan: float) -> None:
    row[where % len(row)] = nan
    sampler = RowSampler(len(row))
    for options in (SamplingOptions(), SamplingOptions(top_k=3), SamplingOptions(top_p=0.5)):
        with pytest.raises(LogitsError, match="position 41: the logits contain NaN"):
            sampler.sample(row, options, seed=0, position=41)
    with pytest.raises(LogitsError, match="NaN"):
        argmax(row)
    with pytest.raises(LogitsError, match="position 41: the logits contain NaN"):
        sampler.log_probs(row, 0, position=41)


@pytest.mark.parametrize("options", [{}, {"top_k": 3}, {"top_p": 0.5}, {"temperature": 0.0}])
def test_an_empty_row_is_an_error_and_never_token_zero(options: dict) -> None:
    row = np.full(300, -np.inf, np.float32)
    with pytest.raises(LogitsError, match="position 7: every logit is -infinity"):
        RowSampler(300).sample(row, SamplingOptions(**options), seed=0, position=7)
    with pytest.raises(LogitsError, match="every logit is -infinity"):
        argmax(row)


def test_plus_infinity_is_an_error_for_sampling() -> None:
    row = np.zeros(300, np.float32)
    row[299] = np.inf
    with pytest.raises(LogitsError, match=r"\+infinity"):
        RowSampler(300).sample(row, SamplingOptions(), seed=0, position=7)


def test_a_row_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\(5,\), expected float32 \(6,\)"):
        RowSampler(6).sample(np.zeros(5, np.float32), SamplingOptions(), seed=0, position=0)
    with pytest.raises(ValueError, match=r"float64 \(6,\), expected float32"):
        RowSampler(6).sample(np.zeros(6), SamplingOptions(), seed=0, position=0)


def test_a_bias_or_a_mask_of_another_vocabulary_is_refused() -> None:
    row, sampler = np.zeros(40, np.float32), RowSampler(40)
    with pytest.raises(ValueError, match="the vocabulary has 40 tokens"):
        sampler.distribution(row, SamplingOptions(logit_bias={40: 1.0}))
    with pytest.raises(ValueError, match="the mask has too few words"):
        sampler.distribution(row, SamplingOptions(), mask=np.ones(1, np.uint32))


@given(USABLE, st.integers(0, 20))
def test_log_probabilities_are_those_of_the_raw_row(row: np.ndarray, n_top: int) -> None:
    wide = row.astype(np.float64)
    expected = wide - (wide.max() + np.log(np.exp(wide - wide.max()).sum()))
    token = int(np.argmin(row))
    found = RowSampler(len(row)).log_probs(row, token, n_top)
    assert found.chosen == pytest.approx(expected[token], rel=1e-5, abs=1e-5)
    alive = int(np.isfinite(row).sum())
    assert len(found.ids) == len(found.values) == min(n_top, alive)
    order = np.lexsort((np.arange(len(row)), -(row + np.float32(0))))
    assert found.ids == order[: len(found.ids)].tolist()
    np.testing.assert_allclose(found.values, expected[found.ids], rtol=1e-5, atol=1e-5)


@given(USABLE)
def test_a_row_is_read_and_never_written(row: np.ndarray) -> None:
    row.flags.writeable = False
    options = SamplingOptions(top_k=2, repetition_penalty=1.3, logit_bias={0: 2.0})
    RowSampler(len(row)).distribution(row, options, history=np.zeros(3, np.int32))
