"""From logits to a distribution, and from two distributions to exact samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from outrider.errors import LogitsError, PluginError
from outrider.native import RowSampler, SamplingOptions

from .reference import chi_square_p, reference

LOGITS = st.floats(-40, 40, width=32) | st.just(-np.inf) | st.sampled_from([0.0, 1.0, -0.0])
ROWS = arrays(np.float32, st.integers(1, 600), elements=LOGITS).filter(
    lambda row: bool(np.isfinite(row).any())
)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.sampled_from([0.0, 0.3, 0.7, 1.0, 1.5]),
        "temperature_first": st.booleans(),
        "top_k": st.integers(0, 50),
        "top_p": st.floats(0.0625, 1.0, width=32),
        "min_p": st.sampled_from([0.0, 0.02, 0.2, 1.0]),
        "repetition_penalty": st.sampled_from([1.0, 1.3, 0.8]),
        "presence_penalty": st.sampled_from([0.0, 0.5, -0.5]),
        "frequency_penalty": st.sampled_from([0.0, 0.25]),
        "penalty_last_n": st.sampled_from([-1, 0, 3, 64]),
    },
)


def dense(n: int, ids: np.ndarray, probs: np.ndarray) -> np.ndarray:
    result = np.zeros(n)
    result[ids] = probs
    return result


def bits(mask: np.ndarray) -> np.ndarray:
    padded = np.zeros(-(-len(mask) // 32) * 32, np.uint8)
    padded[: len(mask)] = mask
    return np.packbits(padded, bitorder="little").view(np.uint32)


def same_up_to_ties(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Equal, or different only where rounding decides which of two neighbours is the last kept."""
    if np.abs(ours - theirs).max() < 2e-6:
        return True
    return abs(int((ours > 0).sum()) - int((theirs > 0).sum())) == 1


def test_penalties_round_as_float32_does() -> None:
    """The least subnormal divided by 1.3 is itself: a tie, which the lower id wins."""
    least = np.finfo(np.float32).smallest_subnormal
    row, history = np.array([least, least], np.float32), [0]
    options: dict[str, Any] = {"repetition_penalty": 1.3, "temperature": 0.0}
    ids, _ = RowSampler(2).distribution(
        row, SamplingOptions(**options), history=np.array(history, np.int32)
    )
    assert ids.tolist() == [0]
    assert reference(row, **options, history=history).tolist() == [1.0, 0.0]


@given(ROWS, OPTIONS, st.data())
@settings(max_examples=400)
def test_agrees_with_the_reference(row: np.ndarray, options: dict[str, Any], data: Any) -> None:
    n = len(row)
    tokens = st.integers(0, n - 1)
    history = data.draw(st.lists(tokens, max_size=80))
    bias = data.draw(st.dictionaries(tokens, st.sampled_from([-np.inf, -100.0, 1.5]), max_size=5))
    biased = row.copy()
    for token, value in bias.items():
        biased[token] += np.float32(value)
    assume(np.isfinite(biased).any())
    ids, probs = RowSampler(n).distribution(
        row,
        SamplingOptions(**options, logit_bias=bias),
        history=np.array(history, np.int32),
    )
    assert probs.sum() == pytest.approx(1, abs=1e-12)
    assert len(set(ids.tolist())) == len(ids)
    expected = reference(row, **options, logit_bias=bias, history=history)
    assert same_up_to_ties(dense(n, ids, probs), expected)


@given(ROWS, st.integers(1, 5))
def test_truncated_tokens_come_best_first_and_ties_by_id(row: np.ndarray, k: int) -> None:
    ids, probs = RowSampler(len(row)).distribution(row, SamplingOptions(top_k=k))
    alive = np.flatnonzero(np.isfinite(row))
    if k < len(row):
        order = alive[np.lexsort((alive, -(row[alive] + np.float32(0))))]
        assert ids.tolist() == order[:k].tolist()
    assert np.isfinite(probs).all()


@given(st.sampled_from(["ascending", "descending", "equal", "organ"]), st.integers(1, 3000))
@settings(max_examples=60)
def test_no_order_of_a_row_is_special(shape: str, k: int) -> None:
    n = 5000
    row = np.arange(n, dtype=np.float32) / 500
    if shape == "descending":
        row = row[::-1].copy()
    elif shape == "equal":
        row[:] = 1.5
    elif shape == "organ":
        row = np.concatenate([row[::2], row[1::2][::-1]])
    ids, _ = RowSampler(n).distribution(row, SamplingOptions(top_k=k))
    assert ids.tolist() == np.lexsort((np.arange(n), -row))[:k].tolist()


