"""The sampler experiments in `examples/samplers`."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from outrider import Pipeline, Request, Sequence
from outrider.native import RowSampler
from outrider.testing.contracts import SamplerContract

FOLDER = Path(__file__).parents[2] / "examples" / "samplers"


def example(name: str) -> Any:
    """The module of a one-file plugin."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestTopNSigma(SamplerContract):
    use = {"use": "top-n-sigma", "n": 2.0}
    offers = {"sampler": {"top-n-sigma": example("top_n_sigma").TopNSigmaSampler}}


class TestTypical(SamplerContract):
    use = "typical"
    offers = {"sampler": {"typical": example("typical").TypicalSampler}}
    exact = False


def test_typical_acceptance_does_not_pass_for_exact() -> None:
    class Claimed(TestTypical):
        exact = True

    with pytest.raises(AssertionError, match="other tokens are emitted than without"):
        Claimed().test_drafts_do_not_change_what_is_emitted()


PROMPT = "def read(path):\n    "


def run(pipeline: Pipeline, seed: int, tokens: int = 40) -> Sequence:
    request = Request(
        pipeline.tokenize(PROMPT), max_tokens=tokens, sampling={"seed": seed}, ignore_eog=True
    )
    sequence = pipeline.start(request)
    while sequence.finish is None:
        pipeline.step([sequence])
    return sequence


@pytest.fixture
def folder(root: Path) -> Path:
    return root / "examples" / "samplers"


def test_top_n_sigma_keeps_what_is_near_the_largest_logit(
    open_pipeline, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = open_pipeline("sampler.n=0.7", file=folder / "top_n_sigma.yaml")
    sample, checked = RowSampler.sample, 0

    def checking(self, row, options, **named):
        nonlocal checked
        ids, _ = self.distribution(row, options)
        wide = row.astype(np.float64)
        kept = np.flatnonzero(wide >= wide.max() - 0.7 * wide.std())
        assert abs(len(kept) - len(ids)) <= 1
        checked += len(kept) > 1
        return sample(self, row, options, **named)

    monkeypatch.setattr(RowSampler, "sample", checking)
    for seed in range(3):
        run(pipeline, seed)
    assert checked > 5


@pytest.mark.parametrize("name", ["top_n_sigma", "typical"])
def test_a_schema_is_held(open_pipeline, folder: Path, name: str) -> None:
    pipeline = open_pipeline(file=folder / f"{name}.yaml")
    schema = {
        "type": "object",
        "properties": {"number": {"type": "integer", "maximum": 9}, "ok": {"type": "boolean"}},
        "required": ["number", "ok"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    question = [{"role": "user", "content": "Give me a number."}]
    off = {"enable_thinking": False}
    for seed in range(4):
        answer = pipeline.chat(question, response_format=form, seed=seed, chat_template_kwargs=off)
        assert json.loads(answer.content).keys() == {"number", "ok"}


def test_top_n_sigma_gives_the_same_tokens_with_and_without_drafts(
    open_pipeline, folder: Path
) -> None:
    # tiled attention takes query rows one by one, so that a row is the same in every batch
    file, kernels = folder / "top_n_sigma.yaml", "engine.flash_attention=on"
    fast, plain = (
        open_pipeline(kernels, file=file),
        open_pipeline(kernels, "drafter=none", file=file),
    )
    same = sum(run(fast, seed).tokens == run(plain, seed).tokens for seed in range(6))
    assert same >= 5  # other kernels may still round a row differently
    assert sum(fast.statistics.accepted) > 0


def test_typical_acceptance_holds_more_drafts_and_says_that_it_is_lossy(
    open_pipeline, folder: Path
) -> None:
    lossy = open_pipeline(file=folder / "typical.yaml")
    exact = open_pipeline(file=folder / "exact.yaml")
    for seed in range(6):
        run(lossy, seed)
        run(exact, seed)
    told = lossy.sampler.statistics()
    assert "does not follow" in told["lossy"]
    assert told["verified"] >= told["held"] > told["held_by_an_exact_sampler_too"]
    rates = [sum(p.statistics.accepted) / sum(p.statistics.proposed) for p in (lossy, exact)]
    assert rates[0] > rates[1] + 0.1
