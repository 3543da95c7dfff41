"""How fast the machine is, apart for single rows and for batches."""

from __future__ import annotations

import random

import pytest
from outrider_lengths.pace import Pace


def seen(pace, ratio, batch, times, noise=0.0, seed=1):
    rng = random.Random(seed)
    for _ in range(times):
        pace.observe(ratio * rng.uniform(1.0 - noise, 1.0 + noise), batch)


def test_single_rows_show_the_pace_and_batches_what_they_have_more():
    pace = Pace()
    for turn in range(40):
        seen(pace, 1.3, False, 2, noise=0.1, seed=2 * turn)
        seen(pace, 1.3 * 1.2, True, 2, noise=0.1, seed=2 * turn + 1)
    assert pace.pace == pytest.approx(1.3, rel=0.05)
    assert pace.batches == pytest.approx(1.2, rel=0.05)


def test_batches_are_blamed_where_nothing_else_is_seen():
    """So that plain steps seem worth a look, which then shows what is true."""
    pace = Pace()
    seen(pace, 1.0, False, 20)
    seen(pace, 1.0, True, 20)
    seen(pace, 1.4, True, 40)
    assert pace.pace * pace.batches == pytest.approx(1.4, rel=0.05)
    assert pace.batches > 1.25 > 1.1 > pace.pace


def test_what_single_rows_show_later_counts_for_both():
    """The whole machine has become slower: batches have no more than before."""
    pace = Pace()
    seen(pace, 1.0, False, 20)
    seen(pace, 1.0, True, 20)
    seen(pace, 1.4, True, 40)
    blamed = pace.batches
    seen(pace, 1.4, False, 12)
    assert pace.pace == pytest.approx(1.4, rel=0.1)
    assert pace.batches < 1.0 + 0.6 * (blamed - 1.0)


@pytest.mark.parametrize("batch", [False, True])
def test_a_hiccup_counts_only_if_it_comes_again(batch):
    pace = Pace()
    seen(pace, 1.0, False, 20)
    seen(pace, 1.0, True, 20)
    before = pace.pace, pace.batches
    pace.observe(9.0, batch)
    pace.observe(1.0, not batch)
    pace.observe(1.0, batch)
    assert (pace.pace, pace.batches) == pytest.approx(before, abs=1e-6)
    seen(pace, 9.0, batch, 30)
    assert pace.pace * (pace.batches if batch else 1.0) > 6.0


def test_what_one_batch_said_fades_where_there_are_no_more():
    """Else batches that once seemed too dear would never be seen again."""
    pace = Pace()
    seen(pace, 1.0, False, 20)
    seen(pace, 1.2, True, 100)
    usual = pace.batches
    seen(pace, 2.2, True, 8)
    assert pace.batches > 1.4 * usual
    for _ in range(60):
        pace.observe(1.0, False, 16)
    assert pace.batches == pytest.approx(usual, rel=0.1)
    assert pace.pace == pytest.approx(1.0, rel=0.02)
