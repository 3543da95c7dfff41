"""Files on disk: budget, eviction, other people's files, and attacks (reduced from the soak)."""

from __future__ import annotations

import os
import stat
import threading
import time

import attrs
import pytest
from outrider_snapshots.directory import Directory, file_name
from outrider_snapshots.packing import BLOCK, pack
from outrider_snapshots.reasons import Miss, UnusableError
from soak import files
from soak.files import COMMON, made_up, same, store_in, unsound


@pytest.fixture
def directory(tmp_path):
    directory = Directory(tmp_path / "cache")
    directory.create()
    return directory


class TestWriting:
    def test_what_is_written_is_read(self, directory):
        snapshot = made_up(1, 5 * BLOCK)
        assert same(directory.read(store_in(directory, snapshot))[2], snapshot)

    def test_files_are_their_owners_only(self, directory):
        store_in(directory, made_up(1, 5 * BLOCK))
        paths = [p for p in directory.root.rglob("*") if p.is_file()]
        assert {stat.S_IMODE(p.stat().st_mode) for p in paths} == {0o600}
        assert stat.S_IMODE(directory.root.stat().st_mode) == 0o700

    def test_a_longer_snapshot_writes_only_what_is_new(self, directory):
        store_in(directory, made_up(1, COMMON + 2 * BLOCK))
        before = set(directory.block_sizes())
        store_in(directory, made_up(1, COMMON + 3 * BLOCK))
        new = set(directory.block_sizes()) - before
        assert len(new) == 2, "one block of the target's rows and one of the drafter's"

    def test_the_limit_is_kept_and_the_least_recently_used_goes_first(self, directory):
        names = [store_in(directory, made_up(i, 4 * BLOCK)) for i in range(4)]
        for age, name in enumerate(reversed(names)):
            os.utime(directory.root / name, (age, age))
        directory.touch(names[3])
        limit = directory.size() + 1000
        store_in(directory, made_up(9, 4 * BLOCK), limit)
        assert directory.size() <= limit
        left = {e.name for e in directory.entries()}
        assert names[3] in left
        assert names[2] not in left, "it was used longest ago"
        assert not unsound(directory)

    def test_what_does_not_fit_alone_is_refused(self, directory):
        packed, blocks = pack(made_up(1, 4 * BLOCK))
        assert directory.write(files.Stored(packed, 0.0, "turn"), blocks, 1000) is None
        assert directory.entries() == []

    def test_leftovers_of_a_killed_writer_are_removed(self, directory):
        name = file_name("print", (40, "abc"))
        (directory.root / f"tmp-1-{name}").write_bytes(b"half")
        (directory.blocks / f"tmp-1-{'f' * 32}").write_bytes(b"half")
        orphan = directory.blocks / ("0" * 32)
        orphan.write_bytes(b"nobody needs it")
        store_in(directory, made_up(1, 3 * BLOCK))
        assert not list(directory.root.rglob("tmp-*"))
        assert not orphan.exists()

    def test_files_of_others_in_the_folder_and_its_mode_are_left_alone(self, tmp_path):
        folder = tmp_path / "mine"
        folder.mkdir()
        folder.chmod(0o755)
        others = ["tmp-notes.txt", "game.hits", "tmp-1-x", "a-²-b.1.snapshot", "x.snapshot.hits"]
        for name in others:
            (folder / name).write_text("mine")
        (folder / "tmp-folder").mkdir()
        directory = Directory(folder)
        directory.create()
        store_in(directory, made_up(1, 3 * BLOCK))
        assert len(directory.entries()) == 1
        assert {(folder / name).read_text() for name in others} == {"mine"}
        assert stat.S_IMODE(folder.stat().st_mode) == 0o755

    def test_a_write_that_fails_leaves_nothing_behind(self, directory, monkeypatch):
        def full(handle):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            store_in(directory, made_up(1, 3 * BLOCK))
        assert not list(directory.root.rglob("tmp-*"))

    def test_uses_are_counted(self, directory):
        name = store_in(directory, made_up(1, 3 * BLOCK))
        for _ in range(3):
            directory.touch(name)
        assert directory.hits(name) == 3

    def test_a_locked_directory_is_waited_for(self, directory):
        done = threading.Event()

        def writer():
            store_in(directory, made_up(1, 3 * BLOCK))
            done.set()

        with directory.locked():
            thread = threading.Thread(target=writer)
            thread.start()
            assert not done.wait(0.1)
        thread.join(5)
        assert done.is_set()


class TestOtherFiles:
    def test_another_model_s_snapshots_stay(self, directory):
        mine = made_up(1, 3 * BLOCK)
        theirs = attrs.evolve(mine, fingerprint="another")
        names = {store_in(directory, mine), store_in(directory, theirs)}
        assert len(names) == 2
        assert not unsound(directory)

    def test_another_format_s_files_are_left_alone(self, directory):
        foreign = directory.root / "0123456789abcdef-300-00ff.99.snapshot"
        foreign.write_bytes(b"from the future")
        store_in(directory, made_up(1, 3 * BLOCK))
        directory.prune(0)
        assert foreign.exists()

    def test_a_reader_that_loses_a_race_has_a_miss(self, directory):
        name = store_in(directory, made_up(1, 3 * BLOCK))
        directory.prune(0)
        with pytest.raises(UnusableError) as error:
            directory.read(name)
        assert error.value.reason is Miss.GONE

    def test_pruning_by_age(self, directory):
        old, new = (store_in(directory, made_up(i, 3 * BLOCK)) for i in (1, 2))
        os.utime(directory.root / old, (1000, 1000))
        assert len(directory.prune(1 << 60, time.time() - 3600)) == 1
        assert [e.name for e in directory.entries()] == [new]
        assert not unsound(directory)


class TestAttacks:
    def test_no_damage_is_ever_used(self):
        result = files.corrupt(stride=37)
        assert result["held"], result["problems"]
        assert result["damages"] > 1000

    def test_killed_writers_leave_nothing_unsound(self):
        result = files.kill(4)
        assert result["held"], result

    def test_two_processes_lose_and_tear_nothing(self):
        result = files.hammer(3.0)
        assert result["held"], result
        assert result["written"] > 10
