"""What the comparison of draft lengths says of its runs."""

from __future__ import annotations

import pytest
from draft_lengths import RANDOM, against, rates, show, summary


def run(turn, family, mode, rate, tokens=100):
    return {
        "run": turn,
        "family": family,
        "mode": mode,
        "tokens": tokens,
        "ms": 1e3 * tokens / rate,
    }


SLOW_SECOND_RUN = [
    run(turn, family, mode, pace * rate)
    for turn, pace in enumerate((1.0, 0.5, 1.1))
    for family in ("prose", RANDOM)
    for mode, rate in (("plain", 100.0), ("adaptive", 99.0), ("fixed 0", 98.0), ("fixed 3", 50.0))
]


def test_a_machine_that_is_slower_in_one_run_changes_no_ratio():
    ratios = against(rates(SLOW_SECOND_RUN))
    for family in ("prose", RANDOM, "mixture"):
        assert ratios[family] == {
            "plain": pytest.approx(0.99),
            "fixed 0": pytest.approx(1.01, abs=1e-3),
            "fixed 3": pytest.approx(1.98),
        }
    assert summary(rates(SLOW_SECOND_RUN))["prose"]["adaptive"] == 99.0


def test_a_family_weighs_by_its_tokens_and_random_ones_are_no_part_of_the_mixture():
    runs = [
        run(0, "prose", "adaptive", 100.0, tokens=300),
        run(0, "prose", "adaptive", 50.0, tokens=100),
        run(0, "structured", "adaptive", 100.0, tokens=100),
        run(0, RANDOM, "adaptive", 1000.0),
    ]
    found = summary(rates(runs))
    assert found["prose"]["adaptive"] == 80.0
    assert found["mixture"]["adaptive"] == round(500 / 6, 1)


def test_the_table_names_the_ratio_to_the_nearest_fixed_length(capsys):
    found = rates(SLOW_SECOND_RUN)
    show(summary(found), against(found))
    prose = next(line for line in capsys.readouterr().out.splitlines() if "prose" in line)
    assert prose == "| prose | **100** | 99 | 98 | 50 | 1.010 |"
