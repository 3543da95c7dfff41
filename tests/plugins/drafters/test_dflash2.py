"""The block drafter follows the target, whatever happens to the sequence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from bench import prompts
from outrider import ConfigError, EngineError, FinishReason, Pipeline, Request
from outrider.divergence import first_divergence
from outrider.native import RowSampler, SamplingOptions
from outrider_dflash2.injection import Waiting

from tests.conftest import ROOT, THREADS

FILE = ROOT / "examples" / "pipelines" / "dflash2.yaml"
MODELS = ROOT / "models" / "outrider-nano"
TOKENS = 64


@pytest.fixture(scope="module")
def chosen(plain: Pipeline) -> list[prompts.Prompt]:
    return prompts.load(plain, per_family=2)


@pytest.fixture(scope="module")
def dflash2() -> Iterator[Pipeline]:
    with Pipeline.load(FILE, overrides=[THREADS]).open() as pipeline:
        yield pipeline


def request(prompt: prompts.Prompt, tokens: int = TOKENS, **options) -> Request:
    return Request(prompt=prompt.tokens, max_tokens=tokens, ignore_eog=True, **options)


def acceptance(pipeline: Pipeline) -> float:
    return sum(pipeline.statistics.accepted) / sum(pipeline.statistics.proposed)


def steps(pipeline: Pipeline, sequence) -> list[list[int]]:
    """The drafts of all steps to the end."""
    drafts = []
    while not sequence.done:
        drafts.append(list(pipeline.decoder.step([sequence])[0].draft.tokens))
    return drafts


# --- it is the target's text -------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 3, 7])
def test_greedy_text_is_that_of_plain_decoding(plain, chosen, k):
    with Pipeline.load(FILE, overrides=[THREADS, f"draft_length.k={k}"]).open() as pipeline:
        for prompt in chosen:
            expected = plain.run(request(prompt)).token_ids
            found = pipeline.run(request(prompt)).token_ids
            divergence = first_divergence(plain, prompt.tokens, expected, found)
            assert divergence is None or divergence.near_tie, (prompt.name, divergence)
            assert len(found) == TOKENS


def test_adaptive_lengths_do_not_change_the_text(plain, chosen, tmp_path):
    file = ROOT / "examples" / "pipelines" / "adaptive.yaml"
    overrides = [THREADS, f"draft_length.folder={tmp_path}"]
    with Pipeline.load(file, overrides=overrides).open() as pipeline:
        for prompt in chosen:
            expected = plain.run(request(prompt)).token_ids
            found = pipeline.run(request(prompt)).token_ids
            divergence = first_divergence(plain, prompt.tokens, expected, found)
            assert divergence is None or divergence.near_tie, (prompt.name, divergence)


def test_most_drafts_hold(dflash2, chosen):
    """An alarm for faults that leave the text right: wrong rows, positions, or lattice order."""
    proposed, accepted = 0, 0
    for prompt in chosen:
        dflash2.run(request(prompt))
        proposed += dflash2.statistics.proposed[0]
        accepted += dflash2.statistics.accepted[0]
    assert accepted / proposed > 0.75


# --- its cache is the target's -----------------------------------------------------------------


def test_nothing_but_committed_positions_is_in_its_cache(dflash2, chosen):
    drafter = dflash2.drafter
    sequence = dflash2.start(request(chosen[0]))
    while not sequence.done:
        dflash2.decoder.step([sequence])
        state = drafter._injector.slots[0]
        assert drafter._context.length(0) == state.cached
        assert state.length == sequence.slot.length


def test_drafts_are_those_of_a_fresh_start_at_any_point(dflash2, chosen):
    """Rows injected step by step are those that a prefill of the same tokens injects.

    Up to rounding: verify batches and prefills have other shapes, and near ties in the lattice
    fall one way or the other.
    """
    same, count = 0, 0
    for prompt in chosen:
        sequence = dflash2.start(request(prompt, 40))
        for _ in range(4):
            dflash2.decoder.step([sequence])
        tokens = list(sequence.tokens)
        going_on = dflash2.drafter.propose([sequence], [7])[0].tokens
        dflash2.decoder.abandon(sequence)
        fresh = dflash2.start(Request(prompt=tokens[:-1], max_tokens=8, ignore_eog=True))
        from_prefill = dflash2.drafter.propose([fresh], [7])[0].tokens
        dflash2.decoder.abandon(fresh)
        if fresh.tokens == tokens:
            count += 7
            same += sum(a == b for a, b in zip(going_on, from_prefill, strict=True))
    assert count >= 35
    assert same / count > 0.85


def test_long_stretches_without_drafts_lose_nothing(chosen, plain):
    """More rows wait than the buffer holds; drafts after them are as good as ever."""
    overrides = [THREADS, "drafter.waiting=16"]
    with Pipeline.load(FILE, overrides=overrides).open() as pipeline:
        prompt = chosen[0]
        length = pipeline.draft_length
        sequence = pipeline.start(request(prompt, 120))
        plainly = type(length.config)(k=0)
        usual, length.config = length.config, plainly
        for _ in range(50):
            pipeline.decoder.step([sequence])
        length.config = usual
        late = pipeline.drafter.propose([sequence], [7])[0].tokens
        tokens = list(sequence.tokens)
        pipeline.decoder.abandon(sequence)
        fresh = pipeline.start(Request(prompt=tokens[:-1], max_tokens=8, ignore_eog=True))
        assert fresh.tokens == tokens
        soon = pipeline.drafter.propose([fresh], [7])[0].tokens
        assert sum(a == b for a, b in zip(late, soon, strict=True)) >= 5


def test_a_long_prompt_is_injected_in_chunks(chosen):
    prompt = max(chosen, key=lambda p: len(p.tokens))
    assert len(prompt.tokens) > 100
    drafts = []
    for batch in (16, 256):
        overrides = [THREADS, f"drafter.batch={batch}"]
        with Pipeline.load(FILE, overrides=overrides).open() as pipeline:
            sequence = pipeline.start(request(prompt))
            drafts.append(steps(pipeline, sequence))
    assert drafts[0] == drafts[1]


# --- snapshots, rewinds, several sequences -----------------------------------------------------


def test_a_restored_sequence_drafts_as_the_saved_one(dflash2, chosen):
    states, slot = dflash2.decoder.states, dflash2.decoder.slots[0]
    sequence = dflash2.start(request(chosen[1], 80))
    for _ in range(4):
        dflash2.decoder.step([sequence])
    saved, tokens = states.snapshot(slot), list(sequence.tokens)
    expected = steps(dflash2, sequence)
    dflash2.run(request(chosen[2]))
    states.restore(slot, saved)
    waiting = dflash2.drafter._injector.slots[0]
    assert waiting.length == len(tokens) - 1
    assert dflash2.drafter._context.length(0) == waiting.cached
    sequence.tokens[:] = tokens
    sequence.finish = None
    slot.owner = sequence
    assert steps(dflash2, sequence) == expected


@pytest.mark.parametrize("damage", [b"", b"\1", b"\7\0\0\0", b"\7\0\0\0garbage"])
def test_a_state_that_does_not_fit_is_refused(dflash2, damage):
    with pytest.raises(EngineError):
        dflash2.drafter.restore(dflash2.decoder.slots[0], damage)
    dflash2.decoder.states.clear(dflash2.decoder.slots[0])


def test_a_rewound_slot_drafts_as_if_the_cut_tokens_had_never_been(dflash2, chosen):
    states, slot = dflash2.decoder.states, dflash2.decoder.slots[0]
    sequence = dflash2.start(request(chosen[0], 60))
    while not sequence.done:
        dflash2.decoder.step([sequence])
    cut = slot.length - 1
    dflash2.drafter.rewind(slot, cut)
    state = dflash2.drafter._injector.slots[0]
    assert state.length == cut
    assert dflash2.drafter._context.length(0) == state.cached <= cut
    states.clear(slot)
    assert dflash2.drafter._context.length(0) == 0


def test_joint_sequences_draft_as_well_as_lone_ones(plain, chosen):
    overrides = [THREADS, "draft_length.k=3", "max_sequences=4", "engine.context=1024"]
    with Pipeline.load(FILE, overrides=overrides).open() as pipeline:
        lone = [pipeline.run(request(p)).token_ids for p in chosen[:4]]
        pipeline.reset_statistics()
        for prompt in chosen[:4]:
            sequence = pipeline.start(request(prompt))
            while not sequence.done:
                pipeline.step([sequence])
        alone = acceptance(pipeline)
        pipeline.reset_statistics()
        active = [pipeline.start(request(p)) for p in chosen[:4]]
        while left := [s for s in active if not s.done]:
            pipeline.step(left)
        assert abs(acceptance(pipeline) - alone) < 0.05
        for sequence, prompt, expected in zip(active, chosen, lone, strict=False):
            found = sequence.tokens[len(prompt.tokens) :]
            divergence = first_divergence(plain, prompt.tokens, expected, found)
            assert divergence is None or divergence.near_tie, (prompt.name, divergence)


def test_sequences_with_other_lengths_share_a_pass(chosen):
    """Blocks in one pass are of equal length; each sequence gets what it asked for."""
    overrides = [THREADS, "max_sequences=3", "engine.context=1024"]
    with Pipeline.load(FILE, overrides=overrides).open() as pipeline:
        active = [pipeline.start(request(p)) for p in chosen[:3]]
        context = pipeline.drafter._context
        alone = [list(pipeline.drafter.propose([s], [7])[0].tokens) for s in active]
        before = context.decodes
        drafts = pipeline.drafter.propose(active, [7, 0, 3])
        assert context.decodes - before == 1
        assert list(drafts[0].tokens) == alone[0]
        assert not drafts[1].tokens
        assert list(drafts[2].tokens) == alone[2][:3]


def test_the_last_positions_of_the_context_can_be_drafted(plain):
    overrides = [THREADS, "engine.context=256"]
    text = "def add(a, b):\n    return a + b\n\n\n" * 20
    with Pipeline.load(FILE, overrides=overrides).open() as pipeline:
        tokens = pipeline.tokenize(text)[:200]
        result = pipeline.run(Request(prompt=tokens, ignore_eog=True))
        assert result.finish_reason == "length"
        assert len(result.prompt_token_ids) + len(result.token_ids) == pipeline.engine.target.n_ctx


# --- what it refuses ---------------------------------------------------------------------------


def load(model: str, *overrides: str) -> Pipeline:
    return Pipeline.load(FILE, model=model, overrides=[THREADS, *overrides])


def test_a_drafter_for_another_target_is_refused_with_the_number_that_differs(hybrid_model):
    with pytest.raises(ConfigError, match=r"expects hidden size 384, and .* has 256"):
        load(str(hybrid_model))


def test_layers_that_the_target_lacks_are_named(rewritten):
    drafter = rewritten("layers.gguf", {"dflash.target_layers": [2, 5, 8]})
    with pytest.raises(ConfigError, match=r"expects the input of layer 8, and .* layers 0 to 7"):
        load("outrider-nano", f"drafter.model={drafter}")


def test_another_vocabulary_is_refused(rewritten):
    drafter = rewritten("vocabulary.gguf", {}, vocabulary=8000)
    with pytest.raises(ConfigError, match=r"expects vocabulary 8000, and .* has 8192"):
        load("outrider-nano", f"drafter.model={drafter}")


def test_a_file_that_is_no_block_drafter_is_refused():
    with pytest.raises(ConfigError, match=r"is a qwen35 model; the dflash2 drafter needs"):
        load("outrider-nano", "drafter.model=outrider-nano")


def test_a_missing_file_is_named():
    with pytest.raises(ConfigError, match=r"model file not found: .*nowhere\.gguf"):
        load("outrider-nano", "drafter.model=nowhere.gguf")


# --- plain DFlash ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rewritten(tmp_path_factory):
    """Copies the packaged drafter with other metadata, and without some of its tensors."""
    from gguf import GGUFReader, GGUFValueType, GGUFWriter

    folder = tmp_path_factory.mktemp("drafters")

    def write(name: str, values: dict, without: tuple[str, ...] = (), vocabulary: int = 0) -> Path:
        reader = GGUFReader(str(MODELS / "outrider-nano-dflash2-q8_0.gguf"))
        path = folder / name
        writer = GGUFWriter(str(path), "dflash")
        for key, field in reader.fields.items():
            if key.startswith("GGUF.") or key == "general.architecture":
                continue
            value = values.get(key, field.contents())
            if value is None:
                continue
            if key == "tokenizer.ggml.tokens" and vocabulary:
                value = value[:vocabulary]
            if key == "dflash.vocab_size" and vocabulary:
                value = vocabulary
            kind = field.types[0]
            inner = field.types[-1] if kind == GGUFValueType.ARRAY else None
            writer.add_key_value(key, value, kind, inner)
        for tensor in reader.tensors:
            if not any(part in tensor.name for part in without):
                writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return write


@pytest.fixture(scope="module")
def plain_dflash(rewritten) -> Path:
    """A drafter without selector and convolutions: rows of logits instead of a lattice."""
    names = ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k")
    gone = dict.fromkeys(f"dflash.{name}" for name in names)
    return rewritten("plain.gguf", gone, without=("selector", "_conv_"))


@pytest.mark.parametrize("min_p", [0.0, 0.3])
def test_plain_dflash_files_work_too(plain, chosen, plain_dflash, min_p):
    overrides = [THREADS, f"drafter.model={plain_dflash}", f"drafter.min_p={min_p}"]
    accepted = 0
    with Pipeline.load(FILE, overrides=overrides).open() as pipeline:
        assert pipeline.drafter.model.top_k == 0
        for prompt in chosen[:4]:
            expected = plain.run(request(prompt)).token_ids
            found = pipeline.run(request(prompt)).token_ids
            accepted += sum(pipeline.statistics.accepted)
            divergence = first_divergence(plain, prompt.tokens, expected, found)
            assert divergence is None or divergence.near_tie, (prompt.name, divergence)
    assert accepted > 0, "it was trained with convolutions, but some of its guesses hold"


def test_unsure_drafts_are_shorter_and_hold_more_often(dflash2, chosen):
    def run(pipeline):
        for prompt in chosen:
            sequence = pipeline.start(request(prompt))
            steps(pipeline, sequence)
        return acceptance(pipeline), sum(pipeline.statistics.proposed)

    dflash2.reset_statistics()
    with Pipeline.load(FILE, overrides=[THREADS, "drafter.min_p=0.8"]).open() as careful:
        (all_rate, all_count), (sure_rate, sure_count) = run(dflash2), run(careful)
    assert sure_count < all_count
    assert sure_rate > all_rate + 0.05


# --- the drafter's cache type ------------------------------------------------------------------


def test_a_quantised_drafter_cache_accepts_about_as_much(dflash2, chosen):
    dflash2.reset_statistics()
    rates = []
    with Pipeline.load(FILE, overrides=[THREADS, "drafter.cache_type=q8_0"]).open() as quantised:
        for pipeline in (dflash2, quantised):
            for prompt in chosen:
                steps(pipeline, pipeline.start(request(prompt)))
            rates.append(acceptance(pipeline))
    assert abs(rates[0] - rates[1]) < 0.05, rates
    assert np.isfinite(rates).all()


# --- sampled drafts ----------------------------------------------------------------------------

SAMPLED = [THREADS, "sampler={use: rejection, temperature: 1.0, top_k: 20}"]


@pytest.fixture(scope="module")
def sampled() -> Iterator[Pipeline]:
    with Pipeline.load(FILE, overrides=SAMPLED).open() as pipeline:
        yield pipeline


def test_sampled_drafts_say_what_they_were_drawn_from(sampled, chosen):
    sequence = sampled.start(request(chosen[6], sampling={"seed": 3}))
    draft = sampled.drafter.propose([sequence], [7])[0]
    lattice = sampled.drafter._context.hidden(1, 7)[:, : sampled.drafter.model.top_k]
    sampled.decoder.abandon(sequence)
    assert draft.q is not None
    assert len(draft.q) == len(draft.tokens) == 7
    for token, q, candidates in zip(draft.tokens, draft.q, lattice, strict=True):
        assert token in q.ids
        assert set(q.ids) <= {int(c) for c in candidates}
        assert q.probs.sum() == pytest.approx(1.0)


def test_they_are_drawn_from_what_they_say(sampled, chosen):
    """Frequencies of the first token over many seeds against its q."""
    counts: dict[int, int] = {}
    draws = 500
    sequence = sampled.start(request(chosen[6], sampling={"seed": 0}))
    for seed in range(draws):
        sequence.settings = sampled.sampler.settings({"seed": seed})
        sampled.sampler.begin(sequence)
        draft = sampled.drafter.propose([sequence], [1])[0]
        counts[draft.tokens[0]] = counts.get(draft.tokens[0], 0) + 1
    sampled.decoder.abandon(sequence)
    q = dict(zip(draft.q[0].ids.tolist(), draft.q[0].probs.tolist(), strict=True))
    distance = sum(abs(counts.get(t, 0) / draws - p) for t, p in q.items()) / 2
    assert len(counts) > 1
    assert distance < 0.08


def test_on_an_accelerator_rows_are_injected_while_the_step_ends(chosen):
    found = []
    for ahead in ("off", "on"):
        with Pipeline.load(FILE, overrides=[THREADS, f"engine.ahead={ahead}"]).open() as pipeline:
            texts = []
            for prompt in chosen[:3]:
                sequence = pipeline.start(request(prompt))
                waiting = []
                while not sequence.done:
                    pipeline.step([sequence])
                    waiting.append(pipeline.drafter._injector.slots[sequence.id].count)
                assert (max(waiting[1:-1]) == 0) == (ahead == "on")
                texts.append(tuple(sequence.tokens))
            found.append(texts)
    assert found[0] == found[1]


def test_on_an_accelerator_injections_keep_their_shape_and_repeat_meanwhile(chosen):
    """The repeated rows leave the cache as it was: drafts hold as often, texts are the same."""
    found, accepted, shapes = [], [], {}
    for habits in ("off", "on"):
        overrides = [THREADS, f"engine.ahead={habits}", f"engine.steady={habits}"]
        overrides += ["draft_length={use: fixed, k: 3}"]
        with Pipeline.load(FILE, overrides=overrides).open() as pipeline:
            injector, sizes = pipeline.drafter._injector, shapes.setdefault(habits, [])
            inject = injector._context.decode_embeddings

            def counted(batch, inject=inject, sizes=sizes):
                sizes.append(batch.size)
                inject(batch)

            injector._context.decode_embeddings = counted
            texts = []
            for prompt in chosen[:3]:
                sequence = pipeline.start(request(prompt))
                while not sequence.done:
                    pipeline.step([sequence])
                    state = injector.slots[sequence.id]
                    # the last step's rows are never asked for
                    if habits == "on" and not sequence.done:
                        length = len(sequence.tokens) - 1
                        assert state.cached == injector._context.length(sequence.id) == length
                texts.append(tuple(sequence.tokens))
            found.append(texts)
            known = pipeline.statistics
            accepted.append(sum(known.accepted) / sum(known.proposed))
    assert found[0] == found[1]
    assert accepted[1] == pytest.approx(accepted[0], abs=0.02)
    assert shapes["on"].count(4) > 0.9 * len(shapes["on"])
    assert shapes["off"].count(4) < 0.9 * len(shapes["off"])


HABITS = ["engine.ahead=on", "engine.steady=on"]


def test_kept_rows_follow_other_lengths_plain_steps_and_joint_batches(chosen):
    overrides = [THREADS, *HABITS, "max_sequences=2", "engine.context=1024"]
    first, second = chosen[:2]
    with Pipeline.load(FILE, overrides=overrides).open() as pipeline:
        alone = [pipeline.run(request(p)).token_ids for p in (first, second)]
        both = [pipeline.start(request(p)) for p in (first, second)]
        lengths = iter([3, 0, 2, 7, 0, 0, 1] * 200)
        pipeline.decoder.draft_length.choose = lambda found: [next(lengths) for _ in found]
        turn = 0
        while left := [s for s in both if not s.done]:
            pipeline.step(left if turn % 3 else left[:1])
            turn += 1
            for s in left:
                if not s.done:
                    state = pipeline.drafter._injector.slots[s.id]
                    assert state.length == len(s.tokens) - 1
                    assert state.cached == pipeline.drafter._context.length(s.id)
        assert [tuple(s.tokens[len(s.request.prompt) :]) for s in both] == alone


def test_what_fails_while_the_target_is_busy_ends_that_request_only(chosen):
    with Pipeline.load(FILE, overrides=[THREADS, *HABITS]).open() as pipeline:
        whole = pipeline.run(request(chosen[0])).token_ids
        meanwhile = pipeline.decoder._meanwhile

        def fails(sequences, drafts):
            raise EngineError("the device is gone")

        sequence = pipeline.start(request(chosen[0]))
        pipeline.step([sequence])
        pipeline.decoder._meanwhile = fails
        with pytest.raises(EngineError, match="the device is gone"):
            pipeline.step([sequence])
        assert sequence.finish.reason is FinishReason.ERROR
        pipeline.decoder._meanwhile = meanwhile
        assert pipeline.run(request(chosen[0])).token_ids == whole


def test_rows_of_cached_positions_are_kept_for_injections_of_one_shape():
    state = Waiting(8, 2, keep=3)
    for step in range(40):
        n = 1 + step % 3
        at = state.append(n)
        first = state.length - n
        state.rows[at : at + n] = np.arange(first, first + n)[:, None]
        assert state.waiting[:, 0].tolist() == list(range(state.cached, state.length))
        if step % 2:
            state.injected()
        if step == 20:
            state.cut(state.length - 4)
        kept = state.rows[: state.kept, 0].tolist()
        assert kept == list(range(state.cached - state.kept, state.cached))
    state.cut(1)
    assert (state.cached, state.count) == (1, 0)


def test_a_greedy_pipeline_walks_the_best_path_without_q(dflash2, chosen):
    sequence = dflash2.start(request(chosen[0]))
    assert dflash2.drafter.propose([sequence], [3])[0].q is None
    dflash2.decoder.abandon(sequence)


def test_drawn_drafts_hold_more_often_than_the_best_ones_would(sampled, chosen):
    """Rejection sampling uses q: Σ min(p, q), where a point mass on the best has p(best) only."""
    target, options = sampled.engine.target, SamplingOptions(temperature=1.0, top_k=20)
    kernel = RowSampler(target.n_vocab)
    drawn, pointed = [], []
    for seed, prompt in enumerate(chosen):
        sequence = sampled.start(request(prompt, 64, sampling={"seed": seed}))
        while not sequence.done:
            q = sampled.drafter.propose([sequence], [1])[0].q[0]
            step = sampled.decoder.step([sequence])[0]
            ids, probs = kernel.distribution(target.logits(step.row), options)
            p = dict(zip(ids.tolist(), probs.tolist(), strict=True))
            held = [min(p.get(t, 0.0), x) for t, x in zip(q.ids.tolist(), q.probs, strict=True)]
            drawn.append(sum(held))
            pointed.append(p.get(int(q.ids[q.probs.argmax()]), 0.0))
    assert len(drawn) > 150
    assert np.mean(drawn) > np.mean(pointed) + 0.02
