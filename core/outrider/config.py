"""Plain data into typed options, with every problem named: file, line, key, what was expected.

Options are attrs classes. Their fields are structured by cattrs with strict rules: no number
for a string, no string for a number, no unknown key. A field of type `DrafterSpec` or `SamplerSpec`
holds a nested component, checked against the registry like a top-level one.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import operator
import re
import textwrap
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union, cast, get_args, get_origin

import attrs
import cattrs

from outrider.components import ComponentSpec, DrafterSpec, SamplerSpec
from outrider.errors import ConfigError, RequestError
from outrider.yamlfile import Document, KeyPath, dotted, home_expanded, nearest

if TYPE_CHECKING:
    from outrider.plugins import Registry


class ByteSize(int):
    """A number of bytes, written as a number or like `2GiB`, `512 MiB`, `1.5GB`."""

    @classmethod
    def parse(cls, value: Any) -> ByteSize:
        """Raises ValueError when the value is no size."""
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return cls(value)
        match = isinstance(value, str) and re.fullmatch(
            r"\s*(\d+)(\.\d+)?\s*(?:([KMGT])(i)?)?B?\s*", value, re.IGNORECASE
        )
        if not match or (match[2] and not match[3]):
            raise ValueError("not a size")
        power = " KMGT".index((match[3] or " ").upper())
        unit = (1024 if match[4] else 1000) ** power
        return cls(int(match[1]) * unit + round(float(match[2] or 0) * unit))


class _WrongTypeError(ValueError):
    """A value of the wrong type; the message says what was expected."""


_SPECS: dict[type[ComponentSpec], str] = {DrafterSpec: "drafter", SamplerSpec: "sampler"}


def describe(kind: Any) -> str:
    """What a type accepts, in words."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return "one of " + ", ".join(repr(a) for a in args)
    if origin in (Union, types.UnionType):
        return " or ".join(describe(a) for a in args)
    if origin in (list, tuple, Sequence):
        return f"a list of {_plural(args[0])}"
    if origin in (dict, Mapping):
        return f"a mapping from {_plural(args[0])} to {_plural(args[1])}"
    names: dict[Any, str] = {
        int: "a whole number",
        float: "a number",
        str: "a text",
        bool: "true or false",
        type(None): "null",
        Path: "a path",
        ByteSize: "a size such as 2GiB",
        Any: "a value",
    }
    if kind in names:
        return names[kind]
    if kind in _SPECS:
        return f"a {_SPECS[kind]}: {{use: NAME, …}}"
    if attrs.has(kind):
        return "a mapping with " + ", ".join(f.name for f in attrs.fields(kind))
    return getattr(kind, "__name__", str(kind))


def structure(
    cls: type[Any],
    data: Any,
    path: KeyPath,
    document: Document,
    registry: Registry | None,
) -> Any:
    """An instance of the attrs class `cls`; None after noting problems in `document`."""
    if data is None:
        data = {}
    if not isinstance(data, dict):
        document.problem(path, f"expected a mapping of options, got {shown(data)}")
        return None
    return _Structurer(document, registry).options(cls, data, path)  # pyright: ignore[reportUnknownArgumentType]


def structure_spec(
    kind: str, data: Any, path: KeyPath, document: Document, registry: Registry
) -> ComponentSpec | None:
    """A component spec of this kind; None after noting problems in `document`."""
    return _Structurer(document, registry).spec(kind, ComponentSpec, data, path)


def override(config: Any, values: Mapping[str, Any], *, where: str) -> Any:
    """A copy of the attrs instance `config` with some fields replaced.

    Raises RequestError that names the field, what was expected and what was given.
    """
    if not values:
        return config
    document = Document({}, where, Path())
    structurer = _Structurer(document, None)
    fields = _fields(config.__class__)
    changes: dict[str, Any] = {}
    for name, value in values.items():
        if name not in fields:
            raise RequestError(f"{where}: unknown option {name!r}; {nearest(name, fields)}")
        changes[name] = structurer.field(fields[name], value, (name,))
    for problem in document.problems:
        raise RequestError(f"{where}: {problem.key}: {problem.message}")
    try:
        return attrs.evolve(config, **changes)
    except (ValueError, TypeError) as error:
        raise RequestError(f"{where}: {error}") from None


def option_fields(cls: type[Any]) -> dict[str, attrs.Attribute[Any]]:
    """The fields of an options class by name, their types resolved."""
    return _fields(cls)


