"""What the comparison of draft lengths says of its runs."""

from __future__ import annotations

import json
import sys

import pytest
from draft_lengths import RANDOM, against, main, rates, show, summary


def run(turn, family, mode, rate, tokens=100):
    return {
        "run": turn,
        "family": family,
        "mode": mode,
        "tokens": tokens,
        "ms": 1e3 * tokens / rate,
    }


RATES = {
    "plain": (100.0, 60.0, 110.0),
    "adaptive": (104.0, 61.2, 104.5),
    "fixed 0": (104.0, 60.0, 104.5),
    "fixed 3": (52.0, 30.6, 52.25),
}
RUNS = [
    run(turn, family, mode, rate)
    for family in ("prose", RANDOM)
    for mode, of_mode in RATES.items()
    for turn, rate in enumerate(of_mode)
]


def test_ratios_are_taken_run_by_run_and_not_of_medians():
    """A ratio of the medians, 104 and 100, would be 1.04."""
    ratios = against(rates(RUNS))
    for family in ("prose", RANDOM, "mixture"):
        assert ratios[family] == {"plain": 1.02, "fixed 0": 1.0, "fixed 3": 2.0}
    slower = [r | {"ms": r["ms"] * (2.0 if r["run"] == 0 else 1.0)} for r in RUNS]
    assert against(rates(slower)) == ratios, "a machine that is slower in one run"
    assert summary(rates(slower))["prose"]["adaptive"] == 61.2


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


def test_the_table_names_the_ratio_to_the_best_fixed_length(capsys):
    found = rates(RUNS)
    show(summary(found), against(found))
    prose = next(line for line in capsys.readouterr().out.splitlines() if "prose" in line)
    assert prose == "| prose | 100 | **104** | **104** | 52 | 1.000 |"


@pytest.mark.parametrize(
    "raw", ["", "{}", '{"runs": 1}', json.dumps({"runs": [run(0, "prose", "plain", 1.0)]})]
)
def test_a_file_that_is_no_raw_file_is_refused_in_a_sentence(tmp_path, monkeypatch, raw):
    (tmp_path / "raw.json").write_text(raw)
    monkeypatch.setattr(sys, "argv", ["draft_lengths.py", "--show", str(tmp_path / "raw.json")])
    with pytest.raises(SystemExit, match=r"raw\.json: no raw file of this script"):
        main()


def test_a_raw_file_is_shown_again(tmp_path, monkeypatch, capsys):
    (tmp_path / "raw.json").write_text(json.dumps({"runs": RUNS}))
    monkeypatch.setattr(sys, "argv", ["draft_lengths.py", "--show", str(tmp_path / "raw.json")])
    main()
    assert "| prose | 100 | **104** | **104** | 52 | 1.000 |" in capsys.readouterr().out
