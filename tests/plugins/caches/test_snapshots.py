"""The snapshots cache on the embedded model: what is reused, why not, and that it is exact."""

from __future__ import annotations

import errno
import logging
import random
import subprocess
import threading
import time
from pathlib import Path

import pytest
from outrider import EngineError, OutriderError, Pipeline, Request
from outrider_snapshots import store as store_module
from outrider_snapshots.directory import Directory
from outrider_snapshots.packing import key_of, pack, token_array
from outrider_snapshots.policy import TAIL
from soak.histories import NEAR_TIE

THREADS = "engine.threads=1"
CONTEXT = "engine.context=1536"
WORDS = ("river", "stone", "house", "cloud", "engine", "window", "reads", "turns", "opens", "under")
OPENING = "<|im_start|>assistant\n"
_rng = random.Random()


@pytest.fixture(autouse=True)
def own_texts(request):
    """The same texts for a test, whatever ran before it."""
    _rng.seed(request.node.name)


def opened(*overrides: str, ram="64MiB", disk: Path | None = None, every=128, least=16):
    where = f", disk: {{path: {disk}, limit: 1GiB}}" if disk else ""
    cache = f"cache={{use: snapshots, ram: {ram}, every: {every}, min_tokens: {least}{where}}}"
    return Pipeline.load(overrides=[THREADS, CONTEXT, cache, *overrides]).open()


@pytest.fixture(scope="module")
def shared():
    """Suffix and MTP drafters, two sequences, RAM only."""
    with opened("max_sequences=2") as pipeline:
        yield pipeline


@pytest.fixture
def pipeline(shared):
    """`shared` with nothing in it."""
    forget_live(shared)
    shared.cache.store.flush()
    shared.cache.store.memory.clear()
    return shared


@pytest.fixture(scope="module")
def cold():
    """The same drafters without a cache."""
    with Pipeline.load(overrides=[THREADS, CONTEXT]).open() as pipeline:
        yield pipeline


def forget_live(pipeline: Pipeline) -> None:
    for slot in pipeline.decoder.slots:
        pipeline.decoder.states.clear(slot)


def talk(pipeline: Pipeline, length: int) -> list[int]:
    """A user's message of `length` tokens, different every time."""
    text = " ".join(_rng.choices(WORDS, k=2 * length))
    return pipeline.tokenize(f"<|im_start|>user\n{text}")[:length]


def run(
    pipeline: Pipeline,
    history: list[int],
    answer: int = 8,
    opening: bool = True,
    to_the_end: bool = True,
):
    """One turn, or its prefill only; the sequence."""
    prompt = [*history, *(pipeline.tokenize(OPENING) if opening else [])]
    request = Request(
        prompt=prompt,
        history=len(history) if opening else None,
        max_tokens=answer,
        ignore_eog=True,
    )
    sequence = pipeline.start(request)
    while not sequence.done and to_the_end:
        pipeline.step([sequence])
    return sequence


def assert_same_as_cold(sequence, cold: Pipeline) -> None:
    """The tokens of a cold run, or others only from a near tie on."""
    alone = cold.start(sequence.request)
    while not alone.done:
        cold.step([alone])
    for i, (a, b) in enumerate(zip(sequence.tokens, alone.tokens, strict=True)):
        if a != b:
            gap = logit_gap(cold, alone.tokens[:i], a, b)
            assert abs(gap) < NEAR_TIE, f"token {i}: {a} instead of {b}, logit gap {gap}"
            return


def logit_gap(cold: Pipeline, tokens: list[int], a: int, b: int) -> float:
    """By how much the model prefers `b` to `a` after `tokens`."""
    target = cold.engine.target
    slot = cold.decoder.slots[0]
    cold.decoder.states.clear(slot)
    target.need_logits(slot.id, True)
    target.batch.clear()
    target.batch.extend(tokens, 0, slot.id, last_output=True)
    target.decode()
    row = target.logits(len(tokens) - 1)
    gap = float(row[b] - row[a])
    cold.decoder.states.clear(slot)
    return gap


def generated(sequence) -> list[int]:
    return sequence.tokens[sequence.prompt_length :]


def hits(pipeline: Pipeline) -> dict[str, int]:
    return dict(pipeline.cache.statistics()["hits"])


def misses(pipeline: Pipeline) -> dict[str, int]:
    return dict(pipeline.cache.statistics()["misses"])


def newly(before: dict[str, int], after: dict[str, int]) -> list[str]:
    return [name for name, n in after.items() if n > before.get(name, 0)]