def option_texts(cls: type[Any]) -> dict[str, str]:
    """What is written about each field: the string below it in the source; empty without source."""
    try:
        [body] = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return {}
    assert isinstance(body, ast.ClassDef)
    texts: dict[str, str] = {}
    for field, text in itertools.pairwise(body.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            match text:
                case ast.Expr(value=ast.Constant(value=str(words))):
                    texts[field.target.id] = " ".join(words.split())
                case _:
                    pass
    return texts


class _Structurer:
    """Turns data into values of annotated types; notes problems where they are."""

    def __init__(self, document: Document, registry: Registry | None) -> None:
        self.document = document
        self.registry = registry

    def options(self, cls: type[Any], data: dict[str, Any], path: KeyPath) -> Any:
        """An instance of an options class; None after noting problems."""
        fields = _fields(cls)
        before = len(self.document.problems)
        values: dict[str, Any] = {}
        for key, value in data.items():
            if key not in fields:
                self.document.problem((*path, key), f"unknown option; {nearest(key, fields)}")
            else:
                values[key] = self.field(fields[key], value, (*path, key))
        for name, field in fields.items():
            if field.default is attrs.NOTHING and name not in data:
                self.document.problem(
                    path, f"the option {name!r} is missing: {describe(field.type)}"
                )
        if len(self.document.problems) > before:
            return None
        try:
            return cls(**values)
        except (ValueError, TypeError) as error:
            self.document.problem(path, str(error.args[0] if error.args else error))
            return None

    def field(self, field: attrs.Attribute[Any], value: Any, path: KeyPath) -> Any:
        """The value of one option, its bounds checked."""
        before = len(self.document.problems)
        result = self.value(field.type, value, path)
        if len(self.document.problems) == before:
            broken = next((b for b in bounds(field) if not b.holds(result)), None)
            if broken is not None:
                self.document.problem(path, f"expected {broken}, got {shown(value)}")
        return result

    def value(self, kind: Any, value: Any, path: KeyPath) -> Any:
        """A value of this type; None after noting problems."""
        origin, args = get_origin(kind), get_args(kind)
        if kind in _SPECS:
            return self.spec(_SPECS[kind], kind, value, path)
        if origin in (Union, types.UnionType):
            inner = [a for a in args if a is not type(None)]
            if value is None and len(inner) < len(args):
                return None
            if len(inner) == 1 and _has_parts(inner[0]):
                return self.value(inner[0], value, path)
        elif origin in (list, tuple, Sequence):
            if isinstance(value, (list, tuple)):
                parts = cast("Sequence[Any]", value)
                items = [self.value(args[0], v, (*path, i)) for i, v in enumerate(parts)]
                return tuple(items) if origin is tuple else items
        elif origin in (dict, Mapping):
            if isinstance(value, dict):
                return self.mapping(args, value, path)  # pyright: ignore[reportUnknownArgumentType]
        elif attrs.has(kind):
            return structure(kind, value, path, self.document, self.registry)
        if not _has_parts(kind):
            try:
                return _converter.structure(value, kind)
            except ConfigError as error:
                self.document.problem(path, str(error))
                return None
            except (_WrongTypeError, ValueError, TypeError):
                pass
        self.document.problem(path, f"expected {describe(kind)}, got {shown(value)}")
        return None

    def mapping(self, kinds: tuple[Any, ...], data: dict[Any, Any], path: KeyPath) -> Any:
        """A mapping whose keys and values have these types."""
        result: dict[Any, Any] = {}
        for key, value in data.items():
            result[self.key(kinds[0], key, path)] = self.value(kinds[1], value, (*path, str(key)))
        return result

    def key(self, kind: Any, key: Any, path: KeyPath) -> Any:
        """A key of a mapping; YAML hands over texts, which may be meant as numbers."""
        if kind in (int, float) and isinstance(key, str):
            try:
                return kind(key)
            except ValueError:
                pass
        else:
            try:
                return _converter.structure(key, kind)
            except (_WrongTypeError, ValueError, TypeError):
                pass
        self.document.problem((*path, str(key)), f"the key must be {describe(kind)}")
        return None

    def spec(
        self, kind: str, cls: type[ComponentSpec], data: Any, path: KeyPath
    ) -> ComponentSpec | None:
        """A component spec; None after noting problems."""
        assert self.registry is not None, "components are named in pipeline files only"
        if isinstance(data, str):
            data = {"use": data}
        if not isinstance(data, dict):
            self.document.problem(path, f"expected {{use: NAME, …}} or a name, got {shown(data)}")
            return None
        options: dict[str, Any] = dict(data)  # pyright: ignore[reportUnknownArgumentType]
        name = options.pop("use", None)
        if not isinstance(name, str):
            known = ", ".join(e.name for e in self.registry.entries(kind))
            self.document.problem(path, f"`use` is missing: which {kind}? there are: {known}")
            return None
        entry = self.registry.find(kind, name)
        if entry is None:
            self.document.problem((*path, "use"), self.registry.unknown(kind, name))
            return None
        config = structure(entry.cls.Config, options, path, self.document, self.registry)
        if config is None:
            return None
        return cls(name, config, dotted(path))


def _has_parts(kind: Any) -> bool:
    """Whether values of this type are looked into, so that problems name the part."""
    return (
        kind in _SPECS
        or get_origin(kind) in (list, tuple, dict, Sequence, Mapping)
        or attrs.has(kind)
    )


@attrs.frozen
class Bound:
    """A limit that a validator of `attrs.validators` puts on a value."""

    keyword: str
    """The word for it in JSON Schema."""
    limit: Any

    def __str__(self) -> str:
        if self.keyword == "minItems":
            return f"at least {self.limit} of them"
        words = {
            "minimum": "at least",
            "maximum": "at most",
            "exclusiveMinimum": "more than",
            "exclusiveMaximum": "less than",
        }
        return f"{words[self.keyword]} {self.limit}"

    def holds(self, value: Any) -> bool:
        """Whether a value keeps to it; nothing always does."""
        if value is None:
            return True
        compare: dict[str, Callable[[Any, Any], bool]] = {
            "minimum": operator.ge,
            "maximum": operator.le,
            "exclusiveMinimum": operator.gt,
            "exclusiveMaximum": operator.lt,
            "minItems": lambda v, n: len(v) >= n,
        }
        return compare[self.keyword](value, self.limit)


def bounds(field: attrs.Attribute[Any]) -> list[Bound]:
    """The limits of a field that can be told in words and in a schema."""
    found: list[Bound] = []
    pending: list[Any] = [field.validator]
    operators = {
        ">=": "minimum",
        "<=": "maximum",
        ">": "exclusiveMinimum",
        "<": "exclusiveMaximum",
    }
    while pending:
        validator = pending.pop(0)
        # attrs keeps these classes private, but not their attributes
        pending += getattr(validator, "_validators", ())
        inner = getattr(validator, "validator", None)
        if inner is not None:
            pending.append(inner)
        keyword = operators.get(getattr(validator, "compare_op", ""))
        if keyword:
            found.append(Bound(keyword, validator.bound))
        elif hasattr(validator, "min_length"):
            found.append(Bound("minItems", validator.min_length))
    return found


def _fields(cls: type[Any]) -> dict[str, attrs.Attribute[Any]]:
    attrs.resolve_types(cls)
    return {f.name: f for f in attrs.fields(cls) if f.init}


def _strict(kind: type, accepted: tuple[type, ...]) -> Any:
    def hook(value: Any, _: Any) -> Any:
        if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
            raise _WrongTypeError
        if value != value:  # NaN is no number
            raise _WrongTypeError
        return kind(value)

    return hook


def _literal(value: Any, kind: Any) -> Any:
    for allowed in get_args(kind):
        if value == allowed and type(value) is type(allowed):
            return value
        # YAML 1.1 reads a bare on/off as a boolean
        if isinstance(value, bool) and allowed == ("on" if value else "off"):
            return allowed
    raise _WrongTypeError


def _union(value: Any, kind: Any) -> Any:
    for choice in get_args(kind):
        try:
            if choice is type(None):
                if value is None:
                    return None
                continue
            return _converter.structure(value, choice)
        except (_WrongTypeError, ValueError, TypeError):
            continue
    raise _WrongTypeError


def _path(value: Any, _: Any) -> Path:
    if not isinstance(value, (str, Path)):
        raise _WrongTypeError
    return home_expanded(value)


_converter = cattrs.Converter(detailed_validation=False)
_converter.register_structure_hook(int, _strict(int, (int,)))
_converter.register_structure_hook(float, _strict(float, (int, float)))
_converter.register_structure_hook(str, _strict(str, (str,)))
_converter.register_structure_hook(bool, _strict(bool, (bool,)))
_converter.register_structure_hook(Path, _path)
_converter.register_structure_hook(ByteSize, lambda v, _: ByteSize.parse(v))  # pyright: ignore[reportUnknownLambdaType]
_converter.register_structure_hook_func(lambda t: get_origin(t) is Literal, _literal)
_converter.register_structure_hook_func(lambda t: get_origin(t) in (Union, types.UnionType), _union)


def _plural(kind: Any) -> str:
    if kind in _SPECS:
        return f"{_SPECS[kind]}s: {{use: NAME, …}}"
    text = describe(kind)
    words = {
        "a whole number": "whole numbers", "a number": "numbers", "a text": "texts",
        "a path": "paths", "a value": "values",
    }  # fmt: skip
    return words.get(text, text)


def shown(value: Any) -> str:
    """A value in words, for messages."""
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return f"the text {value!r}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    return repr(value)
