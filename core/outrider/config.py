"""Plain data into typed options, with every problem named: file, line, key, what was expected.

Options are attrs classes. Their fields are structured by cattrs with strict rules: no number
for a string, no string for a number, no unknown key. A field of type `DrafterSpec` or `SamplerSpec`
holds a nested component, checked against the registry like a top-level one.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

import attrs
import cattrs

from outrider.components import ComponentSpec, DrafterSpec, SamplerSpec
from outrider.errors import RequestError
from outrider.yamlfile import Document, KeyPath

if TYPE_CHECKING:
    from outrider.plugins import Registry


class ByteSize(int):
    """A number of bytes, written as a number or like `2GiB`, `512 MiB`, `1.5GB`."""

    @classmethod
    def parse(cls, value: Any) -> ByteSize:
        """Raises ValueError when the value is no size."""
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return cls(value)
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]i?)?B?\s*", str(value))
        if match is None:
            raise ValueError("not a size")
        unit = match[2] or ""
        power = " KMGT".index(unit[0]) if unit else 0
        return cls(float(match[1]) * (1024 if unit.endswith("i") else 1000) ** power)


class _Invalid(ValueError):
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
    cls: type[Any], data: Any, path: KeyPath, document: Document, registry: Registry
) -> Any:
    """An instance of the attrs class `cls`; None after noting problems in `document`."""
    if data is None:
        data = {}
    if not isinstance(data, dict):
        document.problem(path, f"expected a mapping of options, got {_shown(data)}")
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
    fields = _fields(type(config))
    changes: dict[str, Any] = {}
    for name, value in values.items():
        if name not in fields:
            from outrider.plugins import nearest

            raise RequestError(f"{where}: unknown option {name!r}; {nearest(name, fields)}")
        try:
            changes[name] = _converter.structure(value, fields[name].type)  # pyright: ignore[reportArgumentType]
        except (_Invalid, ValueError, TypeError):
            expected = describe(fields[name].type)
            raise RequestError(f"{where}: {name} must be {expected}, got {_shown(value)}") from None
    try:
        return attrs.evolve(config, **changes)
    except ValueError as error:
        raise RequestError(f"{where}: {error}") from None


def option_fields(cls: type[Any]) -> dict[str, attrs.Attribute[Any]]:
    """The fields of an options class by name, their types resolved."""
    return _fields(cls)


class _Structurer:
    def __init__(self, document: Document, registry: Registry) -> None:
        self.document = document
        self.registry = registry

    def options(self, cls: type[Any], data: dict[str, Any], path: KeyPath) -> Any:
        from outrider.plugins import nearest

        fields = _fields(cls)
        before = len(self.document.problems)
        values: dict[str, Any] = {}
        for key, value in data.items():
            if key not in fields:
                self.document.problem((*path, key), f"unknown option; {nearest(key, fields)}")
            else:
                values[key] = self.value(fields[key].type, value, (*path, key))
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

    def value(self, kind: Any, value: Any, path: KeyPath) -> Any:
        origin, args = get_origin(kind), get_args(kind)
        if kind in _SPECS:
            return self.spec(_SPECS[kind], kind, value, path)
        if origin in (Union, types.UnionType):
            if value is None and type(None) in args:
                return None
            inner = [a for a in args if a is not type(None)]
            if len(inner) == 1:
                return self.value(inner[0], value, path)
        if origin in (list, tuple) and args and (args[0] in _SPECS or attrs.has(args[0])):
            if not isinstance(value, list):
                self.document.problem(path, f"expected {describe(kind)}, got {_shown(value)}")
                return None
            items = [self.value(args[0], v, (*path, i)) for i, v in enumerate(value)]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            return tuple(items) if origin is tuple else items
        if attrs.has(kind):
            return structure(kind, value, path, self.document, self.registry)
        try:
            return _converter.structure(value, kind)
        except (_Invalid, ValueError, TypeError):
            self.document.problem(path, f"expected {describe(kind)}, got {_shown(value)}")
            return None

    def spec(
        self, kind: str, cls: type[ComponentSpec], data: Any, path: KeyPath
    ) -> ComponentSpec | None:
        if isinstance(data, str):
            data = {"use": data}
        if not isinstance(data, dict):
            self.document.problem(path, f"expected {{use: NAME, …}} or a name, got {_shown(data)}")
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
        from outrider.yamlfile import dotted

        return cls(name, config, dotted(path))


def _fields(cls: type[Any]) -> dict[str, attrs.Attribute[Any]]:
    attrs.resolve_types(cls)
    return {f.name: f for f in attrs.fields(cls) if f.init}


def _strict(kind: type, accepted: tuple[type, ...]) -> Any:
    def hook(value: Any, _: Any) -> Any:
        if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
            raise _Invalid
        return kind(value)

    return hook


def _literal(value: Any, kind: Any) -> Any:
    for allowed in get_args(kind):
        if value == allowed and type(value) is type(allowed):
            return value
        # YAML 1.1 reads a bare on/off as a boolean
        if isinstance(value, bool) and allowed == ("on" if value else "off"):
            return allowed
    raise _Invalid


def _listed(value: Any, kind: Any) -> Any:
    if not isinstance(value, (list, tuple)):
        raise _Invalid
    inner = get_args(kind)[0]
    items = [_converter.structure(v, inner) for v in value]  # pyright: ignore[reportUnknownVariableType]
    return tuple(items) if get_origin(kind) is tuple else items


def _union(value: Any, kind: Any) -> Any:
    for choice in get_args(kind):
        try:
            if choice is type(None):
                if value is None:
                    return None
                continue
            return _converter.structure(value, choice)
        except (_Invalid, ValueError, TypeError):
            continue
    raise _Invalid


def _mapping(value: Any, kind: Any) -> Any:
    if not isinstance(value, dict):
        raise _Invalid
    key, item = get_args(kind)
    return {
        _converter.structure(k, key): _converter.structure(v, item)
        for k, v in value.items()  # pyright: ignore[reportUnknownVariableType]
    }


def _path(value: Any, _: Any) -> Path:
    if not isinstance(value, (str, Path)):
        raise _Invalid
    return Path(value).expanduser()


_converter = cattrs.Converter(detailed_validation=False)
_converter.register_structure_hook(int, _strict(int, (int,)))
_converter.register_structure_hook(float, _strict(float, (int, float)))
_converter.register_structure_hook(str, _strict(str, (str,)))
_converter.register_structure_hook(bool, _strict(bool, (bool,)))
_converter.register_structure_hook(Path, _path)
_converter.register_structure_hook(ByteSize, lambda v, _: ByteSize.parse(v))  # pyright: ignore[reportUnknownLambdaType]
_converter.register_structure_hook_func(lambda t: get_origin(t) is Literal, _literal)
_converter.register_structure_hook_func(lambda t: get_origin(t) in (list, tuple), _listed)
_converter.register_structure_hook_func(lambda t: get_origin(t) in (Union, types.UnionType), _union)
_converter.register_structure_hook_func(
    lambda t: get_origin(t) in (dict, typing.Mapping, Mapping), _mapping
)


def _plural(kind: Any) -> str:
    text = describe(kind)
    words = {
        "a whole number": "whole numbers", "a number": "numbers", "a text": "texts",
        "a path": "paths", "a value": "values",
    }  # fmt: skip
    return words.get(text, text)


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return f"the text {value!r}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    return repr(value)
