"""Chat rows made by worker processes while the model trains, so that no chat is seen twice."""

from __future__ import annotations

import os
import queue
from multiprocessing import get_context
from multiprocessing.queues import Queue
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from . import lexicon
from .pack import Packer, Rows, encode_chat
from .synth.gen import Gen, Lexicon
from .synth.mix import sample_chat
from .template import load_template

SHARD = 32


def make_rows(tok: Tokenizer, words: Lexicon, seed: int, row_len: int, count: int) -> Rows:
    """`count` rows of fresh chats."""
    template, packer, gen = load_template(), Packer(row_len), Gen(seed, words)
    while len(packer.rows) < count:
        packer.add(*encode_chat(tok, template, sample_chat(gen)), restart=True)
    return packer.take(count)


def _work(tokenizer: Path, words: Lexicon, seed: int, row_len: int, out: Queue[Rows]) -> None:
    os.nice(5)
    tok, template, gen = Tokenizer.from_file(str(tokenizer)), load_template(), Gen(seed, words)
    packer = Packer(row_len)
    while True:
        try:
            chat = sample_chat(gen)
        except ValueError as error:
            print(f"a chat could not be made: {error}", flush=True)
            continue
        packer.add(*encode_chat(tok, template, chat), restart=True)
        if len(packer.rows) >= SHARD:
            out.put(packer.take(SHARD))


class ChatStream:
    """Rows from `workers` processes; start it before CUDA is touched, as it forks."""

    def __init__(self, tokenizer: Path, words: Path, workers: int, row_len: int, seed: int) -> None:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        context = get_context("fork")
        self.queue: Queue[Rows] = context.Queue(maxsize=8 * workers)
        seen = lexicon.load(words).side(unseen=False)
        self.processes = [
            context.Process(
                target=_work,
                args=(tokenizer, seen, seed * 1000 + i, row_len, self.queue),
                daemon=True,
            )
            for i in range(workers)
        ]
        for process in self.processes:
            process.start()
        self.tokens = torch.zeros(0, row_len, dtype=torch.int16)
        self.weights = torch.zeros(0, row_len, dtype=torch.int8)
        self.drawn = 0

    def draw(self, n: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """n rows no other call gets: tokens [n, T] int64 and weights [n, T] float32."""
        while len(self.tokens) < n:
            rows, weights = self._next()
            self.tokens = torch.cat([self.tokens, torch.from_numpy(rows.astype("int16"))])
            self.weights = torch.cat([self.weights, torch.from_numpy(weights.astype("int8"))])
        tokens, weights = self.tokens[:n], self.weights[:n]
        self.tokens, self.weights = self.tokens[n:], self.weights[n:]
        self.drawn += n
        return tokens.to(device).long(), weights.to(device).float() / 100.0

    def _next(self) -> Rows:
        while True:
            try:
                return self.queue.get(timeout=20)
            except queue.Empty:
                if not any(p.is_alive() for p in self.processes):
                    raise RuntimeError(
                        "all chat workers have died; see their errors above"
                    ) from None

    def close(self) -> None:
        for process in self.processes:
            process.terminate()
