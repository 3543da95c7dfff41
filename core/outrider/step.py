"""The values that one step passes on: drafts, what was accepted of them, what was emitted."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
from numpy.typing import NDArray


@attrs.frozen
class LogProb:
    """Log-probabilities of one emitted token, of the model's own distribution.

    `top` are the most likely tokens with theirs, best first.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@attrs.frozen
class Distribution:
    """A distribution with small support: q of a sampled draft.

    `ids` int32 [m] without repeats; `probs` float64 [m], summing to 1. Tokens that are not
    listed have probability 0.
    """

    ids: NDArray[np.int32]
    probs: NDArray[np.float64]


@attrs.frozen
class Draft:
    """Tokens proposed to follow the anchor.

    `q[i]` is the distribution that `tokens[i]` was really drawn from, None where the token was
    chosen deterministically (a point mass); `q` itself None means that everywhere. `source`
    names the drafter for the statistics; empty means "the pipeline's drafter". `evidence` grades
    the drafter's own reason for this draft, where it has one (the suffix drafter: how long the
    repeated context is); acceptance is learnt apart for each grade.

    The decode loop sets the last two where a request has a constraint: `forced` of the last tokens
    are not the drafter's, the constraint leaves no other choice for them; `barred` tokens that the
    drafter had proposed next are not among `tokens`, because the constraint forbids the first of
    them.

    A drawn token must be proposed once it is drawn: to drop it because of what it turned out to
    be would make q something else than it was drawn from. Where to stop may depend on q, and on
    the tokens before.
    """

    tokens: Sequence[int] = ()
    q: Sequence[Distribution | None] | None = None
    source: str = ""
    evidence: int = 0
    forced: int = 0
    barred: int = 0

    def __len__(self) -> int:
        return len(self.tokens)

    def cut(self, length: int) -> Draft:
        """The first `length` tokens of this draft."""
        if length >= len(self.tokens):
            return self
        q = None if self.q is None else self.q[:length]
        forced = max(0, self.forced - (len(self.tokens) - length))
        return Draft(self.tokens[:length], q, self.source, self.evidence, forced)

    def constrained(self, legal: int, forced: Sequence[int]) -> Draft:
        """What a constraint makes of it: the first `legal` tokens, then `forced` ones."""
        tokens, barred = self.tokens, len(self.tokens) - legal
        if not barred and not forced:
            return self
        q = None if self.q is None else [*self.q[:legal], *([None] * len(forced))]
        return Draft([*tokens[:legal], *forced], q, self.source, self.evidence, len(forced), barred)


NO_DRAFT = Draft()


@attrs.frozen
class Accepted:
    """A sampler's answer for one sequence: `count` drafts hold, `token` follows them."""

    count: int
    token: int


@attrs.frozen
class Step:
    """What one step did to one sequence.

    Batch rows `row … row + len(draft)` of the target's last decode are [anchor, d1 … dk]; row
    `row + i` predicts what follows. `tokens` were emitted: kept drafts and one more token,
    fewer when a stop condition cut them. The target's memory now ends before `tokens[-1]`.
    """

    draft: Draft
    accepted: int
    """Drafts the sampler accepted (before any cut)."""
    tokens: tuple[int, ...]
    row: int

    @property
    def proposed(self) -> int:
        """Tokens that the drafter proposed, those that a constraint cut off included."""
        draft = self.draft
        return len(draft.tokens) - draft.forced + draft.barred

    @property
    def held(self) -> int:
        """How many of them the sampler accepted; where fewer than `proposed`, the next did not."""
        draft = self.draft
        return min(self.accepted, len(draft.tokens) - draft.forced)
