"""Accepted drafts on unseen code: what is counted, and what cannot be."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import unseen_code
from outrider import RequestError

CODE = "import os\n\n\ndef paths(folder):\n    return sorted(os.listdir(folder))\n\n\n" * 8
PROMPTS = [CODE, CODE + "def names(", "class Settings:\n    def __init__(self, path):\n"]


def test_what_is_counted_is_what_the_loop_did(open_pipeline) -> None:
    pipeline = open_pipeline(file=unseen_code.ROOT / "examples/pipelines/mtp.yaml")
    counts = unseen_code.counted(pipeline, PROMPTS, 40)
    statistics = pipeline.statistics
    assert counts.steps == statistics.proposed[0]
    assert counts.drafts == sum(statistics.proposed)
    assert counts.accepted == sum(statistics.accepted)
    assert counts.a_step == pytest.approx(counts.accepted / counts.steps, abs=1e-4)
    assert counts.by_the_first_count < counts.a_step
    assert len(counts.by_position) == pipeline.max_draft


def test_texts_that_are_too_short_are_said_to_be(open_pipeline) -> None:
    pipeline = open_pipeline(file=unseen_code.ROOT / "examples/pipelines/mtp.yaml")
    with pytest.raises(RequestError, match="no step of texts of 2 tokens has 3 drafts"):
        unseen_code.counted(pipeline, PROMPTS, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--code", "/nowhere"], "/nowhere is no folder with Python files"),
        (["--set", "drafter=none"], "drafts nothing"),
        (["--set", "modle=x"], "unknown key; did you mean 'model'?"),
        (["--pipeline", "/nowhere.yaml"], "pipeline file not found"),
    ],
)
def test_what_cannot_be_measured_is_a_sentence(monkeypatch, capsys, tmp_path, arguments, message):
    (tmp_path / "a.py").write_text(CODE)
    common = ["--count", "2", "--tokens", "16", "--out", str(tmp_path / "out.json")]
    words = ["unseen_code.py", "--code", str(tmp_path), *common, *arguments]
    monkeypatch.setattr(sys, "argv", words)
    assert unseen_code.main() == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()


def test_a_whole_run(monkeypatch, capsys, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(CODE)
    out = tmp_path / "deep" / "out.json"
    words = ["--code", str(tmp_path), "--count", "2", "--tokens", "16", "24", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["unseen_code.py", *words])
    assert unseen_code.main() == 0
    record = json.loads(out.read_text())
    assert record["accepted"].keys() == {"16", "24"} == json.loads(capsys.readouterr().out).keys()
    assert record["settings"]["prompts"] == 2
