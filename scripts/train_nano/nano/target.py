"""The trunk and its NextN (MTP) block, matching llama.cpp's qwen35 graph and graph_mtp."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .config import TargetConfig
from .layers import (
    FeedForward,
    GatedAttention,
    GatedDeltaNet,
    RMSNorm,
    grouped_attention,
    linear,
    rope_tables,
)


class Block(nn.Module):
    def __init__(self, c: TargetConfig, recurrent: bool) -> None:
        super().__init__()
        self.recurrent = recurrent
        self.attn_norm = RMSNorm(c.n_embd, c.norm_eps)
        self.mixer: nn.Module = GatedDeltaNet(c) if recurrent else GatedAttention(c)
        self.post_norm = RMSNorm(c.n_embd, c.norm_eps)
        self.ffn = FeedForward(c.n_embd, c.n_ff)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        h = self.attn_norm(x)
        x = x + (self.mixer(h) if self.recurrent else self.mixer(h, cos, sin))
        return x + self.ffn(self.post_norm(x))


def shift_right(x: Tensor, steps: int = 1) -> Tensor:
    """Move rows one position later along dim 1, zero-filling the start."""
    return torch.cat([torch.zeros_like(x[:, :steps]), x[:, :-steps]], 1)


class MTPBlock(nn.Module):
    """Position p reads (embedding of token p, hidden of p - 1) and predicts token p + 1."""

    def __init__(self, c: TargetConfig) -> None:
        super().__init__()
        self.c = c
        self.enorm = RMSNorm(c.n_embd, c.norm_eps)
        self.hnorm = RMSNorm(c.n_embd, c.norm_eps)
        self.eh_proj = linear(2 * c.n_embd, c.n_embd)
        self.attn_norm = RMSNorm(c.n_embd, c.norm_eps)
        self.mixer = GatedAttention(c)
        self.post_norm = RMSNorm(c.n_embd, c.norm_eps)
        self.ffn = FeedForward(c.n_embd, c.n_ff)
        self.head_norm = RMSNorm(c.n_embd, c.norm_eps)

    def forward(
        self,
        emb: Tensor,
        h: Tensor,
        cos: Tensor,
        sin: Tensor,
        past: list[tuple[Tensor, Tensor]],
        mask: Tensor | None,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """One chain step over all positions; `past` holds the keys and values of earlier steps."""
        x = self.eh_proj(torch.cat([self.enorm(emb), self.hnorm(h)], -1))
        q, k, v, gate = self.mixer.project(self.attn_norm(x), cos, sin)
        keys = torch.cat([kv[0] for kv in past] + [k], 1)
        values = torch.cat([kv[1] for kv in past] + [v], 1)
        o = grouped_attention(q, keys, values, mask, mask is None)
        x = x + self.mixer.o(o * torch.sigmoid(gate))
        x = x + self.ffn(self.post_norm(x))
        return self.head_norm(x), (k, v)

    def chain(self, emb: Tensor, h: Tensor, cos: Tensor, sin: Tensor, steps: int) -> list[Tensor]:
        """Hidden rows of each chained step, with run-time attention semantics.

        At step j (1-based) the query at p sees step-1 keys up to p - j + 1 and,
        for 2 <= i <= j, the step-i key at p - j + i.
        """
        t = emb.shape[1]
        idx = torch.arange(t, device=emb.device)
        rel = idx[:, None] - idx[None, :]
        out: list[Tensor] = []
        past: list[tuple[Tensor, Tensor]] = []
        for j in range(1, steps + 1):
            mask = None
            if j > 1:
                parts = [rel >= j - 1] + [rel == j - i for i in range(2, j + 1)]
                mask = torch.cat(parts, 1)
            h, kv = self(emb, shift_right(h), cos, sin, past, mask)
            past.append(kv)
            out.append(h)
        return out


class Target(nn.Module):
    def __init__(self, c: TargetConfig) -> None:
        super().__init__()
        self.c = c
        self.embed = nn.Embedding(c.vocab_size, c.n_embd)
        nn.init.normal_(self.embed.weight, std=0.05)
        self.blocks = nn.ModuleList(Block(c, c.is_recurrent(i)) for i in range(c.n_layer))
        self.norm = RMSNorm(c.n_embd, c.norm_eps)
        self.mtp = MTPBlock(c)

    def rope(self, t: int, device: torch.device) -> tuple[Tensor, Tensor]:
        return rope_tables(torch.arange(t, device=device), self.c.n_rot, self.c.rope_theta)

    def embed_tokens(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        return x.to(torch.bfloat16) if x.is_cuda else x

    def trunk(self, tokens: Tensor, taps: tuple[int, ...] = ()) -> tuple[Tensor, list[Tensor]]:
        """Normed hidden rows, and the inputs of the layers named in `taps`."""
        x = self.embed_tokens(tokens)
        cos, sin = self.rope(tokens.shape[1], tokens.device)
        features: list[Tensor] = []
        for i, block in enumerate(self.blocks):
            if i in taps:
                features.append(x)
            x = block(x, cos, sin)
        return self.norm(x), features

    def logits(self, h: Tensor) -> Tensor:
        return torch.nn.functional.linear(h, self.embed.weight.to(h.dtype))

    def mtp_chain(self, tokens: Tensor, h: Tensor, steps: int) -> list[Tensor]:
        cos, sin = self.rope(tokens.shape[1], tokens.device)
        return self.mtp.chain(self.embed_tokens(tokens), h, cos, sin, steps)
