"""Rendering a request with a model's own template text."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from outrider import Prompt, RequestError, Runtime
from outrider.chat import QWEN_EFFORTS, ChatRequest

from outrider_jinja.sandbox import render_template

_OPEN, _CLOSE = "<think>\n", "\n</think>\n\n"
_MARK = "typed content marker"


@attrs.frozen
class JinjaRenderer:
    """One template text and the tokens it may name."""

    text: str
    bos: str = ""
    eos: str = ""
    adds_bos: bool = False
    """The tokenizer puts the first token there by itself; a template's own copy is dropped."""

    def opened(self, runtime: Runtime) -> JinjaRenderer:
        """The same with the tokens of the model: the first and the last one of a text."""
        metadata, vocabulary = runtime.engine.info.metadata, runtime.engine.vocabulary
        pieces: dict[str, str] = {}
        for name in ("bos", "eos"):
            token = metadata.get(f"tokenizer.ggml.{name}_token_id")
            if isinstance(token, int):
                pieces[name] = vocabulary.piece(token).decode(errors="replace")
        adds_bos = bool(pieces.get("bos")) and bool(vocabulary.tokenize("", bos=True))
        return attrs.evolve(self, adds_bos=adds_bos, **pieces)

    @functools.cached_property
    def typed_content(self) -> bool:
        """Whether the template reads content that is a list of parts."""
        part = {"type": "text", "text": _MARK}
        try:
            rendered = self._render([{"role": "user", "content": [part]}], (), {}, True)
        except RequestError:
            return False
        return _MARK in rendered and "'type'" not in rendered

    @property
    def thinks(self) -> bool:
        """Whether the template knows thinking blocks."""
        return "<think>" in self.text and "</think>" in self.text

    @property
    def efforts(self) -> tuple[str, ...]:
        """The reasoning efforts of the Qwen3.8 family, if the template takes them."""
        takes = "reasoning_effort" in self.text and "'xhigh'" in self.text
        return QWEN_EFFORTS if takes else ()

    def read(self, body: Mapping[str, Any] | bytes | str, *, images: bool = False) -> ChatRequest:
        """The request in the form this template takes. Raises RequestError."""
        return ChatRequest.read(body, efforts=self.efforts, images=images)

    def render(self, chat: ChatRequest) -> Prompt:
        """The prompt of a request. Raises RequestError where the template raises."""
        messages: Sequence[Mapping[str, Any]] = chat.messages
        if not self.typed_content:
            messages = [_with_text_content(m) for m in messages]
        history = self._render(messages, chat.tools, chat.variables, False)
        unfinished = chat.continuation
        if not chat.generation_prompt and unfinished is None:
            return Prompt(history, len(history))
        full = self._render(messages, chat.tools, chat.variables, True)
        common = len(history) if full.startswith(history) else _common(history, full)
        ending = full[common:]
        if unfinished is None:
            return Prompt(full, common, self._leaves_open(ending))
        if self.thinks:
            ending = ending.partition(_OPEN)[0] + _OPEN + unfinished.reasoning
            if not unfinished.inside_thinking:
                ending += _CLOSE
        if not (self.thinks and unfinished.inside_thinking):
            ending += unfinished.content
        return Prompt(history + ending, len(history), self.thinks and unfinished.inside_thinking)

    def _render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        variables: Mapping[str, Any],
        generation_prompt: bool,
    ) -> str:
        context: dict[str, Any] = {"bos_token": self.bos, "eos_token": self.eos, **variables}
        context["messages"] = list(messages)
        if tools:
            context["tools"] = list(tools)
        if generation_prompt:
            context["add_generation_prompt"] = True
        text = render_template(self.text, context)
        return text.removeprefix(self.bos) if self.adds_bos else text

    def _leaves_open(self, ending: str) -> bool:
        return self.thinks and ending.rfind("<think>") > ending.rfind("</think>")


def _with_text_content(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Parts joined with line ends, for templates that take text only."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    text = "\n".join(p.get("text", "") for p in content if p.get("type") == "text")
    return {**message, "content": text}


def _common(a: str, b: str) -> int:
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return n
