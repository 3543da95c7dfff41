"""`measured` chooses once, from costs that were measured or found."""

from __future__ import annotations

import json

import pytest
from outrider import ConfigError
from outrider.testing import make_pipeline, opened
from outrider_lengths.calibration import QUICK, measure
from outrider_lengths.store import Store, cost_key

COSTS = [1.0, 1.1, 1.2, 1.3, 3.0, 3.1, 1.4, 5.0, 5.1]


def keys(use="measured", accuracy=(0.9,), **options):
    return {
        "engine": {"cost_ms": COSTS, "context": 2048},
        "drafter": {"use": "echo", "accuracy": list(accuracy)},
        "draft_length": {"use": use, "max": 8, **options},
    }


def test_the_costs_that_were_told_are_measured():
    with opened(keys()) as pipeline:
        table = measure(pipeline, 8, QUICK)
    assert table.rows == pytest.approx([1000 * c for c in COSTS])
    assert table.drafting["echo"] == pytest.approx([0.0] * 9)
    assert table.change == 0.0
    assert table.acceptance["echo"][0] == pytest.approx(0.9, abs=0.1)


def test_the_head_costs_what_its_decodes_cost():
    data = keys()
    data["engine"] |= {"head": [0.9, 0.8], "head_cost_ms": [0.25]}
    data["drafter"] = "mtp"
    with opened(data) as pipeline:
        table = measure(pipeline, 4, QUICK)
    assert table.drafting["mtp"] == pytest.approx([0.0, 250.0, 500.0, 750.0, 1000.0])


def test_the_length_is_the_best_one_for_the_given_acceptance():
    with opened(keys(acceptance=[0.8])) as pipeline:
        sequence = pipeline.generate([260, 261], max_tokens=40)
        assert pipeline.draft_length.statistics() == {"chosen": {"echo": 6}}
    assert "6" in sequence.stats["draft_lengths"]


def test_without_given_acceptance_the_one_seen_while_measuring_counts():
    with opened(keys(accuracy=(0.02,))) as pipeline:
        assert pipeline.draft_length.statistics() == {"chosen": {"echo": 0}}


def test_measuring_leaves_every_slot_empty_and_the_text_as_it_is():
    def text(use):
        with opened(keys(use) if use != "fixed" else _fixed()) as pipeline:
            assert all(not s.length and not s.tokens for s in pipeline.decoder.slots)
            return pipeline.generate([260, 261], max_tokens=60).token_ids

    assert text("measured") == text("adaptive") == text("fixed")


def _fixed():
    return {**keys(), "draft_length": {"use": "fixed", "k": 3}}


def test_what_was_measured_is_found_the_next_time(tmp_path, monkeypatch):
    with opened(keys(folder=str(tmp_path))) as pipeline:
        key = cost_key(pipeline)
    path = Store(tmp_path).path(key)
    stored = json.loads(path.read_text())
    stored["rows_us"] = [1.0] * 9
    path.write_text(json.dumps(stored))
    with opened(keys(folder=str(tmp_path), acceptance=[0.5])) as pipeline:
        assert pipeline.draft_length.statistics() == {"chosen": {"echo": 8}}


def test_other_options_of_the_engine_are_another_measurement(tmp_path):
    found = set()
    for context in (512, 1024):
        data = keys(folder=str(tmp_path))
        data["engine"]["context"] = context
        with opened(data) as pipeline:
            found.add(cost_key(pipeline))
    assert len(found) == len(list(tmp_path.iterdir())) == 2


def test_the_depth_of_the_ring_is_no_other_measurement(tmp_path):
    found = set()
    for most in (4, 8):
        data = keys(folder=str(tmp_path))
        data["draft_length"]["max"] = most
        with opened(data) as pipeline:
            found.add(cost_key(pipeline))
    assert len(found) == 1


@pytest.mark.parametrize(
    "damage",
    ["", "{", "[]", '{"rows_us": []}', '{"rows_us": ["x"], "drafting_us": {}, "change_us": 0}'],
)
def test_a_damaged_file_is_measured_again(tmp_path, damage):
    with opened(keys(folder=str(tmp_path))) as pipeline:
        path = Store(tmp_path).path(cost_key(pipeline))
    whole = path.read_text()
    path.write_text(damage)
    with opened(keys(folder=str(tmp_path))):
        pass
    assert json.loads(path.read_text())["rows_us"] == json.loads(whole)["rows_us"]


def test_a_folder_that_cannot_be_written_costs_a_measurement_only(tmp_path):
    blocked = tmp_path / "a file"
    blocked.write_text("")
    with opened(keys(folder=str(blocked))) as pipeline:
        assert pipeline.draft_length.statistics()["chosen"]["echo"] > 0


def test_impossible_acceptance_is_refused_before_anything_is_loaded():
    with pytest.raises(ConfigError, match="acceptance: expected rates from 0 to 1"):
        make_pipeline(keys(acceptance=[1.5]))


def test_options_of_drafter_and_sampler_are_another_measurement_but_a_seed_is_none(tmp_path):
    found = []
    for options in ({}, {"temperature": 0.7}, {"temperature": 0.7, "seed": 3}):
        data = {**keys(folder=str(tmp_path)), "sampler": {"use": "rejection", **options}}
        with opened(data) as pipeline:
            found.append(cost_key(pipeline))
    data["drafter"] = {"use": "echo", "accuracy": [0.4321]}
    with opened(data) as pipeline:
        found.append(cost_key(pipeline))
    assert found[1] == found[2]
    assert len(set(found)) == 3
