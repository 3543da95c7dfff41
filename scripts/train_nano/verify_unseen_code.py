"""Acceptance on short continuations of code outside the training corpus, greedy and sampled.

    python verify_unseen_code.py --server llama-server --target T.gguf --drafter D.gguf \\
        --code llama.cpp/conversion
"""

from __future__ import annotations

import argparse
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from nano.server import LlamaServer
from verify_server import mode_args

SLOTS = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--server", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--drafter", type=Path, required=True)
    parser.add_argument("--code", type=Path, required=True)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--modes", default="mtp 1,mtp 3,dflash 3,dflash 7")
    parser.add_argument("--n-predict", type=int, default=48)
    args = parser.parse_args()
    rng = random.Random(9)
    files = sorted(args.code.glob("*.py"))
    prompts = []
    while len(prompts) < args.count:
        source = rng.choice(files).read_text()
        at = rng.randrange(len(source))
        prompts.append(source[max(0, at - 1200) : at])
    for mode in args.modes.split(","):
        options = ["-m", str(args.target), "-c", str(2048 * SLOTS), "-t", "1", "-np", str(SLOTS)]
        options += mode_args(mode, args.drafter)
        with LlamaServer(args.server, options) as server, ThreadPoolExecutor(SLOTS) as pool:
            for temperature in (0.0, 0.8):

                def run(seed: int, heat: float = temperature) -> tuple[int, int, int]:
                    """Accepted drafts, drafted tokens and verification steps of one prompt."""
                    body = {"prompt": prompts[seed], "n_predict": args.n_predict, "seed": seed}
                    body |= {"temperature": heat, "cache_prompt": False}
                    t = server.post("/completion", body)["timings"]
                    kept = t.get("draft_n_accepted", 0)
                    return kept, t.get("draft_n", 0), t["predicted_n"] - kept

                sums = [sum(x) for x in zip(*pool.map(run, range(len(prompts))), strict=True)]
                accepted, drafted, steps = sums
                print(
                    f"{mode:9} temperature {temperature}:",
                    f"{accepted / steps:.2f} accepted per step,",
                    f"{100 * accepted / drafted:.0f}% of the drafts",
                    flush=True,
                )


if __name__ == "__main__":
    main()
