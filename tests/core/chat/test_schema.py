"""Argument types from JSON Schema, and values that survive being written and read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from outrider.chat.schema import ToolSchema

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)  # fmt: skip

KINDS: dict[str, Any] = {
    "integer": st.integers(),
    "number": st.floats(allow_nan=False, allow_infinity=False),
    "boolean": st.booleans(),
    "null": st.none(),
    "array": st.lists(JSON),
    "object": st.dictionaries(st.text(), JSON),
}


def one(schema: Any, **root: Any) -> ToolSchema:
    return ToolSchema({"type": "object", "properties": {"p": schema}, **root})


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(KINDS)).flatmap(lambda k: st.tuples(st.just(k), KINDS[k])))
def test_values_survive_being_written_and_read(kind_and_value: tuple[str, Any]) -> None:
    kind, value = kind_and_value
    written = json.dumps(value, ensure_ascii=False)
    restored = one({"type": kind}).restore("p", written)
    assert restored == value
    assert type(restored) is type(value)


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_text_is_left_alone(text: str) -> None:
    assert one({"type": "string"}).restore("p", text) == text


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "integer"}, " 3 ", 3),
        ({"type": "integer"}, "3.0", 3.0),
        ({"type": "integer"}, "3.5", "3.5"),
        ({"type": "integer"}, "true", "true"),
        ({"type": "integer"}, "007", "007"),
        ({"type": "number"}, "NaN", "NaN"),
        ({"type": "number"}, "1e999", "1e999"),
        ({"type": "boolean"}, "True", True),
        ({"type": "boolean"}, "yes", "yes"),
        ({"type": ["boolean", "null"]}, "None", None),
        ({"type": ["string", "null"]}, "None", "None"),
        ({"type": ["string", "null"]}, "null", None),
        ({"enum": ["1", 2]}, "1", "1"),
        ({"enum": ["1", 2]}, "2", 2),
        ({"const": 5}, "5", 5),
        ({"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/flag"}]}, "true", True),
        ({"$ref": "#/$defs/flag"}, "False", False),
        ({"allOf": [{"description": "n"}, {"type": "integer"}]}, "4", 4),
        ({}, "[1]", [1]),
        ({}, '"quoted"', '"quoted"'),
        (True, "12", 12),
    ],
)
def test_restoring(schema: Any, text: str, value: Any) -> None:
    restored = one(schema, **{"$defs": {"flag": {"type": "boolean"}}}).restore("p", text)
    assert restored == value
    assert type(restored) is type(value)


def test_schemas_of_parameters_that_are_not_listed() -> None:
    schema = ToolSchema(
        {
            "patternProperties": {"^n_": {"type": "integer"}},
            "additionalProperties": {"type": "boolean"},
        }
    )
    assert schema.restore("n_x", "1") == 1
    assert schema.restore("other", "true") is True
    assert ToolSchema({}).restore("anything", "1") == "1"


def test_paths_are_json_pointers() -> None:
    schema = one({"type": "object", "additionalProperties": {"type": "integer"}})
    found = list(schema.violations(0, {"p": {"a/b~c": "x"}}))
    assert [(v.path, v.rule) for v in found] == [("/p/a~1b~0c", "type")]
