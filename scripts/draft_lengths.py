"""Measure draft lengths against each other on five task families, in one process.

    scripts/draft_lengths.py --threads 1 --clock cpu --out run.json

All pipelines are alive at once and take turns on every prompt, forwards and backwards by turns.
`--clock cpu` takes processor time, which is steadier than the clock on a machine that others use
(one thread only). Decoding is timed, without prefill; each family's numbers are totals over its
prompts, medians over the runs.
"""

from __future__ import annotations

import argparse
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
        "settings": vars(arguments) | {"out": None},
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
        record["tokens_per_second"] = table = summary(record["runs"])
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(compact(record) + "\n")
        print(f"run {turn + 1} of {arguments.runs} is done and saved", flush=True)
        show(table)
    for pipeline in opened.values():
        pipeline.close()


def noise(pipeline: Pipeline, seed: int, count: int = 96) -> list[int]:
    """A prompt that cannot be compressed: tokens drawn at random, control tokens left out."""
    rng = random.Random(seed)
    vocabulary = pipeline.engine.vocabulary
    usable = [t for t in range(vocabulary.size) if not vocabulary.is_control(t)]
    return [rng.choice(usable) for _ in range(count)]


def summary(runs: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Tokens a second by family and mode; `mixture`: all families but the random one."""
    found: dict[str, dict[str, float]] = {}
    families = sorted({r["family"] for r in runs})
    for family in [*families, "mixture"]:
        for mode in dict.fromkeys(r["mode"] for r in runs):
            rates = []
            for turn in sorted({r["run"] for r in runs}):
                some = [
                    r
                    for r in runs
                    if r["run"] == turn
                    and r["mode"] == mode
                    and (r["family"] == family or (family == "mixture" and r["family"] != RANDOM))
                ]
                rates.append(1e3 * sum(r["tokens"] for r in some) / sum(r["ms"] for r in some))
            found.setdefault(family, {})[mode] = round(median(rates), 1)
    return found


def show(table: dict[str, dict[str, float]]) -> None:
    """A Markdown table."""
    modes = list(next(iter(table.values())))
    print("| tokens/s | " + " | ".join(modes) + " |")
    print("|---" * (len(modes) + 1) + "|")
    for family, rates in table.items():
        best = max(rates.values())
        cells = [f"**{r:.0f}**" if r == best else f"{r:.0f}" for r in rates.values()]
        print(f"| {family} | " + " | ".join(cells) + " |")


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
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