class TestWhatIsReused:
    def test_the_next_turn_continues_the_live_sequence(self, pipeline, cold):
        first = run(pipeline, talk(pipeline, 200))
        end = first.slot.length
        before = hits(pipeline)
        history = [*first.tokens, *talk(pipeline, 20)]
        second = run(pipeline, history)
        assert newly(before, hits(pipeline)) == ["live"]
        assert second.cached == end == len(first.tokens) - 1
        assert_same_as_cold(second, cold)

    def test_a_prompt_that_differs_in_its_last_tokens_rewinds_the_ring(self, pipeline, cold):
        history = talk(pipeline, 200)
        first = run(pipeline, history, answer=1, opening=False)
        depth = pipeline.engine.target.ring_depth
        assert first.slot.ring_reach(depth) == depth
        changed = [*history[:-depth], *talk(pipeline, 12)]
        before = hits(pipeline)
        second = run(pipeline, changed, opening=False)
        assert newly(before, hits(pipeline)) == ["ring"]
        assert second.cached == len(history) - depth
        assert_same_as_cold(second, cold)

    def test_the_ring_is_not_trusted_after_single_steps(self, pipeline, cold):
        """Known failure: eight plain steps, then a request that shares all but the last token."""
        history = talk(pipeline, 200)
        sequence = run(pipeline, history, answer=1, opening=False)
        slot = sequence.slot
        target = pipeline.engine.target
        for token in talk(pipeline, 8):
            target.batch.clear()
            target.batch.extend([token], slot.length, slot.id, True)
            target.decode()
            slot.tokens.append(token)
            slot.decoded(1)
        changed = [*slot.tokens[:-1], *talk(pipeline, 6)]
        before = hits(pipeline)
        second = run(pipeline, changed, opening=False)
        assert newly(before, hits(pipeline)) != ["ring"]
        assert_same_as_cold(second, cold)

    def test_a_snapshot_serves_when_the_live_sequence_is_gone(self, pipeline, cold):
        history = talk(pipeline, 200)
        run(pipeline, history)
        forget_live(pipeline)
        before = hits(pipeline)
        again = run(pipeline, history)
        assert newly(before, hits(pipeline)) == ["ram"]
        assert again.cached == len(history), "the history boundary"
        assert_same_as_cold(again, cold)

    def test_the_disk_serves_after_a_restart(self, tmp_path, cold):
        with opened(disk=tmp_path) as pipeline:
            history = talk(pipeline, 200)
            first = run(pipeline, history)
        with opened(disk=tmp_path) as pipeline:
            again = run(pipeline, history)
            assert hits(pipeline) == {"disk": 1}
            pipeline.cache.store.flush()
            statistics = pipeline.summary()["components"]["cache:snapshots"]
            assert statistics["tokens_saved"] == {"disk": len(history)}
            assert statistics["restore_ms"]["disk"] > 0
            assert statistics["store"]["disk_bytes"] == Directory(tmp_path).size()
            assert again.cached == len(history)
            more = run(pipeline, [*first.tokens, *talk(pipeline, 9)])
            assert more.cached == len(first.tokens) - 1
            assert generated(again) == generated(first)
            assert_same_as_cold(again, cold)

    @pytest.mark.parametrize("share", [0.25, 0.5, 0.9])
    def test_an_edit_finds_the_nearest_snapshot_before_it(self, pipeline, cold, share):
        history = talk(pipeline, 420)
        run(pipeline, history)
        depth = int(420 * share)
        edited = [*history[:depth], *talk(pipeline, 40)]
        second = run(pipeline, edited)
        assert second.cached == depth // 128 * 128
        assert_same_as_cold(second, cold)

    @pytest.mark.parametrize("length", [127, 128, 129, 256, 257, 513])
    def test_no_length_is_unlucky(self, pipeline, length):
        prompt = talk(pipeline, length)
        run(pipeline, prompt, answer=2, opening=False)
        forget_live(pipeline)
        assert run(pipeline, prompt, answer=2, opening=False).cached == length - TAIL

    def test_the_end_of_a_turn_is_kept_when_its_text_gives_the_same_tokens(self, pipeline):
        first = run(pipeline, talk(pipeline, 100))
        tail = first.tokens[first.request.history :]
        text = pipeline.engine.vocabulary.detokenize(tail).decode("utf-8", "replace")
        again = pipeline.tokenize(text)
        pipeline.cache.store.flush()
        kept = first.slot.length in {n for n, _ in pipeline.cache.store.memory.names()}
        assert kept == (again[: len(tail) - 1] == tail[:-1])


