"""What a plugin does wrong is said where it comes in, with its name."""

import os
import threading

import numpy as np
import pytest
from outrider import (
    Accepted,
    ConfigError,
    Constraint,
    Distribution,
    Draft,
    Drafter,
    Needs,
    Observer,
    OutriderError,
    Pipeline,
    PluginError,
    PrefixCache,
    Request,
    RequestError,
    Reuse,
)
from outrider.constraints import Together
from outrider.testing import decode_all, emitted
from outrider_greedy import GreedySampler

PROMPT = (256, 260, 258)


def drafter(propose):
    """A drafter class whose list form is `propose(sequences, limits)`."""

    class Wrong(Drafter):
        def propose(self, sequences, limits):
            return propose(sequences, limits)

    return Wrong


def sampler(change):
    """A greedy sampler whose answers go through `change(answer, sequence, draft)`."""

    class Wrong(GreedySampler):
        def accept(self, sequences, drafts, rows):
            right = super().accept(sequences, drafts, rows)
            return [change(a, s, d) for a, s, d in zip(right, sequences, drafts, strict=True)]

    return Wrong


def _longer(sequences, limits):
    for sequence in sequences:
        sequence.tokens.append(5)
    return [Draft([1]) for _ in sequences]


def _other_anchor(sequences, limits):
    for sequence in sequences:
        sequence.tokens[-1] = 7
    return [Draft([1]) for _ in sequences]


HALF = Distribution(np.array([1], np.int32), np.array([1.0]))


@pytest.mark.parametrize(
    ("propose", "message"),
    [
        (lambda s, k: [Draft([-1])], "drafter 'wrong' gave token -1; the vocabulary has"),
        (lambda s, k: [Draft([10**7])], "drafter 'wrong' gave token 10000000"),
        (lambda s, k: [Draft([1.5])], r"drafter 'wrong' gave 1\.5 for a token id"),
        (lambda s, k: [Draft(["a"])], "drafter 'wrong' gave 'a' for a token id"),
        (lambda s, k: [Draft([-1], source="inner")], "drafter 'inner' gave token -1"),
        (lambda s, k: [], "'wrong': `propose` returned list of 0; expected a list with one Draft"),
        (lambda s, k: None, "'wrong': `propose` returned None"),
        (lambda s, k: [[1]], "'wrong': `propose` returned list of 1 for a sequence"),
        (lambda s, k: [Draft([1, 2], [HALF])], "2 tokens with 1 distributions"),
        (_longer, "'wrong' changed `sequence.tokens` in `propose`"),
        (_other_anchor, "'wrong' changed `sequence.tokens` in `propose`"),
    ],
)
def test_a_wrong_draft_is_an_error_that_names_the_drafter(scripted_pipeline, propose, message):
    pipeline = scripted_pipeline(
        {"drafter": "wrong"}, offers={"drafter": {"wrong": drafter(propose)}}
    )
    with pytest.raises(PluginError, match=message):
        pipeline.generate(list(PROMPT), max_tokens=20)
    assert pipeline.decoder.slots[0].owner is None


def test_numpy_integers_are_token_ids(scripted_pipeline):
    def propose(sequences, limits):
        return [Draft(list(np.full(k, 3, np.int32))) for k in limits]

    pipeline = scripted_pipeline({"drafter": "np"}, offers={"drafter": {"np": drafter(propose)}})
    plain = scripted_pipeline()
    found = [p.generate(list(PROMPT), max_tokens=20).token_ids for p in (pipeline, plain)]
    assert found[0] == found[1]


def _appended(answer, sequence, draft):
    sequence.tokens.append(1)
    return answer


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, s, d: Accepted(-1, a.token), "sampler 'wrong' accepted -1 drafts of"),
        (lambda a, s, d: Accepted(len(d) + 1, a.token), "sampler 'wrong' accepted . drafts of"),
        (lambda a, s, d: Accepted(0, -1), "sampler 'wrong' gave token -1"),
        (lambda a, s, d: (0, 1), "'wrong': `accept` returned tuple of 2 for a sequence"),
        (_appended, "'wrong' changed `sequence.tokens` in `accept`"),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_wrong_answer_is_an_error_that_names_the_sampler(
    scripted_pipeline, change, message, first
):
    def late(answer, sequence, draft):
        return change(answer, sequence, draft) if first or len(sequence.tokens) > 4 else answer

    pipeline = scripted_pipeline(
        {"drafter": "echo", "sampler": "wrong"}, offers={"sampler": {"wrong": sampler(late)}}
    )
    with pytest.raises(PluginError, match=message):
        pipeline.generate(list(PROMPT), max_tokens=20)


