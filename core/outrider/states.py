"""Composite state: what must be saved, restored, cut and emptied together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from outrider.components import Drafter, StateRollback
from outrider.errors import EngineError, OutriderError, PluginError
from outrider.target import Engine, Rows

if TYPE_CHECKING:
    from outrider.sequence import Slot


@attrs.frozen(eq=False)
class Snapshot:
    """The state of one slot between steps: all of it, or it is worth nothing.

    `tokens` are in the target's memory; `target` is the engine's serialised sequence state,
    `drafter` whatever the pipeline's drafter needs to continue exactly; `fingerprint` names
    everything both depend on. `target_rows` and `drafter_rows` say where they keep one row a
    token: snapshots of one conversation can share those bytes.
    """

    tokens: tuple[int, ...]
    target: bytes | bytearray | memoryview
    drafter: bytes | bytearray | memoryview
    fingerprint: str
    target_rows: tuple[Rows, ...] = ()
    drafter_rows: tuple[Rows, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of state."""
        return len(self.target) + len(self.drafter) + 4 * len(self.tokens)


class States:
    """Saves, restores, rewinds and clears slots: the target and its drafter in one move."""

    def __init__(self, engine: Engine, drafter: Drafter, rollback: StateRollback) -> None:
        self._engine = engine
        self._drafter = drafter
        self._rollback = rollback

    @property
    def fingerprint(self) -> str:
        """What saved states depend on: the engine's fingerprint and the drafter's name."""
        return f"{self._engine.fingerprint}:{self._drafter.fingerprint()}"

    def tokens(self, slot: Slot) -> list[int]:
        """The tokens in the memory of a slot."""
        if slot.owner is not None:
            return slot.owner.tokens[: slot.length]
        return slot.tokens[: slot.length]

    def snapshot(self, slot: Slot) -> Snapshot:
        """Save a slot. Only between steps, when its memory ends before the anchor."""
        target, drafter = self._engine.target.save(slot.id), self._drafter.snapshot(slot)
        if not isinstance(drafter, (bytes, bytearray, memoryview)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise PluginError(
                f"the drafter {self._drafter.name!r}: `snapshot` returned "
                f"{type(drafter).__name__}; expected bytes"
            )
        return Snapshot(
            tokens=tuple(self.tokens(slot)),
            target=target,
            drafter=drafter,
            fingerprint=self.fingerprint,
            target_rows=tuple(self._engine.target.token_rows(target)),
            drafter_rows=tuple(self._drafter.token_rows(drafter)),
        )

    def restore(self, slot: Slot, snapshot: Snapshot) -> None:
        """Make a slot what it was when `snapshot` was taken.

        Raises EngineError when the snapshot was taken under another model, build or
        parameters, or does not load; the slot is empty then.
        """
        if snapshot.fingerprint != self.fingerprint:
            raise EngineError("the snapshot belongs to another model, build or configuration")
        self.clear(slot)
        try:
            self._engine.target.load(slot.id, snapshot.target)
            if self._engine.target.length(slot.id) != len(snapshot.tokens):
                raise EngineError("the snapshot's state and its token list differ in length")
            self._drafter.restore(slot, bytes(snapshot.drafter))
        except OutriderError:
            self.clear(slot)
            raise
        except Exception as error:
            self.clear(slot)
            raise EngineError(f"the saved drafter state does not load: {error!r}") from error
        slot.tokens = list(snapshot.tokens)
        slot.loaded(len(snapshot.tokens))

    def reach(self, slot: Slot) -> int:
        """How many of a slot's last tokens can be undone exactly right now."""
        return min(self._rollback.reach(slot), slot.length)

    def rewind(self, slot: Slot, length: int) -> None:
        """Cut a free slot's memory to `length` tokens; the cut must be within `reach`."""
        count = slot.length - length
        if count == 0:
            return
        if length == 0:
            self.clear(slot)
            return
        if not 0 < count <= self.reach(slot):
            raise EngineError(
                f"slot {slot.id} cannot be rewound by {count} tokens: its rollback reaches "
                f"{self.reach(slot)} now"
            )
        self._rollback.rewind_slot(slot, count)
        del slot.tokens[length:]
        self._drafter.rewind(slot, length)

    def clear(self, slot: Slot) -> None:
        """Empty a slot."""
        self._engine.target.clear(slot.id)
        self._drafter.clear(slot)
        slot.tokens = []
        slot.loaded(0)
