"""C kernels over rows of logits, with NumPy arrays at the door.

Every call reads the row where it lies, allocates nothing of vocabulary size and releases the
interpreter lock while it runs. Rows are contiguous float32 [n_vocab].
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrider.errors import LogitsError, OutriderError, PluginError
from outrider.native import _kernels

_ffi: Any = _kernels.ffi
_lib: Any = _kernels.lib

_REASONS: dict[int, str] = {
    _lib.ROW_NAN: "the logits contain NaN",
    _lib.ROW_EMPTY: "every logit is -infinity, so no token has any probability",
    _lib.ROW_INFINITE: "the logits contain +infinity",
}

_EMPTY: NDArray[np.int32] = np.empty(0, np.int32)


class Purpose(enum.IntEnum):
    """What a random number is drawn for; numbers of different purposes are independent.

    Two draws of one seed, position and purpose are one number, so what a drafter draws needs
    another purpose than what decides about it.
    """

    TOKEN = _lib.FOR_TOKEN
    """The token of plain decoding, and the one after the last accepted draft."""
    ACCEPTANCE = _lib.FOR_ACCEPTANCE
    """Whether a drawn draft holds."""
    DRAFT = _lib.FOR_DRAFT
    """A draft."""
    REDRAW = _lib.FOR_REDRAW
    """A token instead of one that a constraint forbids."""
    RESIDUAL = _lib.FOR_RESIDUAL
    """The token instead of a drawn draft that does not hold."""


class Top2(NamedTuple):
    """The most likely token, the runner-up, and how far it is behind in logits."""

    token: int
    runner_up: int
    gap: float


class LogProbs(NamedTuple):
    """Log-probabilities of one row: of the chosen token, and of the most likely tokens."""

    chosen: float
    ids: list[int]
    values: list[float]


def checked(answer: int, position: int | None = None) -> int:
    """A kernel's answer. Raises what an answer below 0 stands for, naming `position`."""
    if answer < 0:
        raise failure(answer, position)
    return answer


def failure(answer: int, position: int | None = None) -> OutriderError:
    """What a kernel's answer below 0 stands for."""
    if answer == _lib.DRAFT_IMPOSSIBLE:
        return PluginError(
            f"the draft at position {position} has probability 0 in the distribution q it comes "
            "with; a drafter must report the distribution its token was really drawn from"
        )
    if answer == _lib.DRAFT_MALFORMED:
        return PluginError(
            f"the q of the draft at position {position} is no distribution: it names tokens "
            "outside the vocabulary, or one twice, or its probabilities do not sum to 1"
        )
    where = "" if position is None else f"position {position}: "
    return LogitsError(where + _REASONS[answer])


def argmax_address() -> int:
    """Where the C function `int32_t argmax(const float *row, int32_t n)` lies."""
    return int(_ffi.cast("intptr_t", _ffi.addressof(_lib, "argmax")))


def argmax(row: NDArray[np.float32]) -> int:
    """The most likely token of a row, the lowest id of equals.

    Raises LogitsError when the row contains NaN or nothing but -infinity.
    """
    return checked(_lib.argmax(_ffi.from_buffer("float[]", row), row.shape[0]))


def best_path(lattice: NDArray[np.float32], top_k: int) -> list[int]:
    """The token ids of the best-scored path through a lattice [positions, ≥ top_k + top_k²].

    A row holds `top_k` candidate ids and, for each candidate of the row before, the scores of
    these. The path starts after candidate 0; of equal scores the first one is taken.
    """
    n, width = lattice.shape
    if width < top_k * (top_k + 1):
        raise ValueError(f"lattice rows of {width} values; expected {top_k * (top_k + 1)} or more")
    tokens = _ffi.new("int32_t[]", n)
    _lib.best_path(_ffi.from_buffer("float[]", lattice), n, width, top_k, tokens)
    return list(tokens)


def top2(row: NDArray[np.float32]) -> Top2:
    """The two most likely tokens of a row and the gap between their logits.

    `runner_up` is -1 and `gap` infinite when no second token has any probability. Raises
    LogitsError as `argmax` does.
    """
    ids = _ffi.new("int32_t[2]")
    token = checked(_lib.top2(_ffi.from_buffer("float[]", row), row.shape[0], ids))
    second = int(ids[1])
    gap = float("inf") if second < 0 else float(row[token]) - float(row[second])
    return Top2(token, second, gap)


def uniform(seed: int, position: int, purpose: Purpose = Purpose.TOKEN) -> float:
    """The random number in [0, 1) for a position under a 64-bit seed."""
    return _lib.uniform(_ffi.new("draw_key *", (seed, position))[0], purpose)


def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, ...]:
    """Philox4x32-10: the four 32-bit words of a counter under a key."""
    words = _ffi.new("uint32_t[4]")
    _lib.philox(_ffi.new("uint32_t[4]", counter), _ffi.new("uint32_t[2]", key), words)
    return tuple(words)


