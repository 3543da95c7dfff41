"""The `suffix` drafter: what followed the longest earlier occurrence of the present context."""

from __future__ import annotations

import attrs
from attrs import validators
from outrider import NO_DRAFT, Assembly, Draft, Drafter, Runtime, Sequence, Slot, hookimpl

from outrider_suffix.automaton import SuffixAutomaton

_LONG_ENOUGH = 6
"""Matches of 32 tokens or more are told apart no further."""

_CONTESTED = 1
"""Grade of contexts that went on in different ways: most of what is proposed there fails."""


@attrs.frozen
class SuffixConfig:
    """Options of the `suffix` drafter."""

    min_match: int = attrs.field(default=4, validator=validators.ge(1))
    """Shortest context, ending at the anchor, that must have occurred before."""
    max_draft: int = attrs.field(default=16, validator=validators.ge(1))
    """Most tokens proposed at once."""
    min_share: float = attrs.field(default=0.0, validator=[validators.ge(0.0), validators.le(1.0)])
    """Stop where the likeliest continuation followed in less than this share of occurrences."""


class SuffixDrafter(Drafter):
    """Looks up prompt and output; costs no model call.

    Finds the longest suffix of the committed tokens, ending at the anchor, that occurred before
    (in a suffix automaton that grows with the sequence) and proposes the tokens that most often
    followed it. The lookup does not depend on the length of the context. Its state is a
    function of the committed tokens, so rollbacks and snapshots do not concern it.
    """

    Config = SuffixConfig
    cheap = True

    def __init__(self, config: SuffixConfig, assembly: Assembly) -> None:
        super().__init__(config, assembly)
        self.max_draft = config.max_draft
        self._automata: dict[int, SuffixAutomaton] = {}

    def open(self, runtime: Runtime) -> None:
        """One automaton a slot, made when a request starts there."""
        self._automata.clear()

    def begin(self, sequence: Sequence) -> None:
        """Index the prompt; what the slot's last conversation shares with it is kept."""
        automaton = self._automata.get(sequence.id)
        if automaton is None or not automaton.is_prefix_of(sequence.tokens):
            automaton = self._automata[sequence.id] = SuffixAutomaton(self.config.min_match)
        automaton.extend(sequence.tokens[len(automaton) :])

    def commit(self, sequences, steps) -> None:
        """Append the emitted tokens."""
        for sequence, step in zip(sequences, steps, strict=True):
            self._automata[sequence.id].extend(step.tokens)

    def propose_one(self, sequence: Sequence, limit: int) -> Draft:
        """What followed, or no draft."""
        config = self.config
        tokens = self._automata[sequence.id].continuation(
            min(limit, config.max_draft), config.min_share
        )
        if not tokens:
            return NO_DRAFT
        return Draft(tokens, source=self.name, evidence=self._grade(sequence))

    def prospect(self, sequence: Sequence) -> int:
        """The grade of the longest repeated context, 0 where it is too short."""
        if self._automata[sequence.id].match_length < self.config.min_match:
            return 0
        return self._grade(sequence)

    def _grade(self, sequence: Sequence) -> int:
        """Matches of about the same length are about as good, if one token followed all of them."""
        automaton = self._automata[sequence.id]
        if automaton.contested:
            return _CONTESTED
        return min(automaton.match_length.bit_length(), _LONG_ENOUGH)

    def clear(self, slot: Slot) -> None:
        """Forget the slot's conversation."""
        self._automata.pop(slot.id, None)


@hookimpl
def outrider_drafters():
    """Offer `suffix`."""
    return {"suffix": SuffixDrafter}