class Odd(Constraint):
    """Odd ids only."""

    def allows(self, prefix, token):
        return token % 2 == 1

    def legal_prefix(self, tokens):
        return next((i for i, token in enumerate(tokens) if token % 2 == 0), len(tokens))

    def forced(self, prefix):
        return ()

    def mask(self, prefix):
        return np.full(100, 0xAAAAAAAA, np.uint32)

    def commit(self, tokens):
        assert all(token % 2 for token in tokens)


@pytest.mark.parametrize("drafter", ["none", "echo"])
def test_a_sampler_that_ignores_a_constraint_is_named(scripted_pipeline, drafter):
    class Deaf(GreedySampler):
        def accept(self, sequences, drafts, rows):
            return [Accepted(*self._target.match(r, (), 0)) for r in rows]

    keys = {"drafter": drafter, "sampler": "deaf"}
    pipeline = scripted_pipeline(keys, offers={"sampler": {"deaf": Deaf}})
    request = Request(prompt=PROMPT, max_tokens=40, constraint=Odd())
    with pytest.raises(PluginError, match=r"sampler 'deaf' chose token .*constraint forbids"):
        pipeline.run(request)
    right = scripted_pipeline({"drafter": drafter})
    assert all(token % 2 for token in right.run(request).token_ids)


def cache(prepare):
    class Wrong(PrefixCache):
        def prepare(self, request, slots, states):
            return prepare(request, slots, states)

    return Wrong


def _another_prompt(request, slots, states):
    return Reuse(slots[0], slots[0].length)


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda r, s, st: 3, "cache 'wrong': `prepare` returned 3; expected a Reuse"),
        (lambda r, s, st: Reuse(s[0], s[0].length + 1), "reports 1 reused tokens, but the slot"),
        (_another_prompt, "gave a slot with . tokens that are not the prompt's first"),
    ],
)
def test_a_cache_that_gives_a_wrong_slot_is_named(scripted_pipeline, prepare, message):
    pipeline = scripted_pipeline({"cache": "wrong"}, offers={"cache": {"wrong": cache(prepare)}})

    def two_prompts():
        pipeline.generate(list(PROMPT), max_tokens=4)
        pipeline.generate([270, 271, 272, 273, 274, 275, 276, 277, 278], max_tokens=4)

    with pytest.raises(PluginError, match=message):
        two_prompts()
    assert pipeline.decoder.slots[0].owner is None


def test_a_cache_may_not_keep_the_whole_prompt(scripted_pipeline):
    pipeline = scripted_pipeline(
        {"cache": "wrong"}, offers={"cache": {"wrong": cache(_another_prompt)}}
    )
    first = pipeline.generate(list(PROMPT), max_tokens=4)
    held = [*PROMPT, *first.token_ids][: pipeline.decoder.slots[0].length]
    with pytest.raises(PluginError, match=r"kept all . tokens of the prompt"):
        pipeline.generate(held, max_tokens=4)


def test_a_sequence_that_has_ended_cannot_be_stepped_into_its_slots_next_owner(scripted_pipeline):
    pipeline = scripted_pipeline()
    request = Request(prompt=PROMPT, max_tokens=6)
    alone = emitted(decode_all(pipeline, [request])[0])
    [ended] = decode_all(pipeline, [Request(prompt=(270, 271), max_tokens=3)])
    second = pipeline.start(request)
    with pytest.raises(RequestError, match="has ended cannot be stepped"):
        pipeline.step([ended])
    with pytest.raises(RequestError, match="has ended cannot be stepped"):
        pipeline.step([second, ended])
    while not second.done:
        pipeline.step([second])
    assert emitted(second) == alone
    assert ended.generated == 3


