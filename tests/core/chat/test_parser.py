"""Reading answers: every recorded case, however it is cut, and what must hold for any text."""

from __future__ import annotations

import codecs
import json
import random
from collections.abc import Iterable
from typing import Any

import pytest
from outrider.chat import (
    AnswerParser,
    CallArguments,
    CallFinished,
    CallStarted,
    ChatRequest,
    ContentDelta,
    Message,
    ReasoningDelta,
)

from tests.plugins.templates.vectors import read_records

CASES = read_records("toolcall-cases")
CUTS = {
    "whole": lambda case: [case["text"]],
    "given chunks": lambda case: case["chunks"],
    "characters": lambda case: list(case["text"]),
    "threes": lambda case: [case["text"][i : i + 3] for i in range(0, len(case["text"]), 3)],
    "fifties": lambda case: [case["text"][i : i + 50] for i in range(0, len(case["text"]), 50)],
}


def parser_for(request: dict[str, Any]) -> AnswerParser:
    body = {"messages": [{"role": "user", "content": "?"}], **request}
    chat = ChatRequest.read({k: v for k, v in body.items() if k != "enable_thinking"})
    return AnswerParser(
        chat.tools,
        thinking=request.get("enable_thinking", False),
        tool_choice=chat.tool_choice,
        parallel_tool_calls=chat.parallel_tool_calls,
        call_id=lambda index: f"call_{index}",
    )


class Client:
    """Puts deltas together as a client does, and checks that none is out of order."""

    def __init__(self) -> None:
        self.reasoning = ""
        self.content = ""
        self.calls: dict[int, tuple[str, str]] = {}
        self.finished: set[int] = set()

    def receive(self, deltas: Iterable[Any]) -> None:
        for delta in deltas:
            match delta:
                case ReasoningDelta(text):
                    assert text
                    self.reasoning += text
                case ContentDelta(text):
                    assert text
                    self.content += text
                case CallStarted(index, _, name):
                    assert index == len(self.calls)
                    self.calls[index] = (name, "")
                case CallArguments(index, text):
                    assert index not in self.finished
                    name, so_far = self.calls[index]
                    self.calls[index] = (name, so_far + text)
                case CallFinished(call, _):
                    self.finished.add(call.index)
                    assert self.calls[call.index] == (call.name, call.arguments)


def read(request: dict[str, Any], chunks: Iterable[str]) -> tuple[Message, Client]:
    parser, client = parser_for(request), Client()
    for chunk in chunks:
        client.receive(parser.feed(chunk))
    client.receive(parser.finish())
    message = parser.message
    assert client.reasoning == message.reasoning_content
    assert client.content == message.content
    assert client.finished == {c.index for c in message.tool_calls}
    for call in message.tool_calls:
        assert isinstance(json.loads(call.arguments), dict)
    return message, client


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c["id"])
def test_case(case: dict[str, Any], cut: str) -> None:
    message, _ = read(case["request"], CUTS[cut](case))
    calls = [{"name": c.name, "arguments": json.loads(c.arguments)} for c in message.tool_calls]
    if "expected" in case:
        assert_expected(case, message, calls)
    else:
        assert_accepted(case, message, calls)


def assert_expected(case: dict[str, Any], message: Message, calls: list[Any]) -> None:
    expected = case["expected"]
    assert calls == expected["tool_calls"]
    for field in ("content", "reasoning_content"):
        got, wanted = getattr(message, field).strip(), expected[field].strip()
        match case["compare"][field]:
            case "strip":
                assert got == wanted
            case "contains":
                assert wanted in got
            case how:
                assert how == "ignore"
    found = [{"call": v.call, "path": v.path, "rule": v.rule} for v in message.violations]
    assert found == case["validation"]["errors"]


