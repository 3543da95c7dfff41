"""Train the trunk together with its MTP block, three chained steps.

    python train_target.py --data DATA --run RUN --out OUT --total 820 --seconds 440

It stops by the clock, saves, and resumes. `--data` holds what prepare.py made; RUN keeps rows,
weights and momenta for the next call on the same machine; OUT receives the weights in pieces of at
most 16 MB. With weights in RUN, the call goes on where they stopped; the learning rate follows the
sum of all calls, `--total`. On several GPUs, start one process each with the same arguments and the
variables of nano/replicas.py; numbers of rows are those of one process.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from nano import corpus
from nano.checkpoint import load_clock, load_models, save_checkpoint, save_packed, state_of
from nano.config import NanoConfig, TargetConfig
from nano.copies import NEWLINE, CopyRows
from nano.decode import Decoder
from nano.draft_loss import near_ties, soft_ce
from nano.fast import compile_regions, install_delta_rule
from nano.graphed import TrainStep
from nano.loops import OWN_END, LoopRows
from nano.optim import Optimizers, schedule
from nano.pack import text_rows
from nano.replicas import Replicas
from nano.rows import Rows
from nano.stream import ChatStream
from nano.target import Target
from nano.tokenizer import CONTROL_TOKENS
from tokenizers import Tokenizer
from torch import Tensor

SAVE_EVERY = 90.0
SHARE_EVERY = 256
LOOP_MARKS = (0.5, 0.65, 0.8)
MTP_WINDOW = 1024
NEAR_TIE = 0.2
DRAFT_PART = 6


def weighted_ce(h: Tensor, embed: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """Cross-entropy; a negative weight asks for the label to become unlikely."""
    ce = F.cross_entropy(F.linear(h, embed.to(h.dtype)).float(), labels, reduction="none")
    unlikely = -torch.log1p(-torch.exp(-ce).clamp(max=0.999))
    total = torch.where(weights >= 0, ce * weights, -unlikely * weights).sum()
    return total / weights.clamp(min=0).sum()


def windows(x: Tensor, starts: Tensor, length: int) -> Tensor:
    """[N, length, ...]: a stretch of each of the first N rows; starts: [N]."""
    n, row_len = len(starts), x.shape[1]
    first = torch.arange(0, n * row_len, row_len, device=x.device) + starts
    at = first[:, None] + torch.arange(length, device=x.device)
    return x[:n].flatten(0, 1).index_select(0, at.flatten()).unflatten(0, (n, length))


def _text_job(job: tuple[Path, list[str], int, int, Path]) -> Path:
    os.nice(10)
    tokenizer, docs, seed, row_len, out = job
    rows, weights = text_rows(Tokenizer.from_file(str(tokenizer)), docs, seed, row_len)
    np.savez(out, rows=rows, weights=weights)
    return out


def prepare_text(
    data: Path, run: Path, tokenizer: Path, row_len: int, workers: int, limit: int
) -> None:
    """Rows of the carried documents and of the packages installed here, and sources.json.

    One part in DRAFT_PART is for the drafters only, so that they learn from the trunk's text where
    the trunk does not know the document.
    """
    docs: list[str] = []
    sources: list[dict[str, object]] = []
    if (data / "docs.json.xz").is_file():  # left at home when weights travel instead
        docs += json.loads(lzma.decompress((data / "docs.json.xz").read_bytes()))
        sources += json.loads((data / "sources.json").read_text())
    more, found = corpus.from_installed(limit)
    docs += more
    sources += [
        {"name": s.name, "version": s.version, "licence": s.licence, "chars": s.chars}
        for s in found
    ]
    (run / "sources.json").write_text(json.dumps(sources, indent=1))
    parts = workers * 3
    jobs = [(tokenizer, docs[i::parts], i, row_len, run / f"part{i:03d}.npz") for i in range(parts)]
    with get_context("fork").Pool(workers) as pool:
        files = pool.map(_text_job, jobs, chunksize=1)
    loaded = [np.load(f) for f in files]
    apart = max(1, len(loaded) // DRAFT_PART)
    for name, chosen in (("draft", loaded[:apart]), ("text", loaded[apart:])):
        for key in ("rows", "weights"):
            np.save(run / f"{name}_{key}.npy", np.concatenate([d[key] for d in chosen]))
    for f in files:
        f.unlink()
    (run / "text.done").touch()


@torch.no_grad()
def evaluate(model: Target, rows: Rows, device: torch.device) -> dict[str, float]:
    """Loss, accuracy and one-step MTP agreement on held-out rows (trained tokens only)."""
    sums = dict.fromkeys(("n", "loss", "hit", "mtp"), 0.0)
    for part in rows.held.split(8):
        tok, w = rows.take(part)
        x, y, keep = tok[:, :-1], tok[:, 1:], w[:, 1:] >= 1.0
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            h, _ = model.trunk(x)
            logits = model.logits(h)[keep].float()
            m = model.logits(model.mtp_chain(x, h, 1)[0])[keep]
        labels = y[keep]
        sums["n"] += len(labels)
        sums["loss"] += F.cross_entropy(logits, labels, reduction="sum").item()
        sums["hit"] += (logits.argmax(-1) == labels).sum().item()
        sums["mtp"] += (logits.argmax(-1) == m.argmax(-1)).sum().item()
    n = sums.pop("n")
    return {k: round(v / n, 4) for k, v in sums.items()}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    here = Path(__file__).parent
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, default=here / "tokenizer.json")
    parser.add_argument("--seconds", type=float, required=True, help="training time of this call")
    parser.add_argument("--total", type=float, required=True, help="training time of all calls")
    parser.add_argument(
        "--until", type=float, help="seconds after the start; the last call ends its schedule then"
    )
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument(
        "--chat-share", type=float, nargs=2, default=(0.62, 0.78), help="first, last"
    )
    parser.add_argument("--loop-rows", type=int, default=2)
    parser.add_argument("--copy-rows", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1, help="of chats; another one, other chats")
    parser.add_argument("--mtp-weight", type=float, default=0.3)
    parser.add_argument("--mtp-steps", type=int, default=3, help="chained")
    parser.add_argument("--mtp-rows", type=int, default=16, help="rows for MTP, documents first")
    parser.add_argument("--tie-weight", type=float, default=0.0, help="see draft_loss.near_ties")
    parser.add_argument("--tie-rows", type=int, default=8, help="rows of documents for it")
    parser.add_argument("--muon-lr", type=float, default=0.02)
    parser.add_argument("--adam-lr", type=float, default=0.004)
    parser.add_argument("--decay-from", type=float, default=0.4)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--init", type=Path, help="weights to start from, where RUN has none")
    parser.add_argument("--text-workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--text-limit", type=int, default=12_000_000, help="characters a package")
    parser.add_argument("--rollouts", type=int, default=1536)
    parser.add_argument("--layers", type=int, help="another depth (for a try on a CPU)")
    parser.add_argument("--no-compile", action="store_true")
    args = parser.parse_args()
    if args.tie_weight and args.tie_rows > args.mtp_rows:
        parser.error(f"--tie-rows {args.tie_rows}: no more than --mtp-rows, {args.mtp_rows}")
    return args


def main() -> None:
    args = arguments()
    args.run.mkdir(parents=True, exist_ok=True)
    began = time.time()
    rank = int(os.environ.get("RANK", 0))

    def log(*parts: object) -> None:
        if rank == 0:
            print(f"[{time.time() - began:6.1f}]", *parts, flush=True)

    weights_at = args.run / "fp32"
    resumed = (weights_at / "config.json").is_file()
    clock = load_clock(weights_at) if resumed else 0.0
    stream = ChatStream(
        args.tokenizer,
        args.data / "lexicon.json.xz",
        args.workers,
        args.length + 1,
        args.seed + int(clock) + 10_000 * rank,
    )
    preparing = None
    if rank == 0 and not (args.run / "text.done").is_file():
        job = (
            args.data,
            args.run,
            args.tokenizer,
            args.length + 1,
            args.text_workers,
            args.text_limit,
        )
        preparing = get_context("fork").Process(target=prepare_text, args=job)
        preparing.start()

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    replicas = Replicas(device)
    torch.manual_seed(int(clock) + 10_000 * rank)
    torch.set_float32_matmul_precision("high")
    config = (
        NanoConfig()
        if args.layers is None
        else NanoConfig(target=TargetConfig(n_layer=args.layers))
    )
    source = weights_at if resumed else args.init
    model = Target(config.target) if source is None else load_models(source)[1]
    model.to(device)
    log(
        "delta rule:",
        install_delta_rule(model, device),
        f"parameters: {sum(p.numel() for p in model.parameters()):,}",
    )
    decoder = Decoder(model, args.rollouts, OWN_END, device, not args.no_compile)
    loss_fn, mtp_loss_fn, tie_loss_fn = weighted_ce, soft_ce, near_ties
    if not args.no_compile:
        compile_regions(model)
        loss_fn = torch.compile(weighted_ce, dynamic=False)
        mtp_loss_fn = torch.compile(soft_ce, dynamic=False)
        tie_loss_fn = torch.compile(near_ties, dynamic=False)
    opt = Optimizers([model], args.muon_lr, args.adam_lr)
    if resumed and (args.run / "momenta.pt").is_file():
        opt.load(args.run / "momenta.pt")
    autocast = torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")
    window = min(MTP_WINDOW, args.length)
    tied = args.tie_rows * window

    def losses(tok: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        """What to minimise, and the trunk's part of it."""
        x, y, w = tok[:, :-1], tok[:, 1:], w[:, 1:].contiguous()
        with autocast:
            h, _ = model.trunk(x)
            loss = loss_fn(h.flatten(0, 1), model.embed.weight, y.flatten(), w.flatten())
            total = loss
            if args.mtp_weight:
                at = torch.randint(0, x.shape[1] - window + 1, (args.mtp_rows,), device=device)
                cut, hidden, weights = (windows(v, at, window) for v in (x, h, w))
                weights = weights.clamp(min=0).flatten()
                teacher = hidden.detach().flatten(0, 1)
                with torch.no_grad():
                    own = model.logits(teacher).argmax(-1)
                for m in model.mtp_chain(cut, hidden, args.mtp_steps):
                    part, _ = mtp_loss_fn(
                        m.flatten(0, 1), teacher, model.embed.weight, own, weights
                    )
                    total = total + args.mtp_weight / args.mtp_steps * part
                    if args.tie_weight:
                        part = tie_loss_fn(
                            hidden[: args.tie_rows].flatten(0, 1),
                            own[:tied],
                            m[: args.tie_rows].flatten(0, 1),
                            model.embed.weight,
                            weights[:tied],
                            NEAR_TIE,
                        )
                        total = total + args.tie_weight / args.mtp_steps * part
        return total, loss.detach()

    one_step = TrainStep(
        losses, opt, replicas.average_gradients, (args.batch, args.length + 1), device
    )
    chats = stream.draw(args.batch, device)
    held = stream.draw(args.batch, device)
    log("first chats are here")
    one_step.prepare(0.02 if source is None else 0.0, *chats)
    log("compiled")

    def open_text() -> tuple[Rows, LoopRows, CopyRows] | None:
        """The documents, as soon as they are ready; before that, all rows are chats."""
        if rank and not (args.run / "text.done").is_file():
            return None
        if preparing is not None:
            if preparing.is_alive():
                return None
            preparing.join()
            if preparing.exitcode:
                raise RuntimeError("the text rows could not be made; see the error above")
        seed = int(clock) + 10_000 * rank
        text = Rows.load(args.run, "text", device, 32, 2 + seed)
        log(f"text: {text.tokens.numel() / 1e6:.1f} M tokens")
        tok = Tokenizer.from_file(str(args.tokenizer))
        special = min(tok.token_to_id(t) for t in CONTROL_TOKENS)
        copies = CopyRows(text, special, tok.token_to_id(NEWLINE), args.length + 1, 7 + seed)
        return text, LoopRows(decoder, text, args.length + 1, 5 + seed), copies

    def save(seconds: float, name: str = "live") -> None:
        """Weights for a later call, for this machine's drafters (`name`), and for taking home."""
        if not replicas.first:
            return
        state = state_of(model, None)
        save_checkpoint(weights_at, config, state, torch.float32, seconds)
        opt.save(args.run / "momenta.pt")
        save_checkpoint(args.out, config, state, torch.bfloat16, seconds)
        save_packed(args.run / "packed.part", config, state)
        (args.run / "packed.part").rename(args.run / f"{name}.safetensors")

    start = last = saved = time.time()
    if args.until:
        last_call = clock + args.seconds >= args.total
        args.seconds = min(args.seconds, args.until - (start - began))
        if last_call:
            args.total = min(args.total, clock + args.seconds)
    args.seconds, args.total = replicas.agree(args.seconds), replicas.agree(args.total)
    waited, step, tokens_seen, ema, marks = (
        0.0,
        0,
        0,
        0.0,
        [m for m in LOOP_MARKS if m * args.total > clock],
    )
    if clock > LOOP_MARKS[0] * args.total:
        marks.insert(0, 0.0)
    opened = open_text()
    while (elapsed := replicas.agree(time.time() - start)) < args.seconds:
        progress = (clock + elapsed) / args.total
        if opened is None and step % 16 == 0:
            opened = open_text()
        if marks and progress >= marks[0] and opened is not None:
            loops = opened[1]
            marks.pop(0)
            loops.refresh()
            log(f"own rollouts: {100 * loops.share:.1f}% of the own tokens close a repetition")
        first, final = args.chat_share
        share = first + (final - first) * min(1.0, progress)
        spliced = args.loop_rows + args.copy_rows
        n_chat = min(round(args.batch * share), args.batch - spliced)
        with one_step.feeding():
            asked = time.time()
            drawn = stream.draw(n_chat, device)
            waited += time.time() - asked
            if opened is None:
                parts = [stream.draw(args.batch - n_chat, device), drawn]
            else:
                text, loops, copies = opened
                n_text = args.batch - n_chat - spliced
                parts = [text.draw(n_text), drawn, loops.draw(args.loop_rows)]
                if args.copy_rows:
                    parts.append(copies.draw(args.copy_rows))
            rows = tuple(torch.cat(part) for part in zip(*parts, strict=True))
        loss = one_step(schedule(progress, args.decay_from), *rows)
        step += 1
        if step % SHARE_EVERY == 0:
            replicas.share(opt.params)
        tokens_seen += args.batch * args.length * replicas.count
        if step % 8 == 0:
            value = loss.item()  # also keeps the queue short, so that the clock is honest
            ema = value if step == 8 else 0.9 * ema + 0.1 * value
        if time.time() - last > 20:
            last = time.time()
            rate = tokens_seen / (last - start) / 1e3
            log(
                f"step {step} progress {progress:.3f} loss {ema:.3f} {rate:.0f} k tok/s,",
                f"waited {waited:.1f} s, text epochs {opened[0].epochs if opened else 0:.2f}",
            )
        if time.time() - saved > SAVE_EVERY:
            saved = time.time()
            save(clock + elapsed)
    log(
        f"trained {step} steps, {tokens_seen / 1e6:.1f} M tokens,",
        f"{stream.drawn} chat rows, waited {waited:.1f} s",
    )
    save(clock + time.time() - start, "final")
    log("saved")
    stream.close()
    replicas.close()
    if opened is None or not replicas.first:
        return
    text = opened[0]
    chat = Rows(held[0].to(torch.int16), (held[1] * 100).round().to(torch.int8), len(held[0]), 1)
    with torch.compiler.set_stance("force_eager"):
        log("chat", evaluate(model, chat, device), "text", evaluate(model, text, device))


if __name__ == "__main__":
    main()
