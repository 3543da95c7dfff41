"""The `rejection` sampler on rows made by hand."""

from __future__ import annotations

from collections.abc import Sequence as ListOf
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest
from outrider import (
    Assembly,
    Constraint,
    Distribution,
    Draft,
    LogitsError,
    PluginError,
    Request,
    RequestError,
    Sequence,
    Slot,
    Step,
)
from outrider.native import argmax
from outrider_rejection import RejectionConfig, RejectionSampler

N = 40


class Target:
    """Rows of logits by index, as an engine would hand them out."""

    def __init__(self, rows: np.ndarray, *, on_accelerator: bool = False) -> None:
        self.rows = rows.astype(np.float32)
        self.n_vocab = rows.shape[1]
        self.on_accelerator = on_accelerator
        self.ranked: int | None = None

    def logits(self, row: int) -> np.ndarray:
        assert self.ranked is None, "only the best are on this side"
        return self.rows[row]

    def match(self, row: int, tokens, position: int) -> tuple[int, int]:
        for i, token in enumerate((*tokens, None)):
            try:
                best = argmax(self.rows[row + i])
            except LogitsError as error:
                raise LogitsError(f"position {position + i}: {error}") from None
            if best != token:
                return i, best
        raise AssertionError

    def need_top_k(self, sequence: int, k: int) -> None:
        self.ranked = k

    def top_k(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        assert self.ranked is not None
        best = np.argsort(-self.rows[row], kind="stable")[: self.ranked].astype(np.int32)
        return best, self.rows[row][best]


class Only(Constraint):
    """Allows a set of tokens everywhere."""

    def __init__(self, n_vocab: int, legal: ListOf[int]) -> None:
        self.legal = set(legal)
        flags = np.zeros(-(-n_vocab // 32) * 32, np.uint8)
        flags[list(legal)] = 1
        self.bits = np.packbits(flags, bitorder="little").view(np.uint32)

    def legal_prefix(self, tokens: ListOf[int]) -> int:
        return next((i for i, t in enumerate(tokens) if t not in self.legal), len(tokens))

    def mask(self, prefix: ListOf[int]) -> np.ndarray:
        return self.bits


def rows(count: int, seed: int = 0, spread: float = 2.0) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=(count, N)) * spread).astype(np.float32)


def make(target: Target, **options: Any) -> RejectionSampler:
    sampler = RejectionSampler(RejectionConfig(**options), Assembly(builder=None, name="rejection"))
    engine, drafter = SimpleNamespace(target=target), SimpleNamespace(name="drafts")
    sampler.open(SimpleNamespace(engine=engine, drafter=drafter))
    return sampler


def started(
    sampler: RejectionSampler,
    prompt: ListOf[int] = (1, 2, 3),
    constraint: Constraint | None = None,
    **overrides: Any,
) -> Sequence:
    request = Request(prompt=prompt, sampling=overrides, constraint=constraint)
    sequence = Sequence(request=request, slot=Slot(0), tokens=list(prompt))
    sequence.settings = sampler.settings(overrides)
    sampler.begin(sequence)
    return sequence


def accept(sampler: RejectionSampler, sequence: Sequence, draft: Draft, row: int = 0) -> list[int]:
    """The tokens that a step emits."""
    answer = sampler.accept([sequence], [draft], [row])[0]
    return [*draft.tokens[: answer.count], answer.token]


def plain_tokens(sampler: RejectionSampler, sequence: Sequence, count: int) -> list[int]:
    """One row at a time, as plain decoding does."""
    tokens = list(sequence.tokens)
    for i in range(count):
        sequence.tokens.append(accept(sampler, sequence, Draft(), i)[0])
    emitted, sequence.tokens = sequence.tokens[len(tokens) :], tokens
    return emitted


# --- point-mass drafts ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"top_k": 5},
        {"temperature": 0.0},
        {"repetition_penalty": 1.5, "presence_penalty": 0.5, "frequency_penalty": 0.3},
        {"frequency_penalty": 2.0, "penalty_last_n": 2},
    ],
)
@pytest.mark.parametrize("seed", range(8))
def test_right_drafts_hold_and_everything_is_as_in_plain_decoding(
    options: dict[str, Any], seed: int
) -> None:
    sampler = make(Target(rows(6)), **options)
    expected = plain_tokens(sampler, started(sampler, seed=seed), 6)
    for wrong_at in range(6):
        drafted = [*expected[:wrong_at], (expected[wrong_at] + 1) % N, 0, 0][:5]
        emitted = accept(sampler, started(sampler, seed=seed), Draft(drafted))
        assert emitted == expected[: len(emitted)]
        assert len(emitted) == min(wrong_at, 5) + 1


