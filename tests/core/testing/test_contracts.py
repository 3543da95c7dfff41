"""The other contracts find what is wrong: each broken component fails the test meant for it."""

from collections import Counter

import numpy as np
import pytest
from outrider import (
    ChatTemplate,
    Constraint,
    ConstraintFactory,
    DraftLength,
    Observer,
    PluginError,
    PrefixCache,
    Prompt,
    RequestError,
    Reuse,
)
from outrider.chat import AnswerParser
from outrider.testing.contracts import (
    CacheContract,
    ConstraintContract,
    DraftLengthContract,
    ObserverContract,
    RollbackContract,
    TemplateContract,
    VerifierContract,
)
from outrider_chain import ChainVerifier
from outrider_rollback.ring import SnapshotRing

from tests.core.testing.wrong import contract_for


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

        fields = frozenset({"even"})

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


def test_a_constraint_that_does_not_say_what_it_reads_is_found():
    suite = contract_for(ConstraintContract, factory(EvenThenRider))
    suite.requests = [{"even": True, "odd": False}]
    with pytest.raises(AssertionError, match="`fields` must name odd"):
        suite.test_fields_are_declared()


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