class TestSeveralConversations:
    def test_the_best_live_sequence_is_chosen(self, pipeline):
        base = talk(pipeline, 120)
        short = run(pipeline, base, answer=2)
        long = run(pipeline, [*talk(pipeline, 60), *base], answer=2)
        assert {short.slot.id, long.slot.id} == {0, 1}
        assert run(pipeline, [*long.tokens, 300]).slot is long.slot
        assert run(pipeline, [*short.tokens, 300]).slot is short.slot

    def test_a_conversation_is_snapshotted_before_another_one_takes_its_place(self, pipeline):
        ends = []
        for _ in range(4):
            sequence = run(pipeline, talk(pipeline, 90), answer=6)
            ends.append((sequence.tokens, sequence.slot.length))
        for tokens, length in ends:
            assert run(pipeline, [*tokens, *talk(pipeline, 5)], answer=2).cached == length

    def test_running_neighbours_are_not_disturbed(self, pipeline, cold):
        history = talk(pipeline, 150)
        run(pipeline, history)
        requests = [
            Request(prompt=[*history, *talk(pipeline, n)], max_tokens=24, ignore_eog=True)
            for n in (5, 40)
        ]
        sequences = [pipeline.start(r) for r in requests]
        while active := [s for s in sequences if not s.done]:
            pipeline.step(active)
        for sequence in sequences:
            assert_same_as_cold(sequence, cold)


class TestChats:
    """Through the chat template, as a server renders them."""

    def turn(self, pipeline, messages):
        prompt = pipeline.template.render({"messages": messages})
        tokens = pipeline.tokenize(prompt.text)
        history = len(pipeline.tokenize(prompt.text[: prompt.history]))
        request = Request(prompt=tokens, history=history, max_tokens=24, ignore_eog=True)
        sequence = pipeline.start(request)
        while not sequence.done:
            pipeline.step([sequence])
        return sequence

    def message(self, n: int) -> dict[str, str]:
        return {"role": "user", "content": " ".join(_rng.choices(WORDS, k=30 + n))}

    def test_a_client_that_drops_thinking_still_reuses_the_history(self, pipeline):
        messages, before = [], 0
        lost = pipeline.cache.statistics()["ends_of_turns"]["lost"]
        for n in range(3):
            messages.append(self.message(n))
            sequence = self.turn(pipeline, messages)
            assert sequence.cached >= before, "the last turn's history boundary"
            before = sequence.request.history
            messages.append({"role": "assistant", "content": f"That is answer {n}."})
        assert pipeline.cache.statistics()["ends_of_turns"]["lost"] == lost + 2

    def test_a_raw_answer_that_is_sent_back_continues_the_live_sequence(self, pipeline):
        first = self.turn(pipeline, [self.message(0)])
        end = pipeline.tokenize("<|im_end|>\n<|im_start|>user\nAnd then?<|im_end|>\n")
        second = run(pipeline, [*first.tokens, *end])
        assert second.cached == len(first.tokens) - 1


class TestDrafters:
    @pytest.mark.parametrize(
        "drafter",
        ["drafter={use: mtp}", "drafter={use: dflash2, model: outrider-nano-dflash2}"],
        ids=["mtp", "dflash2"],
    )
    def test_they_propose_the_same_from_a_snapshot_as_cold(self, drafter):
        """A drafter that never saw the cached tokens would be accepted less."""
        with opened(drafter) as pipeline:
            history = talk(pipeline, 160)
            counts = []
            for _ in range(2):
                pipeline.reset_statistics()
                sequence = run(pipeline, history, answer=60)
                counts.append((sequence.cached, pipeline.statistics.drafters, generated(sequence)))
                forget_live(pipeline)
            (none, cold_count, cold_tokens), (cached, warm_count, tokens) = counts
            assert (none, cached) == (0, len(history))
            assert tokens == cold_tokens
            assert warm_count == cold_count


