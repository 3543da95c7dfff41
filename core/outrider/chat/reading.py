"""Reading the parts of a request body: what is expected, and how JSON calls what came."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from outrider.errors import RequestError


def function_of(raw: Any, where: str) -> tuple[Mapping[str, Any], Mapping[str, Any], str]:
    """An object of type 'function', its 'function' object, and the name in there."""
    if not isinstance(raw, Mapping):
        raise RequestError(f"{where} must be an object, got {kind_of(raw)}")
    outer = cast("Mapping[str, Any]", raw)
    if outer.get("type") != "function":
        raise RequestError(f"{where}.type must be 'function'")
    inner = outer.get("function")
    if not isinstance(inner, Mapping):
        raise RequestError(f"{where} has no 'function' object")
    function = cast("Mapping[str, Any]", inner)
    if "name" not in function:
        raise RequestError(f"{where}.function has no 'name'")
    return outer, function, text_of(function["name"], f"{where}.function.name")


def text_of(value: Any, where: str) -> str:
    """The value, which must be a text. Raises RequestError."""
    if not isinstance(value, str):
        raise RequestError(f"{where} must be a string, got {kind_of(value)}")
    return value


def kind_of(value: Any) -> str:
    """How JSON calls the type of a value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "an array" if isinstance(value, (list, tuple)) else "an object"
