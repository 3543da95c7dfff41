"""The pieces that words are tokenised into, of which made-up words are joined."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

VOCABULARY = Path(__file__).parents[2] / "tokenizer.json"


@cache
def pieces() -> tuple[str, ...]:
    """The tokens of two to ten lower-case letters, with or without a space before them."""
    tokens = json.loads(VOCABULARY.read_text())["model"]["vocab"]
    plain = {token.removeprefix("Ġ") for token in tokens}
    return tuple(sorted(t for t in plain if re.fullmatch("[a-z]{2,10}", t)))
