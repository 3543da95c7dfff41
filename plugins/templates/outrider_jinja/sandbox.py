"""A jinja2 environment set up as transformers does it (`utils/chat_template_utils.py`).

Sandboxed and immutable; blocks trimmed; `break` and `continue`; `tojson` without ASCII escaping;
`raise_exception`, `strftime_now` and the `generation` block.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NoReturn

import jinja2
import jinja2.sandbox
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from outrider import RequestError


class TemplateRaised(jinja2.TemplateError):
    """The template itself raised an error, with `raise_exception`."""


class GenerationBlock(Extension):
    """`{% generation %}…{% endgeneration %}`: marks what a model wrote; rendered as it is."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 wants a set

    def parse(self, parser: Parser) -> nodes.Node:
        """The block's body."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


ENGINE_FAILED = "the chat template cannot render this request"
"""How a refusal begins that is the engine's and not the template's own."""


@functools.cache
def environment() -> jinja2.Environment:
    """The sandboxed environment."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlock, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.filters["items"] = _items
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)  # pyright: ignore
    return environment


def parse_template(text: str) -> nodes.Template:
    """The syntax tree of a template. Raises RequestError when its syntax is wrong."""
    with _syntax_errors():
        return environment().parse(text)


@functools.lru_cache(maxsize=32)
def compile_template(text: str) -> jinja2.Template:
    """A template ready to render. Raises RequestError when its syntax is wrong."""
    with _syntax_errors():
        return environment().from_string(text)


@contextlib.contextmanager
def _syntax_errors() -> Iterator[None]:
    try:
        yield
    except jinja2.TemplateSyntaxError as error:
        raise RequestError(
            f"the chat template is not valid Jinja: {error.message} (line {error.lineno})"
        ) from None


def render_template(text: str, variables: Mapping[str, Any]) -> str:
    """Render a template text. Raises RequestError with the template's own words if it raises."""
    template = compile_template(text)
    try:
        return template.render(**variables)
    except TemplateRaised as error:
        raise RequestError(str(error)) from None
    except jinja2.TemplateError as error:
        raise RequestError(f"{ENGINE_FAILED}: {error}") from None
    except Exception as error:  # a template is foreign code: it can fail in any way
        raise RequestError(f"{ENGINE_FAILED}: {type(error).__name__}: {error}") from None


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    """Like jinja2's, but null has no items: a call with null arguments is one without."""
    if value is None or isinstance(value, jinja2.Undefined):
        return
    if not isinstance(value, Mapping):
        raise TypeError("Can only get item pairs from a mapping.")
    yield from value.items()


def _raise(message: str) -> NoReturn:
    raise TemplateRaised(message)
