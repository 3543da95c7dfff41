"""Compare the PyTorch model's next-token log-probabilities with llama.cpp's.

python verify_parity.py --checkpoint CKPT --gguf outrider-nano-f32.gguf --server llama-server
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import torch
from nano import lexicon
from nano.checkpoint import load_models
from nano.server import LlamaServer
from nano.synth.gen import Gen
from nano.synth.mix import sample_chat
from nano.template import load_template, render
from tokenizers import Tokenizer


def prompts(tok: Tokenizer, data: Path, count: int) -> list[list[int]]:
    rng = random.Random(7)
    gen = Gen(7, lexicon.load(data / "lexicon.json.xz").side(unseen=True), unseen=True)
    template = load_template()
    code = Path(__file__).read_text()
    out = []
    for i in range(count):
        text = (
            code[i * 37 : i * 37 + 1500]
            if i % 2
            else "".join(t for t, _ in render(template, sample_chat(gen)))
        )
        ids = tok.encode(text, add_special_tokens=False).ids
        out.append(ids[: rng.randint(3, min(len(ids), 400))])
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True, help="the folder with lexicon.json.xz")
    parser.add_argument("--gguf", type=Path, required=True)
    parser.add_argument("--server", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, default=Path(__file__).parent / "tokenizer.json")
    parser.add_argument("--count", type=int, default=20)
    args = parser.parse_args()
    tok = Tokenizer.from_file(str(args.tokenizer))
    _, target, _ = load_models(args.checkpoint)
    target.eval()
    worst = mean = 0.0
    same = tokens_equal = 0
    cache = ["-ctk", "f32", "-ctv", "f32"] if "f32" in args.gguf.name else []
    with LlamaServer(
        args.server, ["-m", str(args.gguf), "-c", "2048", "--no-warmup", *cache]
    ) as server:
        batch = prompts(tok, args.data, args.count)
        for ids in batch:
            text = tok.decode(ids, skip_special_tokens=False)
            theirs_ids = server.post("/tokenize", {"content": text, "parse_special": True})[
                "tokens"
            ]
            tokens_equal += theirs_ids == tok.encode(text, add_special_tokens=False).ids
            reply = server.post(
                "/completion",
                {
                    "prompt": ids,
                    "n_predict": 1,
                    "n_probs": 8192,
                    "temperature": 0.0,
                    "cache_prompt": False,
                },
            )
            top = reply["completion_probabilities"][0]["top_logprobs"]
            theirs = torch.full((target.c.vocab_size,), float("nan"))
            for entry in top:
                theirs[entry["id"]] = entry["logprob"]
            with torch.no_grad():
                h, _ = target.trunk(torch.tensor([ids]))
                ours = torch.log_softmax(target.logits(h[0, -1]).float(), -1)
            known = theirs.isfinite() & (ours > -20)
            diff = (ours - theirs)[known].abs()
            worst, mean = max(worst, diff.max().item()), mean + diff.mean().item()
            same += int(ours.argmax()) == top[0]["id"]
    n = len(batch)
    print(f"{n} prompts, {min(map(len, batch))} to {max(map(len, batch))} tokens")
    print(f"log-probability difference: max {worst:.2e}, mean {mean / n:.2e}")
    print(f"argmax agreement {same}/{n}, tokenizer agreement {tokens_equal}/{n}")


if __name__ == "__main__":
    main()
