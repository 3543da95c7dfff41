"""The suffix drafter: the automaton against brute force, and what a proposal costs."""

import random
from time import perf_counter, process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from outrider import Request
from outrider.testing import decode_all, emitted, plain_tokens
from outrider_suffix.automaton import SuffixAutomaton

EVERYONE = 10**9
"""All suffixes vote: counts are exact."""


def followers(text, context):
    """The tokens that followed each occurrence of a context, in order."""
    n = len(context)
    return [text[i + n] for i in range(len(text) - n) if text[i : i + n] == context]


def longest_repeated(text):
    """The longest suffix of the text that occurred before."""
    for n in range(len(text) - 1, 0, -1):
        if followers(text, text[-n:]):
            return text[-n:]
    return []


def brute_force(text, limit, min_match, min_share=0.0):
    """What the docstring of `continuation` says, literally."""
    context = longest_repeated(text)
    tokens = []
    while len(tokens) < limit:
        followed = followers(text, context)
        while context and not followed:
            context = context[1:]
            followed = followers(text, context)
        if len(context) < max(1, min_match):
            break
        latest = {token: i for i, token in enumerate(followed)}
        token = max(latest, key=lambda t: (followed.count(t), latest[t]))
        if followed.count(token) < min_share * len(followed):
            break
        tokens.append(token)
        context = [*context, token]
    return tokens


texts = st.integers(1, 4).flatmap(lambda n: st.lists(st.integers(0, n), max_size=60))


@given(texts, st.integers(1, 4), st.integers(1, 9), st.sampled_from([0.0, 0.4, 0.6, 1.0]))
def test_it_proposes_what_most_often_followed_the_longest_repeated_context(
    text, min_match, limit, min_share
):
    automaton = SuffixAutomaton(min_match, voters=EVERYONE)
    automaton.extend(text)
    proposed = automaton.continuation(limit, min_share)
    assert proposed == brute_force(text, limit, min_match, min_share)
    assert automaton.match_length == len(longest_repeated(text))


@given(texts, st.integers(1, 3))
def test_growing_token_by_token_is_the_same_as_at_once(text, min_match):
    whole, grown = SuffixAutomaton(min_match), SuffixAutomaton(min_match)
    whole.extend(text)
    for token in text:
        grown.extend([token])
    assert grown.continuation(8) == whole.continuation(8)
    assert grown.match_length == whole.match_length
    assert len(grown) == len(whole) == len(text)


@given(texts)
def test_with_few_voters_the_first_token_still_followed_the_longest_context(text):
    automaton = SuffixAutomaton(1)
    automaton.extend(text)
    proposed = automaton.continuation(1)
    context = longest_repeated(text)
    assert bool(proposed) == bool(context)
    if proposed:
        assert proposed[0] in followers(text, context)


@given(texts)
def test_an_automaton_has_fewer_than_two_states_a_token(text):
    automaton = SuffixAutomaton(1)
    automaton.extend(text)
    assert len(automaton._link) <= max(2, 2 * len(text))


def test_the_more_frequent_continuation_wins_over_the_latest():
    a, b, c, x, y = range(5)
    text = [a, b, c, x, 9, a, b, c, x, 8, a, b, c, y, 7, a, b, c]
    automaton = SuffixAutomaton(3)
    automaton.extend(text)
    assert automaton.continuation(1) == [x]
    assert automaton.continuation(1, min_share=0.6) == [x]
    assert automaton.continuation(1, min_share=0.7) == []


def test_of_equally_frequent_continuations_the_latest_wins():
    automaton = SuffixAutomaton(2)
    automaton.extend([1, 2, 5, 1, 2, 6, 1, 2])
    assert automaton.continuation(1) == [6]


def test_a_repetition_goes_on_beyond_the_end_of_the_text():
    automaton = SuffixAutomaton(2)
    automaton.extend([1, 2, 3] * 3)
    assert automaton.continuation(7) == [1, 2, 3, 1, 2, 3, 1]


def test_short_matches_propose_nothing():
    automaton = SuffixAutomaton(4)
    automaton.extend([1, 2, 3, 9, 1, 2, 3])
    assert automaton.match_length == 3
    assert automaton.continuation(5) == []