class SamplingOptions:
    """How logits become a distribution, in the form the kernels take.

    Order: logit bias, penalties, top_k, top_p, min_p, temperature; with `temperature_first` the
    temperature comes before top_k. Values that switch a step off are the defaults. Temperature 0
    keeps the most likely token only.
    """

    def __init__(
        self,
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
    ) -> None:
        bias = sorted((logit_bias or {}).items())
        self.bias_ids: NDArray[np.int32] = np.array([t for t, _ in bias], np.int32)
        self.bias: NDArray[np.float32] = np.array([b for _, b in bias], np.float32)
        self.sees_history = (repetition_penalty, presence_penalty, frequency_penalty) != (1, 0, 0)
        """Whether the tokens before a row matter."""
        self.n_known: int = bias[-1][0] + 1 if bias else 0
        """Tokens a vocabulary must have for the logit bias to be one of its own."""
        self.best_only = 0 if bias or self.sees_history else top_k
        """How many of the largest logits of a row are all that matters; 0: the whole row."""
        self.struct: Any = _ffi.new(
            "sampling_options *",
            {
                "temperature": temperature,
                "temperature_first": temperature_first,
                "top_k": top_k,
                "top_p": top_p,
                "min_p": min_p,
                "repetition_penalty": repetition_penalty,
                "presence_penalty": presence_penalty,
                "frequency_penalty": frequency_penalty,
                "penalty_last_n": penalty_last_n,
                "n_bias": len(bias),
                "bias_ids": _ffi.from_buffer("int32_t[]", self.bias_ids),
                "bias": _ffi.from_buffer("float[]", self.bias),
            },
        )


