"""The component `jinja`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs
from outrider import (
    Assembly,
    ChatTemplate,
    ConfigError,
    ModelError,
    ModelInfo,
    OutriderError,
    Prompt,
    Runtime,
)
from outrider.chat import AnswerParser, ChatRequest

if TYPE_CHECKING:
    from outrider_jinja.rendering import JinjaRenderer


@attrs.frozen
class Config:
    """Options of `jinja`."""

    file: str | None = None
    """A template file to use instead of the model's own template."""
    images: bool = False
    """Let image and video parts through, for models that see."""


def read_template(file: str, assembly: Assembly) -> str:
    """The text of a template file, relative to the pipeline file. Raises ConfigError."""
    try:
        return assembly.model_path(file).read_text(encoding="utf-8")
    except ModelError:
        raise ConfigError(f"template file not found: {file}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the template file {file} cannot be read: {error}") from None


class JinjaTemplate(ChatTemplate):
    """Renders with the model's own template text, in a sandboxed jinja2 environment."""

    Config = Config
    cost = 100

    def __init__(self, config: Config, assembly: Assembly) -> None:
        super().__init__(config, assembly)
        self.config: Config = config
        self._renderer: JinjaRenderer | None = None
        self._text = None if config.file is None else read_template(config.file, assembly)

    def unsupported_reason(self, model: ModelInfo) -> str | None:
        """Why the model's template cannot be used."""
        from outrider_jinja.rendering import JinjaRenderer
        from outrider_jinja.sandbox import compile_template

        text = self._text if self._text is not None else model.chat_template
        if text is None:
            return "the model file carries no chat template"
        try:
            compile_template(text)
        except OutriderError as error:
            return str(error)
        self._renderer = JinjaRenderer(text)
        return None

    def open(self, runtime: Runtime) -> None:
        """Learn the tokens that a template may name."""
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

    def statistics(self) -> Mapping[str, Any]:
        """How conversations are rendered."""
        return {"rendering": "jinja"}

    def _read(self, request: Mapping[str, Any]) -> ChatRequest:
        assert self._renderer is not None, "unsupported_reason comes first"
        return self._renderer.read(request, images=self.config.images)
