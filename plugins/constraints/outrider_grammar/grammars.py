"""Grammars for what may be asked of an answer: a JSON document, or tool calls.

Tool calls follow the format that `outrider.chat.AnswerParser` reads. A strict function takes its
parameters in the order of its schema, required ones always, others at will; values that are not
text are JSON after the parameter's schema. A function that is not strict takes any of its
parameters with any value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from llguidance import regex_to_lark
from outrider import RequestError

_LINE = "\n"
_END = "\n</parameter>\n"
_LAZY_END = r"\n<\/parameter>\n"
_MAX_BLANKS = 8
"""Longest run of white space in a JSON document: a small model can be lost in blanks."""

Schema = Mapping[str, Any]


def json_grammar(schema: Schema) -> str:
    """An answer that is one JSON document of this schema."""
    return f"start: BLANKS? json\nBLANKS: /[ \\n]{{1,3}}/\njson: %json {_json(schema)}\n"


def calls_grammar(
    tools: Sequence[Mapping[str, Any]],
    strict: frozenset[str],
    *,
    parallel: bool,
    schema: Schema | None = None,
) -> str:
    """An answer that is one call or more, or else, with `schema`, a JSON document."""
    bodies = _Functions(tools, strict)
    many = "call (NL call)*" if parallel else "call"
    either = f"({many} | json)" if schema is not None else many
    lines = [
        f"start: BLANKS? {either}",
        "BLANKS: /[ \\n]{1,3}/",
        'NL: "\\n"',
        'call: "<tool_call>\\n" function "</tool_call>"',
        *bodies.lines,
    ]
    if schema is not None:
        lines.append(f"json: %json {_json(schema)}")
    return "\n".join(lines) + "\n"


def call_body_grammar(tools: Sequence[Mapping[str, Any]], strict: frozenset[str]) -> str:
    """What follows `<tool_call>`: one function and the closing tag."""
    bodies = _Functions(tools, strict)
    return "\n".join(['start: "\\n" function "</tool_call>"', *bodies.lines]) + "\n"


class _Functions:
    """The rules of every function on offer."""

    def __init__(self, tools: Sequence[Mapping[str, Any]], strict: frozenset[str]) -> None:
        self.lines: list[str] = []
        names: list[str] = []
        for index, tool in enumerate(tools):
            function = tool["function"]
            rule = f"f{index}"
            names.append(rule)
            parameters = function.get("parameters")
            root = cast("Schema", parameters) if isinstance(parameters, Mapping) else {}
            if function["name"] in strict:
                inner = self._strict(rule, root)
            else:
                inner = self._lenient(rule, root)
            head = _literal(f"<function={function['name']}>\n")
            self.lines.append(f"{rule}: {head} {inner} {_literal('</function>' + _LINE)}")
        self.lines.insert(0, f"function: {' | '.join(names)}")

    def _strict(self, rule: str, root: Schema) -> str:
        required = root.get("required") or ()
        parts: list[str] = []
        for position, (key, schema) in enumerate(_properties(root).items()):
            name = f"{rule}p{position}"
            head = _literal(f"<parameter={key}>\n")
            self.lines.append(f"{name}: {head} {self._value(name, schema, root)}")
            parts.append(name if key in required else f"{name}?")
        return " ".join(parts)

    def _lenient(self, rule: str, root: Schema) -> str:
        name, text = f"{rule}p", f"{rule}v"
        keys = " | ".join(_literal(k) for k in _properties(root))
        if root.get("additionalProperties") is not False:
            keys = f"{keys} | KEY".removeprefix(" | ")
        if not keys:
            return ""
        self.lines.append(f'{name}: "<parameter=" ({keys}) ">\\n" {text}')
        self.lines.append(f"{text}[lazy]: /(?s:.*){_LAZY_END}/")
        if "KEY: /[^<>\\n]{1,64}/" not in self.lines:
            self.lines.append("KEY: /[^<>\\n]{1,64}/")
        return f"{name}*"

    def _value(self, name: str, schema: Any, root: Schema) -> str:
        """The rule for a value and its closing tag; defines what it needs."""
        schema = _resolved(schema, root)
        members = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if members is not None:
            options = [m if isinstance(m, str) else json.dumps(m) for m in members]
            return "(" + " | ".join(_literal(o + _END) for o in options) + ")"
        kinds = _kinds(schema, root)
        if "string" in kinds:
            pattern = _text_pattern(schema) if kinds == {"string"} else "(?s:.*)"
            self.lines.append(f"{name}t[lazy]: /{pattern}{_LAZY_END}/")
            return f"{name}t"
        definitions = {k: root[k] for k in ("$defs", "definitions") if k in root}
        self.lines.append(f"{name}j: %json {_json({**definitions, **schema})}")
        return f"{name}j {_literal(_END)}"


def _properties(root: Schema) -> Mapping[str, Any]:
    value = root.get("properties")
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _resolved(schema: Any, root: Schema) -> Schema:
    """The schema behind local references."""
    for _ in range(32):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return cast("Schema", schema)
        target: Any = root
        for step in reference.removeprefix("#").strip("/").split("/"):
            target = target.get(step) if isinstance(target, Mapping) else None
        schema = target
    raise RequestError("the references of a tool's schema run in a circle")


def _kinds(schema: Schema, root: Schema) -> set[str]:
    """The types a value may have; {"string"} among them makes it plain text."""
    declared = schema.get("type")
    if isinstance(declared, str):
        return {declared}
    if isinstance(declared, list):
        return {str(t) for t in cast("list[Any]", declared)}
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list):
            return set().union(*(_kinds(_resolved(s, root), root) for s in schema[key]))
    return {"string"} if not schema else set()


def _text_pattern(schema: Schema) -> str:
    """A regular expression for a text value, without the line end before its closing tag."""
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        lead = "" if pattern.startswith("^") else "(?s:.*)"
        tail = "" if pattern.endswith("$") and not pattern.endswith("\\$") else "(?s:.*)"
        body = pattern.removeprefix("^")
        body = body[:-1] if not tail else body
        return f"{lead}(?:{regex_to_lark(body, 'dw')}){tail}"
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    if least or most is not None:
        return f"(?s:.{{{least},{'' if most is None else most}}})"
    return "(?s:.*)"


def _literal(text: str) -> str:
    """A Lark string. Non-ASCII is kept: Lark reads UTF-8."""
    return json.dumps(text, ensure_ascii=False)


def _json(schema: Schema) -> str:
    guidance = {"whitespace_pattern": f"[ \\n]{{1,{_MAX_BLANKS}}}"}
    return json.dumps({**schema, "x-guidance": guidance}, ensure_ascii=False)