class RowSampler:
    """Buffers for rows of `n_vocab` logits and the kernels that use them; for one thread.

    `history` are the tokens before the row's own, prompt included (int32, contiguous); they
    matter to penalties only. `mask` holds the legal tokens, bit t%32 of word t//32. With
    `candidates` (int32 [m]) a row is the m logits of those tokens, which are the best of the whole
    row and at least `top_k`. Unusable rows raise LogitsError naming `position`.
    """

    def __init__(self, n_vocab: int) -> None:
        self.n_vocab = n_vocab
        self._ids: NDArray[np.int32] = np.zeros(n_vocab, np.int32)
        self._probs: NDArray[np.float64] = np.zeros(n_vocab, np.float64)
        buffers: dict[str, tuple[str, NDArray[Any]]] = {
            "ids": ("int32_t[]", self._ids),
            "probs": ("double[]", self._probs),
            "keys": ("uint64_t[]", np.zeros(n_vocab + 1, np.uint64)),
            "counts": ("int32_t[]", np.zeros(n_vocab, np.int32)),
            "edit_ids": ("int32_t[]", np.zeros(n_vocab, np.int32)),
            "edit_values": ("float[]", np.zeros(n_vocab, np.float32)),
            "dense": ("double[]", np.zeros(n_vocab, np.float64)),
        }
        self._buffers = {k: _ffi.from_buffer(kind, array) for k, (kind, array) in buffers.items()}
        self._work: Any = _ffi.new("workspace *", {"n_vocab": n_vocab, **self._buffers})
        self._context: Any = _ffi.new("row_context *")
        self._key: Any = _ffi.new("draw_key *")
        self._chosen: Any = _ffi.new("float *")
        self._top_values: NDArray[np.float32] = np.zeros(n_vocab, np.float32)

    def _row(self, row: NDArray[np.float32]) -> Any:
        if row.shape != (self.n_vocab,) or row.dtype != np.float32:
            raise ValueError(
                f"a row of {row.dtype} {row.shape}, expected float32 ({self.n_vocab},)"
            )
        return _ffi.from_buffer("float[]", row)

    def distribution(
        self,
        row: NDArray[np.float32],
        options: SamplingOptions,
        *,
        history: NDArray[np.int32] = _EMPTY,
        candidates: NDArray[np.int32] | None = None,
        mask: NDArray[np.uint32] | None = None,
        position: int | None = None,
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Token ids and their probabilities, summing to 1; tokens not listed have none.

        Best first when anything truncates, in the order of ids otherwise. Copies.
        """
        logits, context = self._given(row, history, mask, candidates, options)
        answer = _lib.distribution(self._work, logits, options.struct, context)
        count = checked(answer, position)
        return np.array(self._ids[:count]), np.array(self._probs[:count])

    def sample(
        self,
        row: NDArray[np.float32],
        options: SamplingOptions,
        *,
        history: NDArray[np.int32] = _EMPTY,
        candidates: NDArray[np.int32] | None = None,
        seed: int,
        position: int,
        purpose: Purpose = Purpose.TOKEN,
    ) -> int:
        """A token of the row's distribution, determined by (seed, position, purpose)."""
        self._key.seed, self._key.position = seed, position
        logits, context = self._given(row, history, None, candidates, options)
        answer = _lib.sample(self._work, logits, options.struct, context, self._key[0], purpose)
        return checked(answer, position)

    def sample_legal(
        self,
        row: NDArray[np.float32],
        options: SamplingOptions,
        mask: NDArray[np.uint32],
        *,
        history: NDArray[np.int32] = _EMPTY,
        seed: int,
        position: int,
    ) -> int:
        """A token of p(x) / P(legal), where p is the row's distribution and `mask` is legal.

        When p gives no legal token any probability, the row is masked before it is truncated.
        The random number is that of `Purpose.REDRAW`.
        """
        self._key.seed, self._key.position = seed, position
        logits, context = self._given(row, history, mask, None, options)
        answer = _lib.sample_legal(
            self._work, logits, options.struct, context, self._key[0], Purpose.REDRAW
        )
        return checked(answer, position)

    def draw(
        self,
        row: NDArray[np.float32],
        options: SamplingOptions,
        *,
        history: NDArray[np.int32] = _EMPTY,
        seed: int,
        position: int,
    ) -> tuple[int, NDArray[np.int32], NDArray[np.float64]]:
        """A draft token and the distribution (ids, probabilities) that it was drawn from.

        The random number is that of `Purpose.DRAFT`.
        """
        self._key.seed, self._key.position = seed, position
        logits, context = self._given(row, history, None, None, options)
        answer = _lib.draw_draft(self._work, logits, options.struct, context, self._key[0])
        token, count = checked(answer, position), int(self._work.count)
        return token, np.array(self._ids[:count]), np.array(self._probs[:count])

    def verify(
        self,
        row: NDArray[np.float32],
        options: SamplingOptions,
        draft: int,
        q_ids: NDArray[np.int32],
        q_probs: NDArray[np.float64],
        *,
        history: NDArray[np.int32] = _EMPTY,
        candidates: NDArray[np.int32] | None = None,
        seed: int,
        position: int,
    ) -> int:
        """`draft`, drawn from q, with probability min(1, p/q); else one of max(p - q, 0).

        The replacement is never `draft`, so equality tells whether it was accepted. Raises
        PluginError when q is no distribution or gives the draft no probability.
        """
        if q_ids.dtype != np.int32 or q_probs.dtype != np.float64 or q_ids.shape != q_probs.shape:
            raise PluginError(
                f"the distribution q of the draft at position {position} has {q_ids.dtype} ids "
                f"{q_ids.shape} and {q_probs.dtype} probabilities {q_probs.shape}; expected as "
                "many int32 ids as float64 probabilities"
            )
        self._key.seed, self._key.position = seed, position
        logits, context = self._given(row, history, None, candidates, options)
        answer = _lib.verify(
            self._work,
            logits,
            options.struct,
            context,
            self._key[0],
            draft,
            _ffi.from_buffer("int32_t[]", q_ids),
            _ffi.from_buffer("double[]", q_probs),
            q_ids.shape[0],
        )
        return checked(answer, position)

    def log_probs(
        self, row: NDArray[np.float32], token: int, n_top: int = 0, *, position: int | None = None
    ) -> LogProbs:
        """Log-probabilities of the row as it is: no bias, penalty, temperature or truncation."""
        n_top = min(n_top, self.n_vocab)
        answer = _lib.log_probs(
            self._work,
            self._row(row),
            token,
            n_top,
            self._chosen,
            self._buffers["ids"],
            _ffi.from_buffer("float[]", self._top_values),
        )
        count = checked(answer, position)
        ids, values = self._ids[:count].tolist(), self._top_values[:count].tolist()
        return LogProbs(float(self._chosen[0]), ids, values)

    def _given(
        self,
        row: NDArray[np.float32],
        history: NDArray[np.int32],
        mask: NDArray[np.uint32] | None,
        candidates: NDArray[np.int32] | None,
        options: SamplingOptions,
    ) -> tuple[Any, Any]:
        if options.n_known > self.n_vocab or (mask is not None and 32 * len(mask) < self.n_vocab):
            raise ValueError(
                f"the vocabulary has {self.n_vocab} tokens: a logit bias is for one beyond them, "
                "or the mask has too few words"
            )
        context = self._context
        context.history = _ffi.from_buffer("int32_t[]", history)
        context.n_history = history.shape[0]
        context.mask = _ffi.NULL if mask is None else _ffi.from_buffer("uint32_t[]", mask)
        if candidates is None:
            context.candidates = _ffi.NULL
            return self._row(row), context[0]
        if row.shape != candidates.shape or not 0 < options.best_only < self.n_vocab:
            raise ValueError("candidates need one logit each, a top_k, and no edits of logits")
        context.candidates = _ffi.from_buffer("int32_t[]", candidates)
        context.n_candidates = row.shape[0]
        return _ffi.from_buffer("float[]", row), context[0]
