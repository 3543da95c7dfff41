"""The API front end: what is refused, in which words, and what is brought into form."""

from __future__ import annotations

import functools
import re
from typing import Any

import pytest
from outrider import RequestError
from outrider.chat import QWEN_EFFORTS, ChatRequest, ToolMode, map_effort, read_json

USER = {"role": "user", "content": "q"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def read(**body: Any) -> ChatRequest:
    return ChatRequest.read({"messages": [USER], **body}, efforts=QWEN_EFFORTS)


@pytest.mark.parametrize(
    ("asked", "level"),
    [("xhigh", "xhigh"), ("medium", "medium"), ("low", "low"), ("minimal", "low"),
     ("high", "xhigh"), ("max", "xhigh"), ("none", None)],
)  # fmt: skip
def test_known_efforts_are_mapped(asked: str, level: str | None) -> None:
    assert map_effort(asked, QWEN_EFFORTS) == level
    variables = read(reasoning_effort=asked).variables
    assert variables["enable_thinking"] is (level is not None)
    assert variables.get("reasoning_effort") == level


@pytest.mark.parametrize("asked", ["auto", "XHIGH", "extreme", "Low"])
def test_other_efforts_are_refused_naming_the_three_levels(asked: str) -> None:
    with pytest.raises(RequestError) as refusal:
        read(reasoning_effort=asked)
    assert all(level in str(refusal.value) for level in QWEN_EFFORTS)


def test_efforts_do_not_matter_while_thinking_is_off() -> None:
    off = {"enable_thinking": False}
    assert not read(reasoning_effort="auto", chat_template_kwargs=off).thinking


@pytest.mark.parametrize("effort", [None, 3, ""])
def test_an_effort_that_is_no_text_counts_as_none_given(effort: Any) -> None:
    assert "reasoning_effort" not in read(reasoning_effort=effort).variables


def test_a_template_without_efforts_is_given_what_was_asked() -> None:
    request = ChatRequest.read({"messages": [USER], "reasoning_effort": "high"})
    assert request.variables["reasoning_effort"] == "high"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"messages": None}, "'messages' is required"),
        ({"messages": "hi"}, "must be an array"),
        ({"messages": [7]}, r"messages\[0\] must be an object, got a number"),
        ({"messages": [{"content": "x"}]}, r"messages\[0\] has no 'role'"),
        ({"messages": [{"role": "user"}]}, "has no 'content'"),
        ({"messages": [{"role": "assistant"}, USER]}, "needs 'content' or 'tool_calls'"),
        ({"messages": [{"role": "user", "content": 7}]}, "must be a string or an array"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "image"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "text must be a string"),
        ({"messages": [USER, {"role": "assistant", "content": "", "reasoning_content": None}]},
         r"messages\[1\].reasoning_content must be a string, got null"),
        ({"tools": {"a": 1}}, "'tools' must be an array"),
        ({"tools": [{"function": {"name": "f"}}]}, r"tools\[0\].type must be 'function'"),
        ({"tools": [{"type": "function", "function": {}}]}, "has no 'name'"),
        ({"tool_choice": "sometimes"}, "'auto', 'none', 'required'"),
        ({"tools": [TOOL], "tool_choice": {"function": {"name": "g"}}}, "not among the tools"),
        ({"continue_final_message": True, "add_generation_prompt": False}, "assistant message"),
        ({"messages": [USER, {"role": "assistant", "content": "a"}],
          "continue_final_message": True}, "cannot both be true"),
        ({"messages": [USER, *[{"role": "assistant", "content": "a"}] * 2]}, "both the assistant"),
        ({"chat_template_kwargs": {"enable_thinking": "false"}}, "true or false"),
        ({"chat_template_kwargs": {"messages": ["x"]}}, "array of objects"),
        ({"chat_template_kwargs": {"tools": "x"}}, "array of objects"),
    ],
)  # fmt: skip
def test_a_bad_request_is_refused_with_the_reason(body: dict[str, Any], reason: str) -> None:
    with pytest.raises(RequestError, match=reason):
        read(**body)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "is empty"),
        (b"\xff\xfe", "not valid UTF-8: byte 0"),
        (b'{"a": 1', "line 1, column 8"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b'{"a": 1e999}', "out of range"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"\\udfff": 1}', "surrogate"),
        (b'{"a": 1} // c', "Extra data"),
        (b"[" * 100_000, "nested too deeply"),
        (b"9" * 5000, "not valid JSON"),
        (b"[1]", "must be a JSON object"),
    ],
)
def test_a_body_that_is_no_json_is_refused_with_the_place(body: bytes, reason: str) -> None:
    with pytest.raises(RequestError, match=reason):
        ChatRequest.read(body)


