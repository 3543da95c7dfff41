"""The accelerator run, as far as it can be tried without one."""

from __future__ import annotations

import argparse
import tarfile
from pathlib import Path

import gpu_bench
import pytest
import synth_gguf
import yaml


def bench(tmp_path: Path, **more) -> gpu_bench.Bench:
    options = argparse.Namespace(
        work=tmp_path / "work", packed=tmp_path / "pack", out=tmp_path / "out", size="tiny",
        cpu=False, vocab=None, llama_server=None, **more,
    )  # fmt: skip
    options.work.mkdir()
    return gpu_bench.Bench(options)


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


def test_an_earlier_build_is_unpacked_instead_of_made_anew(tmp_path: Path):
    (tmp_path / "pack" / "bin").mkdir(parents=True)
    (tmp_path / "pack" / "bin" / "llama-server").write_text("built")
    with tarfile.open(tmp_path / "pack" / "cuda.tar.xz", "w:xz") as archive:
        archive.add(tmp_path / "pack" / "bin", "bin")
    found = bench(tmp_path)
    found.build_library()
    assert found.server.read_text() == "built"
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
    assert len(rates) == max(k for _, _, k in gpu_bench.COMPARISONS.values())
    assert rates == sorted(rates, reverse=True)


def test_the_largest_geometry_has_the_state_that_was_measured():
    g = synth_gguf.SIZES["27b"]
    recurrent = g.n_layer - g.n_layer // 4
    state = g.gdn_v_heads * g.gdn_head_dim**2
    convolution = 3 * (2 * g.gdn_k_heads + g.gdn_v_heads) * g.gdn_head_dim
    assert 4 * recurrent * (state + convolution) / 1e6 == pytest.approx(157, abs=1)
