"""Medians, ratios, divergence, and JSON that stays JSON."""

from __future__ import annotations

import json
import math

import pytest
from bench.measure import compact
from bench.statistics import divergence, geometric_mean, spread
from hypothesis import given
from hypothesis import strategies as st


def test_a_spread_is_the_median_with_both_extremes():
    found = spread([5.0, 1.0, 2.0])
    assert (found.median, found.low, found.high, found.count) == (2.0, 1.0, 5.0, 3)


def test_the_mean_of_a_half_and_a_double_is_one():
    assert math.isclose(geometric_mean([0.5, 2.0]), 1.0)


@pytest.mark.parametrize("mean", [spread, geometric_mean])
def test_of_nothing_there_is_no_mean(mean):
    with pytest.raises(ValueError):
        mean([])


@given(st.lists(st.integers(0, 3)), st.lists(st.integers(0, 3)))
def test_lists_agree_before_the_divergence_and_not_at_it(a, b):
    index = divergence(a, b)
    if index is None:
        assert a[: len(b)] == b[: len(a)]
    else:
        assert a[:index] == b[:index]
        assert a[index] != b[index]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=200),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=60,
)


@given(values)
def test_the_raw_file_is_json_whatever_its_layout(value):
    assert json.loads(compact(value)) == value
