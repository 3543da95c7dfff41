"""Two pipelines on the same prompt tokens: speed, acceptance, and whether the text is the same.

Greedy pipelines are compared token by token. Sampling pipelines are compared by distribution: the
total-variation distance of short continuations over many seeds, beside the distance that two
samples of the *same* pipeline have. No two samples share a seed.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs

from outrider.divergence import first_divergence
from outrider.errors import ConfigError, RequestError
from outrider.pipeline import Pipeline
from outrider.sequence import Request
from outrider.sequence import Sequence as Seq

Prompt = tuple[int, ...]
Counts = Counter[Prompt]

FIRST, LAST = 1, 3
"""Which generated tokens a continuation consists of: the first comes from the prefill, so the
second and third are the ones that drafts may have had a part in."""


@attrs.frozen
class Speed:
    """What one pipeline did over all prompts, once per repeat."""

    tokens_per_second: tuple[float, ...]
    acceptance: float
    acceptance_by_position: tuple[float, ...]
    mean_accepted_length: float

    @property
    def median(self) -> float:
        """The middle one of the repeats' tokens per second."""
        return statistics.median(self.tokens_per_second)


@attrs.frozen
class Divergences:
    """Greedy outputs: how many agree, and for each other one where and how clearly it parts."""

    prompts: int
    identical: int
    found: tuple[dict[str, Any], ...]


@attrs.frozen
class Distance:
    """Sampled outputs: total-variation distance over `seeds` seeds a prompt."""

    seeds: int
    between: float
    noise_floor: float


@attrs.frozen
class Comparison:
    """What `compare` found; exactly one of the last two is set."""

    speeds: tuple[Speed, Speed]
    divergences: Divergences | None
    distance: Distance | None


def tv_distance(a: Counts, b: Counts) -> float:
    """Total-variation distance of two empirical distributions: 0 equal, 1 disjoint."""
    n, m = a.total(), b.total()
    return 0.5 * sum(abs(a[x] / n - b[x] / m) for x in {*a, *b})


def count_continuations(
    pipeline: Pipeline, prompt: Prompt, seeds: Iterable[int], **sampling: Any
) -> Counts:
    """How often each continuation (tokens `FIRST` to `LAST`) comes out, one draw a seed.

    A sampler without a seed is greedy, and says the same every time. As many run at once as the
    pipeline has room for; a prefix cache is offered the prompt.
    """
    counts: Counts = Counter()
    left = list(seeds)
    together = len(pipeline.decoder.slots)
    while left:
        sequences: list[Seq] = []
        for seed in left[:together]:
            settings = {**sampling, **_sampling(pipeline, seed)}
            request = Request(prompt, sampling=settings, history=len(prompt) - 1, ignore_eog=True)
            sequences.append(pipeline.start(request))
        del left[:together]
        while short := [s for s in sequences if s.generated < LAST]:
            pipeline.step(short)
        for sequence in sequences:
            pipeline.decoder.abandon(sequence)
            counts[tuple(sequence.tokens[len(prompt) + FIRST : len(prompt) + LAST])] += 1
    return counts


