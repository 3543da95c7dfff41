"""The `cascade` drafter (the best proposal wins) and `none` (plain decoding)."""

from __future__ import annotations

import logging
from collections.abc import Sequence as ListOf

import attrs
from attrs import validators
from outrider import (
    NO_DRAFT,
    Assembly,
    Draft,
    Drafter,
    DrafterSpec,
    EngineError,
    ModelInfo,
    Needs,
    Pipeline,
    Rows,
    Runtime,
    Sequence,
    Slot,
    Step,
    hookimpl,
)

log = logging.getLogger("outrider.cascade")


class NoDrafter(Drafter):
    """Never proposes anything: plain decoding."""

    max_draft = 0

    def propose(self, sequences: ListOf[Sequence], limits: ListOf[int]) -> ListOf[Draft]:
        """No drafts."""
        return [NO_DRAFT] * len(sequences)


@attrs.frozen
class CascadeConfig:
    """Options of the `cascade` drafter."""

    of: tuple[DrafterSpec, ...] = attrs.field(validator=validators.min_len(1))
    """Drafters, asked in this order."""
    skip_unsupported: bool = False
    """Do without the drafters that cannot serve the model, instead of refusing it."""


@attrs.define
class _Best:
    """The best use of a step found so far for one sequence."""

    draft: Draft = NO_DRAFT
    drafter: Drafter | None = None
    """Who is to draft, when nothing is drafted yet."""
    length: int = 0
    rate: float = 0.0
    settled: bool = False
    """Nothing is compared: this is what is taken."""


def _named(draft: Draft, drafter: Drafter) -> Draft:
    return draft if draft.source else attrs.evolve(draft, source=drafter.name)


def _at_most(drafter: Drafter, limit: int) -> int:
    return limit if drafter.max_draft is None else min(limit, drafter.max_draft)


