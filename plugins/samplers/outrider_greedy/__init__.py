"""The `greedy` sampler: always the most likely token."""

from __future__ import annotations

from collections.abc import Sequence as ListOf

import numpy as np
from numpy.typing import NDArray
from outrider import Accepted, Draft, Runtime, Sampler, Sequence, hookimpl


def legal_argmax(logits: NDArray[np.float32], mask: NDArray[np.uint32]) -> int:
    """The most likely token [n_vocab] among those whose bit is set in `mask`."""
    legal = np.unpackbits(mask.view(np.uint8), bitorder="little")[: len(logits)].view(np.bool_)
    return int(np.argmax(np.where(legal, logits, np.float32(-np.inf))))


class GreedySampler(Sampler):
    """Accepts drafts while they are the most likely token.

    Reads one token id a row from the device; only sequences with a constraint read logits,
    and only where the most likely token is not allowed.
    """

    greedy = True

    def open(self, runtime: Runtime) -> None:
        """Remember the target."""
        self._target = runtime.engine.target

    def accept(
        self, sequences: ListOf[Sequence], drafts: ListOf[Draft], rows: ListOf[int]
    ) -> ListOf[Accepted]:
        """The longest prefix of most likely tokens, and the next one."""
        argmax = self._target.argmax
        answers: list[Accepted] = []
        for sequence, draft, row in zip(sequences, drafts, rows, strict=True):
            if sequence.request.constraint is not None:
                answers.append(self._accept_constrained(sequence, draft, row))
                continue
            count = 0
            token = argmax(row)
            for drafted in draft.tokens:
                if drafted != token:
                    break
                count += 1
                token = argmax(row + count)
            answers.append(Accepted(count, token))
        return answers

    def _accept_constrained(self, sequence: Sequence, draft: Draft, row: int) -> Accepted:
        constraint = sequence.request.constraint
        assert constraint is not None
        prefix: list[int] = []
        while True:
            token = self._target.argmax(row + len(prefix))
            if not constraint.allows(prefix, token):
                mask = constraint.mask(prefix)
                assert mask is not None, "a constraint that refuses a token must have a mask"
                token = legal_argmax(self._target.logits(row + len(prefix)), mask)
            if len(prefix) == len(draft.tokens) or draft.tokens[len(prefix)] != token:
                return Accepted(len(prefix), token)
            prefix.append(token)


@hookimpl
def outrider_samplers():
    """Offer `greedy`."""
    return {"greedy": GreedySampler}
