"""Both tiers and the thread that fills them.

The thread that decodes hands a snapshot over as it came from the engine and goes on. The
background thread takes it apart, puts it into RAM, and writes it to the disk. Until it is in RAM
a snapshot is found, and used, as it came.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, OrderedDict, deque
from contextlib import suppress
from pathlib import Path

import attrs
import numpy as np
from numpy.typing import NDArray
from outrider import Snapshot

from outrider_snapshots.directory import Directory, file_name, short_fingerprint
from outrider_snapshots.format import FORMAT, Stored
from outrider_snapshots.memory import MemoryTier
from outrider_snapshots.packing import Bytes, Key, Packed, key_of, pack, prefix_keys, token_array
from outrider_snapshots.policy import Candidate, common_length
from outrider_snapshots.reasons import Miss, UnusableError

log = logging.getLogger("outrider.cache")

_REMEMBERED = 4096
"""Names of given-up snapshots kept to explain misses."""
_CLOSE_SECONDS = 30.0
EVICTED = "evicted"
"""Where a snapshot was taken: of a live conversation, before its place is given to another."""


@attrs.frozen(eq=False)
class _Write:
    key: Key
    packed: Packed
    blocks: dict[str, Bytes]
    place: str

    @property
    def size(self) -> int:
        return self.packed.own_size + sum(map(len, self.blocks.values()))


class Store:
    """Snapshots of one fingerprint in RAM and, if there is a directory, on the disk."""

    def __init__(self, ram: int, disk: Path | None, limit: int, fingerprint: str) -> None:
        self.memory = MemoryTier(ram)
        self.fingerprint = fingerprint
        self.limit = limit
        self.directory: Directory | None = None
        self.writable = False
        self.disk_bytes = 0
        """Bytes in the directory when this process last looked."""
        self.counts: Counter[str] = Counter()
        self._short = short_fingerprint(fingerprint)
        self._pending: OrderedDict[Key, tuple[Snapshot, str]] = OrderedDict()
        self._writes: deque[_Write] = deque()
        self._touches: deque[str] = deque()
        self._writing_bytes = 0
        self._given_up: OrderedDict[Key, None] = OrderedDict()
        self._logged: set[str] = set()
        self._listed: tuple[int, float] = (0, 0.0)
        self._on_disk: set[Key] = set()
        self._others: dict[Key, Miss] = {}
        self._changed = threading.Condition()
        self._busy = self._closing = False
        if disk is not None:
            self._open(disk)
        self._thread = threading.Thread(target=self._work, name="outrider-cache", daemon=True)
        self._thread.start()

    def _open(self, path: Path) -> None:
        directory = Directory(path)
        try:
            directory.create()
            self.writable = True
        except OSError as error:
            self._turn_off(error, path)
        if directory.blocks.is_dir():
            self.directory = directory

    # --- for the thread that decodes ----------------------------------------------------------

    def put(self, snapshot: Snapshot, place: str) -> None:
        """Keep a snapshot; it is found from now on.

        Where too much waits for the background thread already it is left out, unless it is the
        last of a conversation (`EVICTED`): for those the thread is waited for.
        """
        key = key_of(token_array(snapshot.tokens))

        def fits() -> bool:
            waiting = sum(s.size for s, _ in self._pending.values())
            return not waiting or waiting + snapshot.size <= self.memory.budget

        with self._changed:
            if not (fits() or (place == EVICTED and self._changed.wait_for(fits, _CLOSE_SECONDS))):
                self.counts["skipped"] += 1
                return
            self._given_up.pop(key, None)
            self._pending[key] = (snapshot, place)
            self.counts[f"taken_{place}"] += 1
            self._changed.notify_all()

    def __contains__(self, key: Key) -> bool:
        return key in self._pending or key in self.memory or key in self._disk_keys()

    def candidates(self, tokens: NDArray[np.int32], most: int) -> list[Candidate]:
        """Every snapshot whose tokens are the first ones of `tokens`, at most `most` of them."""
        memory = {*self.memory.names(), *list(self._pending)}
        disk = self._disk_keys()
        lengths = sorted({n for n, _ in (*memory, *disk) if n <= most})
        found: list[Candidate] = []
        for key in prefix_keys(tokens, lengths):
            if key in memory:
                found.append(Candidate("ram", key[0], key))
            elif key in disk:
                found.append(Candidate("disk", key[0], key))
        return found

    def load(self, candidate: Candidate) -> Snapshot:
        """The snapshot of a candidate. Raises UnusableError."""
        key: Key = candidate.place
        if candidate.source == "ram":
            pending = self._pending.get(key)
            snapshot = pending[0] if pending else self.memory.get(key)
            if snapshot is None:
                raise UnusableError(Miss.BUDGET, "it was given up for a newer one")
            self._touch(key)
            return snapshot
        return self._load_from_disk(key)

    def unusable(self, candidate: Candidate, error: UnusableError) -> None:
        """Log, once, that a snapshot cannot be used, and get rid of it."""
        key: Key = candidate.place
        self._pending.pop(key, None)
        self.memory.discard(key)
        name = file_name(self.fingerprint, key)
        if error.reason is not Miss.GONE and name not in self._logged:
            self._logged.add(name)
            where = name if candidate.source == "disk" else f"a snapshot of {key[0]} tokens"
            log.warning("%s is not used (%s): %s", where, error.reason.value, error)
        self._on_disk.discard(key)
        if candidate.source == "disk" and self.directory is not None:
            try:
                if self.directory.discard(name):
                    self.counts["deleted"] += 1
            except OSError as failure:
                log.info("%s could not be deleted: %s", name, failure)

    def why_not(self, tokens: NDArray[np.int32], most: int, live: int) -> Miss:
        """Why no snapshot begins these tokens; `live` of them begin a live sequence."""
        keys = set(self._given_up) | set(self._others)
        lengths = sorted({n for n, _ in keys if n <= most})
        for key in reversed(list(prefix_keys(tokens, lengths))):
            if key in self._given_up:
                return Miss.BUDGET
            if key in self._others:
                return self._others[key]
        kept = [p.tokens for p in self.memory.packed()]
        if max([live, *(common_length(t, tokens) for t in kept)]):
            return Miss.DIVERGED
        return Miss.NONE

    def statistics(self) -> dict[str, object]:
        """Sizes and counts."""
        numbers: dict[str, object] = {
            "ram_snapshots": len(self.memory),
            "ram_bytes": self.memory.size,
            "ram_shared_bytes": self.memory.shared,
            **self.counts,
        }
        if self.directory is not None:
            numbers["disk_snapshots"] = len(self._disk_keys())
            numbers["disk_bytes"] = self.disk_bytes
            numbers["disk_writable"] = self.writable
        return numbers

    def flush(self, timeout: float = _CLOSE_SECONDS) -> bool:
        """Wait until everything handed over is stored; whether that was in time."""
        with self._changed:
            return self._changed.wait_for(self._idle, timeout)

    def close(self) -> None:
        """Store what is waiting, then end the thread."""
        if not self.flush():
            log.warning("closing before %d snapshots were written to the disk", len(self._writes))
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(1.0)

    # --- the disk -----------------------------------------------------------------------------

    def _disk_keys(self) -> set[Key]:
        """What the directory holds for this fingerprint, listed again when it has changed."""
        if self.directory is None:
            return self._on_disk
        try:
            changed = self.directory.root.stat().st_mtime_ns
            # a change right after a listing may carry the same time stamp
            settled = self._listed[1] - changed / 1e9 > 0.1
            if changed != self._listed[0] or not settled:
                now = time.time()
                self._list()
                self._listed = (changed, now)
        except OSError as error:
            log.info("the directory cannot be listed: %s", error)
            self._on_disk = set()
        return self._on_disk

    def _list(self) -> None:
        assert self.directory is not None
        mine: set[Key] = set()
        others: dict[Key, Miss] = {}
        for entry in self.directory.entries():
            if entry.format != FORMAT:
                others[entry.key] = Miss.VERSION
            elif entry.fingerprint != self._short:
                others[entry.key] = Miss.FINGERPRINT
            else:
                mine.add(entry.key)
        self._on_disk, self._others = mine, others

    def _load_from_disk(self, key: Key) -> Snapshot:
        assert self.directory is not None
        stored, blocks, snapshot = self.directory.read(file_name(self.fingerprint, key))
        if snapshot.fingerprint != self.fingerprint:
            raise UnusableError(
                Miss.FINGERPRINT, "it belongs to another model, build or configuration"
            )
        self._keep(key, stored.packed, blocks)
        self._touch(key)
        return snapshot

    def _touch(self, key: Key) -> None:
        if self.writable and key in self._on_disk:
            with self._changed:
                self._touches.append(file_name(self.fingerprint, key))
                self._changed.notify_all()

    def _turn_off(self, error: OSError, path: Path) -> None:
        self.writable = False
        reason = error.strerror or str(error)
        log.warning("nothing more is written to %s: %s; RAM goes on", path, reason)

    # --- the background thread ----------------------------------------------------------------

    def _idle(self) -> bool:
        return not (self._busy or self._pending or self._writes or self._touches)

    def _work(self) -> None:
        self._measure()
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._closing or not self._idle())
                if self._closing:
                    return
                self._busy = True
            try:
                self._do_one()
            except Exception:
                log.exception("the background thread of the cache failed; the snapshot is lost")

    def _do_one(self) -> None:
        """Taking apart goes before writing: it frees memory."""
        if self._pending:
            key, (snapshot, place) = next(iter(self._pending.items()))
            try:
                packed, blocks = pack(snapshot)
                self._keep(key, packed, blocks)
                self._queue(_Write(key, packed, blocks, place))
            finally:
                with self._changed:
                    self._pending.pop(key, None)
                    self._changed.notify_all()
        elif self._touches:
            assert self.directory is not None
            self.directory.touch(self._touches.popleft())
        elif self._writes:
            write = self._writes.popleft()
            self._writing_bytes -= write.size
            self._write(write)

    def _keep(self, key: Key, packed: Packed, blocks: dict[str, Bytes]) -> None:
        for dropped in self.memory.add(key, packed, blocks):
            self.counts["ram_evicted"] += 1
            self._give_up(dropped)

    def _queue(self, write: _Write) -> None:
        if not self.writable:
            return
        full = self._writing_bytes + write.size > max(self.memory.budget, 1 << 28)
        if self._writes and full and write.place != EVICTED:
            self.counts["disk_skipped"] += 1
            return
        self._writing_bytes += write.size
        self._writes.append(write)

    def _write(self, write: _Write) -> None:
        directory = self.directory
        if directory is None or not self.writable:
            return
        try:
            stored = Stored(write.packed, time.time(), write.place)
            dropped = directory.write(stored, write.blocks, self.limit)
        except TimeoutError as error:
            self.counts["disk_skipped"] += 1
            log.info("a snapshot was not written: %s", error)
        except OSError as error:
            self._turn_off(error, directory.root)
        else:
            self.counts["disk_written"] += dropped is not None
            self.counts["disk_evicted"] += len(dropped or ())
            for key in (write.key,) if dropped is None else dropped:
                self._give_up(key)
            self._measure()

    def _measure(self) -> None:
        if self.directory is not None:
            with suppress(OSError):
                self.disk_bytes = self.directory.size()

    def _give_up(self, key: Key) -> None:
        self._given_up[key] = None
        while len(self._given_up) > _REMEMBERED:
            self._given_up.popitem(last=False)
