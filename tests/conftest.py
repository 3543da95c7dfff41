"""Fixtures of common use: the embedded model opened as pipelines, and a random-weight hybrid."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from outrider import Pipeline

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(__file__).resolve().parent / "data"
sys.path.insert(0, str(ROOT / "scripts"))

# llama.cpp's threads spin at barriers: on a busy two-core machine one thread is the reliable choice
THREADS = "engine.threads=1"

OpenPipeline = Callable[..., Pipeline]


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture
def open_pipeline() -> Iterator[OpenPipeline]:
    """Opens a pipeline from `--set` style overrides, and closes it after the test."""
    opened: list[Pipeline] = []

    def open_(
        *overrides: str, file: str | Path | None = None, model: str | None = None
    ) -> Pipeline:
        pipeline = Pipeline.load(file, model=model, overrides=[THREADS, *overrides]).open()
        opened.append(pipeline)
        return pipeline

    yield open_
    for pipeline in opened:
        pipeline.close()


@pytest.fixture(scope="session")
def plain() -> Iterator[Pipeline]:
    """Plain greedy decoding with the embedded model."""
    with Pipeline.load(overrides=[THREADS, "drafter.use=none"]).open() as pipeline:
        yield pipeline


@pytest.fixture(scope="session")
def hybrid_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny hybrid model with random weights whose recurrent state matters.

    With the usual small deviation of random test weights every wrong rollback looks exact; these
    have 0.6, with which two other tokens in the prefix move the logits by nmse 0.4. F32, because
    F16 kernels for one row and for several round so differently that it shows (nmse 5e-6).
    """
    path = tmp_path_factory.mktemp("models") / "tiny-hybrid.gguf"
    vocabulary = ROOT / "models" / "outrider-nano" / "outrider-nano-q8_0.gguf"
    command = [sys.executable, str(ROOT / "scripts" / "synth_gguf.py"), "target", str(path)]
    subprocess.run([*command, "--size", "tiny", "--f32", "--vocab", str(vocabulary)], check=True)
    return path