def test_a_sequence_of_another_pipeline_or_named_twice_is_refused(scripted_pipeline):
    one, other = scripted_pipeline({"max_sequences": 2}), scripted_pipeline()
    sequence = one.start(Request(prompt=PROMPT, max_tokens=6))
    with pytest.raises(RequestError, match="belongs to another pipeline"):
        other.step([sequence])
    with pytest.raises(RequestError, match="twice"):
        one.step([sequence, sequence])
    one.step([sequence])
    assert sequence.generated == 2


def test_a_pipeline_that_is_not_open_says_so(scripted_pipeline):
    pipeline = scripted_pipeline()
    decoder = pipeline.decoder
    sequence = pipeline.start(Request(prompt=PROMPT, max_tokens=6))
    pipeline.close()
    for use in (
        lambda: pipeline.generate("a"),
        lambda: pipeline.tokenize("a"),
        lambda: pipeline.plan(),
        lambda: pipeline.chat([{"role": "user", "content": "a"}]),
        lambda: pipeline.step([sequence]),
    ):
        with pytest.raises(OutriderError, match="the pipeline is not open"):
            use()
    with pytest.raises(OutriderError, match="the pipeline was closed"):
        decoder.start(Request(prompt=PROMPT))


def test_a_pipeline_opens_once(scripted_pipeline):
    pipeline = scripted_pipeline()
    with pytest.raises(OutriderError, match="open already"):
        pipeline.open()


def test_two_threads_are_told_apart_instead_of_crashing(scripted_pipeline):
    inside, leave = threading.Event(), threading.Event()

    class Waiting(GreedySampler):
        def accept(self, sequences, drafts, rows):
            inside.set()
            assert leave.wait(20)
            return super().accept(sequences, drafts, rows)

    pipeline: Pipeline = scripted_pipeline(
        {"sampler": "waiting", "max_sequences": 2}, offers={"sampler": {"waiting": Waiting}}
    )
    thread = threading.Thread(target=pipeline.generate, args=([1, 2],), kwargs={"max_tokens": 2})
    thread.start()
    assert inside.wait(20)
    with pytest.raises(RequestError, match="another thread is decoding"):
        pipeline.generate([3, 4], max_tokens=2)
    leave.set()
    thread.join()
    assert len(pipeline.generate([3, 4], max_tokens=2).token_ids) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_is_told_to_open_its_own(scripted_pipeline):
    pipeline = scripted_pipeline()
    child = os.fork()
    if child == 0:
        try:
            pipeline.generate([1, 2], max_tokens=2)
        except OutriderError as error:
            os._exit(7 if "forked" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"prompt": [1.5]}, "list of token ids"),
        ({"prompt": ["a"]}, "list of token ids"),
        ({"prompt": None}, "list of token ids"),
        ({"prompt": [-1]}, "the prompt names token -1; the vocabulary has"),
        ({"prompt": [2**31]}, "the prompt names token 2147483648"),
        ({"max_tokens": "5"}, "max_tokens is '5'; expected a whole number"),
        ({"max_tokens": float("nan")}, "max_tokens is nan"),
        ({"max_tokens": 1.5}, "max_tokens is 1.5"),
        ({"stop": 5}, "stop holds 5; expected a text"),
        ({"stop": [None]}, "stop holds None"),
        ({"stop": b"x"}, "stop holds b'x'"),
    ],
)
def test_a_request_of_wrong_types_is_refused(scripted, fields, message):
    with pytest.raises(RequestError, match=message):
        scripted.run(Request(**{"prompt": PROMPT, "max_tokens": 4, **fields}))


def test_a_snapshot_that_is_no_bytes_names_the_drafter(scripted_pipeline):
    class Wrong(Drafter):
        def propose_one(self, sequence, limit):
            return Draft()

        def snapshot(self, slot):
            return None

    pipeline = scripted_pipeline({"drafter": "wrong"}, offers={"drafter": {"wrong": Wrong}})
    pipeline.generate(list(PROMPT), max_tokens=4)
    with pytest.raises(PluginError, match="drafter 'wrong': `snapshot` returned NoneType"):
        pipeline.decoder.states.snapshot(pipeline.decoder.slots[0])


