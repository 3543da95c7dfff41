"""Measure what steps cost on this machine, with this model and these components."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from collections.abc import Sequence as ListOf
from pathlib import Path
from statistics import median

import attrs
from outrider import (
    Assembly,
    Decoder,
    Draft,
    Drafter,
    DraftLength,
    Pipeline,
    PrefixCache,
    Request,
    Sequence,
    Step,
)

from outrider_lengths.acceptance import Acceptance, Given, outcome
from outrider_lengths.costs import CostTable
from outrider_lengths.leaves import leaves
from outrider_lengths.store import Store, cost_key

_log = logging.getLogger("outrider.lengths")

TEXTS = (
    "def mean(values):\n    total = 0.0\n    for value in values:\n        total += value\n",
    "The river rises in the hills and runs south past the old mill. In spring it ",
    '{"name": "lamp", "price": 12.5, "tags": ["light", "table"]}\n{"name": "chair", ',
)
"""What is continued while drafters are measured."""

_CONTEXT = 256
"""Tokens after which a measured sequence starts anew."""
_REPEATS = 5
"""Measured steps after each change of the number of rows."""


@attrs.frozen
class Effort:
    """How long to measure: rounds over all lengths, until `seconds` are over, two at least."""

    rounds: int
    seconds: float


QUICK = Effort(rounds=6, seconds=1.5)
THOROUGH = Effort(rounds=40, seconds=30.0)

Progress = Callable[[str, float], None]
"""Told what is being measured, and how much of it is done (0 … 1)."""


def calibrated(
    pipeline: Pipeline, max_draft: int, folder: Path | None, padding: int = 0
) -> CostTable:
    """The stored costs of an open pipeline, or those of a quick measurement, which is stored."""
    store, key = Store(folder), cost_key(pipeline)
    table = store.load(key)
    if table is None or len(table.rows) < max_draft + 1 + padding:
        _log.info("no measured costs for this pipeline yet; measuring (outrider calibrate)")
        table = measure(pipeline, max_draft, QUICK, padding=padding)
        store.save(key, table)
    return table


def measure(
    pipeline: Pipeline,
    max_draft: int,
    effort: Effort,
    progress: Progress | None = None,
    padding: int = 0,
) -> CostTable:
    """Measure an open pipeline that no request uses; all slots are empty afterwards.

    Verify batches with up to `max_draft` drafts and `padding` rows more.
    """
    parts = leaves(pipeline.drafter)
    report = progress or (lambda what, done: None)
    rows, change = _rows(pipeline, max_draft + padding, effort, report)
    drafting: dict[str, tuple[float, ...]] = {}
    acceptance: dict[str, tuple[float, ...]] = {}
    for drafter in parts:
        bound = max_draft if drafter.max_draft is None else min(max_draft, drafter.max_draft)
        costs, rates = _drafting(pipeline, drafter, bound, effort, report)
        drafting[drafter.name] = costs
        acceptance[drafter.name] = rates
    return CostTable(rows, drafting, change, acceptance)


def typical(times: ListOf[float]) -> float:
    """The lower quartile: a busy machine only ever adds to a time."""
    return sorted(times)[len(times) // 4]


class _Forced(DraftLength):
    """A length that is told from outside; keeps what the last step was."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.k = 0
        self.draft_us = self.rest_us = 0.0
        self.step: Step | None = None

    @property
    def max(self) -> int:
        return self._most

    def choose(self, sequences: ListOf[Sequence]) -> ListOf[int]:
        return [self.k] * len(sequences)

    def observe(
        self, sequences: ListOf[Sequence], steps: ListOf[Step], draft_us: float, rest_us: float
    ) -> None:
        self.draft_us, self.rest_us, self.step = draft_us, rest_us, steps[0]


class _Filler(Drafter):
    """Fills verify rows with anything."""

    name = "filler"

    def __init__(self) -> None:
        pass

    def propose_one(self, sequence: Sequence, limit: int) -> Draft:
        return Draft([sequence.anchor] * limit)


