"""Prompts of code that no training has seen."""

from __future__ import annotations

import random
from pathlib import Path


def code_prompts(folder: Path, count: int) -> list[str]:
    """Files cut at random places."""
    rng = random.Random(9)
    files = sorted(folder.glob("*.py"))
    prompts: list[str] = []
    while len(prompts) < count:
        source = rng.choice(files).read_text()
        at = rng.randrange(len(source))
        prompts.append(source[max(0, at - 1200) : at])
    return prompts
