"""The components `json-schema` and `tool-calls`: which grammar a request asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from outrider import Constraint, ConstraintFactory, Prompt, RequestError, Runtime
from outrider.chat import ToolChoice, ToolMode, read_tools

if TYPE_CHECKING:
    from outrider_grammar.compiler import GrammarCompiler

TRIGGER = b"<tool_call>"


class _GrammarFactory(ConstraintFactory):
    """What both have in common: a compiler for the vocabulary, made when first needed."""

    def open(self, runtime: Runtime) -> None:
        """Remember the vocabulary."""
        self._vocabulary = runtime.engine.vocabulary
        self._made: GrammarCompiler | None = None

    @property
    def _compiler(self) -> GrammarCompiler:
        if self._made is None:
            from outrider_grammar.compiler import GrammarCompiler

            self._made = GrammarCompiler(self._vocabulary)
        return self._made

    def _constraint(
        self, lark: str, what: str, prompt: Prompt | None, trigger: bytes | None = None
    ) -> Constraint:
        from outrider_grammar.constraint import GrammarConstraint

        close: int | None = None
        if prompt is not None and prompt.thinking:
            closing = self._vocabulary.tokenize("</think>")
            if len(closing) != 1:
                raise RequestError(f"{what} cannot be enforced: this model has no token </think>")
            close = closing[0]
        matcher = self._compiler.compile(lark, what)
        return GrammarConstraint(matcher, self._vocabulary, close=close, trigger=trigger)


class JsonSchemaFactory(_GrammarFactory):
    """`response_format`: the answer is a JSON document of the given schema.

    With tools on offer, and no `tool_choice` against it, the answer may be calls instead.
    """

    fields = frozenset({"response_format"})

    def make(self, request: Mapping[str, Any], prompt: Prompt | None) -> Constraint | None:
        """The grammar of a request's `response_format`; None for free text."""
        schema = response_schema(request)
        tools = read_tools(request)
        if schema is None or tools.choice.mode is ToolMode.REQUIRED:
            return None
        from outrider_grammar.grammars import calls_grammar, json_grammar

        if tools.offered and tools.choice.mode is ToolMode.AUTO:
            lark = calls_grammar(
                tools.offered, tools.strict, parallel=tools.parallel, schema=schema
            )
        else:
            lark = json_grammar(schema)
        return self._constraint(lark, "response_format", prompt)


class ToolCallsFactory(_GrammarFactory):
    """`tool_choice` that demands a call, and functions with `strict: true`.

    A demanded call must come; the arguments of strict functions follow their schema whenever the
    model calls.
    """

    def make(self, request: Mapping[str, Any], prompt: Prompt | None) -> Constraint | None:
        """The grammar of a request's tools; None when it asks for no guarantee."""
        tools = read_tools(request)
        if not tools.offered or tools.choice.mode is ToolMode.NONE:
            return None
        from outrider_grammar.grammars import call_body_grammar, calls_grammar

        if tools.choice.mode is ToolMode.REQUIRED:
            offered = [t for t in tools.offered if _is_chosen(t, tools.choice)]
            lark = calls_grammar(offered, tools.strict, parallel=tools.parallel)
            return self._constraint(lark, "tool_choice", prompt)
        if not tools.strict or response_schema(request) is not None:
            return None
        lark = call_body_grammar(tools.offered, tools.strict)
        return self._constraint(lark, "a strict function", prompt, TRIGGER)


def response_schema(request: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The schema that `response_format` asks for; None for text. Raises RequestError."""
    wanted = request.get("response_format")
    if wanted is None:
        return None
    form = _object(wanted, "response_format")
    match form.get("type"):
        case "text":
            return None
        case "json_object":
            return _object(form.get("schema") or {"type": "object"}, "response_format.schema")
        case "json_schema":
            wrapper = _object(form.get("json_schema"), "response_format.json_schema")
            where = "response_format.json_schema.schema"
            return _object(wrapper.get("schema") or {"type": "object"}, where)
        case other:
            raise RequestError(
                "response_format.type must be 'text', 'json_object' or 'json_schema', "
                f"got {other!r}"
            )


def _object(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise RequestError(f"{where} must be an object")
    return cast("Mapping[str, Any]", value)


def _is_chosen(tool: Mapping[str, Any], choice: ToolChoice) -> bool:
    return choice.name is None or tool["function"]["name"] == choice.name
