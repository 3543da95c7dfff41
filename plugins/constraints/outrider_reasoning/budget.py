"""Counting thinking tokens, and closing the thinking when the budget is spent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

import attrs
import numpy as np
from numpy.typing import NDArray
from outrider import Constraint


class Phase(Enum):
    """Where an answer stands."""

    THINKING = "inside the thinking block"
    CLOSING = "the closing text is being written for the model"
    BLANK = "after the thinking, no text yet"
    ANSWER = "the answer has begun"


@attrs.frozen
class State:
    """After some tokens: the phase, thinking tokens so far, closing tokens written."""

    phase: Phase
    spent: int = 0
    closed: int = 0


@attrs.frozen
class Tags:
    """The tokens that open and close thinking, and the closing text as tokens.

    `closing` holds `close`; what follows it belongs to no one.
    """

    open: int
    close: int
    closing: tuple[int, ...]
    is_blank: Callable[[int], bool]
    eog: frozenset[int]


def follow(state: State, token: int, budget: int, tags: Tags) -> State:
    """The state after one more token."""
    match state.phase:
        case Phase.ANSWER:
            return state
        case Phase.CLOSING:
            closed = state.closed + 1
            if closed == len(tags.closing):
                return State(Phase.BLANK, state.spent)
            return State(Phase.CLOSING, state.spent, closed)
        case Phase.THINKING:
            if token == tags.close:
                return State(Phase.BLANK, state.spent)
            if token in tags.eog:
                return State(Phase.ANSWER, state.spent)
            return thinking(state.spent + 1, budget)
        case Phase.BLANK:
            if token == tags.open:
                # A second block counts on: the budget is one for the whole answer.
                return thinking(state.spent, budget)
            return state if tags.is_blank(token) else State(Phase.ANSWER, state.spent)


def thinking(spent: int, budget: int) -> State:
    """Inside the block, or at its forced end."""
    return State(Phase.CLOSING if spent >= budget else Phase.THINKING, spent)


class ReasoningBudget(Constraint):
    """At most `budget` thinking tokens; then the closing text is forced, token by token."""

    def __init__(self, budget: int, tags: Tags, *, inside: bool, n_vocab: int) -> None:
        self.budget = budget
        self.tags = tags
        self._states = [thinking(0, budget) if inside else State(Phase.BLANK)]
        self._n_words = (n_vocab + 31) // 32
        self._masks: dict[int, NDArray[np.uint32]] = {}
        self._forced: list[bool] = []

    @property
    def spent(self) -> int:
        """Thinking tokens emitted so far, the closing text not counted."""
        return self._states[-1].spent

    @property
    def ended_by_force(self) -> bool:
        """Whether the closing text was written for the model."""
        return any(self._forced)

    def was_forced(self, index: int) -> bool:
        """Whether the emitted token `index` was forced."""
        return self._forced[index]

    def legal_prefix(self, tokens: Sequence[int]) -> int:
        """See `Constraint`."""
        state = self._states[-1]
        for count, token in enumerate(tokens):
            if state.phase is Phase.ANSWER:
                break
            if not self._is_legal(state, token):
                return count
            state = follow(state, token, self.budget, self.tags)
        return len(tokens)

    def forced(self, prefix: Sequence[int]) -> Sequence[int]:
        """See `Constraint`."""
        state = self._after(prefix)
        return self.tags.closing[state.closed :] if state.phase is Phase.CLOSING else ()

    def allows(self, prefix: Sequence[int], token: int) -> bool:
        """See `Constraint`."""
        return self._is_legal(self._after(prefix), token)

    def mask(self, prefix: Sequence[int]) -> NDArray[np.uint32] | None:
        """See `Constraint`."""
        state = self._after(prefix)
        if state.phase is not Phase.CLOSING:
            return None
        return self._only(self.tags.closing[state.closed])

    def commit(self, tokens: Sequence[int]) -> None:
        """See `Constraint`."""
        for token in tokens:
            self._forced.append(self._states[-1].phase is Phase.CLOSING)
            self._states.append(follow(self._states[-1], token, self.budget, self.tags))

    def rewind(self, count: int) -> None:
        """See `Constraint`."""
        if count:
            del self._states[-count:], self._forced[-count:]

    def _after(self, prefix: Sequence[int]) -> State:
        state = self._states[-1]
        if state.phase is not Phase.ANSWER:
            for token in prefix:
                state = follow(state, token, self.budget, self.tags)
        return state

    def _is_legal(self, state: State, token: int) -> bool:
        return state.phase is not Phase.CLOSING or token == self.tags.closing[state.closed]

    def _only(self, token: int) -> NDArray[np.uint32]:
        if token not in self._masks:
            mask = np.zeros(self._n_words, np.uint32)
            mask[token // 32] = np.uint32(1 << (token % 32))
            self._masks[token] = mask
        return self._masks[token]
