"""`outrider cache`: what is on the disk, whether it is sound, and less of it."""

from __future__ import annotations

import json
import os

import pytest
from click.testing import CliRunner
from outrider_snapshots.command import cache
from outrider_snapshots.directory import Directory
from soak.files import COMMON, made_up, store_in


@pytest.fixture
def directory(tmp_path):
    directory = Directory(tmp_path / "cache")
    directory.create()
    for i in range(3):
        store_in(directory, made_up(1, COMMON + 100 * i))
    directory.touch(directory.entries()[0].name)
    return directory


def outrider_cache(*arguments: str):
    return CliRunner().invoke(cache, arguments)


def listed(directory):
    result = outrider_cache("list", "-d", str(directory.root), "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


class TestList:
    def test_it_shows_tokens_size_age_and_hits(self, directory):
        found = listed(directory)
        assert sorted(s["tokens"] for s in found["snapshots"]) == [256, 356, 456]
        assert sorted(s["hits"] for s in found["snapshots"]) == [0, 0, 1]
        assert all(0 <= s["age_seconds"] < 60 for s in found["snapshots"])
        assert found["bytes"] == directory.size()

    def test_it_shows_what_sharing_saves(self, directory):
        found = listed(directory)
        own = sum(s["own_bytes"] for s in found["snapshots"])
        assert found["bytes"] == own + found["block_bytes"] < found["state_bytes"]

    def test_people_get_a_table(self, directory):
        result = outrider_cache("list", "-d", str(directory.root))
        assert "hits" in result.stdout
        assert "3 snapshots" in result.stderr

    def test_a_pipeline_file_names_the_directory(self, directory, tmp_path):
        file = tmp_path / "p.yaml"
        file.write_text(f"cache: {{use: snapshots, disk: {{path: {directory.root}}}}}\n")
        result = outrider_cache("list", "-p", str(file), "--json")
        assert len(json.loads(result.stdout)["snapshots"]) == 3

    def test_a_folder_of_something_else_is_refused(self, tmp_path):
        result = outrider_cache("list", "-d", str(tmp_path))
        assert "no snapshot directory" in str(result.exception)


class TestVerify:
    def test_a_sound_directory(self, directory):
        result = outrider_cache("verify", "-d", str(directory.root))
        assert result.exit_code == 0
        assert "3 sound, 0 damaged" in result.stderr

    @pytest.mark.parametrize("what", ["snapshot", "block"])
    def test_damage_is_found_and_deleted_on_demand(self, directory, what):
        if what == "snapshot":
            path = directory.root / directory.entries()[1].name
        else:
            path = directory.blocks / sorted(directory.block_sizes())[0]
        with path.open("r+b") as file:
            file.seek(-5, os.SEEK_END)
            file.write(b"\xff\x00\xff")
        result = outrider_cache("verify", "-d", str(directory.root), "--json")
        assert result.exit_code == 1
        damaged = json.loads(result.stdout)["damaged"]
        assert damaged
        assert {d["reason"] for d in damaged} == {"corrupt"}
        assert outrider_cache("verify", "-d", str(directory.root), "--delete").exit_code == 0
        assert outrider_cache("verify", "-d", str(directory.root)).exit_code == 0
        assert len(directory.entries()) == 3 - len(damaged)


class TestPrune:
    def test_down_to_a_size(self, directory):
        limit = directory.size() - 1
        result = outrider_cache("prune", "-d", str(directory.root), "--limit", str(limit), "--json")
        assert json.loads(result.stdout)["deleted"] == 1
        assert directory.size() <= limit

    def test_everything(self, directory):
        assert outrider_cache("prune", "-d", str(directory.root), "--all").exit_code == 0
        assert directory.entries() == []
        assert directory.block_sizes() == {}

    def test_by_age(self, directory):
        os.utime(directory.root / directory.entries()[0].name, (0, 0))
        outrider_cache("prune", "-d", str(directory.root), "--older-than", "7d")
        assert len(directory.entries()) == 2

    @pytest.mark.parametrize(
        "arguments",
        [
            (),
            ("--limit", "much"),
            ("--older-than", "long"),
            ("--limit", "1GiB", "--all"),
            ("--older-than", "7d", "--all"),
        ],
        ids=str,
    )
    def test_it_says_what_it_expects(self, directory, arguments):
        result = outrider_cache("prune", "-d", str(directory.root), *arguments)
        assert result.exit_code != 0
        assert len(directory.entries()) == 3
