"""Policies that choose how many tokens to draft."""

from __future__ import annotations

from collections.abc import Sequence as ListOf

import attrs
from attrs import validators
from outrider import DraftLength, Sequence, hookimpl


@attrs.frozen
class FixedConfig:
    """Options of the `fixed` draft length."""

    k: int = attrs.field(default=3, validator=validators.ge(0))
    """Tokens to draft in every step."""


class FixedLength(DraftLength):
    """The same k in every step."""

    Config = FixedConfig

    @property
    def max(self) -> int:
        """k."""
        return self.config.k

    def choose(self, sequences: ListOf[Sequence]) -> ListOf[int]:
        """k for every sequence."""
        return [self.config.k] * len(sequences)


@hookimpl
def outrider_draft_lengths():
    """Offer `fixed`."""
    return {"fixed": FixedLength}
