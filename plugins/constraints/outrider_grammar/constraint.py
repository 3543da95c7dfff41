"""A grammar as a `Constraint`: follows the emitted tokens, looks ahead along drafts, rewinds.

Until the thinking that the prompt opened is closed, the grammar waits (the answer may just not
end there); `</think>` is always possible. A grammar with a trigger waits again until the text
contains it, and once more after each time it was fulfilled.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray
from outrider import Constraint, Vocabulary


class Mode(Enum):
    """What the grammar is doing."""

    THINKING = "waiting for the end of the thinking"
    FREE = "waiting for the trigger"
    GRAMMAR = "in charge"


@attrs.frozen
class _Before:
    """What undoes one token."""

    mode: Mode
    tail: bytes
    matcher: Any
    consumed: bool


class GrammarConstraint(Constraint):
    """Keeps an answer within a grammar.

    `start` is a matcher at its start. `close` is the token that ends the thinking, None when the
    prompt leaves none open. `trigger`: the grammar only rules what follows this text.
    """

    def __init__(
        self,
        start: Any,
        vocabulary: Vocabulary,
        *,
        close: int | None = None,
        trigger: bytes | None = None,
    ) -> None:
        self._start = start
        self._vocabulary = vocabulary
        self._close = close
        self._trigger = trigger
        self._n_words = (vocabulary.size + 31) // 32
        self._tail = b""
        self._matcher: Any = None
        self._mode = Mode.THINKING
        self._undo: list[_Before] = []
        self._ahead: list[int] = []
        self._no_end: NDArray[np.uint32] | None = None
        if close is None:
            self._take_charge()

    # --- the protocol -------------------------------------------------------------------------

    def legal_prefix(self, tokens: Sequence[int]) -> int:
        """See `Constraint`."""
        self._seek(())
        for count, token in enumerate(tokens):
            if not self._is_legal(token):
                return count
            self._advance(token)
            self._ahead.append(token)
        return len(tokens)

    def forced(self, prefix: Sequence[int]) -> Sequence[int]:
        """See `Constraint`: the tokens of text that the grammar leaves no choice about."""
        self._seek(prefix)
        if self._mode is not Mode.GRAMMAR:
            return ()
        return self._matcher.compute_ff_tokens()

    def allows(self, prefix: Sequence[int], token: int) -> bool:
        """See `Constraint`."""
        self._seek(prefix)
        return self._is_legal(token)

    def mask(self, prefix: Sequence[int]) -> NDArray[np.uint32] | None:
        """See `Constraint`."""
        self._seek(prefix)
        match self._mode:
            case Mode.FREE:
                return None
            case Mode.THINKING:
                return self._all_but_end()
            case Mode.GRAMMAR:
                words = np.frombuffer(self._matcher.compute_bitmask(), np.uint32)
                mask = words[: self._n_words].copy()
                if self._matcher.is_accepting():
                    # the grammar knows one end-of-generation token, the model may have several
                    for token in self._vocabulary.eog:
                        mask[token // 32] |= np.uint32(1 << (token % 32))
                return mask

    def commit(self, tokens: Sequence[int]) -> None:
        """See `Constraint`."""
        known = _common(self._ahead, tokens)
        self._seek(tokens[:known])
        for token in tokens[known:]:
            self._advance(token)
        self._ahead.clear()

    def rewind(self, count: int) -> None:
        """See `Constraint`."""
        self._seek(())
        for _ in range(count):
            self._step_back()

    # --- one token ----------------------------------------------------------------------------

    def _seek(self, prefix: Sequence[int]) -> None:
        """Stand after the emitted tokens and `prefix`."""
        known = _common(self._ahead, prefix)
        while len(self._ahead) > known:
            self._step_back()
            self._ahead.pop()
        for token in prefix[known:]:
            self._advance(token)
            self._ahead.append(token)

    def _is_legal(self, token: int) -> bool:
        match self._mode:
            case Mode.FREE:
                return True
            case Mode.THINKING:
                return token not in self._vocabulary.eog
            case Mode.GRAMMAR:
                if token in self._vocabulary.eog:
                    return bool(self._matcher.is_accepting())
                return self._matcher.validate_tokens([token]) == 1

    def _advance(self, token: int) -> None:
        mode, tail, matcher, consumed = self._mode, self._tail, self._matcher, False
        if mode is Mode.THINKING:
            if token == self._close:
                self._take_charge()
        elif mode is Mode.FREE:
            self._look_for_trigger(token)
        elif token not in self._vocabulary.eog:
            consumed = bool(matcher.consume_token(token))
            if consumed and self._trigger is not None and matcher.is_stopped():
                self._wait_for_trigger()
        self._undo.append(_Before(mode, tail, matcher, consumed))

    def _step_back(self) -> None:
        before = self._undo.pop()
        self._mode, self._tail, self._matcher = before.mode, before.tail, before.matcher
        if before.consumed:
            self._matcher.rollback(1)

    def _take_charge(self) -> None:
        if self._trigger is not None:
            self._wait_for_trigger()
        else:
            self._mode = Mode.GRAMMAR
            self._matcher = self._start.deep_copy()

    def _wait_for_trigger(self) -> None:
        self._mode, self._tail, self._matcher = Mode.FREE, b"", None

    def _look_for_trigger(self, token: int) -> None:
        assert self._trigger is not None
        text = self._tail + self._vocabulary.piece(token)
        before, found, rest = text.partition(self._trigger)
        if not found:
            self._tail = before[-len(self._trigger) + 1 :]
            return
        self._mode = Mode.GRAMMAR
        self._tail = b""
        self._matcher = self._start.deep_copy()
        if rest:
            # The token went on behind the trigger: the grammar has to follow from there.
            self._matcher.consume_tokens(
                self._vocabulary.tokenize(rest.decode(errors="replace"), special=False)
            )

    def _all_but_end(self) -> NDArray[np.uint32]:
        if self._no_end is None:
            mask = np.full(self._n_words, 0xFFFFFFFF, np.uint32)
            for token in self._vocabulary.eog:
                mask[token // 32] &= np.uint32(0xFFFFFFFF ^ (1 << (token % 32)))
            self._no_end = mask
        return self._no_end


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    n = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        n += 1
    return n
