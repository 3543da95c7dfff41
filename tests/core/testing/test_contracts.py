"""The contract suites find what is wrong: each broken component fails the test meant for it."""

import random
from collections import Counter

import attrs
import numpy as np
import pytest
from outrider import (
    Accepted,
    ChatTemplate,
    Constraint,
    ConstraintFactory,
    Distribution,
    Draft,
    Drafter,
    DraftLength,
    Observer,
    PluginError,
    PrefixCache,
    Prompt,
    RequestError,
    Reuse,
    Sampler,
)
from outrider.chat import AnswerParser
from outrider.testing.contracts import (
    CacheContract,
    ConstraintContract,
    DrafterContract,
    DraftLengthContract,
    ObserverContract,
    RollbackContract,
    SamplerContract,
    TemplateContract,
    VerifierContract,
)
from outrider_chain import ChainVerifier
from outrider_greedy import GreedySampler
from outrider_rollback.ring import SnapshotRing


def contract_for(contract, cls):
    """An instance of the contract's suite for a class that is not installed."""

    class Suite(contract):
        use = "broken"
        offers = {contract.kind: {"broken": cls}}

    return Suite()


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


class Impure(GreedySampler):
    """Changes its mind when asked twice."""

    asked = 0

    def accept(self, sequences, drafts, rows):
        self.asked += 1
        return [Accepted(0, self.asked % 7) for _ in rows]


class Biased(Sampler):
    """Takes any draft for granted."""

    def open(self, runtime):
        self.target = runtime.engine.target

    def accept(self, sequences, drafts, rows):
        return [
            Accepted(len(d.tokens), self.target.argmax(row + len(d.tokens)))
            for d, row in zip(drafts, rows, strict=True)
        ]


def test_a_sampler_that_changes_when_asked_is_found():
    with pytest.raises(AssertionError):
        contract_for(SamplerContract, Impure).test_it_accepts_prefixes_and_asking_changes_nothing()


def test_a_sampler_that_believes_drafts_is_found():
    with pytest.raises(AssertionError):
        contract_for(SamplerContract, Biased).test_drafts_do_not_change_what_is_emitted()


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


class Overreaching(SnapshotRing):
    """Believes the ring always reaches its whole depth, as llama.cpp does."""

    def reach(self, slot):
        return self._depth

    def rewind_slot(self, slot, count):
        self._target.truncate(slot.id, slot.length - count)
        slot.cut(count)


class Lazy(SnapshotRing):
    """Keeps rejected rows."""

    def rewind(self, sequences, counts):
        for sequence, count in zip(sequences, counts, strict=True):
            sequence.slot.cut(count)


def test_a_rollback_that_promises_too_much_is_found():
    with pytest.raises(AssertionError):
        contract_for(RollbackContract, Overreaching).test_what_it_says_it_reaches_is_exact()


def test_a_rollback_that_keeps_rejected_rows_is_found():
    with pytest.raises(AssertionError):
        contract_for(RollbackContract, Lazy).test_rejected_rows_leave_no_trace(0)


class OneByOne(ChainVerifier):
    """One target call for each sequence."""

    def verify(self, sequences, drafts):
        calls = Counter()
        for sequence, draft in zip(sequences, drafts, strict=True):
            calls[sequence.id] = super().verify([sequence], [draft])[0]
        return [calls[s.id] for s in sequences]


def test_a_verifier_that_decodes_twice_is_found():
    with pytest.raises(AssertionError, match="exactly one target call"):
        contract_for(VerifierContract, OneByOne).test_rows_predict_what_follows_them()


class Boundless(DraftLength):
    @property
    def max(self):
        return 3

    def choose(self, sequences):
        return [4 for _ in sequences]


def test_a_draft_length_beyond_its_maximum_is_found():
    with pytest.raises(AssertionError):
        contract_for(DraftLengthContract, Boundless).test_it_chooses_within_its_bounds()


class Stale(PrefixCache):
    """Reuses whatever is there."""

    def prepare(self, request, slots, states):
        slot = slots[0]
        if slot.length >= len(request.prompt):
            states.clear(slot)
        return Reuse(slot, slot.length, "live" if slot.length else "none")


def test_a_cache_that_reuses_another_conversation_is_found():
    with pytest.raises(AssertionError):
        contract_for(CacheContract, Stale).test_answers_do_not_depend_on_what_was_asked_before()


class EvenThenRider(Constraint):
    """Even tokens only; after every third token ` rider` twice, whatever the model thinks."""

    RIDER = 258

    def __init__(self):
        self.tokens = []

    def legal(self, prefix, token):
        place = len(self.tokens) + len(prefix)
        return token == self.RIDER if place % 5 >= 3 else token % 2 == 0

    def legal_prefix(self, tokens):
        for i, token in enumerate(tokens):
            if not self.legal(tokens[:i], token):
                return i
        return len(tokens)

    def forced(self, prefix):
        place = (len(self.tokens) + len(prefix)) % 5
        return [self.RIDER] * (5 - place) if place >= 3 else []

    def mask(self, prefix):
        bits = np.array([self.legal(prefix, t) for t in range(288)], np.uint8)
        return np.packbits(bits, bitorder="little").view(np.uint32)

    def commit(self, tokens):
        self.tokens += tokens


