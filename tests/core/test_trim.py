"""A draft length may leave a part of every draft unverified: nothing else changes."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from outrider import NO_DRAFT, DraftLength, PluginError, Request
from outrider.divergence import first_divergence
from outrider.testing import emitted, opened, plain_tokens

PROMPT = [260, 261, 262]


@attrs.frozen
class PartConfig:
    """Options of `part`."""

    k: int = 4
    verified: int = 2


class Part(DraftLength):
    """Drafts k tokens and has fewer of them verified."""

    Config = PartConfig

    @property
    def max(self):
        return self.config.k

    def choose(self, sequences):
        return [self.config.k] * len(sequences)

    def trim(self, sequences, drafts):
        n = self.config.verified
        return [draft.cut(n) if n else NO_DRAFT for draft in drafts]


OFFERS = {"draft_length": {"part": Part}}


def keys(k, verified, **more):
    length = {"use": "part", "k": k, "verified": verified}
    return {"drafter": {"use": "echo", "accuracy": [0.8]}, "draft_length": length, **more}


@given(k=st.integers(1, 8), verified=st.integers(0, 8), ring=st.booleans())
def test_the_text_is_that_of_plain_decoding_and_only_verified_drafts_are_counted(k, verified, ring):
    with opened(keys(k, verified, engine={"ring": ring}), offers=OFFERS) as pipeline:
        sequence = pipeline.start(Request(prompt=PROMPT, max_tokens=40))
        while not sequence.done:
            (step,) = pipeline.decoder.step([sequence])
            assert len(step.draft) <= min(k, verified)
        assert emitted(sequence) == plain_tokens(pipeline, PROMPT, 40)
        assert max(map(int, pipeline.summary()["draft_lengths"])) <= min(k, verified)


@pytest.mark.parametrize("seed", range(5))
def test_sampled_tokens_are_those_of_whole_drafts(seed):
    sampler = {"use": "rejection", "temperature": 1.0, "seed": seed}
    found = []
    for verified in (0, 2, 4):
        with opened(keys(4, verified, sampler=sampler), offers=OFFERS) as pipeline:
            found.append(pipeline.generate(PROMPT, max_tokens=50).token_ids)
    assert found[0] == found[1] == found[2]


class Longer(Part):
    """Makes more of a draft than there is."""

    def trim(self, sequences, drafts):
        return [attrs.evolve(draft, tokens=[*draft.tokens, 1]) for draft in drafts]


def test_a_policy_that_verifies_more_than_was_drafted_is_named():
    with (
        opened(keys(4, 4), offers={"draft_length": {"part": Longer}}) as pipeline,
        pytest.raises(PluginError, match="'part' made 5 tokens of a draft of 4; `trim` may only"),
    ):
        pipeline.generate(PROMPT, max_tokens=20)


@pytest.mark.parametrize(
    "drafter", ["suffix", "mtp", "{use: dflash2, model: outrider-nano-dflash2}"]
)
def test_drafters_of_the_embedded_model_follow_it_where_nothing_is_verified(
    plain, open_pipeline, drafter, monkeypatch
):
    """What a drafter proposed and nobody looked at leaves no trace in its own memory: it proposes
    what it would have proposed at that place anyway."""
    pipeline = open_pipeline(f"drafter={drafter}", "draft_length={use: fixed, k: 3}")
    proposed: dict[int, list[int]] = {}
    propose = pipeline.drafter.propose

    def proposing(sequences, limits):
        drafts = propose(sequences, limits)
        proposed[len(sequences[0].tokens)] = list(drafts[0].tokens)
        return drafts

    monkeypatch.setattr(pipeline.drafter, "propose", proposing)
    trims = []

    def every_other(sequences, drafts):
        trims.append(drafts)
        return [NO_DRAFT if len(trims) % 2 else draft.cut(2) for draft in drafts]

    same, places = 0, 0
    for text in ("def add(a, b):\n    return a", "one, two, three, one, two, three, one,"):
        prompt = plain.tokenize(text)
        request = Request(prompt=prompt, max_tokens=48, ignore_eog=True)
        expected = plain.run(request).token_ids
        found = []
        for trim in (None, every_other):
            monkeypatch.setattr(pipeline.decoder, "_trim", trim)
            proposed.clear()
            tokens = pipeline.run(request).token_ids
            divergence = first_divergence(plain, prompt, expected, tokens)
            assert divergence is None or abs(divergence.gap) < 1e-2, divergence
            found.append(dict(proposed) if divergence is None else {})
        whole, parts = found
        for place in whole.keys() & parts.keys():
            n = min(len(whole[place]), len(parts[place]))
            same += whole[place][:n] == parts[place][:n]
            places += 1
    assert places >= 10
    assert same == places, f"{same} of {places} drafts are the same"
