"""Drafts that are judged without being verified: by the tokens that are emitted next."""

from __future__ import annotations

from collections.abc import Sequence as ListOf

import attrs
from outrider import Draft


@attrs.define
class Watch:
    """A draft, and how much of it has come true.

    What the target emits does not depend on what was drafted, so a draft of a drafter that chose
    its tokens would have been accepted exactly as far as the text goes on like it. Seeing that
    costs the drafting, but no rows. (It does not hold for drawn drafts: that the target draws the
    same token is rarer than that it accepts it.)
    """

    draft: Draft
    extra: float = 0.0
    """What drafting more than is verified cost, in µs."""
    held: int = 0
    """Leading drafts that were emitted."""
    missed: bool = False
    """Whether the next draft was not."""

    def see(self, tokens: ListOf[int]) -> bool:
        """These tokens were emitted; whether it is known now how many drafts hold."""
        expected = self.draft.tokens
        for token in tokens:
            if token != expected[self.held]:
                self.missed = True
                return True
            self.held += 1
            if self.held == len(expected):
                return True
        return False