class Forgetting(EvenThenRider):
    """Counts a drafted prefix as emitted."""

    def mask(self, prefix):
        self.tokens += prefix
        return super().mask(())


class Disagreeing(EvenThenRider):
    """Its mask forbids what `allows` allows."""

    def mask(self, prefix):
        return super().mask(prefix) & np.uint32(0xFFFF0000)


def factory(constraint):
    class Factory(ConstraintFactory):
        """Makes the constraint for requests that ask for even tokens."""

        def make(self, request, prompt):
            return constraint() if request.get("even") else None

    return Factory


class TestAGoodConstraint(ConstraintContract):
    use = "even"
    offers = {"constraint": {"even": factory(EvenThenRider)}}
    requests = [{"even": True}]


def test_a_constraint_whose_mask_disagrees_is_found():
    suite = contract_for(ConstraintContract, factory(Disagreeing))
    suite.requests = [{"even": True}]
    with pytest.raises(AssertionError):
        suite.test_queries_agree_and_change_nothing()


def test_a_constraint_that_changes_when_asked_is_found():
    suite = contract_for(ConstraintContract, factory(Forgetting))
    suite.requests = [{"even": True}]
    with pytest.raises((AssertionError, PluginError)):  # the loop notices it as well
        suite.test_drafts_do_not_change_the_answer()


@pytest.mark.parametrize(
    "test", ["test_queries_agree_and_change_nothing", "test_drafts_do_not_change_the_answer"]
)
def test_a_constraint_that_nobody_asks_for_is_not_tested(test):
    suite = contract_for(ConstraintContract, factory(EvenThenRider))
    with pytest.raises(AssertionError, match="requests is empty; set it to bodies"):
        getattr(suite, test)()


class PlainTemplate(ChatTemplate):
    """Reads answers as they are; the ones below are wrong about it."""

    def render(self, request):
        messages = request["messages"]
        if not messages or not isinstance(messages, list):
            raise RequestError("messages must be a list of messages")
        text = "".join(f"{m['role']}: {m['content']}\n" for m in messages)
        return Prompt(text, len(text))

    def parser(self, request, prompt):
        return AnswerParser()


class Stripping(AnswerParser):
    """Strips every piece."""

    def feed(self, text, *, forced=False):
        return super().feed(text.strip(), forced=forced)


class Holding(AnswerParser):
    """Holds back what might become a tag, for ever."""

    def feed(self, text, *, forced=False):
        self.held = getattr(self, "held", "") + text
        if "<" in self.held and ">" not in self.held:
            return []
        text, self.held = self.held, ""
        return super().feed(text, forced=forced)


class Believing(AnswerParser):
    """Believes that every function has a name and an end."""

    def finish(self):
        said = self.message.content
        if "<function=" in said:
            said.index("</function>", said.index("<function="))
        return super().finish()


def template_with(reader):
    class Template(PlainTemplate):
        """Reads with another reader."""

        def parser(self, request, prompt):
            return reader()

    return Template


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_parser_that_loses_nothing_passes(size):
    suite = contract_for(TemplateContract, PlainTemplate)
    suite.test_its_parser_loses_nothing(size)
    suite.test_its_parser_reads_whatever_a_model_writes(size)


@pytest.mark.parametrize("reader", [Stripping, Holding])
def test_a_parser_that_loses_text_is_found(reader):
    with pytest.raises(AssertionError, match="came out of the parser as"):
        contract_for(TemplateContract, template_with(reader)).test_its_parser_loses_nothing(3)


def test_a_parser_that_breaks_on_broken_answers_is_found():
    suite = contract_for(TemplateContract, template_with(Believing))
    suite.test_its_parser_loses_nothing(3)
    with pytest.raises(ValueError, match="substring not found"):
        suite.test_its_parser_reads_whatever_a_model_writes(1)


class Counting(Observer):
    """Counts steps by sequence."""

    def started(self, sequence):
        sequence.scratch[self.name] = 0

    def step(self, sequences, steps):
        for sequence in sequences:
            sequence.scratch[self.name] += 1


class TestCounting(ObserverContract):
    use = "counting"
    offers = {"observer": {"counting": Counting}}


class AtLeastOne(Counting):
    """Believes that every request has a step."""

    def finished(self, sequence):
        self.rate = sequence.generated / sequence.scratch[self.name]


class Tidy(Counting):
    """Clears what it has read."""

    def step(self, sequences, steps):
        for sequence in sequences:
            sequence.cancelled = sequence.generated > 38


class Again(Counting):
    """Tells itself of the start once more."""

    def step(self, sequences, steps):
        super().step(sequences, steps)
        for sequence in sequences:
            self.started(sequence)


@pytest.mark.parametrize(
    ("cls", "error"),
    [(AtLeastOne, ZeroDivisionError), (Tidy, AssertionError), (Again, AssertionError)],
)
def test_an_observer_that_disturbs_is_found(cls, error):
    with pytest.raises(error):
        contract_for(ObserverContract, cls).test_it_does_not_disturb()
