"""Read YAML into plain data and remember on which line each value stands."""

from __future__ import annotations

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import attrs
import yaml

from outrider.errors import ConfigError

KeyPath = tuple[str | int, ...]


@attrs.frozen
class Problem:
    """One thing that is wrong with a pipeline file: where, and what was expected."""

    where: str
    key: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.key}: {self.message}" if self.key else self.message


@attrs.define
class Document:
    """Plain data with the place of every value."""

    data: dict[str, Any]
    name: str
    """How the document is called in messages."""
    base: Path
    """Folder that relative paths are relative to."""
    places: dict[KeyPath, str] = attrs.field(factory=dict[KeyPath, str])
    problems: list[Problem] = attrs.field(factory=list[Problem])

    def place(self, path: KeyPath) -> str:
        """File and line of a value, or of the nearest thing around it."""
        for n in range(len(path), -1, -1):
            if path[:n] in self.places:
                return self.places[path[:n]]
        return self.name

    def problem(self, path: KeyPath, message: str) -> None:
        """Note a problem with the value at `path`."""
        self.problems.append(Problem(self.place(path), dotted(path), message))

    def set(self, assignment: str) -> None:
        """Apply `key=value`; the value is YAML. Raises ConfigError.

        Naming another component (`drafter.use=none`) drops the options of the one it replaces,
        which mean nothing to the new one.
        """
        key, equals, text = assignment.partition("=")
        where = f"--set {assignment}"
        if not equals or not key.strip():
            raise ConfigError(f"{where}: expected key=value, for example drafter.use=none")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ConfigError(f"{where}: the value is not YAML: {_reason(error)}") from None
        path = _split(key.strip(), where)
        target: Any = self.data
        for i, step in enumerate(path[:-1]):
            target = self._descend(target, step, path, i, where)
        last = path[-1]
        if isinstance(target, list):
            if not isinstance(last, int) or last >= len(target):
                raise ConfigError(f"{where}: {dotted(path)} does not exist")
        elif not isinstance(last, str):
            raise ConfigError(f"{where}: {dotted(path[:-1])} is not a list")
        elif last == "use" and target.get("use") != value:
            target.clear()
        target[last] = value
        for known in [p for p in self.places if p[: len(path)] == path]:
            del self.places[known]
        self.places[path] = where

    def _descend(self, target: Any, step: str | int, path: KeyPath, i: int, where: str) -> Any:
        if isinstance(target, list):
            if isinstance(step, int) and step < len(target):  # pyright: ignore[reportUnknownArgumentType]
                return target[step]  # pyright: ignore[reportUnknownVariableType]
        elif isinstance(target, dict) and isinstance(step, str):
            child = target.setdefault(step, {})  # pyright: ignore[reportUnknownVariableType]
            if isinstance(child, (dict, list)):
                return child  # pyright: ignore[reportUnknownVariableType]
            if child is None:
                target[step] = {}
                return target[step]  # pyright: ignore[reportUnknownVariableType]
        raise ConfigError(f"{where}: {dotted(path[: i + 1])} is not something with keys")


def read_yaml(path: Path) -> Document:
    """Parse a file. Syntax errors raise ConfigError; duplicate keys become problems."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"pipeline file not found: {path}") from None
    except IsADirectoryError:
        raise ConfigError(f"{path} is a folder; expected a YAML file") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    return parse_yaml(text, str(path), path.parent)


def parse_yaml(text: str, name: str, base: Path) -> Document:
    """Parse a text; `name` is how messages call it."""
    document = Document({}, name, base)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is not None:
            loader = yaml.SafeLoader("")
            document.data = _construct(loader, node, (), document)
    except yaml.YAMLError as error:
        raise ConfigError(f"{name}{_line(error)}: not valid YAML: {_reason(error)}") from None
    if not isinstance(document.data, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"{name}: expected a mapping of keys at the top level")
    return document


def dotted(path: KeyPath) -> str:
    """`drafter.of[1].min_match` for a key path."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def _construct(loader: yaml.SafeLoader, node: yaml.Node, path: KeyPath, document: Document) -> Any:
    document.places.setdefault(path, f"{document.name}:{node.start_mark.line + 1}")
    if isinstance(node, yaml.MappingNode):
        result: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key: Any = loader.construct_object(key_node, deep=True)  # pyright: ignore[reportUnknownMemberType]
            if not isinstance(key, str):
                key = str(key) if isinstance(key, Hashable) else "?"
            child = (*path, key)
            place = f"{document.name}:{key_node.start_mark.line + 1}"
            if key in result:
                document.problems.append(
                    Problem(
                        place, dotted(child), f"given twice (first on {document.places[child]})"
                    )
                )
                continue
            document.places[child] = place
            result[key] = _construct(loader, value_node, child, document)
        return result
    if isinstance(node, yaml.SequenceNode):
        return [_construct(loader, item, (*path, i), document) for i, item in enumerate(node.value)]
    return loader.construct_object(node, deep=True)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _split(key: str, where: str) -> KeyPath:
    path: list[str | int] = []
    for part in key.split("."):
        match = re.fullmatch(r"([^\[\]]+)((?:\[\d+\])*)", part)
        if match is None:
            raise ConfigError(f"{where}: {key!r} is not a key such as drafter.of[0].min_match")
        path.append(match[1])
        path.extend(int(n) for n in re.findall(r"\d+", match[2]))
    return tuple(path)


def _line(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return f":{mark.line + 1}" if mark is not None else ""


def _reason(error: yaml.YAMLError) -> str:
    return str(getattr(error, "problem", None) or error).splitlines()[0]
