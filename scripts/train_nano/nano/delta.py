"""The gated delta rule: naive recurrence, chunked PyTorch form, and the fla Triton kernel.

Shapes: q, k, v are [B, T, H, D]; g (log decay) and beta are [B, T, H].
q and k are expected to be L2-normalised by the caller.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

DeltaRule = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def naive_gated_delta_rule(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor) -> Tensor:
    """Reference recurrence, one token at a time, in float32."""
    b, t, h, d = q.shape
    qf, kf, vf, gf, bf = (x.float() for x in (q, k, v, g, beta))
    state = qf.new_zeros(b, h, d, d)  # [key, value]
    out = []
    for i in range(t):
        state, o = delta_step(state, qf[:, i], kf[:, i], vf[:, i], gf[:, i], bf[:, i])
        out.append(o)
    return torch.stack(out, 1).to(q.dtype)


def delta_step(
    state: Tensor, q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor
) -> tuple[Tensor, Tensor]:
    """One recurrent step. state: [B, H, Dk, Dv]; q, k, v: [B, H, D]; g, beta: [B, H]."""
    state = state * g.exp()[..., None, None]
    predicted = torch.einsum("bhkv,bhk->bhv", state, k)
    delta = (v - predicted) * beta[..., None]
    state = state + k[..., :, None] * delta[..., None, :]
    return state, torch.einsum("bhkv,bhk->bhv", state, q * q.shape[-1] ** -0.5)


def chunked_gated_delta_rule(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, chunk: int = 64
) -> Tensor:
    """Chunk-parallel form in plain PyTorch (the fallback where fla is missing)."""
    dtype = q.dtype
    b, t, h, d = q.shape
    pad = (-t) % chunk
    qf, kf, vf = (
        torch.nn.functional.pad(x.float(), (0, 0, 0, 0, 0, pad))
        .view(b, -1, chunk, h, d)
        .permute(0, 3, 1, 2, 4)
        for x in (q, k, v)
    )
    gf, bf = (
        torch.nn.functional.pad(x.float(), (0, 0, 0, pad)).view(b, -1, chunk, h).permute(0, 3, 1, 2)
        for x in (g, beta)
    )
    n = qf.shape[2]
    gc = gf.cumsum(-1)
    diff = gc[..., :, None] - gc[..., None, :]
    lower = torch.tril(torch.ones(chunk, chunk, dtype=torch.bool, device=q.device))
    decay = torch.where(lower, diff, torch.zeros_like(diff)).exp() * lower
    kb = kf * bf[..., None]
    a = torch.tril((kb @ kf.transpose(-1, -2)) * decay, -1)
    eye = torch.eye(chunk, device=q.device)
    rhs = torch.cat([vf * bf[..., None], kb * gc.exp()[..., None]], -1)
    solved = torch.linalg.solve_triangular(a + eye, rhs, upper=False, unitriangular=True)
    u, w = solved.split(d, -1)
    intra = (qf @ kf.transpose(-1, -2)) * decay * d**-0.5
    q_in = qf * gc.exp()[..., None] * d**-0.5
    k_out = kf * (gc[..., -1:] - gc).exp()[..., None]
    g_last = gc[..., -1].exp()
    state = qf.new_zeros(b, h, d, d)
    out = []
    for i in range(n):
        v_new = u[:, :, i] - w[:, :, i] @ state
        out.append(q_in[:, :, i] @ state + intra[:, :, i] @ v_new)
        state = state * g_last[:, :, i, None, None] + k_out[:, :, i].transpose(-1, -2) @ v_new
    o = torch.stack(out, 2).permute(0, 2, 3, 1, 4).reshape(b, n * chunk, h, d)
    return o[:, :t].to(dtype)


def pick_delta_rule(device: torch.device, heads: int, dim: int) -> tuple[str, DeltaRule]:
    """fla's Triton kernel if it imports and agrees with the recurrence, else the PyTorch form.

    fla compiles and tunes its kernels for a number of heads, once: with the model's own number, and
    enough rows to fill the GPU, the first training step need not do it again.
    """
    if device.type != "cuda":
        return "torch", chunked_gated_delta_rule
    try:
        from fla.ops.gated_delta_rule import chunk_gated_delta_rule

        def fla_rule(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor) -> Tensor:
            return chunk_gated_delta_rule(q, k, v, g, beta, scale=q.shape[-1] ** -0.5)[0]

        gen = torch.Generator(device=device).manual_seed(1)
        shape = (32, 1024, heads, dim)
        q, k, v = (
            torch.randn(shape, device=device, generator=gen).requires_grad_() for _ in range(3)
        )
        beta = torch.rand(shape[:3], device=device, generator=gen)
        g = -torch.rand(shape[:3], device=device, generator=gen)
        grads, outs = [], []
        for rule, dtype in ((chunked_gated_delta_rule, torch.float32), (fla_rule, torch.bfloat16)):
            qn, kn = (torch.nn.functional.normalize(x, dim=-1) for x in (q, k))
            o = rule(qn.to(dtype), kn.to(dtype), v.to(dtype), g, beta.to(dtype)).float()
            outs.append(o.detach())
            grads.append(torch.autograd.grad((o * torch.cos(o.detach())).sum(), (q, k, v)))
        err = ((outs[0] - outs[1]).norm() / outs[0].norm()).item()
        gerr = max(((x - y).norm() / x.norm()).item() for x, y in zip(*grads, strict=True))
        print(f"fla gated delta rule: relative error {err:.2e}, gradient {gerr:.2e}", flush=True)
        if err < 3e-2 and gerr < 6e-2:
            return "fla", fla_rule
    except Exception as exc:  # any failure means: use the fallback
        print(f"fla unavailable: {type(exc).__name__}: {exc}", flush=True)
    return "torch", chunked_gated_delta_rule
