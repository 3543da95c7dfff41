"""Take a snapshot apart into blocks that other snapshots share, and put it together again.

A serialised state has rows that belong to one token each (keys and values of the attention
layers: `Rows`) and other bytes (the recurrent state, headers, pending hidden rows). The rows of
every `BLOCK` tokens form a block, named by the digest of its bytes; the other bytes, with the rows
after the last whole block, are the snapshot's own. Two snapshots of one conversation have the same
rows for their common tokens, bit for bit, so those blocks are kept once. Where rows were computed
twice they may differ in the last bit; then the digests differ and nothing is shared.

Where the rows are is the engine's word. If it were wrong, less would be shared: what comes out of
`unpack` is compared with the digest of what went into `pack`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import numpy as np
import xxhash
from numpy.typing import NDArray
from outrider import Rows, Snapshot

from outrider_snapshots.reasons import Miss, UnusableError

BLOCK = 128
"""Tokens whose rows form a block."""

Bytes = NDArray[np.uint8]
"""Bytes in an array: copying and hashing them leaves the interpreter free, unlike `bytes`."""
Key = tuple[int, str]
"""Names a token list: its length and its digest."""


@attrs.frozen(eq=False)
class Part:
    """One serialised state, taken apart; see the module's docstring."""

    size: int
    digest: str
    rows: tuple[Rows, ...]
    blocks: tuple[str, ...]
    own: Bytes


@attrs.frozen(eq=False)
class Packed:
    """A snapshot without the bytes of its blocks."""

    tokens: NDArray[np.int32]
    fingerprint: str
    parts: tuple[Part, Part]
    """The target's state and the drafter's."""

    @property
    def blocks(self) -> tuple[str, ...]:
        """The names of all blocks it needs."""
        return self.parts[0].blocks + self.parts[1].blocks

    @property
    def own_size(self) -> int:
        """Bytes that it shares with nobody."""
        return self.tokens.nbytes + sum(len(p.own) for p in self.parts)

    @property
    def size(self) -> int:
        """Bytes of the states it stands for."""
        return self.tokens.nbytes + sum(p.size for p in self.parts)


def digest(data: Any) -> str:
    """XXH3, 128 bits: finds every accidental change."""
    return xxhash.xxh3_128_hexdigest(data)


def token_array(tokens: Sequence[int]) -> NDArray[np.int32]:
    """Tokens as little-endian int32, as they are hashed and stored."""
    return np.asarray(tokens, "<i4")


def key_of(tokens: NDArray[np.int32]) -> Key:
    """The name of a token list."""
    return len(tokens), digest(tokens)


def prefix_keys(tokens: NDArray[np.int32], lengths: Sequence[int]) -> Iterator[Key]:
    """The names of the prefixes of these lengths (ascending, none longer than `tokens`)."""
    running = xxhash.xxh3_128()
    done = 0
    for length in lengths:
        running.update(tokens[done:length])
        done = length
        yield length, running.hexdigest()


def pack(snapshot: Snapshot) -> tuple[Packed, dict[str, Bytes]]:
    """The snapshot without its blocks, and the blocks by name."""
    blocks: dict[str, Bytes] = {}
    target = _pack_part(snapshot.target, snapshot.target_rows, blocks)
    drafter = _pack_part(snapshot.drafter, snapshot.drafter_rows, blocks)
    tokens = token_array(snapshot.tokens)
    return Packed(tokens, snapshot.fingerprint, (target, drafter)), blocks


def unpack(packed: Packed, block: Callable[[str], Bytes], *, verify: bool) -> Snapshot:
    """The snapshot again. Raises UnusableError when it is not what was packed."""
    target, drafter = (_unpack_part(p, block, verify) for p in packed.parts)
    return Snapshot(tuple(packed.tokens.tolist()), target, drafter, packed.fingerprint)


def _pack_part(data: Any, rows: Sequence[Rows], blocks: dict[str, Bytes]) -> Part:
    whole: Bytes = np.frombuffer(data, np.uint8)
    count = rows[0].count // BLOCK if rows and len({r.count for r in rows}) == 1 else 0
    if not count:
        return Part(len(whole), digest(whole), (), (), whole)
    table = np.concatenate([_blocks_of(whole, r, count) for r in rows], axis=1)
    names: list[str] = []
    for line in table:
        name = digest(line)
        names.append(name)
        if name not in blocks:
            blocks[name] = line.copy()
    own = np.concatenate([whole[a:b] for a, b in _gaps(rows, count, len(whole))])
    return Part(len(whole), digest(whole), tuple(rows), tuple(names), own)


def _unpack_part(part: Part, block: Callable[[str], Bytes], verify: bool) -> Any:
    if not part.blocks:
        return part.own.data
    count = len(part.blocks)
    whole: Bytes = np.empty(part.size, np.uint8)
    at = 0
    for a, b in _gaps(part.rows, count, part.size):
        whole[a:b] = part.own[at : at + b - a]
        at += b - a
    widths = [BLOCK * r.size for r in part.rows]
    for i, name in enumerate(part.blocks):
        line = block(name)
        at = 0
        for r, width in zip(part.rows, widths, strict=True):
            start = r.offset + i * width
            whole[start : start + width] = line[at : at + width]
            at += width
    if verify and digest(whole) != part.digest:
        raise UnusableError(Miss.CORRUPT, "its parts do not make up the state that was saved")
    return whole.data


def _blocks_of(whole: Bytes, rows: Rows, count: int) -> Bytes:
    """The rows of the first `count` blocks, [count, BLOCK × size]."""
    width = BLOCK * rows.size
    return whole[rows.offset : rows.offset + count * width].reshape(count, width)


def _gaps(rows: Sequence[Rows], count: int, size: int) -> Iterator[tuple[int, int]]:
    """What lies outside the blocks, as (from, to)."""
    at = 0
    for r in rows:
        yield at, r.offset
        at = r.offset + count * BLOCK * r.size
    yield at, size
