"""Several constraints on one sequence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from outrider.components import Constraint


class Together(Constraint):
    """What every one of its parts allows."""

    def __init__(self, parts: Sequence[Constraint]) -> None:
        self.parts = tuple(parts)

    def legal_prefix(self, tokens: Sequence[int]) -> int:
        """See `Constraint`."""
        count = len(tokens)
        for part in self.parts:
            count = part.legal_prefix(tokens[:count])
        return count

    def forced(self, prefix: Sequence[int]) -> Sequence[int]:
        """See `Constraint`: the longest forced run, as far as the other parts allow it."""
        runs = [part.forced(prefix) for part in self.parts]
        longest = max(runs, key=len)
        if not longest:
            return ()
        return longest[: self.legal_prefix([*prefix, *longest]) - len(prefix)]

    def allows(self, prefix: Sequence[int], token: int) -> bool:
        """See `Constraint`."""
        return all(part.allows(prefix, token) for part in self.parts)

    def mask(self, prefix: Sequence[int]) -> NDArray[np.uint32] | None:
        """See `Constraint`."""
        result: NDArray[np.uint32] | None = None
        for part in self.parts:
            mask = part.mask(prefix)
            if mask is not None:
                result = mask if result is None else result & mask
        return result

    def commit(self, tokens: Sequence[int]) -> None:
        """See `Constraint`."""
        for part in self.parts:
            part.commit(tokens)

    def rewind(self, count: int) -> None:
        """See `Constraint`."""
        for part in self.parts:
            part.rewind(count)

    def was_forced(self, index: int) -> bool:
        """See `Constraint`."""
        return any(part.was_forced(index) for part in self.parts)


def together(parts: Sequence[Constraint]) -> Constraint | None:
    """One constraint for all of `parts`; None for none."""
    if len(parts) < 2:
        return parts[0] if parts else None
    return Together(parts)