def test_temperature_zero_keeps_the_most_likely_token_after_penalties() -> None:
    row = np.array([1.0, 3.0, 2.9], np.float32)
    sampler = RowSampler(3)
    history = np.array([1], np.int32)
    greedy = SamplingOptions(temperature=0, repetition_penalty=1.2)
    assert sampler.sample(row, greedy, seed=0, position=0) == 1
    assert sampler.sample(row, greedy, history=history, seed=0, position=0) == 2


def test_penalties_count_in_the_window_only() -> None:
    row = np.zeros(4, np.float32)
    options = SamplingOptions(frequency_penalty=1.0, penalty_last_n=3)
    _, probs = RowSampler(4).distribution(
        row, options, history=np.array([3, 3, 3, 1, 1, 2], np.int32)
    )
    expected = np.exp([0.0, -2.0, -1.0, 0.0])
    np.testing.assert_allclose(probs, expected / expected.sum(), atol=1e-7)


def test_buffers_carry_nothing_from_call_to_call() -> None:
    row = np.linspace(0, 3, 40, dtype=np.float32)
    sampler, plain = RowSampler(40), SamplingOptions()
    before = sampler.distribution(row, plain)[1]
    busy = SamplingOptions(frequency_penalty=2.0, logit_bias={3: -np.inf})
    sampler.distribution(row, busy, history=np.arange(40, dtype=np.int32))
    q_ids, q_probs = np.array([1, 2], np.int32), np.array([0.5, 0.5])
    for position in range(20):
        sampler.verify(row, plain, 1, q_ids, q_probs, seed=1, position=position)
    np.testing.assert_array_equal(sampler.distribution(row, plain)[1], before)


@given(ROWS, OPTIONS, st.data())
def test_masked_rows_have_the_mask_and_nothing_else_applied(
    row: np.ndarray, options: dict[str, Any], data: Any
) -> None:
    n = len(row)
    mask = data.draw(arrays(np.bool_, n))
    assume(np.isfinite(row[mask]).any())
    found = dense(n, *RowSampler(n).distribution(row, SamplingOptions(**options), mask=bits(mask)))
    assert found[~mask].sum() == 0
    assert same_up_to_ties(found, reference(row, **options, mask=mask))