class TestMisses:
    def test_each_has_its_reason(self, pipeline):
        def reason(history):
            before = misses(pipeline)
            run(pipeline, history, answer=1, opening=False)
            forget_live(pipeline)
            return newly(before, misses(pipeline))

        first = talk(pipeline, 60)
        assert reason(first) == ["none"]
        assert reason(first[:10]) == ["short"]
        assert reason([*first[:20], *talk(pipeline, 50)]) == ["diverged"]

    def test_the_budget_is_one(self):
        with opened(ram="1MiB", least=16) as pipeline:
            histories = [talk(pipeline, 60) for _ in range(2)]
            for history in (*histories, histories[0]):
                run(pipeline, history, answer=1)
                pipeline.cache.store.flush()
                forget_live(pipeline)
            assert misses(pipeline).get("budget") == 1
            assert pipeline.cache.statistics()["store"]["ram_bytes"] <= 1 << 20

    def test_another_configuration_is_one(self, tmp_path):
        with opened(disk=tmp_path) as pipeline:
            history = talk(pipeline, 60)
            run(pipeline, history)
        with opened("drafter.use=none", disk=tmp_path) as pipeline:
            assert run(pipeline, history).cached == 0
            assert misses(pipeline) == {"fingerprint": 1}
        assert len(Directory(tmp_path).entries()) > 1, "they are not ours to delete"

    def test_a_cache_that_never_hits_says_so(self, caplog):
        with opened() as pipeline, caplog.at_level(logging.WARNING, "outrider.cache"):
            for _ in range(9):
                run(pipeline, talk(pipeline, 40), answer=1)
        said = [r.message for r in caplog.records if "found anything" in r.message]
        assert len(said) == 1

    def test_a_live_sequence_that_cannot_be_cut_is_prefilled(self, pipeline, cold, monkeypatch):
        history = talk(pipeline, 60)
        run(pipeline, history, answer=1, opening=False)

        def refuse(slot, count):
            raise OutriderError("no")

        monkeypatch.setattr(pipeline.rollback, "rewind_slot", refuse)
        changed = [*history[:-2], *talk(pipeline, 4)]
        again = run(pipeline, changed, answer=1, opening=False)
        assert again.cached < len(history) - 2
        assert_same_as_cold(again, cold)

    def test_what_the_engine_refuses_is_prefilled(self, pipeline, cold, monkeypatch):
        history = talk(pipeline, 80)
        run(pipeline, history)
        forget_live(pipeline)

        def refuse(slot, data):
            raise OutriderError("no")

        with monkeypatch.context() as patch:
            patch.setattr(pipeline.drafter, "restore", refuse)
            before = misses(pipeline)
            again = run(pipeline, history)
            assert newly(before, misses(pipeline)) == ["refused"]
        assert again.cached == 0
        assert_same_as_cold(again, cold)


