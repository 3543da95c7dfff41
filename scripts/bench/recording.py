"""A one-file plugin that looks at drafts without taking them; `scripts/replay_lengths.py` uses it.

`refusing`: a greedy sampler that accepts nothing, and counts how many drafts would have held.
`timing`: a fixed draft length that keeps what every step took.
`nothing`: a drafter that costs nothing, so that batches are seen without the drafter beside them.
"""

from __future__ import annotations

from collections.abc import Sequence as ListOf

import attrs
from outrider import (
    Accepted,
    Draft,
    Drafter,
    DraftLength,
    Runtime,
    Sampler,
    Sequence,
    Step,
    hookimpl,
)


class RefusingSampler(Sampler):
    """The most likely token in every step, whatever was drafted."""

    greedy = True

    def open(self, runtime: Runtime) -> None:
        """Remember the target."""
        self._target = runtime.engine.target
        self.held: list[int] = []
        """Drafts that would have held, by step."""

    def accept(
        self, sequences: ListOf[Sequence], drafts: ListOf[Draft], rows: ListOf[int]
    ) -> ListOf[Accepted]:
        """No draft."""
        answers: list[Accepted] = []
        for sequence, draft, row in zip(sequences, drafts, rows, strict=True):
            held, _ = self._target.match(row, draft.tokens, len(sequence.tokens))
            self.held.append(held)
            answers.append(Accepted(0, self._target.argmax(row)))
        return answers


@attrs.frozen
class TimingConfig:
    """Options of the `timing` draft length."""

    k: int = 0
    """Tokens to draft in a step."""
    every: int = 1
    """Draft in every so many steps only."""


class TimingLength(DraftLength):
    """The same k, in every step or in some, and a list of what each step took."""

    Config = TimingConfig

    def open(self, runtime: Runtime) -> None:
        """Nothing took any time yet."""
        self.spent: list[tuple[float, float]] = []
        """µs of drafting and of the rest, by step."""

    @property
    def max(self) -> int:
        """k."""
        return self.config.k

    def choose(self, sequences: ListOf[Sequence]) -> ListOf[int]:
        """k, or nothing until the next turn."""
        turn = (len(self.spent) + 1) % self.config.every == 0
        return [self.config.k if turn else 0] * len(sequences)

    def observe(
        self, sequences: ListOf[Sequence], steps: ListOf[Step], draft_us: float, rest_us: float
    ) -> None:
        """Keep it."""
        self.spent.append((draft_us, rest_us))


class NothingDrafter(Drafter):
    """As many tokens as are asked for, always the same one."""

    def propose_one(self, sequence: Sequence, limit: int) -> Draft:
        """Token 0."""
        return Draft([0] * limit)


@hookimpl
def outrider_drafters():
    """Offer `nothing`."""
    return {"nothing": NothingDrafter}


@hookimpl
def outrider_samplers():
    """Offer `refusing`."""
    return {"refusing": RefusingSampler}


@hookimpl
def outrider_draft_lengths():
    """Offer `timing`."""
    return {"timing": TimingLength}
