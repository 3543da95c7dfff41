"""The MTP drafter keeps its head in step with the target, whatever happens to the sequence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pytest
from bench import prompts
from outrider import ConfigError, Pipeline, Request
from outrider.divergence import first_divergence

from tests.conftest import ROOT, THREADS

FILE = ROOT / "examples" / "pipelines" / "mtp.yaml"
TOKENS = 64


@pytest.fixture(scope="module")
def chosen(plain: Pipeline) -> list[prompts.Prompt]:
    return prompts.load(plain, per_family=2)


@pytest.fixture(scope="module")
def mtp() -> Iterator[Pipeline]:
    with Pipeline.load(FILE, overrides=[THREADS]).open() as pipeline:
        yield pipeline


def request(prompt: prompts.Prompt, tokens: int = TOKENS) -> Request:
    return Request(prompt=prompt.tokens, max_tokens=tokens, ignore_eog=True)


def rates(pipeline: Pipeline) -> tuple[int, int]:
    return sum(pipeline.statistics.proposed), sum(pipeline.statistics.accepted)


@pytest.mark.parametrize("k", [1, 3])
def test_joint_sequences_draft_as_well_as_lone_ones(plain, chosen, k: int):
    """Hidden rows and the head's cache belong to one sequence each."""
    overrides = [THREADS, f"draft_length.k={k}", "max_sequences=8", "engine.context=1024"]
    some = chosen[:8]
    with Pipeline.load(FILE, overrides=overrides).open() as pipeline:
        lone, found_alone = [0, 0], []
        for prompt in some:
            found_alone.append(pipeline.run(request(prompt)).token_ids)
            for i, n in enumerate(rates(pipeline)):
                lone[i] += n
        pipeline.reset_statistics()
        active = [pipeline.start(request(prompt)) for prompt in some]
        while left := [s for s in active if not s.done]:
            pipeline.step(left)
        joint = rates(pipeline)
        for sequence, prompt, alone in zip(active, some, found_alone, strict=True):
            found = tuple(sequence.tokens[len(prompt.tokens) :])
            divergence = first_divergence(plain, prompt.tokens, alone, found)
            assert divergence is None or divergence.near_tie, (prompt.name, divergence)
    assert abs(joint[1] / joint[0] - lone[1] / lone[0]) < 0.05


def test_acceptance_has_no_cliff_after_a_partial_acceptance(mtp, chosen):
    """The hidden row of the last *kept* token goes on, not that of the last verified one."""
    after: dict[bool, list[int]] = defaultdict(list)
    for prompt in chosen:
        sequence = mtp.start(request(prompt, 96))
        partial = False
        while not sequence.done:
            step = mtp.decoder.step([sequence])[0]
            if len(step.draft):
                after[partial].append(step.accepted > 0)
                partial = step.accepted < len(step.draft)
    whole, part = (sum(after[p]) / len(after[p]) for p in (False, True))
    print(f"first draft accepted: {whole:.2f} after whole, {part:.2f} after partial acceptance")
    assert min(len(after[True]), len(after[False])) > 30
    assert part > 0.5


def test_drafts_after_plain_steps_are_as_good(mtp, chosen, monkeypatch):
    """Steps without a draft leave rows to catch up with; nothing is lost when they outgrow the
    buffer."""
    mtp.reset_statistics()
    for prompt in chosen[:4]:
        sequence = mtp.start(request(prompt, 96))
        while not sequence.done:
            mtp.decoder.step([sequence])
    always = rates(mtp)
    steps = iter(range(10**9))

    def choose(sequences):
        return [3 if next(steps) % 90 > 80 else 0 for _ in sequences]

    monkeypatch.setattr(mtp.draft_length, "choose", choose)
    mtp.reset_statistics()
    for prompt in chosen[:4]:
        sequence = mtp.start(request(prompt, 280))
        while not sequence.done:
            mtp.decoder.step([sequence])
    rarely = rates(mtp)
    assert rarely[0] > 20
    assert rarely[1] / rarely[0] > always[1] / always[0] - 0.15


def test_a_snapshot_continues_with_the_same_drafts(mtp, chosen):
    """The pending hidden rows live outside both contexts and are part of the snapshot."""
    decoder = mtp.decoder
    sequence = mtp.start(request(chosen[0], 200))
    for _ in range(6):
        decoder.step([sequence])
    snapshot = decoder.states.snapshot(sequence.slot)
    tokens = list(sequence.tokens)

    def go_on() -> list[tuple[int, ...]]:
        drafts = []
        for _ in range(5):
            drafts.append(tuple(decoder.step([sequence])[0].draft.tokens))
        return drafts

    expected = go_on()
    after = list(sequence.tokens)
    decoder.states.restore(sequence.slot, snapshot)
    sequence.tokens[:] = tokens
    assert go_on() == expected
    assert sequence.tokens == after
    decoder.abandon(sequence)


def test_a_model_without_a_head_is_refused_before_loading(dense_model):
    with pytest.raises(ConfigError, match="has no multi-token-prediction head"):
        Pipeline.load(model=str(dense_model), overrides=["drafter.use=mtp"])
