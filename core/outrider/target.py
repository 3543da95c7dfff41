"""The model and its memory as components see them: protocols that every engine fulfils.

`Engine` opens models and contexts, `Context` is a memory with the calls that read and write it,
`Batch` the rows of one call. `outrider.engine` implements them on llama.cpp,
`outrider.testing` on a toy model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import attrs
import numpy as np
from numpy.typing import NDArray

from outrider.errors import EngineError


@attrs.frozen
class ModelInfo:
    """What a GGUF header says about a model, known before its weights are loaded."""

    path: Path
    architecture: str
    name: str
    n_layer: int
    """Decoder layers, MTP layers not counted."""
    n_layer_nextn: int
    """Multi-token-prediction (NextN) layers; 0 when the file has no such head."""
    n_embd: int
    n_vocab: int
    n_ctx_train: int
    recurrent: bool
    """Whether some of the memory is a recurrent state, which cannot be truncated."""
    chat_template: str | None
    size: int
    """File size in bytes."""
    metadata: Mapping[str, Any]
    """Scalar metadata of the file, by key; arrays of numbers as tuples, long arrays left out."""
    tensors: frozenset[str]
    """Names of the tensors in the file."""


@attrs.frozen
class Needs:
    """What a drafter reads of the target besides its logits; the pipeline turns on just this."""

    nextn: bool = False
    """Hidden rows after the last layer, as the MTP head takes them."""
    layer_inputs: tuple[int, ...] = ()
    """Layers whose input rows are exported."""

    def __or__(self, other: Needs) -> Needs:
        layers = tuple(sorted({*self.layer_inputs, *other.layer_inputs}))
        return Needs(self.nextn or other.nextn, layers)


class Vocabulary(Protocol):
    """Tokens and text of a model."""

    size: int
    eog: frozenset[int]
    """Tokens that end a generation."""

    def tokenize(self, text: str, *, special: bool = True, bos: bool = False) -> list[int]:
        """Token ids of `text`; `special` recognises control tokens spelt out in it."""
        ...

    def piece(self, token: int) -> bytes:
        """The bytes a token stands for (may be half a character); control tokens spelt out."""
        ...

    def is_control(self, token: int) -> bool:
        """Whether a token is a control token, which is not part of the text."""
        ...

    def detokenize(self, tokens: Iterable[int]) -> bytes:
        """The bytes of a token list, control tokens spelt out."""
        ...


class RowBuffer:
    """Rows of float32 that outlive the batch they were exported by.

    `array` is [capacity, width]; contexts and batches copy whole rows from and to it without
    going through NumPy, whose calls are slow where a decode call emptied the caches.
    """

    def __init__(self, capacity: int, width: int) -> None:
        self.array: NDArray[np.float32] = np.zeros((capacity, width), np.float32)
        self.capacity = capacity
        self.width = width
        self._address = self.array.ctypes.data

    def place(self, first: int, count: int, width: int) -> int:
        """The address of row `first`, when `count` rows of `width` values fit from there.

        Raises EngineError otherwise: what is copied to an address is checked nowhere else.
        """
        if width != self.width or first < 0 or count < 0 or first + count > self.capacity:
            raise EngineError(
                f"rows {first} … {first + count - 1} of {width} values were asked of a buffer of "
                f"{self.capacity} rows of {self.width}"
            )
        return self._address + 4 * width * first


class Batch(Protocol):
    """Rows for one decode call, written through preallocated arrays.

    `tokens`, `positions`, `sequences`: int32 [capacity]; `outputs`: int8 [capacity], 1 where
    logits are wanted; `embeddings`: float32 [capacity, width] or None. Rows `0 … size-1` count.
    """

    capacity: int
    size: int
    tokens: NDArray[np.int32]
    positions: NDArray[np.int32]
    sequences: NDArray[np.int32]
    outputs: NDArray[np.int8]
    embeddings: NDArray[np.float32] | None

    def clear(self) -> None:
        """Forget all rows."""
        ...

    def add(self, token: int, position: int, sequence: int, output: bool = False) -> int:
        """Append one row and return its index."""
        ...

    def extend(
        self,
        tokens: Sequence[int],
        position: int,
        sequence: int,
        output: bool = False,
        *,
        last_output: bool = False,
    ) -> int:
        """Append rows at consecutive positions; returns the index of the first.

        Outputs on all of them, on the last one, or on none.
        """
        ...

    def take_rows(self, at: int, rows: RowBuffer, first: int, count: int) -> None:
        """Copy rows of a buffer into the embeddings of rows from `at`."""
        ...

    def borrow_rows(self, rows: RowBuffer, first: int) -> None:
        """Let rows of a buffer, from `first` on, be the embeddings of all rows until `clear`.

        They must stay as they are until the batch is decoded. Raises EngineError.
        """
        ...

    def take_hidden(self, at: int, source: Context, row: int, count: int = 1) -> None:
        """Copy `nextn` rows that `source` exported into the embeddings of rows from `at`."""
        ...


@attrs.frozen
class Rows:
    """Where a saved state keeps one row a token: `count` rows of `size` bytes from `offset`.

    Row i belongs to token i, and stays what it is while the sequence grows, so that snapshots of
    one conversation can share it. A wrong answer costs memory, never correctness.
    """

    offset: int
    size: int
    count: int


class Context(Protocol):
    """A model with a memory: the target, or a drafter's own context.

    Row indices count the rows of the last decoded batch. Arrays returned are views into the
    engine's memory: they are valid until the next `decode` of the same context.
    """

    n_ctx: int
    """Positions a sequence may use."""
    n_batch: int
    """Most rows of one decode call."""
    n_vocab: int
    n_embd: int
    ring_depth: int
    """Recurrent snapshots the context really got (`llama_n_rs_seq`), 0 without a ring."""
    batch: Batch
    engine_ns: int
    """Nanoseconds spent inside the engine's library so far."""

    def decode(self) -> None:
        """Decode the rows of `batch`. Raises EngineError with what to do about it."""
        ...

    def submit(self) -> None:
        """Begin decoding the rows of `batch`; reading waits for them. Raises EngineError."""
        ...

    def wait(self) -> None:
        """Wait for what was submitted."""
        ...

    def embedding_batch(self, width: int) -> Batch:
        """A batch of `n_batch` embedding rows without tokens, `width` float32 values a row."""
        ...

    def decode_embeddings(self, batch: Batch) -> None:
        """Begin decoding the rows of a batch that `embedding_batch` made."""
        ...

    def argmax(self, row: int) -> int:
        """The most likely token after an output row."""
        ...

    def match(self, row: int, tokens: Sequence[int], position: int) -> tuple[int, int]:
        """How many of `tokens` are the most likely ones, and the most likely token after those.

        Row `row` predicts the first of `tokens`, the rows after it the others; all are output
        rows. `position` is that of the first, for messages. Raises LogitsError for a row without
        a most likely token.
        """
        ...

    def chain(self, rows: list[int], lengths: list[int], *, begun: bool = False) -> list[list[int]]:
        """Decode `batch`, and go on from its output row `rows[i]` by `lengths[i]` ≥ 1 tokens.

        Each is the most likely one, and is fed back at the next position with the `nextn` row
        that predicted it, as a multi-token-prediction head takes them. Where the context is
        `steady`, the rows before it are decoded again with it. `begun`: `batch` was submitted, and
        nothing was decoded since. `rows` ascend, one a sequence. Returns the tokens by row; the
        last one of each was not fed. `batch` is used up. Raises EngineError or LogitsError.
        """
        ...

    def attach_argmax(self) -> bool:
        """Compute `argmax` on the device from now on; False when the backend cannot."""
        ...

    def need_logits(self, sequence: int, needed: bool) -> None:
        """Whether `logits` will be read for a sequence, or only `argmax` (cheaper)."""
        ...

    on_accelerator: bool
    """Whether rows are computed on a device that they have to be copied from."""
    steady: bool
    """Whether decodes of one shape are worth rows that nobody needs."""
    ahead: bool
    """Whether to `submit` what will be needed before it is."""

    def need_top_k(self, sequence: int, k: int) -> None:
        """Only `top_k` will be read for a sequence from now on, until `need_logits`."""
        ...

    def top_k(self, row: int) -> tuple[NDArray[np.int32] | None, NDArray[np.float32]]:
        """Ids [k] and raw logits [k] of the k most likely tokens after an output row.

        `(None, logits [n_vocab])` when the device could not rank them.
        """
        ...

    def logits(self, row: int) -> NDArray[np.float32]:
        """Raw logits [n_vocab] after an output row."""
        ...

    def hidden(self, row: int, count: int) -> NDArray[np.float32]:
        """Exported `nextn` rows [count, n_embd] of `count` batch rows from `row`."""
        ...

    def keep_hidden(self, row: int, count: int, rows: RowBuffer, at: int) -> None:
        """Copy `count` exported `nextn` rows from batch row `row` to rows `at` … of a buffer."""
        ...

    def layer_input(self, layer: int, row: int, count: int) -> NDArray[np.float32]:
        """Exported inputs [count, n_embd] of a layer for `count` batch rows from `row`."""
        ...

    def keep_layer_inputs(
        self, layers: Sequence[int], row: int, count: int, rows: RowBuffer, at: int
    ) -> None:
        """Copy the exported inputs of `layers` (list or tuple) for `count` batch rows from `row`.

        To rows `at` … of a buffer of len(layers) × n_embd values a row, layers side by side.
        """
        ...

    def length(self, sequence: int) -> int:
        """Tokens of a sequence in memory (last position + 1; 0 when empty)."""
        ...

    def truncate(self, sequence: int, length: int) -> bool:
        """Remove positions ≥ `length`. False when the memory refuses (nothing changed then)."""
        ...

    def copy(self, source: int, destination: int) -> None:
        """Make `destination` hold what `source` holds."""
        ...

    def clear(self, sequence: int | None = None) -> None:
        """Empty one sequence, or everything."""
        ...

    def save(self, sequence: int, *, partial: bool = False, device: bool = False) -> Any:
        """Serialised state of a sequence, as bytes-like (an opaque handle for `device`).

        `partial`: the recurrent part only. `device`: tensors stay in device memory; a later
        device save of the same sequence invalidates the earlier one.
        """
        ...

    def load(
        self, sequence: int, data: Any, *, partial: bool = False, device: bool = False
    ) -> None:
        """Restore what `save` returned. Raises EngineError if the data do not fit."""
        ...

    def token_rows(self, data: Any) -> Sequence[Rows]:
        """Where a state that `save` returned keeps one row a token; empty when unknown."""
        ...


