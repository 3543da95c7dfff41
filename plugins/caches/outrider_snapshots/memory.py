"""The tier in RAM: packed snapshots that share blocks, within a byte budget."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

import attrs
from outrider import Snapshot

from outrider_snapshots.packing import Bytes, Key, Packed, unpack


@attrs.define
class _Block:
    data: Bytes
    users: int = 0


class MemoryTier:
    """Keeps the most recently used snapshots. Safe to use from several threads."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.size = 0
        """Bytes in use; shared blocks count once."""
        self.shared = 0
        """Bytes that sharing saves now."""
        self._snapshots: OrderedDict[Key, Packed] = OrderedDict()
        self._blocks: dict[str, _Block] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._snapshots)

    def __contains__(self, key: Key) -> bool:
        return key in self._snapshots

    def names(self) -> list[Key]:
        """The names of what is kept."""
        with self._lock:
            return list(self._snapshots)

    def packed(self) -> list[Packed]:
        """What is kept."""
        with self._lock:
            return list(self._snapshots.values())

    def add(self, key: Key, packed: Packed, blocks: dict[str, Bytes]) -> list[Key]:
        """Keep a snapshot; returns what had to go for it: `key` itself if it is too big."""
        with self._lock:
            if key in self._snapshots:
                self._snapshots.move_to_end(key)
                return []
            self._take(key, packed, blocks)
            dropped: list[Key] = []
            while self.size > self.budget:
                oldest, _ = next(iter(self._snapshots.items()))
                if oldest == key:
                    break
                self._drop(oldest)
                dropped.append(oldest)
            if self.size > self.budget:
                self._drop(key)
                dropped.append(key)
            return dropped

    def get(self, key: Key) -> Snapshot | None:
        """The snapshot, which is now the most recently used one; None when it is gone."""
        with self._lock:
            packed = self._snapshots.get(key)
            if packed is None:
                return None
            self._snapshots.move_to_end(key)
            blocks = {name: self._blocks[name].data for name in packed.blocks}
        return unpack(packed, blocks.__getitem__, verify=False)

    def discard(self, key: Key) -> None:
        """Give a snapshot up."""
        with self._lock:
            if key in self._snapshots:
                self._drop(key)

    def clear(self) -> None:
        """Give everything up."""
        with self._lock:
            for key in list(self._snapshots):
                self._drop(key)

    def _take(self, key: Key, packed: Packed, blocks: dict[str, Bytes]) -> None:
        self._snapshots[key] = packed
        self.size += packed.own_size
        for name in packed.blocks:
            block = self._blocks.get(name)
            if block is None:
                block = self._blocks[name] = _Block(blocks[name])
                self.size += len(block.data)
            else:
                self.shared += len(block.data)
            block.users += 1

    def _drop(self, key: Key) -> None:
        packed = self._snapshots.pop(key)
        self.size -= packed.own_size
        for name in packed.blocks:
            block = self._blocks[name]
            block.users -= 1
            if block.users:
                self.shared -= len(block.data)
            else:
                self.size -= len(block.data)
                del self._blocks[name]
