"""Packed rows on the training device."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor


class Rows:
    """Token rows with loss weights, drawn without replacement in shuffled epochs.

    tokens: [N, T] int16 on the device (ids stay below 8192); weights: [N, T] int8, percent.
    """

    def __init__(self, tokens: Tensor, weights: Tensor, held_out: int, seed: int) -> None:
        self.tokens, self.weights = tokens, weights
        self.device = tokens.device
        self.gen = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(tokens), generator=torch.Generator().manual_seed(1))
        self.held, self.pool = order[:held_out], order[held_out:]
        self.cursor = 0
        self.epochs = 0.0
        self.order = self.pool[torch.randperm(len(self.pool), generator=self.gen)]

    @staticmethod
    def load(folder: Path, kind: str, device: torch.device, held_out: int, seed: int) -> Rows:
        """The held-out rows do not depend on the seed, so that a resumed training keeps them."""
        tokens = torch.from_numpy(np.load(folder / f"{kind}_rows.npy").astype(np.int16)).to(device)
        weights = torch.from_numpy(np.load(folder / f"{kind}_weights.npy").astype(np.int8)).to(
            device
        )
        return Rows(tokens, weights, held_out, seed)

    def draw(self, n: int) -> tuple[Tensor, Tensor]:
        """n rows: tokens [n, T] int64 and weights [n, T] float32."""
        if self.cursor + n > len(self.order):
            self.order = self.pool[torch.randperm(len(self.pool), generator=self.gen)]
            self.cursor = 0
        index = self.order[self.cursor : self.cursor + n]
        self.cursor += n
        self.epochs += n / len(self.pool)
        return self.take(index)

    def take(self, index: Tensor) -> tuple[Tensor, Tensor]:
        index = index.to(self.device)
        return self.tokens[index].long(), self.weights[index].float() / 100.0
