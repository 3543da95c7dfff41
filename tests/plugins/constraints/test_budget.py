"""A reasoning budget is kept to the token, forced to the byte, and rewound with the sequence."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from outrider import Pipeline, Prompt, RequestError
from outrider_reasoning.budget import ReasoningBudget, Tags

OPEN, CLOSE, NEWLINE, BREAK, WORD, END = range(6)
TAGS = Tags(
    open=OPEN,
    close=CLOSE,
    closing=(NEWLINE, CLOSE, BREAK),
    is_blank=lambda token: token in (NEWLINE, BREAK),
    eog=frozenset({END}),
)
WISHES = st.lists(st.sampled_from([OPEN, CLOSE, NEWLINE, BREAK, WORD]), max_size=40)


def constraint(budget: int, *, inside: bool = True) -> ReasoningBudget:
    return ReasoningBudget(budget, TAGS, inside=inside, n_vocab=6)


def write(budget: ReasoningBudget, wishes: list[int]) -> list[int]:
    """What a model writes that wants `wishes` and is held to the constraint."""
    written: list[int] = []
    for wish in wishes:
        forced = budget.forced(())
        token = forced[0] if forced else wish
        assert budget.allows((), token)
        budget.commit([token])
        written.append(token)
    return written


def legal(budget: ReasoningBudget, prefix: list[int]) -> list[int]:
    mask = budget.mask(prefix)
    return [t for t in range(6) if mask is None or mask[0] >> t & 1]


@settings(deadline=None)
@given(st.integers(0, 10), WISHES)
def test_no_more_than_the_budget_is_thought(limit: int, wishes: list[int]) -> None:
    budget = constraint(limit)
    written = write(budget, wishes)
    assert budget.spent <= limit
    first = written.index(CLOSE) if CLOSE in written else len(written)
    own = [t for i, t in enumerate(written[:first]) if not budget.was_forced(i)]
    assert len(own) <= limit


@settings(deadline=None)
@given(st.integers(0, 10), WISHES)
def test_the_closing_text_is_forced_to_the_byte(limit: int, wishes: list[int]) -> None:
    budget = constraint(limit)
    written = write(budget, [*wishes, *[WORD] * 4])
    forced = [t for i, t in enumerate(written) if budget.was_forced(i)]
    whole, rest = divmod(len(forced), len(TAGS.closing))
    assert forced == [*TAGS.closing * whole, *TAGS.closing[:rest]]


@settings(deadline=None)
@given(st.integers(0, 10), WISHES, st.integers(0, 40), WISHES)
def test_rewinding_is_as_if_nothing_had_been_written(
    limit: int, wishes: list[int], count: int, ahead: list[int]
) -> None:
    budget, fresh = constraint(limit), constraint(limit)
    written = write(budget, wishes)
    kept = written[: max(0, len(written) - count)]
    budget.rewind(len(written) - len(kept))
    fresh.commit(kept)
    assert (budget.spent, budget.ended_by_force) == (fresh.spent, fresh.ended_by_force)
    for prefix in (ahead[:i] for i in range(len(ahead))):
        if budget.legal_prefix(prefix) == len(prefix):
            assert legal(budget, prefix) == legal(fresh, prefix)
            assert tuple(budget.forced(prefix)) == tuple(fresh.forced(prefix))


@settings(deadline=None)
@given(st.integers(0, 6), WISHES)
def test_queries_agree_with_each_other_and_change_nothing(limit: int, draft: list[int]) -> None:
    budget = constraint(limit)
    count = budget.legal_prefix(draft)
    for i, token in enumerate(draft[: count + 1]):
        prefix = draft[:i]
        assert budget.allows(prefix, token) is (i < count)
        assert (token in legal(budget, prefix)) is (i < count)
        forced = budget.forced(prefix)
        assert budget.legal_prefix([*prefix, *forced]) == i + len(forced)
    assert budget.legal_prefix(draft) == count
    assert budget.spent == 0


def test_the_closing_text_follows_a_draft_that_ends_at_the_budget() -> None:
    budget = constraint(2)
    draft = [WORD, WORD, WORD, WORD]
    assert budget.legal_prefix(draft) == 2
    assert budget.forced(draft[:2]) == TAGS.closing


def test_a_second_block_at_the_start_of_the_answer_counts_on() -> None:
    budget = constraint(3)
    budget.commit([WORD, CLOSE, BREAK, OPEN, WORD, WORD])
    assert budget.forced(()) == TAGS.closing


def test_tags_quoted_in_the_answer_mean_nothing() -> None:
    budget = constraint(1)
    budget.commit([CLOSE, WORD, OPEN, WORD, WORD, CLOSE, WORD])
    assert budget.forced(()) == ()
    assert budget.mask(()) is None


# --- requests ---------------------------------------------------------------------------------

THINKING = Prompt("…<think>\n", 0, thinking=True)


def made(pipeline: Pipeline, request: dict[str, Any]) -> Any:
    (factory,) = [f for f in pipeline.constraints if f.name == "reasoning-budget"]
    return factory.make(request, THINKING)


@pytest.mark.parametrize(
    ("request_", "budget"),
    [
        ({}, None),
        ({"reasoning": {"budget": 40}}, 40),
        ({"reasoning": {"budget": 0}}, 0),
        ({"reasoning": {"budget": None}}, None),
        ({"reasoning_budget_tokens": 7}, 7),
        ({"thinking_budget_tokens": -1}, None),
        ({"reasoning_effort": "low"}, 512),
        ({"reasoning": {"effort": "low"}}, 512),
        ({"reasoning": {"effort": "low", "budget": 9}}, 9),
        ({"reasoning_effort": "xhigh"}, None),
    ],
)
def test_what_a_request_asks_for(plain: Pipeline, request_: Any, budget: int | None) -> None:
    constraint = made(plain, request_)
    assert (None if constraint is None else constraint.budget) == budget


def test_room_for_an_answer_is_kept_below_max_tokens(plain: Pipeline) -> None:
    closing = len(plain.engine.vocabulary.tokenize("\n</think>\n\n"))
    request = {"reasoning": {"budget": 100, "min_answer_tokens": 20}, "max_tokens": 64}
    assert made(plain, request).budget == 64 - closing - 20
    assert made(plain, {"reasoning": {"budget": 100}, "max_tokens": 4}).budget == 0
    assert made(plain, {"reasoning": {"budget": 8}, "max_tokens": 64}).budget == 8
    kept = {"reasoning": {"min_answer_tokens": 20}}
    assert made(plain, {**kept, "max_tokens": 64}).budget == 64 - closing - 20
    assert made(plain, kept) is None


@pytest.mark.parametrize("budget", [-1, 1.5, "many", True])
def test_a_budget_that_is_no_token_count_is_refused(plain: Pipeline, budget: Any) -> None:
    with pytest.raises(RequestError, match="whole number of tokens"):
        made(plain, {"reasoning": {"budget": budget}})
