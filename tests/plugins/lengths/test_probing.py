"""A drafter out of favour is tried again, without costing more than its budget."""

from __future__ import annotations

from itertools import pairwise

import pytest
from outrider_lengths.probing import Prober


def run(prober: Prober, steps: int, success, excess: float) -> list[int]:
    """The steps in which a try was due."""
    tries = []
    for step in range(steps):
        if prober.due():
            tries.append(step)
            prober.result(success(step), excess)
    return tries


def test_the_first_step_is_a_try():
    assert run(Prober(0.01), 1, lambda _: False, 1.0) == [0]


@pytest.mark.parametrize("excess", [0.1, 0.5, 1.5, 10.0])
def test_failures_cost_no_more_than_the_budget(excess):
    steps = 20_000
    tries = run(Prober(0.01), steps, lambda _: False, excess)
    assert (len(tries) - 1) * excess <= 0.01 * steps + excess


def test_waits_double_up_to_512_steps():
    tries = run(Prober(0.01), 5000, lambda _: False, 0.04)
    gaps = [b - a - 1 for a, b in pairwise(tries)]
    assert gaps[:8] == [4, 8, 16, 32, 64, 128, 256, 512]
    assert set(gaps[8:]) == {512}


def test_a_success_is_followed_up_at_once():
    tries = run(Prober(0.01), 3000, lambda step: step > 600, 0.04)
    first = next(t for t in tries if t > 600)
    assert tries[tries.index(first) : tries.index(first) + 5] == list(range(first, first + 5))


def test_a_new_request_is_a_new_chance_within_the_budget():
    prober = Prober(0.01)
    run(prober, 3000, lambda _: False, 0.2)
    quiet = 0
    while not prober.due(fresh=True):
        quiet += 1
    assert quiet <= 20


def test_steps_that_went_by_unseen_count():
    """Who asks every eighth step is told to try as often as who asks in every one."""
    often, seldom = Prober(0.01), Prober(0.01)
    tries = [0, 0]
    for step in range(4000):
        if often.due():
            tries[0] += 1
            often.result(False, 0.5)
        if step % 8 == 0 and seldom.due(passed=8):
            tries[1] += 1
            seldom.result(False, 0.5)
    assert abs(tries[0] - tries[1]) <= 2
    assert tries[0] > 3


def test_tries_that_succeed_and_change_nothing_come_to_an_end():
    """A first draft that nearly always holds may still not be worth its cost."""
    tries = run(Prober(0.01), 3000, lambda _: True, 1.0)
    assert tries[:7] == list(range(7)), "the estimate may rise until drafting pays"
    assert len(tries) < 3000 * 0.01 * 8
