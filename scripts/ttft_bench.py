#!/usr/bin/env python3
"""Time to first token of the second turn of a conversation, by where its beginning comes from.

    scripts/ttft_bench.py [--pipeline FILE] [--set KEY=VALUE …] [--tokens 1100] [--repeats 7] --json

cold: nothing is cached. live: the first turn is still in the target's memory. ring: so is a prompt
that differs in its last tokens only. ram, disk: a snapshot of the first turn; for the disk it is
read by a new process. Every number is a median over conversations that are all different, each of
which is also run cold, in turn with the rest; each path's continuation is compared with the cold
one. The cold runs take no snapshots. CPU times are given too: on a busy machine (and with one
thread) they tell more than the clock.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, perf_counter_ns, process_time_ns
from typing import Any

import attrs
from outrider import ComponentSpec, Pipeline, PrefixCache, Request
from outrider.errors import OutriderError

WORDS = (
    "the a each old new red small large river stone house cloud engine letter window garden turns "
    "reads writes holds moves opens counts keeps finds under over behind between after and or but "
    "while because seven eleven forty value table column branch signal harbour winter"
)
PATHS = ("live", "ring", "ram", "disk")
CONTINUED = 24


@attrs.frozen
class Conversation:
    """The first turn's prompt, and the message and generation prompt of the second turn."""

    first: tuple[int, ...]
    message: tuple[int, ...]
    opening: tuple[int, ...]


def conversation(
    pipeline: Pipeline, seed: int, tokens: int, answer: int, said: str
) -> Conversation:
    """A conversation whose second prompt has `tokens` tokens after an answer of `answer`."""
    rng = random.Random(seed)
    tokenize = pipeline.tokenize
    opening = tokenize("<|im_start|>assistant\n")
    message = tokenize(f"<|im_end|>\n<|im_start|>user\n{said}<|im_end|>\n")
    head, tail = tokenize("<|im_start|>user\n"), tokenize("<|im_end|>\n")
    length = tokens - answer - len(message) - 2 * len(opening) - len(head) - len(tail)
    filler = tokenize(" ".join(rng.choices(WORDS.split(), k=2 * tokens)))[:length]
    return Conversation((*head, *filler, *tail, *opening), tuple(message), tuple(opening))


def run(pipeline: Pipeline, prompt: tuple[int, ...], opening: int, n: int) -> dict[str, Any]:
    """One request: time to first token in ms, tokens found in the cache, the continuation."""
    request = Request(prompt=prompt, history=len(prompt) - opening, max_tokens=n, ignore_eog=True)
    start, cpu = perf_counter_ns(), process_time_ns()
    sequence = pipeline.start(request)
    ms, cpu_ms = (perf_counter_ns() - start) / 1e6, (process_time_ns() - cpu) / 1e6
    while not sequence.done:
        pipeline.step([sequence])
    return {
        "ms": ms,
        "cpu_ms": cpu_ms,
        "cached": sequence.cached,
        "tokens": sequence.tokens[len(prompt) :],
    }