class CascadeDrafter(Drafter):
    """For each sequence, the proposal that is expected to bring most; else the first one.

    Which drafter is used, and how much of its proposal, is decided by the draft length, which
    knows costs and acceptance (`DraftLength.decide`): cheap drafters are compared by what they
    propose, dearer ones by what they promise, and only the best of those is asked. With a draft
    length that does not compare, the first proposal is taken. Every drafter follows the target,
    whether or not its proposals are taken.
    """

    Config = CascadeConfig

    def __init__(self, config: CascadeConfig, assembly: Assembly) -> None:
        super().__init__(config, assembly)
        self.config: CascadeConfig = config
        self._take([assembly.drafter(spec) for spec in config.of])

    def _take(self, drafters: list[Drafter]) -> None:
        self.drafters = self.parts = drafters
        bounds = [d.max_draft for d in drafters]
        self.max_draft = None if None in bounds else max(b for b in bounds if b is not None)
        needs = Needs()
        for drafter in drafters:
            needs |= drafter.needs
        self.needs = needs

    def unsupported_reason(self, model: ModelInfo) -> str | None:
        """Every drafter must be able to serve the model, or is left out if that is wanted."""
        able: list[Drafter] = []
        reasons: list[str] = []
        for drafter in self.drafters:
            reason = drafter.unsupported_reason(model)
            if reason is None:
                able.append(drafter)
            else:
                reasons.append(f"{drafter.name}: {reason}")
        if reasons and not (able and self.config.skip_unsupported):
            return reasons[0]
        for reason in reasons:
            log.warning("left out of the cascade: %s", reason)
        self._take(able)
        return None

    def open(self, runtime: Runtime) -> None:
        """Open all drafters."""
        self._draft_length = runtime.draft_length
        for drafter in self.drafters:
            drafter.open(runtime)

    def ready(self, pipeline: Pipeline) -> None:
        """Tell all drafters."""
        for drafter in self.drafters:
            drafter.ready(pipeline)

    def close(self) -> None:
        """Close all drafters."""
        for drafter in self.drafters:
            drafter.close()

    def statistics(self) -> dict[str, object]:
        """What the drafters report, by name."""
        return {d.name: dict(s) for d in self.drafters if (s := d.statistics())}

    def propose(self, sequences: ListOf[Sequence], limits: ListOf[int]) -> ListOf[Draft]:
        """The best proposal for each sequence."""
        best = [_Best() for _ in sequences]
        chosen: list[Drafter] = []
        for drafter in self.drafters:
            asked: list[int] = []
            for b, limit in zip(best, limits, strict=True):
                asked.append(0 if b.settled else _at_most(drafter, limit))
            if not any(asked):
                continue
            if drafter.cheap:
                self._look(drafter, sequences, asked, best)
            elif self._plan(drafter, sequences, asked, best):
                chosen.append(drafter)
        for drafter in chosen:
            lengths = [b.length if b.drafter is drafter else 0 for b in best]
            if not any(lengths):
                continue
            for b, draft in zip(best, drafter.propose(sequences, lengths), strict=True):
                if draft.tokens:
                    b.draft = _named(draft, drafter)
        return [b.draft for b in best]

    def _look(
        self,
        drafter: Drafter,
        sequences: ListOf[Sequence],
        asked: ListOf[int],
        best: ListOf[_Best],
    ) -> None:
        """Take a cheap drafter's proposals where they are the best so far."""
        proposals = drafter.propose(sequences, asked)
        for sequence, draft, b in zip(sequences, proposals, best, strict=True):
            n = len(draft.tokens)
            if not n:
                continue
            decision = self._draft_length.decide(sequence, drafter.name, n, draft.evidence)
            if decision is None:
                b.draft, b.settled = _named(draft, drafter), True
            elif decision.length and decision.rate > b.rate:
                b.draft, b.rate = _named(draft.cut(decision.length), drafter), decision.rate
                b.drafter = None

    def _plan(
        self,
        drafter: Drafter,
        sequences: ListOf[Sequence],
        asked: ListOf[int],
        best: ListOf[_Best],
    ) -> bool:
        """Choose a dearer drafter where it promises more than what there is; whether anywhere."""
        now = [0] * len(asked)
        chosen = False
        for i, (sequence, limit, b) in enumerate(zip(sequences, asked, best, strict=True)):
            if not limit:
                continue
            decision = self._draft_length.decide(sequence, drafter.name, limit)
            if decision is None:
                now[i] = limit
            elif decision.length and decision.rate > b.rate:
                b.drafter, b.length, b.rate = drafter, decision.length, decision.rate
                chosen = True
        if any(now):
            for b, draft in zip(best, drafter.propose(sequences, now), strict=True):
                if draft.tokens:
                    b.draft, b.settled = _named(draft, drafter), True
        return chosen

    def begin(self, sequence: Sequence) -> None:
        """Tell all drafters."""
        for drafter in self.drafters:
            drafter.begin(sequence)

    def observe(self, sequence: Sequence, row: int, count: int) -> None:
        """Tell all drafters."""
        for drafter in self.drafters:
            drafter.observe(sequence, row, count)

    def meanwhile(self, sequences: ListOf[Sequence], drafts: ListOf[Draft]) -> None:
        """Tell all drafters."""
        for drafter in self.drafters:
            drafter.meanwhile(sequences, drafts)

    def commit(self, sequences: ListOf[Sequence], steps: ListOf[Step]) -> None:
        """Tell all drafters."""
        for drafter in self.drafters:
            drafter.commit(sequences, steps)

    def end(self, sequence: Sequence) -> None:
        """Tell all drafters."""
        for drafter in self.drafters:
            drafter.end(sequence)

    def rewind(self, slot: Slot, length: int) -> None:
        """Cut all drafters' memories."""
        for drafter in self.drafters:
            drafter.rewind(slot, length)

    def clear(self, slot: Slot) -> None:
        """Empty all drafters' memories."""
        for drafter in self.drafters:
            drafter.clear(slot)

    def fingerprint(self) -> str:
        """All drafters' fingerprints, in order."""
        return "+".join(d.fingerprint() for d in self.drafters)

    def snapshot(self, slot: Slot) -> bytes:
        """All drafters' states, each with its length."""
        parts = [drafter.snapshot(slot) for drafter in self.drafters]
        return b"".join(len(p).to_bytes(8, "little") + p for p in parts)

    def token_rows(self, data: bytes) -> ListOf[Rows]:
        """The rows of all drafters' states."""
        found: list[Rows] = []
        at = 0
        for drafter in self.drafters:
            start = at + 8
            at = start + int.from_bytes(data[at:start], "little")
            found += [
                attrs.evolve(rows, offset=start + rows.offset)
                for rows in drafter.token_rows(data[start:at])
            ]
        return found

    def restore(self, slot: Slot, data: bytes) -> None:
        """Load what `snapshot` returned."""
        view = memoryview(data)
        for drafter in self.drafters:
            size = int.from_bytes(view[:8], "little")
            if len(view) < 8 + size:
                raise EngineError("the saved cascade state is too short")
            drafter.restore(slot, bytes(view[8 : 8 + size]))
            view = view[8 + size :]


@hookimpl
def outrider_drafters():
    """Offer `cascade` and `none`."""
    return {"cascade": CascadeDrafter, "none": NoDrafter}
