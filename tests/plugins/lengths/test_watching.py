"""Drafts that are not verified are judged by what is emitted next."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from outrider import Draft
from outrider_lengths.watching import Watch

tokens = st.lists(st.integers(0, 2), min_size=1, max_size=6)


@given(draft=tokens, text=tokens, sizes=st.lists(st.integers(1, 3), min_size=12, max_size=12))
def test_the_judgement_is_that_of_verification(draft, text, sizes):
    """However many tokens a step emits."""
    held = 0
    while held < min(len(draft), len(text)) and draft[held] == text[held]:
        held += 1
    watch, at, decided = Watch(Draft(draft)), 0, False
    for size in sizes:
        if decided or at >= len(text):
            break
        decided = watch.see(text[at : at + size])
        at += size
    assert watch.held == held
    assert decided == (held == len(draft) or held < len(text))
    assert watch.missed == (decided and held < len(draft))


def test_a_step_that_emits_nothing_says_nothing():
    watch = Watch(Draft([1, 2]))
    assert not watch.see(())
    assert (watch.held, watch.missed) == (0, False)
