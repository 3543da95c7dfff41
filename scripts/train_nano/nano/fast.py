"""Training-speed helpers: per-region compilation and a repaired fla backward pass."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from .delta import pick_delta_rule
from .layers import GatedDeltaNet
from .target import Block, Target


class DeltaPre(nn.Module):
    """Everything of a recurrent block before the delta rule."""

    def __init__(self, block: Block) -> None:
        super().__init__()
        self.norm, self.mixer = block.attn_norm, block.mixer

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return self.mixer.pre(self.norm(x))


class DeltaPost(nn.Module):
    """Everything of a recurrent block after the delta rule."""

    def __init__(self, block: Block) -> None:
        super().__init__()
        self.mixer, self.post_norm, self.ffn = block.mixer, block.post_norm, block.ffn

    def forward(self, x: Tensor, o: Tensor, z: Tensor) -> Tensor:
        x = x + self.mixer.post(o, z)
        return x + self.ffn(self.post_norm(x))


def compile_regions(model: Target, backend: str = "inductor") -> None:
    """Compile the chained MTP steps, and the blocks in regions without a call of the delta rule."""

    def compiled(run: Callable[..., Any]) -> Callable[..., Any]:
        return torch.compile(run, dynamic=False, backend=backend)

    for block in model.blocks:
        if isinstance(block.mixer, GatedDeltaNet):
            block.forward = _delta_forward(
                block.mixer, compiled(DeltaPre(block)), compiled(DeltaPost(block))
            )
        else:
            block.forward = compiled(block.forward)
    model.mtp.chain = compiled(model.mtp.chain)


def _delta_forward(
    mixer: GatedDeltaNet, pre: Callable[..., Any], post: Callable[..., Any]
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    def forward(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        q, k, v, g, beta, z = pre(x)
        return post(x, mixer.rule(q, k, v, g, beta), z)

    return forward


def _chunks(x: Tensor, size: int) -> Tensor:
    """[B, T, H, D] -> [B, N, H, size, D]"""
    b, t, h, d = x.shape
    return x.view(b, t // size, size, h, d).transpose(2, 3)


def _unchunk(x: Tensor) -> Tensor:
    b, n, h, s, d = x.shape
    return x.transpose(2, 3).reshape(b, n * s, h, d)


def chunk_bwd_dqkwg(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    do: Tensor,
    h: Tensor,
    dh: Tensor,
    w: Tensor | None = None,
    g: Tensor | None = None,
    g_gamma: Tensor | None = None,
    dv: Tensor | None = None,
    scale: float | None = None,
    state_v_first: bool = False,
    cu_seqlens: Tensor | None = None,
    chunk_size: int = 64,
    chunk_indices: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """PyTorch stand-in for the fla kernel that Triton 3.4 to 3.7 miscompiles on Hopper.

    g is the chunk-local cumulative log2 decay; h and dh are the states at chunk starts.
    """
    if g is None or dv is None or scale is None or state_v_first or cu_seqlens is not None:
        raise NotImplementedError("only the gated delta rule on equal-length rows")
    s, dtype = chunk_size, q.dtype
    qc, kc, vc, doc, dvc = (_chunks(x, s) for x in (q, k, v, do, dv))
    hc, dhc = (x.reshape(*qc.shape[:3], *x.shape[-2:]) for x in (h, dh))
    gc = g.view(g.shape[0], -1, s, g.shape[-1]).transpose(2, 3).float()
    last = gc[..., -1:]
    h_t, dh_t = hc.to(dtype).mT, dhc.to(dtype).mT
    dg_last = (hc.float() * dhc.float()).sum((-2, -1)) * last[..., 0].exp2()
    dq = (doc @ h_t).float() * (gc.exp2() * scale)[..., None]
    dk = (vc @ dh_t).float() * (last - gc).exp2()[..., None]
    dw = -(dvc.to(dtype) @ h_t)
    dg_last = dg_last + (dk * kc.float()).sum((-2, -1))
    lower = torch.ones(s, s, dtype=torch.bool, device=q.device).tril()
    decay = torch.where(lower, gc[..., :, None] - gc[..., None, :], float("-inf")).exp2()
    ds = ((doc @ vc.mT).float() * decay * scale).to(dtype)
    dq = dq + (ds @ kc).float()
    dk = dk + (ds.mT @ qc).float()
    dg = (dq * qc.float()).sum(-1) - (dk * kc.float()).sum(-1)
    dg = torch.cat([dg[..., :-1], dg[..., -1:] + dg_last[..., None]], -1)
    dg = dg.transpose(2, 3).reshape(g.shape)
    return _unchunk(dq.to(dtype)), _unchunk(dk.to(dtype)), _unchunk(dw), dg


def patch_fla(compiled: bool) -> None:
    """Route fla's gated delta rule through the stand-in above."""
    import importlib

    module = importlib.import_module("fla.ops.gated_delta_rule.chunk")
    module.chunk_bwd_dqkwg = (
        torch.compile(chunk_bwd_dqkwg, dynamic=False) if compiled else chunk_bwd_dqkwg
    )


def install_delta_rule(model: Target, device: torch.device) -> str:
    """Give every recurrent block the fastest rule that is right on this machine."""
    if device.type == "cuda":
        with suppress(ImportError):
            patch_fla(compiled=False)
    name, rule = pick_delta_rule(device, model.c.gdn_heads, model.c.gdn_state)
    if name == "fla":
        patch_fla(compiled=True)
    for module in model.modules():
        if isinstance(module, GatedDeltaNet):
            module.rule = rule
    return name
