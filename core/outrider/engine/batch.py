"""Rows for one decode call, as NumPy arrays that llama.cpp reads where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outrider.engine.library import ffi
from outrider.errors import EngineError

_SMALL = 32


class LlamaBatch:
    """A `llama_batch` over preallocated arrays; see `outrider.components.Batch`.

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
        self._struct: Any = ffi.new("llama_batch *")
        sequences = ffi.cast("llama_seq_id *", self.sequences.ctypes.data)
        self._sequence_pointers = ffi.new(
            "llama_seq_id *[]", [sequences + i for i in range(capacity)]
        )
        # small writes go through these: on a cold cache a NumPy assignment costs microseconds
        self._c_tokens = ffi.cast("llama_token *", self.tokens.ctypes.data)
        self._c_positions = ffi.cast("llama_pos *", self.positions.ctypes.data)
        self._c_sequences = sequences
        self._c_outputs = ffi.cast("int8_t *", self.outputs.ctypes.data)
        self._width = width
        s = self._struct
        s.token = ffi.cast("llama_token *", self.tokens.ctypes.data) if tokens else ffi.NULL
        s.embd = (
            ffi.cast("float *", self.embeddings.ctypes.data)
            if self.embeddings is not None
            else ffi.NULL
        )
        positions = self.positions if self._axes is None else self._axes
        s.pos = ffi.cast("llama_pos *", positions.ctypes.data)
        s.n_seq_id = ffi.cast("int32_t *", self._ones.ctypes.data)
        s.seq_id = self._sequence_pointers
        s.logits = ffi.cast("int8_t *", self.outputs.ctypes.data)

    def clear(self) -> None:
        """Forget all rows."""
        self.size = 0

    def add(self, token: int, position: int, sequence: int, output: bool = False) -> int:
        """Append one row and return its index."""
        i = self.size
        if i >= self.capacity:
            raise EngineError(f"the batch is full: it holds {self.capacity} rows")
        self._c_tokens[i] = token
        self._c_positions[i] = position
        self._c_sequences[i] = sequence
        self._c_outputs[i] = output
        self.size = i + 1
        return i

    def extend(
        self, tokens: Sequence[int], position: int, sequence: int, output: bool = False
    ) -> int:
        """Append rows at consecutive positions; returns the index of the first."""
        i, n = self.size, len(tokens)
        if i + n > self.capacity:
            raise EngineError(f"{n} more rows do not fit a batch of {self.capacity} ({i} used)")
        self.size = i + n
        if n <= _SMALL:
            c_tokens, c_positions = self._c_tokens, self._c_positions
            c_sequences, c_outputs = self._c_sequences, self._c_outputs
            for j, token in enumerate(tokens, i):
                c_tokens[j] = token
                c_positions[j] = position
                c_sequences[j] = sequence
                c_outputs[j] = output
                position += 1
            return i
        self.tokens[i : i + n] = tokens
        self.positions[i : i + n] = self._iota[:n]
        self.positions[i : i + n] += position
        self.sequences[i : i + n] = sequence
        self.outputs[i : i + n] = output
        return i

    def take_hidden(self, at: int, source: Any, row: int, count: int = 1) -> None:
        """Copy exported `nextn` rows of a context into the embeddings of rows from `at`."""
        width = self._width
        ffi.memmove(self._struct.embd + at * width, source.hidden_pointer(row), 4 * count * width)

    def struct(self) -> Any:
        """The filled `llama_batch`, to be passed by value."""
        n = self.size
        self._struct.n_tokens = n
        if self._axes is not None:
            # text positions: the first three axes advance together, the last stays 0
            for axis in range(3):
                self._axes[axis * n : (axis + 1) * n] = self.positions[:n]
            self._axes[3 * n : 4 * n] = 0
        return self._struct[0]
