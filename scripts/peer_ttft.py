#!/usr/bin/env python3
"""Time to first token of a conversation's second turn in llama-server, cold and with its cache.

    scripts/peer_ttft.py --llama-server PATH --model GGUF --tokens 1100 --out ttft.json

Each conversation is new: a first prompt of `--tokens` tokens, 24 tokens of answer, 12 tokens of a
second message. The second prompt is timed with the server's cache, and again without. Times are the
server's (`prompt_ms`) and the client's (until one token is back); medians over `--repeats`.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench.client import Client, ServerError
from bench.process import Server

ANSWER = 24
MESSAGE = 12


def main() -> int:
    """Measure; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--llama-server", type=Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--flag", action="append", default=[], help="more for llama-server")
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tokens", type=int, action="append", help="may be given several times")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    command = [str(options.llama_server), "-m", options.model, "-c", str(options.context)]
    command += ["-np", "1", "-t", str(options.threads), "-ngl", "99", *options.flag]
    try:
        with Server(command) as server:
            result = {
                str(tokens): measure(server.client, tokens, options.repeats)
                for tokens in options.tokens or [1100]
            }
    except ServerError as error:
        print(f"peer_ttft: {error}", file=sys.stderr)
        return 1
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))
    return 0


def measure(client: Client, tokens: int, repeats: int) -> dict[str, Any]:
    """Second turns of `repeats` conversations, after one that is not counted."""
    found: dict[str, list[float]] = {}
    cached: list[int] = []
    for i in range(repeats + 1):
        rng = random.Random(1000 * tokens + i)

        def some(count: int, rng: random.Random = rng) -> list[int]:
            return [rng.randrange(300, 8000) for _ in range(count)]

        first = some(tokens)
        answer = _complete(client, first, ANSWER, cache=True)["tokens"]
        second = [*first, *answer, *some(MESSAGE)]
        for kind, cache in (("cached", True), ("cold", False)):
            start = perf_counter()
            reply = _complete(client, second, 1, cache=cache)
            elapsed = 1e3 * (perf_counter() - start)
            if i == 0:
                continue
            found.setdefault(f"{kind}_ms", []).append(elapsed)
            found.setdefault(f"{kind}_prompt_ms", []).append(reply["timings"]["prompt_ms"])
            if cache:
                cached.append(reply["timings"]["cache_n"])
    result: dict[str, Any] = {k: round(statistics.median(v), 3) for k, v in found.items()}
    return {
        **result,
        "prompt_tokens": tokens + ANSWER + MESSAGE,
        "cached_tokens": sorted(set(cached)),
    }


def _complete(client: Client, prompt: list[int], count: int, *, cache: bool) -> dict[str, Any]:
    body = {
        "prompt": prompt,
        "n_predict": count,
        "temperature": 0,
        "ignore_eos": True,
        "cache_prompt": cache,
        "return_tokens": True,
    }
    return client.post("/completion", body)


if __name__ == "__main__":
    sys.exit(main())
