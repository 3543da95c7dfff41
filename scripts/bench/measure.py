"""Runs engines against each other on the same prompts and puts the outcome into one record."""

from __future__ import annotations

import datetime
import hashlib
import itertools
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs

from bench import machine
from bench.engines import Generation, Measured, MeasuredError, OutriderEngine, Sampling
from bench.prompts import Prompt
from bench.statistics import divergence, spread

FORMAT = 1


def say(text: str) -> None:
    """What happens now, on standard error."""
    print(text, file=sys.stderr, flush=True)


@attrs.define
class Record:
    """A benchmark's raw JSON; saved after every prompt, so that a broken run can be resumed.

    `runs[sampling][engine][family/prompt]` is a list, one entry a run: tokens, times, acceptance.
    `cpu_ms` is processor time of the whole request, prefill included: on a machine that others use
    it is steadier than the clock.
    """

    path: Path
    settings: dict[str, Any]
    machine: dict[str, Any] = attrs.field(factory=dict)
    engines: dict[str, Any] = attrs.field(factory=dict)
    prompts: dict[str, Any] = attrs.field(factory=dict)
    runs: dict[str, Any] = attrs.field(factory=dict)
    divergences: list[dict[str, Any]] = attrs.field(factory=list)

    @classmethod
    def open(cls, path: Path, settings: dict[str, Any], resume: bool) -> Record:
        """A fresh record, or the unfinished one at `path` if it was made with these settings."""
        record = cls(path, settings, machine=machine.describe())
        if resume and path.is_file():
            found = json.loads(path.read_text())
            if found["settings"] != settings:
                say(f"{path.name} was made with other settings: starting anew")
            elif found["machine"]["commit"] != record.machine["commit"]:
                say(f"{path.name} was made at another commit: starting anew")
            else:
                record.machine = found["machine"]
                record.engines, record.prompts = found["engines"], found["prompts"]
                record.runs, record.divergences = found["runs"], found["divergences"]
        return record

    def entries(self, sampling: Sampling, engine: str, prompt: Prompt) -> list[dict[str, Any]]:
        """The runs of one engine on one prompt so far."""
        by_engine = self.runs.setdefault(sampling.name, {}).setdefault(engine, {})
        return by_engine.setdefault(f"{prompt.family}/{prompt.name}", [])

    def as_dict(self) -> dict[str, Any]:
        """What is written."""
        return {
            "format": FORMAT,
            **{f.name: getattr(self, f.name) for f in attrs.fields(Record) if f.name != "path"},
        }

    def save(self) -> None:
        """Write the file anew."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        scratch = self.path.with_suffix(".part")
        scratch.write_text(compact(self.as_dict()) + "\n")
        scratch.replace(self.path)


def compact(value: Any, depth: int = 0) -> str:
    """JSON with one line a measurement: to be read, compared and kept under version control."""
    inner = value.values() if isinstance(value, dict) else value
    nested = isinstance(value, (dict, list)) and any(
        isinstance(v, (dict, list)) and len(json.dumps(v)) > 400 for v in inner
    )
    if not nested and (not isinstance(value, (dict, list)) or depth > 0 or not value):
        return json.dumps(value, ensure_ascii=False)
    pad = " " * (depth + 1)
    if isinstance(value, dict):
        items = [f"{pad}{json.dumps(k)}: {compact(v, depth + 1)}" for k, v in value.items()]
        return "{\n" + ",\n".join(items) + "\n" + " " * depth + "}"
    return "[\n" + ",\n".join(pad + compact(v, depth + 1) for v in value) + "\n" + " " * depth + "]"


def digest(tokens: Sequence[int]) -> str:
    """A short name of a token list."""
    return hashlib.blake2b(json.dumps(list(tokens)).encode(), digest_size=8).hexdigest()


def entry(generation: Generation, seed: int, greedy: bool) -> dict[str, Any]:
    """One run as it is recorded; of sampled tokens, which the seed brings back, only a digest."""
    body: dict[str, Any] = {
        "seed": seed,
        "count": generation.count,
        "decode_ms": round(generation.decode_ms, 3),
        "prefill_ms": round(generation.prefill_ms, 3),
    }
    if generation.cpu_ms is not None:
        body["cpu_ms"] = round(generation.cpu_ms, 3)
    if generation.proposed:
        body |= {"proposed": generation.proposed, "accepted": generation.accepted}
    if generation.tokens is not None:
        tokens = list(generation.tokens)
        body |= {"tokens": tokens} if greedy else {"tokens_blake2b": digest(tokens)}
    else:
        body["text"] = generation.text
    return {**body, **generation.details}


def run(
    record: Record,
    engines: Sequence[Measured],
    prompts: Sequence[Prompt],
    warm_up: Prompt,
    samplings: Sequence[Sampling],
    *,
    runs: int,
    max_tokens: int,
    restart: bool = True,
    say: Callable[[str], None] = say,
) -> None:
    """Measure every engine on every prompt, `runs` times, the engines taking turns.

    All engines are alive at once; on each prompt they follow each other, forwards and backwards by
    turns, so that whatever else the machine does hits all of them alike. Before every run, and
    between samplings, they are started anew: a drafter that remembers earlier requests (ngram-mod
    does) would otherwise know the answers from before. After a start each decodes a prompt that is
    not counted.
    """
    record.prompts = {
        f"{p.family}/{p.name}": {"tokens": list(p.tokens), "count": len(p.tokens)} for p in prompts
    }
    record.machine.setdefault("load_average", []).append(machine.load_average())
    with ExitStack() as stack:
        alive = False
        for turn, sampling in itertools.product(range(runs), samplings):
            jobs = [
                prompt
                for prompt in prompts
                if any(len(record.entries(sampling, e.label, prompt)) <= turn for e in engines)
            ]
            if not jobs:
                continue
            if not alive or restart:
                stack.close()
                _start(record, engines, warm_up, samplings, max_tokens, stack, say)
                alive = True
            for number, prompt in enumerate(jobs):
                done = [record.entries(sampling, e.label, prompt) for e in engines]
                order = list(zip(engines, done, strict=True))
                for engine, entries in order if (turn + number) % 2 == 0 else reversed(order):
                    if len(entries) <= turn:
                        generation = engine.generate(prompt, max_tokens, sampling, turn + 1)
                        entries.append(entry(generation, turn + 1, sampling.temperature == 0))
                record.save()
                rates = ", ".join(
                    f"{e.label} {run_rate(entries[turn]):.0f}"
                    for e, entries in zip(engines, done, strict=True)
                )
                say(f"[run {turn + 1}, {number + 1}/{len(jobs)}] {prompt.name}: {rates} tokens/s")
    record.machine["load_average"].append(machine.load_average())
    _share(record)
    record.save()


def _start(
    record: Record,
    engines: Sequence[Measured],
    warm_up: Prompt,
    samplings: Sequence[Sampling],
    max_tokens: int,
    stack: ExitStack,
    say: Callable[[str], None],
) -> None:
    for engine in engines:
        say(f"starting {engine.label}")
        stack.enter_context(engine)
        record.engines[engine.label] = engine.describe()
        for sampling in samplings:
            engine.generate(warm_up, max_tokens, sampling, 0)


def _share(record: Record) -> None:
    """Keep greedy tokens once: where they are those of the first engine's first run, say so."""
    by_engine = record.runs.get("greedy", {})
    first = next(iter(by_engine), None)
    if first is None:
        return
    for name in record.prompts:
        base = by_engine[first][name][0].get("tokens")
        for label, by_prompt in by_engine.items():
            for i, found in enumerate(by_prompt[name]):
                if (label, i) != (first, 0) and base is not None and found.get("tokens") == base:
                    del found["tokens"]
                    found["same_as_reference"] = True


