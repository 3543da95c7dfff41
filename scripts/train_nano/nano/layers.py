"""Building blocks whose arithmetic mirrors llama.cpp's qwen35 and dflash graphs."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from .config import TargetConfig
from .delta import DeltaRule, chunked_gated_delta_rule


class RMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        xf = x.float()
        xf = xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + self.eps)
        return (xf * self.weight).to(x.dtype)


def linear(n_in: int, n_out: int) -> nn.Linear:
    layer = nn.Linear(n_in, n_out, bias=False)
    nn.init.normal_(layer.weight, std=n_in**-0.5)
    return layer


def rope_tables(positions: Tensor, n_rot: int, theta: float) -> tuple[Tensor, Tensor]:
    """cos and sin of shape positions.shape + [n_rot / 2] (NeoX pairing)."""
    freq = theta ** (-torch.arange(0, n_rot, 2, device=positions.device).float() / n_rot)
    angle = positions.float()[..., None] * freq
    return angle.cos(), angle.sin()


def apply_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x: [B, T, H, D]; cos, sin: [T, n_rot/2] or [B, T, n_rot/2]. Rotates the first n_rot dims."""
    half = cos.shape[-1]
    cos, sin = cos[..., None, :], sin[..., None, :]
    a, b, rest = x[..., :half].float(), x[..., half : 2 * half].float(), x[..., 2 * half :]
    rotated = torch.cat([a * cos - b * sin, a * sin + b * cos], -1).to(x.dtype)
    return torch.cat([rotated, rest], -1)


class FeedForward(nn.Module):
    def __init__(self, n_embd: int, n_ff: int) -> None:
        super().__init__()
        self.gate, self.up = linear(n_embd, n_ff), linear(n_embd, n_ff)
        self.down = linear(n_ff, n_embd)
        nn.init.zeros_(self.down.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


def grouped_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """q: [B, Tq, H, D]; k, v: [B, Tk, Hkv, D] -> [B, Tq, H * D]."""
    groups = q.shape[2] // k.shape[2]
    k, v = (x.repeat_interleave(groups, 2).transpose(1, 2) for x in (k, v))
    o = F.scaled_dot_product_attention(q.transpose(1, 2), k, v, attn_mask=mask, is_causal=causal)
    return o.transpose(1, 2).flatten(2)


class GatedAttention(nn.Module):
    """Full attention with a joint query/gate projection, QK norm and partial RoPE."""

    def __init__(self, c: TargetConfig) -> None:
        super().__init__()
        self.c = c
        self.q = linear(c.n_embd, c.n_head * c.head_dim * 2)
        self.k = linear(c.n_embd, c.n_head_kv * c.head_dim)
        self.v = linear(c.n_embd, c.n_head_kv * c.head_dim)
        self.o = linear(c.n_head * c.head_dim, c.n_embd)
        nn.init.zeros_(self.o.weight)
        self.q_norm = RMSNorm(c.head_dim, c.norm_eps)
        self.k_norm = RMSNorm(c.head_dim, c.norm_eps)

    def project(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        c = self.c
        b, t, _ = x.shape
        q, gate = self.q(x).view(b, t, c.n_head, 2, c.head_dim).unbind(3)
        k = self.k(x).view(b, t, c.n_head_kv, c.head_dim)
        v = self.v(x).view(b, t, c.n_head_kv, c.head_dim)
        q = apply_rope(self.q_norm(q), cos, sin)
        k = apply_rope(self.k_norm(k), cos, sin)
        return q, k, v, gate.flatten(2)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        q, k, v, gate = self.project(x, cos, sin)
        return self.o(grouped_attention(q, k, v, None, True) * torch.sigmoid(gate))


class GatedDeltaNet(nn.Module):
    """Linear attention: causal conv, gated delta rule, gated RMS norm."""

    def __init__(self, c: TargetConfig) -> None:
        super().__init__()
        self.c = c
        self.qkv = linear(c.n_embd, 3 * c.gdn_dim)
        self.z = linear(c.n_embd, c.gdn_dim)
        self.beta = linear(c.n_embd, c.gdn_heads)
        self.alpha = linear(c.n_embd, c.gdn_heads)
        self.conv = nn.Parameter(torch.zeros(3 * c.gdn_dim, c.conv_kernel))
        nn.init.normal_(self.conv, std=0.2)
        with torch.no_grad():
            self.conv[:, -1] += 1.0
        self.a_log = nn.Parameter(torch.linspace(1.0, 16.0, c.gdn_heads).log())
        dt = torch.exp(torch.linspace(-6.9, -2.3, c.gdn_heads))
        self.dt_bias = nn.Parameter(dt + torch.log(-torch.expm1(-dt)))
        self.norm = RMSNorm(c.gdn_state, c.norm_eps)
        self.out = linear(c.gdn_dim, c.n_embd)
        nn.init.zeros_(self.out.weight)
        self.rule: DeltaRule = chunked_gated_delta_rule

    def split_heads(self, mixed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """SiLU, split and L2-normalise the convolved projection [..., 3 * gdn_dim]."""
        c = self.c
        parts = F.silu(mixed).unflatten(-1, (3, c.gdn_heads, c.gdn_state)).unbind(-3)
        q, k = (
            (p.float() * torch.rsqrt(p.float().pow(2).sum(-1, keepdim=True) + c.norm_eps)).to(
                p.dtype
            )
            for p in parts[:2]
        )
        return q, k, parts[2]

    def gates(self, x: Tensor) -> tuple[Tensor, Tensor]:
        g = -self.a_log.exp() * F.softplus(self.alpha(x).float() + self.dt_bias)
        return g, torch.sigmoid(self.beta(x))

    def convolve(self, mixed: Tensor) -> Tensor:
        t, kernel = mixed.shape[1], self.c.conv_kernel
        padded = F.pad(mixed, (0, 0, kernel - 1, 0))
        weight = self.conv.to(mixed.dtype)
        y = padded[:, :t] * weight[:, 0]
        for j in range(1, kernel):
            y = y + padded[:, j : j + t] * weight[:, j]
        return y

    def pre(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        q, k, v = self.split_heads(self.convolve(self.qkv(x)))
        g, beta = self.gates(x)
        return q, k, v.contiguous(), g, beta, self.z(x)

    def post(self, o: Tensor, z: Tensor) -> Tensor:
        gate = F.silu(z).view_as(o)
        return self.out((self.norm(o) * gate).flatten(-2))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v, g, beta, z = self.pre(x)
        return self.post(self.rule(q, k, v, g, beta), z)
