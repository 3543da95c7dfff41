"""What steps cost: a measured table, and its correction while decoding."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as ListOf

import attrs

from outrider_lengths.pace import Pace

Cause = tuple[str, int] | None
"""What made a step draft: the drafter and the grade of its evidence."""


@attrs.frozen
class CostTable:
    """Measured costs in µs.

    `rows[r - 1]`: a step with r verify rows, all but drafting. `drafting[name][k]`: following the
    target and drafting k tokens with a drafter. `change`: what a step costs more when its number
    of rows differs from the step before (a compute graph is built anew).
    """

    rows: tuple[float, ...]
    drafting: Mapping[str, tuple[float, ...]]
    change: float = 0.0
    acceptance: Mapping[str, tuple[float, ...]] = attrs.field(factory=dict)
    """Conditional acceptance by position that was seen while measuring, by drafter."""


def lookup(table: ListOf[float], i: int) -> float:
    """Entry `i`; beyond the table its last increase goes on."""
    if i < len(table):
        return table[i]
    rise = table[-1] - table[-2] if len(table) > 1 else 0.0
    return table[-1] + max(0.0, rise) * (i - len(table) + 1)


def cheapest(table: ListOf[float], rows: int, padding: int) -> int:
    """The number of rows from `rows` to `rows + padding` that costs least; of equals the fewest.

    `table[r - 1]`: r rows. What was not measured is not chosen.
    """
    most = min(rows + padding, len(table))
    return min(range(rows, most + 1), key=lambda r: table[r - 1], default=rows)


_OUTLIER = 0.25
"""An observation counts as at most this much more or less than what was expected."""
_ENTRY = 0.02
"""Weight of a new observation in one entry of the table."""
_JOINT = 0.1
"""Weight of a new observation in what all steps of so many sequences have in common."""
_CHANGE = 0.04
"""Weight of a new observation in the cost of a change."""
_DRAFTING = 0.1
"""Weight of a new observation in one entry of a drafter's table."""
_CATCH_UP = 0.1
"""Weight of a new stretch in what its first draft costs more."""
_STRETCH = 0.1
"""Weight of a new stretch in the expected length of a stretch."""
_UNKNOWN_STRETCH = 1.5
_FIRST_NOISE = 2.0
"""How much less certain the cost of a batch after single rows is, because of the change."""
_PLAIN_LOOKED_AT = 16
"""Of plain steps in a row only every so many are looked at: there are enough of them."""


