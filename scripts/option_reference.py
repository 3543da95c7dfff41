#!/usr/bin/env python3
"""Write the tables of options in docs/pipeline-file.md from the installed plugins.

python scripts/option_reference.py            # rewrite the document
python scripts/option_reference.py --check    # fail when it is not up to date
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import attrs
import generated
from outrider.config import ByteSize, bounds, describe, option_fields, option_texts, shown
from outrider.plugins import Entry, installed
from outrider.settings import LISTS, SLOTS

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "pipeline-file.md"
START = "<!-- options: written by scripts/option_reference.py -->"
FOR_TESTS = "outrider.testing"
HEAD = "| option | expects | by default | |\n| --- | --- | --- | --- |"


def reference() -> str:
    """The generated part of the document."""
    parts: list[str] = []
    for key in (*SLOTS, *LISTS):
        parts.append(f"## `{key}`")
        parts += [text(entry) for entry in entries(LISTS.get(key, key))]
    return "\n\n".join(parts) + "\n"


def entries(kind: str) -> list[Entry]:
    """The components of a kind that are for use."""
    return [e for e in installed().entries(kind) if not e.cls.__module__.startswith(FOR_TESTS)]


def text(entry: Entry) -> str:
    """What a component is, and its options."""
    what = (inspect.getdoc(entry.cls) or "").split("\n\n")[0].replace("\n", " ")
    rows = list(options(entry.cls.Config))
    table = [HEAD + "\n" + "\n".join(rows)] if rows else ["No options."]
    return "\n\n".join([f"### `{entry.name}`", what, *table])


def options(cls: type[Any], inside: str = "") -> Iterator[str]:
    """A row for every option, and below it one for each option inside it."""
    texts = option_texts(cls)
    for name, field in option_fields(cls).items():
        limits = ", ".join(str(bound) for bound in bounds(field))
        expects = describe(field.type) + (f", {limits}" if limits else "")
        cells = (f"`{inside}{name}`", expects, default(field), texts.get(name, ""))
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
        for kind in (field.type, *get_args(field.type)):
            if (
                attrs.has(kind)
                and not issubclass(kind, tuple)
                and not describe(kind).endswith("…}")
            ):
                yield from options(kind, f"{inside}{name}.")


def default(field: attrs.Attribute[Any]) -> str:
    """An option's default in words; empty where it has to be given."""
    value = field.default
    if value is attrs.NOTHING:
        return "to be given"
    if isinstance(value, attrs.Factory):  # pyright: ignore[reportArgumentType]
        value = value.factory()
    if isinstance(value, Path) and value.is_relative_to(Path.home()):
        return f"`~/{value.relative_to(Path.home())}`"
    if isinstance(value, ByteSize):
        return f"{value >> 30}GiB"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return shown(value)
    if isinstance(value, str):
        return f"`{value}`" if value else "empty"
    if isinstance(value, Mapping):
        return ", ".join(f"{k}: {v}" for k, v in value.items()) or "empty"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "empty"
    return str(value)


if __name__ == "__main__":
    generated.main(DOCUMENT, START, reference, __doc__)
