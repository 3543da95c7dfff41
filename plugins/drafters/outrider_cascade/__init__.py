"""The `cascade` drafter (the first good proposal wins) and `none` (plain decoding)."""

from __future__ import annotations

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
    Rows,
    Runtime,
    Sequence,
    Slot,
    Step,
    hookimpl,
)


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


class CascadeDrafter(Drafter):
    """Asks several drafters in order; for each sequence the first proposal is taken.

    Every drafter follows the target, whether or not its proposals are taken.
    """

    Config = CascadeConfig

    def __init__(self, config: CascadeConfig, assembly: Assembly) -> None:
        super().__init__(config, assembly)
        self.drafters = [assembly.drafter(spec) for spec in config.of]
        bounds = [d.max_draft for d in self.drafters]
        self.max_draft = None if None in bounds else max(b for b in bounds if b is not None)
        needs = Needs()
        for drafter in self.drafters:
            needs |= drafter.needs
        self.needs = needs

    def unsupported_reason(self, model: ModelInfo) -> str | None:
        """Every drafter must be able to serve the model."""
        for drafter in self.drafters:
            reason = drafter.unsupported_reason(model)
            if reason:
                return f"{drafter.name}: {reason}"
        return None

    def open(self, runtime: Runtime) -> None:
        """Open all drafters."""
        for drafter in self.drafters:
            drafter.open(runtime)

    def close(self) -> None:
        """Close all drafters."""
        for drafter in self.drafters:
            drafter.close()

    def statistics(self) -> dict[str, object]:
        """What the drafters report, by name."""
        return {d.name: dict(s) for d in self.drafters if (s := d.statistics())}

    def propose(self, sequences: ListOf[Sequence], limits: ListOf[int]) -> ListOf[Draft]:
        """The first proposal for each sequence."""
        drafts: list[Draft] = [NO_DRAFT] * len(sequences)
        left = list(limits)
        for drafter in self.drafters:
            if not any(left):
                break
            bound = drafter.max_draft
            asked = left if bound is None else [min(n, bound) for n in left]
            for i, draft in enumerate(drafter.propose(sequences, asked)):
                if draft.tokens:
                    drafts[i] = draft if draft.source else attrs.evolve(draft, source=drafter.name)
                    left[i] = 0
        return drafts

    def begin(self, sequence: Sequence) -> None:
        """Tell all drafters."""
        for drafter in self.drafters:
            drafter.begin(sequence)

    def observe(self, sequence: Sequence, row: int, count: int) -> None:
        """Tell all drafters."""
        for drafter in self.drafters:
            drafter.observe(sequence, row, count)

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
