"""The floor of a step is measured, or one sentence says why not."""

from __future__ import annotations

import json
import sys

import step_floor


def run(monkeypatch, tmp_path, model):
    out = tmp_path / "new" / "floor.json"
    arguments = ["--model", model, "--threads", "1", "--tokens", "40", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["step_floor.py", *arguments])
    return step_floor.main(), out


def test_a_step_costs_about_what_its_decodes_cost(monkeypatch, tmp_path):
    status, out = run(monkeypatch, tmp_path, "outrider-nano")
    assert status == 0
    found = json.loads(out.read_text())
    apart, loop = found["apart"], found["in the loop, mtp"]
    decodes = sum(apart["target, 4 rows"].values()) + 3 * sum(apart["head, 1 rows"].values())
    inside = loop["target: submit"] + loop["target: wait"]
    assert 0 < inside < loop["step"] < 5 * decodes
    assert loop["target: submit"] > loop["drafter: submit"] > 0
    assert found["settings"]["model"] == "outrider-nano"


def test_a_model_that_is_not_there_is_one_sentence(monkeypatch, tmp_path, capsys):
    status, out = run(monkeypatch, tmp_path, "missing.gguf")
    assert status == 1
    assert not out.exists()
    said = capsys.readouterr().err
    assert "missing.gguf" in said
    assert "Traceback" not in said
