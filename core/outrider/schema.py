"""A JSON Schema of pipeline files that includes the options of every installed plugin."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import attrs

from outrider.components import DrafterSpec, SamplerSpec
from outrider.config import ByteSize, bounds, option_fields, option_texts
from outrider.plugins import Kind, Registry
from outrider.settings import LISTS, SCALARS, SLOTS

_TYPES: dict[Any, dict[str, Any]] = {
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    Path: {"type": "string"},
    ByteSize: {"type": ["integer", "string"]},
    DrafterSpec: {"$ref": "#/$defs/drafter"},
    SamplerSpec: {"$ref": "#/$defs/sampler"},
}


def pipeline_schema(registry: Registry, kinds: Mapping[str, Kind]) -> dict[str, Any]:
    """The schema; component kinds are under `$defs`."""
    properties: dict[str, Any] = {
        key: {**_TYPES[kind], "default": default} for key, (kind, default) in SCALARS.items()
    }
    properties["max_sequences"]["minimum"] = 1
    properties["plugins"] = {"type": "array", "items": {"type": "string"}}
    for key, default in SLOTS.items():
        forms: list[dict[str, Any]] = [{"$ref": f"#/$defs/{key}"}]
        if default is None:
            forms += [{"enum": ["auto", None]}, {"const": {"use": "auto"}}]
        elif entry := registry.find(key, default["use"]):
            # options without a name are those of the default component
            forms.append(_options(entry.cls.Config, {}, [], entry.cls.__doc__))
        properties[key] = {"anyOf": forms} if len(forms) > 1 else forms[0]
    for key, kind in LISTS.items():
        properties[key] = {"type": "array", "items": {"$ref": f"#/$defs/{kind}"}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Outrider pipeline",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "$defs": {kind: _component(registry, kind) for kind in kinds},
    }


def _component(registry: Registry, kind: str) -> dict[str, Any]:
    entries = registry.entries(kind)
    if not entries:
        return {"not": {}}
    plain = [e.name for e in entries if not _required(e.cls.Config)]
    options: list[dict[str, Any]] = [
        _options(e.cls.Config, {"use": {"const": e.name}}, ["use"], e.cls.__doc__) for e in entries
    ]
    return {"anyOf": [{"enum": plain}, *options] if plain else options}


def _options(
    cls: type[Any], properties: dict[str, Any], required: list[str], doc: str | None
) -> dict[str, Any]:
    texts = option_texts(cls)
    for name, field in option_fields(cls).items():
        schema = {**type_schema(field.type), **_limits(field)}
        if name in texts:
            schema["description"] = texts[name]
        default = field.default
        if isinstance(default, (bool, int, float, str)) or default is None:
            schema = {**schema, "default": default}
        properties[name] = schema
    return {
        "type": "object",
        "description": (doc or "").strip().split("\n")[0],
        "additionalProperties": False,
        "properties": properties,
        "required": [*required, *_required(cls)],
    }


def type_schema(kind: Any) -> dict[str, Any]:
    """The schema of an option's type."""
    origin, args = get_origin(kind), get_args(kind)
    if kind in _TYPES:
        return _TYPES[kind]
    if origin is Literal:
        return {"enum": list(args)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [type_schema(a) for a in args]}
    if origin in (list, tuple, Sequence):
        return {"type": "array", "items": type_schema(args[0])}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": type_schema(args[1])}
    if attrs.has(kind):
        return _options(kind, {}, [], kind.__doc__)
    return {}


def _limits(field: attrs.Attribute[Any]) -> dict[str, Any]:
    return {bound.keyword: bound.limit for bound in bounds(field)}


def _required(cls: type[Any]) -> list[str]:
    return [n for n, f in option_fields(cls).items() if f.default is attrs.NOTHING]
