"""Files under attack: killed writers, damaged bytes, two processes in one directory."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from outrider import Rows, Snapshot
from outrider_snapshots.directory import Directory, file_name
from outrider_snapshots.format import Stored
from outrider_snapshots.packing import BLOCK, key_of, pack, token_array
from outrider_snapshots.reasons import Miss, UnusableError
from outrider_snapshots.store import Store

SOAK = Path(__file__).resolve().parent.parent / "cache_soak.py"
FINGERPRINT = "soak:engine"
COMMON = 2 * BLOCK
"""Tokens with which every made-up conversation begins."""
ROW = 48
LIMIT = 2_000_000


def made_up(seed: int, length: int) -> Snapshot:
    """A snapshot whose bytes follow from its seed and length, in the form of a real one.

    Snapshots of one seed share the rows of their common tokens; those of all seeds share the rows
    of the first `COMMON` tokens.
    """

    def rows(kind: int, width: int) -> bytes:
        common = np.random.default_rng((kind, 0)).bytes(width * COMMON)
        own = np.random.default_rng((kind, seed + 1)).bytes(width * max(0, length - COMMON))
        return (common + own)[: width * length]

    tokens = np.random.default_rng((9, 0)).integers(0, 1000, COMMON).tolist()
    tokens += np.random.default_rng((9, seed + 1)).integers(0, 1000, length).tolist()
    head = np.random.default_rng((100, 7)).bytes(40)
    owner = seed + 1 if length > COMMON else 0
    tail = np.random.default_rng((owner, length, 5)).bytes(9000)
    target = head + rows(1, ROW) + rows(2, ROW) + tail
    drafter = head[:12] + rows(3, ROW // 2) + tail[:300]
    return Snapshot(
        tuple(tokens[:length]),
        target,
        drafter,
        FINGERPRINT,
        (Rows(40, ROW, length), Rows(40 + ROW * length, ROW, length)),
        (Rows(12, ROW // 2, length),),
    )


def same(a: Snapshot, b: Snapshot) -> bool:
    """Whether two snapshots have the same bytes."""
    return (
        a.tokens == b.tokens
        and bytes(a.target) == bytes(b.target)
        and bytes(a.drafter) == bytes(b.drafter)
    )


def stored_name(snapshot: Snapshot) -> str:
    """The file that a snapshot is stored in."""
    return file_name(snapshot.fingerprint, key_of(token_array(snapshot.tokens)))


def store_in(directory: Directory, snapshot: Snapshot, limit: int = 1 << 40) -> str:
    """Write a snapshot; its file's name."""
    packed, blocks = pack(snapshot)
    directory.write(Stored(packed, time.time(), "turn"), blocks, limit)
    return stored_name(snapshot)


def unsound(directory: Directory) -> list[str]:
    """What is wrong with the files of a directory."""
    problems: list[str] = []
    for entry in directory.entries():
        try:
            directory.read(entry.name)
        except UnusableError as error:
            problems.append(f"{entry.name}: {error}")
    return problems


# --- killed writers -------------------------------------------------------------------------------


def write(folder: Path, seed: int, seconds: float) -> None:
    """Write made-up snapshots through a store, as a pipeline does, until killed."""
    rng = random.Random(seed)
    store = Store(1 << 20, folder, LIMIT, FINGERPRINT)
    print("ready", flush=True)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        store.put(made_up(rng.randrange(12), rng.randrange(COMMON, 8 * BLOCK)), "turn")
        store.flush()
    store.close()


def kill(count: int) -> dict[str, Any]:
    """Kill a writer `count` times, each time at another moment; look at what it leaves."""
    rng = random.Random(3)
    problems: list[str] = []
    leftovers = interrupted = survivors = 0
    with tempfile.TemporaryDirectory(prefix="outrider-kill-") as name:
        folder = Path(name)
        directory = Directory(folder)
        for i in range(count):
            command = [sys.executable, str(SOAK), "write", name, str(i), "60"]
            child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(rng.uniform(0.0, 0.25))
            child.send_signal(signal.SIGKILL)
            child.wait()
            child.stdout.close()
            temporary = list(folder.rglob("tmp-*"))
            interrupted += bool(temporary)
            leftovers += len(temporary)
            problems += unsound(directory)
            survivors += len(directory.entries())
            problems += _start_again(folder, i)
            if list(folder.rglob("tmp-*")):
                problems.append(f"after kill {i}: temporary files are still there")
        size = directory.size()
    return {
        "held": not problems and size <= LIMIT,
        "kills": count,
        "kills_in_the_middle_of_a_file": interrupted,
        "temporary_files_left_and_removed": leftovers,
        "files_verified": survivors,
        "bytes_at_the_end": size,
        "limit": LIMIT,
        "problems": problems,
    }


def _start_again(folder: Path, i: int) -> list[str]:
    """A later start: it finds and reads what is there, and writes."""
    store = Store(1 << 20, folder, LIMIT, FINGERPRINT)
    problems: list[str] = []
    found = 0
    for seed in range(12):
        whole = made_up(seed, 8 * BLOCK)
        for candidate in store.candidates(token_array(whole.tokens), len(whole.tokens)):
            found += 1
            if not same(store.load(candidate), made_up(seed, candidate.length)):
                problems.append(f"after kill {i}: a snapshot of {candidate.length} is different")
    if found < sum(e.key[0] != COMMON + 50 for e in Directory(folder).entries()):
        problems.append(f"after kill {i}: only {found} snapshots were found")
    snapshot = made_up(1000 + i, COMMON + 50)
    store.put(snapshot, "turn")
    store.close()
    try:
        Directory(folder).read(stored_name(snapshot))
    except UnusableError as error:
        problems.append(f"after kill {i}: a new snapshot is not there: {error}")
    return problems