@pytest.mark.parametrize("layer", [99, -1])
def test_a_layer_that_the_model_does_not_have_is_found_before_loading(scripted_pipeline, layer):
    class Wrong(Drafter):
        needs = Needs(layer_inputs=(layer,))

        def propose_one(self, sequence, limit):
            return Draft()

    with pytest.raises(ConfigError, match=f"needs the inputs of layer {layer}; the model has"):
        scripted_pipeline({"drafter": "wrong"}, offers={"drafter": {"wrong": Wrong}})


def test_an_observer_that_fails_at_the_start_leaves_the_slot_free(scripted_pipeline):
    class Full(Observer):
        full = True

        def started(self, sequence):
            if self.full:
                raise OSError("disk full")

    pipeline = scripted_pipeline({"observers": ["full"]}, offers={"observer": {"full": Full}})
    with pytest.raises(OSError, match="disk full"):
        pipeline.generate(list(PROMPT), max_tokens=3)
    Full.full = False
    assert len(pipeline.generate(list(PROMPT), max_tokens=3).token_ids) == 3


def test_constraints_together_pass_every_question_on():
    public = {name for name in vars(Constraint) if not name.startswith("_")}
    assert public <= vars(Together).keys()


def test_an_option_that_the_sampler_does_not_have_costs_no_conversation(scripted_pipeline):
    pipeline = scripted_pipeline({"cache": {"use": "snapshots", "min_tokens": 1}})
    first = pipeline.generate(list(PROMPT), max_tokens=8)
    slot = pipeline.decoder.slots[0]
    live, numbers = slot.length, dict(pipeline.cache.statistics())
    with pytest.raises(RequestError, match="nonsense"):
        pipeline.generate([270, 271], nonsense=1)
    assert (slot.length, dict(pipeline.cache.statistics())) == (live, numbers)
    again = pipeline.start(Request(prompt=[*PROMPT, *first.token_ids, 5], max_tokens=2))
    assert again.cached >= live - 1


def test_a_sequence_that_is_dropped_while_another_thread_decodes_is_only_cancelled(
    scripted_pipeline,
):
    pipeline = scripted_pipeline({"max_sequences": 2})
    left = pipeline.start(Request(prompt=PROMPT, max_tokens=20))
    with pipeline.decoder._turn:
        pipeline.decoder.abandon(left)
        assert left.slot.owner is left
    pipeline.step([left])
    assert left.done
    assert left.slot.owner is None


def test_a_step_of_nothing_does_nothing(scripted):
    assert scripted.decoder.step([]) == []


def test_a_component_that_fails_to_close_keeps_nothing_else_open(scripted_pipeline):
    class Stuck(Observer):
        def close(self):
            raise OSError("disk full")

    pipeline = scripted_pipeline({"observers": ["stuck"]}, offers={"observer": {"stuck": Stuck}})
    closed = []
    pipeline.engine.close = lambda: closed.append("engine")
    with pytest.raises(OSError, match="disk full"):
        pipeline.close()
    assert closed == ["engine"]
    Stuck.close = Observer.close


def test_a_component_that_is_not_ready_closes_the_pipeline(scripted_pipeline):
    closed = []

    class Unready(Observer):
        def ready(self, pipeline):
            raise OSError("disk full")

        def close(self):
            closed.append(self.name)

    with pytest.raises(OSError, match="disk full"):
        scripted_pipeline({"observers": ["unready"]}, offers={"observer": {"unready": Unready}})
    assert closed


