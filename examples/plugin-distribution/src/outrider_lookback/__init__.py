"""An Outrider plugin: draft what followed the anchor the last time."""

from __future__ import annotations

import attrs
from attrs import validators
from outrider import NO_DRAFT, Assembly, Draft, Drafter, Sequence, hookimpl


@attrs.frozen
class LookbackConfig:
    """Options of the `lookback` drafter."""

    window: int = attrs.field(default=256, validator=validators.ge(1))
    """How many tokens to look back."""


class LookbackDrafter(Drafter):
    """Proposes the tokens that followed the last earlier occurrence of the anchor."""

    Config = LookbackConfig

    def __init__(self, config: LookbackConfig, assembly: Assembly) -> None:
        super().__init__(config, assembly)
        self.window = config.window

    def propose_one(self, sequence: Sequence, limit: int) -> Draft:
        """At most `limit` tokens; none where the anchor is new."""
        recent = sequence.tokens[-self.window - 1 : -1]
        for i in reversed(range(len(recent))):
            if recent[i] == sequence.anchor:
                return Draft([*recent[i + 1 :], sequence.anchor][:limit])
        return NO_DRAFT


@hookimpl
def outrider_drafters() -> dict[str, type[Drafter]]:
    """Offer `lookback`."""
    return {"lookback": LookbackDrafter}
