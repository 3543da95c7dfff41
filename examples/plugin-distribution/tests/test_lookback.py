"""The drafter keeps the contract of every drafter, and does what it says."""

from types import SimpleNamespace

import pytest
from outrider.testing.contracts import DrafterContract
from outrider_lookback import LookbackConfig, LookbackDrafter


class TestContract(DrafterContract):
    use = {"use": "lookback", "window": 32}


@pytest.mark.parametrize(
    ("tokens", "window", "draft"),
    [
        ([1, 2, 3, 1], 10, [2, 3, 1]),
        ([1, 2, 1, 3, 1], 10, [3, 1]),
        ([1, 2, 3], 10, []),
        ([1, 2, 3, 4, 1], 3, []),
    ],
)
def test_it_drafts_what_followed_the_anchor_the_last_time(tokens, window, draft):
    drafter = LookbackDrafter(LookbackConfig(window=window), SimpleNamespace(name="lookback"))
    sequence = SimpleNamespace(tokens=tokens, anchor=tokens[-1])
    assert list(drafter.propose_one(sequence, 3).tokens) == draft
    assert list(drafter.propose_one(sequence, 1).tokens) == draft[:1]


def test_it_helps_where_the_text_repeats(scripted_pipeline):
    pipeline = scripted_pipeline(
        {"engine": {"script": " the rider runs ahead" * 8}, "drafter": "lookback"}
    )
    stats = pipeline.generate("<|go|>", max_tokens=60).stats
    assert stats["mean_accepted_length"] > 2
