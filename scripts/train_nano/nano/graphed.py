"""One training step, which a GPU replays from two CUDA graphs.

A step runs thousands of small kernels, and launching them from Python takes longer than running
them. The first graph ends with the gradients and the second one updates the weights, so that
replicas can average the gradients in between.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Generic, TypeVar

import torch
from torch import Tensor

from .optim import Optimizers

WARM_UP = 3
Report = TypeVar("Report")


class Replayed:
    """A function; what it launches on the GPU is replayed once it has been recorded."""

    def __init__(self, run: Callable[[], None]) -> None:
        self.run = run
        self.graph: torch.cuda.CUDAGraph | None = None

    def record(self, stream: torch.cuda.Stream) -> None:
        graph = torch.cuda.CUDAGraph()
        # NCCL's watchdog queries events in a thread of its own, which "global" would not allow.
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            self.run()
        self.graph = graph

    def __call__(self) -> None:
        if self.graph is None:
            self.run()
        else:
            self.graph.replay()


class TrainStep(Generic[Report]):
    """Gradients and update for a batch of `shape`, always the same.

    `losses(tokens, weights)` gives the loss and a detached report, whose tensors the next step
    overwrites. `average` may change the gradients. Call `prepare` first.
    """

    def __init__(
        self,
        losses: Callable[[Tensor, Tensor], tuple[Tensor, Report]],
        opt: Optimizers,
        average: Callable[[list[Tensor]], None] | None,
        shape: tuple[int, int],
        device: torch.device,
    ) -> None:
        self.losses, self.opt, self.average = losses, opt, average
        self.tokens = torch.zeros(shape, dtype=torch.long, device=device)
        self.weights = torch.zeros(shape, device=device)
        self.side = torch.cuda.Stream() if device.type == "cuda" else None
        self.report: Report
        self.gradients, self.update = Replayed(self._gradients), Replayed(opt.step)

    def _gradients(self) -> None:
        for p in self.opt.params:
            p.grad = None  # so that recorded gradients are written, not added to
        loss, self.report = self.losses(self.tokens, self.weights)
        loss.backward()

    def feeding(self) -> AbstractContextManager[object]:
        """Rows drawn in here reach the GPU while it is still busy with the step before."""
        return nullcontext() if self.side is None else torch.cuda.stream(self.side)

    def __call__(self, multiplier: float, tokens: Tensor, weights: Tensor) -> Report:
        if self.side is not None:
            now = torch.cuda.current_stream()
            now.wait_stream(self.side)
            for rows in (tokens, weights):
                rows.record_stream(now)
        self.tokens.copy_(tokens)
        self.weights.copy_(weights)
        self.opt.set_rates(multiplier)
        self.gradients()
        if self.average is not None:
            self.average(self.opt.params)
        self.update()
        return self.report

    def prepare(self, multiplier: float, tokens: Tensor, weights: Tensor) -> None:
        """Run some steps, which compiles and tunes all kernels; record where there is a GPU."""
        if self.side is None:
            self(multiplier, tokens, weights)
            return
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            for _ in range(WARM_UP):
                self(multiplier, tokens, weights)
        torch.cuda.current_stream().wait_stream(self.side)
        self.gradients.record(self.side)
        self.update.record(self.side)
