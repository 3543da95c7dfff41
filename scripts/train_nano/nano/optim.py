"""Muon for hidden matrices and AdamW for everything else."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import torch
from torch import Tensor, nn


def orthogonalize(g: Tensor, steps: int = 5) -> Tensor:
    """Newton-Schulz iteration on a batch of matrices [N, rows, cols]."""
    x = g.to(torch.bfloat16)
    transposed = x.shape[-2] > x.shape[-1]
    if transposed:
        x = x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        a = x @ x.mT
        b = torch.baddbmm(a, a, a, beta=-4.7750, alpha=2.0315)
        x = torch.baddbmm(x, b, x, beta=3.4445)
    return (x.mT if transposed else x).to(g.dtype, memory_format=torch.contiguous_format)


class Muon(torch.optim.Optimizer):
    """Momentum whose update is orthogonalised; the learning rate is a tensor beside the weights."""

    def __init__(
        self, params: list[Tensor], lr: Tensor, momentum: float = 0.95, weight_decay: float = 0.05
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            by_shape: dict[tuple[int, ...], list[Tensor]] = defaultdict(list)
            for p in group["params"]:
                if p.grad is not None:
                    by_shape[tuple(p.shape)].append(p)
            for shape, params in by_shape.items():
                grads = [p.grad for p in params]
                for p in params:
                    if "buf" not in self.state[p]:
                        self.state[p]["buf"] = torch.zeros_like(p)
                bufs = [self.state[p]["buf"] for p in params]
                torch._foreach_mul_(bufs, group["momentum"])
                torch._foreach_add_(bufs, grads)
                mixed = torch._foreach_add(grads, bufs, alpha=group["momentum"])
                update = orthogonalize(torch.stack(mixed))
                scale = max(1.0, shape[0] / shape[1]) ** 0.5
                update *= -scale * group["lr"]
                torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
                torch._foreach_add_(params, list(update.unbind(0)))


class Optimizers:
    """Both optimizers behind one interface with a shared learning-rate multiplier."""

    def __init__(self, modules: list[nn.Module], muon_lr: float, adam_lr: float) -> None:
        matrices: list[Tensor] = []
        others: list[Tensor] = []
        seen: set[int] = set()
        for module in modules:
            for owner in module.modules():
                for p in owner.parameters(recurse=False):
                    if id(p) in seen or not p.requires_grad:
                        continue
                    seen.add(id(p))
                    hidden = isinstance(owner, nn.Linear) and min(p.shape) >= 64
                    (matrices if hidden else others).append(p)
        self.params = matrices + others
        device = self.params[0].device
        cuda = device.type == "cuda"
        self.base = [muon_lr, adam_lr]
        muon_rate, adam_rate = self.rates = [torch.tensor(lr, device=device) for lr in self.base]
        self.muon = Muon(matrices, muon_rate)
        self.adam = torch.optim.AdamW(
            others, adam_rate, (0.9, 0.95), weight_decay=0.0, fused=cuda, capturable=cuda
        )

    def save(self, path: Path) -> None:
        """Momenta, for a later call on the same machine."""
        torch.save([self.muon.state_dict(), self.adam.state_dict()], path)

    def load(self, path: Path) -> None:
        """Take up momenta; rates and other options stay those of this call."""
        for opt, saved in zip((self.muon, self.adam), torch.load(path), strict=True):
            options = [
                {k: v for k, v in group.items() if k != "params"} for group in opt.param_groups
            ]
            opt.load_state_dict(saved)
            for group, kept in zip(opt.param_groups, options, strict=True):
                group.update(kept)

    def set_rates(self, multiplier: float) -> None:
        for rate, lr in zip(self.rates, self.base, strict=True):
            rate.fill_(lr * multiplier)

    def step(self) -> None:
        """One update; gradients are clipped to norm 1."""
        torch.nn.utils.clip_grad_norm_(self.params, 1.0)
        self.muon.step()
        self.adam.step()


def schedule(progress: float, decay_from: float) -> float:
    """Short warm-up, a plateau, then a linear decay to zero at progress 1."""
    if progress < 0.01:
        return 0.1 + 0.9 * progress / 0.01
    return min(1.0, max(0.0, (1.0 - progress) / (1.0 - decay_from)))
