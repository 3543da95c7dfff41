"""Contexts of the scripted engine: the target, and a multi-token-prediction head."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from outrider.errors import EngineError
from outrider.target import Batch, Context, RowBuffer, Rows
from outrider.testing.memory import DenseMemory, HybridMemory, Memory
from outrider.testing.toy import WINDOW, State, ToyModel

WIDTH = 8
"""Values in a hidden row: a state in seven numbers, and how often it was guessed."""


class ScriptedBatch:
    """See `outrider.target.Batch`."""

    def __init__(self, capacity: int, width: int = 0) -> None:
        self.capacity = capacity
        self.size = 0
        self.tokens: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self.positions: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self.sequences: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self.outputs: NDArray[np.int8] = np.zeros(capacity, np.int8)
        self.embeddings: NDArray[np.float32] | None = (
            np.zeros((capacity, width), np.float32) if width else None
        )

    def clear(self) -> None:
        """Forget all rows."""
        self.size = 0

    def add(self, token: int, position: int, sequence: int, output: bool = False) -> int:
        """Append one row and return its index."""
        return self.extend((token,), position, sequence, output)

    def extend(
        self,
        tokens: Sequence[int],
        position: int,
        sequence: int,
        output: bool = False,
        *,
        last_output: bool = False,
    ) -> int:
        """Append rows at consecutive positions; returns the index of the first."""
        i, n = self.size, len(tokens)
        if i + n > self.capacity:
            raise EngineError(f"{n} more rows do not fit a batch of {self.capacity} ({i} used)")
        rows = slice(i, i + n)
        self.tokens[rows] = tokens
        self.positions[rows] = range(position, position + n)
        self.sequences[rows] = sequence
        self.outputs[rows] = output
        if last_output:
            self.outputs[i + n - 1] = True
        self.size = i + n
        return i

    def take_rows(self, at: int, rows: RowBuffer, first: int, count: int) -> None:
        """Copy rows of a buffer into the embeddings of rows from `at`."""
        assert self.embeddings is not None
        self.embeddings[at : at + count] = rows.array[first : first + count]

    def borrow_rows(self, rows: RowBuffer, first: int) -> None:
        """Copy them: the toy is in no hurry."""
        self.take_rows(0, rows, first, self.size)

    def take_hidden(self, at: int, source: Context, row: int, count: int = 1) -> None:
        """Copy hidden rows that `source` exported into the embeddings of rows from `at`."""
        assert self.embeddings is not None
        self.embeddings[at : at + count] = source.hidden(row, count)


@attrs.frozen
class Row:
    """What a decoded row left to be read: the state after it, and the cache up to it."""

    state: State
    tokens: tuple[int, ...]
    output: bool
    guesses: int = 0
    """How many guessed rows led to it; 0 for rows of the target."""
    sound: bool = True
    """Whether everything it was computed from is true."""


class ScriptedContext:
    """What the contexts of the scripted engine have in common."""

    on_accelerator = False
    steady = False
    ahead = False
    n_embd = WIDTH
    batch: Batch

    def __init__(
        self, model: ToyModel, what: str, n_ctx: int, n_batch: int, spend: Callable[[int], int]
    ) -> None:
        self.model = model
        self.what = what
        self.n_ctx = n_ctx
        self.n_batch = n_batch
        self.n_vocab = model.vocabulary.size
        self.ring_depth = 0
        self.decodes = 0
        self.engine_ns = 0
        self.rows: list[Row] = []
        self._spend = spend

    def embedding_batch(self, width: int) -> Batch:
        """The toy takes no embedding rows."""
        raise EngineError(f"{self.what}: the scripted engine takes no embedding rows")

    def decode_embeddings(self, batch: Batch) -> None:
        """The toy takes no embedding rows."""
        raise EngineError(f"{self.what}: the scripted engine takes no embedding rows")

    def _row(self, row: int) -> Row:
        if not 0 <= row < len(self.rows):
            raise EngineError(
                f"{self.what}: row {row} was asked for; the last batch had {len(self.rows)}"
            )
        return self.rows[row]

    def _output(self, row: int) -> Row:
        found = self._row(row)
        if not found.output:
            raise EngineError(f"{self.what}: row {row} of the last batch has no logits")
        return found

    def argmax(self, row: int) -> int:
        """The most likely token after an output row."""
        raise NotImplementedError

    def decode(self) -> None:
        """Decode the rows of `batch`."""
        raise NotImplementedError

    def match(self, row: int, tokens: Sequence[int], position: int) -> tuple[int, int]:
        """How many of `tokens` are the most likely ones from `row` on, and the one after them."""
        for count, token in enumerate(tokens):
            found = self.argmax(row + count)
            if found != token:
                return count, found
        return len(tokens), self.argmax(row + len(tokens))

    def submit(self) -> None:
        """Decode the rows of `batch`: the toy has nothing else to do."""
        self.decode()

    def wait(self) -> None:
        """Nothing is ever under way."""

    def chain(self, rows: list[int], lengths: list[int], *, begun: bool = False) -> list[list[int]]:
        """Decode `batch`, and let its output rows be continued by their most likely tokens."""
        batch = self.batch
        if not begun:
            self.decode()
        chains: list[list[int]] = [[] for _ in rows]
        going = [(i, row, int(batch.positions[row]) + 1) for i, row in enumerate(rows)]
        ids = [int(batch.sequences[row]) for row in rows]
        while True:
            for i, row, _ in going:
                chains[i].append(self.argmax(row))
            going = [(i, row, at) for i, row, at in going if len(chains[i]) < lengths[i]]
            if not going:
                return chains
            batch.clear()
            fed: list[tuple[int, int, int]] = []
            for i, row, at in going:
                new = batch.add(chains[i][-1], at, ids[i], True)
                assert batch.embeddings is not None
                batch.embeddings[new] = self.hidden(row, 1)[0]
                fed.append((i, new, at + 1))
            self.decode()
            going = fed

    def attach_argmax(self) -> bool:
        """The toy has no device."""
        return False

    def need_logits(self, sequence: int, needed: bool) -> None:
        """Logits are always there."""

    def need_top_k(self, sequence: int, k: int) -> None:
        """Nothing ranks rows here."""

    def top_k(self, row: int) -> tuple[NDArray[np.int32] | None, NDArray[np.float32]]:
        """Whole rows: nothing ranks them."""
        return None, self.logits(row)

    def logits(self, row: int) -> NDArray[np.float32]:
        """Logits [n_vocab] after an output row."""
        raise NotImplementedError

    def token_rows(self, data: Any) -> Sequence[Rows]:
        """Saved states of the toy keep no rows."""
        return ()

    def layer_input(self, layer: int, row: int, count: int) -> NDArray[np.float32]:
        """The toy has no layers."""
        raise EngineError(f"{self.what}: the scripted engine exports no layer inputs")

    def keep_layer_inputs(
        self, layers: Sequence[int], row: int, count: int, rows: RowBuffer, at: int
    ) -> None:
        """The toy has no layers."""
        raise EngineError(f"{self.what}: the scripted engine exports no layer inputs")

    def hidden(self, row: int, count: int) -> NDArray[np.float32]:
        """Hidden rows [count, WIDTH] of batch rows from `row`."""
        rows: NDArray[np.float32] = np.empty((count, WIDTH), np.float32)
        for i in range(count):
            found = self._row(row + i)
            rows[i] = pack(found.state, found.guesses)
        return rows

    def keep_hidden(self, row: int, count: int, rows: RowBuffer, at: int) -> None:
        """Copy hidden rows into a buffer."""
        rows.array[at : at + count] = self.hidden(row, count)

    def _count(self, rows: int) -> None:
        self.decodes += 1
        self.engine_ns += self._spend(rows)


class TargetContext(ScriptedContext):
    """The toy model with one memory a sequence; `ring_depth` snapshots if it is recurrent."""

    def __init__(
        self,
        model: ToyModel,
        *,
        n_ctx: int,
        n_batch: int,
        max_sequences: int,
        ring_depth: int,
        recurrent: bool,
        spend: Callable[[int], int],
    ) -> None:
        super().__init__(model, "the scripted target", n_ctx, n_batch, spend)
        self.ring_depth = ring_depth
        self.batch: Batch = ScriptedBatch(n_batch)
        self.memories: list[Memory] = [
            HybridMemory(model, ring_depth) if recurrent else DenseMemory(model)
            for _ in range(max_sequences)
        ]
        self.state_bytes = 0

    def decode(self) -> None:
        """Decode the rows of `batch`."""
        batch = self.batch
        if not batch.size:
            raise EngineError(f"{self.what}: the batch is empty")
        grouped: dict[int, list[int]] = {}
        for i in range(batch.size):
            grouped.setdefault(int(batch.sequences[i]), []).append(i)
        rows: list[Row | None] = [None] * batch.size
        for sequence, indices in grouped.items():
            memory = self._memory(sequence)
            start = len(memory.tokens)
            positions = [int(batch.positions[i]) for i in indices]
            if positions != list(range(start, start + len(indices))):
                raise EngineError(
                    f"{self.what}: sequence {sequence} holds {start} tokens, but rows at "
                    f"positions {positions} were given"
                )
            if start + len(indices) > self.n_ctx:
                raise EngineError(
                    f"{self.what}: {len(indices)} rows do not fit: sequence {sequence} holds "
                    f"{start} of {self.n_ctx} tokens"
                )
            states = memory.decode([int(batch.tokens[i]) for i in indices])
            for n, (i, state) in enumerate(zip(indices, states, strict=True)):
                end = start + n + 1
                seen = tuple(memory.tokens[max(0, end - WINDOW) : end])
                rows[i] = Row(state, seen, bool(batch.outputs[i]))
        self.rows = [r for r in rows if r is not None]
        self._count(batch.size)

    def argmax(self, row: int) -> int:
        """The most likely token after an output row."""
        found = self._output(row)
        return self.model.next(found.state, found.tokens)

    def logits(self, row: int) -> NDArray[np.float32]:
        """Logits [n_vocab] after an output row."""
        found = self._output(row)
        return self.model.logits(found.state, found.tokens)

    def length(self, sequence: int) -> int:
        """Tokens of a sequence in memory."""
        return self._memory(sequence).length

    def truncate(self, sequence: int, length: int) -> bool:
        """Remove positions ≥ `length`, right or wrong, by llama.cpp's rules."""
        return self._memory(sequence).truncate(length)

    def copy(self, source: int, destination: int) -> None:
        """Make `destination` hold what `source` holds."""
        origin, target = self._memory(source), self._memory(destination)
        origin.copy_to(target)  # pyright: ignore[reportArgumentType]

    def clear(self, sequence: int | None = None) -> None:
        """Empty one sequence, or everything."""
        for memory in self.memories if sequence is None else [self._memory(sequence)]:
            memory.clear()

    def save(self, sequence: int, *, partial: bool = False, device: bool = False) -> bytes:
        """Serialised state of a sequence."""
        data = self._memory(sequence).save(partial)
        self.state_bytes += len(data)
        return data

    def load(
        self, sequence: int, data: Any, *, partial: bool = False, device: bool = False
    ) -> None:
        """Restore what `save` returned; a state that does not fit leaves the sequence empty."""
        memory = self._memory(sequence)
        self.state_bytes += len(data)
        try:
            memory.load(bytes(data))
        except ValueError as error:
            memory.clear()
            raise EngineError(f"{self.what}: {error}") from None

    def tokens(self, sequence: int) -> list[int]:
        """The tokens in a sequence's memory."""
        return list(self._memory(sequence).tokens)

    def exact(self, sequence: int) -> bool:
        """Whether a sequence's memory is what a fresh prefill of its tokens would leave."""
        return self._memory(sequence).exact()

    def _memory(self, sequence: int) -> Memory:
        if not 0 <= sequence < len(self.memories):
            raise EngineError(
                f"{self.what}: there is no sequence {sequence}, only {len(self.memories)}"
            )
        return self.memories[sequence]


def pack(state: State, guesses: int) -> list[float]:
    """A hidden row: exact in float32. A row of zeros is the empty state."""
    parts = [float(state.folded >> shift & 0xFFFF) for shift in (0, 16, 32, 48)]
    return [*parts, float(state.since_go + 1), 0.0, 0.0, float(guesses)]


def unpack(row: NDArray[np.float32]) -> tuple[State, int]:
    """The state and the number of guesses in a hidden row."""
    folded = sum(int(row[i]) << 16 * i for i in range(4))
    return State(folded, int(row[4]) - 1), int(row[7])