# --- draws ------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"top_k": 7}, {"top_p": 0.9}, {"temperature": 1.7}])
def test_draws_follow_the_distribution(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(3)
    row = rng.normal(size=700).astype(np.float32) * 2
    sampler, chosen = RowSampler(700), SamplingOptions(**options)
    p = dense(700, *sampler.distribution(row, chosen))
    drawn = [sampler.sample(row, chosen, seed=9, position=i) for i in range(100_000)]
    assert chi_square_p(np.bincount(drawn, minlength=700), p) > 1e-6


@pytest.mark.parametrize("share", [0.02, 0.5, 0.98])
def test_draw_then_redraw_follows_the_legal_part(share: float) -> None:
    rng = np.random.default_rng(4)
    row = rng.normal(size=40).astype(np.float32) * 2
    mask = rng.random(40) < share
    mask[7] = True
    sampler, options = RowSampler(40), SamplingOptions(top_k=30)
    p = dense(40, *sampler.distribution(row, options)) * mask
    if p.sum() == 0:
        pytest.skip("no legal token among the kept ones")
    drawn = []
    for i in range(50_000):
        token = sampler.sample(row, options, seed=2, position=i)
        if not mask[token]:
            token = sampler.sample_legal(row, options, bits(mask), seed=2, position=i)
        drawn.append(token)
    assert chi_square_p(np.bincount(drawn, minlength=40), p / p.sum()) > 1e-6


def test_when_truncation_leaves_nothing_legal_the_mask_comes_first() -> None:
    row = np.array([5.0, 4.0, 1.0, 0.5], np.float32)
    mask = np.array([False, False, True, True])
    drawn = {
        RowSampler(4).sample_legal(row, SamplingOptions(top_k=2), bits(mask), seed=1, position=i)
        for i in range(200)
    }
    assert drawn == {2, 3}


WEIGHTS = st.lists(st.just(0.0) | st.floats(1e-6, 1) | st.just(0.25), min_size=1, max_size=12)


def logits_of(p: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(p).astype(np.float32)


def emitted(p_row: np.ndarray, q: np.ndarray, draws: int, seed: int) -> np.ndarray:
    """Tokens that come out when drafts are drawn from q and verified against the row."""
    n = len(q)
    sampler, options = RowSampler(n), SamplingOptions()
    q_row = logits_of(q)
    tokens = []
    for i in range(draws):
        draft, ids, probs = sampler.draw(q_row, options, seed=seed, position=i)
        tokens.append(sampler.verify(p_row, options, draft, ids, probs, seed=seed, position=i))
    return np.bincount(tokens, minlength=n)


@pytest.mark.parametrize("case", range(6))
def test_verified_drafts_follow_p_whatever_q_is(case: int) -> None:
    rng = np.random.default_rng(case)
    n = (2, 5, 9, 17, 33, 64)[case]
    p, q = rng.dirichlet(np.full(n, 0.5)), rng.dirichlet(np.full(n, 0.5))
    p_row = logits_of(p)
    exact = dense(n, *RowSampler(n).distribution(p_row, SamplingOptions()))
    assert chi_square_p(emitted(p_row, q, 100_000, seed=case), exact) > 1e-6


def test_a_drafter_that_draws_as_a_sampler_does_biases_nothing() -> None:
    """Its numbers are those of plain decoding's tokens; what replaces a draft has others."""
    p, q = np.array([0.3, 0.3, 0.2, 0.2]), np.array([0.9, 0.1, 0.0, 0.0])
    sampler, options = RowSampler(4), SamplingOptions()
    ids, probs = np.array([0, 1], np.int32), np.array([0.9, 0.1])
    tokens = []
    for i in range(40_000):
        draft = sampler.sample(logits_of(q), options, seed=11, position=i)
        tokens.append(sampler.verify(logits_of(p), options, draft, ids, probs, seed=11, position=i))
    assert chi_square_p(np.bincount(tokens, minlength=4), p) > 1e-6


@pytest.mark.parametrize("top_p", [1e-30, 1e-46, 1e-300])
def test_a_tiny_top_p_keeps_the_most_likely_token(top_p: float) -> None:
    row = np.array([0.0, 3.0, 1.0], np.float32)
    ids, probs = RowSampler(3).distribution(row, SamplingOptions(top_p=top_p))
    assert (ids.tolist(), probs.tolist()) == ([1], [1.0])


def test_the_chi_square_test_would_notice_drafts_that_are_never_checked() -> None:
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.full(9, 0.5)), rng.dirichlet(np.full(9, 0.5))
    sampler, options = RowSampler(9), SamplingOptions()
    drafts = [sampler.draw(logits_of(q), options, seed=1, position=i)[0] for i in range(20_000)]
    assert chi_square_p(np.bincount(drafts, minlength=9), p) < 1e-12


@given(WEIGHTS, WEIGHTS, st.integers(0, 2**64 - 1))
@settings(max_examples=60, deadline=None)
@example([1.0], [1.0], 0)
@example([1.0, 0.0], [0.0, 1.0], 0)
@example([0.25, 0.25, 0.25, 0.25], [0.25, 0.25, 0.25, 0.25], 1)
@example([1e-05, 1.0, 1.0], [0.0, 1.0], 111529512661800)
def test_zeros_ties_and_disjoint_supports(p: list[float], q: list[float], seed: int) -> None:
    n = max(len(p), len(q))
    wide = [np.array([*w, *([0.0] * (n - len(w)))]) for w in (p, q)]
    assume(wide[0].sum() > 0)
    assume(wide[1].sum() > 0)
    p_, q_ = (w / w.sum() for w in wide)
    p_row = logits_of(p_)
    exact = dense(n, *RowSampler(n).distribution(p_row, SamplingOptions()))
    assert chi_square_p(emitted(p_row, q_, 3000, seed), exact) > 1e-9


@given(WEIGHTS, st.integers(0, 2**64 - 1))
@settings(max_examples=50)
def test_a_draft_drawn_from_p_itself_always_holds(weights: list[float], seed: int) -> None:
    p = np.array(weights)
    assume(p.sum() > 0)
    row, sampler, options = logits_of(p / p.sum()), RowSampler(len(p)), SamplingOptions()
    for i in range(50):
        draft, ids, probs = sampler.draw(row, options, seed=seed, position=i)
        assert sampler.verify(row, options, draft, ids, probs, seed=seed, position=i) == draft


def test_the_accepted_share_is_what_the_two_distributions_have_in_common() -> None:
    p, q = np.array([0.7, 0.2, 0.1]), np.array([0.1, 0.2, 0.7])
    sampler, options = RowSampler(3), SamplingOptions()
    held = 0
    for i in range(40_000):
        draft, ids, probs = sampler.draw(logits_of(q), options, seed=3, position=i)
        held += draft == sampler.verify(
            logits_of(p), options, draft, ids, probs, seed=3, position=i
        )
    assert held / 40_000 == pytest.approx(0.4, abs=0.01)


@pytest.mark.parametrize(
    ("draft", "ids", "probs", "reason"),
    [
        (2, [0, 1], [0.5, 0.5], "really drawn from"),
        (-1, [0, 1], [0.5, 0.5], "really drawn from"),
        (3, [0, 1], [0.5, 0.5], "really drawn from"),
        (0, [0, 1], [0.5, 0.6], "do not sum to 1"),
        (0, [0, 1], [np.nan, 0.5], "do not sum to 1"),
        (0, [0, 1], [1.5, -0.5], "do not sum to 1"),
        (0, [0, 3], [0.5, 0.5], "outside the vocabulary"),
        (0, [0, 0], [0.5, 0.5], "or one twice"),
    ],
)
def test_a_draft_that_cannot_come_from_its_q_is_an_error(
    draft: int, ids: list[int], probs: list[float], reason: str
) -> None:
    sampler, row = RowSampler(3), np.zeros(3, np.float32)
    q_ids, q_probs = np.array(ids, np.int32), np.array(probs)
    with pytest.raises(PluginError, match=f"position 5.*{reason}"):
        sampler.verify(row, SamplingOptions(), draft, q_ids, q_probs, seed=0, position=5)
    wide = q_ids.astype(np.int64)
    with pytest.raises(PluginError, match=r"position 5.*int64 ids \(2,\)"):
        sampler.verify(row, SamplingOptions(), draft, wide, q_probs, seed=0, position=5)


# --- rows that the device has ranked already ------------------------------------------------------


@given(ROWS, st.integers(1, 30), st.data())
def test_the_best_of_a_row_are_as_good_as_the_row(row: np.ndarray, k: int, data: Any) -> None:
    options = SamplingOptions(
        top_k=k,
        top_p=data.draw(st.sampled_from([0.5, 0.9, 1.0])),
        min_p=data.draw(st.sampled_from([0.0, 0.1])),
        temperature=data.draw(st.sampled_from([0.3, 1.0])),
        temperature_first=data.draw(st.booleans()),
    )
    assume(k < len(row))
    sampler = RowSampler(len(row))
    best = np.lexsort((np.arange(len(row)), -row))[: k + 2].astype(np.int32)
    best = np.array(data.draw(st.permutations(best.tolist())), np.int32)
    whole = sampler.distribution(row, options)
    ranked = sampler.distribution(row[best], options, candidates=best)
    assert whole[0].tolist() == ranked[0].tolist()
    np.testing.assert_array_equal(whole[1], ranked[1])
    assert sampler.sample(row, options, seed=1, position=2) == sampler.sample(
        row[best], options, candidates=best, seed=1, position=2
    )


def test_candidates_are_refused_where_the_whole_row_matters() -> None:
    ids = np.arange(3, dtype=np.int32)
    for options in (SamplingOptions(), SamplingOptions(top_k=2, presence_penalty=1.0)):
        with pytest.raises(ValueError, match="no edits"):
            RowSampler(9).distribution(np.zeros(3, np.float32), options, candidates=ids)


@pytest.mark.parametrize(("value", "reason"), [(np.nan, "NaN"), (-np.inf, "every logit")])
def test_unusable_candidates_are_errors(value: float, reason: str) -> None:
    ids, row = np.arange(3, dtype=np.int32), np.full(3, value, np.float32)
    with pytest.raises(LogitsError, match=f"position 8: .*{reason}"):
        RowSampler(9).sample(row, SamplingOptions(top_k=3), candidates=ids, seed=0, position=8)