# --- damaged bytes --------------------------------------------------------------------------------


def corrupt(stride: int = 1) -> dict[str, Any]:
    """Damage every byte (every `stride`th) of a snapshot's file and blocks; cut and swap them."""
    reasons: Counter[str] = Counter()
    problems: list[str] = []
    with tempfile.TemporaryDirectory(prefix="outrider-corrupt-") as name:
        directory = Directory(Path(name))
        directory.create()
        snapshot = made_up(1, COMMON + 40)
        other = made_up(2, COMMON + 40)
        file = directory.root / store_in(directory, snapshot)
        file2 = directory.root / store_in(directory, other)

        def refused(what: str) -> None:
            try:
                directory.read(file.name)
            except UnusableError as error:
                reasons[error.reason.value] += 1
            else:
                problems.append(f"{what}: it was used")

        sound = file.read_bytes()
        for path in (file, *sorted(directory.blocks.iterdir())):
            before = path.read_bytes()
            if path != file and path.name not in pack(snapshot)[1]:
                continue
            with path.open("r+b", buffering=0) as changing:
                for i in range(0, len(before), stride):
                    byte = before[i]
                    os.pwrite(changing.fileno(), bytes([byte ^ 1 << (i % 8)]), i)
                    refused(f"{path.name}: byte {i}")
                    os.pwrite(changing.fileno(), bytes([byte]), i)
            for length in (0, 1, 23, 24, 40, len(before) // 2, len(before) - 1):
                path.write_bytes(before[:length])
                refused(f"{path.name}: cut to {length}")
            path.write_bytes(before + b"\0")
            refused(f"{path.name}: a byte more")
            path.unlink()
            refused(f"{path.name}: missing")
            path.write_bytes(before)
        file.write_bytes(file2.read_bytes())
        refused("another conversation's file")
        file.write_bytes(sound)
        directory.read(file.name)
        foreign = Snapshot(
            snapshot.tokens, snapshot.target, snapshot.drafter, "other:engine",
            snapshot.target_rows, snapshot.drafter_rows,
        )  # fmt: skip
        shutil.copyfile(directory.root / store_in(directory, foreign), file)
        refused("another model's file")
        tried = sum(reasons.values()) + len(problems)
        refusals = dict(reasons)
        deleted = directory.discard(file.name) and not file.exists()
        kept = not directory.discard(file2.name) and file2.exists()
    if not deleted or not kept:
        problems.append("a damaged file was kept, or a sound one deleted")
    return {"held": not problems, "damages": tried, "refused": refusals, "problems": problems[:20]}


# --- two processes --------------------------------------------------------------------------------


def pound(folder: Path, seed: int, seconds: float) -> dict[str, Any]:
    """Write, read and evict without a pause; what was written, given up, and seen."""
    rng = random.Random(seed)
    directory = Directory(folder)
    directory.create()
    written: list[str] = []
    dropped: list[str] = []
    seen: Counter[str] = Counter()
    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end:
        if rng.random() < 0.4:
            number += 1
            snapshot = made_up(seed * 10_000 + number // 4, COMMON + 100 + 60 * (number % 4))
            packed, blocks = pack(snapshot)
            gone = directory.write(Stored(packed, time.time(), "turn"), blocks, LIMIT)
            assert gone is not None
            written.append(stored_name(snapshot))
            dropped += [file_name(FINGERPRINT, key) for key in gone]
            continue
        entries = directory.entries()
        if not entries:
            continue
        name = rng.choice(entries).name
        try:
            _, _, found = directory.read(name)
        except UnusableError as error:
            seen[error.reason.value] += 1
            continue
        seen["sound"] += 1
        seen["wrong"] += stored_name(found) != name
        directory.touch(name)
    return {"held": True, "written": written, "dropped": dropped, "seen": dict(seen)}


def hammer(seconds: float) -> dict[str, Any]:
    """Two processes at once; at the end everything that nobody gave up must be there and sound."""
    with tempfile.TemporaryDirectory(prefix="outrider-hammer-") as name:
        children = [
            subprocess.Popen(
                [sys.executable, str(SOAK), "pound", name, str(seed), str(seconds)],
                stdout=subprocess.PIPE,
                text=True,
            )
            for seed in (1, 2)
        ]
        results = [json.loads(child.communicate()[0]) for child in children]
        directory = Directory(Path(name))
        present = {e.name for e in directory.entries()}
        problems = unsound(directory)
        temporary = [p.name for p in Path(name).rglob("tmp-*")]
        size = directory.size()
    written = {n for r in results for n in r["written"]}
    dropped = {n for r in results for n in r["dropped"]}
    seen = sum((Counter(r["seen"]) for r in results), Counter())
    lost = sorted(written - dropped - present)
    revived = sorted(present - written)
    held = not (problems or temporary or lost or revived or seen["wrong"] or size > LIMIT)
    return {
        "held": held and not seen[Miss.CORRUPT.value],
        "seconds": seconds,
        "written": len(written),
        "given_up": len(dropped),
        "present": len(present),
        "lost": lost,
        "torn": problems,
        "reads": dict(seen),
        "bytes": size,
        "limit": LIMIT,
    }
