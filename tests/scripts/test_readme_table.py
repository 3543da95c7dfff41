"""README's table is what the published files say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import readme_table


def record(ours: float, theirs: float) -> dict:
    def runs(ms: float, **more) -> dict:
        return {"prose/a": [{"count": 11, "decode_ms": ms, "cpu_ms": ms, **more}]}

    time = {
        "draft_ms": 1.0, "verify_ms": 2.0, "sample_ms": 0.5, "step_ms": 4.0,
        "overhead_us_per_step": 30.0,
    }  # fmt: skip
    ours_runs = runs(ours, steps=5, time=time)
    return {
        "settings": {"threads": 1, "runs": 3, "max_tokens": 256},
        "machine": {"commit": "c" * 40, "processor": {"model": "A CPU"}, "accelerators": []},
        "runs": {"greedy": {"outrider mtp": ours_runs, "llama-server plain": runs(theirs)}},
        "divergences": [],
    }


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A folder with two published runs, and documents whose tables are up to date."""
    for date, ours in (("2026-01-02", 500.0), ("2026-03-04", 50.0)):
        folder = tmp_path / "configs" / "benchmarks" / date
        folder.mkdir(parents=True)
        (folder / "embedded-cpu.json").write_text(json.dumps(record(ours, 100.0)))
    (tmp_path / "README.md").write_text("<!-- benchmarks:begin -->\n<!-- benchmarks:end -->\n")
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "performance.md"
    marks = ("stages", "accelerator")
    page.write_text("".join(f"<!-- {m}:begin -->\n<!-- {m}:end -->\n" for m in marks))
    return tmp_path


