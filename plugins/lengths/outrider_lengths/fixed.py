"""The `fixed` draft length: the same k in every step."""

from __future__ import annotations

from collections.abc import Sequence as ListOf

import attrs
from attrs import validators
from outrider import DraftLength, Sequence


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
