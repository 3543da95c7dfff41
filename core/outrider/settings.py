"""The pipeline file: its top-level keys, their defaults, and how they become specs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import attrs

from outrider.components import ComponentSpec
from outrider.config import describe, shown, structure_spec
from outrider.errors import ConfigError
from outrider.plugins import Registry, registry_with
from outrider.yamlfile import Document, home_expanded, nearest, parse_yaml, read_yaml

DEFAULT_PIPELINE = """
model: outrider-nano
drafter:
  use: cascade
  skip_unsupported: true
  of:
    - {use: suffix}
    - {use: mtp}
draft_length: {use: fixed, k: 3}
"""
"""What runs when no pipeline file is given."""

SLOTS = {
    "engine": {"use": "llama-cpp"},
    "drafter": {"use": "none"},
    "draft_length": {"use": "fixed"},
    "verifier": {"use": "chain"},
    "sampler": {"use": "greedy"},
    "rollback": None,
    "cache": {"use": "none"},
    "template": None,
}
"""Keys that hold one component, with their defaults; None: chosen by what the model supports."""

LISTS = {"constraints": "constraint", "observers": "observer"}
"""Keys that hold a list of components, and of which kind."""

ALL_BY_DEFAULT = ("constraints",)
"""Lists that hold every installed component unless written: they act only where asked to."""

SCALARS: dict[str, tuple[type, Any]] = {
    "model": (str, "outrider-nano"),
    "max_sequences": (int, 1),
}


@attrs.frozen
class PipelineConfig:
    """A checked pipeline file."""

    name: str
    base: Path
    model: str
    model_place: str
    max_sequences: int
    components: dict[str, ComponentSpec | None]
    lists: dict[str, tuple[ComponentSpec, ...]]


def read_document(path: Path | None) -> Document:
    """The pipeline file, or the default pipeline. Raises ConfigError."""
    if path is None:
        return parse_yaml(DEFAULT_PIPELINE, "(default pipeline)", Path.cwd())
    return read_yaml(path)


def registry_for(document: Document) -> Registry:
    """Installed plugins and those the document names under `plugins`."""
    listed: Any = document.data.get("plugins") or []
    if not isinstance(listed, list):
        document.problem(("plugins",), "expected a list of paths of one-file plugins")
        listed = []
    files: list[Path] = []
    for i, item in enumerate(cast("list[Any]", listed)):
        if not isinstance(item, str):
            document.problem(("plugins", i), f"expected a path, got {shown(item)}")
            continue
        try:
            path = document.base / home_expanded(item)
        except ConfigError as error:
            document.problem(("plugins", i), str(error))
            continue
        if not path.is_file():
            document.problem(("plugins", i), f"plugin file not found: {path}")
        else:
            files.append(path)
    return registry_with(files)


def read_config(document: Document, registry: Registry) -> PipelineConfig | None:
    """Check a document; None after noting problems in it."""
    keys = ["plugins", *SCALARS, *SLOTS, *LISTS]
    for key in document.data:
        if key not in keys:
            document.problem((key,), f"unknown key; {nearest(key, keys)}")
    scalars = {key: _scalar(document, key) for key in SCALARS}
    components = {
        key: _component(document, key, default, registry) for key, default in SLOTS.items()
    }
    lists = {key: _list(document, key, kind, registry) for key, kind in LISTS.items()}
    if document.problems:
        return None
    return PipelineConfig(
        name=document.name,
        base=document.base,
        model=scalars["model"],
        model_place=document.place(("model",)),
        max_sequences=scalars["max_sequences"],
        components=components,
        lists=lists,
    )


def raise_problems(problems: Sequence[Any]) -> None:
    """One ConfigError with every problem on a line of its own."""
    if problems:
        raise ConfigError("\n".join(str(p) for p in problems))


def _scalar(document: Document, key: str) -> Any:
    kind, default = SCALARS[key]
    value = document.data.get(key, default)
    if not isinstance(value, kind) or isinstance(value, bool):
        document.problem((key,), f"expected {describe(kind)}, got {shown(value)}")
        return default
    if kind is int and value < 1:
        document.problem((key,), f"expected at least 1, got {value}")
        return default
    return value


def _component(
    document: Document, key: str, default: Any, registry: Registry
) -> ComponentSpec | None:
    data: Any = document.data.get(key, default)
    if data is None or data in ("auto", {"use": "auto"}):
        if default is not None:
            document.problem((key,), "`auto` is not possible here; name a component")
        return None
    if isinstance(data, dict) and "use" not in data and default is not None:
        data = {**default, **cast("dict[str, Any]", data)}
    return structure_spec(key, data, (key,), document, registry)


def _list(document: Document, key: str, kind: str, registry: Registry) -> tuple[ComponentSpec, ...]:
    if key in ALL_BY_DEFAULT and key not in document.data:
        return tuple(
            ComponentSpec(entry.name, entry.cls.Config(), key)
            for entry in registry.entries(kind)
            if not entry.needs_options
        )
    data: Any = document.data.get(key) or []
    if not isinstance(data, list):
        document.problem((key,), f"expected a list of {kind}s")
        return ()
    items = cast("list[Any]", data)
    specs = [
        structure_spec(kind, item, (key, i), document, registry) for i, item in enumerate(items)
    ]
    return tuple(s for s in specs if s is not None)
