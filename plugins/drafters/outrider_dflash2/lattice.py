"""Paths through a candidate lattice.

A lattice row belongs to one drafted position: `top_k` candidate token ids (as float32), then a
`top_k` × `top_k` matrix whose entry (i, j) scores candidate j after candidate i of the position
before (`build_dflash2_selector` in llama.cpp's `src/models/dflash.cpp`). Before the first position
there is only the anchor, so all rows of its matrix are the same. Scores are logits: a softmax over
a matrix row is the drafter's distribution of the token there, given the one before.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from outrider.native import best_path

Draw = Callable[[list[int], NDArray[np.int32], NDArray[np.float32]], int]
"""Chooses one of the candidate ids [top_k] by their scores [top_k], after the given drafts."""


def walk(
    lattice: NDArray[np.float32],
    top_k: int,
    *,
    min_p: float = 0.0,
    draw: Draw | None = None,
) -> list[int]:
    """The token ids of one path through `lattice` [positions, ≥ top_k + top_k²].

    Without `draw` the best-scored candidate is taken (the first one of equals). The path ends
    before a position whose most likely candidate has a probability below `min_p`; that depends on
    the tokens before it only, so that drawn tokens keep their distribution.
    """
    if draw is None and min_p == 0.0:
        return best_path(lattice, top_k)
    ids = lattice[:, :top_k].astype(np.int32)
    scores = lattice[:, top_k : top_k + top_k * top_k].reshape(-1, top_k, top_k)
    sure = (confidence(scores) >= min_p).tolist() if min_p > 0.0 else None
    best = scores.argmax(2).tolist() if draw is None else None
    tokens = ids.tolist()
    path: list[int] = []
    previous = 0
    for position, candidates in enumerate(tokens):
        if sure is not None and not sure[position][previous]:
            break
        if best is not None:
            previous = best[position][previous]
        else:
            assert draw is not None
            token = draw(path, ids[position], scores[position, previous])
            previous = candidates.index(token)
        path.append(candidates[previous])
    return path


def confidence(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Probability of the best candidate, for scores [..., top_k]: their softmax's maximum."""
    return 1.0 / np.exp(scores - scores.max(-1, keepdims=True)).sum(-1)
