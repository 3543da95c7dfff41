"""The decode loop on the scripted engine, whose state shows every wrong rollback.

What must come out is computed from the toy model's definition alone (`expected`): no engine, no
loop, no plugin is involved in saying what is right.
"""

import codecs
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from outrider import (
    Draft,
    Drafter,
    DraftLength,
    EngineError,
    FinishReason,
    Observer,
    PluginError,
    Request,
    RequestError,
)
from outrider.testing import decode_all, emitted, opened, plain_tokens
from outrider_greedy import GreedySampler

from tests.core.testing.wrong import Credulous

MAX_DRAFT = 6


class WildDrafter(Drafter):
    """Proposes right tokens, wrong ones, or nothing, as a random generator says."""

    def __init__(self, config, assembly):
        super().__init__(config, assembly)
        self.random = random.Random(0)
        self.committed = {}
        self.observed = {}

    def open(self, runtime):
        self.engine = runtime.engine

    def begin(self, sequence):
        self.committed[id(sequence)] = []
        self.observed[id(sequence)] = list(sequence.tokens[: sequence.slot.length])

    def observe(self, sequence, row, count):
        end = sequence.slot.length
        self.observed[id(sequence)] += sequence.tokens[end - count : end]

    def propose_one(self, sequence, limit):
        draw = self.random
        right = self.engine.continuation(sequence.tokens, draw.randint(0, limit))
        cut = draw.choice([0, 1, len(right), len(right), draw.randint(0, len(right))])
        wrong = [draw.randrange(self.engine.vocabulary.size) for _ in right[cut:]]
        return Draft([*right[:cut], *wrong])

    def commit(self, sequences, steps):
        for sequence, step in zip(sequences, steps, strict=True):
            self.committed[id(sequence)] += step.tokens


class WildLength(DraftLength):
    """Another k for every sequence in every step, 0 included."""

    def __init__(self, config, assembly):
        super().__init__(config, assembly)
        self.random = random.Random(0)

    @property
    def max(self):
        return MAX_DRAFT

    def choose(self, sequences):
        return [self.random.randint(0, MAX_DRAFT) for _ in sequences]


class Watch(Observer):
    """Asserts the loop's invariants after every step."""

    def open(self, runtime):
        self.target = runtime.engine.target
        self.ended = []

    def started(self, sequence):
        self.check(sequence)

    def step(self, sequences, steps):
        for sequence, step in zip(sequences, steps, strict=True):
            assert list(step.tokens) == sequence.tokens[len(sequence.tokens) - len(step.tokens) :]
            assert 1 <= len(step.tokens) <= step.accepted + 1 <= len(step.draft) + 1
            self.check(sequence)

    def check(self, sequence):
        slot = sequence.slot
        assert slot.length == len(sequence.tokens) - 1
        assert self.target.length(slot.id) == slot.length
        assert self.target.tokens(slot.id) == sequence.tokens[:-1]
        assert self.target.exact(slot.id), "the memory is not what a fresh prefill would leave"

    def finished(self, sequence):
        assert sequence.finish is not None
        self.ended.append(sequence)


class CountingSampler(GreedySampler):
    """Greedy, and remembers what was committed to it."""

    def __init__(self, config, assembly):
        super().__init__(config, assembly)
        self.committed = {}

    def commit(self, sequences, steps):
        for sequence, step in zip(sequences, steps, strict=True):
            self.committed.setdefault(id(sequence), []).extend(step.tokens)


OFFERS = {
    "drafter": {"wild": WildDrafter},
    "draft_length": {"wild": WildLength},
    "sampler": {"counting": CountingSampler},
    "observer": {"watch": Watch},
}
WILD = {"drafter": "wild", "draft_length": "wild", "sampler": "counting", "observers": ["watch"]}


def expected(pipeline, request):
    """(tokens, text) of a request, from the toy model and the rules for stopping."""
    n_ctx = pipeline.engine.target.n_ctx
    count = request.max_tokens or n_ctx
    tokens = plain_tokens(pipeline, request.prompt, count, ignore_eog=request.ignore_eog)
    vocabulary = pipeline.engine.vocabulary
    pieces = b""
    for i, token in enumerate(tokens):
        if not vocabulary.is_control(token):
            pieces += vocabulary.piece(token)
        elif token in vocabulary.eog and not request.ignore_eog:
            break
        # what an unfinished character will become is not certain yet
        certain = _certain(pieces)
        ends = [e for e in (certain.find(s) for s in request.stop) if e >= 0]
        if ends:
            return tokens[: i + 1], certain[: min(ends)]
    return tokens, pieces.decode(errors="replace")


