"""The engine's edges: what llama.cpp would abort on, and what it must refuse to load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from outrider import ConfigError, EngineError, ModelError, Pipeline
from outrider.engine import declarations, library
from outrider.engine.gguf import read_model_info
from outrider.errors import LibraryError

from tests.conftest import ROOT, THREADS

NANO = ROOT / "models" / "outrider-nano" / "outrider-nano-q8_0.gguf"


def test_the_header_tells_what_a_model_is():
    info = read_model_info(NANO)
    assert (info.architecture, info.n_layer, info.n_layer_nextn) == ("qwen35", 8, 1)
    assert (info.n_embd, info.n_vocab, info.recurrent) == (384, 8192, True)
    assert info.chat_template
    assert "token_embd.weight" in info.tensors


@pytest.mark.parametrize("share", [0.001, 0.01, 0.5, 0.999])
def test_a_truncated_file_is_named_truncated(tmp_path: Path, share: float):
    data = NANO.read_bytes()
    path = tmp_path / "cut.gguf"
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ModelError, match=r"cut\.gguf.*truncated"):
        read_model_info(path)


def test_other_files_are_no_models(tmp_path: Path):
    text = tmp_path / "notes.gguf"
    text.write_text("not a model")
    with pytest.raises(ModelError, match="not a GGUF file"):
        read_model_info(text)
    with pytest.raises(ModelError, match="is a folder"):
        read_model_info(tmp_path)
    with pytest.raises(ModelError, match="not found"):
        read_model_info(tmp_path / "nothing.gguf")


def test_more_outputs_than_reserved_are_an_error_not_an_abort(open_pipeline):
    target = open_pipeline("drafter.use=suffix").engine.target
    target.batch.clear()
    target.batch.extend(range(300, 330), 0, 0, True)
    with pytest.raises(EngineError, match="30 output rows were asked for, 4 are reserved"):
        target.decode()


def test_a_small_ubatch_is_an_error_not_an_abort():
    pipeline = Pipeline.load(
        overrides=[THREADS, "drafter.use=suffix", "draft_length.k=4", "engine.ubatch=4"]
    )
    with pytest.raises(ConfigError, match=r"engine\.ubatch is 4.*set engine\.ubatch to at least 6"):
        pipeline.open()


@pytest.mark.parametrize("key", ["ubatch", "batch", "context"])
@pytest.mark.parametrize("value", [1, 4, 5])
def test_whatever_bounds_a_batch_is_named(key, value):
    pipeline = Pipeline.load(
        overrides=[THREADS, "drafter.use=suffix", "draft_length.k=4", f"engine.{key}={value}"]
    )
    with pytest.raises(
        ConfigError, match=rf"engine\.{key} is {value}.*engine\.{key} to at least 6"
    ):
        pipeline.open()


@pytest.mark.parametrize("key", ["context=-5", "batch=0", "ubatch=-1", "threads=0", "batch=1e30"])
def test_numbers_that_llama_cpp_cannot_take_are_found_before_loading(key):
    with pytest.raises(ConfigError, match=f"engine.{key.partition('=')[0]}"):
        Pipeline.load(overrides=[f"engine.{key}"])


def test_an_unknown_device_names_the_devices_there_are():
    pipeline = Pipeline.load(overrides=["drafter.use=none", "engine.devices=[CUDA9]"])
    with pytest.raises(ConfigError, match=r"no device 'CUDA9'; there are: .*CPU"):
        pipeline.open()


def test_positions_that_do_not_follow_are_an_error(open_pipeline):
    target = open_pipeline("drafter.use=none").engine.target
    target.batch.clear()
    target.batch.extend([300, 301], 7, 0)
    target.decode()
    target.batch.clear()
    target.batch.extend([302], 3, 0)
    with pytest.raises(EngineError, match="decoding 1 rows failed"):
        target.decode()
    target.clear()


def test_a_state_that_does_not_fit_leaves_the_sequence_empty(open_pipeline):
    target = open_pipeline("drafter.use=none").engine.target
    target.batch.clear()
    target.batch.extend(range(300, 310), 0, 0)
    target.decode()
    state = target.save(0)
    with pytest.raises(EngineError, match="does not fit"):
        target.load(0, state[: len(state) // 2])
    assert target.length(0) == 0
    target.load(0, state)
    assert target.length(0) == 10


def test_logits_and_argmax_agree(open_pipeline):
    target = open_pipeline("drafter.use=none").engine.target
    rng = np.random.default_rng(0)
    for _ in range(5):
        tokens = rng.integers(300, 7000, 12).tolist()
        answers = []
        for needed in (True, False):
            target.clear()
            target.need_logits(0, needed)
            target.batch.clear()
            row = target.batch.extend(tokens, 0, 0) + len(tokens) - 1
            target.batch.outputs[row] = 1
            target.decode()
            answers.append(int(np.argmax(target.logits(row))) if needed else target.argmax(row))
        assert answers[0] == answers[1]
    target.clear()


def test_a_library_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(declarations, "LLAMA_VERSION", "9.9.9")
    with pytest.raises(LibraryError, match=r"does not match.*expected llama\.cpp 9\.9\.9"):
        library.Library(library.find_library())


def test_a_missing_library_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("OUTRIDER_LIBLLAMA", str(tmp_path / "libnothing.so"))
    with pytest.raises(LibraryError, match="OUTRIDER_LIBLLAMA names"):
        library.find_library()


def test_a_file_that_is_no_library_is_refused(tmp_path: Path):
    fake = tmp_path / "libllama.so"
    fake.write_bytes(b"\x7fELF nonsense")
    with pytest.raises(LibraryError, match=r"cannot load the llama\.cpp library"):
        library.Library(fake)


def test_llama_cpp_is_quiet_by_default():
    code = (
        "from outrider import Pipeline;"
        "Pipeline.load(overrides=['engine.threads=1', 'drafter.use=none']).open().close()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert done.stderr == ""


def test_loading_reports_progress():
    seen: list[float] = []
    pipeline = Pipeline.load(overrides=[THREADS, "drafter.use=none"])
    with pipeline.open(seen.append):
        assert seen
        assert seen == sorted(seen)
        assert seen[-1] == 1.0


def test_pieces_put_together_are_the_text(plain: Pipeline):
    text = "naïve façade — 日本語 🙂 <think>x</think>\n\tdef f(): pass"
    vocabulary = plain.engine.vocabulary
    tokens = vocabulary.tokenize(text)
    assert vocabulary.detokenize(tokens).decode() == text
    assert plain.engine.vocabulary.tokenize("<|im_end|>", special=True)[0] in vocabulary.eog
