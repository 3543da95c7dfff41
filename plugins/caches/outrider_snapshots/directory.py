"""The tier on disk: a directory of snapshot and block files that many processes share.

    lock                                              taken by whoever writes or deletes
    <fingerprint>-<tokens>-<digest>.<format>.snapshot one snapshot (see `format`)
    <…the same…>.hits                                 as many bytes as it was used
    blocks.<format>/<digest>                          rows that snapshots share

Files appear by rename, after their bytes and the blocks that they need are on the disk, so a
reader needs no lock and a killed writer leaves nothing but files named `tmp-…`, which the next
writer removes. A reader that loses a race against an eviction has a miss, named `gone`. Files of
another format are left to the version that wrote them.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from outrider import Snapshot

from outrider_snapshots.format import FORMAT, Stored, Summary, decode, encode, read_summary
from outrider_snapshots.packing import Bytes, Key, digest, key_of, unpack
from outrider_snapshots.reasons import Miss, UnusableError

SUFFIX = ".snapshot"
_TEMPORARY = "tmp-"
_LOCK_SECONDS = 30.0


@attrs.frozen
class Entry:
    """A snapshot's file, as far as its name and the directory tell."""

    name: str
    fingerprint: str
    """Digest of the fingerprint, 16 digits."""
    key: Key
    format: int
    size: int
    """Bytes of the file; its blocks not counted."""
    used: float
    """When it was last used, seconds since 1970."""


def short_fingerprint(fingerprint: str) -> str:
    """The fingerprint as file names carry it."""
    return digest(fingerprint.encode())[:16]


def file_name(fingerprint: str, key: Key) -> str:
    """The file of a snapshot."""
    return f"{short_fingerprint(fingerprint)}-{key[0]}-{key[1]}.{FORMAT}{SUFFIX}"


def parse_name(name: str) -> tuple[str, Key, int] | None:
    """Short fingerprint, key and format of a file name; None for a file that is no snapshot's."""
    if not name.endswith(SUFFIX):
        return None
    stem, _, form = name[: -len(SUFFIX)].rpartition(".")
    fields = stem.split("-")
    if len(fields) != 3 or not all(n.isascii() and n.isdigit() for n in (fields[1], form)):
        return None
    return fields[0], (int(fields[1]), fields[2]), int(form)


