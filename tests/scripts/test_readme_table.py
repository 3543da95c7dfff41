"""README's table is what the published files say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import readme_table


def record(ours: float, theirs: float) -> dict:
    def runs(ms: float) -> dict:
        return {"prose/a": [{"count": 11, "decode_ms": ms, "cpu_ms": ms}]}

    return {
        "settings": {"threads": 1, "runs": 3, "max_tokens": 256},
        "machine": {"commit": "c" * 40, "processor": {"model": "A CPU"}, "accelerators": []},
        "runs": {"greedy": {"outrider mtp": runs(ours), "llama-server plain": runs(theirs)}},
        "divergences": [],
    }


@pytest.fixture
def published(tmp_path: Path) -> Path:
    for date, ours in (("2026-01-02", 500.0), ("2026-03-04", 50.0)):
        folder = tmp_path / "benchmarks" / date
        folder.mkdir(parents=True)
        (folder / "embedded-cpu.json").write_text(json.dumps(record(ours, 100.0)))
    return tmp_path / "benchmarks"


def check(root: Path, readme: Path, published: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "scripts" / "readme_table.py"), "--check"]
    command += ["--readme", str(readme), "--published", str(published)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_newest_run_is_shown(published: Path):
    text = readme_table.tables(published)
    assert "2026-03-04/embedded-cpu.json" in text
    assert "| outrider mtp | 200 | 200 | 2.00 |" in text
    assert "A CPU, 1 thread;" in text


def test_comparisons_in_pairs_become_one_table(published: Path):
    folder = published / "2026-03-05-h200"
    folder.mkdir()
    (folder / "mtp-k3.json").write_text(json.dumps(record(50.0, 100.0)))
    (folder / "costs.json").write_text("{}")
    assert "| mtp and plain | greedy | 200 | 100 | 2.00 |" in readme_table.tables(published)


def test_what_stands_around_the_markers_is_kept():
    before = f"# Title\n{readme_table.BEGIN}\nold\n{readme_table.END}\nrest\n"
    after = readme_table.replaced(before, "new\n")
    assert after == f"# Title\n{readme_table.BEGIN}\n\nnew\n\n{readme_table.END}\nrest\n"
    assert readme_table.replaced(after, "new\n") == after


def test_without_markers_there_is_nothing_to_replace():
    with pytest.raises(readme_table.MarkerError):
        readme_table.replaced("# Title\n", "new\n")


def test_the_check_fails_when_a_number_was_changed(root: Path, published: Path, tmp_path: Path):
    readme = tmp_path / "README.md"
    text = readme_table.replaced(
        f"{readme_table.BEGIN}\n{readme_table.END}\n", readme_table.tables(published)
    )
    readme.write_text(text)
    assert check(root, readme, published).returncode == 0
    readme.write_text(text.replace("2.00", "2.01"))
    done = check(root, readme, published)
    assert done.returncode == 1
    assert "disagrees" in done.stdout


def test_the_readme_agrees_with_the_published_runs(root: Path):
    readme = root / "README.md"
    if not readme.is_file():
        pytest.skip("there is no README yet")
    done = check(root, readme, root / "configs" / "benchmarks")
    assert done.returncode == 0, done.stdout + done.stderr
