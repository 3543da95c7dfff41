"""Find the attention rows in a serialised sequence state.

`llama_context::state_seq_get_data` (src/llama-context.cpp) and `llama_kv_cache::state_write`
(src/llama-kv-cache.cpp) write, all little endian:

    magic u32, seq_id i32, n_stream u32; for each stream: cell_count u32, and if there are cells
        for each cell:  position i32, n_seq_id u32 (1), [x i32, y i32, token i32], seq_id i32
        v_trans u32, n_layer u32
        for each layer: type i32, row_size u64, cell_count rows of keys
        for each layer: type i32, row_size u64, cell_count rows of values
        or, transposed: type i32, item_size u32, n_embd u32, n_embd × cell_count items

The bracketed part exists for models with several positions a token (M-RoPE). What follows (the
recurrent state of a hybrid) is not looked at. Anything that does not look exactly like this has
no rows, which is always a safe answer.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outrider.target import Rows

_MOST_STREAMS = 256
_MOST_LAYERS = 4096
_CELL_SIZES = (24, 12)


class _Reader:
    def __init__(self, data: Any) -> None:
        self.view: memoryview[int] = memoryview(data).cast("B")
        self.at = 0

    def take(self, form: str) -> tuple[int, ...]:
        values = struct.unpack_from(form, self.view, self.at)
        self.at += struct.calcsize(form)
        return values

    def rows(self, size: int, count: int) -> Rows:
        found = Rows(self.at, size, count)
        self.skip(size * count)
        return found

    def skip(self, size: int) -> None:
        if size <= 0 or self.at + size > len(self.view):
            raise ValueError
        self.at += size


def token_rows(data: Any) -> tuple[Rows, ...]:
    """Rows of keys and values, of the one stream with cells; empty when there are none."""
    reader = _Reader(data)
    try:
        _, _, streams = reader.take("<IiI")
        if not 1 <= streams <= _MOST_STREAMS:
            return ()
        found: tuple[Rows, ...] = ()
        for _ in range(streams):
            (cells,) = reader.take("<I")
            if cells:
                if found:
                    return ()
                found = _stream(reader, cells)
        return found
    except (ValueError, struct.error):
        return ()


def _stream(reader: _Reader, cells: int) -> tuple[Rows, ...]:
    reader.skip(_cell_size(reader, cells) * cells)
    transposed, layers = reader.take("<II")
    if transposed > 1 or not 1 <= layers <= _MOST_LAYERS:
        raise ValueError
    found = [_rows(reader, cells) for _ in range(layers)]
    for _ in range(layers):
        if not transposed:
            found.append(_rows(reader, cells))
            continue
        _, item, width = reader.take("<iII")
        found.extend(reader.rows(item, cells) for _ in range(width))
    return tuple(found)


def _rows(reader: _Reader, cells: int) -> Rows:
    _, size = reader.take("<iQ")
    return reader.rows(size, cells)


def _cell_size(reader: _Reader, cells: int) -> int:
    """The size with which the cells are tokens 0, 1, 2, … of a single sequence each."""
    for size in _CELL_SIZES:
        end = reader.at + size * cells
        if end > len(reader.view):
            continue
        words: NDArray[np.uint32] = np.frombuffer(reader.view[reader.at : end], np.uint32)
        positions, owners = words[:: size // 4], words[1 :: size // 4]
        if (owners == 1).all() and (positions == np.arange(cells)).all():
            return size
    raise ValueError
