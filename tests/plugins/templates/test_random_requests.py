"""Native and jinja2 rendering agree on requests that nobody thought of."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from outrider import RequestError
from outrider_jinja.rendering import JinjaRenderer
from outrider_qwen.recognise import recognise
from outrider_qwen.rendering import NativeRenderer

from tests.plugins.templates.vectors import template_text

TEXT = st.one_of(
    st.sampled_from(
        ["", " padded \n", "<think>\nx\n</think>\n\ny", "</think>", "a</think>b</think>c",
         "<tool_response>\nr\n</tool_response>", "<tool_response> r", "\u00a0x\u3000", "<|im_end|>"]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
)  # fmt: skip
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
CONTENT = st.one_of(
    TEXT,
    st.none(),
    st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": TEXT}), max_size=3),
)
ARGUMENTS = st.one_of(st.dictionaries(TEXT, VALUE, max_size=3), st.none(), VALUE)
CALL = st.fixed_dictionaries(
    {
        "type": st.just("function"),
        "function": st.fixed_dictionaries(
            {"name": TEXT, "arguments": ARGUMENTS | ARGUMENTS.map(json.dumps)}
        ),
    }
)


def turn(role: str, **more: Any) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({"role": st.just(role), "content": CONTENT}, optional=more)


ASSISTANT = turn("assistant", reasoning_content=TEXT, tool_calls=st.lists(CALL, max_size=2))
SYSTEM = turn("system") | turn("developer")
TURNS = st.lists(st.one_of(turn("user"), ASSISTANT, turn("tool")), max_size=5)
MESSAGES = st.builds(
    lambda head, turns, late: [*head, *turns, *late],
    st.lists(SYSTEM, max_size=1) | st.lists(SYSTEM, max_size=2),
    TURNS,
    st.lists(turn("user"), max_size=1) | st.lists(SYSTEM, max_size=1),
)
TOOL = st.fixed_dictionaries(
    {
        "type": st.just("function"),
        "function": st.fixed_dictionaries(
            {"name": TEXT}, optional={"description": TEXT, "parameters": VALUE}
        ),
    }
)
FLAG = st.sampled_from([True, False, None, 0])
REQUEST = st.fixed_dictionaries(
    {"messages": MESSAGES},
    optional={
        "tools": st.lists(TOOL, max_size=2),
        "reasoning_effort": st.sampled_from(["low", "medium", "xhigh", "high", "none", "odd"]),
        "add_generation_prompt": st.booleans(),
        "chat_template_kwargs": st.fixed_dictionaries(
            {},
            optional={
                "enable_thinking": FLAG,
                "preserve_thinking": FLAG,
                "preserve_reasoning": FLAG,
                "reasoning_effort": st.sampled_from(["low", "medium", "xhigh", None]),
            },
        ),
    },
)


def outcome(renderer: Any, request: dict[str, Any]) -> Any:
    try:
        prompt = renderer.render(renderer.read(request))
    except RequestError:
        return None
    return prompt.text, prompt.history, prompt.thinking


@pytest.mark.parametrize("name", ["qwen3.5", "qwen3.6", "qwen3.8", "qwen3.8-unsloth"])
def test_native_is_jinja(name: str) -> None:
    text = template_text(name)
    dialect = recognise(text).dialect
    assert dialect is not None
    native, jinja = NativeRenderer(dialect), JinjaRenderer(text)

    @settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
    @given(REQUEST)
    def agree(request: dict[str, Any]) -> None:
        assert outcome(native, request) == outcome(jinja, request)

    agree()
