"""The chooser finds the argmax, whatever the cost table looks like."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st
from outrider_lengths.gain import allocate, best_length, chances, expected_tokens

rates = st.floats(0.0, 1.0)
costs = st.floats(0.1, 100.0)


def rate(acceptance, cost, k):
    """The design's formula, term by term."""
    return (1 + sum(prod(acceptance[:i]) for i in range(1, k + 1))) / cost[k]


@given(st.lists(rates, max_size=16), st.lists(costs, min_size=1, max_size=17))
def test_no_length_brings_more_than_the_chosen_one(acceptance, cost):
    k, found = best_length(acceptance, cost)
    most = min(len(acceptance), len(cost) - 1)
    assert 0 <= k <= most
    assert found == pytest.approx(rate(acceptance, cost, k))
    assert all(rate(acceptance, cost, j) <= found * (1 + 1e-12) for j in range(most + 1))


@given(st.lists(rates, min_size=1, max_size=16), st.data())
def test_expected_tokens_grow_with_length_and_stay_below_all(acceptance, data):
    k = data.draw(st.integers(1, len(acceptance)))
    assert expected_tokens(acceptance, k - 1) <= expected_tokens(acceptance, k) <= k + 1
    assert chances(acceptance)[k - 1] == pytest.approx(prod(acceptance[:k]))


def test_a_cliff_in_the_cost_table_is_used():
    """9 rows that cost less than 8 (measured on an H200) make k = 8 better than 7."""
    measured = [11.2, 12.3, 14.7, 17.2, 18.6, 21.0, 23.0, 25.6, 23.0]
    assert best_length([0.8] * 8, measured)[0] == 8
    assert best_length([0.8] * 8, [*measured[:8], 27.8])[0] == 4


def test_nothing_is_drafted_when_no_row_pays():
    assert best_length([0.9] * 8, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0])[0] == 0


def test_of_equals_the_shortest_is_taken():
    assert best_length([1.0, 1.0], [1.0, 2.0, 3.0])[0] == 0


@given(
    st.lists(st.lists(rates, max_size=3), min_size=1, max_size=3),
    st.lists(costs, min_size=10, max_size=10),
)
def test_rows_are_shared_out_as_well_as_trying_every_way(acceptance, cost):
    def price(lengths):
        return cost[sum(lengths)]

    def value(lengths):
        expected = sum(expected_tokens(a, k) for a, k in zip(acceptance, lengths, strict=True))
        return expected / price(lengths)

    found = allocate(acceptance, price)
    every = product(*(range(len(a) + 1) for a in acceptance))
    assert value(found) >= max(map(value, every)) * (1 - 1e-9)


@given(st.lists(rates, max_size=8), st.lists(costs, min_size=9, max_size=9))
def test_one_sequence_alone_gets_the_same_length_either_way(acceptance, cost):
    (k,) = allocate([acceptance], lambda lengths: cost[lengths[0]])
    best, found = best_length(acceptance, cost)
    assert rate(acceptance, cost, k) == pytest.approx(found)
    assert best >= 0
