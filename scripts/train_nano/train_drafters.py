"""Train the MTP block (three chained steps) and the DFlash2 drafter on the frozen trunk.

    python train_drafters.py --data DATA --run RUN --trunk WEIGHTS --out OUT --until 400

Two thirds of the steps use the trunk's own text at temperatures 0 and 0.8 (nano/rollouts.py), the
others fresh chats and documents. With `--swap FILE`, training starts on WEIGHTS and takes the trunk
of FILE as soon as another process has written it, with new rollouts: so the drafters need not wait
for the last fine-tuning of the trunk.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from nano.checkpoint import DRAFTERS, load_models, save_packed, state_of
from nano.decode import Decoder
from nano.draft_loss import MTP_STEPS, dflash_loss, mtp_loss, soft_ce
from nano.drafter import Drafter
from nano.fast import install_delta_rule
from nano.optim import Optimizers, schedule
from nano.rollouts import RolloutMaker
from nano.rows import Rows
from nano.stream import ChatStream
from nano.target import Target
from nano.tokenizer import MASK_TOKEN
from tokenizers import Tokenizer
from torch import Tensor

SAVE_EVERY = 60.0
HELD = 64


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    here = Path(__file__).parent
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--run", type=Path, required=True, help="has, or will have, text rows")
    parser.add_argument("--trunk", type=Path, required=True)
    parser.add_argument("--swap", type=Path, help="the final trunk, written later")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, default=here / "tokenizer.json")
    parser.add_argument("--until", type=float, required=True, help="seconds after the start")
    parser.add_argument("--passes", type=int, default=2, help="rollout batches on the final trunk")
    parser.add_argument("--rollout-batch", type=int, default=1024)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--anchors", type=int, default=48)
    parser.add_argument("--mtp-rows", type=int, default=24_576)
    parser.add_argument("--chat-share", type=float, default=0.45)
    parser.add_argument("--muon-lr", type=float, default=0.015)
    parser.add_argument("--adam-lr", type=float, default=0.003)
    parser.add_argument("--decay-from", type=float, default=0.5)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--no-compile", action="store_true")
    return parser.parse_args()


def text_windows(run: Path, device: torch.device, length: int, patience: float) -> Rows:
    """The packed documents of the trunk's training, cut to `length` tokens a row."""
    began = time.time()
    while not (run / "text.done").is_file():
        if time.time() - began > patience:
            raise SystemExit(f"{run}/text.done did not appear: train_target.py makes the text rows")
        time.sleep(0.5)
    rows = Rows.load(run, "text", device, 0, 3)
    per_row = rows.tokens.shape[1] // length
    cut = (x[:, : per_row * length].reshape(-1, length) for x in (rows.tokens, rows.weights))
    return Rows(*cut, HELD, 3)


@torch.no_grad()
def evaluate(
    model: Target, drafter: Drafter, rows: Rows, mask_id: int, anchors: int
) -> dict[str, float]:
    """Held-out rollouts: chained MTP hits and accepted DFlash2 length on the trunk's own text."""
    tokens, w = rows.take(rows.held)
    kind = tokens.device.type
    with torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda"):
        h, features = model.trunk(tokens, drafter.c.target_layers)
        labels = model.logits(h).argmax(-1)
        hits = [model.logits(m).argmax(-1) == labels for m in model.mtp_chain(tokens, h, MTP_STEPS)]
        ok = (w[:, :-3] >= 1) & (w[:, 3:] >= 1)
        a, b, c = hits[0][:, :-3], hits[1][:, 1:-2], hits[2][:, 2:-1]
        chain = (a.float() + (a & b).float() + (a & b & c).float())[ok].mean().item()
        _, accepted = dflash_loss(model, drafter, mask_id, tokens, h, features, w, anchors, soft_ce)
    return {"mtp": round(chain, 3), "dflash": round(accepted.mean().item(), 3)}


