#!/usr/bin/env python3
"""The decode loop's own time a step: everything that is not inside the engine's calls.

    scripts/loop_overhead.py [--pipelines plain,suffix,mtp,dflash2,adaptive] --out run.json

Quartiles over all steps of some requests, in µs, one pipeline after the other. The caches
are cold after every decode, and some machines stop a core for a tenth of a millisecond when heavy
vector code ends: the lower quartile tells what the code costs, the upper one what the machine adds.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import quantiles
from typing import Any

from bench import machine, prompts
from bench.measure import compact
from outrider import Pipeline, Request

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Measure, print a table, and write the raw numbers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--pipelines", default="plain,suffix,mtp,dflash2,adaptive")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--per-family", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    overrides = ["engine.threads=1", *arguments.set]
    overheads: dict[str, list[list[int]]] = {}
    for name in arguments.pipelines.split(","):
        file = ROOT / "examples" / "pipelines" / f"{name}.yaml"
        with Pipeline.load(file, overrides=overrides).open() as pipeline:
            overheads[name] = [
                steps(pipeline, Request(prompt=p.tokens, max_tokens=arguments.tokens))
                for _ in range(arguments.runs)
                for p in prompts.load(pipeline, per_family=arguments.per_family)
            ]
    record: dict[str, Any] = {
        "settings": vars(arguments) | {"out": None},
        "machine": machine.describe(),
        "quartiles_us": {n: spread([t for r in runs for t in r]) for n, runs in overheads.items()},
        "steps_us": overheads,
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(compact(record) + "\n")
    for name, (low, middle, high) in record["quartiles_us"].items():
        print(f"{name:12} {low:6.0f} {middle:6.0f} {high:6.0f} µs")


def steps(pipeline: Pipeline, request: Request) -> list[int]:
    """The loop's own time in each step of a request, µs."""
    pipeline.reset_statistics()
    pipeline.run(request)
    return [round(ns / 1e3) for ns in pipeline.statistics.overheads]


def spread(values: list[int]) -> list[float]:
    """The three quartiles."""
    return [round(q, 1) for q in quantiles(values, n=4)]


if __name__ == "__main__":
    main()
