"""The drafters that really draft."""

from __future__ import annotations

from outrider import Drafter


def leaves(drafter: Drafter) -> list[Drafter]:
    """A drafter, or the drafters that it is made of; those that never draft are left out."""
    if drafter.parts:
        return [leaf for part in drafter.parts for leaf in leaves(part)]
    return [] if drafter.max_draft == 0 else [drafter]
