"""The `rejection` sampler with the embedded model: seeds, log-probabilities, distributions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from outrider import LogitsError, Pipeline, Request, Sequence
from outrider.native import RowSampler, SamplingOptions
from tv_distance import DRAFTERS, measure

OpenPipeline = Callable[..., Pipeline]

SETTINGS: dict[str, Any] = {"temperature": 0.8, "top_k": 20, "top_p": 0.95}
PROMPT = "x = x + 1\ny = y + 1\nz ="
PENALTIES = {"repetition_penalty": 1.1, "presence_penalty": 0.2, "frequency_penalty": 0.2}
TOKENS = 60


@pytest.fixture
def opened(open_pipeline: OpenPipeline) -> Callable[..., Pipeline]:
    """Opens a pipeline that samples, with a drafter of `tv_distance.DRAFTERS` or none."""

    def open_(drafter: str = "none", *overrides: str, k: int = 4) -> Pipeline:
        chosen = DRAFTERS.get(drafter, ["drafter.use=none"])
        return open_pipeline("sampler.use=rejection", f"draft_length.k={k}", *chosen, *overrides)

    return open_


def requested(pipeline: Pipeline, prompt: str = PROMPT, **settings: Any) -> Request:
    return Request(
        pipeline.tokenize(prompt),
        max_tokens=TOKENS,
        sampling={**SETTINGS, **settings},
        ignore_eog=True,
    )


def run(pipeline: Pipeline, request: Request) -> Sequence:
    sequence = pipeline.start(request)
    while sequence.finish is None:
        pipeline.step([sequence])
    return sequence


class Rows:
    """Remembers the row of logits that each position was drawn from."""

    def __init__(self, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
        self.by_position: dict[int, np.ndarray] = {}
        kernel: RowSampler = pipeline.sampler._kernel
        sample = kernel.sample

        def remembering(row: np.ndarray, *args: Any, **named: Any) -> int:
            self.by_position[named["position"]] = row.copy()
            return sample(row, *args, **named)

        monkeypatch.setattr(kernel, "sample", remembering)


def first_difference(a: list[int], b: list[int]) -> int | None:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y), None)


@pytest.mark.parametrize("drafter", ["suffix", "mtp"])
@pytest.mark.parametrize("extra", [{}, PENALTIES], ids=["plain", "penalties"])
def test_point_mass_drafts_give_the_tokens_of_plain_decoding(
    opened: Callable[..., Pipeline],
    monkeypatch: pytest.MonkeyPatch,
    drafter: str,
    extra: dict[str, float],
) -> None:
    """Tokens differ only from where llama.cpp computes a row differently in a larger batch."""
    plain, fast = opened(), opened(drafter)
    rows = Rows(plain, monkeypatch), Rows(fast, monkeypatch)
    compared = drafted = 0
    for seed in range(8):
        expected = run(plain, requested(plain, seed=seed, **extra)).tokens
        fast.reset_statistics()
        found = run(fast, requested(fast, seed=seed, **extra)).tokens
        drafted += sum(fast.statistics.accepted)
        at = first_difference(expected, found)
        compared += len(expected) if at is None else at
        if at is not None:
            a, b = (r.by_position[at] for r in rows)
            assert np.abs(a - b).max() > 0, f"seed {seed}: token {at} differs, its row does not"
            assert np.abs(a - b).max() < 1.0
    assert compared > 300
    assert drafted > 10


@pytest.mark.parametrize("drafter", ["none", *DRAFTERS])
def test_a_seed_reproduces_and_others_differ(opened: Callable[..., Pipeline], drafter: str) -> None:
    pipeline = opened(drafter)
    first = run(pipeline, requested(pipeline, seed=1)).tokens
    assert run(pipeline, requested(pipeline, seed=1)).tokens == first
    assert run(pipeline, requested(pipeline, seed=2)).tokens != first


@pytest.mark.parametrize("drafter", ["none", "suffix", "mtp", "mtp-sampled"])
def test_a_seed_reproduces_beside_other_sequences(
    opened: Callable[..., Pipeline], monkeypatch: pytest.MonkeyPatch, drafter: str
) -> None:
    alone, busy = opened(drafter), opened(drafter, "max_sequences=4")
    expected = run(alone, requested(alone, seed=7)).tokens
    others = [busy.start(requested(busy, f"def {name}(", seed=i)) for i, name in enumerate("abc")]
    sequence = busy.start(requested(busy, seed=7))
    while sequence.finish is None:
        busy.step([s for s in (*others, sequence) if s.finish is None])
    at = first_difference(expected, sequence.tokens)
    assert at is None or at - sequence.prompt_length > TOKENS // 3, at


@pytest.mark.parametrize("drafter", ["suffix", "mtp", "mtp-sampled"])
def test_log_probabilities_are_those_of_the_rows_that_were_drawn_from(
    opened: Callable[..., Pipeline], monkeypatch: pytest.MonkeyPatch, drafter: str
) -> None:
    pipeline = opened(drafter)
    target, rows = pipeline.engine.target, []
    logits = target.logits

    def remembering(row: int) -> np.ndarray:
        rows.append(logits(row).copy())
        return logits(row)

    monkeypatch.setattr(target, "logits", remembering)
    sequence = run(pipeline, requested(pipeline, seed=3, logprobs=3, temperature=1.2))
    emitted = sequence.tokens[sequence.prompt_length :]
    assert [entry.token for entry in sequence.logprobs] == emitted
    kernel, read = RowSampler(target.n_vocab), iter(rows)
    for entry in sequence.logprobs:
        assert len(entry.top) == 3
        assert entry.top[0][1] >= entry.logprob - 1e-6
        assert any(
            (again.chosen, list(zip(again.ids, again.values, strict=True)))
            == (entry.logprob, list(entry.top))
            for again in (kernel.log_probs(row, entry.token, 3) for row in read)
        )


@pytest.mark.parametrize(
    ("drafter", "quantised", "usual", "most"),
    [
        ("mtp", False, 1e-5, 1e-3),
        ("mtp-sampled", False, 1e-5, 1e-3),
        ("suffix", True, 1e-2, 0.5),
        ("mtp", True, 1e-2, 0.5),
        ("mtp-sampled", True, 1e-2, 0.5),
    ],
)
def test_log_probabilities_equal_those_of_plain_decoding(
    open_pipeline: OpenPipeline,
    hybrid_model: Path,
    drafter: str,
    quantised: bool,
    usual: float,
    most: float,
) -> None:
    """Quantised rows may round differently in larger batches, and so do all that follow them."""
    model = None if quantised else str(hybrid_model)
    common = ["sampler.use=rejection", "draft_length.k=4"]
    pipeline = open_pipeline(*common, *DRAFTERS[drafter], model=model)
    sequence = run(pipeline, requested(pipeline, seed=3, logprobs=1, temperature=1.2))
    assert sum(pipeline.statistics.proposed) > 10
    target = open_pipeline(*common, "drafter.use=none", model=model).engine.target
    target.need_logits(0, True)
    kernel, gaps = RowSampler(target.n_vocab), []
    for i, token in enumerate(sequence.tokens[:-1]):
        target.batch.clear()
        target.batch.add(token, i, 0, True)
        target.decode()
        if i + 1 >= sequence.prompt_length:
            entry = sequence.logprobs[i + 1 - sequence.prompt_length]
            gaps.append(abs(entry.logprob - kernel.log_probs(target.logits(0), entry.token).chosen))
    assert np.median(gaps) <= usual
    assert max(gaps) < most


@pytest.mark.parametrize("drafter", ["none", "mtp"])
def test_rows_ranked_by_the_device_give_the_same_tokens(
    opened: Callable[..., Pipeline], drafter: str
) -> None:
    whole, ranked = opened(drafter), opened(drafter, "sampler.device_top_k=on")
    for seed in range(3):
        expected = run(whole, requested(whole, seed=seed)).tokens
        assert run(ranked, requested(ranked, seed=seed)).tokens == expected
    assert set(whole.sampler.statistics()["rows"]) == {"logits"}
    assert set(ranked.sampler.statistics()["rows"]) == {"device_top_k"}
    # a request that needs whole rows gets them, and the next one is ranked again
    before = run(ranked, requested(ranked, seed=9)).tokens
    seen = run(ranked, requested(ranked, seed=9, logprobs=1))
    assert seen.tokens == before
    assert "logits" in ranked.sampler.statistics()["rows"]


def test_temperature_zero_is_greedy_decoding(
    opened: Callable[..., Pipeline], open_pipeline: OpenPipeline
) -> None:
    sampled = opened("mtp", "sampler.temperature=0")
    greedy = open_pipeline("drafter.use=mtp", "draft_length.k=4")
    prompt = greedy.tokenize(PROMPT)
    expected = run(greedy, Request(prompt, max_tokens=TOKENS, ignore_eog=True)).tokens
    found = run(sampled, Request(prompt, max_tokens=TOKENS, ignore_eog=True)).tokens
    assert found == expected
    warm = requested(sampled, seed=1)
    assert run(sampled, warm).tokens != expected
    assert run(sampled, Request(prompt, max_tokens=TOKENS, ignore_eog=True)).tokens == expected


def test_a_banned_token_never_appears_although_drafters_propose_it(
    opened: Callable[..., Pipeline],
) -> None:
    pipeline = opened("mtp")
    free = run(pipeline, requested(pipeline, seed=1))
    banned, times = Counter(free.tokens[free.prompt_length :]).most_common(1)[0]
    assert times > 3
    for seed in range(4):
        kept = run(pipeline, requested(pipeline, seed=seed, logit_bias={banned: -100.0}))
        assert banned not in kept.tokens[kept.prompt_length :]


@pytest.mark.timeout(900)
def test_sampling_through_drafts_cannot_be_told_from_plain_sampling() -> None:
    found = measure(600, list(DRAFTERS), 3, {"temperature": 1.0, "top_k": 4})
    limit = 1.3 * found["noise_floor"] + 0.03
    assert found["wrong"] > 1.5 * limit, found
    for name, distance in found["pipelines"].items():
        assert distance < limit, (name, found)


def test_the_distribution_that_drafts_are_drawn_from_is_the_heads(
    opened: Callable[..., Pipeline],
) -> None:
    pipeline = opened("mtp-sampled")
    sequence = pipeline.start(requested(pipeline, seed=1))
    draft = pipeline.drafter.propose([sequence], [1])[0]
    assert draft.q is not None
    head = pipeline.drafter._context.logits(pipeline.drafter._context.batch.size - 1)
    options = SamplingOptions(**SETTINGS)
    ids, probs = RowSampler(len(head)).distribution(head, options)
    np.testing.assert_array_equal(draft.q[0].ids, ids)
    np.testing.assert_array_equal(draft.q[0].probs, probs)


@pytest.fixture(scope="module")
def broken_model(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded model with NaN in its last norm: every logit is NaN."""
    gguf = pytest.importorskip("gguf")
    source = root / "models" / "outrider-nano" / "outrider-nano-q8_0.gguf"
    path = tmp_path_factory.mktemp("models") / "broken.gguf"
    data = bytearray(source.read_bytes())
    norm = next(t for t in gguf.GGUFReader(source).tensors if t.name == "output_norm.weight")
    start, size = int(norm.data_offset), int(norm.n_bytes)
    data[start : start + size] = np.full(size // 4, np.nan, np.float32).tobytes()
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "sampler",
    [
        "greedy",
        "rejection",
        "{use: rejection, temperature: 0}",
        "{use: rejection, top_k: 5, device_top_k: 'on'}",
    ],
)
def test_a_model_that_computes_nan_is_an_error_that_names_the_position(
    open_pipeline: OpenPipeline, broken_model: Path, sampler: str
) -> None:
    pipeline = open_pipeline(f"sampler={sampler}", "drafter=none", model=str(broken_model))
    prompt = pipeline.tokenize(PROMPT)
    with pytest.raises(LogitsError, match=f"position {len(prompt)}: the logits contain NaN"):
        pipeline.generate(prompt, max_tokens=4)


def test_every_emitted_token_took_exactly_one_draw(opened: Callable[..., Pipeline]) -> None:
    pipeline = opened("mtp", "sampler.repetition_penalty=1.1")
    emitted = sum(run(pipeline, requested(pipeline, seed=s)).generated for s in range(3))
    drawn = sum(pipeline.sampler.statistics()["rows"].values())
    # the last step of a request may have drawn tokens that no longer fitted
    assert emitted <= drawn <= emitted + 3 * 4
