"""An incremental reader of answers: thinking, text, and tool calls between tags.

The call format is the one Qwen3-Coder and Qwen3.5+ write:

    <tool_call>
    <function=NAME>
    <parameter=KEY>
    value
    </parameter>
    </function>
    </tool_call>

Nothing in a value is escaped, so a value may contain any of these tags. A tag counts when it
stands where the format wants it: `</parameter>` closes a value only if a tag that may follow it
does follow; `<parameter=KEY>` opens the next one only at the start of a line, and only if the
tool has such a parameter that was not given yet. Other tags at the start of a line put the rest
of the value on hold: if a proper end comes, they were data; if none comes, the value was not
closed and the calls after it are read for themselves.

What was handed out is never taken back, and every character comes out as thinking, as text or in
a call's `raw`; only tags and the white space around them are dropped.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, cast

import attrs

from outrider.chat.message import (
    CallArguments,
    CallFinished,
    CallStarted,
    ContentDelta,
    Delta,
    Message,
    ReasoningDelta,
    ToolCall,
    Violation,
)
from outrider.chat.request import ChatRequest
from outrider.chat.schema import ToolSchema, pointer, write_value
from outrider.chat.tools import FREE_CHOICE, LONGEST_NAME, NAME, ToolChoice, ToolMode

_THINK, _END_THINK = "<think>", "</think>"
_CALL, _END_CALL = "<tool_call>", "</tool_call>"
_FUNCTION, _END_FUNCTION = "<function=", "</function>"
_PARAMETER, _END_PARAMETER = "<parameter=", "</parameter>"

_NAME = re.compile(f"{NAME}>")
_MAX_TRIES = 16
"""Starts of calls in an unclosed thinking that are tried; each try reads the rest of the text."""
_CALL_TAG = re.compile(r"<tool_call>|<function=")
_VALUE_TAG = re.compile(r"</?(?:parameter|function|tool_call)[=>]")
_AFTER_VALUE = (_PARAMETER, _END_FUNCTION, _END_CALL, _CALL, _FUNCTION)


def new_call_id(index: int) -> str:
    """A call id as OpenAI writes them."""
    return "call_" + secrets.token_hex(12)


class _Undecided(Exception):  # noqa: N818 - a signal, not an error
    """What follows is not decided before more text arrives."""


@attrs.define
class _Call:
    """A call being read."""

    index: int
    id: str
    name: str
    schema: ToolSchema | None
    raw: str = ""
    arguments: str = ""
    values: dict[str, Any] = attrs.field(factory=dict[str, Any])
    violations: list[Violation] = attrs.field(factory=list[Violation])

    def fault(self, path: str, rule: str, message: str) -> None:
        self.violations.append(Violation(self.index, path, rule, message))

    def finished(self) -> ToolCall:
        return ToolCall(self.index, self.id, self.name, self.arguments, self.raw)


@attrs.define
class _Value:
    """A parameter's value being read; positions count from its first character in the buffer."""

    key: str
    newline: str
    """The line end that opened it, which one before the closing tag mirrors."""
    streams: bool
    """Plain text, handed out as it comes."""
    duplicate: bool
    scanned: int = 0
    sent: int = 0
    hold: int | None = None
    """Where the value ends if no proper end comes."""
    depth: int = 0
    """Calls opened inside the value and not closed there."""


