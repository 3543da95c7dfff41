"""Grammars for what may be asked of an answer: a JSON document, or tool calls.

Tool calls follow the format that `outrider.chat.AnswerParser` reads. A strict function takes its
parameters in the order of its schema, required ones always, others at will; values that are not
text are JSON after the parameter's schema. A function that is not strict takes any of its
parameters with any value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from llguidance import regex_to_lark
from outrider import RequestError

_LINE = "\n"
_END = "\n</parameter>\n"
_LAZY_END = r"\n<\/parameter>\n"
_MAX_BLANKS = 8
"""Longest run of white space in a JSON document: a small model can be lost in blanks."""

_MAX_COUNTED = 1024
"""Text lengths up to which minLength and maxLength are enforced; automata count in states."""

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
        self._names = [str(tool["function"]["name"]) for tool in tools]
        rules = [f"f{index}" for index in range(len(tools))]
        for rule, name, tool in zip(rules, self._names, tools, strict=True):
            parameters = tool["function"].get("parameters")
            root = cast("Schema", parameters) if isinstance(parameters, Mapping) else {}
            inner = self._strict(rule, name, root) if name in strict else self._lenient(rule, root)
            head = _literal(f"<function={name}>\n")
            self.lines.append(f"{rule}: {head} {inner} {_literal('</function>' + _LINE)}")
        self.lines.insert(0, f"function: {' | '.join(rules)}")

    def _strict(self, rule: str, function: str, root: Schema) -> str:
        whole = _resolved(root, root)
        for keyword in ("anyOf", "oneOf", "allOf", "not", "if", "dependentRequired"):
            if keyword in whole:
                raise RequestError(
                    f"the strict function {function!r} cannot be enforced: its parameters have "
                    f"{keyword!r} on top level"
                )
        required = _list(whole.get("required"))
        properties = dict(_properties(whole))
        for key in required:
            properties.setdefault(key, {})
        parts: list[str] = []
        for position, (key, schema) in enumerate(properties.items()):
            name = f"{rule}p{position}"
            head = _literal(f"<parameter={key}>\n")
            value = self._value(name, schema, root, list(properties))
            self.lines.append(f"{name}: {head} {value}")
            parts.append(name if key in required else f"{name}?")
        return " ".join(parts)

    def _lenient(self, rule: str, root: Schema) -> str:
        name, text = f"{rule}p", f"{rule}v"
        keys = [_literal(k) for k in _properties(root)]
        if root.get("additionalProperties") is not False:
            keys.append("KEY")
            self._once("KEY: /[^<>\\n]{1,64}/")
        if not keys:
            return ""
        self.lines.append(f'{name}: "<parameter=" ({" | ".join(keys)}) ">\\n" {text}')
        self.lines.append(f"{text}[lazy]: /(?s:.*){_LAZY_END}/")
        return f"{name}*"

    def _value(self, name: str, schema: Any, root: Schema, keys: Sequence[str]) -> str:
        """The rule for a value and its closing tag; defines what it needs."""
        schema = _resolved(schema, root)
        for keyword in ("anyOf", "oneOf"):
            if members := _list(schema.get(keyword)):
                rest = {k: v for k, v in schema.items() if k != keyword}
                rules = [
                    self._value(f"{name}m{i}", {**rest, **_resolved(m, root)}, root, keys)
                    for i, m in enumerate(members)
                ]
                return "(" + " | ".join(rules) + ")"
        members = _list(schema.get("enum")) or ([schema["const"]] if "const" in schema else [])
        if members:
            options = [m if isinstance(m, str) else json.dumps(m) for m in members]
            return "(" + " | ".join(_literal(o + _END) for o in options) + ")"
        kinds = _kinds(schema)
        if "string" in kinds:
            conditions = _text_conditions(schema) if kinds == {"string"} else []
            conditions.append(f"~/{self._ambiguous(keys)}/")
            terminal = name.upper() + "T"
            self.lines.append(f"{terminal}: /(?s:.*){_LAZY_END}/ & {' & '.join(conditions)}")
            self.lines.append(f"{name}t[lazy]: {terminal}")
            return f"{name}t"
        definitions = {k: root[k] for k in ("$defs", "definitions") if k in root}
        self.lines.append(f"{name}j: %json {_json({**definitions, **schema})}")
        return f"{name}j {_literal(_END)}"

    def _ambiguous(self, keys: Sequence[str]) -> str:
        """Texts that a reader would take for the end of the value or the start of another."""
        parameters = "|".join(map(_escaped, keys))
        functions = "|".join(map(_escaped, self._names))
        starts = f"parameter=({parameters})>|function=({functions})>|tool_call>\\s*<function="
        follows = r"(parameter=|function=|tool_call>|\/function>|\/tool_call>)"
        line = f"(.*\\n)?[ \\t]*<({starts}).*"
        end = f".*<\\/parameter>\\s*<{follows}.*"
        return f"(?s:{line}|{end})"

    def _once(self, line: str) -> None:
        if line not in self.lines:
            self.lines.append(line)


def _properties(root: Schema) -> Mapping[str, Any]:
    value = root.get("properties")
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _resolved(schema: Any, root: Schema) -> Schema:
    """The schema behind local references."""
    for _ in range(32):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return cast("Schema", schema)
        target: Any = root
        for step in filter(None, reference.removeprefix("#").split("/")):
            target = target.get(step) if isinstance(target, Mapping) else None
        schema = target
    raise RequestError("the references of a tool's schema run in a circle")


def _kinds(schema: Schema) -> set[str]:
    """The types a value may have; one that may be text is written as text."""
    declared = schema.get("type")
    if isinstance(declared, str):
        return {declared}
    if isinstance(declared, list):
        return {str(t) for t in _list(declared)}
    return {"object"} if "properties" in schema else {"array"} if "items" in schema else {"string"}


def _text_conditions(schema: Schema) -> list[str]:
    """What a text value and its closing tag must match, as Lark expressions."""
    conditions: list[str] = []
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        lead = "" if pattern.startswith("^") else "(?s:.*)"
        ends = pattern.endswith("$") and not pattern.endswith("\\$")
        body = pattern.removeprefix("^")
        body = regex_to_lark(body[:-1] if ends else body, "dw")
        conditions.append(f"/{lead}(?:{body}){'' if ends else '(?s:.*)'}{_LAZY_END}/")
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    if most is not None and most > _MAX_COUNTED:
        most = None
    if least or most is not None:
        limit = "" if most is None else most
        conditions.append(f"/(?s:.{{{min(least, _MAX_COUNTED)},{limit}}}){_LAZY_END}/")
    return conditions


def _escaped(text: str) -> str:
    """A text as a regular expression between slashes."""
    return re.sub(r"([\\.+*?()|\[\]{}^$/&~#-])", r"\\\1", text).replace("\n", "\\n")


def _literal(text: str) -> str:
    """A Lark string. Non-ASCII is kept: Lark reads UTF-8."""
    return json.dumps(text, ensure_ascii=False)


def _json(schema: Schema) -> str:
    guidance = {"whitespace_pattern": f"[ \\n]{{1,{_MAX_BLANKS}}}"}
    return json.dumps({**schema, "x-guidance": guidance}, ensure_ascii=False)