def _certain(data):
    return codecs.getincrementaldecoder("utf-8")(errors="replace").decode(data)


requests = st.builds(
    Request,
    prompt=st.lists(st.integers(256, 279), min_size=1, max_size=20),
    max_tokens=st.none() | st.integers(1, 40),
    stop=st.lists(
        st.sampled_from([" rider", "d\n", " 馬", ".", "🐎 ", " runs ahead", "é", "x"]), max_size=2
    ),
    ignore_eog=st.booleans(),
)

engines = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 50),
        "context": st.integers(22, 80),
        "eog": st.sampled_from([0.0, 0.02, 0.1]),
        "predictable": st.sampled_from([0.3, 0.8]),
        "batch": st.sampled_from([28, 64]),
    }
)
memories = st.sampled_from(
    [{}, {"recurrent": False}, {"ring": False}]  # ring, truncation, checkpoint
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    engine=engines,
    memory=memories,
    asked=st.lists(requests, min_size=1, max_size=4),
    slots=st.integers(1, 4),
    seed=st.integers(0, 2**32),
)
def test_whatever_is_drafted_every_sequence_equals_its_lone_plain_run(
    engine, memory, asked, slots, seed
):
    keys = {**WILD, "engine": {**engine, **memory}, "max_sequences": slots}
    with opened(keys, offers=OFFERS) as pipeline:
        pipeline.drafter.random.seed(seed)
        pipeline.draft_length.random.seed(seed + 1)
        sequences = decode_all(pipeline, asked)
        for sequence, request in zip(sequences, asked, strict=True):
            tokens, text = expected(pipeline, request)
            assert emitted(sequence) == tokens
            assert sequence.stream.text == text
            assert pipeline.drafter.committed[id(sequence)] == tokens
            assert pipeline.sampler.committed[id(sequence)] == tokens
            assert pipeline.drafter.observed[id(sequence)] == list(request.prompt)
        assert len(pipeline.observers[0].ended) == len(asked)
        assert all(slot.owner is None for slot in pipeline.decoder.slots)


@settings(max_examples=40, deadline=None)
@given(engine=engines, seed=st.integers(0, 2**32), at=st.integers(0, 12))
def test_a_cancelled_sequence_ends_at_the_next_step_and_disturbs_nobody(engine, seed, at):
    keys = {**WILD, "engine": {**engine, "eog": 0.0}, "max_sequences": 2}
    with opened(keys, offers=OFFERS) as pipeline:
        pipeline.drafter.random.seed(seed)
        asked = [Request(prompt=(256, 260)), Request(prompt=(257, 270))]
        cancelled, other = (pipeline.start(r) for r in asked)
        for _ in range(at):
            if not (cancelled.done or other.done):
                pipeline.step([cancelled, other])
        done_before = cancelled.done
        cancelled.cancel()
        if not (cancelled.done or other.done):
            pipeline.step([cancelled, other])
            assert cancelled.finish.reason is FinishReason.CANCELLED
        elif not done_before:
            pipeline.step([cancelled])
        assert cancelled.done
        while not other.done:
            pipeline.step([other])
        assert emitted(other) == expected(pipeline, asked[1])[0]
        whole = expected(pipeline, asked[0])[0]
        assert emitted(cancelled) == whole[: len(emitted(cancelled))]
        # the slots are good for another request
        again = decode_all(pipeline, asked)
        assert [emitted(s) for s in again] == [expected(pipeline, r)[0] for r in asked]


def test_abandoning_between_steps_frees_the_slot(scripted_pipeline):
    pipeline = scripted_pipeline({**WILD}, offers=OFFERS)
    request = Request(prompt=(256, 257))
    for _ in range(3):
        sequence = pipeline.start(request)
        pipeline.step([sequence])
        pipeline.decoder.abandon(sequence)
        assert sequence.finish.reason is FinishReason.CANCELLED
        assert sequence.slot.owner is None
    [whole] = decode_all(pipeline, [request])
    assert emitted(whole) == expected(pipeline, request)[0]


# --- where a sequence ends ---


