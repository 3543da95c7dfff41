#!/usr/bin/env python3
"""Write the reference part of docs/writing-plugins.md from the source.

python scripts/plugin_reference.py            # rewrite the document
python scripts/plugin_reference.py --check    # fail when it is not up to date
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from pathlib import Path
from types import FunctionType

import attrs
import generated
from outrider import components, errors, hookspecs, sequence, states, step, target
from outrider.config import option_texts

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "writing-plugins.md"
START = "<!-- reference: written by scripts/plugin_reference.py -->"

COMPONENTS = (
    components.Component,
    components.Drafter,
    components.DraftLength,
    components.Verifier,
    components.Sampler,
    components.StateRollback,
    components.PrefixCache,
    components.ChatTemplate,
    components.ConstraintFactory,
    components.Constraint,
    components.Observer,
)
PROTOCOLS = (
    target.Engine,
    target.Context,
    target.Batch,
    target.Vocabulary,
    states.States,
)
VALUES = (
    components.Assembly,
    components.Runtime,
    target.Needs,
    target.ModelInfo,
    target.EnginePlan,
    step.Draft,
    step.Distribution,
    step.Accepted,
    step.Step,
    step.LogProb,
    components.Decision,
    components.Reuse,
    components.Prompt,
    components.DrafterSpec,
    components.SamplerSpec,
    sequence.Sequence,
    sequence.Slot,
    sequence.Request,
    sequence.Finish,
    states.Snapshot,
)


def hooks() -> dict[str, FunctionType]:
    """Every hook by name, in the order of the source."""
    return {
        name: function
        for name, function in vars(hookspecs).items()
        if inspect.isfunction(function) and hasattr(function, "outrider_spec")
    }


def signature(function: FunctionType) -> str:
    """A function's name, arguments and result as the source writes them."""
    [node] = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(node, ast.FunctionDef)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{node.name}({ast.unparse(node.args)}){returns}"


def reference() -> str:
    """The generated part of the document."""
    parts = ["## Every hook", hooks_text()]
    parts.append("## Every component\n\n`Seq` below is `outrider.Sequence`: a request in decoding.")
    parts += map(class_text, COMPONENTS)
    parts.append("## What components work with")
    parts += map(class_text, PROTOCOLS)
    parts.append("## Values")
    parts += map(class_text, VALUES)
    parts.append("## Errors")
    parts.append(errors_text())
    return "\n\n".join(parts) + "\n"


def hooks_text() -> str:
    """All hooks with signature and docstring."""
    return "\n\n".join(
        f"### `{name}`\n\n    {signature(function)}\n\n{inspect.getdoc(function)}"
        for name, function in hooks().items()
    )


def class_text(cls: type) -> str:
    """A class with its fields, properties and methods."""
    parts = [f"### `{cls.__name__}`", markdown(inspect.getdoc(cls) or "")]
    parts += [f"- {entry}" for entry in members(cls)]
    head, entries = parts[:2], parts[2:]
    return "\n\n".join([*head, "\n".join(entries)]) if entries else "\n\n".join(head)


def members(cls: type) -> list[str]:
    """One line of Markdown for everything public that the class itself defines."""
    texts = option_texts(cls)
    annotations = {n: str(t) for n, t in vars(cls).get("__annotations__", {}).items()}
    found: list[str] = []
    for name, kind in annotations.items():
        if not name.startswith("_"):
            found.append(f"`{name}: {kind}`" + (f": {texts[name]}" if name in texts else ""))
    for name, value in vars(cls).items():
        function = value.fget if isinstance(value, property) else value
        written = getattr(function, "__name__", "") == name  # a Protocol's __init__ is typing's
        if name == "__init__" and written and not attrs.has(cls):
            found.append(f"`{signature(function)}`")
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        said = " ".join((inspect.getdoc(function) or "").split())
        shown = signature(function)
        if isinstance(value, property):
            shown = f"{name}: {shown.partition(' -> ')[2]}"
        found.append(f"`{shown}`: {said}")
    return found


def errors_text() -> str:
    """Every error class and what it means."""
    classes = [c for c in vars(errors).values() if inspect.isclass(c)]
    return "\n".join(f"- `{c.__name__}`: {' '.join(inspect.getdoc(c).split())}" for c in classes)


def markdown(docstring: str) -> str:
    """A docstring as Markdown: a literal block after `::` is indented already."""
    return docstring.replace("::\n", ":\n")


if __name__ == "__main__":
    generated.main(DOCUMENT, START, reference, __doc__)