def test_json_is_read_exactly() -> None:
    assert read_json(b'\xef\xbb\xbf{"a": 1, "a": 2}') == {"a": 2}
    assert read_json('{"n": 36893488147419103232}') == {"n": 2**65}
    assert read_json('"\\ud83e\\udd86"') == "🦆"


def test_an_empty_last_assistant_message_starts_a_normal_answer() -> None:
    request = read(messages=[USER, {"role": "assistant", "content": ""}])
    assert request.generation_prompt
    assert request.continuation is None
    assert len(request.messages) == 1


def test_a_named_function_is_a_required_call() -> None:
    choice = read(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "f"}})
    assert (choice.tool_choice.mode, choice.tool_choice.name) == (ToolMode.REQUIRED, "f")


def test_odd_but_harmless_wishes_are_noted() -> None:
    assert any("ignored" in n for n in read(enable_thinking=False).notes)
    flag = {"preserve_thinking": "false"}
    assert any("neither true nor false" in n for n in read(chat_template_kwargs=flag).notes)


def _tools(*names, parameters=None):
    return [
        {"type": "function", "function": {"name": name, "parameters": parameters or {}}}
        for name in names
    ]


@pytest.mark.parametrize("name", ["", "a>b", "a\nb", "<f", " f", "f" * 257])
def test_a_name_that_cannot_stand_in_a_call_is_refused(name):
    with pytest.raises(RequestError, match=r"tools\[0\]\.function\.name is .*expected 1 to 256"):
        read(tools=_tools(name))


def test_a_call_cannot_be_demanded_without_tools():
    with pytest.raises(RequestError, match="tool_choice is 'required', but no tools were offered"):
        read(tool_choice="required")


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"type": 5}, "/type: 5 is not valid"),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}}, r"/properties/a/\$ref: '#/\$defs/b' leads"),
        ({"properties": {"a": {"$ref": "#/allOf/1"}}, "allOf": [{}]}, "'#/allOf/1' leads nowhere"),
        ([1], "expected an object, got array"),
        ({"a": {1}}, "it is not JSON"),
        ({"$schema": []}, "no JSON schema: "),
        (functools.reduce(lambda inner, _: {"not": inner}, range(400), {}), "nested too deeply"),
        (functools.reduce(lambda inner, _: {"x": inner}, range(99999), {}), "it is not JSON"),
    ],
)
def test_parameters_that_are_no_schema_are_noted(parameters, problem):
    [note] = read(tools=_tools("f", parameters=parameters)).notes
    assert "calls of 'f' cannot be checked: tools[0].function.parameters is no JSON" in note
    assert re.search(problem, note)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"$defs": {"a/b": {}}, "properties": {"a": {"$ref": "#/$defs/a~1b"}}},
        {"allOf": [{}], "properties": {"a": {"$ref": "#/allOf/0"}}},
        {"properties": {"$ref": {"type": "string"}, "a": {"const": {"$ref": "#/nowhere"}}}},
    ],
)
def test_parameters_that_are_a_schema_are_not(parameters):
    assert read(tools=_tools("f", parameters=parameters)).notes == ()


def test_two_functions_of_one_name_are_noted():
    [note] = read(tools=_tools("f", "g", "f")).notes
    assert note == "tools[2] has the name of tools[0], 'f'"
