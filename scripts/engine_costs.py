#!/usr/bin/env python3
"""What the engine's calls cost on this machine: verify rows, drafts, and ways to undo rows.

    scripts/engine_costs.py --pipeline examples/pipelines/mtp.yaml [--model GGUF] --out costs.json

c(r): one decode of r rows with an output each, read as argmax (from the device, where it computes
that), as argmax on the host, and with whole logits, only copied. d(k): k drafts of the pipeline's
drafter. Undoing: a rollback through the snapshot ring, saving and loading the recurrent state on
the device and in host memory. Medians over `--repeats`, in milliseconds, for a sequence of
`--length` tokens.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench import machine
from outrider import ComponentSpec, DraftLength, EngineError, OutriderError, Pipeline, Request

ROWS = 16


def main() -> int:
    """Measure and write; returns the exit status."""
    options = _options()
    overrides = [f"draft_length={{use: fixed, k: {options.rows - 1}}}", *options.set]
    try:
        pipeline = Pipeline.load(options.pipeline, model=options.model, overrides=overrides)
        with pipeline.open():
            result = measure(pipeline, options)
    except OutriderError as error:
        print(f"engine_costs: {error}", file=sys.stderr)
        return 1
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps({k: v for k, v in result.items() if k != "machine"}, indent=1))
    return 0


def measure(pipeline: Pipeline, options: argparse.Namespace) -> dict[str, Any]:
    """All costs of one opened pipeline."""
    costs = Costs(pipeline, options.length, options.repeats)
    depth = pipeline.engine.target.ring_depth
    some = [r for r in (1, 2, 4, 8, 16) if r <= options.rows]
    return {
        "machine": machine.describe(),
        "settings": {
            "model": pipeline.model.path.name,
            "pipeline": options.pipeline.name,
            "length": options.length,
            "repeats": options.repeats,
            "ring_depth": depth,
            "set": options.set,
        },
        "plan": pipeline.plan(),
        "verify_ms": {str(r): costs.verify(r) for r in range(1, options.rows + 1)},
        "verify_host_argmax_ms": {str(r): costs.verify(r, host=True) for r in some},
        "verify_with_logits_ms": {str(r): costs.verify(r, host=True, scan=False) for r in some},
        "draft_ms": costs.drafts(min(8, pipeline.max_draft)),
        "undo_ms": {
            "ring": costs.ring(),
            "host_recurrent": costs.copy(device=False, partial=True),
            "host_whole": costs.copy(device=False, partial=False),
            "device_recurrent": costs.copy(device=True, partial=True),
        },
    }


class Costs:
    """Times calls of a pipeline's target on one sequence."""

    def __init__(self, pipeline: Pipeline, length: int, repeats: int) -> None:
        self.pipeline = pipeline
        self.target = pipeline.engine.target
        self.repeats = repeats
        vocabulary = pipeline.engine.target.n_vocab
        self.prompt = [(17 * i + 5) % (vocabulary - 200) + 100 for i in range(length)]
        self.slot = pipeline.decoder.slots[0]
        self._prefill()

    def _prefill(self) -> None:
        self.target.clear(0)
        batch = self.target.batch
        for start in range(0, len(self.prompt), self.target.n_batch):
            batch.clear()
            batch.extend(self.prompt[start : start + self.target.n_batch], start, 0)
            batch.outputs[batch.size - 1] = 1
            self.target.decode()
        self.length = len(self.prompt)

    def _decode(self, rows: int) -> None:
        batch = self.target.batch
        batch.clear()
        batch.extend(self.prompt[:rows], self.length, 0, True)
        self.target.decode()

    def _keep(self, rows: int, kept: int) -> None:
        """After a decode of `rows` rows, undo all but the first `kept`."""
        if kept < rows and not self.target.truncate(0, self.length + kept):
            raise EngineError(f"the ring does not undo {rows - kept} rows")
        self.length += kept

    def verify(self, rows: int, *, host: bool = False, scan: bool = True) -> dict[str, float]:
        """One verify batch: decode and read every row; `host`: whole rows are copied there."""
        self.target.need_logits(0, host)
        read: Callable[[int], Any] = self.target.argmax if scan else self.target.logits
        samples: list[float] = []
        for i in range(self.repeats + 3):
            start = perf_counter_ns()
            self._decode(rows)
            for row in range(rows):
                read(row)
            elapsed = perf_counter_ns() - start
            self._keep(rows, 1)
            if i >= 3:
                samples.append(elapsed / 1e6)
        self.target.need_logits(0, False)
        return summary(samples)

    def ring(self) -> dict[str, float] | None:
        """A rollback of three rows through the ring."""
        if self.target.ring_depth < 3:
            return None
        samples: list[float] = []
        for _ in range(self.repeats):
            self._decode(4)
            start = perf_counter_ns()
            self._keep(4, 1)
            samples.append((perf_counter_ns() - start) / 1e6)
        return summary(samples)

    def copy(self, *, device: bool, partial: bool) -> dict[str, Any] | None:
        """Save a state and load it again; None where the build refuses."""
        saves: list[float] = []
        loads: list[float] = []
        size = 0
        try:
            for _ in range(max(3, self.repeats // 4)):
                start = perf_counter_ns()
                data = self.target.save(0, partial=partial, device=device)
                middle = perf_counter_ns()
                self.target.load(0, data, partial=partial, device=device)
                loads.append((perf_counter_ns() - middle) / 1e6)
                saves.append((middle - start) / 1e6)
                size = len(data)
        except EngineError as error:
            print(f"no {'device' if device else 'host'} copy: {error}", file=sys.stderr)
            self._prefill()
            return None
        return {"save": summary(saves), "load": summary(loads), "bytes": size}

    def drafts(self, longest: int) -> dict[str, dict[str, float]]:
        """k drafts of the pipeline's drafter in a step, its bookkeeping afterwards included."""
        if self.pipeline.max_draft == 0:
            return {}
        decoder = self.pipeline.decoder
        chosen = decoder.draft_length
        found: dict[str, dict[str, float]] = {}
        for k in range(1, longest + 1):
            decoder.draft_length = self._fixed(k)
            tokens = (k + 1) * (self.repeats + 4)
            request = Request(prompt=self.prompt, max_tokens=tokens, ignore_eog=True)
            sequence = self.pipeline.start(request)
            samples: list[float] = []
            while not sequence.done and len(samples) < self.repeats + 3:
                before = self.pipeline.statistics.draft_ns
                step = decoder.step((sequence,))[0]
                if len(step.draft) == k:
                    samples.append((self.pipeline.statistics.draft_ns - before) / 1e6)
            decoder.abandon(sequence)
            found[str(k)] = summary(samples[3:])
        decoder.draft_length = chosen
        self._prefill()
        return found

    def _fixed(self, k: int) -> DraftLength:
        entry = self.pipeline.registry.find("draft_length", "fixed")
        assert entry is not None
        spec = ComponentSpec("fixed", entry.cls.Config(k=k))
        return self.pipeline.build("draft_length", spec)


def summary(samples: list[float]) -> dict[str, float]:
    """Median and extremes, rounded to 0.1 µs."""
    return {
        "median": round(statistics.median(samples), 4),
        "low": round(min(samples), 4),
        "high": round(max(samples), 4),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--pipeline", type=Path, required=True)
    add("--model", help="target GGUF, or a packaged name")
    add("--set", action="append", default=[], metavar="KEY=VALUE")
    add("--length", type=int, default=1500, help="tokens in memory before the measured rows")
    add("--rows", type=int, default=ROWS, help="largest verify batch")
    add("--repeats", type=int, default=20)
    add("--out", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
