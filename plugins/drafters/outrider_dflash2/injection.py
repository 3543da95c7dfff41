"""Target features on their way into a block drafter's cache.

The drafter's cache holds, for every position of the target's memory, keys and values computed
from the target's layer inputs there; no token is ever decoded into it for good. Rows of committed
tokens wait on the host until the next block is drafted, so that stretches of plain decoding cost
one copy a step and one decode now and then.
"""

from __future__ import annotations

from collections.abc import Sequence as ListOf

import numpy as np
from numpy.typing import NDArray
from outrider import Context, RowBuffer


class Waiting:
    """Rows of one slot that are not in the drafter's cache yet, and the last ones that are.

    The first belong to the positions `cached … length - 1`; the cache holds those below `cached`.
    In the buffer lie the rows of `kept` cached positions, and right behind them the others.
    """

    def __init__(self, capacity: int, width: int, keep: int = 0) -> None:
        self.buffer = RowBuffer(capacity + keep, width)
        self.rows: NDArray[np.float32] = self.buffer.array
        self.cached = 0
        self.count = 0
        self.kept = 0
        self._keep = keep

    @property
    def length(self) -> int:
        """Positions that are cached or wait."""
        return self.cached + self.count

    @property
    def waiting(self) -> NDArray[np.float32]:
        """The rows that wait [count, width]."""
        return self.rows[self.kept : self.kept + self.count]

    @property
    def room(self) -> int:
        """Rows that can still wait."""
        return len(self.rows) - self._keep - self.count

    def append(self, count: int) -> int:
        """Make room for `count` rows that wait as well; returns where in the buffer."""
        if self.kept + self.count + count > len(self.rows):
            first = self.kept - min(self.kept, self._keep)
            self.rows[: self.kept + self.count - first] = self.rows[first : self.kept + self.count]
            self.kept -= first
        at = self.kept + self.count
        self.count += count
        return at

    def restart(self, cached: int, rows: NDArray[np.float32]) -> None:
        """The cache holds `cached` positions; `rows` wait."""
        self.cached, self.count, self.kept = cached, len(rows), 0
        self.waiting[:] = rows

    def injected(self) -> None:
        """What waited is cached."""
        self.cached += self.count
        self.kept += self.count
        self.count = 0

    def cut(self, length: int) -> None:
        """Forget positions ≥ `length`."""
        first = self.cached - self.kept
        self.cached = min(self.cached, length)
        self.count = max(0, min(self.count, length - self.cached))
        self.kept = max(0, self.cached - first)


class Injector:
    """Moves target rows into the drafter's cache."""

    def __init__(
        self,
        target: Context,
        drafter: Context,
        layers: ListOf[int],
        slots: int,
        waiting: int,
        keep: int = 0,
    ) -> None:
        self._target = target
        self._context = drafter
        self._layers = list(layers)
        self._width = target.n_embd
        width = len(layers) * self._width
        self._batch = drafter.embedding_batch(width)
        self._no_tokens = [0] * self._batch.capacity
        self.slots = [Waiting(waiting, width, keep) for _ in range(slots)]

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
        state.kept = 0

    def wait(self, slot: int, row: int, count: int) -> None:
        """Keep the target's batch rows from `row` until the next `flush`."""
        state = self.slots[slot]
        if count > state.room:
            self.flush((slot,))
        at = state.append(count)
        self._target.keep_layer_inputs(self._layers, row, count, state.buffer, at)

    def flush(self, slots: ListOf[int], rows: int = 0) -> None:
        """Cache what waits for these slots, all in one decode where it fits.

        With cached rows before it, so that there are at least `rows` of each slot, if they are
        known: decodes of one shape are cheaper where they are computed elsewhere.
        """
        batch = self._batch
        batch.clear()
        for slot in slots:
            state = self.slots[slot]
            if not state.count:
                continue
            again = max(0, min(state.kept, rows - state.count))
            if batch.size + again + state.count > batch.capacity:
                self._context.decode_embeddings(batch)
                batch.clear()
            self._put(slot, again, len(slots) == 1)
            state.injected()
        if batch.size:
            self._context.decode_embeddings(batch)

    def repeat(self, slot: int, rows: int) -> None:
        """Cache the last `rows` cached rows again, if they are known and nothing waits.

        It changes nothing, but the next injection of as many rows finds its graph ready.
        """
        state = self.slots[slot]
        if not state.count and state.kept >= rows:
            self._batch.clear()
            self._put(slot, rows, True)
            self._context.decode_embeddings(self._batch)

    def _put(self, slot: int, again: int, alone: bool) -> None:
        """Add what waits to the batch, and the `again` cached rows before it.

        `alone`: nothing else joins them, so that they need not be copied.
        """
        state = self.slots[slot]
        start, count = state.cached - again, again + state.count
        if again:
            self._context.truncate(slot, start)
        at = self._place(slot, start, count)
        if alone:
            self._batch.borrow_rows(state.buffer, state.kept - again)
        else:
            self._batch.take_rows(at, state.buffer, state.kept - again, count)

    def _place(self, slot: int, position: int, count: int) -> int:
        """Append `count` rows at consecutive positions; their embeddings are the caller's."""
        return self._batch.extend(self._no_tokens[:count], position, slot)

    def _gather(self, out: NDArray[np.float32], row: int) -> None:
        """The layers' inputs side by side, out [count, layers × width]."""
        width = self._width
        for i, layer in enumerate(self._layers):
            out[:, i * width : (i + 1) * width] = self._target.layer_input(layer, row, len(out))