class Directory:
    """Reads, writes, evicts and deletes. Raises OSError where the operating system refuses."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.blocks = root / f"blocks.{FORMAT}"
        self._needs: dict[str, tuple[int, frozenset[str]]] = {}

    def create(self) -> None:
        """Make the directory; only its owner may look into what is made here.

        A folder that is there already keeps its mode: it may be somebody's for other things too.
        """
        new = not self.root.exists()
        self.blocks.mkdir(mode=0o700, parents=True, exist_ok=True)
        if new:
            self.root.chmod(0o700)

    # --- looking ------------------------------------------------------------------------------

    def entries(self) -> list[Entry]:
        """All snapshots, the least recently used first."""
        found: list[Entry] = []
        with os.scandir(self.root) as files:
            for file in files:
                parsed = parse_name(file.name)
                if parsed is None:
                    continue
                with suppress(FileNotFoundError):
                    stat = file.stat()
                    found.append(Entry(file.name, *parsed, stat.st_size, stat.st_mtime))
        return sorted(found, key=lambda e: e.used)

    def block_sizes(self) -> dict[str, int]:
        """Bytes of every block, by name."""
        sizes: dict[str, int] = {}
        with os.scandir(self.blocks) as files:
            for file in files:
                if not file.name.startswith(_TEMPORARY):
                    with suppress(FileNotFoundError):
                        sizes[file.name] = file.stat().st_size
        return sizes

    def size(self) -> int:
        """Bytes in use."""
        own = (e.size for e in self.entries() if e.format == FORMAT)
        return sum(own) + sum(self.block_sizes().values())

    def hits(self, name: str) -> int:
        """How often a snapshot was used."""
        try:
            return (self.root / f"{name}.hits").stat().st_size
        except OSError:
            return 0

    def touch(self, name: str) -> None:
        """Note a use. What cannot be noted is not."""
        with suppress(OSError):
            os.utime(self.root / name)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            with os.fdopen(os.open(self.root / f"{name}.hits", flags, 0o600), "ab") as file:
                file.write(b"+")

    def summary(self, name: str) -> Summary:
        """What a snapshot's header says. Raises OSError and UnusableError."""
        with (self.root / name).open("rb") as file:
            return read_summary(file)

    # --- reading ------------------------------------------------------------------------------

    def read(self, name: str) -> tuple[Stored, dict[str, Bytes], Snapshot]:
        """What a file says, its blocks, and the snapshot they make. Every byte is checked.

        Raises UnusableError.
        """
        stored = self._read_snapshot(name)
        blocks: dict[str, Bytes] = {}
        for block in stored.packed.blocks:
            if block not in blocks:
                blocks[block] = self._read_block(name, block)
        try:
            snapshot = unpack(stored.packed, blocks.__getitem__, verify=True)
        except ValueError:
            raise UnusableError(Miss.CORRUPT, "its rows do not fit its blocks") from None
        return stored, blocks, snapshot

    def _read_snapshot(self, name: str) -> Stored:
        try:
            stored = decode((self.root / name).read_bytes())
        except FileNotFoundError:
            raise UnusableError(Miss.GONE, "it was given up meanwhile") from None
        except OSError as error:
            raise UnusableError(Miss.UNREADABLE, f"it cannot be read: {error.strerror}") from None
        packed = stored.packed
        parsed = parse_name(name)
        assert parsed is not None, name
        if parsed[0] != short_fingerprint(packed.fingerprint):
            raise UnusableError(Miss.FINGERPRINT, "its contents belong to another model or build")
        if parsed[1] != key_of(packed.tokens):
            raise UnusableError(Miss.CORRUPT, "its tokens are not those that its name promises")
        return stored

    def _read_block(self, name: str, block: str) -> Bytes:
        try:
            data = np.frombuffer((self.blocks / block).read_bytes(), np.uint8)
        except FileNotFoundError:
            if not (self.root / name).exists():
                raise UnusableError(Miss.GONE, "it was given up meanwhile") from None
            raise UnusableError(Miss.CORRUPT, f"its block {block} is missing") from None
        except OSError as error:
            raise UnusableError(
                Miss.UNREADABLE, f"{block} cannot be read: {error.strerror}"
            ) from None
        if digest(data) != block:
            raise UnusableError(Miss.CORRUPT, f"its block {block} is damaged")
        return data

    # --- writing ------------------------------------------------------------------------------

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the directory's lock. Raises TimeoutError when others keep it too long."""
        handle = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            end = time.monotonic() + _LOCK_SECONDS
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > end:
                        raise TimeoutError("another process keeps the directory locked") from None
                    time.sleep(0.005)
            yield
        finally:
            os.close(handle)

    def write(self, stored: Stored, blocks: Mapping[str, Bytes], limit: int) -> list[Key] | None:
        """Store a snapshot within `limit` bytes; the keys that had to go for it.

        None when it does not fit even alone.
        """
        packed = stored.packed
        name = file_name(packed.fingerprint, key_of(packed.tokens))
        content = encode(stored)
        length = sum(memoryview(piece).nbytes for piece in content)
        needed = set(packed.blocks)
        if length + sum(len(blocks[b]) for b in needed) > limit:
            return None
        with self.locked():
            if (self.root / name).exists():
                return []
            self._remove_temporary()
            sizes = self.block_sizes()
            missing = [b for b in needed if sizes.get(b) != len(blocks[b])]
            room = limit - length - sum(len(blocks[b]) for b in missing)
            dropped = self._evict(room, keep=needed)
            for block in missing:
                self._publish(self.blocks / block, [blocks[block]])
            _sync(self.blocks)
            self._publish(self.root / name, content)
            _sync(self.root)
        return dropped

    def prune(self, limit: int, older_than: float | None = None) -> list[Key]:
        """Delete snapshots not used since `older_than`, the least used ones down to `limit`
        bytes, and blocks that nothing needs; returns the keys of the snapshots deleted."""
        with self.locked():
            self._remove_temporary()
            old = [
                e
                for e in self.entries()
                if older_than is not None and e.format == FORMAT and e.used < older_than
            ]
            for entry in old:
                self._unlink_snapshot(entry.name)
            return [e.key for e in old] + self._evict(limit, keep=())

    def discard(self, name: str) -> bool:
        """Delete a snapshot that is unusable, if it is this user's; whether it was deleted."""
        with self.locked():
            try:
                if (self.root / name).stat().st_uid != os.getuid():
                    return False
                self.read(name)
            except FileNotFoundError:
                return False
            except UnusableError as error:
                if error.reason not in (Miss.CORRUPT, Miss.FINGERPRINT, Miss.VERSION):
                    return False
                self._remove_damaged_blocks(name)
                self._unlink_snapshot(name)
                return True
        return False

    def _remove_damaged_blocks(self, name: str) -> None:
        for block in self._blocks_needed(name):
            with suppress(OSError):
                path = self.blocks / block
                if digest(path.read_bytes()) != block:
                    path.unlink()

    def _evict(self, limit: int, keep: Iterable[str]) -> list[Key]:
        """Down to `limit` bytes: least recently used snapshots, and blocks without a user."""
        entries = [e for e in self.entries() if e.format == FORMAT]
        sizes = self.block_sizes()
        users: dict[str, int] = dict.fromkeys(keep, 1)
        for entry in entries:
            for block in self._blocks_needed(entry.name):
                users[block] = users.get(block, 0) + 1
        total = sum(e.size for e in entries) + sum(sizes.values())
        for block in [b for b in sizes if b not in users]:
            total -= sizes.pop(block)
            self._unlink(self.blocks / block)
        dropped: list[Key] = []
        for entry in entries:
            if total <= limit:
                break
            needs = self._blocks_needed(entry.name)
            self._unlink_snapshot(entry.name)
            dropped.append(entry.key)
            total -= entry.size
            for block in needs:
                users[block] -= 1
                if not users[block] and block in sizes:
                    total -= sizes.pop(block)
                    self._unlink(self.blocks / block)
        return dropped

    def _blocks_needed(self, name: str) -> frozenset[str]:
        """The blocks of a snapshot, none if its header cannot be read."""
        path = self.root / name
        try:
            inode = path.stat().st_ino
            known = self._needs.get(name)
            if known is None or known[0] != inode:
                known = inode, frozenset(self.summary(name).blocks)
                self._needs[name] = known
        except (OSError, UnusableError):
            return frozenset()
        return known[1]

    def _publish(self, path: Path, content: Iterable[Any]) -> None:
        temporary = path.with_name(f"{_TEMPORARY}{os.getpid()}-{path.name}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
                for piece in content:
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            # a full disk is not to stay full of what is half written
            with suppress(OSError):
                self._unlink(temporary)
            raise

    def _remove_temporary(self) -> None:
        for path in self.blocks.glob(f"{_TEMPORARY}*"):
            self._unlink(path)
        for path in self.root.glob(f"{_TEMPORARY}*"):
            # the folder may be somebody's for other things too
            if parse_name(path.name.removeprefix(_TEMPORARY).partition("-")[2]) is not None:
                self._unlink(path)
        # a use that was noted while its snapshot was given up
        for path in self.root.glob(f"*{SUFFIX}.hits"):
            if parse_name(path.stem) is not None and not path.with_suffix("").exists():
                self._unlink(path)

    def _unlink_snapshot(self, name: str) -> None:
        self._needs.pop(name, None)
        self._unlink(self.root / name)
        self._unlink(self.root / f"{name}.hits")

    def _unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """Put the names in a folder on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
