#!/usr/bin/env python3
"""Time a draw from one row of logits: Outrider's kernel, llama.cpp's sampler chain, NumPy.

The three take turns, in alternating order, on the same rows; medians are printed. For llama.cpp
only the chain itself is timed, not the filling of its candidate array that precedes every use; for
the kernel the whole call from Python is timed. The run fails if kernel and chain disagree about a
distribution.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from functools import partial
from time import perf_counter_ns
from typing import Any

import numpy as np
from llama_chain import LlamaChain
from numpy.typing import NDArray
from outrider.native import RowSampler, SamplingOptions


def numpy_sample(
    row: NDArray[np.float32], u: float, *, temperature: float, top_k: int, top_p: float
) -> int:
    """The same draw (temperature last) with NumPy alone."""
    best = np.argpartition(row, -top_k)[-top_k:]
    best = best[np.argsort(-row[best])]
    weights = np.exp(row[best] - row[best[0]])
    before = np.cumsum(weights) - weights
    best = best[before < top_p * weights.sum()]
    weights = np.exp((row[best] - row[best[0]]) / temperature)
    return int(best[np.searchsorted(np.cumsum(weights), u * weights.sum(), side="right")])


def timed(call: Callable[[], Any]) -> float:
    """Microseconds of one call."""
    start = perf_counter_ns()
    call()
    return (perf_counter_ns() - start) / 1e3


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-vocab", type=int, default=248_320)
    parser.add_argument("--rows", type=int, default=8, help="different random rows")
    parser.add_argument("--repeats", type=int, default=40, help="draws from each row")
    parser.add_argument("--spread", type=float, default=3.0, help="deviation of the logits")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--top-k", type=int, default=20)
    parser.add_argument("--top-p", type=float, default=0.95)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    chosen = {"temperature": args.temperature, "top_k": args.top_k, "top_p": args.top_p}

    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(args.rows, args.n_vocab)) * args.spread).astype(np.float32)
    sampler, options = RowSampler(args.n_vocab), SamplingOptions(**chosen)
    chain = LlamaChain(args.n_vocab, **chosen)
    times: dict[str, list[float]] = {"kernel_us": [], "llama_cpp_us": [], "numpy_us": []}
    # without top-k, llama.cpp's float32 sums over the vocabulary may move the end of the nucleus
    tolerance = 1e-6 if args.top_k else 1e-4
    for row in rows:
        ours = dict(zip(*(a.tolist() for a in sampler.distribution(row, options)), strict=True))
        theirs = chain.distribution(row)
        gap = max(abs(ours.get(t, 0) - theirs.get(t, 0)) for t in {*ours, *theirs})
        if gap > tolerance:
            print(f"kernel and llama.cpp's chain differ by {gap:g}", file=sys.stderr)
            return 1
    for repeat in range(args.repeats):
        for i, row in enumerate(rows):
            position, u = repeat * len(rows) + i, float(rng.random())
            calls: dict[str, Callable[[], Any]] = {
                "kernel_us": partial(sampler.sample, row, options, seed=1, position=position),
                "llama_cpp_us": chain.apply,
                "numpy_us": partial(numpy_sample, row, u, **chosen),
            }
            chain.fill(row)  # reads the row too: everyone's input has just been touched
            for name in list(calls) if repeat % 2 else list(calls)[::-1]:
                times[name].append(timed(calls[name]))
    medians = {name: round(statistics.median(values), 1) for name, values in times.items()}
    if args.json:
        print(json.dumps(medians))
    else:
        for name, value in medians.items():
            print(f"{name.removesuffix('_us'):>10}  {value:9.1f} µs a row")
    return 0


if __name__ == "__main__":
    sys.exit(main())