def assert_accepted(case: dict[str, Any], message: Message, calls: list[Any]) -> None:
    accept = case["accept"]
    text = squeezed(case["text"])
    if isinstance(accept, list):
        assert len(calls) == 1
        assert calls[0]["arguments"] in accept
    elif accept in ("call-or-content", "no-call"):
        if not calls or accept == "no-call":
            assert calls == []
            assert squeezed(message.reasoning_content + message.content) == text
        else:
            assert len(calls) == 1
    elif accept in ("first-call", "first-call-at-least"):
        assert calls[0]["name"] in text
        assert accept == "first-call-at-least" or len(calls) == 1
    else:
        assert accept == "partial"
        finished = case["text"].count("</function>")
        assert len(calls) == finished
        if message.unfinished is not None:
            with pytest.raises(json.JSONDecodeError):
                json.loads(message.unfinished.arguments)


def squeezed(text: str) -> str:
    """A text without white space and without the tags that are only structure."""
    for tag in ("<think>", "</think>", "</tool_call>"):
        text = text.replace(tag, "")
    return "".join(text.split())


TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "ping", "parameters": {"type": "object"}}},
    {
        "type": "function",
        "function": {
            "name": "note",
            "parameters": {
                "type": "object",
                "properties": {
                    "a": {"type": "string"},
                    "b": {"type": "integer"},
                    "c": {"type": ["array", "null"]},
                    "d": {},
                },
                "required": ["a"],
            },
        },
    },
]


def call(name: str, **arguments: str) -> str:
    inner = "".join(f"<parameter={k}>\n{v}\n</parameter>\n" for k, v in arguments.items())
    return f"<tool_call>\n<function={name}>\n{inner}</function>\n</tool_call>"


def answer(text: str, *, thinking: bool = False, tools: Any = TOOLS, **request: Any) -> Message:
    body = {"tools": tools, "enable_thinking": thinking, **request}
    whole, _ = read(body, [text])
    split, _ = read(body, text)
    assert whole == split
    return whole


def arguments(message: Message) -> list[Any]:
    return [json.loads(c.arguments) for c in message.tool_calls]


@pytest.mark.timeout(1200)  # half a minute on a free machine
def test_100_000_random_byte_streams_lose_nothing_and_raise_nothing() -> None:
    pieces = [
        *(f"<{t}>" for t in ("think", "/think", "tool_call", "/tool_call", "/function")),
        *(f"<function={n}>" for n in ("ping", "note", "x", "")),
        *(f"<parameter={k}>" for k in ("a", "b", "c", "d", "zz", "")),
        *("</parameter>", "<function=", "<parameter=", "\n", "\n", "\n", " ", "\r\n", "</", "<"),
        *(">", "1", "null", "[1, 2]", '{"x": "y"}', "text", "é🦆", "\\ud800", "True", "1e999", '"'),
    ]  # fmt: skip
    encoded = [p.encode() for p in pieces]
    dice = random.Random(20)
    calls = 0
    for _ in range(100_000):
        if dice.random() < 0.1:
            data = dice.randbytes(dice.randrange(80))
        else:
            data = b"".join(
                dice.choice(encoded) if dice.random() < 0.9 else dice.randbytes(1)
                for _ in range(dice.randrange(1, 40))
            )
        calls += assert_nothing_is_lost(data, dice)
    assert calls > 1000


def assert_nothing_is_lost(data: bytes, dice: random.Random) -> int:
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    parser = AnswerParser(TOOLS, thinking=dice.random() < 0.5, call_id=str)
    text, deltas, at = "", [], 0
    while at < len(data):
        size = dice.randrange(1, 12)
        chunk = decode(data[at : at + size])
        deltas += parser.feed(chunk)
        text, at = text + chunk, at + size
    chunk = decode(b"", True)
    deltas += [*parser.feed(chunk), *parser.finish()]
    message = parser.message
    raws = {c.index: c.raw for c in message.tool_calls}
    if message.unfinished is not None:
        raws[message.unfinished.index] = message.unfinished.raw
    said = "".join(
        d.text if isinstance(d, (ReasoningDelta, ContentDelta)) else raws[d.index]
        for d in deltas
        if isinstance(d, (ReasoningDelta, ContentDelta, CallStarted))
    )
    assert squeezed(said) == squeezed(text + chunk), data
    for finished in message.tool_calls:
        assert isinstance(json.loads(finished.arguments), dict), data
    json.dumps(message.to_json(), ensure_ascii=False).encode()
    return len(message.tool_calls)


