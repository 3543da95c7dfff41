"""Only the planes that a batch can fill are written, and every rollback stays exact.

`tests/plugins/rollbacks` holds every recorded rollback against a fresh prefill with limited
writes; here limited and full writes are compared with each other.
"""

from __future__ import annotations

import numpy as np
import pytest
from outrider import Context, Pipeline
from outrider.engine._calls import ffi

NULL = ffi.NULL
RING = 8


def fed(target: Context, tokens: list[int], position: int) -> np.ndarray:
    """Decode tokens in one batch; the logits after the last one."""
    target.batch.clear()
    last = target.batch.extend(tokens, position, 0) + len(tokens) - 1
    target.batch.outputs[last] = 1
    target.decode()
    return target.logits(last).copy()


@pytest.fixture(scope="module")
def target(hybrid_model):
    overrides = ["engine.threads=1", "engine.context=512", "drafter.use=suffix"]
    with Pipeline.load(
        model=str(hybrid_model), overrides=[*overrides, f"draft_length.k={RING}"]
    ).open() as pipeline:
        pipeline.engine.target.need_logits(0, True)
        yield pipeline.engine.target


def test_the_place_of_the_number_is_found(target):
    assert target.calls.planes


@pytest.mark.parametrize("rows", range(1, RING + 3))
def test_every_rollback_depth_gives_the_same_logits_with_limited_and_full_writes(target, rows):
    calls = target.calls
    for undone in range(min(rows, RING + 1)):
        after = []
        for limited in (True, False):
            target.clear(0)
            fed(target, list(range(300, 340)), 0)
            word = calls.planes
            if not limited:
                calls.planes = NULL
                word[0] = RING
            try:
                fed(target, list(range(500, 500 + rows)), 40)
                if undone:
                    assert target.truncate(0, 40 + rows - undone)
                after.append(fed(target, [700], 40 + rows - undone))
            finally:
                calls.planes = word
        assert np.abs(after[0] - after[1]).max() < 1e-4
        if undone:
            assert not np.allclose(after[0], full_logits(target, rows), atol=1e-3)


def full_logits(target: Context, rows: int) -> np.ndarray:
    """What would come out if nothing were undone: a wrong rollback must not look like it."""
    target.clear(0)
    fed(target, list(range(300, 340)), 0)
    fed(target, list(range(500, 500 + rows)), 40)
    return fed(target, [700], 40 + rows)
