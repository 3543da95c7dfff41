"""Paths through hand-made lattices: order of keys and matrix, signs, ties, one candidate."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from outrider_dflash2.lattice import confidence, walk


def lattice(positions, top_k, width=0):
    """Rows from (ids, matrix) pairs; a first position gives one row of scores for the anchor."""
    rows = []
    for ids, scores in positions:
        scores = np.asarray(scores, np.float32)
        matrix = np.broadcast_to(scores, (top_k, top_k)) if scores.ndim == 1 else scores
        row = np.concatenate([np.asarray(ids, np.float32), matrix.ravel()])
        rows.append(np.pad(row, (0, max(0, width - len(row))), constant_values=9e9))
    return np.stack(rows)


TWO = [
    ([10, 11], [0.5, 2.0]),
    ([20, 21], [[5.0, 0.0], [1.0, 3.0]]),
    ([30, 31], [[0.0, 1.0], [4.0, 2.0]]),
]


def test_the_row_of_the_predecessor_counts_not_the_best_of_all():
    """From 11 (row 1) the best successor is 21, though 5.0 stands in row 0."""
    assert walk(lattice(TWO, 2), 2) == [11, 21, 30]


def test_what_follows_the_matrix_is_ignored():
    assert walk(lattice(TWO, 2, width=384), 2) == [11, 21, 30]


def test_negative_scores_are_ordered_like_any_others():
    shifted = [(ids, np.asarray(scores) - 100.0) for ids, scores in TWO]
    assert walk(lattice(shifted, 2), 2) == [11, 21, 30]


def test_of_equal_scores_the_first_is_taken():
    assert walk(lattice([([7, 8, 9], [1.0, 1.0, 1.0])], 3), 3) == [7]


def test_with_one_candidate_there_is_one_path():
    assert walk(lattice([([5], [0.1]), ([6], [[-3.0]])], 1), 1) == [5, 6]


def test_large_token_ids_survive_float32():
    assert walk(lattice([([248_319, 3], [2.0, 1.0])], 2), 2) == [248_319]


def test_the_path_ends_before_the_first_unsure_position():
    sure, unsure = [9.0, 0.0], [0.1, 0.0]
    rows = lattice([([1, 2], sure), ([3, 4], [sure, sure]), ([5, 6], [unsure, unsure])], 2)
    assert walk(rows, 2, min_p=0.6) == [1, 3]
    assert walk(rows, 2, min_p=0.0) == [1, 3, 5]
    assert walk(rows, 2, min_p=1.0) == []


def test_being_sure_does_not_depend_on_what_is_drawn_there():
    """Else the drawn tokens that remain would have another distribution than q."""
    rows = lattice([([1, 2], [1.0, 0.0])], 2)
    for token in (1, 2):
        assert walk(rows, 2, min_p=0.7, draw=lambda path, ids, scores, t=token: t) == [token]


def test_a_draw_sees_the_path_and_the_row_of_its_predecessor():
    seen = []

    def draw(path, ids, scores):
        seen.append((list(path), ids.tolist(), scores.tolist()))
        return int(ids[0])

    assert walk(lattice(TWO, 2), 2, draw=draw) == [10, 20, 30]
    assert seen == [
        ([], [10, 11], [0.5, 2.0]),
        ([10], [20, 21], [5.0, 0.0]),
        ([10, 20], [30, 31], [0.0, 1.0]),
    ]


finite = st.floats(-50, 50, width=32)


@given(st.integers(1, 4), st.integers(1, 5), st.data())
def test_each_step_is_the_best_one_given_the_step_before(top_k, length, data):
    scores = data.draw(hnp.arrays(np.float32, (length, top_k, top_k), elements=finite))
    scores[0] = scores[0, 0]
    ids = np.arange(length * top_k).reshape(length, top_k)
    rows = np.concatenate([ids.astype(np.float32), scores.reshape(length, -1)], axis=1)
    path = walk(rows, top_k)
    previous = 0
    for position, token in enumerate(path):
        chosen = token - position * top_k
        assert scores[position, previous, chosen] == scores[position, previous].max()
        previous = chosen


@given(hnp.arrays(np.float32, st.integers(1, 8), elements=finite))
def test_confidence_is_the_softmax_at_its_maximum(scores):
    exact = np.exp(scores.astype(np.float64) - scores.max())
    assert confidence(scores) == pytest.approx((exact / exact.sum()).max(), rel=1e-5)


def test_every_path_can_be_drawn():
    found = set()
    for choice in product((0, 1), repeat=3):
        picks = iter(choice)
        found.add(
            tuple(walk(lattice(TWO, 2), 2, draw=lambda path, ids, _, p=picks: int(ids[next(p)])))
        )
    assert len(found) == 8
