"""Sequences of library calls made without the interpreter do what the single calls do."""

from __future__ import annotations

import numpy as np
import pytest
from outrider import LogitsError, RowBuffer
from outrider.errors import EngineError

PROMPTS = ("def add(a, b):\n    return a", "The river runs past the old mill, and the")


@pytest.fixture
def engine(open_pipeline):
    """A target with its head, room for two sequences."""
    return open_pipeline("drafter.use=mtp", "draft_length.k=4", "max_sequences=2").engine


@pytest.fixture
def contexts(engine):
    """The target after both prompts, and a head's context of its own."""
    head = engine.open_mtp(n_batch=engine.target.n_batch)
    head.clear()
    return engine, engine.target, head


def feed(engine, target, head, prompts):
    """Prefill both contexts, the head up to the last token; its last rows are in the batch."""
    target.clear()
    head.clear()
    rows, batch = [], []
    for sequence, prompt in enumerate(prompts):
        tokens = engine.vocabulary.tokenize(prompt)
        target.batch.clear()
        target.batch.extend(tokens, 0, sequence, last_output=True)
        target.decode()
        hidden = np.vstack(
            [np.zeros((1, target.n_embd), np.float32), target.hidden(0, len(tokens))]
        )
        tokens.append(target.argmax(len(tokens) - 1))
        head.batch.clear()
        head.batch.extend(tokens[:-1], 0, sequence)
        head.batch.embeddings[: len(tokens) - 1] = hidden[:-1]
        head.decode()
        batch.append((tokens[-1], len(tokens) - 1, hidden[-1]))
    head.batch.clear()
    for sequence, (token, position, row) in enumerate(batch):
        i = head.batch.add(token, position, sequence, True)
        head.batch.embeddings[i] = row
        rows.append(i)
    return rows, [position for _, position, _ in batch]


def chained_by_hand(head, row, position, sequence, length):
    """What `chain` promises, with one call at a time."""
    tokens = [head.argmax(row)]
    while len(tokens) < length:
        head.batch.clear()
        position += 1
        head.batch.take_hidden(head.batch.add(tokens[-1], position, sequence, True), head, row)
        head.decode()
        row = 0
        tokens.append(head.argmax(row))
    return tokens


@pytest.mark.parametrize("lengths", [(1, 1), (4, 2), (1, 4), (3, 3)])
def test_a_chain_is_what_single_calls_would_draft(contexts, lengths):
    engine, target, head = contexts
    rows, _ = feed(engine, target, head, PROMPTS)
    before = head.decodes
    chains = head.chain(rows, lengths)
    assert [len(c) for c in chains] == list(lengths)
    assert head.decodes - before == max(lengths)

    for sequence in range(2):
        rows, positions = feed(engine, target, head, PROMPTS)
        head.decode()
        expected = chained_by_hand(
            head, rows[sequence], positions[sequence], sequence, lengths[sequence]
        )
        assert chains[sequence] == expected


def test_the_first_tokens_of_a_chain_do_not_depend_on_its_length(contexts):
    engine, target, head = contexts
    found = []
    for length in (1, 2, 4):
        rows, _ = feed(engine, target, head, PROMPTS[:1])
        found.append(head.chain(rows, [length])[0])
    assert found[2][:2] == found[1]
    assert found[1][:1] == found[0]


@pytest.mark.parametrize("begun", [False, True])
def test_a_steady_chain_keeps_its_shape_and_drafts_the_same(contexts, begun):
    engine, target, head = contexts
    rows, _ = feed(engine, target, head, PROMPTS[:1])
    expected = head.chain(rows, [4])[0]

    rows, (position,) = feed(engine, target, head, PROMPTS[:1])
    # the last prompt token once more, as an older row of the same batch
    token, hidden = int(head.batch.tokens[0]), head.batch.embeddings[0].copy()
    tokens = engine.vocabulary.tokenize(PROMPTS[0])
    target.clear()
    target.batch.clear()
    target.batch.extend(tokens, 0, 0, last_output=True)
    target.decode()
    assert head.truncate(0, position - 1)
    head.batch.clear()
    head.batch.extend([tokens[-1], token], position - 1, 0, last_output=True)
    head.batch.embeddings[0] = target.hidden(len(tokens) - 2, 1)[0]
    head.batch.embeddings[1] = hidden
    head.steady = True
    before = head.decodes
    if begun:
        head.submit()
    assert head.chain([1], [4], begun=begun)[0] == expected
    assert head.decodes - before == 4
    assert head.length(0) == position + 4
    assert head.batch.struct().n_tokens == 2
    head.steady = False


def test_a_batch_that_libllama_refuses_is_an_error(contexts):
    engine, target, head = contexts
    rows, _ = feed(engine, target, head, PROMPTS[:1])
    head.batch.tokens[0] = target.n_vocab
    with pytest.raises(EngineError, match="decoding 1 rows failed"):
        head.chain(rows, [2])


@pytest.fixture
def verified(open_pipeline):
    """A target that decoded a prompt's last five tokens with outputs; their best tokens."""
    engine = open_pipeline("drafter.use=suffix", "draft_length.k=4").engine
    target, tokens = engine.target, engine.vocabulary.tokenize(PROMPTS[0])
    target.batch.clear()
    target.batch.extend(tokens[:-5], 0, 0)
    target.decode()
    target.batch.clear()
    target.batch.extend(tokens[-5:], len(tokens) - 5, 0, True)
    target.decode()
    return target, [target.argmax(row) for row in range(5)]


