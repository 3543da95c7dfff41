"""The drafter contract finds what is wrong: limits, memory, and what drafts are drawn from."""

import random

import numpy as np
import pytest
from outrider import (
    Distribution,
    Draft,
    Drafter,
    PluginError,
)
from outrider.testing.contracts import (
    DrafterContract,
)

from tests.core.testing.wrong import contract_for


class TooMany(Drafter):
    def propose_one(self, sequence, limit):
        return Draft([sequence.anchor] * (limit + 1))


class NoTokens(Drafter):
    def propose_one(self, sequence, limit):
        return Draft([-1])


class Meddler(Drafter):
    def propose_one(self, sequence, limit):
        sequence.tokens.append(sequence.anchor)
        return Draft([sequence.anchor])


class Mixer(Drafter):
    """Drafts what some sequence said last."""

    said = 0

    def propose_one(self, sequence, limit):
        return Draft([self.said])

    def commit(self, sequences, steps):
        for step in steps:
            type(self).said = step.tokens[-1]


class Forgetful(Drafter):
    """Its state is not a function of the tokens, and it has no snapshot."""

    def begin(self, sequence):
        sequence.scratch["steps"] = 0

    def propose_one(self, sequence, limit):
        return Draft([sequence.scratch["steps"] % 100] * limit)

    def commit(self, sequences, steps):
        for sequence in sequences:
            sequence.scratch["steps"] += 1


@pytest.mark.parametrize("cls", [TooMany, NoTokens])
def test_a_draft_that_breaks_its_limits_is_found(cls):
    with pytest.raises((AssertionError, PluginError)):
        contract_for(DrafterContract, cls).test_it_proposes_at_most_what_is_asked_for(3)


def test_a_drafter_that_changes_sequences_is_found():
    with pytest.raises(AssertionError, match="must change no sequence"):
        contract_for(DrafterContract, Meddler).test_greedy_output_equals_plain_decoding(0, 1)


def test_a_drafter_that_mixes_sequences_is_found():
    with pytest.raises(AssertionError):
        contract_for(DrafterContract, Mixer).test_sequences_do_not_mix()


def test_a_drafter_that_cannot_be_restored_is_found():
    with pytest.raises(AssertionError, match="at "):
        contract_for(DrafterContract, Forgetful).test_a_snapshot_continues_exactly()


class Drawn(Drafter):
    """Draws one of four words, and tells from what; the ones below are wrong about it."""

    chances = (0.4, 0.3, 0.2, 0.1)
    ids = (256, 257, 258, 259)

    def __init__(self, config, assembly):
        super().__init__(config, assembly)
        self.dice = random.Random(1)

    def propose_one(self, sequence, limit):
        tokens = self.dice.choices((256, 257, 258, 259), (0.4, 0.3, 0.2, 0.1), k=limit)
        return Draft(tokens, [self.law() for _ in tokens])

    def law(self):
        return Distribution(np.array(self.ids, np.int32), np.array(self.chances))


class TestDrawn(DrafterContract):
    use = "drawn"
    offers = {"drafter": {"drawn": Drawn}}
    independent = False  # one row of dice for all sequences


class NotOne(Drawn):
    chances = (0.4, 0.3, 0.2, 0.2)


class Negative(Drawn):
    ids = (256, 257, 258, 259, 260, 261)
    chances = (0.4, 0.3, 0.2, 0.1, 0.1, -0.1)


class Twice(Drawn):
    ids = (256, 257, 258, 259, 259)
    chances = (0.4, 0.3, 0.2, 0.05, 0.05)


class Outside(Drawn):
    ids = (256, 257, 258, 259, 9999)
    chances = (0.4, 0.3, 0.2, 0.05, 0.05)


class Elsewhere(Drawn):
    ids = (266, 267, 268, 269)


class Wide(Drawn):
    def law(self):
        return Distribution(np.array(self.ids), np.array(self.chances))


class TooFew(Drawn):
    def propose_one(self, sequence, limit):
        draft = super().propose_one(sequence, limit)
        return Draft(draft.tokens, draft.q[:1])


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (NotOne, "sum to 1.1"),
        (Negative, "below 0"),
        (Twice, "names a token twice"),
        (Outside, "do not exist"),
        (Elsewhere, "cannot have been drawn"),
        (Wide, "expected int32"),
        (TooFew, "one q a token"),
    ],
)
def test_a_q_that_is_none_is_found(cls, message):
    with pytest.raises(AssertionError, match=message):
        contract_for(DrafterContract, cls).test_greedy_output_equals_plain_decoding(0, 1)


class Flattering(Drawn):
    """Says that it drew from a sharper distribution than it did."""

    chances = (0.5, 0.25, 0.15, 0.1)


class Picky(Drawn):
    """Keeps what it drew to itself where it does not like it."""

    def propose_one(self, sequence, limit):
        draft = super().propose_one(sequence, limit)
        return Draft() if draft.tokens[0] == 259 else draft


@pytest.mark.parametrize("cls", [Flattering, Picky])
def test_a_drafter_that_does_not_draw_from_its_q_is_found(cls):
    with pytest.raises(AssertionError, match="do not follow q"):
        contract_for(DrafterContract, cls).test_what_it_draws_follows_q()


class NumPyNumbers(Drawn):
    def statistics(self):
        return {"drawn": np.int64(3)}


class NotANumber(Drawn):
    def statistics(self):
        return {"share": float("nan")}


@pytest.mark.parametrize("cls", [NumPyNumbers, NotANumber])
def test_statistics_that_cannot_be_printed_are_found(cls):
    with pytest.raises(AssertionError, match="cannot be written as JSON"):
        contract_for(DrafterContract, cls).test_its_statistics_can_be_printed()
