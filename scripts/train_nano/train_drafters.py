"""Train the MTP block (three chained steps) or the DFlash2 drafter, or both, on the frozen trunk.

    python train_drafters.py --data DATA --run RUN --trunk WEIGHTS --out OUT --only dflash \\
        --total 700 --until 560

Three quarters of the steps use the trunk's own text at temperatures 0 and 0.8 (nano/rollouts.py),
which is made anew all the time; the others use fresh chats and documents. With `--follow`, training
starts on WEIGHTS and takes RUN/live.safetensors whenever train_target.py has written a new one, and
RUN/final.safetensors as the last. It saves, and a later call on the same machine goes on.
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
from nano.fast import compile_regions, install_delta_rule
from nano.graphed import TrainStep
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
KEPT = 8  # batches of the trunk's own text


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    here = Path(__file__).parent
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--run", type=Path, required=True, help="has, or will have, text rows")
    parser.add_argument("--trunk", type=Path, required=True)
    parser.add_argument("--follow", action="store_true", help="take the trunks that appear in RUN")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", choices=tuple(DRAFTERS), help="train one of the two")
    parser.add_argument("--tokenizer", type=Path, default=here / "tokenizer.json")
    parser.add_argument("--until", type=float, required=True, help="seconds after the start")
    parser.add_argument("--total", type=float, required=True, help="training time of all calls")
    parser.add_argument("--refresh", type=float, default=45.0, help="seconds between rollouts")
    parser.add_argument("--rollout-batch", type=int, default=1536)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--anchors", type=int, default=64)
    parser.add_argument("--mtp-rows", type=int, default=24_576)
    parser.add_argument("--chat-share", type=float, default=0.4)
    parser.add_argument("--muon-lr", type=float, default=0.015)
    parser.add_argument("--adam-lr", type=float, default=0.003)
    parser.add_argument("--decay-from", type=float, default=0.5)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0, help="another one, other rows and own text")
    parser.add_argument("--no-compile", action="store_true")
    return parser.parse_args()


def text_windows(run: Path, device: torch.device, length: int, patience: float, seed: int) -> Rows:
    """Packed documents that the trunk was not trained on just now, `length` tokens a row."""
    began = time.time()
    while not (run / "text.done").is_file():
        if time.time() - began > patience:
            raise SystemExit(f"{run}/text.done did not appear: train_target.py makes the text rows")
        time.sleep(0.5)
    rows = Rows.load(run, "draft", device, 0, seed)
    per_row = rows.tokens.shape[1] // length
    cut = (x[:, : per_row * length].reshape(-1, length) for x in (rows.tokens, rows.weights))
    return Rows(*cut, HELD, seed)


class OwnText:
    """The newest batches of the trunk's own text, and a held-out part for each kind of text."""

    def __init__(self, maker: RolloutMaker, chat_share: float) -> None:
        self.maker, self.chat_share, self.made = maker, chat_share, 0
        self.batches: list[tuple[Tensor, Tensor]] = []
        self.held: dict[str, tuple[Tensor, Tensor]] = {}
        self.rows: Rows | None = None

    def add(self, trunk_is_new: bool) -> float:
        """Make one more batch; returns its number of own tokens in millions."""
        tokens, weights = self.maker.make(self.made, self.chat_share)
        self.made += 1
        if trunk_is_new:
            self.batches.clear()
            n_chat = round(len(tokens) * self.chat_share)
            part = min(HELD, n_chat // 2, (len(tokens) - n_chat) // 2)
            chat, text = slice(0, part), slice(len(tokens) - part, len(tokens))
            for name, at in (("chat", chat), ("text", text)):
                self.held[name] = tokens[at].long(), weights[at].float() / 100
            tokens, weights = tokens[part:-part], weights[part:-part]
        self.batches = [*self.batches[1 - KEPT :], (tokens, weights)]
        kept = (torch.cat(x) for x in zip(*self.batches, strict=True))
        self.rows = Rows(*kept, 0, self.made)
        return (weights == 100).sum().item() / 1e6

    def draw(self, n: int) -> tuple[Tensor, Tensor]:
        assert self.rows is not None
        return self.rows.draw(n)


@torch.no_grad()
@torch.compiler.set_stance("force_eager")
def evaluate(
    model: Target, drafter: Drafter, own: OwnText, mask_id: int, anchors: int
) -> dict[str, float]:
    """Accepted drafts of chained MTP and of DFlash2 on held-out own text."""
    found = {}
    for name, (tokens, w) in own.held.items():
        kind = tokens.device.type
        with torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda"):
            h, features = model.trunk(tokens, drafter.c.target_layers)
            labels = model.logits(h).argmax(-1)
            chain = model.mtp_chain(tokens, h, MTP_STEPS)
            hits = [model.logits(m).argmax(-1) == labels for m in chain]
            ok = (w[:, :-3] >= 1) & (w[:, 3:] >= 1)
            a, b, c = hits[0][:, :-3], hits[1][:, 1:-2], hits[2][:, 2:-1]
            steps = a.float() + (a & b).float() + (a & b & c).float()
            _, accepted = dflash_loss(
                model, drafter, mask_id, tokens, h, features, w, anchors, soft_ce
            )
        found[f"mtp {name}"] = round(steps[ok].mean().item(), 3)
        found[f"dflash {name}"] = round(accepted.item(), 3)
    return found


def main() -> None:
    args = arguments()
    began = time.time()
    label = args.only or "drafters"
    wanted = [args.only] if args.only else list(DRAFTERS)

    def log(*parts: object) -> None:
        print(f"[{label} {time.time() - began:6.1f}]", *parts, flush=True)

    resume_at = args.run / f"{label}.pt"
    resumed = torch.load(resume_at) if resume_at.is_file() else None
    clock = resumed["clock"] if resumed else 0.0
    stream = ChatStream(
        args.tokenizer,
        args.data / "lexicon.json.xz",
        args.workers,
        args.length,
        77 + 100 * wanted.index(wanted[-1]) + int(clock) + 10_000 * args.seed,
    )
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(1 + int(clock) + 10_000 * args.seed)
    torch.set_float32_matmul_precision("high")
    final_at, live_at = args.run / "final.safetensors", args.run / "live.safetensors"
    final = not args.follow or final_at.is_file()
    config, model, drafter = load_models(args.trunk)
    if args.follow and final:
        model = load_models(final_at)[1]
    model.to(device).requires_grad_(False)
    drafter = (drafter or Drafter(config.drafter, config.target)).to(device)
    trained = {"mtp": model.mtp, "dflash": drafter}
    for name, module in trained.items():
        module.requires_grad_(name in wanted)
    log("delta rule:", install_delta_rule(model, device))
    tok = Tokenizer.from_file(str(args.tokenizer))
    mask_id = tok.token_to_id(MASK_TOKEN)
    decoder = Decoder(model, args.rollout_batch, args.length, device, not args.no_compile)
    text = text_windows(args.run, device, args.length, args.until, 3 + args.seed)
    own = OwnText(
        RolloutMaker(decoder, stream, text, tok.token_to_id("<|im_end|>")), args.chat_share
    )
    own.made = 1000 * int(clock > 0) + 10_000 * args.seed
    opt = Optimizers([trained[name] for name in wanted], args.muon_lr, args.adam_lr)
    if resumed:
        for name in wanted:
            trained[name].load_state_dict(resumed[name])
        opt.load(args.run / f"{label}-momenta.pt")
        log(f"goes on after {clock:.0f} s")
    loss_fn = soft_ce
    if not args.no_compile:
        compile_regions(model)
        loss_fn = torch.compile(soft_ce, dynamic=False)
    log(f"{own.add(True):.2f} M own tokens")

    def take_trunk(path: Path) -> None:
        fresh = load_models(path)[1].state_dict()
        kept = {k: v for k, v in fresh.items() if "mtp" not in wanted or not k.startswith("mtp.")}
        model.load_state_dict(kept, strict=False)

    def draw(fresh: bool) -> tuple[Tensor, ...]:
        if not fresh:
            return own.draw(args.batch)
        half = args.batch // 2
        parts = [stream.draw(half, device), text.draw(args.batch - half)]
        return tuple(torch.cat(part) for part in zip(*parts, strict=True))

    def losses(tokens: Tensor, w: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        total, shown = tokens.new_zeros((), dtype=torch.float32), {}
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            with torch.no_grad():
                h, features = model.trunk(tokens, config.drafter.target_layers)
            if "mtp" in wanted:
                later = torch.nn.functional.pad(w[:, 1:], (0, 1))
                loss, hits = mtp_loss(model, tokens, h, later, args.mtp_rows, loss_fn)
                total, shown["mtp"] = total + loss, hits
            if "dflash" in wanted:
                loss, accepted = dflash_loss(
                    model, drafter, mask_id, tokens, h, features, w, args.anchors, loss_fn
                )
                total, shown["dflash"] = total + loss, accepted
        return total, {**shown, "loss": total.detach()}

    one_step = TrainStep(losses, opt, None, (args.batch, args.length), device)
    one_step.prepare(0.0, *draw(True))
    log("compiled")

    def save(seconds: float) -> None:
        state = state_of(model, drafter)
        prefixes = tuple(DRAFTERS[name] for name in wanted)
        packed = {k: v for k, v in state.items() if k.startswith(prefixes)}
        save_packed(args.out / f"drafters-{label}.safetensors", config, packed)
        opt.save(args.run / f"{label}-momenta.pt")
        weights = {name: trained[name].state_dict() for name in wanted}
        torch.save({**weights, "clock": seconds}, resume_at)

    args.out.mkdir(parents=True, exist_ok=True)
    log("before", evaluate(model, drafter, own, mask_id, args.anchors))
    start = last = saved = made = time.time()
    seen_at = live_at.stat().st_mtime if live_at.is_file() else 0.0
    step = 0
    while (now := time.time()) - began < args.until:
        if args.follow and not final and step % 8 == 0:
            path = final_at if final_at.is_file() else live_at
            if path.is_file() and path.stat().st_mtime > seen_at:
                seen_at, final = path.stat().st_mtime, path == final_at
                take_trunk(path)
                log(f"takes {path.name}; {own.add(True):.2f} M own tokens")
                log(evaluate(model, drafter, own, mask_id, args.anchors))
                made = time.time()
        if now - made > args.refresh:
            own.add(False)
            made = time.time()
        rate = schedule((clock + now - start) / args.total, args.decay_from)
        with one_step.feeding():
            rows = draw(step % 4 == 3)
        shown = one_step(rate, *rows)
        step += 1
        if step % 8 == 0:
            shown["loss"].item()  # keeps the queue short, so that the clock is honest
        if now - last > 15:
            last = now
            means = {
                k: [round(x, 2) for x in v.mean(-1).flatten().tolist()] for k, v in shown.items()
            }
            log(f"step {step}", means)
        if now - saved > SAVE_EVERY:
            saved = now
            save(clock + now - start)
            log(evaluate(model, drafter, own, mask_id, args.anchors))
    save(clock + time.time() - start)
    log(f"trained {step} steps", evaluate(model, drafter, own, mask_id, args.anchors))
    stream.close()


if __name__ == "__main__":
    main()
