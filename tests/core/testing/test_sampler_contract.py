"""The sampler contract finds what is wrong: lossy samplers, and those that ignore constraints."""

import random

import attrs
import numpy as np
import pytest
from outrider import (
    Accepted,
    Distribution,
    PluginError,
    Sampler,
)
from outrider.testing.contracts import (
    SamplerContract,
)
from outrider_greedy import GreedySampler

from tests.core.testing.wrong import Credulous, contract_for


class Impure(GreedySampler):
    """Changes its mind when asked twice."""

    asked = 0

    def accept(self, sequences, drafts, rows):
        self.asked += 1
        return [Accepted(0, self.asked % 7) for _ in rows]


def test_a_sampler_that_changes_when_asked_is_found():
    with pytest.raises(AssertionError):
        contract_for(SamplerContract, Impure).test_it_accepts_prefixes_and_asking_changes_nothing()


def test_a_sampler_that_believes_drafts_is_found():
    with pytest.raises(AssertionError):
        contract_for(SamplerContract, Credulous).test_drafts_do_not_change_what_is_emitted()


@attrs.frozen
class SeedConfig:
    """Options of the samplers below."""

    seed: int = 0


class Speculative(Sampler):
    """Sampling by the book; the ones below get one thing wrong each."""

    Config = SeedConfig

    def open(self, runtime):
        self.target = runtime.engine.target

    def accept(self, sequences, drafts, rows):
        return [self.accept_one(*each) for each in zip(sequences, drafts, rows, strict=True)]

    def accept_one(self, sequence, draft, row):
        for i, token in enumerate(draft.tokens):
            p = self.chances(sequence, draft.tokens[:i], row + i)
            q = np.zeros_like(p)
            law = draft.q[i] if draft.q is not None else None
            if law is None:
                q[token] = 1.0
            else:
                q[law.ids] = law.probs
                if sequence.constraint is not None:
                    q *= self.legal(sequence, draft.tokens[:i], len(q))
                    q /= q.sum()
            if not self.holds(sequence, i, token, p, q):
                return Accepted(i, self.pick(sequence, i, self.left(p, q)))
        count = len(draft.tokens)
        return Accepted(
            count,
            self.pick(sequence, count, self.chances(sequence, draft.tokens, row + count)),
        )

    def chances(self, sequence, prefix, row):
        p = np.exp(self.target.logits(row).astype(np.float64))
        if sequence.constraint is not None:
            p *= self.legal(sequence, prefix, len(p))
        return p / p.sum()

    def legal(self, sequence, prefix, size):
        mask = sequence.constraint.mask(prefix)
        return np.unpackbits(mask.view(np.uint8), bitorder="little")[:size]

    def holds(self, sequence, i, token, p, q):
        return self.number(sequence, i, "hold") * q[token] < p[token]

    def left(self, p, q):
        return np.maximum(p - q, 0)

    def pick(self, sequence, i, weights):
        place = self.number(sequence, i, "pick") * weights.sum()
        return int(min(np.searchsorted(np.cumsum(weights), place, side="right"), len(weights) - 1))

    def number(self, sequence, i, what):
        return random.Random(f"{sequence.settings.seed} {len(sequence.tokens) + i} {what}").random()


class Drawing(Speculative):
    """Draws drafts as well."""

    purpose = "draft"

    def draw(self, sequence, prefix, logits):
        p = np.exp(logits.astype(np.float64))
        law = Distribution(np.arange(len(p), dtype=np.int32), p / p.sum())
        place = self.number(sequence, len(prefix), self.purpose)
        return int(np.searchsorted(np.cumsum(law.probs), place, side="right")), law


class ResamplesFromP(Speculative):
    """After it rejected a drawn draft, it draws from the model's whole distribution."""

    def left(self, p, q):
        return super().left(p, q) if q.max() == 1 else p


class TwoChances(Speculative):
    """After it rejected a point mass, it draws from a distribution that still has it."""

    def left(self, p, q):
        return p if q.max() == 1 else super().left(p, q)


class PointsForAll(Speculative):
    """Takes drawn drafts for point masses."""

    def holds(self, sequence, i, token, p, q):
        return self.number(sequence, i, "hold") < p[token]


class BestHolds(Speculative):
    """A draft holds where it is the most likely token."""

    def holds(self, sequence, i, token, p, q):
        return token == p.argmax()


class LikelyHolds(Speculative):
    """A draft holds where it is likely enough."""

    def holds(self, sequence, i, token, p, q):
        return p[token] > 0.1


class OneNumber(Drawing):
    """Draws the draft with the random number that decides whether it holds."""

    purpose = "hold"


class TestSpeculative(SamplerContract):
    use = "book"
    offers = {"sampler": {"book": Speculative}}


class TestDrawing(SamplerContract):
    use = "book"
    offers = {"sampler": {"book": Drawing}}


@pytest.mark.parametrize(
    "cls", [ResamplesFromP, TwoChances, PointsForAll, BestHolds, LikelyHolds, OneNumber]
)
def test_a_sampler_that_drafts_bias_is_found(cls):
    with pytest.raises(AssertionError, match="other tokens are emitted than without"):
        contract_for(SamplerContract, cls).test_drafts_do_not_change_what_is_emitted()


class Unbound(Speculative):
    """Has not heard of constraints."""

    def legal(self, sequence, prefix, size):
        return 1


class BoundOnce(Speculative):
    """Asks the constraint about the first row only."""

    def legal(self, sequence, prefix, size):
        return super().legal(sequence, (), size)


class BoundLate(Speculative):
    """Compares drafts with the whole distribution, and is held to the constraint afterwards."""

    def chances(self, sequence, prefix, row):
        p = np.exp(self.target.logits(row).astype(np.float64))
        return p / p.sum()

    def pick(self, sequence, i, weights):
        if sequence.constraint is not None:
            legal = self.legal(sequence, [0] * i, len(weights))
            weights = weights * legal + 1e-9 * legal
        return super().pick(sequence, i, weights)


@pytest.mark.parametrize("cls", [Unbound, BoundOnce])
def test_a_sampler_that_breaks_constraints_is_found(cls):
    # the loop refuses such a token before the contract sees it
    with pytest.raises(PluginError, match="which the request's constraint forbids"):
        contract_for(SamplerContract, cls).test_it_holds_the_constraint()


def test_a_sampler_that_is_biased_under_a_constraint_is_found():
    suite = contract_for(SamplerContract, BoundLate)
    suite.test_it_holds_the_constraint()
    with pytest.raises(AssertionError, match="other tokens are emitted than without"):
        suite.test_drafts_do_not_change_what_is_emitted_under_a_constraint()
