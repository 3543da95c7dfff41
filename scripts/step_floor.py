#!/usr/bin/env python3
"""What a step with three MTP drafts cannot do without, and how near the loop comes to it.

    scripts/step_floor.py --model GGUF --out floor.json
    scripts/step_floor.py --model GGUF --drafter GGUF --out floor.json      a block drafter as well

Apart: one decode of the same rows over and over, of the target and of the drafter's context, with
the time until llama_decode returns (*submit*), the time until the results are there (*wait*), and
the time to read the best token of every output row (*read*). Inside the loop: the same two of all
decodes of a step, with drafts accepted at random, and the stages around them. Medians, µs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Any

from bench import machine
from outrider import OutriderError, Pipeline, Request

ROOT = Path(__file__).resolve().parents[1]
RATES = [0.9, 0.8, 0.7]
REPEATS = 24
WARM_UP = 4
PROMPT = 300


def main() -> int:
    """Measure and write; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--drafter", help="of a block drafter")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--set", action="append", default=[], help="more overrides")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    try:
        record = measure(options)
    except OutriderError as error:
        print(f"step_floor: {error}", file=sys.stderr)
        return 1
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps({k: v for k, v in record.items() if k != "machine"}, indent=1))
    return 0


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """The head and the target apart, and steps of one or two pipelines."""
    record: dict[str, Any] = {
        "machine": machine.describe(),
        "settings": {
            "model": Path(options.model).name,
            "drafter": options.drafter and Path(options.drafter).name,
            "threads": options.threads,
            "tokens": options.tokens,
            "set": options.set,
        },
    }
    with opened("mtp", options) as pipeline:
        record["in the loop, mtp"] = in_loop(pipeline, options.tokens)
        record["apart"] = apart(pipeline)
    if options.drafter:
        use = f"drafter={{use: dflash2, model: {Path(options.drafter).absolute()}}}"
        with opened("dflash2", options, use) as pipeline:
            record["in the loop, dflash2"] = in_loop(pipeline, options.tokens)
    return record


def opened(name: str, options: argparse.Namespace, *more: str) -> Pipeline:
    """A pipeline with three drafts a step, accepted at random."""
    overrides = [
        f"engine.threads={options.threads}",
        f"sampler={{use: synthetic, rates: {RATES}}}",
        "draft_length={use: fixed, k: 3}",
        *more,
        *options.set,
    ]
    file = ROOT / "examples" / "pipelines" / f"{name}.yaml"
    return Pipeline.load(file, model=options.model, overrides=overrides).open()


def prompt(pipeline: Pipeline) -> list[int]:
    """Any tokens."""
    n = pipeline.engine.target.n_vocab
    return [(17 * i + 5) % (n - 200) + 100 for i in range(PROMPT)]


def in_loop(pipeline: Pipeline, tokens: int) -> dict[str, float]:
    """Medians over the steps of one request."""
    decoder = pipeline.decoder
    contexts = {"target": decoder.engine.target, "drafter": pipeline.drafter._context}
    steps: list[dict[str, float]] = []
    spent: dict[str, float] = {}

    def watch(owner: Any, name: str) -> None:
        method: Callable[..., Any] = getattr(owner, name)

        def watched(*arguments: Any) -> Any:
            start = perf_counter_ns()
            result = method(*arguments)
            spent[name] = spent.get(name, 0.0) + (perf_counter_ns() - start) / 1e3
            return result

        setattr(owner, name, watched)

    watch(decoder.drafter, "propose")
    watch(decoder.drafter, "commit")
    watch(decoder.sampler, "accept")
    watch(decoder.rollback, "rewind")
    step = decoder._step

    def counted(sequences: Any) -> Any:
        spent.clear()
        before = {n: (c.calls.submit_ns, c.calls.wait_ns) for n, c in contexts.items()}
        start = perf_counter_ns()
        result = step(sequences)
        row = {"step": (perf_counter_ns() - start) / 1e3, **spent}
        for name, context in contexts.items():
            row[f"{name}: submit"] = (context.calls.submit_ns - before[name][0]) / 1e3
            row[f"{name}: wait"] = (context.calls.wait_ns - before[name][1]) / 1e3
        steps.append(row)
        return result

    decoder._step = counted
    pipeline.run(Request(prompt=prompt(pipeline), max_tokens=tokens, ignore_eog=True))
    # the last step drafts less
    return {key: round(median(s[key] for s in steps[WARM_UP:-1]), 1) for key in steps[WARM_UP]}


def apart(pipeline: Pipeline) -> dict[str, dict[str, float]]:
    """Decodes of one shape, of the head and of the target."""
    target, head, tokens = pipeline.engine.target, pipeline.drafter._context, prompt(pipeline)
    length, found = head.length(0) - 8, {}
    for rows in (1, 2, 3, 4):
        batch = head.batch
        batch.clear()
        head.truncate(0, length)
        batch.extend(tokens[:rows], length, 0, last_output=True)
        batch.embeddings[:rows] = 0.01
        found[f"head, {rows} rows"] = timed(head, [rows - 1], lambda: head.truncate(0, length))
    for rows in (1, 4):
        target.need_logits(0, False)
        batch = target.batch
        batch.clear()
        batch.extend(tokens[:rows], target.length(0), 0, True)

        def again(rows: int = rows, batch: Any = batch) -> None:
            if rows > 1:
                target.truncate(0, target.length(0) - rows + 1)
            batch.clear()
            batch.extend(tokens[:rows], target.length(0), 0, True)

        found[f"target, {rows} rows"] = timed(target, range(rows), again)
    return found


def timed(context: Any, outputs: Any, again: Callable[[], Any]) -> dict[str, float]:
    """Medians of one decode; `again` is called after each."""
    times: list[tuple[int, int, int]] = []
    for _ in range(REPEATS):
        start = perf_counter_ns()
        context.submit()
        submitted = perf_counter_ns()
        context.wait()
        there = perf_counter_ns()
        for row in outputs:
            context.argmax(row)
        times.append((submitted - start, there - submitted, perf_counter_ns() - there))
        again()
    columns = zip(*times[WARM_UP:], strict=True)
    return {
        name: round(median(column) / 1e3, 1)
        for name, column in zip(("submit", "wait", "read"), columns, strict=True)
    }


if __name__ == "__main__":
    sys.exit(main())
