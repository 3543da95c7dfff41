"""Memory of the scripted engine: an attention cache, and a recurrent state with a snapshot ring.

The ring follows llama.cpp's rules to the letter (`llama_memory_recurrent::seq_rm`), mistakes
included: a rollback is refused only when it is deeper than the ring or when another one is
pending. One that reaches behind the last batch is accepted and yields a stale state.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import attrs

from outrider.testing.toy import EMPTY, State, ToyModel


@attrs.define
class HybridMemory:
    """One sequence's memory in a hybrid model.

    `planes[i]` is the recurrent state i rows before the end of the last batch, as far as that
    batch reached; behind that lie leftovers. `index` is the plane a pending rollback chose.
    """

    model: ToyModel
    ring_depth: int
    tokens: list[int] = attrs.field(factory=list[int])
    planes: list[State] = attrs.field(factory=list[State])
    index: int = 0
    length: int = 0
    """Where the recurrent state stands."""

    def __attrs_post_init__(self) -> None:
        self.planes = [EMPTY] * (1 + self.ring_depth)

    @property
    def state(self) -> State:
        """The recurrent state that the next row starts from."""
        return self.planes[self.index]

    def decode(self, tokens: Iterable[int]) -> list[State]:
        """Append rows of one batch; returns the state after each."""
        state = self.state
        states: list[State] = []
        for token in tokens:
            state = self.model.fold(state, token)
            states.append(state)
            self.tokens.append(token)
        for i, kept in enumerate(reversed(states[-1 - self.ring_depth :])):
            self.planes[i] = kept
        self.index = 0
        self.length = len(self.tokens)
        return states

    def truncate(self, length: int) -> bool:
        """Remove positions ≥ `length`; False when llama.cpp would refuse."""
        if length <= 0:
            self.clear()
            return True
        if length < self.length:
            depth = self.length - length
            if self.index or depth > self.ring_depth:
                return False
            self.index = depth
            self.length = length
        del self.tokens[length:]
        return True

    def clear(self) -> None:
        """Forget everything; the planes keep their leftovers, all but the one in use."""
        self.tokens = []
        self.planes[0] = EMPTY
        self.index = 0
        self.length = 0

    def copy_to(self, other: HybridMemory) -> None:
        """Make `other` hold the same."""
        other.tokens = list(self.tokens)
        other.planes = list(self.planes)
        other.index, other.length = self.index, self.length

    def save(self, partial: bool) -> bytes:
        """The state in use and, unless `partial`, the attention cache."""
        return _packed(self.state, self.length, None if partial else self.tokens)

    def load(self, data: bytes) -> None:
        """Restore what `save` returned; raises ValueError for anything else."""
        state, length, tokens = _unpacked(data)
        self.planes[0] = state
        self.index = 0
        self.length = length
        if tokens is not None:
            self.tokens = tokens

    def exact(self) -> bool:
        """Whether the memory is what a fresh prefill of its tokens would leave."""
        return self.length == len(self.tokens) and self.state == self.model.folded(self.tokens)


@attrs.define
class DenseMemory:
    """One sequence's memory in a model without a recurrent state: cut it anywhere."""

    model: ToyModel
    tokens: list[int] = attrs.field(factory=list[int])
    states: list[State] = attrs.field(factory=list[State])

    @property
    def length(self) -> int:
        """Tokens in memory."""
        return len(self.tokens)

    @property
    def state(self) -> State:
        """What attention sees of all tokens."""
        return self.states[-1] if self.states else EMPTY

    def decode(self, tokens: Iterable[int]) -> list[State]:
        """Append rows; returns the state after each."""
        start = len(self.states)
        for token in tokens:
            self.states.append(self.model.fold(self.state, token))
            self.tokens.append(token)
        return self.states[start:]

    def truncate(self, length: int) -> bool:
        """Remove positions ≥ `length`."""
        del self.tokens[max(0, length) :]
        del self.states[max(0, length) :]
        return True

    def clear(self) -> None:
        """Forget everything."""
        self.truncate(0)

    def copy_to(self, other: DenseMemory) -> None:
        """Make `other` hold the same."""
        other.tokens, other.states = list(self.tokens), list(self.states)

    def save(self, partial: bool) -> bytes:
        """The attention cache; there is no recurrent part."""
        return _packed(self.state, self.length, None if partial else self.tokens)

    def load(self, data: bytes) -> None:
        """Restore what `save` returned; raises ValueError for anything else."""
        _, _, tokens = _unpacked(data)
        if tokens is not None:
            self.clear()
            self.decode(tokens)

    def exact(self) -> bool:
        """Always: everything follows from the tokens."""
        return self.state == self.model.folded(self.tokens)


Memory = HybridMemory | DenseMemory


def _packed(state: State, length: int, tokens: list[int] | None) -> bytes:
    return json.dumps([state.folded, state.since_go, length, tokens]).encode()


def _unpacked(data: bytes) -> tuple[State, int, list[int] | None]:
    try:
        folded, since_go, length, tokens = json.loads(data)
        return State(int(folded), int(since_go)), int(length), tokens and list(map(int, tokens))
    except (ValueError, TypeError, UnicodeDecodeError) as error:
        raise ValueError(f"not a saved state: {error}") from None
