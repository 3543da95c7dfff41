#!/usr/bin/env python3
"""Measure draft lengths against each other on five task families, in one process.

    scripts/draft_lengths.py --threads 1 --clock cpu --out run.json
    scripts/draft_lengths.py --show run.json

All pipelines are alive at once and take turns on every prompt, forwards and backwards by turns.
`--clock cpu` takes processor time, which is steadier than the clock on a machine that others use
(one thread only). Decoding is timed, without prefill; each family's numbers are totals over its
prompts, medians over the runs; ratios are taken run by run.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from statistics import median
from typing import Any

from bench import machine, prompts
from bench.measure import compact
from outrider import Pipeline, Request

ROOT = Path(__file__).resolve().parents[1]
RANDOM = "random-tokens"


def main() -> None:
    """Run."""
    arguments = parse()
    if arguments.show is not None:
        try:
            found = rates(json.loads(arguments.show.read_text())["runs"])
            show(summary(found), against(found))
        except (ValueError, KeyError, TypeError) as error:
            sentence = f"--show {arguments.show}: no raw file of this script ({error!r})"
            raise SystemExit(sentence) from None
        return
    file = ROOT / "examples" / "pipelines" / f"{arguments.pipeline}.yaml"
    common = [f"engine.threads={arguments.threads}", f"engine.clock={arguments.clock}"]
    modes = {
        "plain": [*common, "drafter=none", "draft_length=fixed"],
        "adaptive": common,
        **{
            f"fixed {k}": [*common, f"draft_length={{use: fixed, k: {k}}}"]
            for k in map(int, arguments.fixed.split(","))
        },
    }
    opened = {
        mode: Pipeline.load(file, overrides=overrides).open() for mode, overrides in modes.items()
    }
    chosen = prompts.load(opened["plain"], per_family=arguments.per_family)
    jobs = [(p.family, p.name, list(p.tokens)) for p in chosen]
    jobs += [(RANDOM, f"seed {i}", noise(opened["plain"], i)) for i in range(arguments.random)]
    random.Random(0).shuffle(jobs)
    record: dict[str, Any] = {
        "settings": vars(arguments) | {"out": None, "show": None},
        "modes": modes,
        "machine": machine.describe(),
        "costs": opened["adaptive"].draft_length.statistics(),
        "runs": [],
    }
    for turn in range(arguments.runs):
        for number, (family, name, tokens) in enumerate(jobs):
            order = list(opened.items())
            for mode, pipeline in order if (turn + number) % 2 == 0 else reversed(order):
                request = Request(prompt=tokens, max_tokens=arguments.tokens, ignore_eog=True)
                result = pipeline.run(request)
                stats = result.stats
                record["runs"].append(
                    {
                        "run": turn,
                        "family": family,
                        "prompt": name,
                        "mode": mode,
                        "tokens": stats["emitted"],
                        "ms": stats["time"]["step_ms"],
                        "lengths": stats["draft_lengths"],
                        "drafters": stats["drafters"],
                    }
                )
        record["after"] = opened["adaptive"].draft_length.statistics()
        found = rates(record["runs"])
        record["tokens_per_second"] = table = summary(found)
        record["adaptive_run_by_run"] = ratios = against(found)
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(compact(record) + "\n")
        print(f"run {turn + 1} of {arguments.runs} is done and saved", flush=True)
        show(table, ratios)
    for pipeline in opened.values():
        pipeline.close()


def noise(pipeline: Pipeline, seed: int, count: int = 96) -> list[int]:
    """A prompt that cannot be compressed: tokens drawn at random, control tokens left out."""
    rng = random.Random(seed)
    vocabulary = pipeline.engine.vocabulary
    usable = [t for t in range(vocabulary.size) if not vocabulary.is_control(t)]
    return [rng.choice(usable) for _ in range(count)]


Rates = dict[str, dict[str, list[float]]]


def rates(runs: list[dict[str, Any]]) -> Rates:
    """Tokens a second of every run, by family and mode; `mixture`: all families but random ones."""
    found: Rates = {}
    families = sorted({r["family"] for r in runs})
    for family in [*families, "mixture"]:
        for mode in dict.fromkeys(r["mode"] for r in runs):
            of_mode = found.setdefault(family, {}).setdefault(mode, [])
            for turn in sorted({r["run"] for r in runs}):
                some = [
                    r
                    for r in runs
                    if r["run"] == turn
                    and r["mode"] == mode
                    and (r["family"] == family or (family == "mixture" and r["family"] != RANDOM))
                ]
                of_mode.append(1e3 * sum(r["tokens"] for r in some) / sum(r["ms"] for r in some))
    return found


def summary(found: Rates) -> dict[str, dict[str, float]]:
    """Medians over the runs."""
    return {
        family: {mode: round(median(of_mode), 1) for mode, of_mode in modes.items()}
        for family, modes in found.items()
    }


def against(found: Rates) -> dict[str, dict[str, float]]:
    """`adaptive` by each other mode, run by run; medians of these ratios.

    The machine may be slower in one run than in another, which a ratio of two medians takes for a
    difference of the modes.
    """
    return {
        family: {
            mode: round(median(a / b for a, b in zip(modes["adaptive"], of_mode, strict=True)), 3)
            for mode, of_mode in modes.items()
            if mode != "adaptive"
        }
        for family, modes in found.items()
    }


def show(table: dict[str, dict[str, float]], ratios: dict[str, dict[str, float]]) -> None:
    """A Markdown table; its last column is `adaptive` by the best fixed length."""
    modes = list(next(iter(table.values())))
    print("| tokens/s | " + " | ".join(modes) + " | adaptive by the best fixed, run by run |")
    print("|---" * (len(modes) + 2) + "|")
    for family, of_mode in table.items():
        best = max(of_mode.values())
        cells = [f"**{r:.0f}**" if r == best else f"{r:.0f}" for r in of_mode.values()]
        least = min(ratio for mode, ratio in ratios[family].items() if mode.startswith("fixed"))
        print(f"| {family} | " + " | ".join(cells) + f" | {least:.3f} |")


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--pipeline", default="adaptive", help="a name in examples/pipelines")
    parser.add_argument("--fixed", default="1,2,3,5,7", help="fixed lengths to compare with")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=256, help="generated for every prompt")
    parser.add_argument("--per-family", type=int, default=None)
    parser.add_argument("--random", type=int, default=8, help="prompts of random tokens")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", type=Path, help="where the raw file goes")
    what.add_argument("--show", type=Path, help="measure nothing, show the table of a raw file")
    arguments = parser.parse_args()
    if arguments.show is not None and not arguments.show.is_file():
        parser.error(f"--show {arguments.show}: no such file")
    return arguments


if __name__ == "__main__":
    main()
