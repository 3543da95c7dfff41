"""The fixed prompts of five task families (`scripts/prompts/FAMILY.yaml`) as token lists.

A prompt is raw `text`, or a `request` in the shape of an OpenAI chat body that is rendered with
the model's own template. Tokens are made once, so that every engine gets the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import yaml

if TYPE_CHECKING:
    from outrider import Pipeline

FOLDER = Path(__file__).resolve().parents[1] / "prompts"
FAMILIES = ("code-completion", "code-edit", "structured", "prose", "reasoning")


@attrs.frozen
class Prompt:
    """A prompt, ready for any engine."""

    family: str
    name: str
    text: str
    tokens: tuple[int, ...]


def read(family: str, folder: Path = FOLDER) -> list[dict[str, Any]]:
    """The entries of one family as they stand in its file."""
    path = folder / f"{family}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in folder.glob("*.yaml")))
        raise SystemExit(f"there is no prompt family {family!r}; there are: {known}")
    return yaml.safe_load(path.read_text())


def render(entry: dict[str, Any], pipeline: Pipeline) -> str:
    """The text that a model continues."""
    if "text" in entry:
        # the newline that ends a block of YAML is no part of what was typed
        return entry["text"].removesuffix("\n")
    if pipeline.template is None:
        raise SystemExit(f"{pipeline.model.name} has no chat template; prompt {entry['name']!r}")
    return pipeline.template.render(entry["request"]).text


def load(
    pipeline: Pipeline, families: Iterable[str] = FAMILIES, per_family: int | None = None
) -> list[Prompt]:
    """Prompts of the given families, tokenised with the vocabulary of an opened pipeline."""
    prompts: list[Prompt] = []
    for family in families:
        for entry in read(family)[:per_family]:
            text = render(entry, pipeline)
            prompts.append(Prompt(family, entry["name"], text, tuple(pipeline.tokenize(text))))
    return prompts
