"""Which rollback serves which model, and that each keeps greedy output what it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from outrider import ConfigError, Draft, Pipeline, Request
from outrider.divergence import first_divergence

from tests.conftest import THREADS

TEXT = "def read(path):\n    with open(path) as file:\n        return file.read()\n\n\ndef read_"
EXACT = [THREADS, "engine.context=512", "engine.cache_type_k=f32", "engine.cache_type_v=f32"]


def test_a_hybrid_model_gets_the_ring_and_a_dense_one_truncation(open_pipeline, dense_model: Path):
    hybrid = open_pipeline("drafter.use=suffix")
    assert hybrid.rollback.name == "snapshot-ring"
    assert hybrid.engine.target.ring_depth == 3
    dense = open_pipeline("drafter.use=suffix", model=str(dense_model))
    assert dense.rollback.name == "kv-truncate"
    assert dense.engine.target.ring_depth == 0


def test_plain_decoding_reserves_no_ring(open_pipeline):
    assert open_pipeline("drafter.use=none").engine.target.ring_depth == 0


@pytest.mark.parametrize(
    ("rollback", "reason"),
    [("snapshot-ring", "no recurrent state"), ("checkpoint", "no recurrent state")],
)
def test_rollbacks_for_recurrent_models_refuse_dense_ones(dense_model: Path, rollback, reason):
    overrides = ["drafter.use=suffix", f"rollback.use={rollback}"]
    with pytest.raises(ConfigError, match=reason):
        Pipeline.load(model=str(dense_model), overrides=overrides)


def test_truncation_refuses_hybrid_models():
    with pytest.raises(ConfigError, match="recurrent state, which cannot be truncated"):
        Pipeline.load(overrides=["drafter.use=suffix", "rollback.use=kv-truncate"])


def outputs_agree(plain: Pipeline, speculative: Pipeline, tokens: int, wrong_every: int) -> int:
    """Run both with drafts that are right but for one token now and then; returns rejections."""
    prompt = plain.tokenize(TEXT)
    request = Request(prompt=prompt, max_tokens=tokens, ignore_eog=True)
    expected = plain.run(request).token_ids
    state = {"step": 0}

    def propose(sequences, limits):
        drafts = []
        for sequence, limit in zip(sequences, limits, strict=True):
            state["step"] += 1
            draft = list(expected[sequence.generated : sequence.generated + limit])
            if draft and state["step"] % wrong_every == 0:
                i = state["step"] % len(draft)
                draft[i] = (draft[i] + 1) % 7000
            drafts.append(Draft(draft))
        return drafts

    speculative.decoder.drafter.propose = propose
    found = speculative.run(request).token_ids
    divergence = first_divergence(plain, prompt, expected, found)
    assert divergence is None or divergence.near_tie, divergence
    assert len(found) == len(expected)
    return sum(speculative.statistics.proposed) - sum(speculative.statistics.accepted)


@pytest.mark.parametrize("device", ["null", "true", "false"])
def test_checkpoint_survives_a_hundred_steps_of_rejections(hybrid_model: Path, device: str):
    model = str(hybrid_model)
    plain = Pipeline.load(model=model, overrides=[*EXACT, "drafter.use=none"])
    overrides = [
        *EXACT,
        "drafter.use=suffix",
        "rollback.use=checkpoint",
        f"rollback.device={device}",
    ]
    with plain.open(), Pipeline.load(model=model, overrides=overrides).open() as speculative:
        assert speculative.rollback.name == "checkpoint"
        assert outputs_agree(plain, speculative, tokens=420, wrong_every=2) > 100
        steps = speculative.statistics.steps
        assert steps >= 100


def test_checkpoint_serves_the_mtp_drafter(plain: Pipeline, open_pipeline):
    """The drafter's pending rows survive the replay of the kept tokens."""
    prompt = plain.tokenize(TEXT)
    request = Request(prompt=prompt, max_tokens=120, ignore_eog=True)
    expected = plain.run(request).token_ids
    ring = open_pipeline("drafter.use=mtp")
    ring.run(request)
    by_ring = ring.summary()["acceptance"]
    pipeline = open_pipeline("drafter.use=mtp", "rollback.use=checkpoint")
    found = pipeline.run(request).token_ids
    divergence = first_divergence(plain, prompt, expected, found)
    assert divergence is None or divergence.near_tie, divergence
    assert abs(pipeline.summary()["acceptance"] - by_ring) < 0.1


def test_truncation_keeps_a_dense_model_right(dense_model: Path):
    model = str(dense_model)
    plain = Pipeline.load(model=model, overrides=[*EXACT, "drafter.use=none"])
    speculative = Pipeline.load(model=model, overrides=[*EXACT, "drafter.use=suffix"])
    with plain.open(), speculative.open():
        assert outputs_agree(plain, speculative, tokens=150, wrong_every=2) > 30


def test_the_ring_refuses_drafts_deeper_than_itself(open_pipeline):
    """A ring is as deep as the longest draft; a limit beyond it never reaches the target."""
    pipeline = open_pipeline("drafter.use=suffix", "draft_length.k=2")
    pipeline.decoder.draft_length.choose = lambda sequences: [9] * len(sequences)
    request = Request(
        prompt=pipeline.tokenize("a b c d a b c d a b c d a b c d a b"), max_tokens=40
    )
    pipeline.run(request)
    assert max(map(int, pipeline.summary()["draft_lengths"])) <= 2
