"""A cascade takes what is expected to bring most, or the first proposal where nothing compares."""

from __future__ import annotations

from collections import Counter

import pytest
from outrider import Draft, Drafter, Request
from outrider.testing import opened, plain_tokens


class Cheap(Drafter):
    """Knows the next tokens at places where it has evidence; costs nothing."""

    cheap = True
    good = True

    def open(self, runtime):
        self._engine = runtime.engine

    def propose_one(self, sequence, limit):
        if len(sequence.tokens) % 3:
            return Draft()
        right = self._engine.continuation(sequence.tokens, limit)
        tokens = right if self.good else [(t + 1) % 256 for t in right]
        return Draft(tokens, source=self.name, evidence=5)


class CheapAndWrong(Cheap):
    """Proposes as often, and is never right."""

    good = False


OFFERS = {"drafter": {"cheap": Cheap, "cheap-wrong": CheapAndWrong}}
DEAR = {"use": "mtp"}


def keys(*of, use="adaptive", folder=None, head=(0.9,), head_cost=0.2, **options):
    length = {"use": use, **options}
    if use == "adaptive":
        length |= {"max": 6, "folder": str(folder)}
    return {
        "engine": {
            "cost_ms": [1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2],
            "head": list(head),
            "head_cost_ms": [head_cost],
            "context": 2048,
        },
        "drafter": {"use": "cascade", "of": list(of)},
        "draft_length": length,
    }


def sources(data, requests=8, tokens=80):
    """Which drafter's tokens were verified how often, in the later requests."""
    found = Counter()
    with opened(data, offers=OFFERS) as pipeline:
        for i in range(requests):
            request = Request(prompt=(260 + i, 261), max_tokens=tokens, ignore_eog=True)
            sequence = pipeline.start(request)
            while not sequence.done:
                draft = pipeline.decoder.step([sequence])[0].draft
                if i >= requests // 2:
                    found[draft.source if draft.tokens else ""] += 1
            expected = plain_tokens(pipeline, request.prompt, tokens, ignore_eog=True)
            assert sequence.tokens[2:] == expected
    return found


def test_a_wrong_proposal_is_not_taken_merely_because_it_came_first(tmp_path):
    found = sources(keys("cheap-wrong", DEAR, folder=tmp_path))
    assert found["mtp"] > 0.9 * found.total()
    assert found["cheap-wrong"] <= 0.05 * found.total()


def test_a_right_cheap_proposal_is_taken_where_there_is_one(tmp_path):
    found = sources(keys("cheap", DEAR, folder=tmp_path, head=(0.6,), head_cost=0.5))
    assert found["cheap"] > 10
    assert found["cheap"] > 0.25 * found.total()


@pytest.mark.parametrize("order", [("cheap", DEAR), (DEAR, "cheap")])
def test_the_order_does_not_matter_where_proposals_are_compared(tmp_path, order):
    found = sources(keys(*order, folder=tmp_path, head=(0.6,), head_cost=0.5))
    assert found["cheap"] > 10


def test_a_drafter_that_costs_more_than_it_brings_is_left_alone(tmp_path):
    found = sources(keys("cheap", DEAR, folder=tmp_path, head=(0.1,), head_cost=2.0))
    assert found["mtp"] <= 0.03 * found.total()
    assert found["cheap"] > 10


def test_with_a_fixed_length_the_first_proposal_is_taken():
    found = sources(keys("cheap-wrong", DEAR, use="fixed", k=3))
    assert found["cheap-wrong"] > 10
    assert found["mtp"] > 10
    found = sources(keys(DEAR, "cheap-wrong", use="fixed", k=3))
    assert found["cheap-wrong"] == 0


def test_statistics_tell_grades_of_evidence_apart(tmp_path):
    data = keys("cheap", folder=tmp_path)
    with opened(data, offers=OFFERS) as pipeline:
        pipeline.generate([260, 261], max_tokens=120)
        numbers = pipeline.summary()["components"]["draft_length:adaptive"]
    assert set(numbers["acceptance"]) == {"cheap", "cheap/5"}


def test_two_drafters_of_one_kind_are_told_apart(tmp_path):
    data = keys("cheap", "cheap", "cheap-wrong", folder=tmp_path)
    with opened(data, offers=OFFERS) as pipeline:
        assert [d.name for d in pipeline.drafter.parts] == ["cheap", "cheap-2", "cheap-wrong"]
        pipeline.generate([260, 261], max_tokens=40)
        assert "cheap-2" in pipeline.draft_length.statistics()["drafting_us"]
