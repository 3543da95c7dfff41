"""Tokenise chats and documents and pack them into fixed-length rows with loss weights."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from .synth.types import Chat
from .template import render

PROMPT_WEIGHT = 10  # percent; trained text has 100
FIM_SHARE = 0.06
Rows = tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint8]]


class Packer:
    """Greedy packing. A chat that does not fit starts the next row; a document continues there."""

    def __init__(self, row_len: int) -> None:
        self.row_len = row_len
        self.rows: list[npt.NDArray[np.uint16]] = []
        self.weights: list[npt.NDArray[np.uint8]] = []
        self._tok = np.zeros(row_len, np.uint16)
        self._w = np.zeros(row_len, np.uint8)
        self._n = 0

    def _flush(self) -> None:
        self.rows.append(self._tok.copy())
        self.weights.append(self._w.copy())
        self._n = 0

    def add(self, tok: list[int], weight: list[int], restart: bool) -> None:
        """restart: what a row's end cuts off begins again on the next row."""
        start = 0
        while start < len(tok):
            take = min(self.row_len - self._n, len(tok) - start)
            self._tok[self._n : self._n + take] = tok[start : start + take]
            self._w[self._n : self._n + take] = weight[start : start + take]
            self._n += take
            cut = take < len(tok) - start
            start += take
            if self._n == self.row_len:
                self._flush()
                if cut and restart:
                    if len(tok) > self.row_len:
                        return
                    start = 0

    def take(self, count: int) -> Rows:
        """Remove the first `count` rows."""
        rows = np.stack(self.rows[:count]), np.stack(self.weights[:count])
        del self.rows[:count], self.weights[:count]
        return rows


def encode_chat(
    tok: Tokenizer, template: Callable[..., str], chat: Chat
) -> tuple[list[int], list[int]]:
    """Token ids and weights of one chat, closed by the end-of-text token."""
    ids: list[int] = []
    weights: list[int] = []
    for text, trained in render(template, chat):
        part = tok.encode(text, add_special_tokens=False).ids
        ids += part
        weights += [100 if trained else PROMPT_WEIGHT] * len(part)
    return [*ids, tok.token_to_id("<|endoftext|>")], [*weights, 0]


def text_rows(tok: Tokenizer, docs: Iterable[str], seed: int, row_len: int) -> Rows:
    """Packed documents, some of them in fill-in-the-middle form."""
    rng = random.Random(seed)
    end = tok.token_to_id("<|endoftext|>")
    prefix, middle, suffix = (
        tok.token_to_id(f"<|fim_{k}|>") for k in ("prefix", "middle", "suffix")
    )
    packer = Packer(row_len)
    for doc in docs:
        ids = tok.encode(doc, add_special_tokens=False).ids
        if 64 < len(ids) < row_len and rng.random() < FIM_SHARE:
            a, b = sorted(rng.sample(range(len(ids)), 2))
            ids = [prefix, *ids[:a], suffix, *ids[b:], middle, *ids[a:b]]
        packer.add([*ids, end], [100] * (len(ids) + 1), restart=False)
    return (
        packer.take(len(packer.rows))
        if packer.rows
        else (np.zeros((0, row_len), np.uint16), np.zeros((0, row_len), np.uint8))
    )
