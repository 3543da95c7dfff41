"""The toy's memory answers as llama.cpp's did, right or wrong, in every recorded case."""

import json
from pathlib import Path

import pytest
from outrider.testing.memory import DenseMemory, HybridMemory
from outrider.testing.toy import EMPTY, ToyModel, ToyVocabulary

CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "data/rollback-cases.jsonl").read_text().splitlines()
]
MODEL = ToyModel(ToyVocabulary())


def replay(case) -> str:
    """Run a case's operations; `exact`, `wrong` or `refused`, as llama.cpp's outcome is named."""
    memory = HybridMemory(MODEL, case["n_rs_seq"])
    token = 0
    saved = b""
    refused = False
    for name, *arguments in case["ops"]:
        if name == "decode":
            memory.decode(range(token, token + arguments[0]))
            token += arguments[0]
        elif name == "rollback":
            refused = not memory.truncate(memory.length - arguments[0])
        elif name == "save_full":
            saved = memory.save(partial=False)
        elif name == "save_recurrent":
            saved = memory.save(partial=True)
        elif name == "load_full_into_new_context":
            memory = HybridMemory(MODEL, case["n_rs_seq"])
            memory.load(saved)
        elif name == "load_full_same_context":
            memory.load(saved)
        elif name == "load_recurrent_then_trim":
            memory.load(saved)
            assert memory.truncate(memory.length)
        elif name == "clear":
            memory.clear()
        else:
            assert name == "decode_other_sequence"
    if refused:
        assert memory.exact(), "a refused rollback changes nothing"
        return "refused"
    return "exact" if memory.exact() else "wrong"


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if c["ops"][-1][0] != "remove_range"],
    ids=lambda c: c["id"],
)
def test_rollbacks_end_as_they_did_in_llama_cpp(case):
    assert replay(case) == case["llama_cpp"]


def test_both_kinds_of_wrong_are_among_the_cases():
    outcomes = [c["llama_cpp"] for c in CASES]
    assert outcomes.count("wrong") >= 10
    assert outcomes.count("refused") >= 4


def test_a_wrong_state_speaks_differently_within_a_few_tokens():
    differing = 0
    for seed in range(50):
        model = ToyModel(ToyVocabulary(), seed=seed)
        memory = HybridMemory(model, 4)
        memory.decode(range(12))
        memory.decode([40])
        assert memory.truncate(12)
        assert not memory.exact()
        tokens, state = list(memory.tokens), memory.state
        said = []
        for _ in range(24):
            said.append(model.next(state, tokens))
            tokens.append(said[-1])
            state = model.fold(state, said[-1])
        differing += said != model.continuation(range(12), 24)
    assert differing >= 49


def test_saved_states_that_are_damaged_are_refused():
    memory = HybridMemory(MODEL, 2)
    memory.decode(range(5))
    data = memory.save(partial=False)
    for broken in (b"", data[: len(data) // 2], data[:-1], b"\xff" + data, b"[1, 2]"):
        with pytest.raises(ValueError, match="not a saved state"):
            memory.load(broken)


def test_a_dense_memory_can_be_cut_anywhere():
    memory = DenseMemory(MODEL)
    memory.decode(range(10))
    for length in (7, 3, 0):
        assert memory.truncate(length)
        assert memory.length == length
        assert memory.exact()
    assert memory.state == EMPTY
