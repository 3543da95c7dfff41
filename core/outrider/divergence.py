"""Compare two greedy outputs honestly: where they part, and how near a tie it was.

Rows of a batch and single rows round differently, so the most likely of two almost equally
likely tokens can change with the shape of the batch. Such a divergence says nothing about the
decoder; one at a clear gap does.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from outrider.errors import RequestError
from outrider.pipeline import Pipeline

NEAR_TIE = 0.25
"""Logit gap up to which a divergence is put down to rounding. Between batch shapes the logits of
the embedded Q8_0 model differ by up to about 0.1."""


@attrs.frozen
class Divergence:
    """The first place where two outputs differ.

    `gap` is how much higher plain decoding's own logits put `expected` than `found`.
    """

    index: int
    expected: int
    found: int
    gap: float

    @property
    def near_tie(self) -> bool:
        """Whether rounding explains it."""
        return abs(self.gap) <= NEAR_TIE


def first_divergence(
    plain: Pipeline, prompt: Sequence[int], expected: Sequence[int], found: Sequence[int]
) -> Divergence | None:
    """Where `found` leaves `expected`; None when one is a prefix of the other.

    `plain` is an open pipeline of the same model with a free slot; it decodes the common part
    once more, token for token as plain decoding does, to measure the gap.
    """
    for i, (a, b) in enumerate(zip(expected, found, strict=False)):
        if a != b:
            logits = plain_logits(plain, prompt, expected[:i])
            return Divergence(i, a, b, float(logits[a] - logits[b]))
    return None


def plain_logits(
    pipeline: Pipeline, prompt: Sequence[int], output: Sequence[int]
) -> NDArray[np.float32]:
    """Logits [n_vocab] after `prompt` (in prefill batches) and `output` (one row at a time)."""
    decoder, target = pipeline.decoder, pipeline.engine.target
    slot = next((s for s in decoder.slots if s.owner is None), None)
    if slot is None:
        raise RequestError("every slot is busy; measuring a logit gap needs a free one")
    decoder.states.clear(slot)
    target.need_logits(slot.id, True)
    batch, position = target.batch, 0
    chunks = [prompt[i : i + target.n_batch] for i in range(0, len(prompt), target.n_batch)]
    try:
        for rows in (*chunks, *([token] for token in output)):
            batch.clear()
            batch.extend(rows, position, slot.id, last_output=True)
            target.decode()
            position += len(rows)
        return np.array(target.logits(batch.size - 1))
    finally:
        decoder.states.clear(slot)
