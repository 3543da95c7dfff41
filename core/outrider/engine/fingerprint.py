"""Identify a model file without reading all of a large one."""

from __future__ import annotations

import hashlib
from pathlib import Path

_WHOLE = 64 << 20
_BLOCK = 64 << 10
_SAMPLES = 256


def file_fingerprint(path: Path) -> str:
    """A digest of the file's size and content.

    Files up to 64 MiB are hashed whole; of larger ones the first and last MiB and 256 blocks
    of 64 KiB spread evenly, which finds another model, another quantisation and a fine-tune.
    """
    size = path.stat().st_size
    digest = hashlib.blake2b(str(size).encode(), digest_size=16)
    with path.open("rb") as file:
        if size <= _WHOLE:
            while block := file.read(1 << 20):
                digest.update(block)
        else:
            digest.update(file.read(1 << 20))
            for i in range(1, _SAMPLES + 1):
                file.seek(i * (size - _BLOCK) // (_SAMPLES + 1))
                digest.update(file.read(_BLOCK))
            file.seek(-(1 << 20), 2)
            digest.update(file.read())
    return digest.hexdigest()