def test_a_draft_that_is_always_wrong_is_never_accepted() -> None:
    target = Target(rows(2))
    target.rows[:, 7] = -np.inf
    sampler = make(target)
    for seed in range(200):
        answer = sampler.accept([started(sampler, seed=seed)], [Draft([7])], [0])[0]
        assert answer.count == 0
        assert answer.token != 7


@pytest.mark.parametrize("q", [None, "certain"])
def test_a_banned_token_never_appears_even_if_every_draft_contains_it(q: str | None) -> None:
    target = Target(rows(3))
    target.rows[:, 11] = 30.0
    sampler = make(target, logit_bias={11: -100.0})
    certain = Distribution(np.array([11], np.int32), np.array([1.0]))
    draft = Draft([11, 11], None if q is None else [certain, certain])
    for seed in range(300):
        assert accept(sampler, started(sampler, seed=seed), draft) != [11]


def test_min_p_applies_to_every_verify_row() -> None:
    target = Target(np.zeros((3, N)))
    target.rows[:, :] = -3.0
    target.rows[:, 4] = 0.0
    sampler = make(target, min_p=0.2)
    for seed in range(200):
        assert accept(sampler, started(sampler, seed=seed), Draft([4, 4])) == [4, 4, 4]
        assert accept(sampler, started(sampler, seed=seed), Draft([5])) == [4]


# --- drafts that were drawn ---------------------------------------------------------------------


def test_the_array_that_drafts_are_drawn_from_is_the_one_they_are_verified_with() -> None:
    sampler = make(Target(rows(2)), temperature=0.3, top_k=7)
    sequence = started(sampler, seed=1)
    token, q = sampler.draw(sequence, [], rows(1, seed=5)[0])
    seen: list[Any] = []
    kernel = sampler._kernel
    verify = kernel.verify
    kernel.verify = lambda *args, **named: (seen.append(args[3:5]), verify(*args, **named))[1]
    sampler.accept([sequence], [Draft([token], [q])], [0])
    assert seen[0][0] is q.ids
    assert seen[0][1] is q.probs
    assert q.probs.sum() == pytest.approx(1, abs=1e-12)
    assert token in q.ids


@pytest.mark.parametrize("temperature", [0.3, 1.5])
def test_sampled_drafts_leave_the_distribution_alone(temperature: float) -> None:
    from tests.core.native.reference import chi_square_p, reference

    target = Target(rows(2, seed=1))
    sampler = make(target, temperature=temperature, top_k=10)
    head = rows(1, seed=2)[0]
    emitted = []
    for seed in range(20_000):
        sequence = started(sampler, seed=seed)
        token, q = sampler.draw(sequence, [], head)
        emitted.append(accept(sampler, sequence, Draft([token], [q]))[0])
    p = reference(target.rows[0], temperature=temperature, top_k=10)
    assert chi_square_p(np.bincount(emitted, minlength=N), p) > 1e-6


def test_sampled_drafts_hold_more_often_than_the_most_likely_token() -> None:
    target = Target(rows(2, seed=1, spread=1.0))
    sampler = make(target)
    head = target.rows[0] + rows(1, seed=3, spread=0.3)[0]
    held = {"drawn": 0, "best": 0}
    for seed in range(2000):
        sequence = started(sampler, seed=seed)
        token, q = sampler.draw(sequence, [], head)
        held["drawn"] += sampler.accept([sequence], [Draft([token], [q])], [0])[0].count
        best = Draft([int(head.argmax())])
        held["best"] += sampler.accept([sequence], [best], [0])[0].count
    assert held["drawn"] > 3 * held["best"]


def test_drafts_see_penalties_as_the_target_would() -> None:
    sampler = make(Target(rows(1)), frequency_penalty=100.0)
    row = np.zeros(N, np.float32)
    sequence = started(sampler, prompt=range(N - 3), seed=1)
    drawn: list[int] = []
    for _ in range(3):
        drawn.append(sampler.draw(sequence, drawn, row)[0])
    assert sorted(drawn) == [N - 3, N - 2, N - 1]


def test_a_draft_outside_its_own_distribution_is_an_error() -> None:
    sampler = make(Target(rows(2)))
    q = Distribution(np.array([3], np.int32), np.array([1.0]))
    with pytest.raises(PluginError, match="position 3"):
        sampler.accept([started(sampler, seed=1)], [Draft([4], [q])], [0])


# --- seeds ------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_tokens_and_another_one_others() -> None:
    sampler = make(Target(rows(30)))
    first = plain_tokens(sampler, started(sampler, seed=5), 30)
    assert plain_tokens(sampler, started(sampler, seed=5), 30) == first
    assert plain_tokens(sampler, started(sampler, seed=6), 30) != first


