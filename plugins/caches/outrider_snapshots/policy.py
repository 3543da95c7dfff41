"""What to reuse and where to take snapshots: pure functions of token lists and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

RESTORE_COST = {"live": 0, "ring": 0, "ram": 16, "disk": 64}
"""What bringing a state back costs, in tokens of prefill that would take as long, roughly."""

TAIL = 8
"""Tokens that a prompt without a known history keeps after its last snapshot: they are the ones
that another tokenisation of the continued text may change, and give the ring something to undo."""

SPARED_LOSSES = 2
"""Turns in a row whose end did not come back before ends are no longer kept."""


@attrs.frozen
class Candidate:
    """A way to have `length` tokens of a prompt without prefilling them."""

    source: str
    length: int
    place: Any = None
    """The slot (`live`, `ring`) or the snapshot's key (`ram`, `disk`)."""


def best_first(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The candidates in the order in which to try them.

    Most tokens saved first, net of what the restore costs; at the same gain live memory goes
    before the ring, RAM and the disk.
    """
    order = list(RESTORE_COST)
    worth = [c for c in candidates if c.length > RESTORE_COST[c.source]]
    return sorted(worth, key=lambda c: (RESTORE_COST[c.source] - c.length, order.index(c.source)))


def live_candidate(slot: Any, common: int, length: int, reach: int, most: int) -> Candidate | None:
    """What a live sequence of `length` tokens offers, `common` of which begin the prompt.

    `most` tokens may be reused; `reach` of its last tokens can be undone exactly.
    """
    usable = min(common, most)
    if not usable:
        return None
    if usable == length:
        return Candidate("live", length, slot)
    if length - usable <= reach:
        return Candidate("ring", usable, slot)
    return None


def common_length(a: NDArray[np.int32], b: NDArray[np.int32]) -> int:
    """How many leading tokens two lists have in common."""
    n = min(len(a), len(b))
    different = np.flatnonzero(a[:n] != b[:n])
    return int(different[0]) if len(different) else n


def boundaries(
    prompt: int, history: int | None, start: int, stored: int, every: int, least: int
) -> list[int]:
    """Prompt lengths, `start` < length < `prompt`, at which to take snapshots, ascending.

    At the history boundary, the end of the conversation before the generation prompt: the next
    turn begins with the same tokens whatever the template makes of the answer. Without a known
    history, `TAIL` tokens before the end. And at every multiple of `every` (0: none), so that a
    conversation that was changed still finds an ancestor. A snapshot less than `least` tokens
    after another one (the first `stored` tokens are in one) is not worth its bytes, nor the
    decode call that the pause costs.
    """
    last = prompt - TAIL if history is None else min(history, prompt - 1)
    places = [*(range(every, last - least + 1, every) if every else ()), last]
    return [p for p in places if p > start and p >= stored + least]


def survives(tokens: Sequence[int], rendered: Sequence[int], kept: int) -> bool:
    """Whether the first `kept` of `tokens` come out the same when their text is tokenised again."""
    return list(rendered[:kept]) == list(tokens[:kept])


@attrs.define
class Experience:
    """Whether the ends of turns came back in the prompts that continued them."""

    kept: int = 0
    lost: int = 0
    losses_in_a_row: int = 0

    def note(self, came_back: bool) -> None:
        """A conversation went on, and its last turn was all there, or was not."""
        if came_back:
            self.kept += 1
            self.losses_in_a_row = 0
        else:
            self.lost += 1
            self.losses_in_a_row += 1

    @property
    def worth_keeping(self) -> bool:
        """Whether the next end of a turn is likely to come back."""
        return self.losses_in_a_row <= SPARED_LOSSES
