"""Rows that can only be learnt by copying: stretches of unlikely tokens, and the same again.

Half of the stretches are tokens drawn from the whole vocabulary, the others are text in which some
tokens were replaced, so that what is likely is wrong. Often other text stands in between. Only the
repetition is trained, from its second token on: the first one could be any.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .rows import Rows

SHORTEST, LONGEST = 4, 120
ALPHABET = 256  # ids below are single bytes
REPLACED = (0.1, 0.35)
GAP = 200
NEWLINE = "Ċ"


class CopyRows:
    """Makes rows as they are drawn; `ordinary` is the number of ids that are no special tokens."""

    def __init__(self, text: Rows, ordinary: int, newline: int, row_len: int, seed: int) -> None:
        self.text = text.tokens.cpu().numpy()
        self.device, self.row_len = text.device, row_len
        self.ordinary, self.newline = ordinary, newline
        self.rng = np.random.default_rng(seed)

    def draw(self, n: int) -> tuple[Tensor, Tensor]:
        """n rows: tokens [n, T] int64 and weights [n, T] float32."""
        tokens, weights = zip(*(self._row() for _ in range(n)), strict=True)
        return (
            torch.from_numpy(np.stack(tokens)).to(self.device),
            torch.from_numpy(np.stack(weights)).to(self.device),
        )

    def _row(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        tokens: list[NDArray[np.int64]] = []
        weights: list[NDArray[np.float32]] = []
        size = 0
        while size < self.row_len:
            stretch = self._stretch()
            gap = self._text(int(self.rng.integers(0, GAP))) if self.rng.random() < 0.6 else []
            before = [*stretch, self.newline, *gap, self.newline]
            tokens += [np.array(before, np.int64), stretch]
            repeated = np.ones(len(stretch), np.float32)
            repeated[0] = 0.0
            weights += [np.zeros(len(before), np.float32), repeated]
            size += len(before) + len(stretch)
        return (
            np.concatenate(tokens)[: self.row_len],
            np.concatenate(weights)[: self.row_len],
        )

    def _stretch(self) -> NDArray[np.int64]:
        length = round(float(np.exp(self.rng.uniform(np.log(SHORTEST), np.log(LONGEST)))))
        noise = self.rng.integers(ALPHABET, self.ordinary, length)
        if self.rng.random() < 0.5:
            return noise
        replaced = self.rng.random(length) < self.rng.uniform(*REPLACED)
        return np.where(replaced, noise, self._text(length))

    def _text(self, length: int) -> NDArray[np.int64]:
        row = self.text[self.rng.integers(len(self.text))]
        start = self.rng.integers(0, len(row) - length)
        return row[start : start + length].astype(np.int64)
