"""Acceptance by position: what is believed, and what changes it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from outrider_lengths.acceptance import Acceptance, Given, Lean, Leaning, outcome
from outrider_lengths.adaptive import _TEXT

outcomes = st.lists(st.tuples(st.integers(0, 7), st.booleans()), max_size=60)


@given(outcomes, st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_estimates_are_probabilities(seen, prior):
    known = Acceptance(Given(prior), weight=4, keep=0.95)
    for accepted, rejected in seen:
        known.observe(accepted, rejected)
    assert all(0 <= rate <= 1 for rate in known.estimate(16))
    assert len(known.estimate(16)) == 16


def test_without_evidence_the_prior_is_believed_and_deeper_positions_are_as_good():
    known = Acceptance(Given((0.9, 0.6)), weight=4, keep=0.95)
    assert known.estimate(4) == [0.9, 0.6, 0.6, 0.6]


def test_a_position_nobody_tried_is_as_good_as_the_one_before_it():
    known = Acceptance(Given((0.5,)), weight=1, keep=1.0)
    for _ in range(99):
        known.observe(1, False)
    first, second, third = known.estimate(3)
    assert first == second == third > 0.98


def test_what_other_sequences_showed_counts_for_deeper_positions():
    common = Acceptance(Given((0.7,)), weight=1, keep=1.0)
    for _ in range(200):
        common.observe(1, True)
    mine = Acceptance(common, weight=4, keep=0.95)
    mine.observe(1, False)
    assert mine.estimate(2)[1] < 0.02


def test_rates_converge_to_those_of_the_source():
    rng = random.Random(5)
    truth = (0.9, 0.7, 0.5)
    known = Acceptance(Given((0.1,)), weight=4, keep=0.999)
    for _ in range(5000):
        accepted = 0
        while accepted < 3 and rng.random() < truth[accepted]:
            accepted += 1
        known.observe(accepted, accepted < 3)
    assert known.estimate(3) == pytest.approx(truth, abs=0.05)


def test_a_change_is_noticed_within_some_twenty_steps():
    known = Acceptance(Given((0.9,)), weight=4, keep=0.95)
    for _ in range(200):
        known.observe(3, False)
    for _ in range(20):
        known.observe(0, True)
    assert known.estimate(1)[0] < 0.45


def test_what_was_not_tried_for_long_returns_to_the_prior():
    known = Acceptance(Given((0.8,)), weight=4, keep=0.95)
    for _ in range(50):
        known.observe(0, True)
    assert known.estimate(1)[0] < 0.2
    for _ in range(500):
        known.relax(0.99)
    assert known.estimate(1)[0] > 0.75


@pytest.mark.parametrize(
    ("proposed", "accepted", "emitted", "expected"),
    [
        (4, 4, 5, (4, False)),
        (4, 2, 3, (2, True)),
        (4, 0, 1, (0, True)),
        # the second draft ended the generation: nobody judged the third
        (4, 2, 2, (2, False)),
        (4, 4, 1, (1, False)),
    ],
)
def test_an_accepted_end_is_no_rejection_of_what_would_have_followed(
    proposed, accepted, emitted, expected
):
    assert outcome(proposed, accepted, emitted) == expected


def test_what_fails_in_one_place_is_doubted_in_others_like_it():
    lean = Lean(spread=1.5, keep=0.97)
    leaning = Leaning(Given((0.95, 0.8)), lean)
    assert leaning.estimate(2) == pytest.approx([0.95, 0.8])
    for _ in range(3):
        lean.observe([0.9], 0)
    low = leaning.estimate(3)
    assert low[0] < 0.8
    assert low[1] < 0.45
    assert low[1] == low[2]
    for _ in range(60):
        lean.observe([0.9], 1)
    assert leaning.estimate(1)[0] > 0.95
    assert leaning.known == 2


def test_three_failures_are_doubted_as_far_as_texts_are_known_to_differ():
    """The same with what `adaptive` takes texts to differ by; a good kind is doubted less."""
    lean = Lean(**_TEXT)
    for _ in range(3):
        lean.observe([0.9], 0)
    low = Leaning(Given((0.95, 0.8, 0.5)), lean).estimate(3)
    assert low == sorted(low, reverse=True)
    assert low[0] < 0.87
    assert low[1] < 0.57
    assert low[2] < 0.25


@pytest.mark.parametrize(("usual", "held"), [([1.0], 0), ([0.0], 1), ([0.0] * 8, 8)])
def test_certain_and_hopeless_rates_have_finite_odds(usual, held):
    lean = Lean(spread=0.7, keep=1.0)
    for _ in range(100):
        lean.observe(usual, held)
    assert all(0.0 < rate < 1.0 for rate in Leaning(Given((1.0, 0.0)), lean).estimate(2))


def test_a_long_draft_that_surprises_can_be_taken_back():
    lean = Lean(spread=0.7, keep=0.97)
    lean.observe([0.001] * 64, 64)
    assert 10.0 < lean.factor < 60.0
    for _ in range(12):
        lean.observe([0.5], 0)
    assert lean.factor < 1.0


def test_old_drafts_fade_with_every_new_one():
    """What a text is like now counts: as many again that hold outweigh what failed long ago."""
    lasting, fading = Lean(0.7, keep=1.0), Lean(0.7, keep=0.9)
    for lean in (lasting, fading):
        for held in [0] * 20 + [1] * 20:
            lean.observe([0.6], held)
    assert lasting.factor < 1.0 < fading.factor


def leant(spread, usual, held, times):
    """Odds by those in general, after so many drafts of which so much held."""
    lean = Lean(spread, keep=1.0)
    for _ in range(times):
        lean.observe(usual, held)
    return lean.factor


def test_good_drafts_that_hold_are_no_sign_that_worse_ones_will():
    """All drafts of a text may have been from long matches: they hold in other texts as well."""
    assert 1.0 < leant(0.7, [0.99], 1, 10) < 1.1
    assert leant(0.7, [0.6], 1, 10) > 2.0
    assert leant(0.7, [0.9], 0, 1) < 1.0 / leant(0.7, [0.9], 1, 4), "a surprise says more"


def test_what_holds_as_often_as_usual_leaves_everything_as_it_is():
    lean = Lean(spread=0.7, keep=1.0)
    for i in range(400):
        lean.observe([0.75], int(i % 4 > 0))
    assert lean.factor == pytest.approx(1.0, abs=0.03)


def test_texts_that_differ_little_are_believed_to_be_like_others_for_longer():
    assert leant(0.3, [0.9], 0, 2) > 1.5 * leant(1.0, [0.9], 0, 2)
    sure, open_minded = Lean(0.3, keep=1.0), Lean(1.0, keep=1.0)
    for i in range(1000):
        sure.observe([0.9], i % 2)
        open_minded.observe([0.9], i % 2)
    assert sure.factor == pytest.approx(open_minded.factor, abs=0.02), "not for ever"
    assert open_minded.factor == pytest.approx(1 / 9, abs=0.02)


def test_the_likeliest_shift_of_the_odds_is_found():
    """Step by step as good as at once: where 50 of 100 hold that usually do 80 times."""
    lean = Lean(spread=1e3, keep=1.0)
    for i in range(100):
        lean.observe([0.8], i % 2)
    assert lean.factor == pytest.approx(0.25, rel=0.15)


def test_positions_that_were_counted_before_tell_no_lean_again():
    lean = Lean(spread=0.7, keep=1.0)
    lean.observe([0.9, 0.9], 1, known=2)
    assert lean.factor == 1.0
    lean.observe([0.9, 0.9], 1, known=1)
    assert lean.factor == pytest.approx(leant(0.7, [0.9], 0, 1))


def test_a_text_is_taken_to_be_like_others_again_when_nothing_was_tried_for_long():
    lean = Lean(spread=0.7, keep=0.97)
    for _ in range(10):
        lean.observe([0.9], 0)
    assert lean.factor < 0.3
    for _ in range(500):
        lean.relax(0.98)
    assert lean.factor == pytest.approx(1.0, abs=0.01)


def test_a_text_with_many_outcomes_tells_others_hardly_more_than_one_with_a_few():
    """Much is drafted where drafts hold: by outcome, such texts would speak for all the others."""
    by_outcome = Acceptance(Given([0.5]), weight=4.0, keep=1.0)
    by_text = Acceptance(Given([0.5]), weight=4.0, keep=1.0)
    for holds, times in ((True, 200), (False, 2)) * 10:
        text = Acceptance(Given([0.5]), weight=5.0, keep=1.0)
        for _ in range(times):
            by_outcome.observe(int(holds), not holds)
            by_text.observe(int(holds), not holds, text.news(1))
            text.observe(int(holds), not holds)
    assert by_outcome.estimate(1)[0] > 0.98
    assert 0.8 < by_text.estimate(1)[0] < 0.95


def test_news_are_counted_by_position():
    text = Acceptance(Given([0.5]), weight=5.0, keep=1.0)
    assert text.news(2) == [1.0, 1.0]
    for _ in range(5):
        text.observe(0, True)
    assert text.news(2) == pytest.approx([0.5, 1.0])