def compare(
    a: Pipeline,
    b: Pipeline,
    prompts: Sequence[Prompt],
    *,
    max_tokens: int,
    repeats: int,
    seeds: int,
    progress: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Compare two open pipelines; they take turns, so that a slow machine slows both."""
    if a.engine.vocabulary.size != b.engine.vocabulary.size:
        raise ConfigError(
            f"{a.config.name} and {b.config.name} have different vocabularies "
            f"({a.engine.vocabulary.size} and {b.engine.vocabulary.size} tokens)"
        )
    sampled = not (a.sampler.greedy and b.sampler.greedy)
    if sampled:
        _needs_seed(a)
        _needs_seed(b)
    outputs, speeds = _run(a, b, prompts, max_tokens, repeats, progress)
    divergences = None if sampled else _divergences(a, prompts, outputs)
    distance = _distance(a, b, prompts, seeds, progress) if sampled else None
    return Comparison(speeds, divergences, distance)


def _needs_seed(pipeline: Pipeline) -> None:
    if not pipeline.sampler.greedy and not hasattr(pipeline.sampler.config, "seed"):
        raise ConfigError(
            f"{pipeline.config.name}: the sampler {pipeline.sampler.name!r} draws tokens but has "
            "no option `seed`, so its samples cannot be repeated or kept apart"
        )


def _sampling(pipeline: Pipeline, seed: int) -> dict[str, Any]:
    return {"seed": seed} if hasattr(pipeline.sampler.config, "seed") else {}


def _run(
    a: Pipeline,
    b: Pipeline,
    prompts: Sequence[Prompt],
    max_tokens: int,
    repeats: int,
    progress: Callable[[str], None],
) -> tuple[list[list[Prompt]], tuple[Speed, Speed]]:
    """The outputs of both (of the last repeat), and their speeds."""
    pair = (a, b)
    outputs: list[list[Prompt]] = [[], []]
    rates: tuple[list[float], list[float]] = ([], [])
    for pipeline in pair:
        pipeline.reset_statistics()
    for repeat in range(repeats):
        spent = [[0, 0], [0, 0]]
        outputs = [[], []]
        for i, prompt in enumerate(prompts):
            progress(f"speed: repeat {repeat + 1} of {repeats}, prompt {i + 1} of {len(prompts)}")
            for which in ((0, 1), (1, 0))[(repeat + i) % 2]:
                pipeline = pair[which]
                before = attrs.evolve(pipeline.statistics)
                sampling = _sampling(pipeline, repeat * len(prompts) + i)
                request = Request(prompt, max_tokens=max_tokens, sampling=sampling)
                sequence = pipeline.start(request)
                while sequence.finish is None:
                    pipeline.step([sequence])
                spent[which][0] += pipeline.statistics.emitted - before.emitted
                spent[which][1] += pipeline.statistics.step_ns - before.step_ns
                outputs[which].append(tuple(sequence.tokens[len(prompt) :]))
        for which in (0, 1):
            tokens, ns = spent[which]
            if ns == 0:
                raise RequestError(
                    f"{pair[which].config.name} ended after the first token of every prompt; "
                    "there is nothing to time"
                )
            rates[which].append(tokens * 1e9 / ns)
    return outputs, (_speed(a, rates[0]), _speed(b, rates[1]))


def _speed(pipeline: Pipeline, rates: list[float]) -> Speed:
    summary = pipeline.statistics.summary()
    return Speed(
        tuple(round(r, 1) for r in rates),
        summary["acceptance"],
        tuple(summary["acceptance_by_position"]),
        summary["mean_accepted_length"],
    )


def _divergences(
    pipeline: Pipeline, prompts: Sequence[Prompt], outputs: list[list[Prompt]]
) -> Divergences:
    found: list[dict[str, Any]] = []
    for i, (prompt, a, b) in enumerate(zip(prompts, *outputs, strict=True)):
        parted = first_divergence(pipeline, prompt, a, b)
        if parted is not None:
            near = parted.near_tie
            found.append({"prompt": i, **attrs.asdict(parted), "near_tie": near})
    return Divergences(len(prompts), len(prompts) - len(found), tuple(found))


def _distance(
    a: Pipeline,
    b: Pipeline,
    prompts: Sequence[Prompt],
    seeds: int,
    progress: Callable[[str], None],
) -> Distance:
    """Averages over the prompts."""
    between: list[float] = []
    floor: list[float] = []
    for i, prompt in enumerate(prompts):
        progress(f"distribution: prompt {i + 1} of {len(prompts)}, 3 × {seeds} seeds")
        first, again, other = (
            count_continuations(pipeline, prompt, range(k * seeds, (k + 1) * seeds))
            for k, pipeline in enumerate((a, a, b))
        )
        between.append(tv_distance(first, other))
        floor.append(tv_distance(first, again))
    return Distance(seeds, statistics.fmean(between), statistics.fmean(floor))
