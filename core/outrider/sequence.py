"""One sequence: its tokens, where it lives in the target's memory, and how it ended."""

from __future__ import annotations

import enum
import operator
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from outrider.errors import RequestError

if TYPE_CHECKING:
    from outrider.components import Constraint
    from outrider.step import LogProb
    from outrider.text import TextStream


class FinishReason(str, enum.Enum):
    """Why a sequence ended. The values are those of the OpenAI API, plus two of our own."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"
    ERROR = "error"


@attrs.frozen
class Finish:
    """How a sequence ended: the reason, and one sentence that says what happened."""

    reason: FinishReason
    detail: str


def _tokens(prompt: Iterable[int]) -> tuple[int, ...]:
    if isinstance(prompt, (str, bytes)):
        raise RequestError(
            "Request(prompt=…) takes tokens, and got a text: give pipeline.tokenize(text)"
        )
    try:
        return tuple(map(operator.index, prompt))
    except TypeError:
        raise RequestError(
            "the prompt must be a list of token ids, which are whole numbers"
        ) from None


def _texts(stop: str | Iterable[str]) -> tuple[str, ...]:
    several = isinstance(stop, Iterable) and not isinstance(stop, (str, bytes))  # pyright: ignore[reportUnnecessaryIsInstance]
    texts = tuple(stop) if several else (stop,)
    for text in texts:
        if not isinstance(text, str):
            raise RequestError(f"stop holds {text!r}; expected a text, or a list of texts")
    return tuple(map(str, texts))


def _count(_: object, __: object, value: object) -> None:
    if value is not None and type(value) is not int:
        raise RequestError(f"max_tokens is {value!r}; expected a whole number, or None")


@attrs.frozen
class Request:
    """What is asked of a pipeline: prompt tokens in, at most `max_tokens` tokens out.

    `stop` holds texts that end the answer and are no part of it; a single one may be given alone.
    What has another type raises RequestError.

    `sampling` overrides single options of the pipeline's sampler for this request;
    `history` is the number of prompt tokens before the generation prompt (the place where a
    snapshot is worth taking), None when unknown; `ignore_eog` goes on after end-of-generation
    tokens (for benchmarks).
    """

    prompt: tuple[int, ...] = attrs.field(converter=_tokens)
    max_tokens: int | None = attrs.field(default=None, validator=_count)
    stop: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    sampling: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    constraint: Constraint | None = None
    history: int | None = None
    ignore_eog: bool = False


@attrs.define(eq=False)
class Slot:
    """One place in the target's memory (a llama.cpp sequence id) and what is known of it.

    The last four fields decide which rollbacks through the snapshot ring are exact
    (`llama_memory_recurrent::seq_rm` itself checks only the depth): the ring holds the states
    of the last decoded batch, nothing of a batch before it, and nothing right after a load.
    """

    id: int
    tokens: list[int] = attrs.field(factory=list[int])
    """Tokens in the target's memory while no sequence is active here (a live conversation)."""
    length: int = 0
    """Number of tokens in the target's memory; token i sits at position i."""
    last_rows: int = 0
    """Rows this slot had in its last decoded batch; 0 when unknown or just loaded."""
    rewound: bool = False
    """A rollback is pending: llama.cpp takes no second one before the next decode."""
    owner: Sequence | None = None
    last_used: int = 0
    """Logical time of the last use, for choosing which live conversation to give up."""

    def decoded(self, rows: int) -> None:
        """`rows` tokens of this slot were decoded in one batch."""
        self.length += rows
        self.last_rows = rows
        self.rewound = False

    def cut(self, count: int) -> None:
        """The last `count` tokens were rolled back."""
        self.length -= count
        self.rewound = True

    def loaded(self, length: int) -> None:
        """A saved state of `length` tokens was restored (0: the slot was cleared)."""
        self.length = length
        self.last_rows = 0
        self.rewound = False

    def ring_reach(self, ring_depth: int) -> int:
        """How many tokens the snapshot ring can undo *exactly* right now."""
        if self.rewound:
            return 0
        return max(0, min(ring_depth, self.last_rows - 1))


@attrs.define(eq=False)
class Sequence:
    """A request being decoded.

    Between steps the target's memory holds `tokens[:-1]`; `tokens[-1]` is the anchor: the last
    emitted token (or the last of the prompt), which is the first row of the next verify batch.
    """

    request: Request
    slot: Slot
    tokens: list[int]
    settings: Any = None
    """The sampler's options for this sequence (its `Config`, with the request's overrides)."""
    stream: TextStream | None = None
    finish: Finish | None = None
    cached: int = 0
    """Prompt tokens that did not have to be prefilled."""
    cancelled: bool = False
    logprobs: list[LogProb] = attrs.field(factory=list["LogProb"])
    """One entry an emitted token, when the sampler was asked for log-probabilities."""
    scratch: dict[str, Any] = attrs.field(factory=dict[str, Any])
    """Per-sequence state of components, keyed by component name."""

    @property
    def id(self) -> int:
        """The slot's sequence id in the target's memory."""
        return self.slot.id

    @property
    def anchor(self) -> int:
        """The last committed token; it is not in the target's memory yet."""
        return self.tokens[-1]

    @property
    def prompt_length(self) -> int:
        """Number of prompt tokens."""
        return len(self.request.prompt)

    @property
    def generated(self) -> int:
        """Number of emitted tokens."""
        return len(self.tokens) - len(self.request.prompt)

    @property
    def constraint(self) -> Constraint | None:
        """What restricts the tokens of this sequence, if anything does."""
        return self.request.constraint

    @property
    def done(self) -> bool:
        """Whether decoding has ended."""
        return self.finish is not None

    def cancel(self) -> None:
        """Ask for the end; the sequence finishes at the next step."""
        self.cancelled = True
