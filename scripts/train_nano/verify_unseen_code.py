"""Accepted drafts on continuations of unseen code, or on held-out chats, greedy and sampled.

    python verify_unseen_code.py --server llama-server --target T.gguf --drafter D.gguf \\
        --code llama.cpp/conversion

With `--chats N --data DATA` instead of `--code`, the prompts are N held-out tasks of each family
that has a goal, answered to their ends.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from nano import lexicon
from nano.server import LlamaServer, verification_steps
from nano.synth.gen import Gen
from nano.tasks import FAMILIES
from nano.template import load_template, prompt
from nano.unseen import code_prompts
from verify_server import mode_args

SLOTS = 8
CHAT_SEED = 31_000_000


def chat_prompts(data: Path, count: int) -> list[str]:
    """Tasks in wordings and words that training never used."""
    words = lexicon.load(data / "lexicon.json.xz").side(unseen=True)
    template = load_template()
    return [
        prompt(template, family.make(Gen(CHAT_SEED + i, words, unseen=True)))
        for family in FAMILIES
        if family.target is not None
        for i in range(count)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--server", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--drafter", type=Path, required=True)
    parser.add_argument("--code", type=Path, help="folder with Python files")
    parser.add_argument("--chats", type=int, help="held-out tasks a family")
    parser.add_argument("--data", type=Path, help="the folder with lexicon.json.xz")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--modes", default="mtp 1,mtp 3,dflash 3,dflash 7")
    parser.add_argument("--n-predict", type=int, default=48)
    args = parser.parse_args()
    if (args.code is None) == (args.chats is None):
        parser.error("give either --code, or --chats with --data")
    if args.code:
        prompts, length = code_prompts(args.code, args.count), args.n_predict
    else:
        prompts, length = chat_prompts(args.data, args.chats), 512
    for mode in args.modes.split(","):
        options = ["-m", str(args.target), "-c", str(2048 * SLOTS), "-t", "1", "-np", str(SLOTS)]
        options += mode_args(mode, args.drafter)
        with LlamaServer(args.server, options) as server, ThreadPoolExecutor(SLOTS) as pool:
            for temperature in (0.0, 0.8):

                def run(seed: int, heat: float = temperature) -> tuple[int, int, int]:
                    """Accepted drafts, drafted tokens and verification steps of one prompt."""
                    body = {"prompt": prompts[seed], "n_predict": length, "seed": seed}
                    body |= {"temperature": heat, "cache_prompt": False}
                    answer = server.post("/completion", body)
                    t = answer["timings"]
                    kept, drafted = t.get("draft_n_accepted", 0), t.get("draft_n", 0)
                    return kept, drafted, verification_steps(answer)

                sums = [sum(x) for x in zip(*pool.map(run, range(len(prompts))), strict=True)]
                accepted, drafted, steps = sums
                print(
                    f"{mode:9} temperature {temperature}:",
                    f"{accepted / steps:.2f} accepted per step,",
                    f"{100 * accepted / drafted:.0f}% of the drafts ({accepted} of {drafted},",
                    f"{steps} steps)",
                    flush=True,
                )


if __name__ == "__main__":
    main()
