"""How far batch shapes alone move the logits: prompts fed in different pieces, no cache."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from outrider import Pipeline

from soak.histories import TEXTS

PIECES = {"single rows": 1, "four rows": 4}


def run(count: int) -> dict[str, Any]:
    """Normalised squared error of the next logits, against prefill in one piece."""
    overrides = ["engine.threads=1", "drafter=none", "draft_length={use: fixed, k: 6}"]
    errors: dict[str, list[float]] = {name: [] for name in PIECES}
    with Pipeline.load(overrides=overrides).open() as pipeline:
        target = pipeline.engine.target
        target.need_logits(0, True)

        def fed(tokens: list[int], pieces: list[int]) -> NDArray[np.float64]:
            target.clear(0)
            at = 0
            for n in pieces:
                target.batch.clear()
                target.batch.extend(tokens[at : at + n], at, 0)
                target.batch.outputs[n - 1] = 1
                target.decode()
                at += n
            return target.logits(pieces[-1] - 1).astype(np.float64)

        rng = random.Random(1)
        for _ in range(count):
            start, tail = rng.randrange(60, 240), 4 * rng.randrange(3, 11)
            tokens = pipeline.tokenize("".join(rng.choices(TEXTS, k=40)))[: start + tail]
            whole = fed(tokens, [start + tail])
            for name, rows in PIECES.items():
                other = fed(tokens, [start, *[rows] * (tail // rows)])
                error = ((other - whole) ** 2).sum() / ((whole - whole.mean()) ** 2).sum()
                errors[name].append(float(error))
    return {
        "held": True,
        "prompts": count,
        "nmse": {
            name: {"median": float(np.median(e)), "largest": max(e)} for name, e in errors.items()
        },
    }
