"""The file of one snapshot: everything but its blocks, which are files of their own.

Little endian, in this order::

    magic       8 bytes    b"OUTRIDER"
    version     u32        FORMAT
    header      u32        bytes of the header
    total       u64        bytes of the file
    header      JSON       fingerprint, creation time, place, sizes, where the rows are, blocks
    tokens      int32 each
    own bytes   of the target's state, then of the drafter's
    checksum    16 bytes   XXH3-128 of all bytes before it

A block's file holds the block's bytes and is named by their digest.
"""

from __future__ import annotations

import json
import re
import struct
from typing import IO, Any

import attrs
import numpy as np
import xxhash
from outrider import Rows

from outrider_snapshots.packing import Packed, Part
from outrider_snapshots.reasons import Miss, UnusableError

FORMAT = 1
MAGIC = b"OUTRIDER"
_START = struct.Struct("<8sIIQ")
_CHECKSUM = 16


@attrs.frozen(eq=False)
class Stored:
    """What a snapshot's file says."""

    packed: Packed
    created: float
    """Seconds since 1970."""
    place: str
    """Why it was taken there: `history`, `turn`, `every`, `tail` or `evicted`."""


def encode(stored: Stored) -> list[Any]:
    """The file's bytes, as buffers to be written one after the other."""
    packed = stored.packed
    header = json.dumps(
        {
            "fingerprint": packed.fingerprint,
            "created": stored.created,
            "place": stored.place,
            "tokens": len(packed.tokens),
            "parts": [
                {
                    "size": part.size,
                    "digest": part.digest,
                    "rows": [attrs.astuple(r) for r in part.rows],
                    "blocks": part.blocks,
                    "own": len(part.own),
                }
                for part in packed.parts
            ],
        },
        separators=(",", ":"),
    ).encode()
    body = (header, packed.tokens, *(p.own for p in packed.parts))
    total = _START.size + sum(memoryview(b).nbytes for b in body) + _CHECKSUM
    content = [_START.pack(MAGIC, FORMAT, len(header), total), *body]
    checksum = xxhash.xxh3_128()
    for piece in content:
        checksum.update(piece)
    return [*content, checksum.digest()]


def decode(data: bytes) -> Stored:
    """What the bytes of a file say. Raises UnusableError for anything that is not exactly right."""
    header_size = _check(data)
    end = _START.size + header_size
    try:
        header: dict[str, Any] = json.loads(data[_START.size : end])
        at = end + 4 * header["tokens"]
        tokens = np.frombuffer(data[end:at], "<i4")
        parts: list[Part] = []
        for entry in header["parts"]:
            own = np.frombuffer(data, np.uint8, entry["own"], at)
            at += entry["own"]
            rows = tuple(Rows(*r) for r in entry["rows"])
            blocks = tuple(map(_block_name, entry["blocks"]))
            parts.append(Part(entry["size"], entry["digest"], rows, blocks, own))
        target, drafter = parts
        packed = Packed(tokens, header["fingerprint"], (target, drafter))
        stored = Stored(packed, header["created"], header["place"])
    except (KeyError, TypeError, ValueError) as error:
        raise UnusableError(Miss.CORRUPT, f"its header makes no sense ({error!r})") from None
    if at != len(data) - _CHECKSUM:
        raise UnusableError(Miss.CORRUPT, "its sizes do not add up")
    return stored


@attrs.frozen
class Summary:
    """What the header of a file says; not checked against the checksum."""

    created: float
    place: str
    state_bytes: int
    blocks: tuple[str, ...]


def read_summary(file: IO[bytes]) -> Summary:
    """The header of an open file. Raises UnusableError."""
    try:
        magic, version, header_size, _ = _START.unpack(file.read(_START.size))
        if magic != MAGIC or version != FORMAT:
            raise UnusableError(Miss.VERSION, "it has another format")
        header: dict[str, Any] = json.loads(file.read(header_size))
        parts = header["parts"]
        names = tuple(_block_name(name) for part in parts for name in part["blocks"])
        size = sum(part["size"] for part in parts) + 4 * header["tokens"]
        return Summary(header["created"], header["place"], size, names)
    except (struct.error, KeyError, TypeError, ValueError) as error:
        raise UnusableError(Miss.CORRUPT, f"its header makes no sense ({error!r})") from None


def _block_name(name: str) -> str:
    """A digest and nothing else: it becomes part of a path."""
    if not re.fullmatch("[0-9a-f]{32}", name):
        raise ValueError(name)
    return name


def _check(data: bytes) -> int:
    """Magic, version, length and checksum; returns the header's size."""
    if len(data) < _START.size + _CHECKSUM:
        raise UnusableError(Miss.CORRUPT, f"it is cut off after {len(data)} bytes")
    magic, version, header_size, total = _START.unpack_from(data)
    if magic != MAGIC:
        raise UnusableError(Miss.CORRUPT, "it does not begin like a snapshot")
    if version != FORMAT:
        raise UnusableError(Miss.VERSION, f"its format is {version}, not {FORMAT}")
    if total != len(data):
        raise UnusableError(Miss.CORRUPT, f"it has {len(data)} bytes, not {total}")
    view = memoryview(data)
    if xxhash.xxh3_128_digest(view[:-_CHECKSUM]) != bytes(view[-_CHECKSUM:]):
        raise UnusableError(Miss.CORRUPT, "its checksum is wrong")
    return header_size