class Costs:
    """A table that follows what is observed.

    A machine that is slower as a whole (heat, neighbours) changes no decision; batches of several
    rows suffer more than single rows from a longer context and from neighbours, whatever their
    size, and that changes decisions. `Pace` tells the two apart; only what remains moves an entry
    of the table. Outliers are clamped.

    A step with another number of rows than the one before costs more. Plain decoding is where
    everything returns to sooner or later, so whoever leaves it pays for the way back as well,
    and for what a drafter has to catch up with; that is spread over the steps that a stretch
    away from plain decoding is expected to take.
    """

    def __init__(self, table: CostTable, padding: int = 0) -> None:
        self._padding = padding
        self._rows = list(table.rows)
        self._drafting = {name: list(costs) for name, costs in table.drafting.items()}
        self.change = table.change
        """What a step costs more after one with another number of rows."""
        self._pace = Pace()
        self._joint: dict[int, float] = {}
        """Of steps of several sequences, by their number: observed cost by expected cost."""
        self._catch_up = dict.fromkeys(self._drafting, 0.0)
        """What a drafter's first pass after plain steps costs more."""
        self._stretch: dict[Cause, float] = {}
        self._began: Cause = None
        self._last = 0
        self._repeated = 0

    @property
    def pace(self) -> float:
        """How much more everything takes at the moment than these costs say."""
        return self._pace.pace

    def rows(self, n: int) -> float:
        """A step with `n` verify rows, without drafting."""
        cost = lookup(self._rows, n - 1)
        return cost * self._pace.batches if n > 1 else cost

    def padded(self, n: int) -> int:
        """How many rows a step of one sequence verifies best that needs `n`."""
        return cheapest(self._rows, n, self._padding) if self._padding else n

    def drafting(self, name: str, k: int) -> float:
        """Drafting `k` tokens."""
        table = self._drafting.get(name)
        return lookup(table, k) if table else 0.0

    def stretch(self, cause: Cause = None) -> float:
        """Steps for which decoding with the same number of drafts goes on, begun for a `cause`."""
        return self._stretch.get(cause, _UNKNOWN_STRETCH)

    def transition(self, rows: int, cause: Cause = None) -> float:
        """What a step with `rows` verify rows costs more because of the one before it."""
        last = self._last
        if rows == last or rows == 1:
            return 0.0
        if last > 1:
            return self.change / self.stretch(cause)
        catch_up = self._catch_up.get(cause[0], 0.0) if cause else 0.0
        return (2.0 * self.change + catch_up) / self.stretch(cause)

    def steps(self, cause: tuple[str, int], bound: int) -> list[float]:
        """A step of one sequence with 0 … `bound` drafts of a drafter, by their number."""
        last = self._last
        # the way there is the same for all other numbers of rows, except back to a single one
        way = self.transition(3 if last == 2 else 2, cause)
        costs: list[float] = []
        for k in range(bound + 1):
            rows = self.padded(1 + k)
            cost = self.rows(rows) + self.drafting(cause[0], k)
            costs.append(cost if rows in (1, last) else cost + way)
        return costs

    def observe(
        self,
        sequences: int,
        rows: int,
        rest_us: float,
        name: str,
        k: int,
        draft_us: float,
        cause: Cause = None,
    ) -> None:
        """A step of `sequences` sequences took so long; `name` drafted `k` tokens in it.

        Not all of them need have been verified. `cause`: what made it draft, for learning how
        long that goes on.
        """
        if rows == 1 == self._last and self._repeated % _PLAIN_LOOKED_AT and not k:
            self._repeated += 1
            return
        after_plain = self._last <= 1
        begins = after_plain and rows > 1
        changed = rows != self._last
        # a single row beside a drafter's pass, on a cold cache, says little of other single rows
        if rows <= len(self._rows) and (rows > 1 or not k):
            if sequences > 1:
                self._observe_joint(sequences, rows, rest_us)
            elif changed:
                self._observe_change(rows, rest_us, begins)
            else:
                self._observe_rows(rows, rest_us)
        self.passed(rows, cause)
        if sequences == 1:
            self._observe_drafts(name, k, draft_us, after_plain)

    def passed(self, rows: int, cause: Cause = None) -> None:
        """A step with `rows` verify rows was taken; what it cost says nothing of other steps."""
        if rows == self._last:
            self._repeated += 1
            return
        if self._last > 1:
            known = self.stretch(self._began)
            self._stretch[self._began] = known + _STRETCH * (1 + self._repeated - known)
        self._last, self._repeated, self._began = rows, 0, cause

    def _observe_joint(self, sequences: int, rows: int, rest_us: float) -> None:
        known = self._joint.get(sequences, 1.0)
        self._joint[sequences] = known * (1.0 + _JOINT * _off(rest_us, self.rows(rows) * known))

    def _observe_rows(self, rows: int, rest_us: float) -> None:
        """A step with as many rows as the one before."""
        passed = 1 if rows > 1 else _PLAIN_LOOKED_AT
        self._pace.observe(rest_us / self._rows[rows - 1], rows > 1, passed)
        if rows > 1:
            self._rows[rows - 1] *= 1.0 + _ENTRY * _off(rest_us, self._now(self.rows(rows)))

    def _observe_change(self, rows: int, rest_us: float, begins: bool) -> None:
        """A step after one with another number of rows.

        After single rows the pace is well known, and so it tells what batches cost; back at a
        single row it tells what a change costs.
        """
        change = self.change
        if begins and self._last:
            spent = rest_us - self._now(change)
            if spent > 0.0:
                self._pace.observe(spent / self._rows[rows - 1], True, 1, _FIRST_NOISE)
        elif rows == 1 and self._last and change > 0.0:
            more = max(0.0, rest_us / self._pace.pace - self._rows[0])
            self.change += _CHANGE * (min(more, 2.0 * change) - change)

    def _observe_drafts(self, name: str, k: int, draft_us: float, after_plain: bool) -> None:
        table = self._drafting.get(name)
        if not table or k >= len(table) or table[k] <= 0.0:
            return
        expected = self._now(self.drafting(name, k))
        if after_plain and k:
            more = max(0.0, draft_us - expected) / self._pace.pace
            known = self._catch_up[name]
            most = 2.0 * known + expected / self._pace.pace
            self._catch_up[name] = known + _CATCH_UP * (min(more, most) - known)
            return
        table[k] *= 1.0 + _DRAFTING * _off(draft_us, expected)

    def _now(self, cost: float) -> float:
        """A cost in µs of this moment."""
        return cost * self._pace.pace

    def table(self) -> dict[str, object]:
        """The numbers as they are now, for statistics."""
        return {
            "rows_us": [round(self.rows(n + 1), 1) for n in range(len(self._rows))],
            "drafting_us": {n: [round(c, 1) for c in t] for n, t in self._drafting.items()},
            "change_us": round(self.change, 1),
            "catch_up_us": {name: round(us, 1) for name, us in self._catch_up.items()},
        }


def _off(observed: float, expected: float) -> float:
    """The relative error of an expectation, clamped."""
    return max(-_OUTLIER, min(_OUTLIER, observed / expected - 1.0))
