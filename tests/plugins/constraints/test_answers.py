"""End to end with the embedded model: tools, budgets and schemas, under every drafter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import yaml
from outrider import Pipeline, RequestError
from outrider.chat import CallArguments, ContentDelta, ReasoningDelta

from tests.conftest import ROOT, THREADS, OpenPipeline

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "City name"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["city"],
        },
    },
}
STRICT_WEATHER = {
    "type": "function",
    "function": {
        **WEATHER["function"],
        "parameters": {**WEATHER["function"]["parameters"], "additionalProperties": False},
        "strict": True,
    },
}
QUESTION = [{"role": "user", "content": "What is the weather in Paris?"}]
SHORT = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Oslo"]}, "degrees": {"type": "integer"}},
    "required": ["city", "degrees"],
    "additionalProperties": False,
}
ARITHMETIC = [
    entry["request"]
    for entry in yaml.safe_load((ROOT / "scripts" / "prompts" / "reasoning.yaml").read_text())
]
DRAFTERS = {
    "none": ("drafter.use=none",),
    "suffix": ("drafter.use=suffix", "draft_length.k=5"),
    "mtp": ("drafter.use=mtp", "draft_length.k=3"),
    "dflash2": ("drafter.use=dflash2", "drafter.model=outrider-nano-dflash2", "draft_length.k=7"),
    "cascade": (),
}


@pytest.fixture(scope="module", params=DRAFTERS)
def pipeline(request: pytest.FixtureRequest) -> Iterator[Pipeline]:
    overrides = [THREADS, *DRAFTERS[request.param]]
    with Pipeline.load(overrides=overrides).open() as opened:
        yield opened


def test_a_tool_question_is_called_answered_and_told(pipeline: Pipeline) -> None:
    call = pipeline.chat(QUESTION, tools=[WEATHER], max_tokens=256)
    assert call.finish_reason == "tool_calls"
    assert call.message.violations == ()
    (made,) = call.message.tool_calls
    assert made.name == "get_weather"
    assert "Paris" in made.values()["city"]
    result = {
        "role": "tool",
        "tool_call_id": made.id,
        "content": '{"city": "Paris", "temperature": 18, "condition": "cloudy"}',
    }
    told = pipeline.chat(
        [*QUESTION, call.message.to_openai(), result], tools=[WEATHER], max_tokens=256
    )
    assert told.finish_reason == "stop"
    assert told.message.tool_calls == ()
    assert "18" in told.content


def test_a_tool_that_takes_nothing_else_is_called_so_or_the_call_is_named(
    pipeline: Pipeline,
) -> None:
    closed = {**WEATHER["function"]["parameters"], "additionalProperties": False}
    tool = {"type": "function", "function": {**WEATHER["function"], "parameters": closed}}
    call = pipeline.chat(QUESTION, tools=[tool], max_tokens=256)
    (made,) = call.message.tool_calls
    assert made.values()["city"] == "Paris"
    wrong = [
        e.validator for e in jsonschema.Draft202012Validator(closed).iter_errors(made.values())
    ]
    assert [v.rule for v in call.message.violations] == wrong


@pytest.mark.parametrize("wishes", [{}, {"reasoning": {"budget": 9}}], ids=["free", "budget"])
def test_deltas_put_together_are_the_message(pipeline: Pipeline, wishes: Any) -> None:
    deltas: list[Any] = []
    answer = pipeline.chat(
        QUESTION, tools=[WEATHER], max_tokens=256, on_delta=deltas.append, **wishes
    )
    said = dict.fromkeys((ReasoningDelta, ContentDelta, CallArguments), "")
    for delta in deltas:
        if type(delta) in said:
            said[type(delta)] += delta.text
    assert said[ReasoningDelta] == answer.reasoning_content
    assert said[ContentDelta] == answer.content
    assert said[CallArguments] == "".join(c.arguments for c in answer.message.tool_calls)
    assert len([d for d in deltas if isinstance(d, ReasoningDelta)]) > 1


@pytest.mark.parametrize("choice", ["required", {"function": {"name": "get_weather"}}])
def test_a_demanded_call_comes_whatever_was_said(pipeline: Pipeline, choice: Any) -> None:
    hello = [{"role": "user", "content": "Hello!"}]
    answer = pipeline.chat(
        hello,
        tools=[STRICT_WEATHER],
        tool_choice=choice,
        parallel_tool_calls=False,
        max_tokens=200,
        reasoning={"budget": 40, "min_answer_tokens": 120},
    )
    assert answer.finish_reason == "tool_calls"
    assert answer.message.violations == ()


def test_a_response_format_is_kept_behind_the_thinking(pipeline: Pipeline) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "w", "schema": SHORT, "strict": True}}
    for text in ("Paris, 21 degrees. Give me JSON.", "Write a story about Oslo.", "Hello!"):
        answer = pipeline.chat(
            [{"role": "user", "content": text}],
            response_format=form,
            max_tokens=200,
            reasoning={"budget": 60, "min_answer_tokens": 100},
        )
        jsonschema.validate(json.loads(answer.content), SHORT)


@pytest.mark.timeout(1200)
def test_a_budget_of_16_leaves_an_answer(pipeline: Pipeline) -> None:
    closing = len(pipeline.tokenize("\n</think>"))
    cut = 0
    for request in ARITHMETIC:
        free = pipeline.chat(**request, max_tokens=200)
        held = pipeline.chat(**request, max_tokens=200, reasoning={"budget": 16})
        assert held.content.strip(), request
        assert held.finish_reason == "stop"
        if free.usage.reasoning_tokens > 16 + closing:
            cut += 1
            assert held.usage.reasoning_tokens == 16 + closing
            assert free.reasoning_content.startswith(held.reasoning_content)
    assert cut > len(ARITHMETIC) / 2, "the model does not think long enough to be cut"


def test_a_budget_of_nothing_skips_the_thinking(pipeline: Pipeline) -> None:
    answer = pipeline.chat(**ARITHMETIC[0], max_tokens=100, reasoning={"budget": 0})
    assert answer.reasoning_content == ""
    assert answer.content.strip()


def test_the_answer_fits_below_max_tokens(pipeline: Pipeline) -> None:
    answer = pipeline.chat(
        **ARITHMETIC[3], max_tokens=48, reasoning={"budget": 1000, "min_answer_tokens": 24}
    )
    assert answer.content.strip()
    assert answer.usage.completion_tokens <= 48
    assert answer.usage.reasoning_tokens <= 48 - 24


def test_usage_counts_what_was_delivered(pipeline: Pipeline) -> None:
    for limit in (1, 2, 3, 5, 8, 13, 20):
        usage = pipeline.chat(**ARITHMETIC[0], max_tokens=limit).usage
        assert usage.reasoning_tokens <= usage.completion_tokens <= limit


@pytest.mark.timeout(1200)
def test_the_constrained_text_does_not_depend_on_the_drafter(open_pipeline: OpenPipeline) -> None:
    form = {"type": "json_object", "schema": SHORT}
    requests: list[dict[str, Any]] = [
        {**ARITHMETIC[1], "reasoning": {"budget": 16}},
        {"messages": QUESTION, "response_format": form, "reasoning": {"budget": 30}},
        {"messages": QUESTION, "tools": [STRICT_WEATHER], "tool_choice": "required"},
    ]
    texts: set[tuple[str, ...]] = set()
    for sampler in ("greedy", "rejection"):
        texts.clear()
        extra = () if sampler == "greedy" else ("sampler.temperature=0.7", "sampler.seed=3")
        for name, overrides in DRAFTERS.items():
            # Drafts that are drawn themselves are accepted by other draws than plain decoding's.
            fixed = ("drafter.sample=false",) if name == "dflash2" else ()
            pipeline = open_pipeline(f"sampler.use={sampler}", *extra, *overrides, *fixed)
            answers = [pipeline.chat(**r, max_tokens=200) for r in requests]
            texts.add(tuple(a.reasoning_content + "|" + a.content for a in answers))
        assert len(texts) == 1, (sampler, texts)


@pytest.mark.parametrize("drafter", ["mtp", "dflash2"])
def test_sampled_drafts_break_no_form(open_pipeline: OpenPipeline, drafter: str) -> None:
    """Drafts drawn from their own distribution, behind `</think>` in the same step included."""
    pipeline = open_pipeline(
        "sampler.use=rejection",
        "sampler.temperature=1.3",
        *DRAFTERS[drafter],
        "drafter.sample=true",
    )
    for seed in range(8):
        answer = pipeline.chat(
            QUESTION,
            response_format={"type": "json_object", "schema": SHORT},
            reasoning={"budget": 12, "min_answer_tokens": 100},
            max_tokens=200,
            seed=seed,
        )
        jsonschema.validate(json.loads(answer.content), SHORT)
    assert sum(pipeline.statistics.accepted) > 0


def test_forced_tokens_cost_no_target_call(open_pipeline: OpenPipeline) -> None:
    """A drafter that never proposes, in a pipeline that could verify eight drafts a step."""
    pipeline = open_pipeline("drafter.use=suffix", "drafter.min_match=64", "draft_length.k=8")
    pipeline.chat(**ARITHMETIC[0], max_tokens=64, reasoning={"budget": 16})
    closing = len(pipeline.tokenize("\n</think>\n\n"))
    statistics = pipeline.statistics
    assert statistics.drafters["constraint"].accepted == closing
    assert statistics.drafters["constraint"].proposed == closing
    assert statistics.emitted == statistics.steps + closing


def test_what_cannot_be_served_is_refused_before_anything_is_decoded(plain: Pipeline) -> None:
    for wrong in ({"max_tokens": 0}, {"stop": 7}, {"reasoning": {"budget": -1}}):
        with pytest.raises(RequestError):
            plain.chat(QUESTION, **wrong)
    assert plain.chat(QUESTION, max_tokens=4).finish_reason == "length"