class AnswerParser:
    """Reads one answer.

    `tools` are the request's tools in template form, `thinking` tells whether the prompt left a
    thinking block open. Text goes in through `feed`, `finish` ends it; both return the deltas
    that became certain. `message` is the whole answer so far.
    """

    def __init__(
        self,
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        thinking: bool = False,
        tool_choice: ToolChoice = FREE_CHOICE,
        parallel_tool_calls: bool = True,
        call_id: Callable[[int], str] = new_call_id,
    ) -> None:
        self._schemas = dict(_schemas(tools))
        self._choice = tool_choice
        self._may_call = bool(self._schemas) and tool_choice.mode is not ToolMode.NONE
        self._parallel = parallel_tool_calls
        self._call_id = call_id
        self._text = ""
        self._final = False
        self._state = self._thinking if thinking else self._content
        self._forced_end = False
        self._line_start = True
        self._blank = ""
        self._out: list[Delta] = []
        self._reasoning: list[str] = []
        self._answer: list[str] = []
        self._calls: list[ToolCall] = []
        self._violations: list[Violation] = []
        self._call: _Call | None = None
        self._value: _Value | None = None

    @classmethod
    def for_request(cls, chat: ChatRequest, *, thinking: bool) -> AnswerParser:
        """A reader for the answer to a request."""
        return cls(
            chat.tools,
            thinking=thinking,
            tool_choice=chat.tool_choice,
            parallel_tool_calls=chat.parallel_tool_calls,
        )

    # --- in and out ---------------------------------------------------------------------------

    def feed(self, text: str, *, forced: bool = False) -> list[Delta]:
        """Read more of the answer. `forced`: a constraint wrote this text, not the model.

        A forced text that closes the thinking does so at once, whatever the thinking was in the
        middle of.
        """
        self._out = []
        if forced and self._state == self._thinking and _END_THINK in text:
            before, _, text = text.partition(_END_THINK)
            self._say(self._reasoning, ReasoningDelta, self._text + before)
            self._text = ""
            self._end_thinking()
            self._forced_end = True
        self._text += text
        return self._run()

    def finish(self) -> list[Delta]:
        """The answer is over: hand out what was held back."""
        self._out = []
        self._final = True
        deltas = self._run()
        if self._call is None and not self._calls and self._choice.mode is ToolMode.REQUIRED:
            wanted = self._choice.name or "a tool"
            self._violations.append(
                Violation(None, "/", "tool_choice", f"a call of {wanted} was required")
            )
        return deltas

    @property
    def message(self) -> Message:
        """The answer as far as it was read."""
        return Message(
            content="".join(self._answer),
            reasoning_content="".join(self._reasoning),
            tool_calls=tuple(self._calls),
            violations=tuple(self._violations),
            unfinished=None if self._call is None else self._call.finished(),
        )

    @property
    def thinking(self) -> bool:
        """Whether the answer is inside its thinking."""
        return self._state == self._thinking

    def _run(self) -> list[Delta]:
        try:
            while self._text or self._final:
                if not self._state():
                    break
        except _Undecided:
            pass
        return self._out

    def _take(self, count: int) -> str:
        taken, self._text = self._text[:count], self._text[count:]
        if taken:
            _, newline, indent = taken.rpartition("\n")
            self._line_start = (bool(newline) or self._line_start) and not indent.strip(" \t")
            if self._call is not None:
                self._call.raw += taken
        return taken

    def _say(self, channel: list[str], delta: Callable[[str], Delta], text: str) -> None:
        """Hand out text; white space waits until it is known to be inside the text."""
        solid = text.rstrip()
        if not solid:
            self._blank += text
            return
        said = self._blank + solid
        if not channel:
            said = said.lstrip("\r\n")
        self._blank = text[len(solid) :]
        channel.append(said)
        self._out.append(delta(said))

    # --- thinking and text ----------------------------------------------------------------------

    def _thinking(self) -> bool:
        if not self._reasoning and self._text.lstrip().startswith(_THINK):
            # The prompt opened the block already and the model opens it again.
            self._take(self._text.index(_THINK) + len(_THINK))
            return True
        end = self._text.find(_END_THINK)
        if end >= 0:
            self._say(self._reasoning, ReasoningDelta, self._take(end))
            self._take(len(_END_THINK))
            self._end_thinking()
            return True
        if self._final:
            for call in islice(self._call_starts(), _MAX_TRIES):
                if self._only_calls(self._text[call:]):
                    # The model called without closing its thinking.
                    self._say(self._reasoning, ReasoningDelta, self._take(call))
                    self._end_thinking()
                    return True
            safe = len(self._text)
        elif not self._reasoning and _THINK.startswith(self._text.strip()):
            safe = 0
        else:
            safe = next(self._call_starts(), self._undecided((_END_THINK, _CALL, _FUNCTION)))
        self._say(self._reasoning, ReasoningDelta, self._take(safe))
        return False

    def _end_thinking(self) -> None:
        self._blank = ""
        self._state = self._content

    def _only_calls(self, text: str) -> bool:
        """Whether a text consists of finished calls of offered functions and nothing else."""
        inner = AnswerParser(call_id=str)
        inner._schemas, inner._may_call = self._schemas, True
        inner.feed(text)
        inner.finish()
        read = inner.message
        offered = read.tool_calls and all(c.name in self._schemas for c in read.tool_calls)
        return bool(offered) and not read.content and read.unfinished is None

    def _content(self) -> bool:
        if not self._answer and not self._calls:
            lead = self._text.lstrip()
            if lead.startswith(_THINK + "\n"):
                self._take(self._text.index(_THINK) + len(_THINK) + 1)
                self._blank = "\n" if self._reasoning else ""
                self._state = self._thinking
                return True
            if (_THINK + "\n").startswith(lead) and not self._final:
                raise _Undecided
        if self._forced_end and not self._answer:
            lead = self._text.lstrip()
            if lead.startswith(_END_THINK):
                # The model closes the thinking that was closed for it.
                self._take(self._text.index(_END_THINK) + len(_END_THINK))
                self._forced_end = False
                return True
            if _END_THINK.startswith(lead) and not self._final:
                raise _Undecided
        start = next(self._call_starts(), -1)
        if start < 0:
            safe = len(self._text) if self._final else self._undecided((_CALL, _FUNCTION))
            self._say(self._answer, ContentDelta, self._take(safe))
            if self._final and self._answer and not self._calls and self._blank:
                self._answer.append(self._blank)
                self._out.append(ContentDelta(self._blank))
                self._blank = ""
            return False
        self._say(self._answer, ContentDelta, self._take(start))
        opening = self._opening_at(self._text, 0)
        if opening is None:
            return False
        self._open_call(*opening)
        return True

    def _call_starts(self) -> Iterator[int]:
        """Where in the buffer calls start or, for want of text, may start."""
        if not self._may_call or (self._calls and not self._parallel):
            return
        for match in _CALL_TAG.finditer(self._text):
            at = match.start()
            if match.group() == _FUNCTION and not self._starts_line(self._text, at):
                continue
            try:
                found = self._opening_at(self._text, at)
            except _Undecided:
                yield at
            else:
                if found is not None:
                    yield at

    def _starts_line(self, text: str, at: int) -> bool:
        while at and text[at - 1] in " \t":
            at -= 1
        return text[at - 1] == "\n" if at else self._line_start

    def _opening_at(self, text: str, at: int) -> tuple[str, int] | None:
        """Name and end of the call opening at `at`; None when there is none."""
        wrapped = text.startswith(_CALL, at)
        at = at + len(_CALL) if wrapped else at
        at += len(text[at:]) - len(text[at:].lstrip())
        if not text.startswith(_FUNCTION, at):
            if not self._final and _FUNCTION.startswith(text[at:]):
                raise _Undecided
            return None
        name, end = self._name(text, at + len(_FUNCTION))
        if name is None or not (wrapped or name in self._schemas):
            return None
        return name, end

    def _name(self, text: str, at: int) -> tuple[str | None, int]:
        """The name that runs up to `>`; None when there is no name."""
        if match := _NAME.match(text, at):
            return match.group()[:-1].strip(), match.end()
        rest = text[at : at + LONGEST_NAME + 1]
        if not self._final and len(rest) <= LONGEST_NAME and not re.search(r"[<>\n]", rest):
            raise _Undecided
        return None, at

    def _undecided(self, tags: Sequence[str]) -> int:
        """Length of the buffer without a tail that may become one of `tags`."""
        tail = self._text.rfind("<")
        if tail >= 0 and any(t.startswith(self._text[tail:]) for t in tags):
            return tail
        return len(self._text)

    # --- calls --------------------------------------------------------------------------------

    def _open_call(self, name: str, end: int) -> None:
        index = len(self._calls)
        call = _Call(index, self._call_id(index), name, self._schemas.get(name))
        if call.schema is None:
            call.fault("/", "unknown-function", f"no function {name!r} was offered")
        if self._choice.name is not None and name != self._choice.name:
            call.fault("/", "tool_choice", f"a call of {self._choice.name!r} was required")
        self._call = call
        self._blank = ""
        self._take(end)
        self._out.append(CallStarted(index, call.id, name))
        self._argue("{")
        self._state = self._function

    def _argue(self, text: str) -> None:
        assert self._call is not None
        self._call.arguments += text
        self._out.append(CallArguments(self._call.index, text))

    def _function(self) -> bool:
        """Between the parameters of a call."""
        call = self._call
        assert call is not None
        text = self._text.lstrip()
        self._take(len(self._text) - len(text))
        if not text:
            return False
        if text.startswith(_PARAMETER):
            key, end = self._name(text, len(_PARAMETER))
            if key is not None:
                return self._open_value(key, end)
        elif text.startswith((_END_FUNCTION, _END_CALL, _FUNCTION, _CALL)):
            return self._close_call(len(_END_FUNCTION) if text.startswith(_END_FUNCTION) else 0)
        elif not self._final and any(t.startswith(text) for t in (*_AFTER_VALUE, _END_PARAMETER)):
            raise _Undecided
        stray = len(_END_PARAMETER) if text.startswith(_END_PARAMETER) else text.find("<", 1)
        self._take(stray if stray > 0 else len(text))
        if not any(v.rule == "format" for v in call.violations):
            call.fault("/", "format", "there is text between the parameters of the call")
        return True

    def _close_call(self, count: int) -> bool:
        call = self._call
        assert call is not None
        self._take(count)
        self._argue("}")
        if call.schema is not None:
            call.violations += call.schema.violations(call.index, call.values)
        finished = call.finished()
        self._calls.append(finished)
        self._violations += call.violations
        self._out.append(CallFinished(finished, tuple(call.violations)))
        self._call = None
        self._state = self._after_call
        return True

    def _after_call(self) -> bool:
        """After a function: the wrapper's end, another function, or text again."""
        text = self._text.lstrip()
        if text.startswith(_END_CALL):
            self._take(len(self._text) - len(text) + len(_END_CALL))
            self._state = self._content
            return True
        if text.startswith(_FUNCTION) and self._parallel:
            name, end = self._name(text, len(_FUNCTION))
            if name is not None:
                self._take(len(self._text) - len(text))
                self._open_call(name, end)
                return True
        elif not self._final and any(t.startswith(text) for t in (_END_CALL, _FUNCTION)):
            raise _Undecided
        self._state = self._content
        return True

    # --- values -------------------------------------------------------------------------------

    def _open_value(self, key: str, end: int) -> bool:
        call = self._call
        assert call is not None
        rest = self._text[end : end + 2]
        if not self._final and rest in ("", "\r"):
            raise _Undecided
        newline = "\r\n" if rest == "\r\n" else "\n" if rest.startswith("\n") else ""
        duplicate = key in call.values
        if duplicate:
            call.fault(pointer(key), "duplicate", f"{key!r} is given twice; the first one counts")
        streams = not duplicate and (call.schema is None or call.schema.is_plain_text(key))
        self._value = _Value(key, newline, streams, duplicate)
        self._take(end + len(newline))
        if streams:
            self._argue(self._key(key) + '"')
        self._state = self._in_value
        return True

    def _key(self, key: str) -> str:
        assert self._call is not None
        return (", " if self._call.values else "") + write_value(key) + ": "

    def _in_value(self) -> bool:
        value = self._value
        assert value is not None
        end = self._end_of_value(value)
        if end is None:
            return False
        text = self._text[:end]
        if text.endswith("\r\n" if value.newline == "\r\n" else "\n"):
            text = text[: -2 if value.newline == "\r\n" else -1]
        self._close_value(value, text, end)
        return True

    def _end_of_value(self, value: _Value) -> int | None:
        """Where the value ends in the buffer; None when it goes on (its safe part is sent)."""
        text = self._text
        while match := _VALUE_TAG.search(text, value.scanned):
            at, tag = match.start(), match.group()
            try:
                if self._ends_value(value, at, tag):
                    return at
            except _Undecided:
                value.scanned = at
                self._send(value, at)
                return None
            value.scanned = match.end()
        tail = text.rfind("<", max(value.scanned, len(text) - len(_END_PARAMETER)))
        safe = tail if tail >= 0 and ">" not in text[tail:] else len(text)
        value.scanned = max(value.scanned, safe)
        if not self._final:
            self._send(value, safe)
            return None
        if value.hold is not None:
            assert self._call is not None
            self._call.fault(pointer(value.key), "format", f"the value of {value.key!r} has no end")
            return value.hold
        self._send(value, safe)
        self._take(len(text))
        return None

    def _ends_value(self, value: _Value, at: int, tag: str) -> bool:
        """Whether the tag at `at` ends the value; notes where a value on hold would end."""
        text, call = self._text, self._call
        assert call is not None
        if tag == _END_PARAMETER:
            return value.depth == 0 and self._may_follow_value(text, at + len(tag))
        if tag == _END_CALL and value.depth:
            value.depth -= 1
            return False
        if not self._starts_line(text, at):
            return False
        if tag == _PARAMETER:
            if value.depth or value.hold is not None or call.schema is None:
                return False
            key, _ = self._name(text, at + len(tag))
            return (
                key is not None
                and key != value.key
                and key not in call.values
                and call.schema.declares(key)
            )
        if tag == _CALL:
            opening = self._opening_at(text, at)
            if opening is None:
                return False
            value.depth += 1
        elif tag == _FUNCTION:
            name, _ = self._name(text, at + len(tag))
            if value.depth or name not in self._schemas:
                return False
        elif tag not in (_END_FUNCTION, _END_CALL) or value.depth:
            return False
        if value.hold is None:
            value.hold = at
        return False

    def _may_follow_value(self, text: str, at: int) -> bool:
        rest = text[at:].lstrip()
        if rest.startswith(_AFTER_VALUE):
            return True
        if any(t.startswith(rest) for t in _AFTER_VALUE):
            if self._final:
                return True
            raise _Undecided
        return False

    def _send(self, value: _Value, safe: int) -> None:
        """Stream the part of a text value that can no longer change."""
        if not value.streams:
            return
        if value.hold is not None:
            safe = min(safe, value.hold)
        safe = len(self._text[:safe].rstrip("\r\n"))
        if safe > value.sent:
            self._argue(write_value(self._text[value.sent : safe])[1:-1])
            value.sent = safe

    def _close_value(self, value: _Value, text: str, end: int) -> None:
        call = self._call
        assert call is not None
        if value.streams:
            self._argue(write_value(text[value.sent :])[1:-1] + '"')
            call.values[value.key] = text
        elif not value.duplicate:
            restored: Any = text
            if call.schema is not None:
                restored = call.schema.restore(value.key, text)
            self._argue(self._key(value.key) + write_value(restored))
            call.values[value.key] = restored
        closing = len(_END_PARAMETER) if self._text.startswith(_END_PARAMETER, end) else 0
        self._take(end + closing)
        self._value = None
        self._state = self._function


def _schemas(tools: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ToolSchema]]:
    """Functions by name; template variables may bring in tools that are none."""
    for tool in tools:
        function = tool.get("function")
        if isinstance(function, Mapping):
            found = cast("Mapping[str, Any]", function)
            if isinstance(found.get("name"), str):
                yield found["name"], ToolSchema(found.get("parameters"))
