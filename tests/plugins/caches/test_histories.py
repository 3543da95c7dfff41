"""Random histories, reduced from `scripts/cache_soak.py histories`."""

from __future__ import annotations

import pytest
from outrider import Slot
from soak import histories


@pytest.mark.parametrize("kind", sorted(histories.PIPELINES))
def test_answers_are_those_of_a_cold_run(kind):
    result = histories.run(kind, count=1, seed=11)
    assert result["held"], result
    assert result["cached_tokens"] > 0


def test_the_comparison_would_notice_a_stale_ring(monkeypatch, tmp_path):
    """With the ring believed as far as llama.cpp accepts, states are wrong, and seen to be."""
    monkeypatch.setattr(Slot, "ring_reach", Slot.ring_reach)
    histories.believe_too_much()
    run = histories.Histories("suffix", tmp_path)
    result = histories.report("suffix", 1, run.history(8), None)
    run.close()
    assert not result["held"]
    assert {o["source"] for o in result["wrong"]} == {"ring"}