class _Bench:
    """One sequence at a time, decoded with a forced length."""

    def __init__(self, pipeline: Pipeline, drafter: Drafter, max_draft: int) -> None:
        self._pipeline = pipeline
        self.length = _Forced(max_draft)
        self._decoder = Decoder(
            engine=pipeline.engine,
            drafter=drafter,
            draft_length=self.length,
            verifier=pipeline.verifier,
            sampler=pipeline.sampler,
            rollback=pipeline.rollback,
            cache=PrefixCache(PrefixCache.Config(), Assembly(pipeline, name="none")),
            observers=(),
            max_draft=max_draft,
            max_sequences=1,
        )
        self._prompts = self._texts()
        self._sequence: Sequence | None = None

    def _texts(self) -> Iterator[list[int]]:
        while True:
            for text in TEXTS:
                yield self._pipeline.tokenize(text)

    def step(self, k: int) -> _Forced:
        """One step with k drafts asked for."""
        room = min(_CONTEXT, self._pipeline.engine.target.n_ctx - k - 2)
        sequence = self._sequence
        if sequence is None or sequence.done or len(sequence.tokens) >= room:
            self.close()
            request = Request(prompt=next(self._prompts), ignore_eog=True)
            sequence = self._sequence = self._decoder.start(request)
        self.length.k = k
        self._decoder.step((sequence,))
        return self.length

    def close(self) -> None:
        """Leave the slot empty."""
        if self._sequence is not None:
            self._decoder.abandon(self._sequence)
            self._sequence = None
        self._decoder.states.clear(self._decoder.slots[0])


def _rounds(pipeline: Pipeline, effort: Effort, what: str, report: Progress) -> Iterator[None]:
    start, limit = pipeline.engine.clock_ns(), effort.seconds * 1e9
    for done in range(effort.rounds):
        spent = pipeline.engine.clock_ns() - start
        if done >= 2 and spent > limit:
            break
        report(what, max(done / effort.rounds, min(1.0, spent / limit)))
        yield
    report(what, 1.0)


def _rows(
    pipeline: Pipeline, max_draft: int, effort: Effort, report: Progress
) -> tuple[tuple[float, ...], float]:
    """Cost of a step by verify rows, drafting excluded, and of a change of their number."""
    bench = _Bench(pipeline, _Filler(), max_draft)
    same: list[list[float]] = [[] for _ in range(max_draft + 1)]
    first: list[list[float]] = [[] for _ in range(max_draft + 1)]
    try:
        for _ in _rounds(pipeline, effort, "verify rows", report):
            for k in range(max_draft + 1):
                first[k].append(bench.step(k).rest_us)
                same[k].extend(bench.step(k).rest_us for _ in range(_REPEATS))
    finally:
        bench.close()
    costs = tuple(map(typical, same))
    change = median(typical(f) - c for f, c in zip(first, costs, strict=True))
    return costs, max(0.0, change)


def _drafting(
    pipeline: Pipeline, drafter: Drafter, bound: int, effort: Effort, report: Progress
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Cost of drafting by length, and the acceptance seen on the way."""
    bench = _Bench(pipeline, drafter, bound)
    times: list[list[float]] = [[] for _ in range(bound + 1)]
    seen = Acceptance(Given((0.5,)), weight=2.0, keep=1.0)
    try:
        for _ in _rounds(pipeline, effort, f"drafter {drafter.name}", report):
            for k in range(bound + 1):
                bench.step(k)
                for _ in range(_REPEATS):
                    result = bench.step(k)
                    times[k].append(result.draft_us)
                    step = result.step
                    assert step is not None
                    n = len(step.draft.tokens)
                    if n:
                        seen.observe(*outcome(n, step.accepted, len(step.tokens)))
    finally:
        bench.close()
    if drafter.cheap:
        # what it costs depends on whether it finds something, not on how much is asked for
        costs = (typical([t for ts in times for t in ts]),) * (bound + 1)
    else:
        costs = tuple(map(typical, times))
    return costs, tuple(seen.estimate(seen.tried))
