"""The scripted engine does what it is told: statistics, costs, script, head."""

import numpy as np
import pytest
from outrider import ConfigError, EngineError, Request
from outrider.testing import decode_all, emitted, make_pipeline, plain_tokens
from outrider.testing.context import pack, unpack
from outrider.testing.engine import cost_of
from outrider.testing.toy import EMPTY, State, ToyModel, ToyVocabulary


def test_every_component_of_a_pipeline_runs_on_it(scripted_pipeline):
    pipeline = scripted_pipeline({"drafter": "mtp"})
    result = pipeline.generate("The horse", max_tokens=40)
    assert list(result.token_ids) == plain_tokens(pipeline, result.prompt_token_ids, 40)


def test_time_is_the_sum_of_chosen_costs(scripted_pipeline):
    pipeline = scripted_pipeline(
        {
            "engine": {"cost_ms": [10.0, 11.0, 15.0, 16.0], "head_cost_ms": [0.5]},
            "drafter": "mtp",
            "draft_length": {"use": "fixed", "k": 3},
        }
    )
    stats = pipeline.generate("a", max_tokens=60).stats
    lengths = {int(k): n for k, n in stats["draft_lengths"].items()}
    table = [10.0, 11.0, 15.0, 16.0]
    assert stats["time"]["verify_ms"] == pytest.approx(
        sum(table[k] * n for k, n in lengths.items())
    )
    assert stats["time"]["draft_ms"] == pytest.approx(sum(0.5 * k * n for k, n in lengths.items()))
    assert stats["time"]["overhead_us_per_step"] == 0


def test_longer_batches_continue_with_the_tables_last_increase():
    assert [cost_of((1.0, 1.5), n) for n in (1, 2, 3, 4)] == [1.0, 1.5, 2.0, 2.5]
    assert [cost_of((3.0, 2.0), n) for n in (2, 3)] == [2.0, 2.0]
    assert cost_of((4.0,), 100) == 4.0


def test_a_real_clock_really_waits(scripted_pipeline):
    pipeline = scripted_pipeline({"engine": {"clock": "real", "cost_ms": [2.0]}})
    stats = pipeline.generate("a", max_tokens=11).stats
    assert stats["time"]["verify_ms"] >= 20.0


@pytest.mark.parametrize("chance", [0.0, 0.35, 0.9])
def test_the_head_is_right_as_often_as_it_is_told(scripted_pipeline, chance):
    pipeline = scripted_pipeline(
        {
            "engine": {"head": [chance, 0.5], "context": 4096},
            "drafter": "mtp",
            "draft_length": {"use": "fixed", "k": 2},
        }
    )
    stats = pipeline.generate("The night", max_tokens=1500).stats
    first, second = stats["acceptance_by_position"]
    assert first == pytest.approx(chance, abs=0.05)
    assert second == pytest.approx(chance * 0.5, abs=0.05)


def test_a_head_that_is_fed_wrong_rows_is_always_wrong(scripted_pipeline, monkeypatch):
    """Handing over another hidden row than the true one shows as collapse of the acceptance."""
    from outrider.testing.context import TargetContext

    right = TargetContext.hidden
    monkeypatch.setattr(
        TargetContext, "hidden", lambda self, row, count: right(self, row, count) + 1
    )
    pipeline = scripted_pipeline({"engine": {"head": [1.0]}, "drafter": "mtp"})
    stats = pipeline.generate("The night", max_tokens=100).stats
    assert stats["acceptance"] < 0.1


def test_the_chosen_end_of_generation_rate_is_met(scripted_pipeline):
    pipeline = scripted_pipeline({"engine": {"eog": 0.05}, "max_sequences": 1})
    prompts = [pipeline.tokenize(f"prompt {i}") for i in range(100)]
    ended = decode_all(pipeline, [Request(prompt=p, max_tokens=400) for p in prompts])
    mean = sum(len(emitted(s)) for s in ended) / len(ended)
    assert 14 < mean < 28


def test_a_script_is_said_word_for_word(scripted_pipeline):
    text = " the carriage runs 🐎 <think>\nnot 馬 yet</think>"
    pipeline = scripted_pipeline({"engine": {"script": text}, "drafter": {"use": "echo"}})
    result = pipeline.generate("Say it.<|go|>", max_tokens=200)
    assert result.text == text
    assert result.finish_reason == "stop"


def test_the_likeliest_token_is_the_argmax_of_the_logits(scripted):
    target = scripted.engine.target
    target.batch.extend(scripted.tokenize("The night and the horse"), 0, 0, True)
    target.decode()
    for row in range(target.batch.size):
        logits = target.logits(row)
        assert logits.dtype == np.float32
        assert logits.shape == (target.n_vocab,)
        assert int(np.argmax(logits)) == target.argmax(row)


def test_the_never_token_is_never_said():
    vocabulary = ToyVocabulary()
    for seed in range(5):
        model = ToyModel(vocabulary, seed=seed, predictable=0.2)
        assert vocabulary.never not in model.continuation([1, 2, 3], 500)


def test_half_characters_occur():
    vocabulary = ToyVocabulary()
    said = ToyModel(vocabulary, predictable=0.3).continuation([1], 300)
    assert any(token >= 0x80 for token in said if token < 256)


@pytest.mark.parametrize("state", [EMPTY, State(2**64 - 1, 0), State(0x0123456789ABCDEF, 70_000)])
def test_hidden_rows_carry_the_state_exactly(state):
    row = np.array(pack(state, 3), np.float32)
    assert unpack(row) == (state, 3)


def test_a_row_of_zeros_is_the_empty_state():
    assert unpack(np.zeros(8, np.float32)) == (EMPTY, 0)


def test_rows_at_wrong_positions_are_refused(scripted):
    target = scripted.engine.target
    target.batch.extend([1, 2], 5, 0)
    with pytest.raises(EngineError, match="holds 0 tokens"):
        target.decode()


def test_rows_without_output_have_no_logits(scripted):
    target = scripted.engine.target
    target.batch.extend([1, 2], 0, 0)
    target.decode()
    with pytest.raises(EngineError, match="no logits"):
        target.argmax(0)
    with pytest.raises(EngineError, match="the last batch had 2"):
        target.argmax(2)


def test_it_has_only_its_own_model():
    with pytest.raises(ConfigError, match=r"model of its own.*set `model: scripted`"):
        make_pipeline({"model": "outrider-nano"})


def test_an_architecture_without_a_ring_takes_the_checkpoint(scripted_pipeline):
    pipeline = scripted_pipeline({"engine": {"ring": False}, "drafter": {"use": "echo"}})
    assert pipeline.rollback.name == "checkpoint"


def test_a_dense_model_is_truncated(scripted_pipeline):
    pipeline = scripted_pipeline({"engine": {"recurrent": False}, "drafter": {"use": "echo"}})
    assert pipeline.rollback.name == "kv-truncate"


def test_a_model_without_a_head_refuses_the_mtp_drafter():
    with pytest.raises(ConfigError, match="no multi-token-prediction head"):
        make_pipeline({"engine": {"head": []}, "drafter": "mtp"})
