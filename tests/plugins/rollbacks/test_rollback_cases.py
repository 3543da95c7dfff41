"""Every recorded rollback ends exact, or is refused before llama.cpp gets to do it wrong.

The 58 cases are operation lists for one sequence of a hybrid model, with what llama.cpp does
when it is simply asked (`llama_cpp`: exact, refused, wrong, hole-accepted). Here they go through
`States` and the rollback plugin, which must know beforehand. Exactness is measured: the logits
of the next token against a fresh prefill of the surviving tokens.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from outrider import EngineError, Pipeline, Slot

from tests.conftest import DATA, THREADS

CASES = [json.loads(line) for line in (DATA / "rollback-cases.jsonl").open()]
NEXT = 4242


def token(i: int) -> int:
    """Token at position i: varied, never a control token."""
    return 300 + (i * 7919 + 13) % 7000


class Driver:
    """Runs a case's operations against one slot, keeping track as the decode loop does."""

    def __init__(self, model: Path, case: dict, sequences: int = 2) -> None:
        self.pipeline = Pipeline.load(
            model=str(model),
            overrides=[
                THREADS,
                "template=auto",
                "drafter.use=suffix",
                f"draft_length.k={case['n_rs_seq']}",
                f"engine.ubatch={case['n_ubatch']}",
                "engine.context=256",
                "engine.cache_type_k=f32",
                "engine.cache_type_v=f32",
                f"max_sequences={sequences if case['n_ubatch'] > 2 * case['n_rs_seq'] + 2 else 1}",
                *(["rollback.use=snapshot-ring"] if case["n_rs_seq"] else []),
            ],
        ).open()
        self.decoder = self.pipeline.decoder
        self.target = self.pipeline.engine.target
        self.states = self.decoder.states
        self.slot: Slot = self.decoder.slots[0]
        for slot in self.decoder.slots:
            self.target.need_logits(slot.id, True)
        self.fed = 0
        self.saved: list = []

    def decode(self, count: int, slot: Slot | None = None) -> np.ndarray:
        slot = slot or self.slot
        tokens = [token(self.fed + i) for i in range(count)]
        self.fed += count
        return self.feed(slot, tokens)

    def feed(self, slot: Slot, tokens: list[int]) -> np.ndarray:
        batch = self.target.batch
        batch.clear()
        batch.extend(tokens, slot.length, slot.id)
        batch.outputs[batch.size - 1] = 1
        self.target.decode()
        logits = self.target.logits(batch.size - 1).copy()
        slot.tokens.extend(tokens)
        slot.decoded(len(tokens))
        return logits

    def close(self) -> None:
        self.pipeline.close()


def logits_after(model: Path, case: dict, tokens: list[int]) -> np.ndarray:
    fresh = Driver(model, case)
    try:
        if tokens:
            fresh.feed(fresh.slot, tokens)
        return fresh.feed(fresh.slot, [NEXT])
    finally:
        fresh.close()


def nmse(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.mean((a - b) ** 2) / np.mean(b**2))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["id"])
def test_a_rollback_is_exact_or_refused(hybrid_model: Path, case: dict) -> None:
    driver = Driver(hybrid_model, case)
    other: Driver | None = None
    refused = False
    try:
        for name, *arguments in case["ops"]:
            slot, states = driver.slot, driver.states
            if name == "decode":
                driver.decode(arguments[0])
            elif name == "rollback":
                length = slot.length - arguments[0]
                try:
                    states.rewind(slot, length)
                except EngineError:
                    refused = True
                    survivors = list(slot.tokens[:length])
                    states.clear(slot)
                    if survivors:
                        driver.feed(slot, survivors)
            elif name == "save_full":
                driver.saved.append(states.snapshot(slot))
            elif name == "load_full_into_new_context":
                other = Driver(hybrid_model, case)
                other.states.restore(other.slot, driver.saved[-1])
                other.fed, other.saved = driver.fed, driver.saved
                driver.close()
                driver, other = other, None
            elif name == "load_full_same_context":
                states.restore(slot, driver.saved[-1])
            elif name == "save_recurrent":
                data = driver.target.save(slot.id, partial=True)
                driver.saved.append((slot.length, bytes(data)))
            elif name == "load_recurrent_then_trim":
                length, data = driver.saved[-1]
                driver.target.load(slot.id, data, partial=True)
                assert driver.target.truncate(slot.id, length)
                slot.loaded(length)
                del slot.tokens[length:]
            elif name == "clear":
                states.clear(slot)
            elif name == "decode_other_sequence":
                driver.decode(arguments[0], driver.decoder.slots[1])
            elif name == "remove_range":
                # the interface has no way to ask for a hole: only the end can be cut
                assert not hasattr(states, "remove_range")
                with pytest.raises(EngineError):
                    states.rewind(slot, arguments[0])
                refused = True
            else:
                raise AssertionError(f"unknown operation {name}")
            assert driver.target.length(slot.id) == slot.length == len(slot.tokens)
        expected = logits_after(hybrid_model, case, list(driver.slot.tokens))
        found = driver.feed(driver.slot, [NEXT])
        assert nmse(found, expected) < 1e-6
        if case["llama_cpp"] in ("wrong", "refused", "hole-accepted"):
            assert refused, "llama.cpp does this wrong, so it must not have been asked"
        else:
            assert not refused, "this rollback is exact; refusing it costs a prefill"
    finally:
        driver.close()


def test_the_library_alone_gets_the_wrong_cases_wrong(hybrid_model: Path) -> None:
    """The weights are such that a wrong state shows; otherwise the test above proves nothing."""
    case = next(c for c in CASES if c["id"] == "verify3-back3")
    driver = Driver(hybrid_model, case)
    try:
        driver.decode(12)
        driver.decode(3)
        assert driver.target.truncate(0, 12), "llama.cpp accepts it"
        driver.slot.cut(3)
        del driver.slot.tokens[12:]
        found = driver.feed(driver.slot, [NEXT])
        expected = logits_after(hybrid_model, case, [token(i) for i in range(12)])
        assert nmse(found, expected) > 1e-3
    finally:
        driver.close()


def test_a_deeper_rewind_than_the_ring_is_refused_without_asking(hybrid_model: Path) -> None:
    driver = Driver(hybrid_model, {"n_rs_seq": 2, "n_ubatch": 64})
    try:
        driver.decode(12)
        with pytest.raises(EngineError, match="cannot be rewound by 7 tokens"):
            driver.states.rewind(driver.slot, 5)
        assert driver.target.length(0) == 12
    finally:
        driver.close()
