"""`adaptive` finds the best length of a scripted model, whatever it costs and however it changes.

The scripted engine counts the costs it was told on a virtual clock, and the echo drafter is right
as often as it is told, so that the best length is known.
"""

from __future__ import annotations

import random
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from outrider import Assembly, Distribution, Draft, Request, Sequence, Slot, Step
from outrider.testing import opened
from outrider_lengths.adaptive import AdaptiveConfig, AdaptiveLength
from outrider_lengths.costs import CostTable
from outrider_lengths.gain import best_length

MOST = 8


def keys(tmp_path, cost_ms, accuracy, **more):
    return {
        "engine": {"cost_ms": list(cost_ms), "context": 4096, "predictable": 0.5},
        "drafter": {"use": "echo", "accuracy": list(accuracy)},
        "draft_length": {"use": "adaptive", "max": MOST, "folder": str(tmp_path)},
        **more,
    }


def rates(cost_ms, accuracy):
    """Expected tokens a ms of every length, from the truth."""
    known = [accuracy[min(i, len(accuracy) - 1)] for i in range(MOST)]
    expected, chance = [1.0], 1.0
    for rate in known:
        chance *= rate
        expected.append(expected[-1] + chance)
    return [e / c for e, c in zip(expected, cost_ms, strict=True)]


