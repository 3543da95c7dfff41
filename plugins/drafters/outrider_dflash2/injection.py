"""Target features on their way into a block drafter's cache.

The drafter's cache holds, for every position of the target's memory, keys and values computed
from the target's layer inputs there; no token is ever decoded into it for good. Rows of committed
tokens wait on the host until the next block is drafted, so that stretches of plain decoding cost
one copy a step and one decode now and then.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as ListOf

import numpy as np
from numpy.typing import NDArray
from outrider import Context, RowBuffer


class Waiting:
    """Rows of one slot that are not in the drafter's cache yet.

    They belong to the positions `cached … length - 1`; the cache holds those below `cached`.
    """

    def __init__(self, capacity: int, width: int) -> None:
        self.buffer = RowBuffer(capacity, width)
        self.rows: NDArray[np.float32] = self.buffer.array
        self.cached = 0
        self.count = 0

    @property
    def length(self) -> int:
        """Positions that are cached or wait."""
        return self.cached + self.count

    @property
    def waiting(self) -> NDArray[np.float32]:
        """The rows that wait [count, width]."""
        return self.rows[: self.count]

    @property
    def room(self) -> int:
        """Rows that can still wait."""
        return len(self.rows) - self.count

    def cut(self, length: int) -> None:
        """Forget positions ≥ `length`."""
        self.cached = min(self.cached, length)
        self.count = max(0, min(self.count, length - self.cached))


class Injector:
    """Moves target rows into the drafter's cache."""

    def __init__(
        self, target: Context, drafter: Context, layers: ListOf[int], slots: int, waiting: int
    ) -> None:
        self._target = target
        self._context = drafter
        self._layers = list(layers)
        self._width = target.n_embd
        width = len(layers) * self._width
        self._batch = drafter.embedding_batch(width)
        self._no_tokens = [0] * self._batch.capacity
        self.slots = [Waiting(waiting, width) for _ in range(slots)]

    def direct(self, slot: int, row: int, count: int) -> None:
        """Cache the target's batch rows from `row` (a prefill), after those that wait."""
        self.flush((slot,))
        state, batch = self.slots[slot], self._batch
        for start in range(0, count, batch.capacity):
            n = min(batch.capacity, count - start)
            batch.clear()
            self._place(slot, state.cached, n)
            self._gather(batch.embeddings[:n], row + start)
            self._context.decode_embeddings(batch)
            state.cached += n

    def wait(self, slot: int, row: int, count: int) -> None:
        """Keep the target's batch rows from `row` until the next `flush`."""
        state = self.slots[slot]
        if count > state.room:
            self.flush((slot,))
        self._target.keep_layer_inputs(self._layers, row, count, state.buffer, state.count)
        state.count += count

    def flush(self, slots: Iterable[int]) -> None:
        """Cache what waits for these slots, all in one decode where it fits."""
        batch = self._batch
        batch.clear()
        for slot in slots:
            state = self.slots[slot]
            if not state.count:
                continue
            if batch.size + state.count > batch.capacity:
                self._context.decode_embeddings(batch)
                batch.clear()
            first = self._place(slot, state.cached, state.count)
            batch.take_rows(first, state.buffer, 0, state.count)
            state.cached += state.count
            state.count = 0
        if batch.size:
            self._context.decode_embeddings(batch)

    def _place(self, slot: int, position: int, count: int) -> int:
        """Append `count` rows at consecutive positions; their embeddings are the caller's."""
        return self._batch.extend(self._no_tokens[:count], position, slot)

    def _gather(self, out: NDArray[np.float32], row: int) -> None:
        """The layers' inputs side by side, out [count, layers × width]."""
        width = self._width
        for i, layer in enumerate(self._layers):
            out[:, i * width : (i + 1) * width] = self._target.layer_input(layer, row, len(out))
