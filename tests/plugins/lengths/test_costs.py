"""Costs follow what is observed, but not every hiccup."""

from __future__ import annotations

import random

import pytest
from outrider_lengths.costs import Costs, CostTable, lookup

TABLE = CostTable((100.0, 150.0, 200.0), {"mtp": (5.0, 30.0, 60.0)}, change=20.0)


def observe(costs, rows, rest_us, draft_us=0.0, k=0, times=1):
    for _ in range(times):
        costs.observe(1, rows, rest_us, "mtp", k, draft_us)


def test_beyond_the_table_its_last_increase_goes_on():
    assert [lookup((1.0, 3.0, 6.0), i) for i in range(5)] == [1.0, 3.0, 6.0, 9.0, 12.0]
    assert lookup((5.0, 4.0), 4) == 4.0, "a table that ends with a cliff is no reason to fall on"
    assert lookup((5.0,), 3) == 5.0


def test_a_machine_that_is_slower_as_a_whole_changes_no_ratio():
    costs = Costs(TABLE)
    rng = random.Random(1)
    for _ in range(400):
        rows = rng.choice([1, 1, 2, 2, 3, 3])
        observe(costs, rows, TABLE.rows[rows - 1] * 1.8, times=3)
    assert costs.rows(3) / costs.rows(1) == pytest.approx(2.0, rel=0.1)


def test_an_entry_that_was_measured_wrong_is_corrected():
    costs = Costs(TABLE)
    for _ in range(600):
        observe(costs, 1, 100.0, times=3)
        observe(costs, 3, 120.0, times=3)
    assert costs.rows(3) / costs.rows(1) == pytest.approx(1.2, rel=0.1)


def test_a_single_outlier_moves_nothing_much():
    costs = Costs(TABLE)
    observe(costs, 2, 150.0, times=2)
    observe(costs, 2, 150.0 * 1000)
    assert costs.rows(2) == pytest.approx(150.0, rel=0.01)


def test_a_step_with_another_number_of_rows_says_nothing_about_rows():
    costs = Costs(TABLE)
    for _ in range(100):
        observe(costs, 1, 1000.0)
        observe(costs, 2, 1000.0)
    assert costs.rows(1) == 100.0


def test_what_makes_all_batches_dearer_is_learnt_from_some_of_them():
    """A longer context, or a neighbour on the same core, and single rows hardly notice."""
    costs = Costs(TABLE)
    for _ in range(60):
        observe(costs, 1, 100.0, times=3)
        observe(costs, 3, 240.0, times=3)
    assert costs.rows(3) / costs.rows(1) == pytest.approx(2.4, rel=0.05)
    assert costs.rows(2) / costs.rows(1) > 1.5 * 1.1


def test_a_draft_after_plain_steps_pays_for_what_its_drafter_has_to_catch_up_with():
    costs = Costs(TABLE)
    for _ in range(100):
        costs.observe(1, 1, 120.0, "mtp", 0, 5.0)
        costs.observe(1, 1, 100.0, "mtp", 0, 5.0)
        costs.observe(1, 3, 220.0, "mtp", 2, 100.0, ("mtp", 0))
        costs.observe(1, 3, 200.0, "mtp", 2, 60.0, ("mtp", 0))
    assert costs.drafting("mtp", 2) == pytest.approx(60.0, rel=0.02)
    costs.observe(1, 1, 120.0, "mtp", 0, 5.0)
    assert costs.transition(3, ("mtp", 0)) == pytest.approx((2 * 20.0 + 40.0) / 2, rel=0.1)
    assert costs.transition(3, ("suffix", 0)) == pytest.approx(2 * costs.change / costs.stretch())


def test_drafting_costs_follow_too():
    costs = Costs(TABLE)
    observe(costs, 2, 150.0, draft_us=60.0, k=1, times=400)
    assert costs.drafting("mtp", 1) > 50.0
    assert costs.drafting("mtp", 2) == 60.0
    assert costs.drafting("unheard of", 3) == 0.0


def test_who_leaves_plain_decoding_pays_for_the_way_back_too():
    costs = Costs(TABLE)
    observe(costs, 1, 100.0, times=3)
    assert costs.transition(1) == 0.0
    assert costs.transition(3) == pytest.approx(2 * 20.0 / costs.stretch())
    observe(costs, 3, 200.0)
    assert costs.transition(3) == 0.0
    assert costs.transition(1) == 0.0, "paid already"
    assert costs.transition(2) == pytest.approx(costs.change / costs.stretch())


@pytest.mark.parametrize("before", [(), (1,), (2,), (3,), (1, 2), (3, 1), (1, 1, 3)])
@pytest.mark.parametrize("padding", [0, 1])
def test_the_costs_of_steps_are_the_sums_of_their_parts(before, padding):
    cliff = CostTable((100.0, 190.0, 150.0, 260.0), {"mtp": (5.0, 30.0, 60.0)}, change=20.0)
    costs, cause = Costs(cliff, padding), ("mtp", 0)
    for rows in before:
        observe(costs, rows, 230.0, draft_us=40.0, k=rows - 1, times=2)
    for k, cost in enumerate(costs.steps(cause, 5)):
        rows = costs.padded(1 + k)
        parts = costs.rows(rows) + costs.drafting("mtp", k) + costs.transition(rows, cause)
        assert cost == pytest.approx(parts)
    assert len(costs.steps(("unheard of", 3), 2)) == 3


def test_what_a_step_after_a_prefill_took_is_ignored_but_not_that_it_was_taken():
    costs, cause = Costs(TABLE), ("mtp", 0)
    before = costs.table()
    for _ in range(60):
        costs.passed(1)
        for _ in range(10):
            costs.passed(3, cause)
    assert costs.table() == before
    assert costs.pace == 1.0
    assert costs.transition(3, cause) == 0.0
    costs.passed(1)
    assert costs.stretch(cause) == pytest.approx(10.0, rel=0.05)


def test_long_stretches_make_leaving_cheaper_a_step():
    costs = Costs(TABLE)
    for _ in range(60):
        observe(costs, 1, 100.0, times=5)
        observe(costs, 3, 200.0, times=10)
    observe(costs, 1, 100.0)
    assert costs.stretch() == pytest.approx(10.0, rel=0.05)
    assert costs.transition(3) == pytest.approx(2 * costs.change / 10.0, rel=0.05)
    assert costs.transition(3, "another cause") > 3 * costs.transition(3)


def test_what_a_change_costs_is_learnt():
    costs = Costs(TABLE)
    for _ in range(100):
        observe(costs, 1, 107.0)
        observe(costs, 1, 100.0, times=3)
        observe(costs, 3, 207.0)
        observe(costs, 3, 200.0, times=3)
    assert costs.change == pytest.approx(7.0, rel=0.1)
    for _ in range(100):
        observe(costs, 1, 150.0)
        observe(costs, 1, 100.0, times=3)
        observe(costs, 3, 250.0)
        observe(costs, 3, 200.0, times=3)
    assert costs.change == pytest.approx(50.0, rel=0.1)
