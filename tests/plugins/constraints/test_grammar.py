"""Random walks through the masks: whatever the model wants, what comes out has the form."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pytest
from outrider import Constraint, Pipeline, Prompt, RequestError
from outrider.chat import AnswerParser, Message, read_tools

OPEN_PROMPT = Prompt("…<think>\n", 0, thinking=True)
CLOSED_PROMPT = Prompt("…", 0)


def tool(name: str, parameters: Any, *, strict: bool = True) -> dict[str, Any]:
    function = {"name": name, "parameters": parameters, "strict": strict}
    return {"type": "function", "function": function}


MIX = tool(
    "mix",
    {
        "type": "object",
        "properties": {
            "colour": {"type": "string", "enum": ["red", "blue", "rouge foncé"]},
            "coats": {"type": "integer", "minimum": 0, "maximum": 99},
            "gloss": {"type": ["boolean", "null"]},
            "parts": {
                "type": "array",
                "minItems": 1,
                "maxItems": 2,
                "items": {
                    "type": "object",
                    "properties": {"grams": {"$ref": "#/$defs/grams"}},
                    "required": ["grams"],
                    "additionalProperties": False,
                },
            },
            "code": {"type": "string", "pattern": "^[A-Z]{2}[0-9]{1,3}$"},
            "kind": {"enum": ["raw", 7, None]},
            "fixed": {"const": True},
        },
        "required": ["colour", "parts", "kind"],
        "additionalProperties": False,
        "$defs": {"grams": {"type": "number", "enum": [1.5, 20, 300]}},
    },
)
NOTE = tool(
    "note",
    {
        "type": "object",
        "properties": {
            "title": {"type": "string", "maxLength": 12},
            "code": {"type": "string", "pattern": "^[a-c/&]+$", "minLength": 2, "maxLength": 6},
            "when": {"anyOf": [{"type": "string", "enum": ["now", "null"]}, {"type": "null"},
                               {"type": "integer", "minimum": 10, "maximum": 99}]},
            "extra": {"description": "anything", "maxLength": 6},
        },
        "required": ["title", "when", "unlisted"],
    },
)  # fmt: skip
PING = tool("ping", {"type": "object", "properties": {}})

SCHEMAS = [
    {"type": "object", "properties": {"n": {"type": "integer"}, "ok": {"type": "boolean"}},
     "required": ["n", "ok"], "additionalProperties": False},
    {"type": "array", "items": {"enum": ["a", 1, None, False]}, "minItems": 2, "maxItems": 4},
    {"anyOf": [{"type": "boolean"}, {"type": "object", "properties": {"x": {"const": "y"}},
     "required": ["x"], "additionalProperties": False}]},
    {"type": "string", "enum": ["é🦆", "</think>", "line\nbreak"]},
]  # fmt: skip


def made(pipeline: Pipeline, request: dict[str, Any], prompt: Prompt) -> Constraint:
    found = [c for f in pipeline.constraints if (c := f.make(request, prompt)) is not None]
    assert len(found) == 1
    return found[0]


def walk(pipeline: Pipeline, constraint: Constraint, dice: random.Random) -> list[int]:
    """Random legal tokens until the end; drafts, rewinds and look-aheads in between."""
    vocabulary = pipeline.engine.vocabulary
    written: list[int] = []
    for _ in range(600):
        forced = list(constraint.forced(()))
        follows = forced and dice.random() < 0.5
        token = forced[0] if follows else choose(pipeline, constraint, dice)
        assert constraint.allows((), token)
        constraint.commit([token])
        written.append(token)
        if token in vocabulary.eog:
            return written
        if dice.random() < 0.1:
            count = dice.randrange(min(len(written), 4) + 1)
            constraint.rewind(count)
            del written[len(written) - count :]
    raise AssertionError(f"no end: {vocabulary.detokenize(written)[-200:]}")


def choose(pipeline: Pipeline, constraint: Constraint, dice: random.Random) -> int:
    """A random legal token; the end is taken more often than one time in thousands."""
    vocabulary = pipeline.engine.vocabulary
    mask = constraint.mask(())
    assert mask is not None
    legal = [t for t in range(vocabulary.size) if mask[t // 32] >> (t % 32) & 1]
    assert legal, "nothing may follow"
    ends = [t for t in legal if t in vocabulary.eog]
    return dice.choice(ends if ends and dice.random() < 0.3 else legal)


def text_of(pipeline: Pipeline, tokens: list[int]) -> str:
    vocabulary = pipeline.engine.vocabulary
    return vocabulary.detokenize(t for t in tokens if t not in vocabulary.eog).decode()


def read(request: dict[str, Any], text: str) -> Message:
    tools = read_tools(request)
    parser = AnswerParser(
        tools.offered, tool_choice=tools.choice, parallel_tool_calls=tools.parallel
    )
    parser.feed(text)
    parser.finish()
    return parser.message


@pytest.mark.parametrize("schema", SCHEMAS, ids=["object", "array", "either", "texts"])
def test_any_walk_is_a_document_of_the_schema(plain: Pipeline, schema: Any) -> None:
    request = {"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}}
    dice = random.Random(7)
    for _ in range(20):
        tokens = walk(plain, made(plain, request, CLOSED_PROMPT), dice)
        jsonschema.validate(json.loads(text_of(plain, tokens)), schema)


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("choice", ["required", {"function": {"name": "mix"}}])
def test_any_walk_is_valid_calls_when_a_call_is_demanded(
    plain: Pipeline, choice: Any, parallel: bool
) -> None:
    request = {
        "tools": [MIX, PING],
        "tool_choice": choice,
        "parallel_tool_calls": parallel,
    }
    dice = random.Random(8)
    for _ in range(20):
        text = text_of(plain, walk(plain, made(plain, request, CLOSED_PROMPT), dice))
        message = read(request, text)
        assert message.tool_calls, text
        assert (message.violations, message.content) == ((), ""), text
        assert parallel or len(message.tool_calls) == 1


def test_any_walk_through_text_values_is_read_as_it_was_written(plain: Pipeline) -> None:
    """Text may hold the format's own tags, as long as no reader could take them for tags."""
    vocabulary = plain.engine.vocabulary
    request = {"tools": [NOTE, PING], "tool_choice": {"function": {"name": "note"}}}
    lures = [
        vocabulary.tokenize(text, special=False)
        for text in ("\n<parameter=extra>\n", "\n<tool_call>\n<function=ping>", "</parameter>",
                     "\n</function>", "<function=ping>\n", "\n</parameter>\n", "</tool_call>\n")
    ]  # fmt: skip
    dice = random.Random(11)
    for _ in range(60):
        constraint = made(plain, {**request, "parallel_tool_calls": False}, CLOSED_PROMPT)
        written: list[int] = []
        while not written or written[-1] not in vocabulary.eog:
            lure = dice.choice(lures)
            run = lure[: constraint.legal_prefix(lure)] if dice.random() < 0.4 else []
            run = run or [choose(plain, constraint, dice)]
            constraint.commit(run)
            written += run
        text = vocabulary.detokenize(t for t in written if t not in vocabulary.eog)
        message = read(request, text.decode(errors="replace"))
        assert len(message.tool_calls) == 1, text
        assert message.violations == (), text