def main() -> None:
    args = arguments()
    began = time.time()

    def log(*parts: object) -> None:
        print(f"[drafters {time.time() - began:6.1f}]", *parts, flush=True)

    stream = ChatStream(
        args.tokenizer, args.data / "lexicon.json.xz", args.workers, args.length, 77
    )
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    config, model, drafter = load_models(args.trunk)
    model.to(device).requires_grad_(False)
    model.mtp.requires_grad_(True)
    drafter = (drafter or Drafter(config.drafter, config.target)).to(device)
    log("delta rule:", install_delta_rule(model, device))
    tok = Tokenizer.from_file(str(args.tokenizer))
    mask_id = tok.token_to_id(MASK_TOKEN)
    decoder = Decoder(model, args.rollout_batch, args.length, device, not args.no_compile)
    text = text_windows(args.run, device, args.length, args.until)
    maker = RolloutMaker(decoder, stream, text, tok.token_to_id("<|im_end|>"))

    def rollouts(passes: int, seed: int) -> Rows:
        pieces = [maker.make(seed + i, args.chat_share) for i in range(passes)]
        made = Rows(*(torch.cat(p) for p in zip(*pieces, strict=True)), HELD, seed)
        log(
            f"{len(made.tokens)} rollouts,",
            f"{int((made.weights == 100).sum()) / 1e6:.2f} M own tokens",
        )
        return made

    own = rollouts(1, 0)
    log(repr(tok.decode(own.tokens[int(own.held[0])].tolist(), skip_special_tokens=False)[:600]))
    opt = Optimizers([model.mtp, drafter], args.muon_lr, args.adam_lr)
    loss_fn = soft_ce if args.no_compile else torch.compile(soft_ce, dynamic=False)

    def losses(fresh: bool) -> tuple[Tensor, Tensor, Tensor]:
        if fresh:
            half = args.batch // 2
            parts = [stream.draw(half, device), text.draw(args.batch - half)]
            tokens, w = (torch.cat(p) for p in zip(*parts, strict=True))
        else:
            tokens, w = own.draw(args.batch)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            with torch.no_grad():
                h, features = model.trunk(tokens, config.drafter.target_layers)
            later = torch.nn.functional.pad(w[:, 1:], (0, 1))
            m_loss, hits = mtp_loss(model, tokens, h, later, args.mtp_rows, loss_fn)
            d_loss, accepted = dflash_loss(
                model, drafter, mask_id, tokens, h, features, w, args.anchors, loss_fn
            )
        return m_loss + d_loss, hits, accepted

    def save() -> None:
        state = {k: v for k, v in state_of(model, drafter).items() if k.startswith(DRAFTERS)}
        save_packed(args.out / "drafters.safetensors", config, state)

    args.out.mkdir(parents=True, exist_ok=True)
    log("before", evaluate(model, drafter, own, mask_id, args.anchors))
    start = last = saved = time.time()
    final = args.swap is None
    step = 0
    while (now := time.time()) - began < args.until:
        if not final and args.swap.is_file():
            fresh_trunk = load_models(args.swap)[1].state_dict()
            kept = {k: v for k, v in fresh_trunk.items() if not k.startswith("mtp.")}
            model.load_state_dict(kept, strict=False)
            final = True
            log("final trunk taken;", evaluate(model, drafter, own, mask_id, args.anchors))
            own = rollouts(args.passes, 100)
        loss, hits, accepted = losses(step % 3 == 2)
        loss.backward()
        progress = (now - start) / (began + args.until - start)
        opt.step(schedule(progress, args.decay_from))
        step += 1
        if now - last > 15:
            last = now
            shown = [round(v, 3) for v in hits.mean(1).tolist()]
            log(
                f"step {step} loss {loss.item():.3f}",
                f"mtp {shown} dflash {accepted.mean().item():.2f}",
            )
        if final and now - saved > SAVE_EVERY:
            saved = now
            save()
    save()
    log(f"trained {step} steps", evaluate(model, drafter, own, mask_id, args.anchors))
    stream.close()


if __name__ == "__main__":
    main()
