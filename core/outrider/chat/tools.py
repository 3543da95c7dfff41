"""The tools of a request, and how they may be used."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import attrs

from outrider.chat.reading import function_of, kind_of, text_of
from outrider.chat.schema import schema_problem
from outrider.errors import RequestError

LONGEST_NAME = 256
NAME = rf"[^<>\n]{{1,{LONGEST_NAME}}}"
"""What stands for a function in a call."""


class ToolMode(str, enum.Enum):
    """Whether the model may, must not, or must call a tool."""

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"


@attrs.frozen
class ToolChoice:
    """`tool_choice` of a request; `name` when one function is demanded."""

    mode: ToolMode = ToolMode.AUTO
    name: str | None = None


FREE_CHOICE = ToolChoice()
"""The model decides whether to call a tool."""


@attrs.frozen
class Tools:
    """What a request says about tools, in template form."""

    offered: tuple[Mapping[str, Any], ...]
    strict: frozenset[str]
    """Names of the functions declared with `strict: true`."""
    choice: ToolChoice
    parallel: bool
    notes: tuple[str, ...] = ()
    """What is odd about them, as sentences."""


def read_tools(request: Mapping[str, Any]) -> Tools:
    """The tools of a request and how they may be used. Raises RequestError."""
    notes: list[str] = []
    offered, strict = _tools(request.get("tools"), notes)
    return Tools(
        offered=tuple(offered),
        strict=strict,
        choice=_tool_choice(request.get("tool_choice"), offered),
        parallel=request.get("parallel_tool_calls") is not False,
        notes=tuple(notes),
    )


def _tools(raw: Any, notes: list[str]) -> tuple[list[dict[str, Any]], frozenset[str]]:
    if raw is None:
        return [], frozenset()
    if not isinstance(raw, list):
        raise RequestError(f"'tools' must be an array, got {kind_of(raw)}")
    tools: list[dict[str, Any]] = []
    strict: set[str] = set()
    for index, item in enumerate(cast("list[Any]", raw)):
        where = f"tools[{index}]"
        _, function, name = function_of(item, where)
        _check_name(name, f"{where}.function.name")
        before = [t["function"]["name"] for t in tools]
        if name in before:
            notes.append(f"{where} has the name of tools[{before.index(name)}], {name!r}")
        parameters = function.get("parameters", {})
        problem = schema_problem(parameters)
        if problem is not None:
            notes.append(
                f"calls of {name!r} cannot be checked: {where}.function.parameters is no "
                f"JSON schema: {problem}"
            )
        description = function.get("description", "")
        tools.append(
            {
                "type": "function",
                "function": {
                    "name": name,
                    "description": text_of(description, f"{where}.function.description"),
                    "parameters": parameters,
                },
            }
        )
        if function.get("strict") is True:
            strict.add(name)
    return tools, frozenset(strict)


def _check_name(name: str, where: str) -> None:
    """A name must stand in a call as it is."""
    if not re.fullmatch(NAME, name) or name != name.strip():
        raise RequestError(
            f"{where} is {name!r}; expected 1 to {LONGEST_NAME} characters without '<', '>' and "
            "line breaks, and no space around them"
        )


def _tool_choice(raw: Any, tools: Sequence[Mapping[str, Any]]) -> ToolChoice:
    if raw is None:
        return FREE_CHOICE
    if isinstance(raw, str):
        try:
            mode = ToolMode(raw)
        except ValueError:
            raise RequestError(
                f"tool_choice must be 'auto', 'none', 'required' or name a function; got {raw!r}"
            ) from None
        if mode is ToolMode.REQUIRED and not tools:
            raise RequestError("tool_choice is 'required', but no tools were offered")
        return ToolChoice(mode)
    if not isinstance(raw, Mapping):
        raise RequestError(f"tool_choice must be a string or an object, got {kind_of(raw)}")
    choice = cast("Mapping[str, Any]", raw)
    function = choice.get("function", choice)
    name = cast("Any", function).get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str):
        raise RequestError("tool_choice names no function: expected {'function': {'name': …}}")
    offered = [t["function"]["name"] for t in tools]
    if name not in offered:
        raise RequestError(
            f"tool_choice demands the function {name!r}, which is not among the tools "
            f"({', '.join(offered) or 'none were offered'})"
        )
    return ToolChoice(ToolMode.REQUIRED, name)
