"""An assistant's answer and the deltas it is streamed in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

import attrs


@attrs.frozen
class ToolCall:
    """One tool call as the model wrote it.

    `arguments` is the JSON text that was streamed; of a finished call it is a valid object.
    `raw` is the text it was read from.
    """

    index: int
    id: str
    name: str
    arguments: str
    raw: str

    def values(self) -> Mapping[str, Any]:
        """The arguments of a finished call."""
        return json.loads(self.arguments)

    def to_openai(self) -> dict[str, Any]:
        """The call as the OpenAI API writes it."""
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": self.id, "type": "function", "function": function}


@attrs.frozen
class Violation:
    """Where an answer breaks what was asked for.

    `path` is a JSON pointer into the call's arguments (`/` for the call itself), `rule` the
    JSON Schema keyword that was broken, or one of `unknown-function`, `duplicate`, `format`,
    `schema` (the tool's own schema is unusable) and `tool_choice`.
    """

    call: int | None
    path: str
    rule: str
    message: str

    def to_json(self) -> dict[str, Any]:
        """The violation as a JSON object."""
        return attrs.asdict(self)


@attrs.frozen
class Message:
    """A whole answer. `unfinished` is a call that was cut off; it is never among `tool_calls`."""

    content: str
    reasoning_content: str
    tool_calls: tuple[ToolCall, ...] = ()
    violations: tuple[Violation, ...] = ()
    unfinished: ToolCall | None = None

    def to_openai(self) -> dict[str, Any]:
        """The message as it goes back into a conversation."""
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.reasoning_content:
            message["reasoning_content"] = self.reasoning_content
        if self.tool_calls:
            message["tool_calls"] = [c.to_openai() for c in self.tool_calls]
        return message

    def to_json(self) -> dict[str, Any]:
        """Everything that was read, violations and unfinished call included."""
        return {
            "role": "assistant",
            "content": self.content,
            "reasoning_content": self.reasoning_content,
            "tool_calls": [c.to_openai() for c in self.tool_calls],
            "violations": [v.to_json() for v in self.violations],
            "unfinished": None
            if self.unfinished is None
            else {**self.unfinished.to_openai()["function"], "raw": self.unfinished.raw},
        }


@attrs.frozen
class ReasoningDelta:
    """More of the thinking."""

    text: str


@attrs.frozen
class ContentDelta:
    """More of the answer's text."""

    text: str


@attrs.frozen
class CallStarted:
    """A call begins; its arguments follow."""

    index: int
    id: str
    name: str


@attrs.frozen
class CallArguments:
    """More of a call's arguments, as JSON text."""

    index: int
    text: str


@attrs.frozen
class CallFinished:
    """A call is complete and was checked."""

    call: ToolCall
    violations: tuple[Violation, ...]


Delta: TypeAlias = ReasoningDelta | ContentDelta | CallStarted | CallArguments | CallFinished
