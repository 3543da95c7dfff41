"""Taking turns, resuming, and the tables that come out."""

from __future__ import annotations

import json

import pytest
from bench import report
from bench.engines import Generation, Sampling
from bench.measure import Record, run
from bench.prompts import Prompt

PROMPTS = [Prompt(f, n, "", (1, 2)) for f, n in (("code", "a"), ("code", "b"), ("prose", "c"))]
WARM_UP = Prompt("warm-up", "warm-up", "", (9,))


class Metronome:
    """An engine that takes a known time a token, and notes what it is asked."""

    def __init__(self, label: str, ms: float, log: list, tokens=(1, 2, 3, 4, 5)) -> None:
        self.label, self.ms, self.log, self.tokens = label, ms, log, tokens
        self.starts = 0

    def __enter__(self):
        self.starts += 1
        return self

    def __exit__(self, *_):
        self.log.append((self.label, "stopped"))

    def generate(self, prompt, max_tokens, sampling, seed):
        self.log.append((self.label, prompt.name))
        count = len(self.tokens)
        return Generation(self.tokens, count, "", 1.0, self.ms * (count - 1), 4, 2)

    def describe(self):
        return {"kind": "metronome"}


def measured(tmp_path, engines, runs=2, resume=False, restart=True):
    record = Record.open(tmp_path / "run.json", {"runs": runs}, resume)
    run(
        record, engines, PROMPTS, WARM_UP, [Sampling()],
        runs=runs, max_tokens=5, restart=restart, say=lambda _: None,
    )  # fmt: skip
    return record


def test_rates_and_ratios_are_those_of_the_engines(tmp_path):
    log: list = []
    engines = [Metronome("llama-server plain", 10.0, log), Metronome("outrider mtp", 5.0, log)]
    record = measured(tmp_path, engines).as_dict()
    slow, fast = report.rows(record, "greedy", "llama-server plain")
    assert slow.families == {"code": pytest.approx(100.0), "prose": pytest.approx(100.0)}
    assert fast.mean == pytest.approx(200.0)
    assert fast.ratio == pytest.approx(2.0)
    assert fast.accepted == 0.5
    assert "| outrider mtp | 200 | 200 | 200 | 2.00 |" in report.markdown(record)


def test_engines_take_turns_in_both_orders_after_a_warm_up(tmp_path):
    log: list = []
    measured(tmp_path, [Metronome("a", 1.0, log), Metronome("b", 1.0, log)])
    assert log[:2] == [("a", "warm-up"), ("b", "warm-up")]
    assert log[2:6] == [("a", "a"), ("b", "a"), ("b", "b"), ("a", "b")]
    second = log.index(("a", "warm-up"), 2)
    assert log[second + 2 : second + 4] == [("b", "a"), ("a", "a")]


def test_every_run_starts_engines_that_know_nothing_of_the_last_one(tmp_path):
    engine = Metronome("a", 1.0, [])
    measured(tmp_path, [engine], runs=3)
    assert engine.starts == 3
    kept = Metronome("a", 1.0, [])
    measured(tmp_path, [kept], runs=3, restart=False)
    assert kept.starts == 1


def test_engines_know_nothing_of_the_greedy_answers_when_they_sample(tmp_path):
    """A drafter with a memory would quote them: what is sampled is often the same text."""
    log: list = []
    record = Record.open(tmp_path / "run.json", {"runs": 2}, False)
    samplings = [Sampling(), Sampling(temperature=0.7)]
    engine = Metronome("a", 1.0, log)
    run(
        record, [engine], PROMPTS, WARM_UP, samplings, runs=2, max_tokens=5, say=lambda _: None
    )  # fmt: skip
    assert engine.starts == 4
    asked = [name for _, name in log if name != "warm-up"]
    names = [prompt.name for prompt in PROMPTS]
    assert asked == [*names, "stopped"] * 4


def test_a_broken_run_goes_on_where_it_stopped(tmp_path):
    class Breaks(Metronome):
        def generate(self, prompt, *rest):
            if prompt.name == "c":
                raise RuntimeError("the machine went away")
            return super().generate(prompt, *rest)

    with pytest.raises(RuntimeError):
        measured(tmp_path, [Breaks("a", 1.0, [])])
    log: list = []
    record = measured(tmp_path, [Metronome("a", 1.0, log)], resume=True)
    assert log[:2] == [("a", "warm-up"), ("a", "c")]
    assert all(len(entries) == 2 for entries in record.runs["greedy"]["a"].values())


def test_a_run_with_other_settings_is_not_resumed(tmp_path, capsys):
    measured(tmp_path, [Metronome("a", 1.0, [])])
    log: list = []
    measured(tmp_path, [Metronome("a", 1.0, log)], runs=1, resume=True)
    assert ("a", "c") in log
    assert "other settings: starting anew" in capsys.readouterr().err


def test_a_finished_run_is_not_measured_again(tmp_path):
    measured(tmp_path, [Metronome("a", 1.0, [])])
    log: list = []
    measured(tmp_path, [Metronome("a", 1.0, log)], resume=True)
    assert log == []


def test_equal_tokens_are_kept_once_and_different_ones_all(tmp_path):
    engines = [Metronome("a", 1.0, []), Metronome("b", 1.0, []), Metronome("c", 1.0, [], (1, 2, 9))]
    runs = json.loads(measured(tmp_path, engines).path.read_text())["runs"]["greedy"]
    assert runs["a"]["code/a"][0]["tokens"] == [1, 2, 3, 4, 5]
    assert runs["b"]["code/a"][0]["same_as_reference"]
    assert "tokens" not in runs["b"]["code/a"][0]
    assert runs["c"]["code/a"][0]["tokens"] == [1, 2, 9]