def test_a_request_without_a_seed_draws_one_and_tells_which() -> None:
    sampler = make(Target(rows(30)))
    first = started(sampler)
    assert sampler.statistics()["last_seed"] == first.settings.seed
    second = started(sampler)
    assert first.settings.seed != second.settings.seed
    tokens = plain_tokens(sampler, first, 30)
    assert plain_tokens(sampler, started(sampler, seed=first.settings.seed), 30) == tokens


# --- constraints ------------------------------------------------------------------------------


@pytest.mark.parametrize("drawn", [False, True])
def test_constrained_draws_follow_the_legal_part(drawn: bool) -> None:
    from tests.core.native.reference import chi_square_p, reference

    target = Target(rows(2, seed=4))
    legal = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37]
    constraint = Only(N, legal)
    sampler = make(target, temperature=1.2)
    head = rows(1, seed=9)[0]
    emitted = []
    for seed in range(20_000):
        sequence = started(sampler, constraint=constraint, seed=seed)
        draft = Draft([int(head.argmax())])
        if drawn:
            token, q = sampler.draw(sequence, [], head)
            draft = Draft([token], [q])
        draft = draft.cut(constraint.legal_prefix(draft.tokens))
        emitted.append(accept(sampler, sequence, draft)[0])
    p = reference(target.rows[0], temperature=1.2)
    p[[t for t in range(N) if t not in legal]] = 0
    assert chi_square_p(np.bincount(emitted, minlength=N), p / p.sum()) > 1e-6


class Spellings(Only):
    """Forces a text: the mask names its usual spelling alone, the first token of others is fine."""

    def __init__(self, usual: int, others: ListOf[int]) -> None:
        super().__init__(N, [usual])
        self.legal |= set(others)

    def allows(self, prefix: ListOf[int], token: int) -> bool:
        return token in self.legal


def test_a_drawn_draft_may_be_another_spelling_of_a_forced_text() -> None:
    """Plain decoding emits p, and the usual spelling in place of the rest; so do drafts."""
    from tests.core.native.reference import chi_square_p, reference

    target = Target(rows(2, seed=4))
    usual, refused, one, other = np.argsort(target.rows[0])[-4:].tolist()
    constraint = Spellings(usual, [one, other])
    sampler = make(target, temperature=1.2)
    q = Distribution(np.array([one, refused, other], np.int32), np.array([0.5, 0.3, 0.2]))
    emitted = []
    for seed in range(20_000):
        sequence = started(sampler, constraint=constraint, seed=seed)
        token = int(np.random.default_rng(seed).choice(q.ids, p=q.probs))
        draft = Draft([token], [q]).cut(constraint.legal_prefix([token]))
        emitted.append(accept(sampler, sequence, draft)[0])
    p = reference(target.rows[0], temperature=1.2)
    expected = np.zeros(N)
    expected[[usual, one, other]] = 1 - p[one] - p[other], p[one], p[other]
    assert chi_square_p(np.bincount(emitted, minlength=N), expected) > 1e-6


def test_a_forced_token_is_accepted_whatever_its_probability() -> None:
    target = Target(rows(3))
    target.rows[:, 9] = -60.0
    sampler = make(target, top_k=3)
    for seed in range(50):
        sequence = started(sampler, constraint=Only(N, [9]), seed=seed)
        assert accept(sampler, sequence, Draft([9, 9])) == [9, 9, 9]
    assert sampler.statistics()["redrawn"] == 150


# --- which rows are read ------------------------------------------------------------------------


def test_ranked_rows_give_the_same_tokens_and_show_in_the_statistics() -> None:
    options = {"temperature": 0.7, "top_k": 6, "top_p": 0.9}
    whole = make(Target(rows(20)), **options)
    ranked = make(Target(rows(20), on_accelerator=True), **options)
    for seed in range(10):
        expected = plain_tokens(whole, started(whole, seed=seed), 20)
        assert plain_tokens(ranked, started(ranked, seed=seed), 20) == expected
    assert whole.statistics()["rows"] == {"logits": 200}
    assert ranked.statistics()["rows"] == {"device_top_k": 200}


@pytest.mark.parametrize(
    "options",
    [{"logit_bias": {1: 1.0}}, {"presence_penalty": 0.1}, {"logprobs": 0}, {"device_top_k": "off"}],
)
def test_whole_rows_are_read_where_something_needs_them(options: dict[str, Any]) -> None:
    sampler = make(Target(rows(1), on_accelerator=True), top_k=6, **options)
    sequence = started(sampler)
    assert sampler.needs_logits(sequence)
    accept(sampler, sequence, Draft())
    assert sampler.statistics()["rows"] == {"logits": 1}


