"""Where snapshots are taken, and what is reused: functions of numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from outrider_snapshots.policy import (
    RESTORE_COST,
    SPARED_LOSSES,
    TAIL,
    Candidate,
    Experience,
    best_first,
    boundaries,
    common_length,
    live_candidate,
    survives,
)

sizes = st.integers(1, 5000)


class TestBoundaries:
    def test_the_history_boundary_is_one(self):
        assert boundaries(1000, 990, 0, 0, every=2048, least=64) == [990]

    def test_without_a_history_the_tail_of_the_prompt_is_left_out(self):
        assert boundaries(1000, None, 0, 0, every=0, least=64) == [1000 - TAIL]

    def test_a_prompt_that_ends_with_its_history_keeps_one_token_for_its_logits(self):
        assert boundaries(1000, 1000, 0, 0, every=0, least=64) == [999]

    def test_long_prompts_have_ancestors_at_multiples(self):
        assert boundaries(5000, 4990, 0, 0, every=2048, least=64) == [2048, 4096, 4990]

    def test_the_multiples_do_not_depend_on_where_prefill_starts(self):
        assert boundaries(5000, 4990, 2100, 0, every=2048, least=64) == [4096, 4990]

    def test_an_ancestor_right_before_the_history_boundary_is_not_worth_it(self):
        assert boundaries(2110, 2100, 0, 0, every=2048, least=64) == [2100]

    def test_right_after_another_snapshot_none_is_taken(self):
        assert boundaries(1000, 990, 950, 950, every=0, least=64) == []
        assert boundaries(1020, 1015, 950, 950, every=0, least=64) == [1015]

    @given(sizes, st.none() | sizes, sizes, sizes, st.integers(0, 3000), st.integers(1, 200))
    def test_they_ascend_inside_the_part_that_is_prefilled(
        self, prompt, history, start, stored, every, least
    ):
        history = None if history is None else min(history, prompt)
        places = boundaries(prompt, history, start, stored, every, least)
        assert places == sorted(set(places))
        assert all(start < p < prompt and p >= stored + least for p in places)


class TestBestFirst:
    def test_live_memory_goes_before_a_snapshot_of_the_same_tokens(self):
        found = [Candidate(s, 500) for s in ("disk", "ram", "ring", "live")]
        assert [c.source for c in best_first(found)] == ["live", "ring", "ram", "disk"]

    def test_a_much_longer_snapshot_goes_before_a_short_live_sequence(self):
        assert best_first([Candidate("live", 50), Candidate("ram", 500)])[0].source == "ram"

    def test_a_slightly_longer_snapshot_does_not(self):
        assert best_first([Candidate("live", 500), Candidate("ram", 505)])[0].source == "live"

    def test_the_longest_live_sequence_is_the_best(self):
        found = [Candidate("live", 5), Candidate("live", 70), Candidate("live", 30)]
        assert best_first(found)[0].length == 70

    def test_what_costs_more_than_it_saves_is_left_out(self):
        assert best_first([Candidate("disk", RESTORE_COST["disk"])]) == []


class TestLiveCandidate:
    def test_a_prefix_is_live(self):
        found = live_candidate("slot", common=80, length=80, reach=0, most=99)
        assert (found.source, found.length) == ("live", 80)

    @pytest.mark.parametrize("depth", range(1, 12))
    def test_a_difference_is_rewound_only_as_far_as_the_ring_is_valid(self, depth):
        found = live_candidate("slot", common=80 - depth, length=80, reach=7, most=99)
        if depth <= 7:
            assert (found.source, found.length) == ("ring", 80 - depth)
        else:
            assert found is None

    def test_the_same_prompt_again_must_give_back_its_last_token(self):
        assert live_candidate("slot", common=80, length=80, reach=0, most=79) is None
        assert live_candidate("slot", common=80, length=80, reach=1, most=79).length == 79

    def test_nothing_in_common_is_nothing(self):
        assert live_candidate("slot", common=0, length=3, reach=3, most=99) is None


@given(st.lists(st.integers(0, 3)), st.lists(st.integers(0, 3)))
def test_common_length_is_that_of_the_common_prefix(a, b):
    n = common_length(np.array(a, np.int32), np.array(b, np.int32))
    assert a[:n] == b[:n]
    assert n == min(len(a), len(b)) or a[n] != b[n]


class TestEndsOfTurns:
    def test_tokens_survive_if_their_text_gives_the_same_tokens(self):
        assert survives([1, 2, 3, 4], [1, 2, 3, 9], kept=3)
        assert not survives([1, 2, 3, 4], [1, 7, 4], kept=3)

    def test_ends_that_never_come_back_are_not_kept_for_long(self):
        experience = Experience()
        for _ in range(SPARED_LOSSES):
            experience.note(came_back=False)
        assert experience.worth_keeping
        experience.note(came_back=False)
        assert not experience.worth_keeping

    def test_one_that_does_come_back_makes_good_for_them(self):
        experience = Experience()
        for came_back in (False, False, False, False, True):
            experience.note(came_back)
        assert experience.worth_keeping
        assert (experience.kept, experience.lost) == (1, 4)
