"""llama.cpp's own sampler chain, called through llama-cpp-python: the peer of the kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping

import llama_cpp
import numpy as np
from numpy.typing import NDArray

TOKEN_DATA = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])


class LlamaChain:
    """The chain that llama.cpp's tools build (common/sampling.cpp), with a draw at its end.

    Logit bias, penalties, top-k, top-p, min-p, temperature, draw; with `temperature_first` the
    temperature stands before top-k.
    """

    def __init__(
        self,
        n_vocab: int,
        *,
        temperature: float = 1.0,
        temperature_first: bool = False,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        penalty_last_n: int = 64,
        logit_bias: Mapping[int, float] | None = None,
        seed: int = 0,
    ) -> None:
        self.chain = llama_cpp.llama_sampler_chain_init(
            llama_cpp.llama_sampler_chain_default_params()
        )
        bias = [llama_cpp.llama_logit_bias(t, b) for t, b in (logit_bias or {}).items()]
        self._bias = (llama_cpp.llama_logit_bias * len(bias))(*bias)
        temp = llama_cpp.llama_sampler_init_temp(temperature)
        parts = [
            llama_cpp.llama_sampler_init_logit_bias(n_vocab, len(bias), self._bias),
            llama_cpp.llama_sampler_init_penalties(
                n_vocab, penalty_last_n, repetition_penalty, frequency_penalty, presence_penalty
            ),
            llama_cpp.llama_sampler_init_top_k(top_k),
            llama_cpp.llama_sampler_init_top_p(top_p, 1),
            llama_cpp.llama_sampler_init_min_p(min_p, 1),
            llama_cpp.llama_sampler_init_dist(seed),
        ]
        parts.insert(2 if temperature_first else 5, temp)
        for part in parts:
            llama_cpp.llama_sampler_chain_add(self.chain, part)
        self.blank = np.zeros(n_vocab, TOKEN_DATA)
        self.blank["id"] = np.arange(n_vocab)
        self.data = self.blank.copy()
        self.array = llama_cpp.llama_token_data_array()

    def accept(self, tokens: Iterable[int]) -> None:
        """Tell the chain that these tokens came before (penalties look at them)."""
        for token in tokens:
            llama_cpp.llama_sampler_accept(self.chain, token)

    def fill(self, row: NDArray[np.float32]) -> None:
        """Copy a row into the candidate array."""
        self.data[:] = self.blank
        self.data["logit"] = row
        pointer = self.data.ctypes.data_as(ctypes.POINTER(llama_cpp.llama_token_data))
        self.array.data, self.array.size = pointer, len(self.data)
        self.array.selected, self.array.sorted = -1, False

    def apply(self) -> int:
        """Run the chain over the candidate array and return the token it drew."""
        llama_cpp.llama_sampler_apply(self.chain, ctypes.byref(self.array))
        return int(self.data["id"][self.array.selected])

    def distribution(self, row: NDArray[np.float32]) -> dict[int, float]:
        """The truncated, normalised distribution of a row."""
        self.fill(row)
        self.apply()
        kept = self.data[: self.array.size]
        return {int(t): float(p) for t, p in zip(kept["id"], kept["p"], strict=True) if p > 0}

    def close(self) -> None:
        """Free the chain."""
        llama_cpp.llama_sampler_free(self.chain)
