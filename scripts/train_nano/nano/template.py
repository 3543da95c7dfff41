"""Render chats with the official Qwen3.8 template, and find what the model must learn in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import jinja2

from .synth.types import Chat, Turn

TEMPLATE = Path(__file__).parent.parent / "qwen3.8.jinja"
ASSISTANT = "<|im_start|>assistant\n"
END = "<|im_end|>"
Segment = tuple[str, bool]


def _refuse(message: str) -> NoReturn:
    raise ValueError(message)


def load_template(path: Path = TEMPLATE) -> Callable[..., str]:
    """The template as transformers sets it up: trimmed blocks, JSON without escaping."""
    env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    env.globals["raise_exception"] = _refuse
    env.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return env.from_string(path.read_text()).render


def messages(chat: Chat, until: int | None = None) -> list[dict[str, Any]]:
    """OpenAI-style messages; `until` leaves out the answer of that turn and all later turns."""
    out: list[dict[str, Any]] = []
    if chat.system:
        out.append({"role": "system", "content": chat.system})
    for i, turn in enumerate(chat.turns):
        out += _asked(turn)
        if i == until:
            break
        answer: dict[str, Any] = {"role": "assistant", "content": turn.answer}
        if thought := turn.thought.at(chat.level):
            answer["reasoning_content"] = thought
        if turn.calls:
            answer["tool_calls"] = [
                {"type": "function", "function": {"name": c.name, "arguments": c.arguments}}
                for c in turn.calls
            ]
        out.append(answer)
    return out


def _asked(turn: Turn) -> list[dict[str, Any]]:
    if turn.user is not None:
        return [{"role": "user", "content": turn.user}]
    return [{"role": "tool", "content": r} for r in turn.results]


def switches(chat: Chat) -> dict[str, Any]:
    """The template variables of a chat."""
    found: dict[str, Any] = {"enable_thinking": chat.level != "off"}
    if chat.level in ("low", "medium"):
        found["reasoning_effort"] = chat.level  # xhigh is the default and usually left out
    if not chat.preserve:
        found["preserve_thinking"] = False
    if chat.tools:
        found["tools"] = list(chat.tools)
    return found


def render(template: Callable[..., str], chat: Chat) -> list[Segment]:
    """The chat as (text, trained) segments that meet at the end of a generation prompt."""
    text = template(messages=messages(chat), add_generation_prompt=False, **switches(chat))
    opening = "<think>\n\n</think>\n\n" if chat.level == "off" else "<think>\n"
    segments: list[Segment] = []
    at = 0
    while (head := text.find(ASSISTANT + opening, at)) >= 0:
        start = head + len(ASSISTANT) + len(opening)
        stop = text.index(END, start) + len(END)
        segments += [(text[at:start], False), (text[start:stop], True)]
        at = stop
    segments.append((text[at:], False))
    return segments


def prompt(template: Callable[..., str], chat: Chat) -> str:
    """What the model sees before it answers the last turn."""
    last = len(chat.turns) - 1
    return template(messages=messages(chat, last), add_generation_prompt=True, **switches(chat))
