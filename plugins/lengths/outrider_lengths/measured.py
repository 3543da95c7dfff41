"""The `measured` draft length: one k a drafter, from measured costs and a prior."""

from __future__ import annotations

from collections.abc import Sequence as ListOf
from pathlib import Path

import attrs
from attrs import validators
from outrider import Assembly, Decision, DraftLength, Pipeline, Runtime, Sequence

from outrider_lengths.acceptance import UNKNOWN, Given
from outrider_lengths.calibration import calibrated
from outrider_lengths.costs import CostTable, cheapest, lookup
from outrider_lengths.gain import best_length, expected_tokens
from outrider_lengths.leaves import leaves


def _rates(_: object, attribute: attrs.Attribute[object], value: ListOf[float]) -> None:
    if not all(0.0 <= v <= 1.0 for v in value):
        raise ValueError(f"{attribute.name}: expected rates from 0 to 1, got {list(value)}")


@attrs.frozen
class MeasuredConfig:
    """Options of the `measured` draft length."""

    max: int = attrs.field(default=8, validator=validators.ge(1))
    """The most tokens to draft."""
    padding: int = attrs.field(default=0, validator=validators.ge(0))
    """Rows that a verify batch may have more than it needs, where more cost less; each takes a
    plane of the snapshot ring."""
    acceptance: tuple[float, ...] = attrs.field(default=(), validator=_rates)
    """Acceptance by position to reckon with, the last one for deeper ones; empty: what was seen
    while measuring."""
    folder: Path | None = None
    """Where measured costs are kept; null: the user's cache."""


class MeasuredLength(DraftLength):
    """Chooses k once, when the pipeline opens.

    Costs come from `outrider calibrate`, or from a quick measurement at start; acceptance from
    the option, or from what the measurement saw.
    """

    Config = MeasuredConfig

    def __init__(self, config: MeasuredConfig, assembly: Assembly) -> None:
        super().__init__(config, assembly)
        self.config: MeasuredConfig = config
        self._decisions: dict[str, Decision] = {}
        self._k = 0

    @property
    def max(self) -> int:
        """The configured maximum."""
        return self.config.max

    @property
    def padding(self) -> int:
        """The configured padding."""
        return self.config.padding

    def open(self, runtime: Runtime) -> None:
        """Learn which drafters there are."""
        self._leaves = leaves(runtime.drafter)
        self._max = runtime.max_draft

    def ready(self, pipeline: Pipeline) -> None:
        """Find measured costs, or measure; then choose."""
        if self._max:
            self.start(calibrated(pipeline, self._max, self.config.folder, self.padding))

    def start(self, table: CostTable) -> None:
        """Choose for these costs."""
        self._table = table
        for drafter in self._leaves:
            bound = self._max if drafter.max_draft is None else min(self._max, drafter.max_draft)
            known = self.config.acceptance or table.acceptance.get(drafter.name) or UNKNOWN
            rates = Given(known).estimate(bound)
            k, rate = best_length(rates, self._costs(drafter.name, bound))
            self._decisions[drafter.name] = Decision(k, rate)
        self._k = max((d.length for d in self._decisions.values()), default=0)

    def choose(self, sequences: ListOf[Sequence]) -> ListOf[int]:
        """The chosen length."""
        return [self._k] * len(sequences)

    def rows(self, needed: int) -> int:
        """The cheapest number of rows."""
        return cheapest(self._table.rows, needed, self.padding)

    def decide(
        self, sequence: Sequence, drafter: str, limit: int, evidence: int = 0
    ) -> Decision | None:
        """The length chosen for this drafter."""
        chosen = self._decisions.get(drafter)
        if chosen is None or chosen.length <= limit:
            return chosen
        known = self.config.acceptance or self._table.acceptance.get(drafter) or UNKNOWN
        cost = self._costs(drafter, limit)[limit]
        return Decision(limit, expected_tokens(Given(known).estimate(limit), limit) / cost)

    def statistics(self) -> dict[str, object]:
        """The chosen length of each drafter."""
        return {"chosen": {name: d.length for name, d in self._decisions.items()}}

    def _costs(self, name: str, bound: int) -> list[float]:
        table, padding = self._table, self.padding
        drafting = table.drafting.get(name, (0.0,))
        rows = [cheapest(table.rows, k + 1, padding) for k in range(bound + 1)]
        return [lookup(table.rows, r - 1) + lookup(drafting, k) for k, r in enumerate(rows)]