@attrs.frozen
class EnginePlan:
    """What the pipeline asks an engine to load and reserve."""

    model: ModelInfo
    max_sequences: int
    max_draft: int
    """Most rows of a sequence in a verify batch behind its anchor: drafts, and padding."""
    ring_depth: int
    needs: Needs
    greedy: bool


class Engine(Protocol):
    """Opens models and contexts. Built in: `llama-cpp`, and `scripted` for tests.

    An engine is a component: its class has a `Config`, `inspect` is called before `load`, and
    the attributes below exist after `load`.
    """

    info: ModelInfo
    vocabulary: Vocabulary
    target: Context

    def inspect(self, path: Path) -> ModelInfo:
        """What the file's header says, without loading weights. Raises ModelError."""
        ...

    def load(self, plan: EnginePlan, progress: Callable[[float], None] | None = None) -> None:
        """Load the weights and create the target context; `progress` gets 0.0 … 1.0."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes with anything that makes saved states incomparable: model, build, parameters."""
        ...

    @property
    def cost_key(self) -> str:
        """Changes with anything that changes what a decode costs: model, build, devices, options.

        Not with the depth of the snapshot ring.
        """
        ...

    def open_mtp(self, *, n_batch: int) -> Context:
        """A context on the target's own multi-token-prediction head."""
        ...

    def open_drafter(
        self,
        path: Path,
        *,
        n_batch: int,
        outputs: int = 1,
        room: int = 0,
        causal: bool = True,
        hidden: bool = False,
        cache_type: str | None = None,
    ) -> Context:
        """Load a drafter model that shares the target's embeddings (`ctx_other`).

        `outputs`: output rows a sequence; `room`: positions beyond the target's context, for
        drafted rows; `causal`: False lets the rows of a block see each other; `hidden`: export
        `nextn` rows; `cache_type`: of K and V, by default the engine's. Raises ModelError.
        """
        ...

    def clock_ns(self) -> int:
        """The time that costs are counted in: real, unless the engine simulates its own."""
        ...

    def busy_ns(self) -> int:
        """Nanoseconds spent inside the engine's library so far, by all contexts."""
        ...

    def memory(self) -> Mapping[str, int]:
        """Bytes reserved, by what for (weights, attention cache, recurrent state and ring)."""
        ...

    def close(self) -> None:
        """Free everything."""
        ...