def test_a_strict_function_is_valid_whenever_the_model_calls_it(plain: Pipeline) -> None:
    request = {"tools": [MIX, PING]}
    vocabulary = plain.engine.vocabulary
    dice = random.Random(9)
    for _ in range(20):
        constraint = made(plain, request, CLOSED_PROMPT)
        lead = vocabulary.tokenize("Let me see: <tool or not>.\n<tool_call>", special=False)
        assert constraint.legal_prefix(lead) == len(lead)
        assert constraint.mask(lead[:-1]) is None
        constraint.commit(lead)
        written: list[int] = []
        while constraint.mask(()) is not None:
            written.append(choose(plain, constraint, dice))
            constraint.commit(written[-1:])
        text = text_of(plain, [*lead, *written])
        message = read(request, text)
        assert len(message.tool_calls) == 1
        assert message.violations == (), text


def test_a_demanded_call_of_a_function_that_is_not_strict_takes_any_value(plain: Pipeline) -> None:
    loose = tool("note", {"type": "object", "properties": {"n": {"type": "integer"}}}, strict=False)
    request = {"tools": [loose], "tool_choice": "required"}
    constraint = made(plain, request, CLOSED_PROMPT)
    value = "<parameter=n>\nmany < few\n</parameter>"
    text = f"<tool_call>\n<function=note>\n{value}\n</function>\n</tool_call>"
    tokens = plain.engine.vocabulary.tokenize(text, special=False)
    assert constraint.legal_prefix(tokens) == len(tokens)
    assert [v.rule for v in read(request, text).violations] == ["type"]


