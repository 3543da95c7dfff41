"""Rollback through llama.cpp's recurrent snapshot ring (`n_rs_seq`): an index moves."""

from __future__ import annotations

from collections.abc import Sequence as ListOf

from outrider import Context, EngineError, ModelInfo, Runtime, Sequence, Slot, StateRollback


class SnapshotRing(StateRollback):
    """O(1) rollback of hybrid models.

    The context keeps one recurrent state for each of the last rows of the last decoded batch.
    llama.cpp checks only that a rollback is not deeper than the ring, and restores a stale
    state when the last batch was shorter, was followed by another, was already rolled back, or
    was a load (`llama_memory_recurrent::seq_rm`). `Slot.ring_reach` knows what is exact, and
    nothing deeper is ever asked for.
    """

    cost = 10

    def ring_depth(self, max_draft: int) -> int:
        """One state for each row that can be rejected."""
        return max_draft

    def unsupported_reason(self, model: ModelInfo) -> str | None:
        """Only models with a recurrent state have a ring."""
        if model.recurrent:
            return None
        return f"{model.architecture} has no recurrent state; `kv-truncate` serves it"

    def unsupported_context(self, target: Context) -> str | None:
        """llama.cpp silently gives no ring to architectures that do not support it."""
        if target.ring_depth > 0:
            return None
        return "llama.cpp keeps no snapshot ring for this architecture; `checkpoint` serves it"

    def open(self, runtime: Runtime) -> None:
        """The ring must be as deep as the longest draft, padding included."""
        self._target = runtime.engine.target
        self._depth = self._target.ring_depth
        most = runtime.max_draft + runtime.padding
        if self._depth < most:
            raise EngineError(
                f"the snapshot ring holds {self._depth} states, but up to {most} "
                "drafts can be rejected at once; lower draft_length or use `checkpoint`"
            )

    def reach(self, slot: Slot) -> int:
        """What the ring holds validly; the entire memory can always be emptied."""
        return slot.ring_reach(self._depth)

    def rewind(self, sequences: ListOf[Sequence], counts: ListOf[int]) -> None:
        """Move each sequence's ring index back."""
        for sequence, count in zip(sequences, counts, strict=True):
            if count:
                self.rewind_slot(sequence.slot, count)

    def rewind_slot(self, slot: Slot, count: int) -> None:
        """Move one slot's ring index back."""
        if count > slot.ring_reach(self._depth):
            raise EngineError(
                f"a rollback of {count} tokens was asked of slot {slot.id}, whose ring reaches "
                f"{slot.ring_reach(self._depth)}"
            )
        if not self._target.truncate(slot.id, slot.length - count):
            raise EngineError(
                f"llama.cpp refused to roll slot {slot.id} back from {slot.length} by {count} "
                "tokens"
            )
        slot.cut(count)