def test_what_fails_at_the_end_of_a_sequence_ends_no_other(scripted_pipeline):
    told = []

    class Full(Observer):
        def finished(self, sequence):
            told.append(sequence.prompt_length)
            if sequence.prompt_length == 2:
                raise OSError("disk full")

    class Last(Observer):
        def finished(self, sequence):
            told.append(-sequence.prompt_length)

    pipeline: Pipeline = scripted_pipeline(
        {"max_sequences": 3, "observers": ["full", "last"]},
        offers={"observer": {"full": Full, "last": Last}},
    )
    lengths = {2: 3, 3: 3, 4: 9}
    two, three, four = (
        pipeline.start(Request(prompt=[260] * n, max_tokens=most, ignore_eog=True))
        for n, most in lengths.items()
    )
    pipeline.step([two, three, four])
    with pytest.raises(OSError, match="disk full"):
        pipeline.step([two, three, four])
    assert told == [2, -2, 3, -3]
    assert three.done
    assert not four.done
    while not four.done:
        pipeline.step([four])
    assert four.generated == 9
    assert not [slot for slot in pipeline.decoder.slots if slot.owner is not None]
    assert pipeline.statistics.emitted == sum(lengths.values()) - 3


def test_a_drafter_that_fails_in_the_step_and_at_the_end_keeps_no_slot(scripted_pipeline, caplog):
    ended = []

    class Broken(Drafter):
        broken = True

        def propose_one(self, sequence, limit):
            if self.broken:
                raise ValueError("no proposal")
            return Draft()

        def end(self, sequence):
            ended.append(sequence.id)
            if self.broken:
                raise ValueError("no end")

    pipeline: Pipeline = scripted_pipeline(
        {"max_sequences": 2, "drafter": "broken"}, offers={"drafter": {"broken": Broken}}
    )
    both = [pipeline.start(Request(prompt=[260, 261 + i], max_tokens=6)) for i in range(2)]
    with pytest.raises(ValueError, match="no proposal"):
        pipeline.step(both)
    assert [r.getMessage() for r in caplog.records] == [
        f"ending sequence {i} failed as well" for i in range(2)
    ]
    assert "no end" in caplog.text
    assert ended == [0, 1]
    assert all(sequence.done for sequence in both)
    assert not [s for s in pipeline.decoder.slots if s.owner is not None or s.length]
    Broken.broken = False
    assert len(pipeline.generate([260, 261], max_tokens=4).token_ids) == 4


def test_closing_waits_for_the_step_of_another_thread(scripted_pipeline):
    inside, leave, order = threading.Event(), threading.Event(), []

    class Waiting(GreedySampler):
        def accept(self, sequences, drafts, rows):
            inside.set()
            assert leave.wait(20)
            order.append("step")
            return super().accept(sequences, drafts, rows)

        def close(self):
            order.append("close")

    pipeline: Pipeline = scripted_pipeline(
        {"sampler": "waiting"}, offers={"sampler": {"waiting": Waiting}}
    )
    decode = threading.Thread(target=pipeline.generate, args=([1, 2],), kwargs={"max_tokens": 1})
    close = threading.Thread(target=pipeline.close)
    decode.start()
    assert inside.wait(20)
    close.start()
    close.join(0.1)
    assert close.is_alive()
    leave.set()
    close.join(20)
    decode.join(20)
    assert order[:2] == ["step", "close"]


def test_closing_from_inside_a_step_is_refused(scripted_pipeline):
    class Closing(Observer):
        def step(self, sequences, steps):
            here.close()

    here: Pipeline = scripted_pipeline(
        {"observers": ["closing"]}, offers={"observer": {"closing": Closing}}
    )
    with pytest.raises(OutriderError, match="cannot be closed from inside one of its steps"):
        here.generate([1, 2], max_tokens=4)


@pytest.mark.parametrize("kind", ["drafter", "sampler"])
def test_parts_of_a_component_are_told_that_the_pipeline_is_ready(scripted_pipeline, kind):
    ready = []
    base = {"drafter": Drafter, "sampler": GreedySampler}[kind]

    class Mine(base):
        def propose_one(self, sequence, limit):
            return Draft()

        def ready(self, pipeline):
            ready.append(pipeline)

    keys = {
        "drafter": {"drafter": {"use": "cascade", "of": ["mine", "suffix"]}},
        "sampler": {"sampler": {"use": "synthetic", "of": "mine", "rates": [0.5] * 8}},
    }
    pipeline = scripted_pipeline(keys[kind], offers={kind: {"mine": Mine}})
    assert ready == [pipeline]
