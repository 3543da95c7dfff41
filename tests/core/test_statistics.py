"""Counting steps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from outrider import Draft, Step
from outrider.statistics import Statistics

steps = st.integers(0, 6).flatmap(
    lambda k: st.tuples(st.just(k), st.integers(0, k), st.sampled_from(["", "a", "b"]))
)


def counted(drawn):
    statistics = Statistics()
    for k, accepted, source in drawn:
        step = Step(Draft([1] * k, None, source), accepted, (1,) * (accepted + 1), 0)
        statistics.count(step, "pipeline")
    return statistics


@given(st.lists(steps, max_size=40))
def test_what_was_proposed_and_accepted_adds_up(drawn):
    statistics = counted(drawn)
    summary = statistics.summary()
    assert statistics.steps == len(drawn)
    assert statistics.emitted == sum(a + 1 for _, a, _ in drawn)
    assert sum(statistics.proposed) == sum(k for k, _, _ in drawn)
    assert sum(statistics.accepted) == sum(a for _, a, _ in drawn)
    drafters = summary["drafters"].values()
    assert sum(d["proposed"] for d in drafters) == sum(statistics.proposed)
    assert sum(d["accepted"] for d in drafters) == sum(statistics.accepted)
    assert sum(summary["draft_lengths"].values()) == len(drawn)
    assert len(summary["acceptance_by_position"]) == max((k for k, _, _ in drawn), default=0)
    assert all(0 <= a <= 1 for a in summary["acceptance_by_position"])


@given(st.lists(steps, max_size=40))
def test_acceptance_by_position_is_of_the_drafts_that_reached_it(drawn):
    summary = counted(drawn).summary()
    for i, rate in enumerate(summary["acceptance_by_position"]):
        reached = [a for k, a, _ in drawn if k > i]
        assert rate == pytest.approx(sum(a > i for a in reached) / len(reached), abs=1e-4)


def test_a_draft_without_a_source_is_the_pipelines_drafters():
    summary = counted([(2, 1, ""), (3, 0, "suffix")]).summary()
    assert summary["drafters"] == {
        "pipeline": {"proposed": 2, "accepted": 1},
        "suffix": {"proposed": 3, "accepted": 0},
    }


@given(st.lists(st.integers(0, 9), max_size=6), st.data())
def test_what_a_constraint_does_to_a_draft_is_not_the_drafters_merit(tokens, data):
    legal = data.draw(st.integers(0, len(tokens)))
    forced = data.draw(st.lists(st.integers(0, 9), max_size=3))
    draft = Draft(tokens, None, "suffix").constrained(legal, forced)
    assert list(draft.tokens) == [*tokens[:legal], *forced]
    accepted = data.draw(st.integers(0, len(draft.tokens)))
    step = Step(draft, accepted, (1,) * (accepted + 1), 0)
    assert step.proposed == len(tokens)
    assert step.held == min(accepted, legal)
    statistics = Statistics()
    statistics.count(step, "pipeline")
    assert sum(statistics.proposed) == len(tokens)
    assert sum(statistics.accepted) == min(accepted, legal)
    assert statistics.emitted == accepted + 1
    assert statistics.lengths == {len(draft.tokens): 1}
    counts = {n: (d.proposed, d.accepted) for n, d in statistics.drafters.items()}
    assert counts.pop("suffix", (0, 0)) == (len(tokens), min(accepted, legal))
    assert counts.pop("constraint", (0, 0)) == (len(forced), max(0, accepted - legal))
    assert not counts


@given(st.integers(0, 5), st.integers(0, 3), st.integers(0, 8))
def test_a_constrained_draft_that_is_cut_keeps_count_of_what_is_forced(legal, forced, length):
    draft = Draft([0] * 5).constrained(legal, [1] * forced).cut(length)
    assert sum(draft.tokens) == draft.forced


def test_nothing_divides_by_zero():
    summary = Statistics().summary()
    assert summary["tokens_per_second"] == 0
    assert summary["mean_accepted_length"] == 0
    assert summary["acceptance_by_position"] == []
    assert summary["time"]["overhead_us_per_step"] == 0


def test_times_are_told_under_their_names():
    statistics = counted([(0, 0, "")] * 4)
    statistics.batches = 2
    statistics.step_ns, statistics.engine_ns = 10_000_000, 9_000_000
    statistics.overheads.extend([90_000, 100_000, 810_000])
    summary = statistics.summary()
    assert summary["tokens_per_second"] == 400
    assert summary["time"]["overhead_us_per_step"] == 100, "the median: first steps cost more"
    assert summary["time"]["mean_overhead_us_per_step"] == 500
    assert set(summary["time"]) >= {"draft_ms", "verify_ms", "sample_ms", "overhead_us_per_step"}


def test_a_pipeline_counts_what_it_emits(scripted_pipeline):
    pipeline = scripted_pipeline({"drafter": {"use": "echo", "accuracy": [0.7]}})
    result = pipeline.generate("The night", max_tokens=50)
    assert result.stats["emitted"] == len(result.token_ids) - 1, "the first is the prefill's"
    assert result.stats["prompt_tokens"] == len(result.prompt_token_ids)
    assert result.stats["mean_accepted_length"] == pytest.approx(
        49 / result.stats["steps"], abs=1e-3
    )