@pytest.mark.parametrize("max_tokens", range(1, 16))
def test_max_tokens_is_met_exactly_at_every_place_in_a_block(scripted_pipeline, max_tokens):
    pipeline = scripted_pipeline({"drafter": "echo", "draft_length": {"use": "fixed", "k": 7}})
    result = pipeline.generate("The horse", max_tokens=max_tokens)
    assert len(result.token_ids) == max_tokens
    assert result.finish_reason == "length"
    assert result.finish_detail == f"max_tokens ({max_tokens}) reached"


@pytest.mark.parametrize("room", range(1, 16))
def test_a_full_context_is_a_finish_reason_at_every_place_in_a_block(scripted_pipeline, room):
    pipeline = scripted_pipeline(
        {
            "engine": {"context": 20 + room},
            "drafter": "echo",
            "draft_length": {"use": "fixed", "k": 7},
            "observers": ["watch"],
        },
        offers={"observer": {"watch": Watch}},
    )
    result = pipeline.generate(list(range(256, 276)))
    assert len(result.token_ids) == room
    assert result.finish_reason == "length"
    assert result.finish_detail == f"the context of {20 + room} tokens is full"


@pytest.mark.parametrize("before", range(1, 12))
def test_an_end_of_generation_token_ends_at_every_place_in_a_block(scripted_pipeline, before):
    pipeline = scripted_pipeline(
        {
            "engine": {"script": " rider" * before},
            "drafter": "echo",
            "draft_length": {"use": "fixed", "k": 7},
        }
    )
    result = pipeline.generate("<|go|>", max_tokens=50)
    assert result.text == " rider" * before
    assert result.token_ids[-1] in pipeline.engine.vocabulary.eog
    assert len(result.token_ids) == before + 1
    assert result.finish_reason == "stop"


@pytest.mark.parametrize("before", range(10))
@pytest.mark.parametrize("stop", ["a horse", "horse ahead", " horse", "e h"])
def test_a_stop_string_over_several_tokens_ends_at_every_place_in_a_block(
    scripted_pipeline, before, stop
):
    script = " rider" * before + " a horse ahead of the night"
    pipeline = scripted_pipeline(
        {
            "engine": {"script": script},
            "drafter": "echo",
            "draft_length": {"use": "fixed", "k": 7},
            "observers": ["watch"],
        },
        offers={"observer": {"watch": Watch}},
    )
    result = pipeline.generate("<|go|>", max_tokens=80, stop=[stop])
    expected_text = script[: script.find(stop)] if stop in script else script
    assert result.text == expected_text
    assert result.finish_reason == "stop"


def test_nothing_is_emitted_after_a_stop_string(scripted_pipeline):
    """Token ids end with the token that completed the stop string, drafts behind it are gone."""
    pipeline = scripted_pipeline(
        {
            "engine": {"script": " a rider ahead of the night and the rain"},
            "drafter": "echo",
            "draft_length": {"use": "fixed", "k": 7},
        }
    )
    result = pipeline.generate("<|go|>", max_tokens=80, stop=["ahead"])
    vocabulary = pipeline.engine.vocabulary
    assert vocabulary.detokenize(result.token_ids).decode() == " a rider ahead"
    assert result.text == " a rider "


# --- bad requests, bad components ---


def test_an_empty_prompt_is_refused(scripted):
    with pytest.raises(RequestError, match="the prompt is empty"):
        scripted.generate([])


def test_a_prompt_that_fills_the_context_is_refused(scripted_pipeline):
    pipeline = scripted_pipeline({"engine": {"context": 16}})
    with pytest.raises(RequestError, match=r"16 tokens.*context of 16.*engine\.context"):
        pipeline.generate(list(range(16)))
    assert pipeline.generate(list(range(15))).finish_reason == "length"


@pytest.mark.parametrize("max_tokens", [0, -3])
def test_max_tokens_must_be_positive(scripted, max_tokens):
    with pytest.raises(RequestError, match="expected at least 1"):
        scripted.generate([1], max_tokens=max_tokens)


def test_more_requests_than_slots_are_refused(scripted_pipeline):
    pipeline = scripted_pipeline({"max_sequences": 2})
    for _ in range(2):
        pipeline.start(Request(prompt=(1, 2)))
    with pytest.raises(RequestError, match="all 2 sequences are busy"):
        pipeline.start(Request(prompt=(1, 2)))


