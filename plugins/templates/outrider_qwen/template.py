"""The component `qwen`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import attrs
from outrider import Assembly, ChatTemplate, ModelInfo, Prompt, Runtime
from outrider.chat import AnswerParser, ChatRequest
from outrider_jinja.template import read_template


class Renderer(Protocol):
    """Reads requests and renders them: natively, or with the model's own template text."""

    def opened(self, runtime: Runtime) -> Renderer:
        """The same, when the model's tokens are known."""
        ...

    def read(self, body: Mapping[str, Any] | bytes | str, *, images: bool = False) -> ChatRequest:
        """The request in template form."""
        ...

    def render(self, chat: ChatRequest) -> Prompt:
        """The prompt of a request."""
        ...


@attrs.frozen
class Config:
    """Options of `qwen`."""

    file: str | None = None
    """A template file to use instead of the model's own template."""
    images: bool = False
    """Let image and video parts through, for models that see."""


class QwenTemplate(ChatTemplate):
    """Renders Qwen3.5 / 3.6 / 3.8 conversations without Jinja.

    Which version a model speaks is found out from its template text (`recognise`). A text of
    this family that the plugin does not render to the byte is rendered with `jinja`; `note`
    says so and why.
    """

    Config = Config
    cost = 10

    def __init__(self, config: Config, assembly: Assembly) -> None:
        super().__init__(config, assembly)
        self.config: Config = config
        self._renderer: Renderer | None = None
        self._text = None if config.file is None else read_template(config.file, assembly)
        self.note = ""

    def unsupported_reason(self, model: ModelInfo) -> str | None:
        """Why the model's template is not of this family."""
        from outrider_jinja.rendering import JinjaRenderer

        from outrider_qwen.recognise import recognise
        from outrider_qwen.rendering import NativeRenderer

        text = self._text if self._text is not None else model.chat_template
        if text is None:
            return "the model file carries no chat template"
        found = recognise(text)
        if found.dialect is not None:
            self._renderer = NativeRenderer(found.dialect)
            self.note = f"native, {found.dialect.name}"
            return None
        if not ("<function=" in text and "<tool_call>" in text and "<think>" in text):
            return f"the model's template is not one of Qwen3.5 / 3.6 / 3.8: {found.reason}"
        self._renderer = JinjaRenderer(text)
        self.note = f"jinja, because the template is not one rendered to the byte: {found.reason}"
        return None

    def open(self, runtime: Runtime) -> None:
        """Learn the model's tokens, if the text names any."""
        assert self._renderer is not None
        self._renderer = self._renderer.opened(runtime)

    def render(self, request: Mapping[str, Any]) -> Prompt:
        """The prompt of an OpenAI-shaped request body."""
        chat = self._read(request)
        assert self._renderer is not None
        return attrs.evolve(self._renderer.render(chat), notes=chat.notes)

    def parser(self, request: Mapping[str, Any], prompt: Prompt) -> AnswerParser:
        """A reader for the answer to a request."""
        return AnswerParser.for_request(self._read(request), thinking=prompt.thinking)

    def _read(self, request: Mapping[str, Any]) -> ChatRequest:
        assert self._renderer is not None, "unsupported_reason comes first"
        return self._renderer.read(request, images=self.config.images)

    def statistics(self) -> Mapping[str, Any]:
        """How conversations are rendered."""
        return {"rendering": self.note}
