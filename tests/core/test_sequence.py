"""When the snapshot ring is exact: `Slot.ring_reach` against recorded rollbacks and a model."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from outrider import Request, RequestError, Sequence, Slot
from outrider.testing.memory import HybridMemory
from outrider.testing.toy import ToyModel, ToyVocabulary

CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data/rollback-cases.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize(
    "case", [c for c in CASES if c["ops"][-1][0] == "rollback"], ids=lambda c: c["id"]
)
def test_the_rule_allows_what_was_exact_and_forbids_what_was_wrong(case):
    slot = Slot(0)
    for name, *arguments in case["ops"][:-1]:
        if name == "decode":
            slot.decoded(arguments[0])
        elif name == "rollback":
            slot.cut(arguments[0])
        elif name == "clear":
            slot.loaded(0)
        elif name.startswith("load"):
            slot.loaded(slot.length)
    depth = case["ops"][-1][1]
    allowed = depth <= slot.ring_reach(case["n_rs_seq"])
    # the whole memory may always be emptied; that is no rollback
    everything = depth == slot.length
    assert allowed == (case["llama_cpp"] == "exact" and not everything)


def test_the_cases_hold_both_kinds():
    asked = [c["llama_cpp"] for c in CASES if c["ops"][-1][0] == "rollback"]
    assert min(asked.count("exact"), asked.count("wrong"), asked.count("refused")) >= 4


operations = st.lists(
    st.one_of(
        st.tuples(st.just("decode"), st.integers(1, 9)),
        st.tuples(st.just("decode"), st.just(1)),
        st.tuples(st.just("rewind"), st.integers(1, 8)),
        st.tuples(st.just("reload"), st.just(0)),
    ),
    max_size=12,
)


@given(operations, st.integers(1, 5))
def test_what_the_rule_allows_is_exact_and_what_it_forbids_is_not(operations, depth):
    """On the scripted memory, which answers as llama.cpp does.

    A forbidden rewind finds what an earlier batch left in the plane. That is the right state only
    if as many of the same tokens were decoded since as were undone before, which no rule counts on.
    """
    slot, memory = Slot(0), HybridMemory(ToyModel(ToyVocabulary()), depth)
    leftovers: list[list[int]] = [[]] * (1 + depth)
    """The tokens whose state each plane holds."""

    def decode(tokens):
        memory.decode(tokens)
        slot.decoded(len(tokens))
        for i in range(min(len(tokens), 1 + depth)):
            leftovers[i] = memory.tokens[: slot.length - i]

    decode([7, 8, 9])
    for name, n in operations:
        if name == "decode":
            decode(range(slot.length, slot.length + n))
        elif name == "reload":
            saved = memory.save(partial=False)
            memory = HybridMemory(memory.model, depth)
            memory.load(saved)
            slot.loaded(slot.length)
            leftovers = [list(memory.tokens), *[[]] * depth]
        elif n <= slot.ring_reach(depth):
            assert memory.truncate(slot.length - n)
            slot.cut(n)
            assert memory.exact()
        elif n < slot.length:
            other = HybridMemory(memory.model, depth)
            memory.copy_to(other)
            accepted = other.truncate(slot.length - n)
            assert (accepted and other.exact()) == (
                accepted and leftovers[n] == memory.tokens[: slot.length - n]
            )
        assert (memory.length, memory.exact()) == (slot.length, True)


def test_a_rewind_never_reaches_further_than_the_last_batch():
    slot = Slot(0)
    slot.decoded(12)
    assert slot.ring_reach(4) == 4
    slot.decoded(3)
    assert slot.ring_reach(4) == 2
    slot.cut(1)
    assert (slot.length, slot.ring_reach(4)) == (14, 0)
    slot.decoded(1)
    assert slot.ring_reach(4) == 0
    slot.decoded(5)
    slot.loaded(20)
    assert slot.ring_reach(4) == 0


def test_a_sequence_knows_its_anchor_and_what_it_generated():
    sequence = Sequence(Request(prompt=[1, 2, 3]), Slot(4), [1, 2, 3, 7, 9])
    assert (sequence.id, sequence.anchor) == (4, 9)
    assert (sequence.prompt_length, sequence.generated) == (3, 2)
    assert not sequence.done
    sequence.cancel()
    assert sequence.cancelled
    assert not sequence.done


def test_one_stop_text_is_not_taken_for_its_letters():
    assert Request((1, 2), stop="END").stop == ("END",)
    assert Request([1, 2], stop=["END", "\n"]).stop == ("END", "\n")


def test_a_pipeline_takes_one_stop_text_as_a_whole(scripted_pipeline):
    pipeline = scripted_pipeline({"drafter": "none"})
    whole = pipeline.generate("The night", max_tokens=40).text
    stop = whole[10:13]
    assert len(set(whole[: whole.index(stop)]) & set(stop)) > 0, "its letters come earlier"
    stopped = pipeline.generate("The night", max_tokens=40, stop=stop)
    assert stopped.text == whole[: whole.index(stop)]
    assert stopped.text == pipeline.generate("The night", max_tokens=40, stop=[stop]).text


@pytest.mark.parametrize("text", ["Once upon a time", b"Once"])
def test_a_text_for_a_prompt_is_refused_with_what_makes_tokens_of_it(text):
    with pytest.raises(RequestError, match=r"takes tokens.*pipeline\.tokenize"):
        Request(prompt=text)
