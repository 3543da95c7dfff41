"""Random multi-turn histories with edits at random depths, with the cache and without."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Sequence as ListOf
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from outrider import Assembly, Pipeline, PrefixCache, Request, Sequence, Slot

PIPELINES = {
    "suffix": ["drafter={use: suffix, min_match: 2}", "draft_length={use: fixed, k: 6}"],
    "mtp": ["drafter={use: mtp}", "draft_length={use: fixed, k: 3}"],
    "dflash2": [
        "drafter={use: dflash2, model: outrider-nano-dflash2}",
        "draft_length={use: fixed, k: 7}",
    ],
}
ANSWER = 14
NEAR_TIE = 0.25
"""Logits that are closer than this may change places when a batch has another shape."""

WRONG_STATE = 0.005
"""Normalised squared error of the first logits that no batch shape explains: such errors are below
0.0005; a state that is two tokens off has 0.02 or more."""

TEXTS = [
    "You are a careful assistant who answers in short sentences. ",
    "def add(a, b):\n    return a + b\n\n\nclass Table:\n    def __init__(self, rows):\n",
    "The river turns east behind the stone house, and the garden wall follows it. ",
    "import json\n\nwith open(path) as file:\n    data = json.load(file)\nfor key in data:\n",
    "List the even numbers: 2, 4, 6, 8, 10, 12, 14, 16, 18, 20. ",
    "What is 17 + 25? Add the tens, then the ones. ",
]


class Split(PrefixCache):
    """Caches nothing, but pauses prefill where a cached run did: the same batch shapes."""

    places: tuple[int, ...] = ()

    def boundaries(self, request: Request, start: int) -> tuple[int, ...]:
        """Where to pause."""
        return tuple(p for p in self.places if p > start)


@attrs.define
class Talk:
    """A conversation as a client holds it: rendered tokens, and the last answer's."""

    history: list[int]
    answer: list[int] = attrs.field(factory=list[int])
    prompt: list[int] = attrs.field(factory=list[int])


@attrs.define
class Outcome:
    """One request with the cache and without."""

    source: str
    cached: int
    prompt: int
    nmse: float
    divergence: int | None = None
    gap: float = 0.0


