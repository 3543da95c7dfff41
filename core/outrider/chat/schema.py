"""Tool arguments and JSON Schema: types restored from text, and what a call violates.

A model writes argument values as bare text; the tool's schema says what the text stands for.
Nothing is invented: text that is not what the schema asks for stays text, and is reported.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, cast
from urllib.parse import unquote

from outrider.chat.body import read_json
from outrider.chat.message import Violation
from outrider.errors import RequestError

_MAX_DEPTH = 32
_PYTHON_SPELLINGS = {"True": True, "False": False, "None": None}

Schema = Mapping[str, Any]


class ToolSchema:
    """The parameters of one tool."""

    def __init__(self, parameters: Any) -> None:
        self.root: Schema = cast("Schema", parameters) if isinstance(parameters, Mapping) else {}

    def is_plain_text(self, key: str) -> bool:
        """Whether a parameter is text whatever is written, so that it can be streamed."""
        schema = self.parameter(key)
        return schema is None or self._kinds(schema) == {"string"}

    def declares(self, key: str) -> bool:
        """Whether the schema names this parameter."""
        return any(key in _mapping(s.get("properties")) for s in self._parts(self.root))

    def parameter(self, key: str) -> Any:
        """The schema of one parameter; None when nothing is said about it."""
        for part in self._parts(self.root):
            properties = _mapping(part.get("properties"))
            if key in properties:
                return properties[key]
        for part in self._parts(self.root):
            for pattern, schema in _mapping(part.get("patternProperties")).items():
                if _matches(pattern, key):
                    return schema
            if isinstance(part.get("additionalProperties"), Mapping):
                return part["additionalProperties"]
        return None

    def restore(self, key: str, text: str) -> Any:
        """The value that `text` stands for.

        Booleans and null may be spelt as in Python: the Qwen3.5 template shows the model such
        values in its own history.
        """
        schema = self.parameter(key)
        if schema is None:
            return text
        kinds = self._kinds(schema)
        if kinds is not None and kinds <= {"string"}:
            return text
        bare = text.strip()
        if kinds is not None and "string" not in kinds and bare in _PYTHON_SPELLINGS:
            value = _PYTHON_SPELLINGS[bare]
        else:
            try:
                value = read_json(bare)
            except RequestError:
                return text
        if isinstance(value, str):
            return text
        if kinds is None:
            return value
        if not _is_one_of(value, kinds):
            return text
        if "string" in kinds and not self._holds(schema, value) and self._holds(schema, text):
            return text
        return value

    def violations(self, call: int, values: Mapping[str, Any]) -> Iterator[Violation]:
        """What a call's arguments break, in the order of their paths."""
        try:
            errors = list(self._validator.iter_errors(values))
        except RecursionError:
            yield Violation(call, "/", "schema", "the arguments are nested too deeply to check")
            return
        except Exception as error:  # a third-party schema can fail in any way
            first = str(error).partition("\n")[0]
            yield Violation(call, "/", "schema", f"the tool's own schema is unusable: {first}")
            return
        for error in sorted(errors, key=lambda e: [str(p) for p in e.absolute_path]):
            yield Violation(
                call, pointer(*error.absolute_path), str(error.validator), error.message
            )

    @cached_property
    def _validator(self) -> Any:
        import jsonschema
        import jsonschema.validators
        import referencing

        validators: Any = jsonschema.validators
        kind = validators.validator_for(self.root, default=jsonschema.Draft202012Validator)
        kind.check_schema(self.root)
        # An empty registry: a schema must not make us fetch anything.
        empty: Any = referencing
        return kind(self.root, registry=empty.Registry())

    def _holds(self, schema: Any, value: Any) -> bool:
        try:
            return self._validator.evolve(schema=schema).is_valid(value)
        except Exception:  # reported once, by `violations`
            return True

    def _resolve(self, schema: Any) -> Schema | None:
        """Follow local references; None for what is no schema object."""
        for _ in range(_MAX_DEPTH):
            if not isinstance(schema, Mapping):
                return None
            found = cast("Schema", schema)
            reference = found.get("$ref")
            if not isinstance(reference, str) or not reference.startswith("#"):
                return found
            target: Any = self.root
            for step in reference[2:].split("/") if len(reference) > 1 else ():
                target = _mapping(target).get(step.replace("~1", "/").replace("~0", "~"))
            schema = target
        return None

    def _parts(self, schema: Any, depth: int = 0) -> Iterator[Schema]:
        """A schema and the members of its `allOf`."""
        found = self._resolve(schema)
        if found is not None and depth < _MAX_DEPTH:
            yield found
            for member in _list(found.get("allOf")):
                yield from self._parts(member, depth + 1)

    def _kinds(self, schema: Any, depth: int = 0) -> set[str] | None:
        """JSON types a schema admits; None when it does not say."""
        found = self._resolve(schema)
        if found is None or depth > _MAX_DEPTH:
            return None
        declared = found.get("type")
        if isinstance(declared, str):
            return {declared}
        if isinstance(declared, list):
            return {str(t) for t in _list(declared)}
        if "const" in found:
            return {_kind(found["const"])}
        if isinstance(found.get("enum"), list):
            return {_kind(m) for m in _list(found["enum"])}
        for key in ("anyOf", "oneOf"):
            if members := _list(found.get(key)):
                union: set[str] = set()
                for member in members:
                    kinds = self._kinds(member, depth + 1)
                    if kinds is None:
                        return None
                    union |= kinds
                return union
        for member in _list(found.get("allOf")):
            if (kinds := self._kinds(member, depth + 1)) is not None:
                return kinds
        return None


