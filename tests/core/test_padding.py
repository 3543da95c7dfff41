"""Rows behind the drafts: they make a batch cheaper, and nothing else of it different."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from outrider import DraftLength, PluginError, Request
from outrider.divergence import first_divergence
from outrider.testing import decode_all, emitted, make_pipeline, opened, plain_tokens

# eight rows cost more than nine, as where another kernel takes over
CLIFF = [1.0, 1.3, 1.6, 1.9, 2.2, 2.5, 2.8, 3.1, 2.0, 2.1]
PROMPT = [260, 261, 262]


def keys(draft_length, *, accuracy=(0.8,), **more):
    engine = {"cost_ms": CLIFF, "context": 512, **more.pop("engine", {})}
    drafter = {"use": "echo", "accuracy": list(accuracy)}
    return {"engine": engine, "drafter": drafter, "draft_length": draft_length, **more}


def watched(pipeline):
    """The row numbers of the target's decodes from now on."""
    rows, target, decode = [], pipeline.engine.target, pipeline.engine.target.decode

    def counting():
        rows.append(target.batch.size)
        decode()

    target.decode = counting
    return rows


@given(
    k=st.integers(0, 9),
    more=st.integers(0, 4),
    accuracy=st.floats(0.0, 1.0),
    recurrent=st.booleans(),
    ring=st.booleans(),
    eog=st.sampled_from([0.0, 0.05]),
    tokens=st.integers(1, 60),
)
def test_the_text_and_the_statistics_are_those_without_padding(
    k, more, accuracy, recurrent, ring, eog, tokens
):
    engine = {"recurrent": recurrent, "ring": ring, "eog": eog}
    found = []
    for rows in (None, k + 1 + more):
        length = {"use": "fixed", "k": k, "rows": rows}
        with opened(keys(length, accuracy=(accuracy,), engine=engine)) as pipeline:
            sizes = watched(pipeline)
            sequence = pipeline.start(Request(prompt=PROMPT, max_tokens=tokens))
            while not sequence.done:
                pipeline.step([sequence])
                slot = sequence.slot
                held = pipeline.engine.target.length(slot.id)
                assert held == slot.length == len(sequence.tokens) - 1
            assert emitted(sequence) == plain_tokens(pipeline, PROMPT, tokens)
            if rows and k:
                full = sum(size == rows for size in sizes)
                assert full >= pipeline.summary()["draft_lengths"].get(str(k), 0)
            summary = pipeline.summary()
            found.append({n: summary[n] for n in ("steps", "draft_lengths", "drafters")})
    assert found[0] == found[1]


@pytest.mark.parametrize("seed", range(5))
def test_sampled_tokens_are_those_without_padding(seed):
    sampler = {"use": "rejection", "temperature": 1.0, "seed": seed}
    found = []
    for rows in (None, 9):
        with opened(keys({"use": "fixed", "k": 7, "rows": rows}, sampler=sampler)) as pipeline:
            found.append(pipeline.generate(PROMPT, max_tokens=50).token_ids)
    assert found[0] == found[1]


def test_only_a_draft_of_full_length_is_padded():
    with opened(keys({"use": "fixed", "k": 7, "rows": 9})) as pipeline:
        rows = watched(pipeline)
        pipeline.generate(PROMPT, max_tokens=40)
        assert 9 in rows
        assert 8 not in rows
        assert pipeline.engine.target.ring_depth == 8


def test_several_sequences_are_never_padded():
    """Rows of different sequences stay one batch only while they are equally many."""
    with opened(keys({"use": "fixed", "k": 3, "rows": 6}, max_sequences=2)) as pipeline:
        rows = watched(pipeline)
        requests = [Request(prompt=[*PROMPT, i], max_tokens=30) for i in range(2)]
        for sequence, request in zip(decode_all(pipeline, requests), requests, strict=True):
            assert emitted(sequence) == plain_tokens(pipeline, request.prompt, 30)
        joint = rows[2:]
        assert 8 in joint, "both drafted three"
        assert max(joint) == 8


def test_where_the_context_ends_there_is_no_padding():
    engine = {"context": 40}
    with opened(keys({"use": "fixed", "k": 2, "rows": 9}, engine=engine)) as pipeline:
        rows = watched(pipeline)
        found = pipeline.generate(PROMPT)
        assert list(found.token_ids) == plain_tokens(pipeline, PROMPT, 40)
        assert {9, 3} <= set(rows)


@pytest.mark.parametrize("use", ["measured", "adaptive"])
def test_measured_costs_say_where_padding_pays(use):
    length = {"use": use, "max": 8, "padding": 1}
    with opened(keys(length, accuracy=(1.0,))) as pipeline:
        rows = watched(pipeline)
        found = pipeline.generate(PROMPT, max_tokens=150)
        assert list(found.token_ids) == plain_tokens(pipeline, PROMPT, 150)
        assert 9 in rows
        assert 8 not in rows
        assert pipeline.engine.target.ring_depth == 9
        assert [pipeline.draft_length.rows(n) for n in (1, 3, 8, 9)] == [1, 3, 9, 9]


def test_a_cheaper_padded_batch_makes_a_length_worth_choosing():
    chosen = {}
    for padding in (0, 1):
        length = {"use": "measured", "max": 7, "padding": padding, "acceptance": [0.8]}
        with opened(keys(length)) as pipeline:
            chosen[padding] = pipeline.draft_length.statistics()["chosen"]["echo"]
    assert chosen[1] == 7
    assert chosen[0] < 7


def test_rows_that_do_not_hold_the_drafts_are_refused():
    with pytest.raises(Exception, match="rows is 4, but k: 7 needs 8 rows"):
        make_pipeline(keys({"use": "fixed", "k": 7, "rows": 4}))


@attrs.frozen
class GreedyConfig:
    """No options."""


class TooMany(DraftLength):
    """Asks for more rows than it said it would."""

    Config = GreedyConfig
    max = 2
    padding = 1

    def choose(self, sequences):
        return [2] * len(sequences)

    def rows(self, needed):
        return needed + 2


def test_a_policy_that_asks_for_more_than_it_said_is_named():
    offers = {"draft_length": {"too-many": TooMany}}
    with (
        opened(keys("too-many"), offers=offers) as pipeline,
        pytest.raises(PluginError, match="'too-many' asked for 5 rows instead of 3"),
    ):
        pipeline.generate(PROMPT, max_tokens=10)


@pytest.mark.parametrize("drafter", ["suffix", "mtp"])
@pytest.mark.parametrize("rollback", ["snapshot-ring", "checkpoint"])
def test_the_embedded_model_says_what_it_says_without_drafts(
    plain, open_pipeline, drafter, rollback
):
    pipeline = open_pipeline(
        f"drafter.use={drafter}",
        "draft_length={use: fixed, k: 3, rows: 6}",
        f"rollback.use={rollback}",
    )
    for text in (
        "def test_add():\n    assert add(1, 2) == 3\n    assert add(2, 3) == 5\n",
        "| a | b |\n| a | b |\n",
    ):
        prompt = plain.tokenize(text)
        expected = plain.run(Request(prompt=prompt, max_tokens=48)).token_ids
        rows = watched(pipeline)
        found = pipeline.run(Request(prompt=prompt, max_tokens=48)).token_ids
        assert 6 in rows
        divergence = first_divergence(plain, prompt, expected, found)
        assert divergence is None or abs(divergence.gap) < 1e-2, divergence
