#!/usr/bin/env python3
"""Accepted drafts a verification step on continuations of unseen code, in outrider's own loop.

    scripts/unseen_code.py --code llama.cpp/conversion --tokens 48 64 256 --out FILE.json

Greedy, the prompts of `train_nano/verify_unseen_code.py`: files cut at random places. A step that
verified drafts counts with as many as the sampler accepted; a prompt's first token comes from its
prefill, and is no step. The last steps of a text are cut short by its end; *whole steps* had all
the drafts that the pipeline makes. *By the first count* the prefill is a step as well, as
llama-server's own numbers are often read.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import attrs
from bench import machine
from outrider import ConfigError, OutriderError, Pipeline, Request, RequestError

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts" / "train_nano"))

from nano.unseen import code_prompts  # noqa: E402


def main() -> int:
    """Measure and write; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--code", type=Path, required=True, help="folder with Python files")
    parser.add_argument("--pipeline", type=Path, default=ROOT / "examples/pipelines/mtp.yaml")
    parser.add_argument("--set", action="append", default=[], help="overrides of the pipeline")
    parser.add_argument("--count", type=positive, default=200, help="prompts")
    parser.add_argument(
        "--tokens", type=positive, nargs="+", default=[48, 64, 256], help="lengths of the texts"
    )
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    try:
        record = measure(options)
    except (OutriderError, OSError) as error:
        print(f"unseen_code: {error}", file=sys.stderr)
        return 1
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record["accepted"], indent=1))
    return 0


def positive(text: str) -> int:
    """A number of things, of which there must be some."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Counts of every length of texts. Raises OutriderError where nothing can be counted."""
    if not any(options.code.glob("*.py")):
        raise RequestError(f"{options.code} is no folder with Python files")
    prompts = code_prompts(options.code, options.count)
    overrides = ["engine.threads=1", *options.set]
    accepted: dict[str, Any] = {}
    with Pipeline.load(options.pipeline, overrides=overrides).open() as pipeline:
        if not pipeline.max_draft:
            raise ConfigError(f"{options.pipeline} drafts nothing")
        for tokens in options.tokens:
            accepted[str(tokens)] = attrs.asdict(counted(pipeline, prompts, tokens))
        name = pipeline.model.name
    return {
        "machine": machine.describe(),
        "settings": {
            "model": name,
            "pipeline": options.pipeline.name,
            "set": options.set,
            "code": "/".join(options.code.parts[-2:]),
            "prompts": len(prompts),
        },
        "accepted": accepted,
    }


@attrs.frozen
class Counts:
    """Of texts of one length."""

    steps: int
    """That verified drafts."""
    drafts: int
    accepted: int
    a_step: float
    a_whole_step: float
    by_the_first_count: float
    by_position: list[float]


def counted(pipeline: Pipeline, prompts: list[str], tokens: int) -> Counts:
    """Continue every prompt."""
    steps: list[tuple[int, int]] = []
    for prompt in prompts:
        request = Request(prompt=pipeline.tokenize(prompt), max_tokens=tokens)
        sequence = pipeline.start(request)
        while sequence.finish is None:
            [step] = pipeline.decoder.step([sequence])
            if step.proposed:
                steps.append((step.proposed, step.held))
    most = pipeline.max_draft
    if not any(proposed == most for proposed, _ in steps):
        raise RequestError(
            f"no step of texts of {tokens} tokens has {most} drafts; take longer ones"
        )
    whole = [held for proposed, held in steps if proposed == most]
    accepted = sum(held for _, held in steps)
    return Counts(
        steps=len(steps),
        drafts=sum(proposed for proposed, _ in steps),
        accepted=accepted,
        a_step=round(accepted / len(steps), 4),
        a_whole_step=round(sum(whole) / len(whole), 4),
        by_the_first_count=round(accepted / (len(steps) + len(prompts)), 4),
        by_position=[
            round(sum(held > i for held in whole) / max(1, sum(held >= i for held in whole)), 4)
            for i in range(most)
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
