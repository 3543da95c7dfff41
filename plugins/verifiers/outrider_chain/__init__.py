"""The `chain` verifier: anchor and drafts as one chain of rows a sequence, one target call."""

from __future__ import annotations

from collections.abc import Sequence as ListOf

from outrider import Draft, Runtime, Sequence, Verifier, hookimpl


class ChainVerifier(Verifier):
    """Decodes [anchor, d1 … dk] of every sequence in one batch, with logits on every row."""

    def open(self, runtime: Runtime) -> None:
        """Remember the target."""
        self._target = runtime.engine.target

    def verify(self, sequences: ListOf[Sequence], drafts: ListOf[Draft]) -> ListOf[int]:
        """One target call; returns the batch row of each anchor."""
        batch = self._target.batch
        batch.clear()
        rows: list[int] = []
        for sequence, draft in zip(sequences, drafts, strict=True):
            slot = sequence.slot
            rows.append(
                batch.extend((sequence.tokens[-1], *draft.tokens), slot.length, slot.id, True)
            )
        if self._target.ahead:
            # the decoder waits for it
            self._target.submit()
        else:
            self._target.decode()
        return rows


@hookimpl
def outrider_verifiers():
    """Offer `chain`."""
    return {"chain": ChainVerifier}