def test_the_thinking_that_the_prompt_opened_is_free_but_is_not_the_end(plain: Pipeline) -> None:
    vocabulary = plain.engine.vocabulary
    schema = {"type": "boolean"}
    request = {"response_format": {"type": "json_object", "schema": schema}}
    constraint = made(plain, request, OPEN_PROMPT)
    thought = vocabulary.tokenize("Is it {true}? Yes.\n</think>", special=False)
    rest = vocabulary.tokenize("\n\ntrue", special=False)
    assert constraint.legal_prefix([*thought, *rest]) == len(thought) + len(rest)
    prose = vocabulary.tokenize("\n\nYes, it is", special=False)
    assert constraint.legal_prefix([*thought, *prose]) < len(thought) + len(prose)
    assert not any(constraint.allows((), end) for end in vocabulary.eog)
    mask = constraint.mask(())
    assert mask is not None
    assert not any(mask[end // 32] >> (end % 32) & 1 for end in vocabulary.eog)
    constraint.commit([*thought, *rest])
    assert all(constraint.allows((), end) for end in vocabulary.eog)
    mask = constraint.mask(())
    assert mask is not None
    assert len(vocabulary.eog) > 1
    assert all(mask[end // 32] >> (end % 32) & 1 for end in vocabulary.eog)


def test_rewinding_across_the_end_of_the_thinking(plain: Pipeline) -> None:
    vocabulary = plain.engine.vocabulary
    request = {"response_format": {"type": "json_object"}}
    constraint = made(plain, request, OPEN_PROMPT)
    thought = vocabulary.tokenize("x\n</think>", special=False)
    opening = vocabulary.tokenize('\n\n{"a', special=False)
    word = vocabulary.tokenize("word", special=False)[0]
    constraint.commit([*thought, *opening])
    constraint.rewind(len(opening))
    assert not constraint.allows((), word)
    constraint.rewind(1)
    assert constraint.allows((), word)
    constraint.commit([word, *thought[-1:], *opening])
    assert constraint.allows((), word)


def test_what_is_forced_is_what_may_follow(plain: Pipeline) -> None:
    vocabulary = plain.engine.vocabulary
    constraint = made(plain, {"tools": [PING], "tool_choice": "required"}, CLOSED_PROMPT)
    opening = vocabulary.tokenize("<tool_call>", special=False)
    forced = list(constraint.forced(opening))
    assert vocabulary.detokenize(forced).startswith(b"\n<function=ping>\n</function>")
    assert constraint.legal_prefix([*opening, *forced]) == len(opening) + len(forced)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ({"response_format": {"type": "yaml"}}, "'text', 'json_object' or 'json_schema'"),
        ({"response_format": 7}, "must be an object"),
        ({"response_format": {"type": "json_schema"}}, "json_schema must be an object"),
        ({"response_format": {"type": "json_object", "schema": {"type": "nonsense"}}},
         "cannot be enforced"),
        ({"response_format": {"type": "json_object",
                              "schema": {"type": "integer", "minimum": 3, "maximum": 1}}},
         "cannot be enforced"),
        ({"tools": [tool("f", {"type": "object", "properties": {"a": {"type": "nonsense"}}})]},
         "cannot be enforced"),
        ({"tools": [tool("f", {"properties": {"a": {"$ref": "#/properties/a"}}})]}, "circle"),
        ({"tools": [tool("f", {"anyOf": [{"required": ["a"]}]})]}, "top level"),
    ],
)  # fmt: skip
def test_what_cannot_be_enforced_is_an_error_and_not_ignored(
    plain: Pipeline, request_: Any, reason: str
) -> None:
    with pytest.raises(RequestError, match=reason):
        [factory.make(request_, CLOSED_PROMPT) for factory in plain.constraints]


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"response_format": {"type": "text"}},
        {"tools": [tool("f", {}, strict=False)]},
        {"tools": [MIX], "tool_choice": "none"},
    ],
)
def test_nothing_is_constrained_that_was_not_asked_for(plain: Pipeline, request_: Any) -> None:
    assert [f.make(request_, OPEN_PROMPT) for f in plain.constraints] == [None, None, None]


def test_with_tools_on_offer_a_json_answer_or_a_call_may_come(plain: Pipeline) -> None:
    request = {"tools": [PING], "response_format": {"type": "json_object"}}
    constraint = made(plain, request, CLOSED_PROMPT)
    tokenize = plain.engine.vocabulary.tokenize
    for text in ('{"a": 1}', "<tool_call>\n<function=ping>\n</function>\n</tool_call>"):
        tokens = tokenize(text, special=False)
        assert constraint.legal_prefix(tokens) == len(tokens)
    assert constraint.legal_prefix(tokenize("Hello", special=False)) == 0
