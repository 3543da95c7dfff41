"""Synthetic acceptance means what llama-server's `--spec-synth-rates` means."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from outrider import ConfigError, Pipeline, Request
from outrider_synthetic import Uniform, conditional

RATES = "rates: [0.9, 0.8, 0.7]"
MTP = ("drafter=mtp", "draft_length={use: fixed, k: 3}")
PROMPT = [*range(300, 340)]


def run(pipeline: Pipeline, seed: int, n: int = 64):
    request = Request(prompt=PROMPT, max_tokens=n, ignore_eog=True, sampling={"seed": seed})
    return pipeline.run(request)


def test_it_is_refused_where_the_bench_extra_is_not_installed(monkeypatch):
    overrides = [*MTP, f"sampler={{use: synthetic, {RATES}}}"]
    Pipeline.load(overrides=overrides)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"for benchmarks only.*pip install 'outrider\[bench\]'"):
        Pipeline.load(overrides=overrides)
    Pipeline.load(overrides=MTP)


def test_costs_of_more_rows_than_there_are_rates_can_be_measured(open_pipeline, tmp_path):
    length = f"draft_length={{use: measured, max: 3, padding: 2, folder: {tmp_path}}}"
    pipeline = open_pipeline("drafter=mtp", length, f"sampler={{use: synthetic, {RATES}}}")
    assert pipeline.generate("Hello", max_tokens=12).token_ids


def test_the_random_numbers_are_those_of_the_c_plus_plus_library():
    # std::mt19937 seeded with 5 through std::uniform_real_distribution<double>, libstdc++
    uniform = Uniform(5)
    assert [uniform.next() for _ in range(6)] == [
        pytest.approx(x, abs=1e-15)
        for x in (
            0.055180120799223235, 0.83132784019008565, 0.36373689542680959,
            0.97944499783185568, 0.089821034224799645, 0.3967366066322997,
        )
    ]  # fmt: skip


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=8).map(lambda r: sorted(r)[::-1]))
def test_conditional_probabilities_multiply_to_the_rates(rates):
    product = 1.0
    for rate, probability in zip(rates, conditional(rates), strict=True):
        product *= probability
        assert math.isclose(product, rate, rel_tol=1e-9)


def test_drafts_are_accepted_at_the_rates(open_pipeline):
    pipeline = open_pipeline(*MTP, f"sampler={{use: synthetic, {RATES}}}")
    proposed, accepted = [0, 0, 0], [0, 0, 0]
    for seed in range(40):
        run(pipeline, seed)
        for i in range(3):
            proposed[i] += pipeline.statistics.proposed[i]
            accepted[i] += pipeline.statistics.accepted[i]
    for i, rate in enumerate((0.9, 0.8, 0.7)):
        deviation = math.sqrt(rate * (1 - rate) / proposed[i])
        # a drafted end-of-generation token is never accepted, which takes a little away
        assert abs(accepted[i] / proposed[i] - rate) < 4 * deviation + 0.05


def test_one_seed_accepts_the_same_drafts(open_pipeline):
    pipeline = open_pipeline(*MTP, f"sampler={{use: synthetic, {RATES}}}")
    first, other, again = run(pipeline, 3), run(pipeline, 4), run(pipeline, 3)
    assert first.token_ids == again.token_ids
    assert first.stats["draft_lengths"] == again.stats["draft_lengths"]
    assert first.token_ids != other.token_ids or first.stats["steps"] != other.stats["steps"]


def test_an_end_of_generation_token_is_never_accepted(open_pipeline):
    pipeline = open_pipeline(*MTP, "sampler={use: synthetic, rates: [1, 1, 1]}")
    pipeline.sampler._eog = frozenset(range(pipeline.engine.target.n_vocab))
    assert run(pipeline, 1).stats["acceptance"] == 0.0


@pytest.mark.parametrize("inner", ["greedy", "{use: rejection, temperature: 0.7, top_k: 20}"])
def test_the_work_of_another_sampler_is_done_for_every_row(open_pipeline, inner):
    pipeline = open_pipeline(*MTP, f"sampler={{use: synthetic, {RATES}, of: {inner}}}")
    assert len(run(pipeline, 1).token_ids) == 64
    assert pipeline.sampler.greedy == (inner == "greedy")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("rates: []", "rates is empty"),
        ("rates: [0.5, 0.6]", "do not rise"),
        ("rates: [1.5]", "between 0 and 1"),
        ("rates: [.nan]", "expected a number"),
    ],
)
def test_unusable_rates_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        Pipeline.load(overrides=[f"sampler={{use: synthetic, {options}}}"])


def test_there_must_be_a_rate_for_every_draft(open_pipeline):
    with pytest.raises(ConfigError, match="has 2 values, but up to 3 tokens are drafted"):
        open_pipeline(*MTP, "sampler={use: synthetic, rates: [0.9, 0.8]}")
