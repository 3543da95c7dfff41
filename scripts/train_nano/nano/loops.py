"""Training against loops: the model's own greedy text, and the true text behind it.

A row holds the start of a document, the model's own greedy continuation, and then the true text
that follows the place where the continuation ends. The true text is learnt as usual, which teaches
to leave a bad stretch; own tokens that close a repetition get a negative weight, which the loss
reads as unlikelihood (Welleck et al. 2019, arXiv:1908.04319).
"""

from __future__ import annotations

import torch
from torch import Tensor

from .decode import Decoder
from .rows import Rows

PIECE = 512
OWN_END = 384
SPAN, PERIOD = 12, 64
PENALTY = -60  # percent


def repeated(tokens: Tensor, start: Tensor) -> Tensor:
    """[B, T] bool: the SPAN tokens up to here also ended at most PERIOD tokens earlier.

    tokens: [B, T]; start: [B], where the own text begins (earlier tokens never count).
    """
    b, t = tokens.shape
    found = torch.zeros(b, t, dtype=torch.bool, device=tokens.device)
    for d in range(1, PERIOD + 1):
        same = torch.zeros(b, t, device=tokens.device)
        same[:, d:] = (tokens[:, d:] == tokens[:, :-d]).float()
        run = same.cumsum(1)
        run[:, SPAN:] = run[:, SPAN:] - run[:, :-SPAN].clone()
        found |= run >= SPAN
    position = torch.arange(t, device=tokens.device)
    return found & (position[None] >= (start + SPAN)[:, None])


class LoopRows:
    """Makes and keeps rows of spliced text; [N, row_len] like the other rows."""

    def __init__(self, decoder: Decoder, text: Rows, row_len: int, seed: int) -> None:
        self.decoder, self.text, self.row_len = decoder, text, row_len
        self.gen = torch.Generator().manual_seed(seed)
        self.rows: Rows | None = None
        self.share = 0.0

    def refresh(self) -> None:
        """Replace the rows by continuations of the model as it is now."""
        n = self.decoder.batch
        source, _ = self.text.draw(n)
        device = source.device
        at = torch.randint(0, source.shape[1] - PIECE, (n, 1), generator=self.gen).to(device)
        truth = source.gather(1, at + torch.arange(PIECE, device=device)[None])
        begin = torch.randint(64, 224, (n,), generator=self.gen).to(device)
        end = (begin + torch.randint(48, 160, (n,), generator=self.gen).to(device)).clamp(
            max=OWN_END
        )
        position = torch.arange(PIECE, device=device)[None]
        forced = position[:, :OWN_END] < begin[:, None]
        own = self.decoder.run(truth[:, :OWN_END], forced, torch.zeros(n, device=device))
        own = torch.cat([own, truth[:, OWN_END:]], 1)
        mine = (position >= begin[:, None]) & (position < end[:, None])
        tokens = torch.where(mine, own, truth)
        bad = repeated(tokens, begin) & mine
        weights = torch.where(bad, PENALTY, torch.where(mine, 0, 100))
        per_row = self.row_len // PIECE
        count = n // per_row
        pack = (x[: count * per_row].reshape(count, -1) for x in (tokens, weights))
        tokens, weights = (
            torch.nn.functional.pad(x, (0, self.row_len - per_row * PIECE)) for x in pack
        )
        self.rows = Rows(tokens.to(torch.int16), weights.to(torch.int8), 0, 7)
        # Last, as it waits for the GPU: another stream may read the rows from here on.
        self.share = bad.float().sum().item() / mine.float().sum().item()

    def draw(self, n: int) -> tuple[Tensor, Tensor]:
        """n rows; ordinary text before the first refresh."""
        return self.text.draw(n) if self.rows is None else self.rows.draw(n)
