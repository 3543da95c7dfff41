"""Random histories, reduced from `scripts/cache_soak.py histories`."""

from __future__ import annotations

import pytest
from outrider import Slot
from soak import histories


@pytest.mark.parametrize("kind", sorted(histories.PIPELINES))
def test_answers_are_those_of_a_cold_run(kind):
    result = histories.run(kind, count=2, seed=11)
    assert result["held"], result
    assert result["cached_tokens"] > 0


def test_the_comparison_would_notice_a_stale_ring(monkeypatch):
    """With the ring believed as far as llama.cpp accepts, states are wrong, and seen to be."""
    monkeypatch.setattr(Slot, "ring_reach", Slot.ring_reach)
    result = histories.run("suffix", count=4, seed=13, control=True)
    assert not result["held"]
    assert any(o["source"] == "ring" for o in result["wrong"])
