"""Acceptance on short continuations of code outside the training corpus, greedy and sampled.

    python verify_unseen_code.py --server llama-server --target T.gguf --drafter D.gguf \\
        --code llama.cpp/conversion
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

from nano.server import LlamaServer
from verify_server import mode_args


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--server", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--drafter", type=Path, required=True)
    parser.add_argument("--code", type=Path, required=True)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--n-predict", type=int, default=48)
    args = parser.parse_args()
    rng = random.Random(9)
    files = sorted(args.code.glob("*.py"))
    prompts = []
    while len(prompts) < args.count:
        source = rng.choice(files).read_text()
        at = rng.randrange(len(source))
        prompts.append(source[max(0, at - 1200) : at])
    for mode in ("mtp 1", "mtp 3", "dflash 3", "dflash 7"):
        with LlamaServer(
            args.server,
            ["-m", str(args.target), "-c", "2048", "-t", "1", *mode_args(mode, args.drafter)],
        ) as server:
            for temperature in (0.0, 0.8):
                accepted = drafted = steps = 0
                for i, prompt in enumerate(prompts):
                    t = server.post(
                        "/completion",
                        {
                            "prompt": prompt,
                            "n_predict": args.n_predict,
                            "temperature": temperature,
                            "seed": i,
                            "cache_prompt": False,
                        },
                    )["timings"]
                    accepted += t.get("draft_n_accepted", 0)
                    drafted += t.get("draft_n", 0)
                    steps += t["predicted_n"] - t.get("draft_n_accepted", 0)
                print(
                    f"{mode:9} temperature {temperature}: {accepted / steps:.2f} accepted per step,",
                    f"{100 * accepted / drafted:.0f}% of the drafts",
                    flush=True,
                )


if __name__ == "__main__":
    main()
