"""The API front end: an OpenAI-shaped request body, checked and brought into template form.

What happens here is what llama-server does before its template sees anything
(`tools/server/server-common.cpp: oaicompat_chat_params_parse` and `common/chat.cpp:
common_chat_msgs_parse_oaicompat, common_chat_tools_parse_oaicompat`), so that a template renders
the same bytes from the same body. On purpose different:

* a client's mistake is a `RequestError` that says what is wrong, never a server error;
* reasoning efforts of other APIs are mapped to the levels the template knows (`map_effort`);
* an empty last assistant message starts a normal answer instead of a prompt without a header;
* `continue_final_message` on anything but an assistant message is refused;
* `tool_choice` may name a function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import attrs

from outrider.chat.body import read_json
from outrider.chat.reading import function_of, kind_of, text_of
from outrider.chat.tools import ToolChoice, read_tools
from outrider.errors import RequestError

QWEN_EFFORTS = ("xhigh", "medium", "low")
"""Reasoning efforts of the Qwen3.8 template, the default first."""

_FOREIGN_EFFORTS = {"minimal": "low", "high": "xhigh", "max": "xhigh"}


@attrs.frozen
class Continuation:
    """An unfinished assistant turn that the model goes on with, text kept as it was sent."""

    reasoning: str
    content: str
    inside_thinking: bool
    """True: the turn stopped while thinking, so no closing tag is written."""


@attrs.frozen
class ChatRequest:
    """A request ready for a template: messages and tools in template form, and the variables."""

    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[Mapping[str, Any], ...]
    variables: Mapping[str, Any]
    """Everything else the template sees: `enable_thinking`, `reasoning_effort`, …"""
    generation_prompt: bool
    continuation: Continuation | None
    tool_choice: ToolChoice
    parallel_tool_calls: bool
    notes: tuple[str, ...]
    """What a careful person would want to know about this request, as sentences."""

    @property
    def thinking(self) -> bool:
        """Whether thinking is on (templates look at exactly false)."""
        return self.variables.get("enable_thinking") is not False

    @classmethod
    def read(
        cls,
        body: Mapping[str, Any] | bytes | str,
        *,
        efforts: Sequence[str] = (),
        images: bool = False,
    ) -> ChatRequest:
        """Check a request body and bring it into template form.

        `efforts` are the reasoning efforts the template knows, the default first; empty when it
        knows none (the variable is then handed over as it is). `images` lets image and video
        parts through. Raises RequestError.
        """
        document: Any = read_json(body) if isinstance(body, (bytes, str)) else body
        if not isinstance(document, Mapping):
            raise RequestError("the request body must be a JSON object")
        request = cast("Mapping[str, Any]", document)
        notes: list[str] = []
        messages = _messages(request, images)
        tools = read_tools(request)
        notes += tools.notes
        generation_prompt, continuation, messages = _ending(request, messages, notes)
        variables = _variables(request, efforts, notes)
        for key in ("messages", "tools"):
            if key in variables:
                _check_replacement(variables[key], key)
                notes.append(f"chat_template_kwargs replaces `{key}`")
        if generation_prompt or continuation is not None:
            variables.pop("add_generation_prompt", None)
        return cls(
            messages=tuple(variables.pop("messages", messages) or ()),
            tools=tuple(variables.pop("tools", tools.offered) or ()),
            variables=variables,
            generation_prompt=generation_prompt,
            continuation=continuation,
            tool_choice=tools.choice,
            parallel_tool_calls=tools.parallel,
            notes=tuple(notes),
        )


def map_effort(effort: Any, efforts: Sequence[str]) -> str | None:
    """The template's level for a requested effort; None switches thinking off.

    Known levels of other APIs are mapped: `none` to thinking off, `minimal` to the lowest
    level, `high` and `max` to the highest. Raises RequestError naming the levels for the rest.
    """
    if effort in efforts:
        return cast("str", effort)
    if effort == "none":
        return None
    mapped = _FOREIGN_EFFORTS.get(effort) if isinstance(effort, str) else None
    if mapped is not None and mapped in efforts:
        return mapped
    default, *middle, last = efforts
    raise RequestError(
        f"Unexpected reasoning effort {effort}. Supported types are {default} (default), "
        f"{', '.join(middle)}, and {last}. `none` switches thinking off."
    )


def _messages(request: Mapping[str, Any], images: bool) -> list[dict[str, Any]]:
    raw = request.get("messages")
    if raw is None:
        raise RequestError("'messages' is required")
    if not isinstance(raw, list):
        raise RequestError(f"'messages' must be an array, got {kind_of(raw)}")
    return [_message(m, i, images) for i, m in enumerate(cast("list[Any]", raw))]


def _message(raw: Any, index: int, images: bool) -> dict[str, Any]:
    where = f"messages[{index}]"
    if not isinstance(raw, Mapping):
        raise RequestError(f"{where} must be an object, got {kind_of(raw)}")
    message = cast("Mapping[str, Any]", raw)
    if "role" not in message:
        raise RequestError(f"{where} has no 'role'")
    role = text_of(message["role"], f"{where}.role")
    calls = message.get("tool_calls")
    if "content" not in message:
        if role != "assistant":
            raise RequestError(f"{where} (role {role!r}) has no 'content'")
        if "tool_calls" not in message:
            raise RequestError(f"{where} (role 'assistant') needs 'content' or 'tool_calls'")
    result: dict[str, Any] = {
        "role": "system" if role == "developer" else role,
        "content": _content(message.get("content"), f"{where}.content", images),
    }
    if "reasoning_content" in message:
        reasoning = text_of(message["reasoning_content"], f"{where}.reasoning_content")
        if reasoning:
            result["reasoning_content"] = reasoning
    for key in ("name", "tool_call_id"):
        if message.get(key) is not None and text_of(message[key], f"{where}.{key}"):
            result[key] = message[key]
    if calls is not None:
        if not isinstance(calls, list):
            raise RequestError(f"{where}.tool_calls must be an array, got {kind_of(calls)}")
        listed = [
            _tool_call(c, f"{where}.tool_calls[{i}]")
            for i, c in enumerate(cast("list[Any]", calls))
        ]
        if listed:
            result["tool_calls"] = listed
    return result


def _content(content: Any, where: str, images: bool) -> str | list[dict[str, Any]]:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise RequestError(f"{where} must be a string or an array of parts, got {kind_of(content)}")
    parts = cast("list[Any]", content)
    return [_part(p, f"{where}[{i}]", images) for i, p in enumerate(parts)] or ""


def _part(raw: Any, where: str, images: bool) -> dict[str, Any]:
    if not isinstance(raw, Mapping):
        raise RequestError(f"{where} must be an object with a 'type', got {kind_of(raw)}")
    part = cast("Mapping[str, Any]", raw)
    if "type" not in part:
        raise RequestError(f"{where} has no 'type'")
    if part["type"] == "text":
        return {"type": "text", "text": text_of(part.get("text"), f"{where}.text")}
    if part["type"] in ("image", "image_url", "video", "video_url", "input_video"):
        if images:
            return dict(part)
        raise RequestError(f"{where}: image and video input is not supported by this model")
    raise RequestError(f"{where}: content parts of type {part['type']!r} are not supported")


def _tool_call(raw: Any, where: str) -> dict[str, Any]:
    call, function, name = function_of(raw, where)
    if "arguments" not in function:
        raise RequestError(f"{where}.function has no 'arguments' (an object, or JSON text)")
    arguments = function["arguments"]
    if isinstance(arguments, str):
        arguments = read_json(arguments, f"{where}.function.arguments")
    result: dict[str, Any] = {
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }
    if call.get("id"):
        result["id"] = call["id"]
    return result


def _ending(
    request: Mapping[str, Any], messages: list[dict[str, Any]], notes: list[str]
) -> tuple[bool, Continuation | None, list[dict[str, Any]]]:
    """How the prompt ends: with a generation prompt, with an unfinished turn, or with neither."""
    generate = request.get("add_generation_prompt")
    generate = generate if isinstance(generate, bool) else True
    wish = request.get("continue_final_message")
    mode = "auto" if wish is True else wish if wish in ("content", "reasoning_content") else None
    last = messages[-1] if messages else {}
    if mode is None and last.get("role") == "assistant":
        if len(messages) > 1 and messages[-2]["role"] == "assistant":
            raise RequestError("the last two messages are both the assistant's; one is continued")
        if wish is False:
            notes.append("the last message is the assistant's, so it is continued all the same")
        mode, generate = "auto", False
    if mode is None:
        return generate, None, messages
    if generate:
        raise RequestError(
            "continue_final_message and add_generation_prompt cannot both be true; "
            "send add_generation_prompt: false"
        )
    if not messages:
        return False, None, messages
    if last.get("role") != "assistant":
        raise RequestError(
            "continue_final_message needs an assistant message at the end, "
            f"the last one has the role {last['role']!r}"
        )
    if last.get("tool_calls"):
        raise RequestError("an assistant message that contains tool calls cannot be continued")
    if len(messages) == 1:
        raise RequestError("there is only the unfinished assistant message; No messages provided.")
    reasoning = last.get("reasoning_content", "")
    content = _joined(last["content"])
    if not reasoning and not content:
        return True, None, messages[:-1]
    inside = mode == "reasoning_content" or (mode == "auto" and not last["content"])
    return False, Continuation(reasoning, content, inside), messages[:-1]


def _variables(
    request: Mapping[str, Any], efforts: Sequence[str], notes: list[str]
) -> dict[str, Any]:
    sent = request.get("chat_template_kwargs")
    wishes = cast("Mapping[str, Any]", sent if isinstance(sent, Mapping) else {})
    if isinstance(wishes.get("enable_thinking"), str):
        raise RequestError("chat_template_kwargs.enable_thinking must be true or false, not text")
    given = {"preserve_reasoning": True, **wishes}
    thinking: Any = True
    effort = request.get("reasoning_effort")
    if effort == "none":
        thinking = False
        given.pop("reasoning_effort", None)
    elif isinstance(effort, str) and effort:
        given["reasoning_effort"] = effort
    elif effort is not None:
        notes.append("reasoning_effort must be text; it was ignored")
    preserve = given["preserve_reasoning"]
    variables: dict[str, Any] = {"enable_thinking": thinking}
    if isinstance(preserve, bool):
        variables["preserve_thinking"] = preserve
        for name in ("clear_thinking", "truncate_history_thinking", "drop_thinking"):
            variables[name] = not preserve
    variables.update(given)
    if variables.get("reasoning_effort", "") is None:
        del variables["reasoning_effort"]
    if efforts and "reasoning_effort" in variables and variables["enable_thinking"] is True:
        level = map_effort(variables["reasoning_effort"], efforts)
        if level is None:
            variables["enable_thinking"] = False
            del variables["reasoning_effort"]
        else:
            variables["reasoning_effort"] = level
    if isinstance(variables.get("reasoning_effort"), str):
        variables.setdefault("reasoning_strength", variables["reasoning_effort"])
    for name in ("enable_thinking", "preserve_thinking"):
        if name in variables and not isinstance(variables[name], bool):
            notes.append(f"{name} is neither true nor false; templates treat it as not true")
    for name in ("enable_thinking", "thinking"):
        if name in request:
            notes.append(f"`{name}` is read from chat_template_kwargs only; it was ignored")
    return variables


def _check_replacement(value: Any, key: str) -> None:
    """Template variables go in as they are; a list of objects is the least they must be."""
    items = cast("list[Any]", value if isinstance(value, list) else [None])
    if value is not None and not all(isinstance(item, Mapping) for item in items):
        raise RequestError(f"chat_template_kwargs.{key} must be an array of objects")


def _joined(content: str | list[dict[str, Any]]) -> str:
    """The text of a turn that is continued; parts are set apart by a blank line."""
    if isinstance(content, str):
        return content
    text = ""
    for part in content:
        if part["type"] == "text":
            text += ("\n\n" if text else "") + part["text"]
    return text
