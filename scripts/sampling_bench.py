#!/usr/bin/env python3
"""What sampling costs beside greedy decoding, and what drawing drafts brings.

    scripts/sampling_bench.py --json

1. Time of a step: greedy, sampled, and sampled with the top-k taken in the graph take turns, step
   by step, without drafts and with k drafts of the MTP head. Medians; `cpu_us` is the processor
   time of the thread, which other work on the machine disturbs less than `wall_us`.
2. Acceptance of MTP drafts at temperature 1.0: the head's most likely tokens (point mass) against
   tokens drawn from its distribution, on the same prompts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from typing import Any

from outrider import Pipeline, Request
from outrider.compare import PROMPTS

SAMPLED = "sampler={use: rejection, temperature: 0.7, top_k: 20, top_p: 0.95"
SAMPLERS = {
    "greedy": "sampler=greedy",
    "sampled": SAMPLED + "}",
    "sampled, ranked in the graph": SAMPLED + ", device_top_k: 'on'}",
}


def opened(*overrides: str) -> Pipeline:
    """A pipeline on one thread."""
    return Pipeline.load(overrides=["engine.threads=1", *overrides]).open()


def step_costs(drafter: str, k: int, steps: int) -> dict[str, Any]:
    """Median microseconds of a step with k drafts, each sampler in turn."""
    length = f"draft_length.k={k}"
    pipelines = {name: opened(f"drafter={drafter}", length, s) for name, s in SAMPLERS.items()}
    wall: dict[str, list[float]] = {name: [] for name in pipelines}
    cpu: dict[str, list[float]] = {name: [] for name in pipelines}
    ratios: dict[str, list[float]] = {name: [] for name in pipelines}
    sequences: dict[str, Any] = {}
    for step in range(steps):
        took: dict[str, float] = {}
        for name, pipeline in pipelines.items():
            sequence = sequences.get(name)
            if sequence is None or sequence.finish is not None:
                sampling = {} if name == "greedy" else {"seed": step}
                prompt = pipeline.tokenize(PROMPTS[step // 100 % len(PROMPTS)])
                request = Request(prompt, max_tokens=400, sampling=sampling, ignore_eog=True)
                sequence = sequences[name] = pipeline.start(request)
            w, c = time.perf_counter_ns(), time.thread_time_ns()
            taken = pipeline.decoder.step([sequence])[0]
            c, w = time.thread_time_ns() - c, time.perf_counter_ns() - w
            if len(taken.draft.tokens) == k:
                wall[name].append(w / 1e3)
                cpu[name].append(c / 1e3)
                took[name] = c / 1e3
        if "greedy" in took:
            for name, value in took.items():
                ratios[name].append(value / took["greedy"])
    for pipeline in pipelines.values():
        pipeline.close()
    return {
        name: {
            "wall_us": round(statistics.median(wall[name]), 1),
            "cpu_us": round(statistics.median(cpu[name]), 1),
            "cpu_over_greedy": round(
                statistics.median(cpu[name]) / statistics.median(cpu["greedy"]), 4
            ),
            "median_of_ratios": round(statistics.median(ratios[name]), 4),
            "steps": len(cpu[name]),
        }
        for name in pipelines
    }


def acceptance(k: int, requests: int, tokens: int, temperature: float) -> dict[str, Any]:
    """Acceptance of MTP drafts, point mass and drawn."""
    found: dict[str, Any] = {}
    for name, sample in (("point mass", "false"), ("drawn", "true")):
        sampler = f"sampler={{use: rejection, temperature: {temperature}}}"
        drafter = f"drafter={{use: mtp, sample: {sample}}}"
        with opened(drafter, f"draft_length.k={k}", sampler) as pipeline:
            for seed in range(requests):
                prompt = pipeline.tokenize(PROMPTS[seed % len(PROMPTS)])
                request = Request(
                    prompt, max_tokens=tokens, sampling={"seed": seed}, ignore_eog=True
                )
                sequence = pipeline.start(request)
                while sequence.finish is None:
                    pipeline.step([sequence])
            summary = pipeline.statistics.summary()
        keys = ("acceptance", "acceptance_by_position", "mean_accepted_length", "emitted")
        found[name] = {key: summary[key] for key in keys}
    return found


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--k", type=int, default=3)
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = {
        "step": {
            "no drafts": step_costs("none", 0, args.steps),
            f"mtp, k={args.k}": step_costs("mtp", args.k, args.steps),
        },
        "acceptance at temperature 1.0": acceptance(args.k, args.requests, args.tokens, 1.0),
    }
    if args.json:
        print(json.dumps(found))
        return 0
    for where, samplers in found["step"].items():
        print(f"a step, {where}")
        for name, row in samplers.items():
            print(
                f"{name:>30}  {row['wall_us']:8.0f} µs, processor time {row['cpu_us']:8.0f} µs, "
                f"{row['cpu_over_greedy']:.3f} × greedy"
            )
    print(f"acceptance of MTP drafts at temperature 1.0, k={args.k}")
    for name, row in found["acceptance at temperature 1.0"].items():
        positions = " ".join(f"{p:.2f}" for p in row["acceptance_by_position"])
        print(f"{name:>30}  {row['acceptance']:.1%} ({positions})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