@pytest.mark.parametrize("wrong", [None, 0, 1, 2, 3])
def test_match_stops_at_the_first_token_that_is_not_the_most_likely(verified, wrong):
    target, best = verified
    drafted = list(best[:4])
    if wrong is not None:
        drafted[wrong] = (best[wrong] + 1) % target.n_vocab
    held = 4 if wrong is None else wrong
    assert target.match(0, drafted, 0) == (held, best[held])
    assert target.match(1, drafted[1:2], 0) == ((0, best[1]) if wrong == 1 else (1, best[2]))
    assert target.match(4, (), 0) == (0, best[4])


@pytest.mark.parametrize("bad", [0, 1, 3])
def test_a_row_without_a_most_likely_token_is_named_by_its_position(verified, bad):
    target, best = verified
    target.logits(bad)[:] = np.nan
    with pytest.raises(LogitsError, match=f"position {100 + bad}: .*NaN"):
        target.match(0, best[:4], 100)
    if bad:
        assert target.match(0, best[: bad - 1], 100) == (bad - 1, best[bad - 1])


def test_a_row_that_is_no_output_is_an_error(verified):
    target, _ = verified
    with pytest.raises(EngineError, match="row 7 of the last batch has no logits"):
        target.match(7, (), 0)
    with pytest.raises(EngineError, match="row 7 of the last batch has no logits"):
        target.argmax(7)


def test_a_context_whose_batches_carry_no_rows_chains_nothing(verified):
    target, best = verified
    target.batch.clear()
    target.batch.add(best[-1], 9, 0, True)
    assert target.batch.embeddings is None
    with pytest.raises(EngineError, match="the batch no embeddings to put it in"):
        target.chain([0], [2])


@pytest.mark.parametrize(("first", "count"), [(-1, 1), (0, 5), (4, 1), (3, 2)])
def test_rows_that_a_buffer_does_not_have_are_neither_read_nor_written(contexts, first, count):
    engine, target, head = contexts
    feed(engine, target, head, PROMPTS[:1])
    rows = RowBuffer(4, target.n_embd)
    message = f"rows {first} … {first + count - 1} of {target.n_embd} values .* 4 rows of"
    with pytest.raises(EngineError, match=message):
        target.keep_hidden(0, count, rows, first)
    head.batch.clear()
    head.batch.extend([1] * 6, 0, 0)
    with pytest.raises(EngineError, match=message):
        head.batch.take_rows(0, rows, first, count)
    assert not rows.array.any()


def test_borrowed_rows_are_the_embeddings_until_the_batch_is_cleared(contexts):
    engine, target, head = contexts
    feed(engine, target, head, PROMPTS[:1])
    rows = RowBuffer(4, target.n_embd)
    target.keep_hidden(0, 3, rows, 1)
    batch = head.batch

    def drafted(borrow):
        head.clear(0)
        batch.clear()
        batch.extend([5, 6, 7], 0, 0, last_output=True)
        if borrow:
            batch.borrow_rows(rows, 1)
        else:
            batch.take_rows(0, rows, 1, 3)
        head.decode()
        return head.logits(2).copy()

    copied = drafted(False)
    batch.embeddings[:3] = 7.0
    assert np.array_equal(drafted(True), copied)
    assert (batch.embeddings[:3] == 7.0).all()
    assert np.array_equal(drafted(False), copied), "its own rows count again"
    batch.extend([1] * 2, 3, 0)
    with pytest.raises(EngineError, match="4 rows of"):
        batch.borrow_rows(rows, 0)


def test_rows_of_another_width_are_not_copied(contexts):
    engine, target, head = contexts
    feed(engine, target, head, PROMPTS[:1])
    narrow = RowBuffer(4, target.n_embd // 2)
    with pytest.raises(EngineError, match=f"a buffer of 4 rows of {target.n_embd // 2}"):
        target.keep_hidden(0, 1, narrow, 0)
    with pytest.raises(EngineError, match=f"a buffer of 4 rows of {target.n_embd // 2}"):
        head.batch.take_rows(0, narrow, 0, 1)


@pytest.mark.parametrize(("at", "count"), [(-1, 1), (0, 3), (2, 1), (1, 2), (1, -2)])
def test_embeddings_go_only_to_rows_that_the_batch_has(contexts, at, count):
    engine, target, head = contexts
    feed(engine, target, head, PROMPTS[:1])
    rows = RowBuffer(4, target.n_embd)
    head.batch.clear()
    head.batch.extend([1, 2], 0, 0)
    message = f"embeddings for rows {at} … {at + count - 1} of a batch that has 2"
    with pytest.raises(EngineError, match=message):
        head.batch.take_rows(at, rows, 0, count)
    with pytest.raises(EngineError, match=message):
        head.batch.take_hidden(at, target, 0, count)


def test_time_inside_and_decodes_are_counted(contexts):
    engine, target, head = contexts
    rows, _ = feed(engine, target, head, PROMPTS[:1])
    before = head.engine_ns
    head.chain(rows, [3])
    assert head.engine_ns > before
    assert engine.busy_ns() >= target.engine_ns + head.engine_ns
