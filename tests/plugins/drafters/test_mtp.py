"""The MTP drafter keeps its head in step with the target, whatever happens to the sequence."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator

import pytest
from bench import prompts
from outrider import ConfigError, EngineError, Pipeline, Request
from outrider.divergence import first_divergence

from tests.conftest import ROOT, THREADS

FILE = ROOT / "examples" / "pipelines" / "mtp.yaml"
TOKENS = 64
HABITS = ["engine.steady=on", "engine.ahead=on"]


@pytest.fixture(scope="module")
def chosen(plain: Pipeline) -> list[prompts.Prompt]:
    return prompts.load(plain, per_family=2)


@pytest.fixture(scope="module", params=["host", "accelerator"])
def mtp(request: pytest.FixtureRequest) -> Iterator[Pipeline]:
    """With the habits that pay on an accelerator as well, which the processor can be told."""
    habits = HABITS if request.param == "accelerator" else []
    with Pipeline.load(FILE, overrides=[THREADS, *habits]).open() as pipeline:
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


def test_a_state_whose_length_was_changed_does_not_load(mtp, chosen):
    decoder = mtp.decoder
    sequence = mtp.start(request(chosen[0], 200))
    for _ in range(3):
        decoder.step([sequence])
    data = bytearray(mtp.drafter.snapshot(sequence.slot))
    (cached,) = struct.unpack_from("<I", data)
    struct.pack_into("<I", data, 0, cached + 1)
    with pytest.raises(EngineError, match="does not fit this model"):
        mtp.drafter.restore(sequence.slot, bytes(data))
    decoder.abandon(sequence)


def shapes(pipeline: Pipeline) -> list[int]:
    """The row numbers of the batches that are put together for the head from now on."""
    context, rows = pipeline.drafter._context, []
    chain = context.chain

    def counting(at, lengths, **how):
        rows.append(context.batch.size)
        return chain(at, lengths, **how)

    context.chain = counting
    return rows


def test_on_an_accelerator_every_decode_of_a_chain_has_one_shape(chosen):
    found, drafted = {}, {}
    for name, habits in (("host", []), ("accelerator", HABITS)):
        with Pipeline.load(FILE, overrides=[THREADS, *habits]).open() as pipeline:
            rows = shapes(pipeline)
            texts = [pipeline.run(request(prompt)).token_ids for prompt in chosen[:4]]
            found[name], drafted[name] = texts, rates(pipeline)
            rows_by_step = rows
        if name == "host":
            assert {1, 2, 3, 4} <= set(rows_by_step), "as many as were accepted, and one"
        else:
            assert rows_by_step.count(4) > 0.8 * len(rows_by_step)
    assert found["host"] == found["accelerator"]
    assert drafted["accelerator"][1] / drafted["accelerator"][0] == pytest.approx(
        drafted["host"][1] / drafted["host"][0], abs=0.03
    )


@pytest.mark.parametrize("k", [1, 2, 5])
def test_a_draft_that_was_begun_early_is_the_one_asked_for_later(chosen, k):
    found = []
    for ahead in ("off", "on"):
        overrides = [THREADS, f"engine.ahead={ahead}", f"draft_length.k={k}"]
        with Pipeline.load(FILE, overrides=overrides).open() as pipeline:
            before = pipeline.drafter._context.decodes
            results = [pipeline.run(request(prompt)) for prompt in chosen[:3]]
            said = [(r.token_ids, r.stats["steps"], r.stats["acceptance"]) for r in results]
            found.append((said, pipeline.drafter._context.decodes - before))
    (told, decodes), (told_early, decodes_early) = found
    assert told == told_early
    assert 0 <= decodes_early - decodes <= 3, "the last step of a request may draft nothing"


def test_what_was_begun_is_dropped_when_something_else_comes(chosen):
    """Other lengths, plain steps, joint batches and an end between two steps."""
    overrides = [THREADS, *HABITS, "max_sequences=2", "engine.context=1024"]
    first, second = chosen[:2]
    with Pipeline.load(FILE, overrides=overrides).open() as pipeline:
        alone = [pipeline.run(request(prompt, 80)).token_ids for prompt in (first, second)]
        sequence = pipeline.start(request(first, 80))
        for _ in range(5):
            pipeline.step([sequence])
        other = pipeline.start(request(second, 80))
        lengths = iter([3, 0, 2, 0, 0] * 200)
        pipeline.decoder.draft_length.choose = lambda found: [next(lengths) for _ in found]
        both = [sequence, other]
        turn = 0
        while left := [s for s in both if not s.done]:
            pipeline.step(left if turn % 3 else left[:1])
            turn += 1
        found = [tuple(s.tokens[len(s.request.prompt) :]) for s in both]
        assert found == alone
        given_up = pipeline.start(request(first, 80))
        pipeline.decoder.draft_length.choose = lambda found: [3 for _ in found]
        for _ in range(4):
            pipeline.step([given_up])
        pipeline.decoder.abandon(given_up)
        assert pipeline.run(request(first, 80)).token_ids == alone[0]


def test_a_model_without_a_head_is_refused_before_loading(dense_model):
    with pytest.raises(ConfigError, match="has no multi-token-prediction head"):
        Pipeline.load(model=str(dense_model), overrides=["drafter.use=mtp"])
