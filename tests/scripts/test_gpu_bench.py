"""The accelerator run, as far as it can be tried without one."""

from __future__ import annotations

import argparse
import sys
import tarfile
import time
from pathlib import Path

import gpu_bench
import pytest
import synth_gguf
import yaml


def bench(tmp_path: Path, limit: float | None = None) -> gpu_bench.Bench:
    options = argparse.Namespace(
        work=tmp_path / "work",
        packed=tmp_path / "pack",
        out=tmp_path / "out",
        size="tiny",
        cpu=False,
        vocab=None,
        llama_server=None,
        limit=limit,
    )
    options.work.mkdir()
    return gpu_bench.Bench(options)


def pack(folder: Path) -> None:
    """A packed build and a source, as far as unpacking them goes."""
    (folder / "bin").mkdir(parents=True)
    server = folder / "bin" / "llama-server"
    server.write_text("#!/bin/sh\necho version\n")
    server.chmod(0o755)
    (folder / "library.txt").write_text("source")
    for name, inside in (("cuda", "bin"), ("llama-source", "library.txt")):
        with tarfile.open(folder / f"{name}.tar.xz", "w:xz") as archive:
            archive.add(folder / inside, inside)


def test_everything_the_package_needs_travels_or_is_there():
    needed = set(gpu_bench.requirements("outrider"))
    assert {"attrs", "cattrs", "cffi", "pycparser", "numpy", "pyyaml"} <= needed
    assert "matplotlib" not in needed  # an extra


def test_pipelines_of_the_run_name_the_synthetic_models(tmp_path: Path):
    found = bench(tmp_path)
    document = yaml.safe_load(found.pipeline("dflash2").read_text())
    assert document["model"] == str(found.target)
    assert document["drafter"]["model"] == str(found.drafter)
    assert yaml.safe_load(found.pipeline("mtp").read_text())["drafter"] == "mtp"


def test_workers_find_the_library_and_the_commit_that_were_packed(tmp_path: Path):
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "commit").write_text("abc123+\n")
    found = bench(tmp_path).environment
    assert found["OUTRIDER_LIBLLAMA"].endswith("work/cuda/bin/libllama.so")
    assert found["OUTRIDER_COMMIT"] == "abc123+"
    assert found["PYTHONPATH"].startswith(str(tmp_path / "work" / "site"))


def test_workers_look_for_libraries_beside_the_server(tmp_path: Path):
    found = bench(tmp_path)
    assert found.environment["LD_LIBRARY_PATH"].startswith(str(found.server.parent))


def test_a_failing_measurement_does_not_keep_the_others_from_being_made(tmp_path: Path):
    found, made = bench(tmp_path), []

    def measure(name: str) -> None:
        made.append(name)
        if name == "b":
            raise gpu_bench.StepError("no")

    with pytest.raises(gpu_bench.StepError, match="1 of its measurements failed"):
        found.every(measure, "abc")
    assert made == ["a", "b", "c"]


@pytest.mark.parametrize("step", ["install", "build_library"])
def test_without_a_pack_the_step_says_what_to_do(tmp_path: Path, step: str):
    with pytest.raises(gpu_bench.StepError, match=r"gpu_bench\.py pack"):
        getattr(bench(tmp_path), step)()


def test_a_failing_command_is_named(tmp_path: Path):
    with pytest.raises(gpu_bench.StepError, match="false ended with status 1"):
        bench(tmp_path).run(["false"])


def test_only_raw_json_is_collected(tmp_path: Path):
    found = bench(tmp_path)
    found.results.mkdir()
    for name in ("plain.json", "plain.md", "plain.png"):
        (found.results / name).write_text("{}")
    found.collect()
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["plain.json"]


def test_there_is_a_rate_for_every_draft_of_every_comparison():
    rates = [float(rate) for rate in gpu_bench.RATES.split(",")]
    assert len(rates) == max(k for *_, k in gpu_bench.COMPARISONS.values())
    assert rates == sorted(rates, reverse=True)


def test_the_largest_geometry_has_the_state_that_was_measured():
    g = synth_gguf.SIZES["27b"]
    recurrent = g.n_layer - g.n_layer // 4
    state = g.gdn_v_heads * g.gdn_head_dim**2
    convolution = 3 * (2 * g.gdn_k_heads + g.gdn_v_heads) * g.gdn_head_dim
    assert 4 * recurrent * (state + convolution) / 1e6 == pytest.approx(157, abs=1)


def test_what_outlasts_the_limit_is_ended_with_all_it_started(tmp_path: Path):
    found = bench(tmp_path, limit=0.5)
    marker = tmp_path / "late"
    with pytest.raises(gpu_bench.TimeOverError, match="was stopped after"):
        found.run(["bash", "-c", f"(sleep 1.5; touch {marker}) & wait"])
    time.sleep(1.5)
    assert not marker.exists()


def test_when_the_time_is_over_measurements_are_left_out(tmp_path: Path, capsys):
    found, made = bench(tmp_path, limit=gpu_bench.LEAST - 1), []
    found.every(made.append, "ab")
    assert made == []
    assert "b left out: the time is over" in capsys.readouterr().out


def test_a_stopped_measurement_is_no_failure_and_its_file_is_kept(tmp_path: Path):
    found = bench(tmp_path)
    found.results.mkdir()

    def measure(name: str) -> None:
        (found.results / f"{name}.json").write_text("{}")
        raise gpu_bench.TimeOverError("over")

    found.every(measure, "a")
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["a.json"]


@pytest.mark.parametrize("loads", [True, False])
def test_a_packed_build_that_does_not_load_is_made_anew(tmp_path: Path, monkeypatch, loads: bool):
    pack(tmp_path / "pack")
    found, commands = bench(tmp_path), []
    run = found.run

    def watched(command, **how):
        commands.append(command[0])
        if command[0] == "bash":
            return ""
        if command[0] == sys.executable and loads:
            return ""
        return run(command, **how)

    monkeypatch.setattr(found, "run", watched)
    found.build_library()
    assert (found.build / ".linked").exists() == loads
    assert found.server.exists() == loads
    assert commands[-1] == "bash", "the build script, which does nothing where all is there"


def test_variants_of_a_pipeline_share_one_comparison():
    _, variants, peer, k = gpu_bench.COMPARISONS["dflash2-k7"]
    assert len(variants) == 2
    assert (peer, k) == ("draft-dflash:7", 7)
    assert "draft_length.rows=9" in variants[1]
