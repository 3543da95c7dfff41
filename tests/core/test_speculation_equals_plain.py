"""Greedy output does not depend on the drafter, and the test can tell when it does."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from bench import prompts
from outrider import Pipeline, Request
from outrider.divergence import first_divergence
from outrider.sequence import Slot

from tests.conftest import ROOT, THREADS

TOKENS = 64
PIPELINES = ROOT / "examples" / "pipelines"


@pytest.fixture(scope="module")
def chosen(plain: Pipeline) -> list[prompts.Prompt]:
    """Five prompts of each task family: code, edits, JSON and tool calls, prose, arithmetic."""
    found = prompts.load(plain, per_family=5)
    assert len(found) >= 20
    return found


@pytest.fixture(scope="module")
def expected(plain: Pipeline, chosen: list[prompts.Prompt]) -> list[tuple[int, ...]]:
    """What plain decoding says."""
    return [run(plain, prompt) for prompt in chosen]


@pytest.fixture(params=["suffix", "mtp", "cascade"])
def speculative(request: pytest.FixtureRequest) -> Iterator[Pipeline]:
    file = PIPELINES / f"{request.param}.yaml"
    with Pipeline.load(file, overrides=[THREADS]).open() as pipeline:
        yield pipeline


def run(pipeline: Pipeline, prompt: prompts.Prompt) -> tuple[int, ...]:
    return pipeline.run(Request(prompt=prompt.tokens, max_tokens=TOKENS)).token_ids


def real_differences(
    plain: Pipeline,
    speculative: Pipeline,
    chosen: list[prompts.Prompt],
    expected: list[tuple[int, ...]],
) -> list[str]:
    """Divergences that no near tie explains; near ties are printed with their gap."""
    wrong: list[str] = []
    for prompt, tokens in zip(chosen, expected, strict=True):
        found = run(speculative, prompt)
        divergence = first_divergence(plain, prompt.tokens, tokens, found)
        if divergence is None:
            if len(found) != len(tokens):
                wrong.append(f"{prompt.name}: {len(found)} tokens instead of {len(tokens)}")
            continue
        line = (
            f"{prompt.name}: token {divergence.index} is {divergence.found} instead of "
            f"{divergence.expected}, logit gap {divergence.gap:.3f}"
        )
        print(line)
        if not divergence.near_tie:
            wrong.append(line)
    return wrong


def test_every_drafter_gives_the_tokens_of_plain_decoding(plain, speculative, chosen, expected):
    assert real_differences(plain, speculative, chosen, expected) == []
    run(speculative, chosen[0])
    accepted = sum(speculative.statistics.accepted)
    assert accepted > 0, "nothing was speculated, so nothing was tested"


def test_a_broken_rollback_is_noticed(plain, chosen, expected, monkeypatch):
    """The proof that the test above can fail: rejected rows stay in the recurrent state.

    The attention cache is cut as it should be; llama.cpp accepts every call, and the text stays
    fluent.
    """
    with Pipeline.load(PIPELINES / "mtp.yaml", overrides=[THREADS]).open() as pipeline:
        target = pipeline.engine.target

        def rewind_slot(slot: Slot, count: int) -> None:
            stale = target.save(slot.id, partial=True)
            assert target.truncate(slot.id, slot.length - count)
            target.load(slot.id, stale, partial=True)
            slot.cut(count)

        monkeypatch.setattr(pipeline.rollback, "rewind_slot", rewind_slot)
        wrong = real_differences(plain, pipeline, chosen[::3], expected[::3])
    assert wrong, "a broken rollback went unnoticed"


def test_the_trace_shows_each_token_once(plain, chosen, tmp_path):
    """Every emitted token stands in exactly one step of the trace."""
    path = tmp_path / "trace.jsonl"
    pipeline = Pipeline.load(PIPELINES / "cascade.yaml", overrides=[THREADS])
    pipeline.trace(path)
    with pipeline.open():
        tokens = run(pipeline, chosen[0])
    lines = [json.loads(line) for line in path.open()]
    traced = [lines[0]["token"], *(t for line in lines[1:-1] for t in line["tokens"])]
    assert tuple(traced) == tokens
    assert [line["event"] for line in (lines[0], lines[-1])] == ["start", "finish"]