class Bench:
    """The measurements of one process."""

    def __init__(self, args: argparse.Namespace, directory: Path, ram: str) -> None:
        self.args = args
        disk = f"{{path: {json.dumps(str(directory))}, limit: 100GiB}}"
        cache = f"cache={{use: snapshots, ram: {ram}, disk: {disk}}}"
        overrides = [*args.set, "max_sequences=1", cache]
        self.pipeline = Pipeline.load(args.pipeline, model=args.model, overrides=overrides).open()
        self.decoder = self.pipeline.decoder
        self.cache = self.decoder.cache
        self.none = self.pipeline.build("cache", ComponentSpec("none", PrefixCache.Config()))

    def forget_live(self) -> None:
        """Empty the target's memory; snapshots stay."""
        for slot in self.decoder.slots:
            self.decoder.states.clear(slot)

    def cold(self, prompt: tuple[int, ...], opening: int, n: int = CONTINUED) -> dict[str, Any]:
        """A request without any cache, which leaves nothing behind."""
        self.decoder.cache = self.none
        try:
            return run(self.pipeline, prompt, opening, n)
        finally:
            self.decoder.cache = self.cache
            self.forget_live()

    def second_turn(self, talk: Conversation) -> tuple[int, ...]:
        """Run the first turn; the second turn's prompt."""
        self.forget_live()
        answer = run(self.pipeline, talk.first, len(talk.opening), CONTINUED)
        return (*talk.first, *answer["tokens"], *talk.message, *talk.opening)

    def measure(self, path: str, seed: int) -> dict[str, Any]:
        """One conversation: its second turn by `path`, and cold."""
        talk = conversation(self.pipeline, seed, self.args.tokens, CONTINUED, self.args.message)
        prompt, opening = self.second_turn(talk), len(talk.opening)
        found: dict[str, Any] = {
            "path": path,
            "prompt": prompt,
            "opening": opening,
            "new": len(talk.message) + opening,
        }
        if path == "ring":
            depth = min(self.decoder.engine.target.ring_depth, opening - 1)
            if depth < 1:
                return {**found, "skipped": "the context has no snapshot ring"}
            changed = tuple((t + 1) % self.decoder.engine.target.n_vocab for t in prompt[-depth:])
            run(self.pipeline, (*prompt[:-depth], *changed), opening, 1)
        if path == "ram":
            self.forget_live()
        self.cache.store.flush()
        if path != "disk":
            before = dict(self.cache.statistics()["hits"])
            found |= run(self.pipeline, prompt, opening, CONTINUED)
            found["source"] = _source(before, self.cache.statistics()["hits"])
        found["cold"] = self.cold(prompt, opening)
        return found

    def from_disk(self, items: Iterator[Any]) -> Iterator[dict[str, Any]]:
        """The disk path, in a process that has nothing in memory."""
        warm = conversation(self.pipeline, -1, self.args.tokens, CONTINUED, self.args.message)
        self.cold(warm.first, len(warm.opening), 2)
        for prompt, opening in items:
            before = dict(self.cache.statistics()["hits"])
            found = run(self.pipeline, tuple(prompt), opening, CONTINUED)
            found["source"] = _source(before, self.cache.statistics()["hits"])
            self.cache.store.flush()
            self.forget_live()
            yield found


def _source(before: dict[str, int], after: dict[str, int]) -> str:
    return next((tier for tier, n in after.items() if n > before.get(tier, 0)), "none")


def bench(args: argparse.Namespace) -> dict[str, Any]:
    """All paths; see the module's docstring."""
    with tempfile.TemporaryDirectory(prefix="outrider-ttft-") as folder:
        end = monotonic() + args.limit
        here = Bench(args, Path(folder), "4GiB")
        here.measure("live", 10**6)
        samples: list[dict[str, Any]] = []
        for i, j in itertools.product(range(args.repeats), range(len(PATHS))):
            if PATHS[j] in args.paths and (not samples or monotonic() < end):
                samples.append(here.measure(PATHS[j], i * len(PATHS) + j))
        cache = here.cache.statistics()
        here.pipeline.close()
        on_disk = [s for s in samples if s["path"] == "disk"]
        if on_disk:
            restarted(folder, on_disk)
    if monotonic() < end:
        add_gaps(args, [s for s in samples if "ms" in s and s["tokens"] != s["cold"]["tokens"]])
    return report(samples, cache)


def restarted(folder: str, samples: list[dict[str, Any]]) -> None:
    """Run these second turns in another process, which has only the folder's snapshots."""
    items = json.dumps([[s["prompt"], s["opening"]] for s in samples])
    command = [sys.executable, __file__, *sys.argv[1:], "--from-disk", folder]
    child = subprocess.run(command, input=items, capture_output=True, text=True, check=False)
    if child.returncode:
        raise OutriderError(f"the restarted process failed: {child.stderr.strip()[-500:]}")
    for sample, found in zip(samples, json.loads(child.stdout), strict=True):
        sample |= found


