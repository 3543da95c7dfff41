"""The whole benchmark, small: real pipelines, real files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import ab_bench
import pytest

SMALL = ["--peers", "", "--runs", "1", "--per-family", "1", "--tokens", "12"]


def bench(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "scripts" / "ab_bench.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=220)


def test_two_pipelines_on_the_same_tokens(root: Path, tmp_path: Path):
    out = tmp_path / "run.json"
    families = ["--families", "structured,reasoning"]
    done = bench(root, "--pipelines", "plain,mtp", *SMALL, *families, "--out", str(out))
    assert done.returncode == 0, done.stderr
    record = json.loads(out.read_text())
    assert record["machine"]["commit"]
    assert record["machine"]["processor"]["cores"] >= 1
    assert set(record["prompts"]) == {"structured/tool-weather", "reasoning/eggs"}
    engines = record["engines"]
    assert set(engines) == {"outrider plain", "outrider mtp"}
    assert engines["outrider mtp"]["library"]
    assert engines["outrider mtp"]["models"]["outrider-nano-q8_0.gguf"]["blake2b"]
    for by_prompt in record["runs"]["greedy"].values():
        for entries in by_prompt.values():
            assert entries[0]["count"] == 12
            assert entries[0]["decode_ms"] > 0
    mtp = record["runs"]["greedy"]["outrider mtp"]["reasoning/eggs"][0]
    assert mtp["proposed"] >= mtp["accepted"] > 0
    assert set(mtp["draft_lengths"]) <= {"0", "1", "2", "3"}
    assert mtp["time"]["verify_ms"] > 0
    for found in record["divergences"]:
        assert found["gap"] is None or found["gap"] < 0.25
    assert "| outrider mtp |" in out.with_suffix(".md").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pipelines", "nothing", "--peers", ""], "there is no pipeline 'nothing'"),
        (["--pipelines", "plain", "--peers", "plain"], "--llama-server PATH is needed"),
        (["--pipelines", "", "--peers", ""], "nothing to measure"),
        (["--pipelines", "", "--peers", "", "--url", "x"], "expected NAME=http"),
    ],
)
def test_mistakes_are_named(root: Path, arguments: list[str], message: str):
    done = bench(root, *arguments)
    assert done.returncode != 0
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def options(monkeypatch: pytest.MonkeyPatch, *arguments: str):
    monkeypatch.setattr(sys, "argv", ["ab_bench", *arguments])
    return ab_bench._options()


def test_an_interrupted_run_says_how_to_go_on(monkeypatch, capsys, tmp_path: Path):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(ab_bench, "_run", interrupted)
    monkeypatch.setattr(sys, "argv", ["ab_bench.py", "--out", str(tmp_path / "run.json")])
    assert ab_bench.main() == 130
    assert f"--resume goes on with {tmp_path / 'run.json'}" in capsys.readouterr().err


def test_a_pipelines_own_settings_come_last(monkeypatch: pytest.MonkeyPatch):
    """So that they may name options of the sampler that the comparison asks for."""
    own = "sampler.of.device_top_k=off"
    found = options(
        monkeypatch, "--sampled", "--synthetic", "0.9", "--pipelines", f"mtp+{own},plain"
    )
    mtp, plain = ab_bench.pipelines(found)
    assert [text[:7] for text in mtp.overrides].count("sampler") == 2
    assert mtp.overrides[0].startswith("sampler={use: synthetic")
    assert mtp.overrides[-1] == own
    assert plain.overrides[0] == "sampler={use: rejection, temperature: 0}"


def test_flags_of_the_peer_modes(monkeypatch: pytest.MonkeyPatch):
    found = options(monkeypatch, "--synthetic", "0.9,0.8,0.7,0.6", "--drafter", "d.gguf")
    assert "--spec-type" not in ab_bench.peer_flags("plain", found)
    other = ab_bench.peer_flags("draft-mtp:2+flash-attn=off+no-warmup", found)
    assert other[other.index("--flash-attn") + 1] == "off"
    assert "--no-warmup" in other
    assert other[other.index("--spec-draft-n-max") + 1] == "2"
    mtp = ab_bench.peer_flags("draft-mtp:3", found)
    assert mtp[-6:] == [
        *("--spec-type", "draft-mtp", "--spec-draft-n-max", "3"),
        *("--spec-synth-rates", "0.9,0.8,0.7"),
    ]
    assert "d.gguf" in ab_bench.peer_flags("draft-dflash:2", found)
    with pytest.raises(SystemExit, match="unknown peer"):
        ab_bench.peer_flags("draft-crystal-ball", found)


@pytest.mark.skipif(
    "OUTRIDER_LLAMA_SERVER" not in os.environ,
    reason="OUTRIDER_LLAMA_SERVER names no llama-server (make bench builds one)",
)
def test_llama_server_is_started_measured_and_stopped(root: Path, tmp_path: Path):
    server = os.environ["OUTRIDER_LLAMA_SERVER"]
    out = tmp_path / "run.json"
    arguments = [
        *("--pipelines", "plain", "--peers", "plain,draft-mtp:3", "--llama-server", server),
        *("--runs", "1", "--per-family", "1", "--tokens", "24", "--families", "reasoning"),
    ]
    done = bench(root, *arguments, "--out", str(out))
    assert done.returncode == 0, done.stderr
    record = json.loads(out.read_text())
    runs = record["runs"]["greedy"]
    assert runs["llama-server draft-mtp:3"]["reasoning/eggs"][0]["proposed"] > 0
    assert runs["llama-server plain"]["reasoning/eggs"][0]["count"] == 24
