"""Rows for one decode call, as NumPy arrays that llama.cpp reads where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outrider.engine import _calls
from outrider.errors import EngineError
from outrider.target import RowBuffer

ffi: Any = _calls.ffi
_lib: Any = _calls.lib
_SMALL = 32
"""Rows that are written by one compiled call: on a cold cache each NumPy assignment costs µs."""


class LlamaBatch:
    """A `llama_batch` over preallocated arrays; see `outrider.target.Batch`.

    `width` > 0 adds embedding rows; with `tokens=False` the rows are embeddings only.
    `n_positions` is 4 for embedding rows of models with multi-axis positions, whose layout is
    axis-major (`llama_batch_compat::init` in llama.cpp).
    """

    def __init__(
        self, capacity: int, *, width: int = 0, tokens: bool = True, n_positions: int = 1
    ) -> None:
        self.capacity = capacity
        self.size = 0
        self.tokens: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self.positions: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self.sequences: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self.outputs: NDArray[np.int8] = np.zeros(capacity, np.int8)
        self.embeddings: NDArray[np.float32] | None = (
            np.zeros((capacity, width), np.float32) if width else None
        )
        self._axes: NDArray[np.int32] | None = (
            np.zeros(capacity * n_positions, np.int32) if n_positions > 1 and not tokens else None
        )
        self._ones = np.ones(capacity, np.int32)
        self._iota = np.arange(capacity, dtype=np.int32)
        self._struct: Any = ffi.new("call_batch *")
        sequences = ffi.cast("int32_t *", self.sequences.ctypes.data)
        self._sequence_pointers = ffi.new("int32_t *[]", [sequences + i for i in range(capacity)])
        self._positions = ffi.cast("int32_t *", self.positions.ctypes.data)
        self._width = width
        self._borrowed = False
        self._embeddings = 0 if self.embeddings is None else self.embeddings.ctypes.data
        s = self._struct
        s.token = ffi.cast("int32_t *", self.tokens.ctypes.data) if tokens else ffi.NULL
        s.embd = (
            ffi.cast("float *", self.embeddings.ctypes.data)
            if self.embeddings is not None
            else ffi.NULL
        )
        positions = self.positions if self._axes is None else self._axes
        s.pos = ffi.cast("int32_t *", positions.ctypes.data)
        s.n_seq_id = ffi.cast("int32_t *", self._ones.ctypes.data)
        s.seq_id = self._sequence_pointers
        s.logits = ffi.cast("int8_t *", self.outputs.ctypes.data)

    def clear(self) -> None:
        """Forget all rows."""
        self.size = 0
        if self._borrowed:
            self._struct.embd = ffi.cast("float *", self._embeddings)
            self._borrowed = False

    def add(self, token: int, position: int, sequence: int, output: bool = False) -> int:
        """Append one row and return its index."""
        i = self.size
        if i >= self.capacity:
            raise EngineError(f"the batch is full: it holds {self.capacity} rows")
        _lib.append(
            self._struct, self._positions, i, (token,), 1, position, sequence, output, False
        )
        self.size = i + 1
        return i

    def extend(
        self,
        tokens: Sequence[int],
        position: int,
        sequence: int,
        output: bool = False,
        *,
        last_output: bool = False,
    ) -> int:
        """Append rows at consecutive positions; returns the index of the first."""
        i, n = self.size, len(tokens)
        if i + n > self.capacity:
            raise EngineError(f"{n} more rows do not fit a batch of {self.capacity} ({i} used)")
        self.size = i + n
        if n <= _SMALL:
            if not isinstance(tokens, (list, tuple)):
                tokens = list(tokens)
            where, positions = self._struct, self._positions
            _lib.append(where, positions, i, tokens, n, position, sequence, output, last_output)
            return i
        self.tokens[i : i + n] = tokens
        self.positions[i : i + n] = self._iota[:n]
        self.positions[i : i + n] += position
        self.sequences[i : i + n] = sequence
        self.outputs[i : i + n] = output
        if last_output:
            self.outputs[i + n - 1] = 1
        return i

    def take_rows(self, at: int, rows: RowBuffer, first: int, count: int) -> None:
        """Copy rows of a buffer into the embeddings of rows from `at`."""
        width = self._width
        to = self._embeddings_at(at, count)
        _lib.copy(to, rows.place(first, count, width), 4 * width * count)

    def borrow_rows(self, rows: RowBuffer, first: int) -> None:
        """Let rows of a buffer, from `first` on, be the embeddings of all rows until `clear`."""
        address = rows.place(first, self.size, self._width)
        self._struct.embd = ffi.cast("float *", address)
        self._borrowed = True

    def take_hidden(self, at: int, source: Any, row: int, count: int = 1) -> None:
        """Copy exported `nextn` rows of a context into the embeddings of rows from `at`."""
        to = self._embeddings_at(at, count)
        _lib.copy(to, source.hidden_address(row), 4 * self._width * count)

    def _embeddings_at(self, at: int, count: int) -> int:
        if not 0 <= at <= at + count <= self.size:
            raise EngineError(
                f"embeddings for rows {at} … {at + count - 1} of a batch that has {self.size}"
            )
        return self._embeddings + 4 * self._width * at

    def struct(self) -> Any:
        """The filled `llama_batch` (cffi `call_batch *`)."""
        n = self.size
        self._struct.n_tokens = n
        if self._axes is not None:
            _lib.spread(self._struct, self._positions, n)
        return self._struct
