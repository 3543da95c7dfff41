"""Losses of the two drafters against a frozen trunk."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from .drafter import Drafter
from .target import Target

MTP_STEPS = 3
MTP_WEIGHTS = (1.0, 0.8, 0.6)
SELECTOR_WEIGHT = 0.5
LossFn = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def soft_ce(
    h: Tensor, teacher_h: Tensor, embed: Tensor, labels: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor]:
    """Half distillation from the trunk's distribution, half cross-entropy on `labels`; and hits.

    h, teacher_h: [N, E]; embed: [V, E]; labels, weights: [N].
    """
    embed = embed.to(h.dtype)
    logits = F.linear(h, embed).float()
    teacher = F.linear(teacher_h, embed.detach()).float().softmax(-1)
    logq = logits.log_softmax(-1)
    per_row = -0.5 * (teacher * logq).sum(-1) - 0.5 * logq.gather(-1, labels[:, None])[:, 0]
    hits = (logits.argmax(-1) == labels).float()
    return (per_row * weights).sum() / weights.sum(), hits


def near_ties(
    h: Tensor, own: Tensor, guess_h: Tensor, embed: Tensor, weights: Tensor, margin: float
) -> Tensor:
    """Pulls the trunk to what a drafter foresees, where it hardly matters which token comes.

    Nearly all drafts that fail do so where the trunk itself is undecided. Where the drafter's
    choice is another one than the trunk's, and its probability less than `margin` smaller, the
    difference of both logits counts; it pulls the trunk, not the drafter.

    h, guess_h: [N, E] of the trunk and of the drafter; own: [N] the trunk's choices; embed: [V, E];
    weights: [N].
    """
    embed = embed.detach().to(h.dtype)
    with torch.no_grad():
        guess = F.linear(guess_h, embed).argmax(-1)
        p = F.linear(h, embed).float().softmax(-1)
        gap = (p.gather(-1, own[:, None]) - p.gather(-1, guess[:, None]))[:, 0]
        weights = weights * ((guess != own) & (gap < margin)) / weights.sum()
        towards = embed.index_select(0, own) - embed.index_select(0, guess)
    return ((h * towards).sum(-1, dtype=torch.float32) * weights).sum()


def _preference(w: Tensor) -> Tensor:
    """Random keys that put own text (weight 1) first and unweighted positions last."""
    return torch.rand_like(w) + 2.0 * (w >= 1.0) - 4.0 * (w <= 0.0)


def mtp_loss(
    model: Target, x: Tensor, h: Tensor, w: Tensor, n_rows: int, loss_fn: LossFn
) -> tuple[Tensor, Tensor]:
    """Weighted loss of the chained steps on `n_rows` sampled positions; hits [steps, n_rows].

    x, w: [B, T] tokens and weights of what each position predicts; h: [B, T, E].
    """
    flat_h = h.flatten(0, 1)
    base = torch.arange(len(w), device=w.device)[:, None] * w.shape[1]
    pick = (_preference(w).topk(n_rows // len(w), 1).indices + base).flatten()
    teacher, weights = flat_h.index_select(0, pick), w.flatten()[pick]
    with torch.no_grad():
        labels = model.logits(teacher).argmax(-1)
    total = h.new_zeros((), dtype=torch.float32)
    hits = []
    for weight, m in zip(MTP_WEIGHTS, model.mtp_chain(x, h, MTP_STEPS), strict=True):
        rows = m.flatten(0, 1).index_select(0, pick)
        loss, hit = loss_fn(rows, teacher, model.embed.weight, labels, weights)
        total = total + weight * loss
        hits.append(hit)
    return total, torch.stack(hits)


def draw_anchors(w: Tensor, count: int, block: int) -> Tensor:
    """[B, count] sorted anchor positions whose next block - 1 tokens exist; own text first."""
    key = _preference(w)
    key[:, :4] = -9
    key[:, w.shape[1] - block :] = -9
    return key.topk(count, 1).indices.sort(1).values


def block_inputs(
    model: Target, tokens: Tensor, anchors: Tensor, block: int, mask_id: int
) -> Tensor:
    """[B, A, block, E] embeddings of the anchor token followed by masks."""
    ids = torch.full((*anchors.shape, block), mask_id, dtype=torch.long, device=tokens.device)
    ids[..., 0] = tokens.gather(1, anchors)
    return model.embed_tokens(ids)


def dflash_loss(
    model: Target, drafter: Drafter, mask_id: int, tokens: Tensor, h: Tensor,
    features: list[Tensor], w: Tensor, count: int, loss_fn: LossFn,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Block loss plus selector loss; mean accepted length of the selector's walk in full blocks.

    A quarter of the blocks are shortened, so that shorter drafts work too.
    """
    c = drafter.c
    s = c.block_size
    anchors = draw_anchors(w, count, s)
    b, a = anchors.shape
    short = torch.rand(b, a, device=w.device) < 0.25
    lengths = torch.where(short, torch.randint(2, s, (b, a), device=w.device), s)
    emb = block_inputs(model, tokens, anchors, s, mask_id)
    hidden = drafter(emb, drafter.fuse(features), anchors, lengths)[:, :, 1:]
    offs = torch.arange(1, s, device=w.device)
    at = (anchors[..., None] + offs).flatten(1)
    labels, prev = tokens.gather(1, at), tokens.gather(1, at - 1)
    teacher = h.gather(1, (at - 1)[..., None].expand(-1, -1, h.shape[-1]))
    live = (offs[None, None] < lengths[..., None]).flatten(1)
    decay = (0.85 ** (offs - 1).float()).expand(b, a, -1).flatten(1)
    weight = (w.gather(1, at) * live * decay).flatten()
    flat, labels = hidden.flatten(0, 2), labels.flatten()
    loss, _ = loss_fn(flat, teacher.flatten(0, 1), model.embed.weight, labels, weight)
    top, cand = model.logits(flat).topk(c.selector_top_k, -1)
    scores = top.float() + drafter.pair_scores(flat, prev.flatten(), cand).float()
    match = cand == labels[:, None]
    sel = F.cross_entropy(scores, match.float().argmax(-1), reduction="none")
    sel_w = weight * match.any(-1)
    sel_loss = (sel * sel_w).sum() / sel_w.sum().clamp(min=1e-6)
    with torch.no_grad():
        best = cand.gather(1, scores.argmax(-1, keepdim=True))[:, 0]
        accepted = (best == labels).view(b, a, s - 1).float().cumprod(-1).sum(-1)
        full = (lengths == s) & (w.gather(1, anchors + s - 1) >= 1.0)
        mean = (accepted * full).sum() / full.sum()
    return loss + SELECTOR_WEIGHT * sel_loss, mean