def chosen(pipeline, steps, tokens=120):
    """Draft lengths of the second half of so many steps, in requests of so many tokens."""
    lengths: list[int] = []
    prompt = 260
    while len(lengths) < steps:
        prompt += 1
        sequence = pipeline.start(
            Request(prompt=(prompt % 270, 261), max_tokens=tokens, ignore_eog=True)
        )
        while not sequence.done and len(lengths) < steps:
            room = tokens - sequence.generated - 1
            k = len(pipeline.decoder.step([sequence])[0].draft)
            if room >= MOST:
                lengths.append(k)
        pipeline.decoder.abandon(sequence)
    return Counter(lengths[steps // 2 :])


costs = st.lists(st.floats(0.05, 1.5), min_size=MOST, max_size=MOST).map(
    lambda steps: [1.0, *(1.0 + sum(steps[: i + 1]) for i in range(MOST))]
)


@given(
    cost_ms=costs,
    cliff=st.none() | st.tuples(st.integers(2, MOST), st.floats(0.5, 0.95)),
    accuracy=st.lists(st.floats(0.3, 0.98), min_size=1, max_size=MOST).map(
        lambda found: sorted(found, reverse=True)
    ),
)
@settings(
    max_examples=20,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
def test_it_settles_where_the_truth_is_best(tmp_path_factory, cost_ms, cliff, accuracy):
    if cliff is not None:
        at, share = cliff
        cost_ms[at] = cost_ms[at - 1] * share
    true = rates(cost_ms, accuracy)
    with opened(keys(tmp_path_factory.mktemp("costs"), cost_ms, accuracy)) as pipeline:
        counts = chosen(pipeline, 600)
    reached = sum(true[k] * n * cost_ms[k] for k, n in counts.items()) / sum(
        cost_ms[k] * n for k, n in counts.items()
    )
    # what brings within a few per cent is told apart by luck only, and tries cost a little
    assert reached >= 0.94 * max(true), (counts, true)


def test_nine_rows_that_cost_less_than_eight_are_taken(tmp_path):
    """The table that was measured on an H200: a line fitted through it would stop at 4 drafts."""
    measured = [11.2, 12.3, 14.7, 17.2, 18.6, 21.0, 23.0, 25.6, 23.0]
    accuracy = [0.8] * MOST
    assert best_length(accuracy, measured)[0] == 8
    with opened(keys(tmp_path, measured, accuracy)) as pipeline:
        assert chosen(pipeline, 300).most_common(1)[0][0] == 8


def test_nothing_is_drafted_where_it_does_not_pay_but_it_is_tried_again(tmp_path):
    cost_ms = [1.0 + 0.9 * k for k in range(MOST + 1)]
    with opened(keys(tmp_path, cost_ms, [0.1])) as pipeline:
        chosen(pipeline, 750)
        tries = pipeline.draft_length.statistics()["tries"]
        counts = chosen(pipeline, 750)
        more = pipeline.draft_length.statistics()["tries"] - tries
    assert counts[0] >= 0.98 * sum(counts.values())
    assert more >= 1, "a drafter out of favour is tried now and then"


def test_the_cost_over_plain_decoding_stays_small_where_nothing_pays(tmp_path):
    cost_ms = [1.0 + 0.9 * k for k in range(MOST + 1)]
    steps = 400
    with opened(keys(tmp_path, cost_ms, [0.02])) as pipeline:
        chosen(pipeline, steps)
        clock = pipeline.engine.clock_ns
        start, pipeline.statistics.emitted = clock(), 0
        chosen(pipeline, steps)
        per_token = (clock() - start) / 1e6 / pipeline.statistics.emitted
    assert per_token <= 1.03


def test_what_one_request_showed_is_known_to_the_next(tmp_path):
    """No time is lost on finding out again."""
    cost_ms = [1.0 + 0.5 * k for k in range(MOST + 1)]
    with opened(keys(tmp_path, cost_ms, [0.2])) as pipeline:
        for _ in range(4):
            chosen(pipeline, 100)
        sequence = pipeline.start(Request(prompt=(270, 271), ignore_eog=True))
        lengths = [len(pipeline.decoder.step([sequence])[0].draft) for _ in range(30)]
    assert sum(k > 0 for k in lengths) <= 2


def test_drafting_is_taken_up_when_it_begins_to_pay(tmp_path):
    cost_ms = [1.0 + 0.3 * k for k in range(MOST + 1)]
    with opened(keys(tmp_path, cost_ms, [0.05])) as pipeline:
        assert chosen(pipeline, 300)[0] > 130
        drafter = pipeline.drafter
        drafter.config = type(drafter.config)(accuracy=(0.97,))
        counts = chosen(pipeline, 600)
    assert counts.most_common(1)[0][0] >= 6


def test_sequences_in_one_batch_get_lengths_of_their_own(tmp_path):
    cost_ms = [1.0 + 0.2 * k for k in range(24)]
    data = keys(tmp_path, cost_ms, [0.9], max_sequences=2)
    with opened(data) as pipeline:
        right = pipeline.drafter.propose_one
        sequences = [
            pipeline.start(Request(prompt=p, ignore_eog=True)) for p in ((260, 261), (270, 271))
        ]

        def one_is_hard(sequence, limit):
            draft = right(sequence, limit)
            if sequence is sequences[1]:
                draft.tokens[0] = pipeline.engine.vocabulary.never
            return draft

        pipeline.drafter.propose_one = one_is_hard
        lengths = [
            [len(step.draft) for step in pipeline.decoder.step(sequences)] for _ in range(200)
        ]
    easy, hard = (sum(found) / 100 for found in zip(*lengths[100:], strict=True))
    assert easy > 4 > 1 > hard


def test_statistics_say_what_was_chosen_how_often(tmp_path):
    cost_ms = [1.0 + 0.1 * k for k in range(MOST + 1)]
    with opened(keys(tmp_path, cost_ms, [0.9])) as pipeline:
        pipeline.generate([260, 261], max_tokens=100)
        summary = pipeline.summary()
    numbers = summary["components"]["draft_length:adaptive"]
    assert sum(numbers["chosen"].values()) == summary["steps"]
    assert numbers["acceptance"]["echo"][0] == pytest.approx(0.9, abs=0.15)
    assert len(numbers["rows_us"]) == MOST + 1


@pytest.fixture
def cascaded():
    """An `adaptive` length that compares the suffix drafter's proposals, with costs of its own."""
    suffix = SimpleNamespace(
        name="suffix", cheap=True, max_draft=None, parts=(), prospect=lambda sequence: 3
    )
    length = AdaptiveLength(AdaptiveConfig(max=4, probe=0.0), Assembly(None, name="adaptive"))
    cascade = SimpleNamespace(name="cascade", parts=[suffix])
    length.open(SimpleNamespace(drafter=cascade, max_draft=4))
    length.start(CostTable((100.0, 140.0, 180.0, 220.0, 260.0), {"suffix": (1.0,) * 5}, 10.0))
    return length


def proposed(length, sequence, accepted):
    """The suffix drafter finds four tokens; how many are verified, of which so many hold."""
    length.choose([sequence])
    k = length.decide(sequence, "suffix", 4, 3).length
    held = min(k, accepted)
    draft = Draft(list(range(k)), None, "suffix", 3) if k else Draft()
    step = Step(draft, held, tuple(range(held + 1)), 0)
    length.observe([sequence], [step], 1.0, 100.0 + 40.0 * k)
    return k


def request():
    return Sequence(Request(prompt=[1]), Slot(0), [1])


def test_evidence_that_misleads_in_one_text_is_left_alone_there(cascaded):
    """However often it was right before: the loss is bounded, and the pause grows."""
    for _ in range(20):
        helped = request()
        lengths = [proposed(cascaded, helped, 4) for _ in range(10)]
    assert lengths == [4] * 10
    misled = request()
    lengths = [proposed(cascaded, misled, 0) for _ in range(100)]
    assert lengths[0] > 0
    assert sum(lengths) <= 24
    assert proposed(cascaded, request(), 4) > 0, "other texts do not suffer"


def test_the_only_drafter_is_left_alone_as_well():
    length = AdaptiveLength(AdaptiveConfig(max=4, probe=0.0), Assembly(None, name="adaptive"))
    suffix = SimpleNamespace(
        name="suffix", cheap=True, max_draft=None, parts=(), prospect=lambda sequence: 3
    )
    length.open(SimpleNamespace(drafter=suffix, max_draft=4))
    length.start(CostTable((100.0, 140.0, 180.0, 220.0, 260.0), {"suffix": (1.0,) * 5}, 10.0))

    def step(sequence, accepted):
        k = length.choose([sequence])[0]
        held = min(k, accepted)
        draft = Draft(list(range(k)), None, "suffix", 3) if k else Draft()
        taken = Step(draft, held, tuple(range(held + 1)), 0)
        length.observe([sequence], [taken], 1.0, 100.0 + 40.0 * k)
        return k

    for _ in range(20):
        helped = request()
        lengths = [step(helped, 4) for _ in range(10)]
    assert lengths == [4] * 10
    misled = request()
    assert sum(step(misled, 0) for _ in range(100)) <= 36
    assert step(request(), 4) > 0


@pytest.mark.parametrize("legal", [0, 2])
def test_tokens_that_a_constraint_forces_say_nothing_for_the_drafter(cascaded, legal):
    """Its drafts are illegal after the first `legal` tokens; what is forced instead holds."""

    def step(sequence):
        cascaded.choose([sequence])
        k = cascaded.decide(sequence, "suffix", 4, 3).length
        draft = Draft(list(range(k)), None, "suffix", 3) if k else Draft()
        draft = draft.constrained(min(k, legal), [9] * (4 - min(k, legal)))
        taken = Step(draft, 4, (*draft.tokens, 0), 0)
        cascaded.observe([sequence], [taken], 1.0, 260.0)
        return k

    for _ in range(10):
        sequence = request()
        lengths = [step(sequence) for _ in range(30)]
    known = cascaded.statistics()["acceptance"]["suffix/3"]
    assert known[legal] < 0.7  # it would be above 0.95
    assert not legal or min(known[:legal]) > 0.9
    assert max(lengths[10:]) <= legal


def test_what_does_not_pay_is_thought_about_ever_more_rarely(cascaded, monkeypatch):
    bad = request()
    for _ in range(40):
        proposed(cascaded, bad, 0)
    thoughts = []
    known = cascaded._known
    monkeypatch.setattr(cascaded, "_known", lambda *a: thoughts.append(bad) or known(*a))
    assert not any(proposed(cascaded, bad, 0) for _ in range(128))
    assert len(thoughts) <= 8


def test_tries_are_charged_what_they_took_and_not_what_a_table_says():
    """A drafter may have a whole text to catch up with, which no table of costs knows of."""
    length = AdaptiveLength(AdaptiveConfig(max=4, probe=0.01), Assembly(None, name="adaptive"))
    block = SimpleNamespace(name="block", cheap=False, max_draft=None, parts=())
    length.open(SimpleNamespace(drafter=block, max_draft=4))
    length.start(CostTable((100.0, 140.0, 180.0, 220.0, 260.0), {"block": (1.0,) * 5}, 10.0))
    tries, total = 0.0, 0.0
    for _ in range(200):
        sequence, follows = request(), 1500.0
        for _ in range(60):
            k = length.choose([sequence])[0]
            drafting, rest = (follows if k else 1.0), 100.0 + 40.0 * k
            follows = 1.0 if k else follows
            draft = Draft(list(range(k)), None, "block") if k else Draft()
            length.observe([sequence], [Step(draft, 0, (0,), 0)], drafting, rest)
            total += drafting + rest
            tries += drafting + rest - 100.0 if k else 0.0
    assert 0.0 < tries <= 0.02 * total


def test_a_dear_drafter_that_fails_leaves_a_cheap_one_its_tries():
    suffix = SimpleNamespace(
        name="suffix", cheap=True, max_draft=None, parts=(), prospect=lambda sequence: 3
    )
    block = SimpleNamespace(name="block", cheap=False, max_draft=None, parts=())
    length = AdaptiveLength(AdaptiveConfig(max=4), Assembly(None, name="adaptive"))
    length.open(SimpleNamespace(drafter=SimpleNamespace(parts=[suffix, block]), max_draft=4))
    rows, costs = (100.0, 140.0, 180.0, 220.0, 260.0), {"suffix": (1.0,) * 5, "block": (40.0,) * 5}
    length.start(CostTable(rows, costs, 10.0))

    def step(sequence, held):
        length.choose([sequence])
        k, source = length.decide(sequence, "suffix", 4, 3).length, "suffix"
        if not k:
            k, source = length.decide(sequence, "block", 4).length, "block"
        accepted = min(k, held) if source == "suffix" else 0
        draft = Draft(list(range(k)), None, source, 3 * (source == "suffix")) if k else Draft()
        taken = Step(draft, accepted, tuple(range(accepted + 1)), 0)
        spent = 4000.0 if draft.source == "block" else 1.0
        length.observe([sequence], [taken], spent, 100.0 + 40.0 * k)
        return k if draft.source == "suffix" else 0

    for _ in range(60):
        unlike = request()
        for _ in range(40):
            step(unlike, 0)
    lengths = []
    for _ in range(60):
        alike = request()
        lengths = [step(alike, 4) for _ in range(40)]
    assert lengths[-10:] == [4] * 10


def alone(drafting, row=50.0, known=0.05):
    """An `adaptive` length of one drafter whose pass takes so many µs, another row `row` µs."""
    length = AdaptiveLength(AdaptiveConfig(max=4), Assembly(None, name="adaptive"))
    block = SimpleNamespace(name="block", cheap=False, max_draft=None, parts=())
    length.open(SimpleNamespace(drafter=block, max_draft=4))
    costs = {"block": (0.0, *[drafting] * 4)}
    rows = tuple(100.0 + row * i for i in range(5))
    length.start(CostTable(rows, costs, 10.0, {"block": (known,)}))
    return length, drafting


def steps_of(length, drafting, texts, *, right, q=None):
    """Lengths that are verified in so many texts of 50 steps, and how many passes there were."""
    verified, passes = [], 0
    for _ in range(texts):
        sequence = request()
        for n in range(50):
            k = length.choose([sequence])[0]
            passes += k > 0
            drafted = Draft([n + i + (0 if right else 1) for i in range(k)], q and [q] * k, "block")
            draft = length.trim([sequence], [drafted])[0] if k else Draft()
            k = len(draft.tokens)
            held = k if right else 0
            step = Step(draft, held, tuple(range(n, n + held + 1)), 0)
            length.observe([sequence], [step], drafting if drafted.tokens else 0.0, 100 + 50.0 * k)
            verified.append(k)
    return verified, passes


def test_a_try_is_not_verified_where_drafting_costs_less_than_verifying_would_lose():
    verified, passes = steps_of(*alone(5.0), 40, right=False)
    assert passes >= 3
    assert not any(verified)


def test_a_try_is_verified_where_drafting_is_what_costs():
    """So many drafts are expected to hold that the rows would pay, if there were only them."""
    verified, _ = steps_of(*alone(70.0, row=10.0, known=0.6), 1, right=False)
    assert any(verified)


def test_tries_that_come_true_unverified_make_drafting_begin():
    length, drafting = alone(5.0)
    verified, _ = steps_of(length, drafting, 40, right=True)
    assert sum(verified[-50:]) >= 100
    assert length.statistics()["acceptance"]["block"][0] > 0.7


def test_texts_that_end_before_the_verdict_do_not_make_tries_free():
    """Every one of them may be the first token of an answer of one word."""
    length, _ = alone(50.0)
    tries, total = 0.0, 0.0
    for _ in range(600):
        sequence = request()
        k = length.choose([sequence])[0]
        drafted = Draft([*range(k)], None, "block")
        draft = length.trim([sequence], [drafted])[0] if k else Draft()
        rest = 100.0 + 50.0 * len(draft.tokens)
        length.observe([sequence], [Step(draft, 0, (0,), 0)], 50.0 * (k > 0), rest)
        total += rest + 50.0 * (k > 0)
        tries += 50.0 * (k > 0)
    assert 0.0 < tries <= 0.01 * total + 16 * 100.0 + 50.0


def test_drawn_drafts_are_always_verified():
    """That the target draws the same token is rarer than that it accepts it."""
    q = Distribution(np.array([1], np.int32), np.array([1.0], np.float32))
    verified, passes = steps_of(*alone(5.0), 40, right=False, q=q)
    assert passes == sum(k > 0 for k in verified) > 0


def thoughts_of(length, monkeypatch):
    """A list that grows with every look at what is known of a drafter."""
    thoughts, known = [], length._known
    monkeypatch.setattr(length, "_known", lambda *a: thoughts.append(a) or known(*a))
    return thoughts


def plain_step(length, sequence):
    assert list(length.choose([sequence])) == [0]
    length.observe([sequence], [Step(Draft(), 0, (0,), 0)], 1.0, 100.0)


def hopeless(probe=0.0):
    """An `adaptive` length whose one drafter has never been worth its pass."""
    length = AdaptiveLength(AdaptiveConfig(max=4, probe=probe), Assembly(None, name="adaptive"))
    block = SimpleNamespace(name="block", cheap=False, max_draft=None, parts=())
    length.open(SimpleNamespace(drafter=block, max_draft=4))
    rows, costs = (100.0, 190.0, 280.0, 370.0, 460.0), {"block": (0.0, *[90.0] * 4)}
    length.start(CostTable(rows, costs, 10.0, {"block": (0.05,)}))
    return length


def test_what_did_not_pay_for_one_text_is_not_thought_about_by_the_next(monkeypatch):
    """A text that has shown nothing itself would be judged by the same numbers."""
    length = hopeless()
    plain_step(length, request())
    thoughts = thoughts_of(length, monkeypatch)
    for _ in range(10):
        plain_step(length, request())
    assert not thoughts


def test_what_did_not_pay_for_one_text_is_thought_about_again_after_a_while(monkeypatch):
    length = hopeless()
    thoughts = thoughts_of(length, monkeypatch)
    for _ in range(1500):
        plain_step(length, request())
    assert 3 <= len(thoughts) <= 4


def test_evidence_from_any_text_ends_what_was_left_alone_for_all(monkeypatch):
    length = hopeless()
    plain_step(length, request())
    other = request()
    held = Step(Draft([0, 1], None, "block"), 2, (0, 1, 2), 0)
    length.observe([other], [held], 90.0, 280.0)
    thoughts = thoughts_of(length, monkeypatch)
    length.choose([request()])
    assert thoughts


def test_what_one_text_doubts_because_of_itself_is_not_left_alone_by_others(cascaded):
    """Evidence of another grade is believed less where drafts fail, but only there."""
    for _ in range(20):
        helped = request()
        for _ in range(10):
            proposed(cascaded, helped, 4)
    misled = request()
    for _ in range(12):
        failed = Step(Draft([1, 2, 3, 4], None, "suffix", 3), 0, (0,), 0)
        cascaded.observe([misled], [failed], 1.0, 260.0)
    cascaded._wasted["suffix"] = 1e9  # no tries
    cascaded._state(misled).settled.clear()
    cascaded.choose([misled])
    assert cascaded.decide(misled, "suffix", 4, 5).length == 0
    other = request()
    cascaded.choose([other])
    assert cascaded.decide(other, "suffix", 4, 5).length > 0


@pytest.mark.parametrize("drafting", [False, True])
def test_the_first_steps_after_a_prefill_say_nothing_of_what_steps_cost(drafting):
    """Their caches are cold. Taken for a slower machine, they made batches look cheap beside it."""
    length, _ = alone(5.0, known=0.98 if drafting else 0.05)
    lengths = []
    for _ in range(40):
        sequence = request()
        for cold in (3.0, 2.3, 1.7, 1.2, 1.1, *[1.0] * 11):
            k = length.choose([sequence])[0]
            draft = Draft(list(range(9 - k, 9)), None, "block") if k else Draft()
            draft = length.trim([sequence], [draft])[0]
            k = len(draft.tokens)
            held = k if drafting else 0
            taken = Step(draft, held, tuple(range(9 - held, 10)), 0)
            spent = cold * (100.0 + 50.0 * k)
            length.observe([sequence], [taken], cold * 5.0 * (k > 0), spent)
            lengths.append(k)
    assert (sum(k > 0 for k in lengths) > 500) == drafting
    assert length._costs.pace == pytest.approx(1.0, abs=0.02)
    assert length._costs.rows(5) == pytest.approx(300.0, rel=0.02)


def test_long_matches_that_hold_are_no_reason_to_believe_short_ones(cascaded):
    """They hold in every text; what the short ones do is not told by more of the same."""

    def step(sequence, grade, accepted):
        cascaded.choose([sequence])
        k = cascaded.decide(sequence, "suffix", 4, grade).length
        held = min(k, accepted)
        draft = Draft(list(range(k)), None, "suffix", grade) if k else Draft()
        taken = Step(draft, held, tuple(range(held + 1)), 0)
        cascaded.observe([sequence], [taken], 1.0, 100.0 + 40.0 * k)
        return k

    def believed(sequence, grade):
        return cascaded._known(cascaded._state(sequence), ("suffix", grade)).estimate(1)[0]

    for i in range(80):
        usual = request()
        for n in range(4):
            step(usual, 5, 4)
            step(usual, 3, 4 if (i + n) % 4 else 0)
    long, short = request(), request()
    before = believed(long, 3)
    assert before == pytest.approx(0.75, abs=0.15)
    assert [step(long, 5, 4) for _ in range(10)] == [4] * 10
    assert believed(long, 3) - before < 0.05
    assert [step(short, 3, 0) for _ in range(2)] == [4] * 2
    assert believed(short, 5) < believed(request(), 5), "failures of any kind cast doubt on all"


def answers(length, count, steps, cost, rate=None):
    """So many answers of `steps` steps that cost `cost(k)`; lengths that were verified.

    Every draft holds with `rate`; without one nothing is drafted.
    """
    lengths, luck = [], random.Random(0)
    for _ in range(count):
        sequence = request()
        for _ in range(steps):
            k = length.choose([sequence])[0] if rate is not None else 0
            draft = length.trim([sequence], [Draft(list(range(k)), None, "block")])[0]
            k = len(draft.tokens)
            held = 0
            while held < k and luck.random() < rate:
                held += 1
            taken = Step(draft if k else Draft(), held, tuple(range(held + 1)), 0)
            length.observe([sequence], [taken], 1.0 * (k > 0), cost(k))
            lengths.append(k)
    return lengths


@pytest.mark.parametrize(("steps", "seen"), [(6, False), (7, True)])
def test_from_the_seventh_plain_step_on_a_slower_machine_is_seen(steps, seen):
    length, _ = alone(1.0, row=5.0)
    answers(length, 200, steps, lambda k: 120.0)
    assert (length._costs.pace > 1.1) == seen
    assert seen or length._costs.pace == 1.0


@pytest.mark.parametrize(("steps", "seen"), [(4, False), (5, True)])
def test_from_the_fifth_step_on_drafts_show_what_batches_cost(steps, seen):
    length, _ = alone(1.0, row=5.0, known=0.9)
    believed = length._costs.table()["rows_us"]
    lengths = answers(length, 100, steps, lambda k: 1.5 * (100.0 + 5.0 * k), rate=1.0)
    assert set(lengths) == {4}
    assert (length._costs.table()["rows_us"] != believed) == seen


def test_short_answers_are_enough_to_notice_that_drafts_do_not_pay():
    """The table says that five rows cost 1.2 plain steps; they cost 3.6 and bring 2.2 tokens."""
    length, _ = alone(1.0, row=5.0, known=0.6)

    def cost(k):
        return 3.0 * (100.0 + 5.0 * k) if k else 100.0

    lengths = answers(length, 200, 6, cost, rate=0.6)
    assert lengths[0] == 4
    assert lengths[-600:].count(0) > 0.9 * 600


def test_an_outcome_that_was_counted_before_says_nothing_of_a_text_again(cascaded):
    state, fresh = (cascaded._state(request()) for _ in range(2))
    cascaded._count(state, "suffix", 3, 1, True, known=1)
    lean = cascaded._lean(fresh, "suffix")
    lean.observe([0.7, 0.7], 1, known=1)
    assert cascaded._lean(state, "suffix").factor == pytest.approx(lean.factor)


def test_what_a_text_showed_long_ago_is_forgotten(cascaded):
    sequence = request()
    state = cascaded._state(sequence)
    for _ in range(4):
        cascaded._count(state, "suffix", 3, 0, True)
    assert cascaded._lean(state, "suffix").factor < 0.5
    state.steps += 400
    assert cascaded._lean(state, "suffix").factor == pytest.approx(1.0, abs=0.01)
