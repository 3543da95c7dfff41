"""A draft length, a prefix cache and a constraint for tests of everything around them."""

from __future__ import annotations

import random
from collections.abc import Sequence as ListOf
from itertools import takewhile

import attrs
import numpy as np
from attrs import validators
from numpy.typing import NDArray

from outrider.components import Assembly, Constraint, DraftLength, PrefixCache, Reuse
from outrider.sequence import Request, Sequence, Slot
from outrider.states import Snapshot, States


@attrs.frozen
class RandomConfig:
    """Options of the `random` draft length."""

    max: int = attrs.field(default=6, validator=validators.ge(0))
    """The largest k."""
    seed: int = 0


class RandomLength(DraftLength):
    """Another k for every sequence in every step, 0 included."""

    Config = RandomConfig

    def __init__(self, config: RandomConfig, assembly: Assembly) -> None:
        super().__init__(config, assembly)
        self.config: RandomConfig = config

    @property
    def max(self) -> int:
        """The configured maximum."""
        return self.config.max

    def choose(self, sequences: ListOf[Sequence]) -> ListOf[int]:
        """A number from 0 to `max`, a function of the seed and the sequence's length."""
        return [
            random.Random(f"{self.config.seed}:{s.prompt_length}:{len(s.tokens)}").randint(
                0, self.config.max
            )
            for s in sequences
        ]


class ReplayCache(PrefixCache):
    """Continues from `snapshot` when a test set one, else from what a slot still holds.

    A slot's live memory is cut to what it shares with the request if the rollback reaches so
    far, and emptied otherwise.
    """

    snapshot: Snapshot | None = None

    def prepare(self, request: Request, slots: ListOf[Slot], states: States) -> Reuse:
        """Restore the snapshot, or rewind a live slot."""
        slot = slots[0]
        if self.snapshot is not None:
            states.restore(slot, self.snapshot)
            return Reuse(slot, slot.length, "ram")
        pairs = zip(slot.tokens, request.prompt[:-1], strict=False)
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if shared == 0 or slot.length - shared > states.reach(slot):
            states.clear(slot)
            return Reuse(slot, miss="nothing shared within reach")
        source = "live" if shared == slot.length else "ring"
        states.rewind(slot, shared)
        return Reuse(slot, shared, source)


class EveryThird(Constraint):
    """Allows a third of the vocabulary, another third at every place.

    What may follow depends on how much was emitted and on the drafted prefix, so that whoever
    asks about the wrong row, or not at all, emits something illegal soon.
    """

    def __init__(self, size: int) -> None:
        self._ids: NDArray[np.int64] = np.arange(-(-size // 32) * 32)
        self._place = 0

    def legal_prefix(self, tokens: ListOf[int]) -> int:
        """How many tokens fit their places."""
        places = enumerate(tokens, self._place)
        return sum(1 for _ in takewhile(lambda pair: sum(pair) % 3 == 0, places))

    def allows(self, prefix: ListOf[int], token: int) -> bool:
        """Whether the token fits its place."""
        return (self._place + len(prefix) + token) % 3 == 0

    def mask(self, prefix: ListOf[int]) -> NDArray[np.uint32]:
        """The tokens that fit."""
        bits = (self._place + len(prefix) + self._ids) % 3 == 0
        return np.frombuffer(np.packbits(bits, bitorder="little").tobytes(), np.uint32)

    def commit(self, tokens: ListOf[int]) -> None:
        """Count them."""
        self._place += len(tokens)
