"""The DFlash2 block drafter, matching llama.cpp's dflash decoder and selector."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from .config import DrafterConfig, TargetConfig
from .layers import FeedForward, RMSNorm, apply_rope, grouped_attention, linear, rope_tables


class DynamicConv(nn.Module):
    """Position-dependent grouped convolution along the block, before and after a sub-layer."""

    def __init__(self, n_embd: int, kernel: int, group: int) -> None:
        super().__init__()
        self.kernel, self.group = kernel, group
        self.base = nn.Parameter(torch.zeros(2, kernel, n_embd))
        with torch.no_grad():
            self.base[:, 0] = 1.0
        self.proj = linear(n_embd, 2 * kernel * (n_embd // group))
        nn.init.zeros_(self.proj.weight)

    def coefficients(self, x: Tensor) -> Tensor:
        """[..., 2, kernel, n_embd] tap weights from the sub-layer's normed input."""
        dyn = self.proj(x).unflatten(-1, (2, self.kernel, -1))
        return dyn.repeat_interleave(self.group, -1) + self.base.to(x.dtype)

    @staticmethod
    def apply_side(x: Tensor, weights: Tensor, side: int) -> Tensor:
        """x: [..., block, n_embd]; tap j reads the row j places earlier in the block."""
        out = x * weights[..., side, 0, :]
        for tap in range(1, weights.shape[-2]):
            earlier = F.pad(x[..., :-tap, :], (0, 0, tap, 0))
            out = out + earlier * weights[..., side, tap, :]
        return out


class DrafterBlock(nn.Module):
    def __init__(self, c: DrafterConfig, n_embd: int, eps: float) -> None:
        super().__init__()
        self.c = c
        self.attn_norm = RMSNorm(n_embd, eps)
        self.q = linear(n_embd, c.n_head * c.head_dim)
        self.k = linear(n_embd, c.n_head_kv * c.head_dim)
        self.v = linear(n_embd, c.n_head_kv * c.head_dim)
        self.o = linear(c.n_head * c.head_dim, n_embd)
        nn.init.zeros_(self.o.weight)
        self.q_norm, self.k_norm = RMSNorm(c.head_dim, eps), RMSNorm(c.head_dim, eps)
        self.attn_conv = DynamicConv(n_embd, c.conv_kernel, c.conv_group)
        self.ffn_norm = RMSNorm(n_embd, eps)
        self.ffn = FeedForward(n_embd, c.n_ff)
        self.ffn_conv = DynamicConv(n_embd, c.conv_kernel, c.conv_group)

    def keys_values(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        c = self.c
        k = self.k(x).unflatten(-1, (c.n_head_kv, c.head_dim))
        v = self.v(x).unflatten(-1, (c.n_head_kv, c.head_dim))
        return apply_rope(self.k_norm(k), cos, sin), v

    def forward(
        self,
        x: Tensor,
        features: Tensor,
        mask: Tensor,
        rope_block: tuple[Tensor, Tensor],
        rope_prefix: tuple[Tensor, Tensor],
    ) -> Tensor:
        """x: [B, A, S, E] blocks; features: [B, T, E]; mask: [B, 1, A*S, T + A*S]."""
        b, a, s, e = x.shape
        h = self.attn_norm(x)
        taps = self.attn_conv.coefficients(h)
        h = DynamicConv.apply_side(h, taps, 0).reshape(b, a * s, e)
        q = self.q(h).unflatten(-1, (self.c.n_head, self.c.head_dim))
        q = apply_rope(self.q_norm(q), *rope_block)
        k_block, v_block = self.keys_values(h, *rope_block)
        k_prefix, v_prefix = self.keys_values(features, *rope_prefix)
        o = grouped_attention(
            q, torch.cat([k_prefix, k_block], 1), torch.cat([v_prefix, v_block], 1), mask, False
        )
        o = self.o(o).view(b, a, s, e)
        x = x + DynamicConv.apply_side(o, taps, 1)
        h = self.ffn_norm(x)
        taps = self.ffn_conv.coefficients(h)
        h = self.ffn(DynamicConv.apply_side(h, taps, 0))
        return x + DynamicConv.apply_side(h, taps, 1)


class Drafter(nn.Module):
    def __init__(self, c: DrafterConfig, t: TargetConfig) -> None:
        super().__init__()
        self.c = c
        self.fc = linear(len(c.target_layers) * t.n_embd, t.n_embd)
        self.enc_norm = RMSNorm(t.n_embd, t.norm_eps)
        self.blocks = nn.ModuleList(DrafterBlock(c, t.n_embd, t.norm_eps) for _ in range(c.n_layer))
        self.norm = RMSNorm(t.n_embd, t.norm_eps)
        self.sel_prev = nn.Embedding(t.vocab_size, c.selector_rank)
        self.sel_next = nn.Embedding(t.vocab_size, c.selector_rank)
        self.sel_hidden = linear(t.n_embd, c.selector_rank)
        nn.init.normal_(self.sel_prev.weight, std=0.3)
        nn.init.normal_(self.sel_next.weight, std=0.02)

    def fuse(self, features: list[Tensor]) -> Tensor:
        return self.enc_norm(self.fc(torch.cat(features, -1)))

    def forward(self, block_emb: Tensor, fused: Tensor, anchors: Tensor, lengths: Tensor) -> Tensor:
        """Normed hidden rows [B, A, S, E] for every block position.

        block_emb: [B, A, S, E] embeddings of [anchor token, mask, ...];
        anchors: [B, A] position of the anchor token, whose block sees features of p < anchor;
        lengths: [B, A] number of live rows of each block (rows past it are hidden).
        """
        b, a, s, _ = block_emb.shape
        t = fused.shape[1]
        dev = fused.device
        offs = torch.arange(s, device=dev)
        pos = (anchors[..., None] + offs).reshape(b, a * s)
        rope_block = rope_tables(pos, self.c.head_dim, self.c.rope_theta)
        rope_prefix = rope_tables(torch.arange(t, device=dev), self.c.head_dim, self.c.rope_theta)
        start = anchors.repeat_interleave(s, 1)
        prefix = torch.arange(t, device=dev)[None, None] < start[..., None]
        block_id = torch.arange(a, device=dev).repeat_interleave(s)
        live = (offs[None, None] < lengths[..., None]).reshape(b, 1, a * s)
        same = (block_id[:, None] == block_id[None, :])[None] & live
        mask = torch.cat([prefix, same], 2)[:, None]
        x = block_emb
        for block in self.blocks:
            x = block(x, fused, mask, rope_block, rope_prefix)
        return self.norm(x)

    def pair_scores(self, hidden: Tensor, prev: Tensor, candidates: Tensor) -> Tensor:
        """<prev * gate(hidden), next> for candidates [..., K]; hidden [..., E]; prev [...]."""
        cond = self.sel_prev(prev) * self.sel_hidden(hidden).float()
        return torch.einsum("...r,...kr->...k", cond, self.sel_next(candidates))
