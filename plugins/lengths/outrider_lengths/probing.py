"""When to draft although it does not seem worth it: to notice that it has become so."""

from __future__ import annotations

_LEAST, _MOST = 4, 512
_IN_A_ROW = 6
"""Tries that may succeed one after the other without drafting becoming worth it."""
LONG_SHOT = _MOST
"""Least wait of tries that need several positions to have become better at once."""


class Prober:
    """Decides when a drafter that is out of favour is tried again.

    A try costs `excess`, in units of the step it replaces. Tries are spaced so that they take no
    more than the share `budget` of the time. Failures double shorter waits, up to 512 steps, but
    a new request is a new chance: its first step waits no longer than the budget demands. A try
    that succeeds is followed by another at once: either the estimate rises until drafting pays,
    or one fails, or so many have succeeded that it will not.
    """

    def __init__(self, budget: float, least: int = _LEAST) -> None:
        self._budget = budget
        self._least = least
        self._spaced = 0.0
        self._wait = 0.0
        self._quiet = 0
        self._failures = 0
        self._in_a_row = 0
        self.tries = 0

    def due(self, fresh: bool = False, passed: int = 1) -> bool:
        """Whether to draft now, in the first step of a request if `fresh`.

        `passed`: steps without a draft that went by since the last call, this one included.
        """
        if self._quiet < (self._spaced if fresh else self._wait):
            self._quiet += passed
            return False
        self.tries += 1
        return True

    def result(self, success: bool, excess: float) -> None:
        """How a try ended, and what it cost more than no try."""
        self._quiet = 0
        self._in_a_row = self._in_a_row + 1 if success else 0
        if success and self._in_a_row <= _IN_A_ROW:
            self._spaced = self._wait = 0.0
            self._failures = 0
            return
        self._in_a_row = 0
        self._spaced = max(self._least, excess / self._budget if self._budget else _MOST)
        self._wait = min(max(_MOST, self._spaced), self._spaced * 2**self._failures)
        self._failures = min(self._failures + 1, 10)
