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
    rows: int | None = attrs.field(default=None)
    """Rows to verify where k tokens were drafted; null: k + 1. More can cost less: see
    docs/draft-lengths.md."""

    @rows.validator
    def _check(self, _: object, rows: int | None) -> None:
        if rows is not None and rows <= self.k:
            raise ValueError(
                f"rows is {rows}, but k: {self.k} needs {self.k + 1} rows; expected at least those"
            )


class FixedLength(DraftLength):
    """The same k in every step."""

    Config = FixedConfig

    @property
    def max(self) -> int:
        """k."""
        return self.config.k

    @property
    def padding(self) -> int:
        """What `rows` adds."""
        config = self.config
        return 0 if config.rows is None else config.rows - config.k - 1

    def choose(self, sequences: ListOf[Sequence]) -> ListOf[int]:
        """k for every sequence."""
        return [self.config.k] * len(sequences)

    def rows(self, needed: int) -> int:
        """The configured rows, for a draft of full length."""
        full = self.config.k + 1
        return full + self.padding if needed == full else needed