# --- thinking ---------------------------------------------------------------------------------


def test_an_answer_that_quotes_the_closing_tag_is_not_cut() -> None:
    text = (
        "Tags matter.\n</think>\n\nThe tag `</think>` ends it, `<think>` opens it. </think> Done."
    )
    message = answer(text, thinking=True)
    assert message.reasoning_content == "Tags matter."
    assert message.content == ("The tag `</think>` ends it, `<think>` opens it. </think> Done.")


def test_a_tool_tag_quoted_while_thinking_stays_there() -> None:
    thought = f"I could write\n{call('ping')}\nbut <tool_call> alone does nothing."
    message = answer(f"{thought}\n</think>\n\nNo.", thinking=True)
    assert message.reasoning_content == thought
    assert (message.content, message.tool_calls) == ("No.", ())


def test_a_forced_end_of_thinking_ends_it_whatever_it_was_in_the_middle_of() -> None:
    parser, client = AnswerParser(TOOLS, thinking=True), Client()
    client.receive(parser.feed("so I call\n<tool_call>\n<function=ping>\n"))
    client.receive(parser.feed("</function>\n</thi"))
    client.receive(parser.feed("\n</think>\n\n", forced=True))
    client.receive(parser.feed("Yes."))
    client.receive(parser.finish())
    message = parser.message
    assert (client.reasoning, client.content) == (message.reasoning_content, message.content)
    assert message.reasoning_content.startswith("so I call\n<tool_call>")
    assert message.reasoning_content.endswith("</thi")
    assert (message.content, message.tool_calls) == ("Yes.", ())


def test_a_model_that_closes_its_thinking_after_it_was_closed_for_it() -> None:
    parser = AnswerParser(TOOLS, thinking=True)
    parser.feed("hm")
    parser.feed("\n</think>\n\n", forced=True)
    parser.feed("\n</thi")
    parser.feed("nk>\n\nYes.")
    parser.finish()
    assert (parser.message.reasoning_content, parser.message.content) == ("hm", "Yes.")


def test_a_second_block_before_the_answer_is_thinking_too() -> None:
    text = "one\n</think>\n\n<think>\ntwo\n</think>\n\nThe answer. <think>\nnot this"
    message = answer(text, thinking=True)
    assert message.reasoning_content == "one\ntwo"
    assert message.content == "The answer. <think>\nnot this"


# --- values -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        "a closing tag </parameter> in a line",
        "on a line of its own\n</parameter>\nand on",
        "</function>\n</tool_call>\nand on",
        f"a whole call:\n{call('ping')}",
        f"a whole call with a value:\n{call('note', a='x', b='2')}\nend",
        f"{call('note', a='x')}\n{call('ping')}",
        "<parameter=zz>\nnot one of ours",
        "<parameter=a>\nits own name",
        "trailing lines\n\n\n",
        "\n\nleading lines",
        "<",
        "</parameter",
        "é🦆 </paramètre>",
    ],
)
def test_a_value_may_contain_what_the_format_is_made_of(value: str) -> None:
    message = answer(call("note", a=value, b="3"))
    assert arguments(message) == [{"a": value, "b": 3}]
    assert message.violations == ()


