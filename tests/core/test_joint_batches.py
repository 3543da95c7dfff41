"""Sequences that share verify batches do not disturb each other."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from outrider import Draft, Pipeline, Request
from outrider.divergence import first_divergence

from tests.conftest import THREADS

STEPS = 50
DEEPEST = 4


def random_prompts(count: int, seed: int) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.randrange(300, 7000) for _ in range(rng.randrange(5, 40))] for _ in range(count)]


def lone_run(pipeline: Pipeline, prompt: list[int], tokens: int) -> list[int]:
    request = Request(prompt=prompt, max_tokens=tokens, ignore_eog=True)
    return list(pipeline.run(request).token_ids)


@pytest.mark.parametrize("sequences", [2, 4])
def test_joint_verify_batches_equal_lone_runs(hybrid_model: Path, sequences: int) -> None:
    """Different draft lengths every step (0 included), right and wrong drafts at random."""
    exact = [THREADS, "engine.context=512", "engine.cache_type_k=f32", "engine.cache_type_v=f32"]
    overrides = [
        *exact,
        "drafter.use=suffix",
        f"draft_length.k={DEEPEST}",
        f"max_sequences={sequences}",
    ]
    model = str(hybrid_model)
    prompts = random_prompts(sequences, seed=sequences)
    with Pipeline.load(model=model, overrides=[*exact, "drafter.use=none"]).open() as plain:
        expected = [lone_run(plain, p, STEPS * (DEEPEST + 1) + 1) for p in prompts]
        rng = random.Random(7)
        with Pipeline.load(model=model, overrides=overrides).open() as pipeline:
            active = [
                pipeline.start(Request(prompt=p, max_tokens=10_000, ignore_eog=True))
                for p in prompts
            ]

            def propose(found, limits):
                drafts = []
                for sequence, limit in zip(found, limits, strict=True):
                    truth = expected[active.index(sequence)]
                    done = sequence.generated
                    k = rng.randrange(limit + 1)
                    tokens = truth[done : done + k]
                    if tokens and rng.random() < 0.6:
                        wrong = rng.randrange(len(tokens))
                        tokens[wrong] = (tokens[wrong] + 1) % 7000
                    drafts.append(Draft(tokens))
                return drafts

            pipeline.decoder.drafter.propose = propose
            lengths: set[int] = set()
            for _ in range(STEPS):
                steps = pipeline.decoder.step(active)
                lengths |= {len(step.draft) for step in steps}
            assert lengths == set(range(DEEPEST + 1)), "every draft length occurred"
            for sequence, truth, prompt in zip(active, expected, prompts, strict=True):
                found = sequence.tokens[len(prompt) :]
                assert len(found) > STEPS
                divergence = first_divergence(plain, prompt, truth[: len(found)], found)
                assert divergence is None or abs(divergence.gap) < 1e-3, divergence


def test_no_state_is_copied_in_a_step(open_pipeline) -> None:
    """One target call a step, and a rewind that moves an index: no byte of state is saved."""
    pipeline = open_pipeline("drafter.use=mtp", "draft_length.k=3")
    text = "import json\n\ndef read(path):\n    with open(path) as file:\n        return"
    sequence = pipeline.start(Request(prompt=pipeline.tokenize(text), max_tokens=200))
    target = pipeline.engine.target
    before, saved = target.decodes, target.state_bytes
    rejected = 0
    for _ in range(20):
        if sequence.done:
            break
        steps = pipeline.decoder.step([sequence])
        rejected += sum(len(s.draft) + 1 - len(s.tokens) for s in steps)
    assert target.decodes - before == pipeline.statistics.batches
    assert target.state_bytes == saved == 0
    assert rejected > 0, "nothing was rolled back, so nothing was tested"


def rewind_us(pipeline: Pipeline, repeats: int = 30) -> float:
    """Median time of a rewind by two rows after a verify batch of three."""
    from time import perf_counter_ns

    target, slot, rollback = (
        pipeline.engine.target,
        pipeline.decoder.slots[0],
        pipeline.rollback,
    )
    pipeline.decoder.states.clear(slot)
    times: list[int] = []
    for i in range(repeats):
        target.batch.clear()
        target.batch.extend([300 + i, 400, 500], slot.length, slot.id)
        target.decode()
        slot.decoded(3)
        start = perf_counter_ns()
        rollback.rewind_slot(slot, 2)
        times.append(perf_counter_ns() - start)
    return sorted(times)[len(times) // 2] / 1e3


def test_a_rewind_costs_microseconds_whatever_the_state(open_pipeline, hybrid_model: Path) -> None:
    """States of 0.3 MiB and 0.9 MiB a plane: the ring moves an index, it copies nothing."""
    small = open_pipeline("drafter.use=suffix", "draft_length.k=4", model=str(hybrid_model))
    large = open_pipeline("drafter.use=suffix", "draft_length.k=4")
    sizes = [p.engine.memory()["recurrent_state"] for p in (small, large)]
    assert sizes[1] != sizes[0]
    times = [rewind_us(p) for p in (small, large)]
    print(f"state bytes {sizes}, rewind µs {times}")
    assert max(times) < 100
