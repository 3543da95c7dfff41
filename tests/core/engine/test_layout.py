"""The rows in llama.cpp's serialised states are found, or none are claimed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from outrider.engine.layout import token_rows


def decoded(pipeline, count: int, slot: int = 0):
    """The target, with `count` tokens in the memory of a slot."""
    target = pipeline.engine.target
    target.clear()
    target.batch.clear()
    target.batch.extend(list(range(100, 100 + count)), 0, slot)
    target.decode()
    return target


def row_bytes(data, rows, token: int) -> bytes:
    """What a state keeps for one token."""
    view = memoryview(data)
    return b"".join(view[r.offset + token * r.size :][: r.size] for r in rows)


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("engine.flash_attention=off",),
        ("engine.cache_type_k=q8_0",),
        ("max_sequences=3",),
    ],
    ids=["plain", "transposed values", "quantised keys", "several sequences"],
)
def test_the_rows_of_common_tokens_are_the_same_in_a_longer_state(open_pipeline, overrides):
    pipeline = open_pipeline("engine.context=512", "drafter.use=none", *overrides)
    slot = pipeline.decoder.slots[-1].id
    target = decoded(pipeline, 70, slot)
    short = target.save(slot)
    target.batch.clear()
    target.batch.extend(list(range(300, 330)), 70, slot)
    target.decode()
    long = target.save(slot)
    short_rows, long_rows = token_rows(short), token_rows(long)
    assert {r.count for r in short_rows} == {70}
    assert {r.count for r in long_rows} == {100}
    state = len(target.save(slot, partial=True))
    found = sum(r.size * r.count for r in long_rows)
    assert found > 0.9 * (len(long) - state), "nearly all that is not recurrent state"
    for token in range(70):
        assert row_bytes(short, short_rows, token) == row_bytes(long, long_rows, token)
    target.clear()


def test_a_dense_model_has_rows_too(open_pipeline, dense_model):
    pipeline = open_pipeline("drafter.use=none", "engine.context=256", model=str(dense_model))
    data = decoded(pipeline, 50).save(0)
    assert {r.count for r in token_rows(data)} == {50}


def test_an_empty_sequence_has_none(plain):
    plain.engine.target.clear()
    assert token_rows(plain.engine.target.save(0)) == ()


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_nothing_is_claimed_of_noise(data):
    for rows in token_rows(data):
        assert rows.offset + rows.size * rows.count <= len(data)


@pytest.fixture(scope="module")
def state(plain) -> bytes:
    """The state of 40 tokens."""
    target = decoded(plain, 40)
    data = bytes(target.save(0))
    target.clear()
    return data


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 5000))
def test_a_damaged_state_never_yields_rows_outside_it(state, value, cut):
    whole = bytearray(state)
    words = np.frombuffer(whole, np.uint32)
    words[value % 500] = value
    data = whole[: max(0, len(whole) - cut)]
    for rows in token_rows(data):
        assert rows.size > 0
        assert rows.offset + rows.size * rows.count <= len(data)