@pytest.mark.parametrize(
    "broken",
    [
        "<tool_call>\n<function=note>\n<parameter=a>\nno end\n",
        "<tool_call>\n<function=note>\n<parameter=a>\nno end\n</function>\n</tool_call>\n",
        "<tool_call>\n<function=note>\n<parameter=a>\nno end\n</tool_call>\n",
        "<tool_call>\n<function=note>\n<parameter=b>\n1\n</parameter>\nwords\n</tool_call>\n",
        "<tool_call>\n<function=note>\nwords\n</function>\n</tool_call>\n",
        "<tool_call>\n<function=note>\n<parameter=a\n</function>\n</tool_call>\n",
        "<tool_call>\n<function=\n</tool_call>\n",
        "<tool_call>\nwords\n</tool_call>\n",
        "<tool_call>\n",
    ],
)
@pytest.mark.parametrize("after", [call("ping"), call("note", a="x"), call("note", a="x", b="2")])
def test_a_malformed_call_does_not_swallow_the_good_ones(broken: str, after: str) -> None:
    message = answer(call("ping") + "\n" + broken + after)
    good = arguments(answer(after))
    assert arguments(message)[0] == {}
    assert arguments(message)[-1] == good[0]


def test_plain_text_values_are_streamed_as_they_come() -> None:
    parser, client = AnswerParser(TOOLS), Client()
    client.receive(parser.feed("<tool_call>\n<function=note>\n<parameter=a>\nfirst li"))
    assert client.calls[0] == ("note", '{"a": "first li')
    client.receive(parser.feed('ne\nand "more'))
    assert client.calls[0][1] == '{"a": "first line\\nand \\"more'


def test_a_number_is_not_streamed_before_it_is_whole() -> None:
    parser, client = AnswerParser(TOOLS), Client()
    client.receive(parser.feed("<tool_call>\n<function=note>\n<parameter=b>\n12"))
    assert client.calls[0] == ("note", "{")
    client.receive(parser.feed("34\n</parameter>\n</function>"))
    assert client.calls[0] == ("note", '{"b": 1234}')


# --- tool choice and validation -----------------------------------------------------------------


def test_no_call_is_reported_when_tools_are_not_to_be_used() -> None:
    message = answer(call("ping"), tool_choice="none")
    assert (message.tool_calls, message.content) == ((), call("ping"))


def test_a_required_call_that_does_not_come_is_a_violation() -> None:
    message = answer("I would rather not.", tool_choice="required")
    assert [(v.call, v.rule) for v in message.violations] == [(None, "tool_choice")]


def test_a_call_of_another_function_than_the_one_demanded_is_a_violation() -> None:
    choice = {"type": "function", "function": {"name": "note"}}
    message = answer(call("ping"), tool_choice=choice)
    assert [(v.call, v.rule) for v in message.violations] == [(0, "tool_choice")]


def test_violations_carry_the_path_and_the_raw_text_is_kept() -> None:
    message = answer(call("note", b="soon"))
    assert {(v.path, v.rule) for v in message.violations} == {("/", "required"), ("/b", "type")}
    assert arguments(message) == [{"b": "soon"}]
    assert "soon" in message.tool_calls[0].raw


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"properties": {"a": {"$ref": "https://example.org/never-fetched.json"}}},
        {"properties": {"a": {"$ref": "#/$defs/missing"}}},
        {"properties": {"a": {"$ref": "#/properties/a"}}},
        {"properties": {"a": {"pattern": "("}}},
        {"properties": 7},
        {"$schema": "urn:unknown", "allOf": "x"},
        [],
        None,
    ],
)
def test_a_tool_with_an_unusable_schema_never_breaks_the_reader(schema: Any) -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    message = answer(call("f", a="1"), tools=tools)
    assert len(message.tool_calls) == 1
    assert all(v.rule in ("schema", "type") for v in message.violations)


def test_deeply_nested_arguments_are_text_or_a_violation_but_no_crash() -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {
        "type": "object", "properties": {"a": {"type": "array"}}}}}]  # fmt: skip
    message, _ = read({"tools": tools}, [call("f", a="[" * 100_000)])
    assert len(message.tool_calls) == 1
    assert [v.rule for v in message.violations] == ["type"]