def add_gaps(args: argparse.Namespace, different: list[dict[str, Any]]) -> None:
    """Where a continuation leaves the cold one: by how many logits the cold token is ahead."""
    if not different:
        return
    overrides = [*args.set, "max_sequences=1", "cache=none"]
    with Pipeline.load(args.pipeline, model=args.model, overrides=overrides).open() as pipeline:
        target = pipeline.engine.target
        target.need_logits(0, True)
        for sample in different:
            mine, cold = sample["tokens"], sample["cold"]["tokens"]
            at = next(i for i, pair in enumerate(zip(mine, cold, strict=True)) if len({*pair}) > 1)
            tokens = [*sample["prompt"], *cold[:at]]
            target.clear(0)
            for start in range(0, len(tokens), target.n_batch):
                rows = tokens[start : start + target.n_batch]
                target.batch.clear()
                target.batch.extend(rows, start, 0, last_output=True)
                target.decode()
            logits = target.logits(len(rows) - 1)
            gap = round(float(logits[cold[at]] - logits[mine[at]]), 4)
            sample["differs"] = {"after": at, "logit_gap": gap}


def report(samples: list[dict[str, Any]], cache: dict[str, Any]) -> dict[str, Any]:
    """Medians, speed-ups over cold, and whether the continuations agree."""
    cold = statistics.median(s["cold"]["ms"] for s in samples if "cold" in s)
    result: dict[str, Any] = {"cold_ms": round(cold, 3)}
    details: dict[str, Any] = {}
    for path in PATHS:
        mine = [s for s in samples if s["path"] == path and "ms" in s]
        result[f"{path}_ms"] = round(statistics.median(s["ms"] for s in mine), 3) if mine else None
        if mine:
            details[path] = {
                "times_faster": _ratio(mine, "ms"),
                "times_less_cpu": _ratio(mine, "cpu_ms"),
                "sources": sorted({s["source"] for s in mine}),
                "cached_tokens": sorted({s["cached"] for s in mine}),
                "same_as_cold": sum(s["tokens"] == s["cold"]["tokens"] for s in mine),
                "differing": [s["differs"] for s in mine if "differs" in s],
                "runs": len(mine),
                "ms": [round(s["ms"], 3) for s in mine],
                "cold_ms": [round(s["cold"]["ms"], 3) for s in mine],
                "cpu_ms": [round(s["cpu_ms"], 3) for s in mine],
                "cold_cpu_ms": [round(s["cold"]["cpu_ms"], 3) for s in mine],
            }
    result["prompt_tokens"] = len(samples[0]["prompt"])
    result["new_tokens"] = samples[0]["new"]
    result["details"] = details
    result["cache"] = cache
    return result


def _ratio(samples: list[dict[str, Any]], what: str) -> float:
    """Median of cold over cached."""
    return round(statistics.median(s["cold"][what] / s[what] for s in samples), 1)


def _paths(text: str) -> tuple[str, ...]:
    paths = tuple(text.split(","))
    if unknown := set(paths) - {*PATHS}:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; there are {PATHS}")
    return paths


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pipeline", type=Path, help="pipeline file; its cache is replaced")
    parser.add_argument("--model", help="model file or packaged name")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--tokens", type=int, default=1100, help="length of the second prompt")
    parser.add_argument(
        "--message",
        default="And then? Tell me what the others did after the bridge was gone.",
        help="the user's second message",
    )
    parser.add_argument("--repeats", type=int, default=7, help="conversations a path")
    parser.add_argument("--paths", type=_paths, default=PATHS, help="only these, by commas")
    parser.add_argument(
        "--limit", type=float, default=float("inf"), help="seconds after which none is begun"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--from-disk", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    try:
        if args.from_disk:
            there = Bench(args, args.from_disk, "0")
            print(json.dumps(list(there.from_disk(json.load(sys.stdin)))))
            there.pipeline.close()
            return
        result = bench(args)
    except OutriderError as error:
        sys.exit(f"ttft_bench: {error}")
    if args.json:
        print(json.dumps(result))
        return
    for path in ("cold", *PATHS):
        ms, more = result[f"{path}_ms"], result["details"].get(path)
        note = f"  {more['times_faster']}× faster, cached {more['cached_tokens']}" if more else ""
        print(f"{path:5} {'–' if ms is None else f'{ms:9.2f} ms'}{note}")


if __name__ == "__main__":
    main()
