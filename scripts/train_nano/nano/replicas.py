"""Several processes, one GPU each, that train one model.

They find each other by `RANK`, `WORLD_SIZE`, `MASTER_ADDR` and `MASTER_PORT`. Every replica draws
rows of its own; gradients are averaged, so that weights stay equal. Without these variables there
is one replica, and nothing is sent.
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import Tensor


class Replicas:
    """What the processes of one training have to do together."""

    def __init__(self, device: torch.device) -> None:
        self.rank = int(os.environ.get("RANK", 0))
        self.count = int(os.environ.get("WORLD_SIZE", 1))
        if self.count > 1:
            dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")

    @property
    def first(self) -> bool:
        """Whether this one writes files."""
        return self.rank == 0

    def agree(self, value: float) -> float:
        """The first replica's value."""
        if self.count == 1:
            return value
        shared = torch.tensor([value], dtype=torch.float64)
        dist.broadcast(shared, 0)
        return float(shared[0])

    def average_gradients(self, params: list[Tensor]) -> None:
        """Replace gradients by their mean over the replicas; all have the same ones."""
        if self.count == 1:
            return
        grads = [p.grad for p in params if p.grad is not None]
        flat = torch.cat([g.flatten() for g in grads])
        dist.all_reduce(flat)
        flat /= self.count
        parts = flat.split([g.numel() for g in grads])
        torch._foreach_copy_(grads, [x.view_as(g) for x, g in zip(parts, grads, strict=True)])

    def share(self, params: list[Tensor]) -> None:
        """Undo what rounding has let the replicas differ by."""
        if self.count == 1:
            return
        with torch.no_grad():
            for p in params:
                dist.broadcast(p, 0)

    def close(self) -> None:
        if self.count > 1:
            dist.destroy_process_group()