def script(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "scripts" / "readme_table.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_newest_run_is_shown(house: Path):
    text = readme_table.tables(house / "configs" / "benchmarks")
    assert "2026-03-04/embedded-cpu.json" in text
    assert "| outrider mtp | 200 | 200 | 2.00 |" in text
    assert "A CPU, 1 thread;" in text


def test_stages_of_a_step_are_shown_in_microseconds(house: Path):
    text = readme_table.stages(house / "configs" / "benchmarks")
    assert "| outrider mtp | 2.00 | 200 | 400 | 100 | 100 | 30 |" in text
    assert "| llama-server plain" not in text


def test_comparisons_in_pairs_become_one_table(house: Path):
    folder = house / "configs" / "benchmarks" / "2026-03-05-h200"
    folder.mkdir()
    (folder / "mtp-k3.json").write_text(json.dumps(record(50.0, 100.0)))
    (folder / "costs.json").write_text("{}")
    text = readme_table.tables(folder.parent)
    assert "| mtp and plain | greedy | 200 | 100 | 2.00 |" in text


def test_runs_are_compared_with_runs_of_the_same_seed(house: Path):
    folder = house / "configs" / "benchmarks" / "2026-03-05-h200"
    folder.mkdir()
    found = record(50.0, 100.0)
    ours, theirs = found["runs"]["greedy"].values()
    for entries, times in ((ours, (10.0, 20.0, 90.0)), (theirs, (40.0, 20.0, 90.0))):
        entries["prose/a"] = [{**entries["prose/a"][0], "decode_ms": ms} for ms in times]
    (folder / "mtp-k3.json").write_text(json.dumps(found))
    text = readme_table.tables(folder.parent)
    assert "| mtp and plain | greedy | 250 | 200 | 1.00 |" in text


def test_an_accelerator_run_has_steps_costs_and_second_turns(house: Path):
    folder = house / "configs" / "benchmarks" / "2026-03-05-h200"
    folder.mkdir()
    (folder / "mtp-k3.json").write_text(json.dumps(record(50.0, 100.0)))
    one = {"median": 0.04}
    copy = {"save": {"median": 1.25}, "load": {"median": 2.0}, "bytes": 3}
    costs = {
        "settings": {"repeats": 12, "length": 1500},
        "verify_ms": {"1": {"median": 11.2}, "2": {"median": 12.5}},
        "verify_with_logits_ms": {"2": {"median": 12.1}},
        "draft_ms": {},
        "undo_ms": {
            "ring": one, "device_recurrent": None, "host_recurrent": copy, "host_whole": copy,
        },
    }  # fmt: skip
    (folder / "costs-mtp.json").write_text(json.dumps(costs))
    turns = {
        "outrider 1100": {"prompt_tokens": 1100, "cold_ms": 455.3, "live_ms": 29.1},
        "llama-server 1100": {"prompt_tokens": 1136, "cold_ms": 639.8, "cached_ms": 239.8},
    }
    (folder / "ttft.json").write_text(json.dumps(turns))
    text = readme_table.accelerator(folder.parent)
    assert "| mtp | greedy | 2.00 | 200 | 400 | 100 | 100 | 30 | 10000 | 20000 |" in text
    assert "| mtp | 11.2 | 12.5 |" in text
    assert "| mtp | 12.1 |" in text
    assert "| mtp | 0.040 |  | 1.2, 2.0 | 1.2, 2.0 |" in text
    assert "| outrider | 1100 | 455 | 29 |  |  |  |" in text
    assert "| llama-server | 1136 | 640 |  | 240 |  |  |" in text


def test_a_chosen_length_is_shown_beside_the_best_fixed_one_and_the_best_peer(house: Path):
    folder = house / "configs" / "benchmarks" / "2026-03-05-h200" / "lengths"
    folder.mkdir(parents=True)
    found = record(50.0, 100.0)
    own, peer = found["runs"]["greedy"].values()

    def slower(entries: dict, ms: float) -> dict:
        return {name: [{**e, "decode_ms": ms} for e in runs] for name, runs in entries.items()}

    for entry in own["prose/a"]:
        entry["draft_lengths"] = {"0": 1, "3": 60, "7": 39}
    found["runs"]["greedy"] = {
        "outrider mtp+draft_length={use: adaptive}": own,
        "outrider mtp+draft_length.k=2": slower(own, 80.0),
        "outrider mtp+draft_length.k=7+draft_length.rows=9": slower(own, 62.5),
        "llama-server draft-mtp:2": peer,
        "llama-server draft-mtp:3": slower(peer, 125.0),
    }
    (folder / "mtp.json").write_text(json.dumps(found))
    text = readme_table.accelerator(house / "configs" / "benchmarks")
    assert "| mtp | greedy | 200 | 3: 60%, 7: 39% | k=7, rows=9 | 160 | 1.25 " in text
    assert "| 1.25 | draft-mtp:2 | 100 | 2.00 |" in text


def test_what_stands_around_the_markers_is_kept():
    before = "# Title\n<!-- x:begin -->\nold\n<!-- x:end -->\nrest\n"
    after = readme_table.replaced(before, "x", "new\n")
    assert after == "# Title\n<!-- x:begin -->\n\nnew\n\n<!-- x:end -->\nrest\n"
    assert readme_table.replaced(after, "x", "new\n") == after
    assert readme_table.replaced(after, "x", "") == before.replace("old\n", "")


def test_without_markers_there_is_nothing_to_replace():
    with pytest.raises(readme_table.MarkerError):
        readme_table.replaced("# Title\n", "x", "new\n")


@pytest.mark.parametrize("name", ["README.md", "docs/performance.md"])
def test_the_check_fails_when_a_number_was_changed(root: Path, house: Path, name: str):
    assert script(root, "--root", str(house)).returncode == 0
    assert script(root, "--check", "--root", str(house)).returncode == 0
    document = house / name
    document.write_text(document.read_text().replace("200", "201", 1))
    done = script(root, "--check", "--root", str(house))
    assert done.returncode == 1
    assert f"{document.name} disagrees" in done.stdout


def test_the_documents_agree_with_the_published_runs(root: Path):
    done = script(root, "--check")
    assert done.returncode == 0, done.stdout + done.stderr
