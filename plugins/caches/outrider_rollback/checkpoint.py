"""Rollback by saving the recurrent state before a verify batch and replaying what was kept."""

from __future__ import annotations

from collections.abc import Sequence as ListOf
from typing import Any

import attrs
from outrider import Draft, EngineError, ModelInfo, Runtime, Sequence, Slot, StateRollback


@attrs.frozen
class CheckpointConfig:
    """Options of the `checkpoint` rollback."""

    device: bool | None = None
    """Keep the saved state in device memory; null: where the build can."""


class CheckpointRollback(StateRollback):
    """For recurrent models without a snapshot ring: costs a copy a step and a replay a miss.

    Before each verify batch with a draft the recurrent part of the sequence's state is saved
    (`PARTIAL_ONLY`, on the device where the build can). After a rejection it is restored, the
    attention cache is trimmed, and the kept rows are decoded once more.
    """

    Config = CheckpointConfig
    cost = 50

    def unsupported_reason(self, model: ModelInfo) -> str | None:
        """Pointless for models that can be truncated."""
        if model.recurrent:
            return None
        return f"{model.architecture} has no recurrent state; `kv-truncate` serves it"

    def open(self, runtime: Runtime) -> None:
        """Find out where states can be kept."""
        self._target = runtime.engine.target
        self._saved: dict[int, tuple[int, Any]] = {}
        self._device = self.config.device
        if self._device is None:
            self._device = self._device_works()

    def _device_works(self) -> bool:
        target = self._target
        try:
            target.batch.clear()
            target.batch.add(0, 0, 0)
            target.decode()
            target.load(0, target.save(0, partial=True, device=True), partial=True, device=True)
        except EngineError:
            return False
        finally:
            target.clear(0)
            target.batch.clear()
        return True

    def statistics(self) -> dict[str, object]:
        """Where states are kept."""
        return {"device": self._device}

    def before_verify(self, sequences: ListOf[Sequence], drafts: ListOf[Draft]) -> None:
        """Save the recurrent state of every sequence that has a draft."""
        for sequence, draft in zip(sequences, drafts, strict=True):
            if draft.tokens:
                slot = sequence.slot
                data = self._target.save(slot.id, partial=True, device=self._device)
                self._saved[slot.id] = (slot.length, data)

    def reach(self, slot: Slot) -> int:
        """Nothing outside a step: the checkpoint is used up by then."""
        return 0

    def rewind(self, sequences: ListOf[Sequence], counts: ListOf[int]) -> None:
        """Restore, trim, replay what was kept."""
        for sequence, count in zip(sequences, counts, strict=True):
            if count:
                self._restore(sequence.slot, sequence.tokens, count)

    def _restore(self, slot: Slot, tokens: ListOf[int], count: int) -> None:
        length, data = self._saved.pop(slot.id)
        target = self._target
        target.load(slot.id, data, partial=True, device=self._device)
        if not target.truncate(slot.id, length):
            raise EngineError(f"llama.cpp refused to trim slot {slot.id} to {length} tokens")
        kept = slot.length - count
        slot.loaded(length)
        target.batch.clear()
        target.batch.extend(tokens[length:kept], length, slot.id)
        target.decode()
        slot.decoded(kept - length)
