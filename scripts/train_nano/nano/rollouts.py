"""The trunk's own text, which the drafters learn to foresee.

Chats keep their questions; every answer is the trunk's own, as long as the true one. Documents
alternate: a stretch of true text, then a stretch of the trunk's own, as if it had been asked to
continue there.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .decode import Decoder
from .rows import Rows
from .stream import ChatStream

HOT_SHARE, HOT = 0.3, 0.8
GIVEN, OWN = (48, 176), (48, 128)  # stretches of a document, in tokens
GIVEN_WEIGHT = 30  # percent


class RolloutMaker:
    """Draws chats and documents of `decoder.length` tokens and lets the trunk write into them."""

    def __init__(self, decoder: Decoder, chats: ChatStream, text: Rows, im_end: int) -> None:
        self.decoder, self.chats, self.text, self.im_end = decoder, chats, text, im_end

    def make(self, seed: int, chat_share: float) -> tuple[Tensor, Tensor]:
        """Token rows [batch, length] int16 and weights int8, in percent."""
        gen = torch.Generator().manual_seed(seed)
        batch, length = self.decoder.batch, self.decoder.length
        device = self.decoder.tokens.device
        n_chat = round(batch * chat_share)
        ct, cw = (x[:, :length] for x in self.chats.draw(n_chat, device))
        tt = self.text.draw(batch - n_chat)[0][:, :length]
        own = torch.cat([cw >= 1.0, _stretches(len(tt), length, gen).to(device)])
        temperature = (torch.rand(batch, generator=gen) < HOT_SHARE).float().to(device) * HOT
        rows = self.decoder.run(torch.cat([ct, tt]), ~own, temperature)
        weights = torch.where(
            own,
            100,
            torch.where(torch.arange(batch, device=device)[:, None] < n_chat, 10, GIVEN_WEIGHT),
        )
        weights[:n_chat] = torch.where(
            _after_end(rows[:n_chat], own[:n_chat], self.im_end), 0, weights[:n_chat]
        )
        return rows.to(torch.int16), weights.to(torch.int8)


def _stretches(n: int, length: int, gen: torch.Generator) -> Tensor:
    """[n, length] bool: where a document's tokens are the trunk's own."""
    rows = torch.zeros(n, length, dtype=torch.bool)
    for row in rows:
        at = 0
        while at < length:
            at += int(torch.randint(*GIVEN, (), generator=gen))
            stop = at + int(torch.randint(*OWN, (), generator=gen))
            row[at:stop] = True
            at = stop
    return rows


def _after_end(rows: Tensor, own: Tensor, im_end: int) -> Tensor:
    """Own tokens behind an end of turn that the trunk wrote before the true answer ended."""
    ends = ((rows == im_end) & own).long().cumsum(1)
    before = torch.nn.functional.pad(ends, (1, 0))[:, :-1]
    starts = own & ~torch.nn.functional.pad(own, (1, 0))[:, :-1]
    base = torch.where(starts, before, 0).cummax(1).values
    return own & (before > base)
