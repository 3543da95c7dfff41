"""Replay speculative decoding in PyTorch and compare with llama-server's accepted counts.

For each prompt the greedy text comes from llama-server without speculation. PyTorch then walks
over that text as the server would: draft, count the accepted tokens, advance. Equal counts mean
that the MTP chain and the DFlash2 block and selector of the GGUF files compute what the trained
model computes.

    python verify_drafters.py --checkpoint CKPT --target T-f32.gguf --drafter D-f32.gguf \\
        --server llama-server
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from nano.checkpoint import load_models
from nano.draft_loss import block_inputs
from nano.drafter import Drafter
from nano.prompts import CHATS, COMPLETIONS
from nano.server import LlamaServer
from nano.target import Target
from nano.tokenizer import MASK_TOKEN
from tokenizers import Tokenizer
from torch import Tensor
from verify_server import chat_body, complete, mode_args


@torch.no_grad()
def mtp_matches(model: Target, tokens: Tensor, steps: int) -> list[list[bool]]:
    """For each position p: does chained step j, started at p, predict token p + j?"""
    h, _ = model.trunk(tokens)
    preds = [model.logits(m)[0].argmax(-1) for m in model.mtp_chain(tokens, h, steps)]
    text = tokens[0]
    n = len(text)
    return [
        [p + j + 1 < n and bool(preds[j][p + j] == text[p + j + 1]) for j in range(steps)]
        for p in range(n)
    ]


@torch.no_grad()
def dflash_draft(
    model: Target,
    drafter: Drafter,
    fused: Tensor,
    tokens: Tensor,
    anchor: int,
    rows: int,
    mask_id: int,
) -> list[int]:
    """The selector's greedy walk over one block of `rows` rows."""
    at = torch.tensor([[anchor]])
    emb = block_inputs(model, tokens, at, rows, mask_id)
    hidden = drafter(emb, fused, at, torch.tensor([[rows]]))[0, 0, 1:]
    top, cand = model.logits(hidden).topk(drafter.c.selector_top_k, -1)
    prev = tokens[0, anchor]
    out: list[int] = []
    for i in range(rows - 1):
        scores = top[i] + drafter.pair_scores(hidden[i], prev, cand[i])
        prev = cand[i, scores.argmax()]
        out.append(int(prev))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--drafter", type=Path, required=True)
    parser.add_argument("--server", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, default=Path(__file__).parent / "tokenizer.json")
    parser.add_argument("--n-predict", type=int, default=96)
    args = parser.parse_args()
    tok = Tokenizer.from_file(str(args.tokenizer))
    mask_id = tok.token_to_id(MASK_TOKEN)
    config, model, drafter = load_models(args.checkpoint)
    if drafter is None:
        raise SystemExit("the checkpoint has no drafter")
    names = [
        "code: class",
        "code: numpy",
        "prose: doc",
        "edit: rename",
        "tool: weather",
        "math: sum",
        "text: story",
    ]
    common = ["-m", str(args.target), "-c", "2048", "-ctk", "f32", "-ctv", "f32"]
    prompts: dict[str, str] = {}
    texts: dict[str, tuple[list[int], list[int]]] = {}
    with LlamaServer(args.server, common) as server:
        for name in names:
            prompts[name] = (
                COMPLETIONS.get(name)
                or server.post("/apply-template", chat_body(CHATS[name]))["prompt"]
            )
            ids = server.post("/tokenize", {"content": prompts[name], "parse_special": True})[
                "tokens"
            ]
            texts[name] = ids, complete(server, prompts[name], args.n_predict)["tokens"]
    for mode in ("mtp 3", "dflash 3", "dflash 7"):
        draft_args = ["-ctkd", "f32", "-ctvd", "f32"]
        with LlamaServer(
            args.server, common + draft_args + mode_args(mode, args.drafter)
        ) as server:
            for name in names:
                timings = complete(server, prompts[name], args.n_predict)["timings"]
                ids, new = texts[name]
                tokens = torch.tensor([ids + new])
                n = int(mode.split()[1])
                matches = mtp_matches(model, tokens, n) if mode.startswith("mtp") else []
                with torch.no_grad():
                    _, features = model.trunk(tokens, config.drafter.target_layers)
                    fused = drafter.fuse(features)
                p, accepted, end = len(ids), 0, len(ids) + len(new) - 1
                while p < end:
                    if matches:
                        hits = matches[p]
                    else:
                        draft = dflash_draft(model, drafter, fused, tokens, p, n + 1, mask_id)
                        hits = [
                            p + j + 1 <= end and t == tokens[0, p + j + 1]
                            for j, t in enumerate(draft)
                        ]
                    count = next((j for j, hit in enumerate(hits) if not hit), n)
                    count = min(count, end - p)
                    accepted += count
                    p += count + 1
                print(
                    f"{mode:9} {name:14} accepted:",
                    f"server {timings.get('draft_n_accepted', 0):3}, PyTorch {accepted:3}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