def test_temperature_zero_reads_no_logits() -> None:
    sampler = make(Target(rows(3)), temperature=0.0)
    assert sampler.greedy
    sequence = started(sampler)
    assert not sampler.needs_logits(sequence)
    assert plain_tokens(sampler, sequence, 3) == rows(3).argmax(axis=1).tolist()
    assert sampler.statistics()["rows"] == {"argmax": 3}
    assert not make(Target(rows(1)), temperature=0.0, logit_bias={1: 2.0}).greedy


# --- log-probabilities --------------------------------------------------------------------------


def test_log_probabilities_have_one_entry_a_token_that_was_really_emitted() -> None:
    target = Target(rows(4))
    sampler = make(target, logprobs=2, temperature=0.3, top_k=2)
    sequence = started(sampler, seed=1)
    tokens = plain_tokens(sampler, sequence, 4)
    draft = Draft(tokens[:3])
    assert accept(sampler, sequence, draft) == tokens
    cut = tuple(tokens[:2])  # a stop condition may end a step early
    sampler.commit([sequence], [Step(draft, 3, cut, 0)])
    assert [entry.token for entry in sequence.logprobs] == list(cut)
    for i, entry in enumerate(sequence.logprobs):
        wide = target.rows[i].astype(np.float64)
        expected = wide - np.log(np.exp(wide).sum())
        assert entry.logprob == pytest.approx(expected[entry.token], abs=1e-5)
        assert [t for t, _ in entry.top] == np.argsort(-wide)[:2].tolist()
        assert [p for _, p in entry.top] == pytest.approx(np.sort(expected)[::-1][:2], abs=1e-5)


# --- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("bad", "reason"), [(np.nan, "NaN"), (-np.inf, "every logit is -inf")])
def test_an_unusable_row_is_an_error_that_names_the_position(bad: float, reason: str) -> None:
    target = Target(rows(3))
    target.rows[2] = bad
    sampler = make(target)
    sequence = started(sampler, prompt=[1, 2, 3, 4], seed=1)
    tokens = plain_tokens(sampler, sequence, 2)
    with pytest.raises(LogitsError, match=f"position 6: .*{reason}"):
        sampler.accept([sequence], [Draft(tokens)], [0])


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_greedy_decoding_names_the_position_too(bad: float) -> None:
    from outrider_greedy import GreedySampler

    target = Target(rows(3))
    target.rows[2] = bad
    tokens = rows(3).argmax(axis=1)[:2].tolist()
    for sampler in (make(target, temperature=0.0), GreedySampler(None, Assembly(None, "greedy"))):
        drafter = SimpleNamespace(name="drafts")
        sampler.open(SimpleNamespace(engine=SimpleNamespace(target=target), drafter=drafter))
        sequence = Sequence(Request([1, 2, 3, 4]), Slot(0), [1, 2, 3, 4])
        sequence.settings = sampler.settings({})
        sampler.begin(sequence)
        with pytest.raises(LogitsError, match="position 6: "):
            sampler.accept([sequence], [Draft(tokens)], [0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -1.0}, "temperature is -1; expected 0"),
        ({"temperature": 1e-9}, "expected 0 .* or at least 0.001"),
        ({"top_p": 0.0}, "top_p is 0; expected a number, more than 0 and at most 1"),
        ({"top_k": 2**31}, "top_k is 2147483648; expected a number, at least 0 and at most"),
        (
            {"penalty_last_n": 2**31},
            "penalty_last_n is 2147483648; expected a number, at least -1",
        ),
        ({"logprobs": 2**31}, "logprobs is 2147483648; expected how many top tokens"),
        ({"top_k": -3}, "top_k is -3; expected a number, at least 0"),
        ({"min_p": 1.5}, "min_p is 1.5"),
        ({"repetition_penalty": 0.0}, "repetition_penalty is 0; expected a number, more than 0"),
        ({"presence_penalty": float("nan")}, "presence_penalty.*nan"),
        ({"logit_bias": {-1: 1.0}}, "token ids start at 0"),
        ({"logit_bias": {1: float("inf")}}, "logit_bias of token 1 is inf"),
        ({"logprobs": -1}, "logprobs is -1"),
        ({"seed": 2**64}, "seed is 18446744073709551616; expected a 64-bit number"),
    ],
)
def test_unusable_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RejectionConfig(**options)
    sampler = make(Target(rows(1)))
    with pytest.raises(RequestError, match=message):
        sampler.settings(options)


def test_a_bias_for_a_token_that_does_not_exist_is_a_request_error() -> None:
    sampler = make(Target(rows(1)))
    with pytest.raises(RequestError, match="token 40; the vocabulary has 40"):
        started(sampler, logit_bias={40: 1.0})


def test_the_options_of_a_request_replace_those_of_the_pipeline() -> None:
    sampler = make(Target(rows(1)), temperature=0.7, top_k=3, seed=4)
    settings = sampler.settings({"temperature": 0.2})
    assert settings == attrs.evolve(sampler.config, temperature=0.2)