def test_it_knows_whether_it_holds_a_prefix():
    automaton = SuffixAutomaton(1)
    automaton.extend([1, 2])
    assert automaton.is_prefix_of([1, 2])
    assert automaton.is_prefix_of((1, 2, 3))
    assert not automaton.is_prefix_of([1])
    assert not automaton.is_prefix_of([1, 3])


# --- cost ---


def long_texts():
    """100,000 tokens each: like code, without repeats, periodic, and all the same."""
    draw = random.Random(0)
    lines = [[draw.randrange(3000) for _ in range(draw.randint(2, 14))] for _ in range(4000)]
    code = [token for _ in range(14_000) for token in draw.choice(lines)]
    period = [draw.randrange(5000) for _ in range(3000)]
    return {
        "code": code[:100_000],
        "random": [draw.randrange(150_000) for _ in range(100_000)],
        "periodic": (period * 40)[:100_000],
        "constant": [7] * 100_000,
        # one context, a great many continuations
        "fan": [t for i in range(16_668) for t in (10 + i, 1, 2, 3, 4, 5)][-100_000:],
    }


@pytest.mark.parametrize("kind", ["code", "random", "periodic", "constant", "fan"])
def test_a_proposal_after_100000_tokens_takes_less_than_100_microseconds(kind):
    text = long_texts()[kind]
    assert len(text) == 100_000
    automaton = SuffixAutomaton(4)
    start = process_time()
    automaton.extend(text)
    assert process_time() - start < 1.0, "indexing takes well under a second of processor time"
    times = []
    for token in text[: 3 * 16]:
        begin = perf_counter()
        automaton.continuation(16)
        times.append(perf_counter() - begin)
        automaton.extend([token])
    # the median: a loaded machine may take the processor away in between
    assert sorted(times)[len(times) // 2] < 100e-6
    if kind in ("periodic", "constant", "fan"):
        other = SuffixAutomaton(4)
        other.extend(text)
        assert len(other.continuation(16)) == 16


# --- as a drafter ---


def test_a_text_without_repeats_and_then_with_many(scripted_pipeline):
    """Empty drafts and full ones in one run; the output is plain decoding's throughout."""
    script = [f" {i}" for i in range(40)] + [" the rider runs ahead"] * 12
    pipeline = scripted_pipeline(
        {
            "engine": {"script": "".join(script)},
            "drafter": {"use": "suffix", "min_match": 3},
            "draft_length": {"use": "fixed", "k": 7},
        }
    )
    result = pipeline.generate("<|go|>", max_tokens=300)
    assert result.text == "".join(script)
    lengths = result.stats["draft_lengths"]
    assert lengths["0"] > 20
    assert lengths["7"] > 3
    assert result.stats["drafters"]["suffix"]["accepted"] > 30


def test_long_short_and_shortened_requests_on_one_slot(scripted_pipeline):
    pipeline = scripted_pipeline({"drafter": {"use": "suffix", "min_match": 1}, "cache": "replay"})
    long = list(range(256, 276)) * 4
    for prompt in (long, [300 % 256, 1], long[:30], [*long[:29], 270], [*long, 257]):
        [sequence] = decode_all(pipeline, [Request(prompt=prompt, max_tokens=25)])
        assert emitted(sequence) == plain_tokens(pipeline, prompt, 25)


def test_a_longer_prompt_of_the_same_conversation_is_not_indexed_anew(
    scripted_pipeline, monkeypatch
):
    pipeline = scripted_pipeline({"drafter": "suffix", "cache": "replay"})
    appended = []
    extend = SuffixAutomaton.extend

    def counting(self, tokens):
        tokens = list(tokens)
        appended.append(len(tokens))
        extend(self, tokens)

    monkeypatch.setattr(SuffixAutomaton, "extend", counting)
    [first] = decode_all(pipeline, [Request(prompt=list(range(256, 276)), max_tokens=10)])
    appended.clear()
    decode_all(pipeline, [Request(prompt=[*first.tokens, 260, 261], max_tokens=1)])
    assert sum(appended) == 3
