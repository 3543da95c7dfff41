"""A multi-token-prediction head for the toy model, as right as it is told to be."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from outrider.errors import EngineError
from outrider.target import Batch
from outrider.testing.context import WIDTH, Row, ScriptedBatch, ScriptedContext, unpack
from outrider.testing.toy import EMPTY, WINDOW, State, ToyModel

_ENOUGH = 4
"""Rows before a chain that must be true for the head to know anything."""


@attrs.frozen
class _Cell:
    """One position of the head's cache: its token, the state after it, and how far to trust it.

    `sound` counts the cells up to this one that in a row were computed from true hidden rows.
    """

    token: int
    state: State
    sound: int


class HeadContext(ScriptedContext):
    """The input at position p is the token there and the target's hidden row of p - 1.

    Draft i of a chain is what the target will say with probability `acceptance[i]` (the last
    value for longer chains), as long as the cache holds true hidden rows for the last positions
    before the chain. After a row that was guessed, or of another position, it is always wrong:
    so a drafter that feeds the wrong row shows as a collapse of its acceptance.
    """

    def __init__(
        self,
        model: ToyModel,
        acceptance: Sequence[float],
        *,
        n_ctx: int,
        n_batch: int,
        max_sequences: int,
        spend: Callable[[int], int],
    ) -> None:
        super().__init__(model, "the scripted head", n_ctx, n_batch, spend)
        self.acceptance = acceptance
        self.batch: Batch = ScriptedBatch(n_batch, WIDTH)
        self._cells: list[list[_Cell]] = [[] for _ in range(max_sequences)]

    def decode(self) -> None:
        """Decode the rows of `batch`."""
        batch = self.batch
        assert batch.embeddings is not None
        self.rows = []
        for i in range(batch.size):
            cells = self._cells[int(batch.sequences[i])]
            position = int(batch.positions[i])
            if position != len(cells):
                raise EngineError(
                    f"{self.what}: sequence {batch.sequences[i]} holds {len(cells)} tokens, but "
                    f"a row at position {position} was given"
                )
            before, guesses = unpack(batch.embeddings[i])
            token = int(batch.tokens[i])
            state = self.model.fold(before, token)
            follows = before == (cells[-1].state if cells else EMPTY)
            true = follows and guesses == 0
            base = position - max(guesses, 1)
            run = cells[base].sound if 0 <= base < position else 0
            trusted = follows and run >= min(base + 1, _ENOUGH)
            cells.append(_Cell(token, state, (cells[-1].sound if cells else 0) + 1 if true else 0))
            seen = tuple(c.token for c in cells[-WINDOW:])
            self.rows.append(Row(state, seen, bool(batch.outputs[i]), guesses + 1, trusted))
        self._count(batch.size)

    def argmax(self, row: int) -> int:
        """The head's guess after an output row."""
        found = self._output(row)
        if not self.acceptance or not found.sound:
            return self.model.guess(found.state, found.tokens, 0.0)
        depth = min(found.guesses, len(self.acceptance)) - 1
        return self.model.guess(found.state, found.tokens, self.acceptance[depth])

    def logits(self, row: int) -> NDArray[np.float32]:
        """The target's logits, with that of its most likely token given to `argmax`."""
        found = self._output(row)
        logits = self.model.logits(found.state, found.tokens)
        token = self.model.next(found.state, found.tokens)
        guess = self.argmax(row)
        logits[[token, guess]] = logits[[guess, token]]
        return logits

    def length(self, sequence: int) -> int:
        """Tokens of a sequence in the cache."""
        return len(self._cells[sequence])

    def truncate(self, sequence: int, length: int) -> bool:
        """Remove positions ≥ `length`."""
        del self._cells[sequence][max(0, length) :]
        return True

    def copy(self, source: int, destination: int) -> None:
        """Make `destination` hold what `source` holds."""
        self._cells[destination] = list(self._cells[source])

    def clear(self, sequence: int | None = None) -> None:
        """Empty one sequence, or everything."""
        for cells in self._cells if sequence is None else [self._cells[sequence]]:
            cells.clear()

    def save(self, sequence: int, *, partial: bool = False, device: bool = False) -> bytes:
        """Serialised cache of a sequence."""
        cells = self._cells[sequence]
        return json.dumps(
            [[c.token, c.state.folded, c.state.since_go, c.sound] for c in cells]
        ).encode()

    def load(
        self, sequence: int, data: Any, *, partial: bool = False, device: bool = False
    ) -> None:
        """Restore what `save` returned."""
        try:
            self._cells[sequence] = [
                _Cell(int(token), State(int(folded), int(since)), int(sound))
                for token, folded, since, sound in json.loads(bytes(data))
            ]
        except (ValueError, TypeError) as error:
            self.clear(sequence)
            raise EngineError(f"{self.what}: not a saved state: {error}") from None