class Histories:
    """Two pipelines of one kind: `cached`, and `cold`, which only splits prefill alike."""

    def __init__(self, kind: str, directory: Path) -> None:
        disk = f"disk: {{path: {directory}, limit: 1GiB}}"
        # near a quarter of what is taken fits into RAM, so that the disk is needed too
        cache = f"cache={{use: snapshots, ram: 24MiB, {disk}, every: 96, min_tokens: 16}}"
        base = ["engine.threads=1", "engine.context=1024", *PIPELINES[kind]]
        self.cached = Pipeline.load(overrides=[*base, "max_sequences=2", cache]).open()
        self.cold = Pipeline.load(overrides=[*base, "cache=none"]).open()
        for pipeline in (self.cached, self.cold):
            # logits are compared too, so they must come back from the device
            pipeline.sampler.needs_logits = lambda sequence: True
        self.split = Split(PrefixCache.Config(), Assembly(self.cold, "split"))
        self.cold.decoder.cache = self.split
        self.length = ANSWER
        self.opening = self.cold.tokenize("<|im_start|>assistant\n")

    def close(self) -> None:
        """Close both."""
        self.cached.close()
        self.cold.close()

    # --- requests -----------------------------------------------------------------------------

    def compare(self, prompts: ListOf[list[int]]) -> list[Outcome]:
        """Run prompts at the same time with the cache, then each alone without."""
        pipeline = self.cached
        running: list[tuple[Sequence, str, tuple[int, ...], Any]] = []
        for prompt in prompts:
            before = Counter(pipeline.cache.statistics()["hits"])
            sequence = pipeline.start(self._request(prompt))
            after = Counter(pipeline.cache.statistics()["hits"])
            source = next(iter(after - before), "none")
            pauses = (sequence.cached, *sorted(pipeline.cache.pauses))
            running.append((sequence, source, pauses, self._logits(pipeline)))
        while active := [s for s, *_ in running if not s.done]:
            pipeline.step(active)
        self.answers = [s.tokens[len(p) :] for (s, *_), p in zip(running, prompts, strict=True)]
        return [self._against_cold(*item) for item in running]

    def _request(self, prompt: list[int]) -> Request:
        history = len(prompt) - len(self.opening)
        return Request(prompt=prompt, history=history, max_tokens=self.length, ignore_eog=True)

    def _logits(self, pipeline: Pipeline) -> Any:
        target = pipeline.engine.target
        return target.logits(target.batch.size - 1).astype(np.float64)

    def _against_cold(
        self, sequence: Sequence, source: str, pauses: tuple[int, ...], logits: Any
    ) -> Outcome:
        prompt = list(sequence.request.prompt)
        self.split.places = pauses
        cold = self.cold.start(self._request(prompt))
        expected = self._logits(self.cold)
        nmse = float(((logits - expected) ** 2).sum() / ((expected - expected.mean()) ** 2).sum())
        while not cold.done:
            self.cold.step([cold])
        outcome = Outcome(source, sequence.cached, len(prompt), nmse)
        for i, (a, b) in enumerate(zip(sequence.tokens, cold.tokens, strict=True)):
            if a != b:
                outcome.divergence = i - len(prompt)
                outcome.gap = self._gap(cold.tokens[:i], a, b)
                break
        return outcome

    def _gap(self, tokens: list[int], a: int, b: int) -> float:
        """By how much plain decoding of `tokens` prefers `b` to `a`, in logits."""
        self.split.places = ()
        sequence = self.cold.start(Request(prompt=tokens, max_tokens=1, ignore_eog=True))
        row = self._logits(self.cold)
        assert sequence.done
        return float(row[b] - row[a])

    # --- histories ----------------------------------------------------------------------------

    def message(self, rng: random.Random) -> list[int]:
        """What a user says."""
        text = "".join(rng.choice(TEXTS) for _ in range(rng.randint(1, 3)))
        return self.cold.tokenize(f"<|im_start|>user\n{text}<|im_end|>\n")

    def edit(self, rng: random.Random, talk: Talk) -> None:
        """Cut the conversation at a random depth and say something else."""
        depth = rng.randrange(1, len(talk.history))
        talk.history = [*talk.history[:depth], *self.message(rng)]

    def go_on(self, rng: random.Random, talk: Talk) -> None:
        """The next turn, the answer sent back as it was, shortened, or re-rendered."""
        answer = list(talk.answer)
        match rng.randrange(6):
            case 0:
                answer = answer[rng.randrange(len(answer) + 1) :]
            case 1:
                answer = answer[: rng.randrange(len(answer) + 1)]
            case 2:
                answer = answer[: -rng.randint(1, 4)]
            case _:
                pass
        end = self.cold.tokenize("<|im_end|>\n")
        talk.history = [*talk.history, *self.opening, *answer, *end, *self.message(rng)]

    def prompts(self, rng: random.Random, talks: list[Talk]) -> list[list[int]]:
        """The next request or two."""
        chosen = rng.sample(talks, 2) if rng.random() < 0.25 else [rng.choice(talks)]
        result: list[list[int]] = []
        for talk in chosen:
            kind = rng.random()
            if not talk.prompt:
                talk.history = self.message(rng)
            elif kind < 0.45:
                self.go_on(rng, talk)
            elif kind < 0.70:
                self.edit(rng, talk)
            elif kind < 0.85 and len(talk.prompt) > 8:
                # the last tokens differ: what the ring is for
                cut = rng.randint(1, 6)
                result.append([*talk.prompt[:-cut], *rng.choices(range(100, 4000), k=cut)])
                continue
            if len(talk.history) > 700:
                talk.history = talk.history[: rng.randrange(100, 300)]
            talk.prompt = [*talk.history, *self.opening]
            result.append(talk.prompt)
        return result

    def forget_ram(self) -> None:
        """From here on only the disk remembers."""
        self.cached.cache.store.flush()
        self.cached.cache.store.memory.clear()

    def history(self, seed: int) -> list[Outcome]:
        """One random history of two conversations."""
        rng = random.Random(seed)
        talks = [Talk([]), Talk([])]
        outcomes: list[Outcome] = []
        for _ in range(rng.randint(5, 8)):
            if rng.random() < 0.15:
                for slot in self.cached.decoder.slots:
                    self.cached.decoder.states.clear(slot)
            if rng.random() < 0.2:
                self.forget_ram()
            self.length = 1 if rng.random() < 0.3 else ANSWER
            prompts = self.prompts(rng, talks)
            outcomes += self.compare(prompts)
            for talk in talks:
                for prompt, answer in zip(prompts, self.answers, strict=True):
                    if talk.prompt == prompt:
                        talk.answer = answer
        return outcomes


def believe_too_much() -> None:
    """The mistake that the cache must not make: trust the ring as far as llama.cpp accepts."""
    Slot.ring_reach = lambda slot, ring_depth: min(ring_depth, slot.length - 1)  # type: ignore[method-assign]


def run(kind: str, count: int, seed: int, *, control: bool = False) -> dict[str, Any]:
    """`count` histories; whether every answer was the cold one, up to near ties."""
    if control:
        believe_too_much()
    with tempfile.TemporaryDirectory(prefix="outrider-histories-") as name:
        histories = Histories(kind, Path(name))
        outcomes = [o for i in range(count) for o in histories.history(seed * 100_000 + i)]
        cache = histories.cached.cache.statistics()
        histories.close()
    return report(kind, count, outcomes, cache)


def report(kind: str, count: int, outcomes: list[Outcome], cache: Any) -> dict[str, Any]:
    """The figures, and `held`."""
    sources = Counter(o.source for o in outcomes)
    different = [o for o in outcomes if o.divergence is not None]
    wrong = [o for o in different if abs(o.gap) > NEAR_TIE]
    wrong += [o for o in outcomes if o.nmse > WRONG_STATE and o not in wrong]
    return {
        "held": not wrong,
        "pipeline": kind,
        "histories": count,
        "requests": len(outcomes),
        "by_source": dict(sources),
        "prompt_tokens": sum(o.prompt for o in outcomes),
        "cached_tokens": sum(o.cached for o in outcomes),
        "equal": len(outcomes) - len(different),
        "near_ties": [attrs.asdict(o) for o in different if o not in wrong],
        "wrong": [attrs.asdict(o) for o in wrong],
        "largest_gap": max((abs(o.gap) for o in different), default=0.0),
        "nmse_of_first_logits": {
            source: {
                "median": float(np.median([o.nmse for o in outcomes if o.source == source])),
                "largest": max(o.nmse for o in outcomes if o.source == source),
            }
            for source in sources
        },
        "cache": cache,
    }