def test_a_drafter_that_proposes_too_much_is_named(scripted_pipeline):
    class Greedy(Drafter):
        def propose_one(self, sequence, limit):
            return Draft([1] * (limit + 1))

    pipeline = scripted_pipeline({"drafter": "eager"}, offers={"drafter": {"eager": Greedy}})
    with pytest.raises(PluginError, match="drafter 'eager' proposed 4 tokens; at most 3"):
        pipeline.generate([1, 2], max_tokens=20)


class FailingSampler(GreedySampler):
    """Fails once, in the middle of a step, after the verify batch was decoded."""

    countdown = 0

    def accept(self, sequences, drafts, rows):
        self.countdown -= 1
        if self.countdown == 0:
            raise EngineError("a row of NaN")
        return super().accept(sequences, drafts, rows)


def test_a_step_that_fails_ends_its_sequences_and_leaves_clean_slots(scripted_pipeline):
    pipeline = scripted_pipeline(
        {"drafter": "echo", "sampler": "failing", "max_sequences": 2},
        offers={"sampler": {"failing": FailingSampler}},
    )
    asked = [Request(prompt=(256, 260), max_tokens=20), Request(prompt=(257,), max_tokens=20)]
    sequences = [pipeline.start(r) for r in asked]
    pipeline.step(sequences)
    pipeline.sampler.countdown = 1
    with pytest.raises(EngineError, match="a row of NaN"):
        pipeline.step(sequences)
    for sequence in sequences:
        assert sequence.finish.reason is FinishReason.ERROR
        assert sequence.slot.owner is None
        assert pipeline.engine.target.length(sequence.slot.id) == 0
    again = decode_all(pipeline, asked)
    assert [emitted(s) for s in again] == [expected(pipeline, r)[0] for r in asked]


def test_a_prefill_that_fails_leaves_a_clean_slot(scripted_pipeline):
    pipeline = scripted_pipeline(
        {"sampler": "failing"}, offers={"sampler": {"failing": FailingSampler}}
    )
    pipeline.sampler.countdown = 1
    with pytest.raises(EngineError):
        pipeline.start(Request(prompt=(256, 260)))
    assert pipeline.decoder.slots[0].owner is None
    assert pipeline.engine.target.length(0) == 0
    request = Request(prompt=(256, 260), max_tokens=9)
    assert emitted(decode_all(pipeline, [request])[0]) == expected(pipeline, request)[0]


# --- broken parts show ---


def test_a_sampler_that_accepts_unchecked_drafts_shows(scripted_pipeline):
    keys = {"drafter": {"use": "echo", "accuracy": [0.5]}, "sampler": "credulous"}
    pipeline = scripted_pipeline(keys, offers={"sampler": {"credulous": Credulous}})
    result = pipeline.generate("The night", max_tokens=40)
    assert list(result.token_ids) != plain_tokens(pipeline, result.prompt_token_ids, 40)


@pytest.mark.parametrize("wrong", [-1, 1])
def test_a_rollback_that_is_off_by_one_shows(scripted_pipeline, monkeypatch, wrong):
    from outrider_rollback.ring import SnapshotRing

    def rewind(self, sequences, counts):
        for sequence, count in zip(sequences, counts, strict=True):
            if count:
                slot = sequence.slot
                self._target.truncate(slot.id, slot.length - count + wrong)
                slot.cut(count)

    monkeypatch.setattr(SnapshotRing, "rewind", rewind)
    pipeline = scripted_pipeline({"drafter": {"use": "echo", "accuracy": [0.5]}})
    with pytest.raises(EngineError, match="rows at positions"):
        pipeline.generate("The night", max_tokens=40)


def test_a_rollback_into_the_rows_of_an_earlier_batch_shows(scripted_pipeline):
    """llama.cpp accepts it (and so does the scripted engine), and the state is stale."""
    pipeline = scripted_pipeline({"draft_length": {"use": "fixed", "k": 3}, "drafter": "echo"})
    target = pipeline.engine.target
    sequence = pipeline.start(Request(prompt=(256, 257, 258)))
    pipeline.step([sequence])
    target.batch.clear()
    target.batch.extend([sequence.anchor], sequence.slot.length, 0)
    target.decode()
    assert target.truncate(0, target.length(0) - 2)
    assert not target.exact(0)
