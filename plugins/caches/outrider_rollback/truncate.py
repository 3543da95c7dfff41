"""Rollback of models without a recurrent state: positions are simply removed."""

from __future__ import annotations

from collections.abc import Sequence as ListOf

from outrider import EngineError, ModelInfo, Runtime, Sequence, Slot, StateRollback


class TruncateRollback(StateRollback):
    """Removes positions from the attention cache; any depth, at any time."""

    cost = 0

    def unsupported_reason(self, model: ModelInfo) -> str | None:
        """A recurrent state cannot be truncated."""
        if not model.recurrent:
            return None
        return (
            f"{model.architecture} has a recurrent state, which cannot be truncated; "
            "use `snapshot-ring`"
        )

    def open(self, runtime: Runtime) -> None:
        """Remember the target."""
        self._target = runtime.engine.target

    def reach(self, slot: Slot) -> int:
        """Everything."""
        return slot.length

    def rewind(self, sequences: ListOf[Sequence], counts: ListOf[int]) -> None:
        """Remove each sequence's last positions."""
        for sequence, count in zip(sequences, counts, strict=True):
            if count:
                self.rewind_slot(sequence.slot, count)

    def rewind_slot(self, slot: Slot, count: int) -> None:
        """Remove one slot's last positions."""
        if not self._target.truncate(slot.id, slot.length - count):
            raise EngineError(f"llama.cpp refused to remove {count} tokens from slot {slot.id}")
        slot.cut(count)
