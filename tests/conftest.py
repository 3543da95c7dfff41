"""Fixtures of common use: the embedded model opened as pipelines, and a random-weight hybrid."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader, GGUFValueType, GGUFWriter
from hypothesis import settings
from outrider import Pipeline

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(__file__).resolve().parent / "data"
sys.path.insert(0, str(ROOT / "scripts"))

# how long an example takes says something about the machine, not about the code
# the same examples in every run of CI: what is found at random belongs into a run at a desk
settings.register_profile("outrider", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("outrider")

# llama.cpp's threads spin at barriers: on a busy two-core machine one thread is the reliable choice
THREADS = "engine.threads=1"

OpenPipeline = Callable[..., Pipeline]


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What is measured here belongs to nobody's next run."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("user-cache"))


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


@pytest.fixture(scope="session")
def dense_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny dense transformer (architecture `llama`, random weights) without an MTP head."""
    return write_dense_model(tmp_path_factory.mktemp("models") / "tiny-dense.gguf")


def write_dense_model(path: Path, width: int = 128, layers: int = 2, heads: int = 4) -> Path:
    """Write a dense model with the embedded model's vocabulary."""
    vocabulary = GGUFReader(str(ROOT / "models" / "outrider-nano" / "outrider-nano-q8_0.gguf"))
    writer = GGUFWriter(str(path), "llama")
    for key, field in vocabulary.fields.items():
        if key.startswith("tokenizer.ggml."):
            kind = field.types[0]
            element = field.types[-1] if kind == GGUFValueType.ARRAY else None
            writer.add_key_value(key, field.contents(), kind, sub_type=element)
    n_vocab = len(vocabulary.fields["tokenizer.ggml.tokens"].contents())
    writer.add_name("tiny-dense")
    writer.add_block_count(layers)
    writer.add_context_length(2048)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(2 * width)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(width // heads)
    rng = np.random.default_rng(1)

    def matrix(name: str, rows: int, columns: int) -> None:
        values = rng.standard_normal((rows, columns)) * 0.8 / np.sqrt(columns)
        writer.add_tensor(name, values.astype(np.float32))

    matrix("token_embd.weight", n_vocab, width)
    matrix("output.weight", n_vocab, width)
    writer.add_tensor("output_norm.weight", np.ones(width, np.float32))
    for i in range(layers):
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{i}.{name}.weight", np.ones(width, np.float32))
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            matrix(f"blk.{i}.{name}.weight", width, width)
        matrix(f"blk.{i}.ffn_gate.weight", 2 * width, width)
        matrix(f"blk.{i}.ffn_up.weight", 2 * width, width)
        matrix(f"blk.{i}.ffn_down.weight", width, 2 * width)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file(progress=False)
    writer.close()
    return path
