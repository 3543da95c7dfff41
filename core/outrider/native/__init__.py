"""C kernels over rows of logits, with NumPy arrays at the door.

Every call reads the row where it lies, allocates nothing of vocabulary size and releases the
interpreter lock while it runs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outrider.errors import LogitsError
from outrider.native import _kernels  # pyright: ignore

_ffi: Any = _kernels.ffi  # pyright: ignore[reportUnknownMemberType]
_lib: Any = _kernels.lib  # pyright: ignore[reportUnknownMemberType]

_REASONS: dict[int, str] = {
    _lib.ROW_NAN: "the logits contain NaN",
    _lib.ROW_EMPTY: "every logit is -infinity, so no token has any probability",
}


class Top2(NamedTuple):
    """The most likely token, the runner-up, and how far it is behind in logits."""

    token: int
    runner_up: int
    gap: float


def _checked(answer: int) -> int:
    if answer < 0:
        raise LogitsError(_REASONS[answer])
    return answer


def argmax(row: NDArray[np.float32]) -> int:
    """The most likely token of a row [n_vocab] of float32 logits, the lowest id of equals.

    Raises LogitsError when the row contains NaN or nothing but -infinity.
    """
    return _checked(_lib.argmax(_ffi.from_buffer("float[]", row), row.shape[0]))


def top2(row: NDArray[np.float32]) -> Top2:
    """The two most likely tokens of a row and the gap between their logits.

    `runner_up` is -1 and `gap` infinite when no second token has any probability. Raises
    LogitsError as `argmax` does.
    """
    ids = _ffi.new("int32_t[2]")
    token = _checked(_lib.top2(_ffi.from_buffer("float[]", row), row.shape[0], ids))
    second = int(ids[1])
    gap = float("inf") if second < 0 else float(row[token]) - float(row[second])
    return Top2(token, second, gap)