def run_rate(found: dict[str, Any]) -> float:
    """Tokens a second of one run."""
    return 1e3 * (found["count"] - 1) / found["decode_ms"] if found["decode_ms"] else 0.0


def rate(entries: Sequence[dict[str, Any]]) -> float:
    """Tokens a second of one engine on one prompt: of the median run."""
    return spread(run_rate(found) for found in entries).median


def find_divergences(record: Record, reference: str, probe: OutriderEngine) -> None:
    """Where greedy tokens differ from those of `reference`, and how near the tie was there.

    `gap` is the logit of the reference's token minus that of the other after the common prefix,
    read from a prefill of that prefix.
    """
    record.divergences = []
    by_engine = record.runs.get("greedy", {})
    for name, prompt in record.prompts.items():
        base = by_engine[reference][name][0]["tokens"]
        for label, by_prompt in by_engine.items():
            found = by_prompt[name][0]
            tokens = found.get("tokens")
            if tokens is None:
                continue
            index = divergence(tokens, base)
            if index is None:
                continue
            prefix = [*prompt["tokens"], *base[:index]]
            record.divergences.append(
                {
                    "engine": label,
                    "prompt": name,
                    "index": index,
                    "reference_token": base[index],
                    "token": tokens[index],
                    "gap": _gap(probe, prefix, base[index], tokens[index]),
                }
            )


def _gap(probe: OutriderEngine, prefix: list[int], a: int, b: int) -> float | None:
    try:
        gap = probe.gap(prefix, a, b)
    except MeasuredError as error:
        print(f"no logit gap: {error}", file=sys.stderr)
        return None
    return None if gap is None else round(gap, 4)


def today() -> str:
    """The date, as folders of published runs are named."""
    return datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat()
