"""One outrider pipeline in a process of its own, driven by JSON lines on standard input.

A process a pipeline keeps engines apart: memory is given back, a crash ends one engine and not the
run, and every engine may use another libllama. Requests and answers, one line each:

    {"do": "prompts", "families": […], "per_family": n}      → {"prompts": [{family, name, …}]}
    {"do": "generate", "tokens": […], "max_tokens": n, …}     → see `_generate`
    {"do": "chat", "request": {…}}                            → see `_chat`
    {"do": "gap", "tokens": […], "a": id, "b": id}            → {"gap": logit(a) - logit(b)}
    {"do": "describe"}                                        → {"plan", "library", "models"}
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import attrs
from outrider import ModelInfo, OutriderError, Pipeline, Request

from bench import machine, prompts


def main() -> int:
    """Open the pipeline, say so, and answer requests until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pipeline", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    # standard output is the protocol's: whatever else prints goes to standard error
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def answer(body: dict[str, Any]) -> None:
        answers.write(json.dumps(body) + "\n")
        answers.flush()

    try:
        pipeline = Pipeline.load(options.pipeline, model=options.model, overrides=options.set)
        pipeline.open()
    except OutriderError as error:
        answer({"error": str(error)})
        return 2
    answer({"ready": True})
    with pipeline:
        for line in sys.stdin:
            request = json.loads(line)
            try:
                answer(_ACTIONS[request.pop("do")](pipeline, **request))
            except OutriderError as error:
                answer({"error": str(error)})
    return 0


def _prompts(pipeline: Pipeline, families: list[str], per_family: int | None) -> dict[str, Any]:
    found = prompts.load(pipeline, families, per_family)
    return {"prompts": [attrs.asdict(prompt) for prompt in found]}


def _generate(
    pipeline: Pipeline,
    tokens: list[int],
    max_tokens: int,
    ignore_eog: bool = False,
    sampling: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Decode one prompt. Times are of the wall clock, around everything the loop does.

    `decode_ms` is the time for the tokens after the first; `prefill_ms` that to the first.
    """
    request = Request(
        prompt=tokens, max_tokens=max_tokens, sampling=sampling or {}, ignore_eog=ignore_eog
    )
    pipeline.reset_statistics()
    cpu = time.process_time()
    start = time.perf_counter()
    sequence = pipeline.start(request)
    first = time.perf_counter()
    text = "".join(pipeline.text_of(sequence))
    end = time.perf_counter()
    cpu = time.process_time() - cpu
    result = pipeline.result(sequence)
    return {
        "tokens": list(result.token_ids),
        "text": text,
        "prefill_ms": 1e3 * (first - start),
        "decode_ms": 1e3 * (end - first),
        "cpu_ms": 1e3 * cpu,
        "cached": sequence.cached,
        "finish": result.finish_reason,
        "stats": result.stats,
    }


def _chat(pipeline: Pipeline, request: dict[str, Any]) -> dict[str, Any]:
    """Answer a conversation; the message, and the tokens it was made of."""
    pipeline.reset_statistics()
    answer = pipeline.start_chat(request)
    for _ in answer.deltas():
        pass
    result = answer.result()
    sequence = answer.sequence
    assert sequence is not None
    message = result.message
    return {
        "content": message.content,
        "reasoning": message.reasoning_content,
        "calls": [[call.name, dict(call.values())] for call in message.tool_calls],
        "finish": result.finish_reason,
        "prompt_tokens": list(sequence.request.prompt),
        "tokens": list(sequence.tokens[sequence.prompt_length :]),
    }


def _gap(pipeline: Pipeline, tokens: list[int], a: int, b: int) -> dict[str, Any]:
    """How much more likely than token `b` token `a` is after `tokens`, as logits.

    The log-probabilities of one row differ as its logits do. None when a token is not among the
    most likely ones that were asked for.
    """
    sampling = {"temperature": 0, "logprobs": 64}
    sequence = pipeline.start(Request(prompt=tokens, max_tokens=1, sampling=sampling))
    found = dict(sequence.logprobs[0].top)
    if a not in found or b not in found:
        return {"gap": None}
    return {"gap": found[a] - found[b]}


def _describe(pipeline: Pipeline) -> dict[str, Any]:
    from outrider.engine.library import library

    engine = pipeline.config.components["engine"]
    assert engine is not None
    files = {pipeline.model.path}
    for component in (pipeline.drafter, *getattr(pipeline.drafter, "drafters", ())):
        info = getattr(getattr(component, "model", None), "info", None)
        if isinstance(info, ModelInfo):
            files.add(info.path)
    return {
        "plan": pipeline.plan(),
        "drafter": pipeline.drafter.fingerprint(),
        "library": library().build,
        "devices": library().devices(),
        "models": machine.model_files(files),
        "engine": attrs.asdict(engine.config),
    }


_ACTIONS = {
    "prompts": _prompts,
    "generate": _generate,
    "chat": _chat,
    "gap": _gap,
    "describe": _describe,
}

if __name__ == "__main__":
    sys.exit(main())
