#!/usr/bin/env python3
"""Try a draft length on recorded texts, drafts and costs: no model, a second a run, any noise.

    scripts/replay_lengths.py record --out texts.json.gz         once, some minutes
    scripts/replay_lengths.py run texts.json.gz --length adaptive --set probe=0.02 --out run.json

`record` decodes every prompt with the embedded model, greedily, and at every place asks the block
drafter for as many drafts as it can give, without taking them; it measures what steps and drafts
cost on the way. `run` plays that back: the real cascade, suffix drafter and draft length, beside
every fixed length. Each seed is another order of the texts, other noise, and another calibration
that is off by up to a quarter. What is shown are ratios to plain decoding, means over the seeds,
with the worst seed: a policy that is good on average can be lost in one run of twenty.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path
from statistics import mean, median
from typing import Any

import attrs
import yaml
from bench import machine, prompts
from bench.measure import compact
from bench.replay import Recording, Text, Truth, mean_ratio, rates
from draft_lengths import RANDOM, noise
from outrider import Assembly, ConfigError, DraftLength, OutriderError, Pipeline, Request
from outrider.config import override
from outrider.plugins import installed

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "examples" / "pipelines" / "adaptive.yaml"
PLUGIN = Path(__file__).with_name("bench") / "recording.py"
SETTLING = 8
"""Steps after a prefill that are looked at one by one."""
NEAR, FAR = 5, 65
"""Steps between drafts that show what a block drafter has to catch up with."""
BLOCK_DRAFTER = "drafter={use: dflash2, model: outrider-nano-dflash2}"
Job = tuple[str, str, list[int]]
"""Family, name and tokens of a prompt."""


def main() -> int:
    """Record or run; returns the exit status."""
    options = parse()
    try:
        if options.out:
            # before minutes of work, not after them
            options.out.parent.mkdir(parents=True, exist_ok=True)
        if options.command == "record":
            record(options).save(options.out)
        else:
            result = run(options)
            show(result)
            if options.out:
                options.out.write_text(compact(result) + "\n")
    except (OutriderError, OSError) as error:
        print(f"replay_lengths: {error}", file=sys.stderr)
        return 1
    return 0


# --- recording ----------------------------------------------------------------------------------


def record(options: argparse.Namespace) -> Recording:
    """Decode, look at drafts, and measure."""
    common = [
        f"plugins=[{json.dumps(str(PLUGIN))}]",
        f"engine.threads={options.threads}",
        f"engine.clock={options.clock}",
    ]
    adaptive = Pipeline.load(FILE, overrides=common).open()
    known = adaptive.draft_length.statistics()
    most = len(known["drafting_us"]["dflash2"]) - 1
    jobs = [
        (p.family, p.name, list(p.tokens))
        for p in prompts.load(adaptive, per_family=options.per_family)
    ]
    jobs += [(RANDOM, f"seed {i}", noise(adaptive, i)) for i in range(options.random)]
    thinking = _time_thinking(adaptive)
    for _, _, prompt in random.Random(0).sample(jobs, len(jobs)):
        adaptive.run(Request(prompt=prompt, max_tokens=options.tokens, ignore_eog=True))
    known = adaptive.draft_length.statistics()
    adaptive.close()
    look = [*common, BLOCK_DRAFTER]
    plain, settling = _plain(
        Pipeline.load(FILE, overrides=[*look, "draft_length={use: timing, k: 0}"]).open(), jobs
    )
    refusing = ["sampler=refusing", f"draft_length={{use: timing, k: {most}}}"]
    texts = _texts(Pipeline.load(FILE, overrides=[*look, *refusing]).open(), jobs, options.tokens)
    habits = _habits(common, jobs, most)
    batches = habits.pop("batch") / known["rows_us"][most]
    pace = plain / known["rows_us"][0]
    truth = Truth(
        rows=(round(plain, 1), *(round(us * batches, 1) for us in known["rows_us"][1:])),
        drafting=tuple(round(us * pace, 1) for us in known["drafting_us"]["dflash2"]),
        lookup=round(median(known["drafting_us"]["suffix"][1:]), 1),
        thinking=tuple(round(median(us), 1) if us else 0.0 for us in thinking),
        settling=settling,
        **habits,
    )
    about = {"machine": machine.describe(), "settings": vars(options) | {"out": None}}
    return Recording(about, truth, texts)


def _time_thinking(pipeline: Pipeline) -> tuple[list[float], list[float]]:
    """Will hold what drafting takes in steps without drafts: where nobody is asked, and where."""
    quiet: list[float] = []
    asking: list[float] = []
    length: Any = pipeline.draft_length
    choose, observe = length.choose, length.observe
    asked = False

    def choosing(sequences: Any) -> Any:
        nonlocal asked
        limits = choose(sequences)
        asked = limits[0] > 0
        return limits

    def observing(sequences: Any, steps: Any, draft_us: float, rest_us: float) -> None:
        if not steps[0].draft.tokens:
            (asking if asked else quiet).append(draft_us)
        observe(sequences, steps, draft_us, rest_us)

    length.choose, length.observe = choosing, observing
    return quiet, asking


def _plain(pipeline: Pipeline, jobs: list[Job]) -> tuple[float, Any]:
    """µs of a plain step, and by how much the first ones of a request are dearer."""
    length: Any = pipeline.draft_length
    by_step: list[list[float]] = []
    for _, _, prompt in jobs:
        length.spent.clear()
        pipeline.run(Request(prompt=prompt, max_tokens=64, ignore_eog=True))
        by_step.append([rest for _, rest in length.spent])
    pipeline.close()
    usual = median(us for steps in by_step for us in steps[SETTLING:])
    first = (median(s[i] for s in by_step) / usual for i in range(SETTLING))
    return usual, tuple(round(max(1.0, ratio), 3) for ratio in first)


def _habits(common: list[str], jobs: list[Job], k: int) -> dict[str, float]:
    """What a change of rows and a block drafter left alone cost, in µs, and one beside batches."""

    def seen(drafter: str, every: int) -> _Stages:
        length = f"draft_length={{use: timing, k: {k}, every: {every}}}"
        overrides = [*common, drafter, "sampler=refusing", length]
        return _stages(Pipeline.load(FILE, overrides=overrides).open(), jobs[::3], every)

    alone, left = seen("drafter=nothing", 1), seen("drafter=nothing", NEAR)
    crowded, near, far = (seen(BLOCK_DRAFTER, every) for every in (1, NEAR, FAR))
    waiting = max(0.0, (far.draft - near.draft) / (FAR - NEAR))
    return {
        "batch": alone.batch,
        "beside": round(max(1.0, crowded.batch / alone.batch), 3),
        # the way there is taken to cost what the way back does
        "enter": round(max(0.0, left.after - left.plain), 1),
        "leave": round(max(0.0, left.after - left.plain), 1),
        "waiting": round(waiting, 2),
        "catch_up": round(max(0.0, near.draft - crowded.draft - (NEAR - 1) * waiting), 1),
    }


@attrs.frozen
class _Stages:
    """Medians in µs: drafting, the batch, the plain step after it, other plain steps."""

    draft: float
    batch: float
    after: float
    plain: float


def _stages(pipeline: Pipeline, jobs: list[Job], every: int) -> _Stages:
    length: Any = pipeline.draft_length
    drafts: list[float] = []
    places: dict[int, list[float]] = {0: [], 1: [], 2: []}
    for _, _, prompt in jobs:
        length.spent.clear()
        pipeline.run(Request(prompt=prompt, max_tokens=2 * max(every, 16) + 4, ignore_eog=True))
        for step, (draft_us, rest_us) in enumerate(length.spent):
            # the first time there is a prompt to follow, and a graph to build
            if step <= max(every, SETTLING):
                continue
            place = (step + 1) % every
            if place == 0:
                drafts.append(draft_us)
            places[min(place, 2)].append(rest_us)
    pipeline.close()
    batch, after, plain = (median(us) if us else 0.0 for us in places.values())
    return _Stages(median(drafts), batch, after, plain)


def _texts(pipeline: Pipeline, jobs: list[Job], tokens: int) -> tuple[Text, ...]:
    """Texts, with the drafts that would have held."""
    sampler: Any = pipeline.sampler
    texts: list[Text] = []
    for family, name, prompt in jobs:
        sampler.held.clear()
        request = Request(
            prompt=prompt, max_tokens=tokens + pipeline.draft_length.max, ignore_eog=True
        )
        said = tuple(pipeline.run(request).token_ids[:tokens])
        held = tuple(sampler.held[:tokens])
        texts.append(Text(family, name, tuple(prompt), said, held))
        print(f"{family} {name}: {mean(held[1:]):.2f} drafts would have held", flush=True)
    pipeline.close()
    return tuple(texts)


# --- replaying ----------------------------------------------------------------------------------


def build(name: str, overrides: list[str]) -> DraftLength:
    """A draft length of an installed plugin, with options as in a pipeline file."""
    registry = installed()
    entry = registry.find("draft_length", name)
    if entry is None:
        raise ConfigError(registry.unknown("draft_length", name))
    values = {key: yaml.safe_load(value) for key, _, value in (t.partition("=") for t in overrides)}
    config = override(entry.cls.Config(), values, where=f"draft_length {name}")
    return entry.cls(config, Assembly(None, name=name))


def run(options: argparse.Namespace) -> dict[str, Any]:
    """All modes on all seeds."""
    recording = Recording.load(options.recording)
    families = recording.families()
    modes: dict[str, tuple[str, list[str]]] = {
        f"fixed {k}": ("fixed", [f"k={k}"]) for k in options.fixed
    }
    modes = {"plain": ("fixed", ["k=0"]), **modes, options.length: (options.length, options.set)}
    found: dict[str, list[dict[str, float]]] = {
        mode: [
            rates(recording, build(*how), tokens=options.tokens, turns=options.turns, seed=seed)
            for seed in range(options.seeds)
        ]
        for mode, how in modes.items()
    }
    table: dict[str, Any] = {}
    beside_best: dict[str, dict[str, float]] = {}
    for mode, runs in found.items():
        ratios = [
            {f: r[f] / p[f] for f in families} for r, p in zip(runs, found["plain"], strict=True)
        ]
        mixture = [
            mean_ratio(r, p, [f for f in families if f != RANDOM])
            for r, p in zip(runs, found["plain"], strict=True)
        ]
        table[mode] = {
            "mean": {f: round(mean(r[f] for r in ratios), 4) for f in families},
            "worst": {f: round(min(r[f] for r in ratios), 4) for f in families},
            "mixture": {"mean": round(mean(mixture), 4), "worst": round(min(mixture), 4)},
        }
    fixed = [found[m] for m in found if m != options.length]
    for family in families:
        against = [
            r[family] / max(mode[seed][family] for mode in fixed)
            for seed, r in enumerate(found[options.length])
        ]
        beside_best[family] = {"mean": round(mean(against), 4), "worst": round(min(against), 4)}
    settings = {k: v for k, v in vars(options).items() if k not in ("out", "recording")}
    return {
        "settings": settings,
        "commit": machine.describe()["commit"],
        "recorded": recording.about,
        "ratios": table,
        "against_the_best_fixed": beside_best,
    }


def show(result: dict[str, Any]) -> None:
    """A table: mean and worst seed, by family."""
    families = list(next(iter(result["ratios"].values()))["mean"])
    print(
        f"{'ratio to plain, mean (worst)':30}" + "".join(f"{f:>18}" for f in families) + "  mixture"
    )
    for mode, row in result["ratios"].items():
        cells = "".join(f"{row['mean'][f]:>10.3f} ({row['worst'][f]:.3f})" for f in families)
        mixture = row["mixture"]
        print(f"{mode:30}{cells}   {mixture['mean']:.3f} ({mixture['worst']:.3f})")
    best = result["against_the_best_fixed"].values()
    cells = "".join(f"{row['mean']:>10.3f} ({row['worst']:.3f})" for row in best)
    print(f"{'... against the best fixed one':30}{cells}")


def positive(text: str) -> int:
    """A number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def several(text: str) -> int:
    """A number of at least 2: the first token of an answer is no decoding step."""
    number = positive(text)
    if number < 2:
        raise argparse.ArgumentTypeError(f"{text} is less than 2")
    return number


def lengths(text: str) -> list[int]:
    """Numbers with commas between."""
    return [positive(part) for part in text.split(",")]


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    recorder = commands.add_parser("record", help="decode the prompts once")
    recorder.add_argument("--out", type=Path, required=True)
    recorder.add_argument("--per-family", type=positive, default=5)
    recorder.add_argument("--random", type=int, default=5, help="prompts of random tokens")
    recorder.add_argument("--tokens", type=several, default=256)
    recorder.add_argument("--threads", type=positive, default=1)
    recorder.add_argument("--clock", choices=("wall", "cpu"), default="cpu")
    runner = commands.add_parser("run", help="try a draft length")
    runner.add_argument("recording", type=Path)
    runner.add_argument("--length", default="adaptive")
    runner.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    runner.add_argument("--fixed", type=lengths, default=[1, 2, 3, 7], help="such as 1,2,3")
    runner.add_argument("--tokens", type=several, default=256)
    runner.add_argument("--turns", type=positive, default=3, help="times that every text comes")
    runner.add_argument("--seeds", type=positive, default=16)
    runner.add_argument("--out", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