class TestDamage:
    def test_a_damaged_file_is_a_miss_and_is_deleted(self, tmp_path, cold, caplog):
        with opened(disk=tmp_path) as pipeline:
            history = talk(pipeline, 80)
            run(pipeline, history, answer=1)
        [entry] = [e for e in Directory(tmp_path).entries() if e.key[0] == len(history)]
        file = tmp_path / entry.name
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 4
        file.write_bytes(data)
        with opened(disk=tmp_path, every=0) as pipeline:
            again = run(pipeline, history)
            assert again.cached == 0
            assert misses(pipeline) == {"corrupt": 1}
            assert_same_as_cold(again, cold)
        assert [r.message for r in caplog.records if "checksum" in r.message]
        Directory(tmp_path).read(entry.name)  # the prompt that was prefilled wrote it again

    def test_a_full_disk_is_one_warning_and_ram_goes_on(self, tmp_path, caplog, monkeypatch):
        def full(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(Directory, "write", full)
        with opened(disk=tmp_path) as pipeline:
            history = talk(pipeline, 80)
            for _ in range(3):
                run(pipeline, history)
                run(pipeline, talk(pipeline, 70))
                pipeline.cache.store.flush()
                forget_live(pipeline)
            assert hits(pipeline)["ram"] >= 2
        assert len([r for r in caplog.records if "No space left" in r.message]) == 1

    def test_an_unusable_directory_is_one_warning_and_ram_goes_on(self, tmp_path, caplog):
        (tmp_path / "file").write_text("in the way")
        with opened(disk=tmp_path / "file" / "cache") as pipeline:
            history = talk(pipeline, 80)
            run(pipeline, history)
            forget_live(pipeline)
            assert run(pipeline, history).cached == len(history)
        assert len([r for r in caplog.records if "nothing more is written" in r.message]) == 1

    def test_a_read_only_mount_is_read_and_not_written(self, tmp_path, cold, caplog):
        there, seen = tmp_path / "there", tmp_path / "seen"
        seen.mkdir()
        with opened(disk=there) as pipeline:
            history = talk(pipeline, 80)
            run(pipeline, history, answer=1)
        for command in (["--bind", there, seen], ["-o", "remount,ro,bind", seen]):
            if subprocess.run(["mount", *command], capture_output=True, check=False).returncode:
                pytest.skip("only a privileged user can mount a directory")
        try:
            before = sorted(p.name for p in there.iterdir())
            with opened(disk=seen) as pipeline:
                from_disk = run(pipeline, history)
                assert from_disk.cached == len(history)
                assert hits(pipeline) == {"disk": 1}
                assert_same_as_cold(from_disk, cold)
                other = talk(pipeline, 90)
                run(pipeline, other)
                forget_live(pipeline)
                assert run(pipeline, other).cached == len(other)
                assert hits(pipeline) == {"disk": 1, "ram": 1}
            assert sorted(p.name for p in there.iterdir()) == before
        finally:
            subprocess.run(["umount", seen], check=True)
        assert len([r for r in caplog.records if "nothing more is written" in r.message]) == 1

    def test_a_file_that_cannot_be_read_is_a_miss(self, tmp_path, cold):
        with opened(disk=tmp_path) as pipeline:
            history = talk(pipeline, 80)
            run(pipeline, history, answer=1)
        [entry] = [e for e in Directory(tmp_path).entries() if e.key[0] == len(history)]
        (tmp_path / entry.name).unlink()
        (tmp_path / entry.name).mkdir()
        with opened(disk=tmp_path, every=0) as pipeline:
            again = run(pipeline, history)
            assert again.cached == 0
            assert misses(pipeline) == {"unreadable": 1}
            assert_same_as_cold(again, cold)


class TestTheBackgroundThread:
    def test_a_slow_disk_holds_up_no_step(self, tmp_path, monkeypatch):
        """Writes of half a second each, and steps of a few milliseconds beside them."""
        write, writing = Directory.write, threading.Event()

        def slow(*args):
            writing.set()
            time.sleep(0.5)
            return write(*args)

        monkeypatch.setattr(Directory, "write", slow)
        with opened(disk=tmp_path, every=32) as pipeline:
            sequence = run(pipeline, talk(pipeline, 200), answer=60, to_the_end=False)
            assert writing.wait(5.0)
            steps = []
            while not sequence.done:
                began = time.perf_counter()
                pipeline.step([sequence])
                steps.append(time.perf_counter() - began)
            assert not pipeline.cache.store.flush(0.0), "the disk was too fast to show anything"
        assert sorted(steps)[-2] < 0.25

    def test_the_last_of_a_conversation_is_kept_however_much_waits(self, pipeline, monkeypatch):
        """It waits for the thread; others are left out meanwhile."""
        snapshots = []
        for n in range(3):
            slot = run(pipeline, talk(pipeline, 60 + n), answer=1).slot
            snapshots.append(pipeline.decoder.states.snapshot(slot))
            forget_live(pipeline)

        def slow(snapshot):
            time.sleep(0.2)
            return pack(snapshot)

        monkeypatch.setattr(store_module, "pack", slow)
        store = store_module.Store(int(1.5 * snapshots[0].size), None, 0, "a fingerprint")
        store.put(snapshots[0], "every")
        store.put(snapshots[1], "every")
        assert store.counts["skipped"] == 1
        store.put(snapshots[2], store_module.EVICTED)
        assert key_of(token_array(snapshots[2].tokens)) in store
        assert store.counts["skipped"] == 1
        store.close()


def test_pausing_for_a_snapshot_does_not_change_the_answer(pipeline, cold):
    """Other batch shapes may round differently; here they lead to the same tokens."""
    history = talk(pipeline, 300)
    with_pauses = run(pipeline, history, answer=30)
    assert_same_as_cold(with_pauses, cold)


@pytest.mark.parametrize("error", [EngineError("no memory for it"), MemoryError()])
def test_a_snapshot_that_cannot_be_taken_fails_no_request(
    scripted_pipeline, monkeypatch, caplog, error
):
    pipeline = scripted_pipeline({"cache": {"use": "snapshots", "min_tokens": 2, "every": 0}})
    first, second = [260, 261, 262], [263, 264, 265]
    pipeline.generate(first, max_tokens=24)

    def fail(slot):
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(pipeline.decoder.states, "snapshot", fail)
        assert len(pipeline.generate(second, max_tokens=24).token_ids) == 24
        said = pipeline.generate(first, max_tokens=24).token_ids
        assert len(said) == 24
    assert "could be taken" in caplog.text
    assert pipeline.cache.statistics()["unusable"]["not saved"] > 0
    kept = pipeline.generate([*second, 266], max_tokens=24)
    again = pipeline.start(Request(prompt=[*first, *said, 267], max_tokens=2))
    assert len(kept.token_ids) == 24
    assert again.cached > 0
