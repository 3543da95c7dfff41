"""Read YAML into plain data and remember on which line each value stands."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs
import yaml

from outrider.errors import ConfigError

_REFUSED = (ValueError, KeyError, OverflowError)
"""What PyYAML lets through from scalars that are not what their tag says."""

KeyPath = tuple[str | int, ...]


class _Loader(yaml.SafeLoader):
    """Plain YAML, except that 1e-3 is a number, as in YAML 1.2, and a date is a text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if not tag.endswith(":timestamp")]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(  # pyright: ignore[reportUnknownMemberType]
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)


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
            value = yaml.load(text, Loader=_Loader)
        except (yaml.YAMLError, *_REFUSED) as error:
            raise ConfigError(f"{where}: the value is not YAML: {_reason(error)}") from None
        except RecursionError:
            raise ConfigError(f"{where}: the value is nested too deeply") from None
        path = _split(key.strip(), where)
        target: Any = self.data
        for i, step in enumerate(path):
            _check_step(target, step, path[:i], where)
            if i < len(path) - 1:
                target = _child(target, step, path[: i + 1], where)
        last = path[-1]
        if last == "use" and len(path) > 1 and target.get("use") != value:
            target.clear()
        target[last] = value
        for known in [p for p in self.places if p[: len(path)] == path]:
            del self.places[known]
        self.places[path] = where
        for i in range(1, len(path)):
            self.places.setdefault(path[:i], where)


def _check_step(target: Any, step: str | int, path: KeyPath, where: str) -> None:
    if not _is_list(target):
        if isinstance(step, int):
            raise ConfigError(f"{where}: {dotted(path)} is not a list")
    elif isinstance(step, str):
        raise ConfigError(f"{where}: {dotted(path)} is a list; give an index, as in [0]")
    elif step >= len(target):
        raise ConfigError(f"{where}: {dotted((*path, step))} does not exist")


def _child(target: Any, step: str | int, path: KeyPath, where: str) -> Any:
    """What stands at `step`, made something with keys: nothing, or a component's bare name."""
    child: Any = target[step] if _is_list(target) else target.get(step)
    if child is None:
        child = target[step] = {}
    elif isinstance(child, str):
        child = target[step] = {"use": child}
    elif not _is_list(child) and not _is_mapping(child):
        raise ConfigError(f"{where}: {dotted(path)} is not something with keys")
    return child


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, dict)


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
        node: yaml.Node | None = yaml.compose(text, Loader=_Loader)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        data: Any = {} if node is None else _Reader(document).read(node, ())  # pyright: ignore[reportUnknownArgumentType]
    except yaml.YAMLError as error:
        raise ConfigError(f"{name}{_line(error)}: not valid YAML: {_reason(error)}") from None
    except RecursionError:
        raise ConfigError(f"{name}: nested too deeply") from None
    if not _is_mapping(data):
        raise ConfigError(f"{name}: expected a mapping of keys at the top level")
    document.data = data
    return document


def home_expanded(path: str | Path) -> Path:
    """The path, a leading `~` replaced. Raises ConfigError for a user who does not exist."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise ConfigError(f"{path}: there is no such user's home directory") from None


def dotted(path: KeyPath) -> str:
    """`drafter.of[1].min_match` for a key path."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def nearest(name: str, known: Iterable[str]) -> str:
    """`did you mean …?` for a name, or the list of names there are."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"there are: {', '.join(names)}" if names else "there are none"


class _Reader:
    """Builds plain data from nodes, noting the place of every value."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._loader = _Loader("")
        self._open: list[int] = []
        self._merged: dict[int, int] = {}

    def read(self, node: yaml.Node, path: KeyPath) -> Any:
        """The data of a node and of everything in it."""
        self._document.places.setdefault(path, self._place(node))
        if isinstance(node, yaml.ScalarNode):
            try:
                return self._loader.construct_object(node, deep=True)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            except _REFUSED:
                kind = str(node.tag).rpartition(":")[2]  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
                raise ConfigError(
                    f"{self._place(node)}: {dotted(path)}: {str(node.value)[:40]!r} is no {kind}"
                ) from None
        if id(node) in self._open:
            raise ConfigError(f"{self._place(node)}: {dotted(path)} contains itself")
        self._open.append(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            assert isinstance(node, yaml.SequenceNode)
            return [self.read(item, (*path, i)) for i, item in enumerate(node.value)]
        finally:
            self._open.pop()

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        result: dict[str, Any] = {}
        own: set[str] = set()
        merged = self._flatten(node)
        for n, (key_node, value_node) in enumerate(node.value):
            key = self._key(key_node)
            child = (*path, key)
            if key in own:
                first = self._document.places[child]
                self._document.problems.append(
                    Problem(self._place(key_node), dotted(child), f"given twice (first on {first})")
                )
                continue
            if n >= merged:
                own.add(key)
            self._document.places[child] = self._place(key_node)
            result[key] = self.read(value_node, child)
        return result

    def _flatten(self, node: yaml.MappingNode) -> int:
        """Replace `<<` by what it merges in; returns how many keys come from there."""
        if id(node) not in self._merged:
            merges = [k for k, _ in node.value if k.tag == "tag:yaml.org,2002:merge"]
            written = len(node.value) - len(merges)
            if merges:
                self._loader.flatten_mapping(node)
            self._merged[id(node)] = len(node.value) - written
        return self._merged[id(node)]

    def _key(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise ConfigError(f"{self._place(node)}: a key must be a text")
        return str(node.value)

    def _place(self, node: yaml.Node) -> str:
        return f"{self._document.name}:{node.start_mark.line + 1}"


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


def _reason(error: Exception) -> str:
    return str(getattr(error, "problem", None) or error).splitlines()[0]
