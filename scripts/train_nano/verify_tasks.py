"""Exact-match accuracy on generated tasks through llama-server, on held-out and on seen wordings.

python verify_tasks.py --server llama-server --target T.gguf --data DATA --count 200
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from nano import lexicon
from nano.server import LlamaServer
from nano.synth.gen import Gen
from nano.tasks import FAMILIES, Family, expected_answer
from nano.template import load_template, prompt

SLOTS = 12
BUDGET = 768  # tokens an answer may take
SEED = 20_262_911


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--server", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True, help="the folder with lexicon.json.xz")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=SEED, help="of the tasks")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--seen", action="store_true", help="wordings and words of the training")
    parser.add_argument("--only", help="families whose name starts with this")
    parser.add_argument("--first", type=int, help="this many families from the top")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--failures", type=Path, help="write what went wrong to this file")
    args = parser.parse_args()
    words = lexicon.load(args.data / "lexicon.json.xz").side(unseen=not args.seen)
    template = load_template()
    wrong: list[dict[str, Any]] = []
    options = [
        "-m",
        str(args.target),
        "-c",
        str(4096 * SLOTS),
        "-t",
        str(args.threads),
        "-np",
        str(SLOTS),
    ]
    ended = total = 0
    with LlamaServer(args.server, options) as server, ThreadPoolExecutor(SLOTS) as pool:

        def run(family: Family, seed: int) -> tuple[bool, bool, int]:
            chat = family.make(Gen(seed, words, unseen=not args.seen))
            text, want = prompt(template, chat), expected_answer(template, chat)
            body = {
                "prompt": text,
                "n_predict": BUDGET,
                "temperature": args.temperature,
                "seed": seed,
            }
            reply = server.post("/completion", body)
            got = reply["content"].split("</think>")[-1].strip()
            right = family.check(want, got)
            if not right:
                wrong.append(
                    {"family": family.name, "prompt": text, "want": want, "got": reply["content"]}
                )
            return right, reply["stop_type"] == "eos", reply["tokens_predicted"]

        for family in FAMILIES[: args.first]:
            if args.only and not family.name.startswith(args.only):
                continue
            seeds = range(args.first_seed, args.first_seed + args.count)
            done = list(pool.map(lambda s, f=family: run(f, s), seeds))
            right, stopped = sum(d[0] for d in done), sum(d[1] for d in done)
            ended, total = ended + stopped, total + len(done)
            length = sum(d[2] for d in done) / len(done)
            goal = "" if family.target is None else f" (target {family.target:.0%})"
            print(
                f"{family.name:20} {right:4}/{len(done)} = {right / len(done):6.1%}{goal},",
                f"ended {stopped}, {length:.0f} tokens",
                flush=True,
            )
    print(f"ended with <|im_end|> within {BUDGET} tokens: {ended}/{total} = {ended / total:.1%}")
    if args.failures:
        args.failures.write_text(json.dumps(wrong, indent=1))


if __name__ == "__main__":
    main()