def schema_problem(schema: Any) -> str | None:
    """Why a value is no schema that can be checked, in a sentence; None when it is one."""
    if schema is None or schema == {}:
        return None
    if not isinstance(schema, Mapping):
        return f"expected an object, got {_kind(schema)}"
    try:
        text = json.dumps(schema)
    except (TypeError, ValueError, RecursionError) as error:
        return f"it is not JSON: {error}"
    return _problem(text)


@functools.lru_cache(256)
def _problem(text: str) -> str | None:
    import jsonschema
    import jsonschema.exceptions
    import jsonschema.validators

    validators: Any = jsonschema.validators
    exceptions: Any = jsonschema.exceptions
    try:
        schema: Any = json.loads(text)
        kind = validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        kind.check_schema(schema)
        for place, reference in _references(schema):
            if reference.startswith("#/") and not _leads_somewhere(schema, reference):
                return f"{pointer(*place)}: {reference!r} leads nowhere"
    except exceptions.SchemaError as error:
        return f"{pointer(*error.absolute_path)}: {error.message}"
    except RecursionError:
        return "it is nested too deeply"
    except Exception as error:  # a third-party schema can fail in any way
        return str(error).partition("\n")[0]
    return None


def _references(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Every `$ref`, with its place; values that are data are not looked into."""
    if isinstance(value, dict):
        for key, member in cast("dict[str, Any]", value).items():
            if key == "$ref" and isinstance(member, str):
                yield (*place, key), member
            elif key not in ("const", "enum", "default", "examples"):
                yield from _references(member, (*place, key))
    elif isinstance(value, list):
        for index, member in enumerate(cast("list[Any]", value)):
            yield from _references(member, (*place, index))


def _leads_somewhere(root: Any, reference: str) -> bool:
    target = root
    for step in reference[2:].split("/"):
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(target, dict) and name in target:
            target = cast("dict[str, Any]", target)[name]
        elif isinstance(target, list) and name.isdigit() and int(name) < len(_list(target)):
            target = _list(target)[int(name)]
        else:
            return False
    return True


def write_value(value: Any) -> str:
    """JSON text of a value; what UTF-8 cannot carry is escaped."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value)
    return text


def pointer(*steps: Any) -> str:
    """A JSON pointer (RFC 6901); `/` for the whole document."""
    return "/" + "/".join(str(s).replace("~", "~0").replace("/", "~1") for s in steps)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _is_one_of(value: Any, kinds: set[str]) -> bool:
    kind = _kind(value)
    if kind == "integer":
        return bool(kinds & {"integer", "number"})
    if kind == "number" and float(value).is_integer():
        return bool(kinds & {"integer", "number"})
    return kind in kinds


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _matches(pattern: str, key: str) -> bool:
    try:
        return re.search(pattern, key) is not None
    except re.error:
        return False
