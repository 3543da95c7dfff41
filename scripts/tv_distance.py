#!/usr/bin/env python3
"""How far sampled text is from the model's distribution, with and without speculation.

For every pipeline and every seed the embedded model continues a prompt; the two tokens after the
first one, which may come from drafts, are counted. The total-variation distance between a
pipeline's counts and plain decoding's is printed beside what two plain samples differ by (the
noise floor: seeds are never shared) and beside a sampler that accepts every draft, which must
score far above both. With `--seeds 4000` a run takes some minutes.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from outrider import Accepted, Draft, Pipeline, hookimpl
from outrider import Sequence as Seq
from outrider.comparison import Counts, count_continuations, tv_distance
from outrider_rejection import RejectionSampler

PROMPT = "a, b, a,"

DFLASH2 = ["drafter.use=dflash2", "drafter.model=outrider-nano-dflash2"]
DRAFTERS: dict[str, list[str]] = {
    "suffix": ["drafter.use=suffix", "drafter.min_match=1"],
    "mtp": ["drafter.use=mtp", "drafter.sample=false"],
    "mtp-sampled": ["drafter.use=mtp", "drafter.sample=true"],
    "dflash2": [*DFLASH2, "drafter.sample=false"],
    "dflash2-sampled": [*DFLASH2, "drafter.sample=true"],
}


class AcceptEverything(RejectionSampler):
    """Wrong on purpose: takes every draft without looking."""

    def accept(
        self, sequences: Sequence[Seq], drafts: Sequence[Draft], rows: Sequence[int]
    ) -> Sequence[Accepted]:
        """All drafts, then a proper draw."""
        last = [row + len(draft.tokens) for row, draft in zip(rows, drafts, strict=True)]
        answers = super().accept(sequences, [Draft()] * len(sequences), last)
        return [Accepted(len(d.tokens), a.token) for d, a in zip(drafts, answers, strict=True)]


@hookimpl
def outrider_samplers():
    """Offer `accept-everything` (this script names itself as a plugin)."""
    return {"accept-everything": AcceptEverything}


def sample(overrides: Iterable[str], seeds: Iterable[int], settings: dict[str, Any]) -> Counts:
    """Continuations of the prompt, counted."""
    with Pipeline.load(overrides=["engine.threads=1", *overrides]).open() as pipeline:
        prompt = tuple(pipeline.tokenize(PROMPT))
        return count_continuations(pipeline, prompt, seeds, **settings)


def measure(
    seeds: int, drafters: Iterable[str], k: int, settings: dict[str, Any], jobs: int = 1
) -> dict[str, Any]:
    """Distances to plain decoding; every sample has seeds of its own."""
    rejection, length = "sampler.use=rejection", f"draft_length.k={k}"
    wrong_plugin = f"plugins=[{json.dumps(str(Path(__file__).resolve()))}]"
    plain = [rejection, "drafter.use=none"]
    runs: dict[str, list[str]] = {
        "plain": plain,
        "plain again": plain,
        "wrong": [wrong_plugin, "sampler.use=accept-everything", "drafter.use=mtp", length],
        **{name: [rejection, *DRAFTERS[name], length] for name in drafters},
    }
    ranges = [range(i * 10_000_000, i * 10_000_000 + seeds) for i in range(len(runs))]
    if jobs == 1:
        found = [sample(o, r, settings) for o, r in zip(runs.values(), ranges, strict=True)]
    else:
        with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
            found = list(pool.map(sample, runs.values(), ranges, [settings] * len(runs)))
    counts = dict(zip(runs, found, strict=True))
    distances = {name: round(tv_distance(counts["plain"], c), 4) for name, c in counts.items()}
    return {
        "noise_floor": distances["plain again"],
        "wrong": distances["wrong"],
        "pipelines": {name: distances[name] for name in drafters},
    }


def main() -> int:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=4000)
    parser.add_argument("--drafters", nargs="+", choices=list(DRAFTERS), default=list(DRAFTERS))
    parser.add_argument("--k", type=int, default=3, help="draft length")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--top-k", type=int, default=20)
    parser.add_argument("--top-p", type=float, default=0.95)
    parser.add_argument("--min-p", type=float, default=0.0)
    parser.add_argument("--jobs", type=int, default=1, help="pipelines run at the same time")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    settings = {name: getattr(args, name) for name in ("temperature", "top_k", "top_p", "min_p")}
    found = measure(args.seeds, args.drafters, args.k, settings, args.jobs)
    if args.json:
        print(json.dumps(found))
        return 0
    print(f"total-variation distance to plain decoding, {args.seeds} seeds, {settings}")
    print(f"{'plain (noise floor)':>22}  {found['noise_floor']:.4f}")
    for name, distance in found["pipelines"].items():
        print(f"{name:>22}  {distance:.4f}")
    print(f"{'accepts everything':>22}  {found['wrong']:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
