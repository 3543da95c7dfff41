"""Chain the multi-token-prediction (NextN) head of the target to k drafts.

The head is one decoder layer with a cache of its own. Its input at position p is the token
there and the target's hidden row of position p - 1; its output row predicts token p + 1, and
serves as the hidden row of the next draft. Reference: DeepSeek-V3 technical report, section
2.2; `common_speculative_impl_draft_mtp` in llama.cpp's `common/speculative.cpp`.

After a verify batch the accepted drafts are in the head's cache with guessed hidden rows; they
are decoded again with the true ones, together with the new anchor, in the decode that yields the
first draft: "catch-up + first draft" is one call, and the anchor's own row of the last step is
already right.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence as ListOf

import attrs
import numpy as np
from attrs import validators
from numpy.typing import NDArray
from outrider import (
    NO_DRAFT,
    Assembly,
    ConfigError,
    Context,
    Distribution,
    Draft,
    Drafter,
    EngineError,
    ModelInfo,
    Needs,
    RowBuffer,
    Rows,
    Runtime,
    Sampler,
    Sequence,
    Slot,
    Step,
)


@attrs.frozen
class MtpConfig:
    """Options of the `mtp` drafter."""

    max_draft: int = attrs.field(default=16, validator=validators.ge(1))
    """Most tokens chained; the head is trained for few, acceptance falls with depth."""
    sample: bool = False
    """Draw drafts from the head's own distribution, as the sampler would, instead of taking the
    most likely token; at higher temperatures more of them hold."""


_STEADY_ROWS = 4
"""Most rows that every decode of a chain gets for the sake of one shape. What they cost grows with
their number and that of the drafts; what is saved, two graphs a step, does not."""


class _Rows:
    """True hidden rows of one slot: `rows[i]` goes with the token at position `base + i`.

    They cover positions up to and including the anchor's. Positions below `cached` are in the
    head's cache already; a few rows before that are kept for rewinds.
    """

    def __init__(self, capacity: int, keep: int, width: int) -> None:
        self.rows = RowBuffer(capacity, width)
        self.buffer: NDArray[np.float32] = self.rows.array
        self.keep = keep
        self.most = capacity - keep
        """Rows that may be pending."""
        self.reset()

    def reset(self) -> None:
        """Nothing in memory: the first token goes with a row of zeros."""
        self.base = 0
        self.count = 1
        self.cached = 0
        self.buffer[0] = 0.0

    def first(self, wanted: int) -> int:
        """Where to start feeding so that `wanted` rows are fed, or all pending ones if more.

        Rows that are cached come first then: fed once more they change nothing.
        """
        return max(self.base, min(self.cached, self.base + self.count - wanted))

    @property
    def pending(self) -> int:
        """Rows that are not in the head's cache yet, the anchor's included."""
        return self.base + self.count - self.cached

    def from_cached(self) -> NDArray[np.float32]:
        """The pending rows [pending, width]."""
        return self.buffer[self.cached - self.base : self.count]

    def append(self, target: Context, row: int, count: int) -> None:
        """Exported rows of the target for the positions that follow.

        The oldest that nobody needs make room.
        """
        if self.count + count > len(self.buffer):
            first = min(self.cached - self.base, max(0, self.count - self.keep))
            left = self.count - first
            self.buffer[:left] = self.buffer[first : self.count].copy()
            self.base += first
            self.count = left
        target.keep_hidden(row, count, self.rows, self.count)
        self.count += count

    def restart(self, position: int, rows: NDArray[np.float32]) -> None:
        """Everything below `position` is cached; the last of `rows` goes with the token there."""
        n = len(rows)
        self.base = position - n + 1
        self.cached = position
        self.buffer[:n] = rows
        self.count = n

    def cut(self, length: int) -> None:
        """The memory now ends after `length` tokens."""
        self.cached = min(self.cached, length)
        if length >= self.base:
            self.count = length - self.base + 1
        else:
            # the hidden row before the cut is gone; drafts start from zeros, as at position 0
            self.base, self.count = length, 1
            self.buffer[0] = 0.0


class MtpDrafter(Drafter):
    """Drafts with the target's own multi-token-prediction head, chained to k tokens."""

    Config = MtpConfig
    needs = Needs(nextn=True)

    def __init__(self, config: MtpConfig, assembly: Assembly) -> None:
        super().__init__(config, assembly)
        self.max_draft = config.max_draft

    def unsupported_reason(self, model: ModelInfo) -> str | None:
        """The model file must contain a NextN block."""
        if model.n_layer_nextn:
            return None
        return (
            f"{model.path.name} ({model.architecture}) has no multi-token-prediction head "
            f"(no {model.architecture}.nextn_predict_layers in its metadata)"
        )

    def open(self, runtime: Runtime) -> None:
        """Create the head's context."""
        self._target = runtime.engine.target
        self._context = runtime.engine.open_mtp(n_batch=self._target.n_batch)
        self._sampler = runtime.sampler
        self._sample = self.config.sample
        if not self._sample:
            self._context.attach_argmax()
        elif type(self._sampler).draw is Sampler.draw:
            raise ConfigError(
                f"drafter {self.name!r}: `sample: true` needs a sampler that draws tokens; "
                f"{self._sampler.name!r} does not"
            )
        width = self._target.n_embd
        keep = runtime.max_draft + 2
        self._steady = self._context.steady and not self._sample
        self._ahead = self._context.ahead and not self._sample
        self._begun: tuple[Sequence, int, int] | None = None
        capacity = 4 * keep + 64
        self._slots = [_Rows(capacity, keep, width) for _ in range(runtime.max_sequences)]

    def observe(self, sequence: Sequence, row: int, count: int) -> None:
        """Feed prompt tokens with their true hidden rows.

        A few of them wait instead, for the decode of the first draft: it comes after the first
        token, which then has to wait for nothing of the head's.
        """
        self._begun = None
        state, end = self._slots[sequence.id], sequence.slot.length
        if state.pending + count <= state.most:
            state.append(self._target, row, count)
            return
        hidden = self._target.hidden(row, count)
        rows = state.from_cached()
        tokens = sequence.tokens[state.cached : end]
        before = len(rows)
        context, batch = self._context, self._context.batch
        context.truncate(sequence.id, state.cached)
        done = 0
        while done < len(tokens):
            n = min(batch.capacity, len(tokens) - done)
            batch.clear()
            batch.extend(tokens[done : done + n], state.cached + done, sequence.id)
            inputs = batch.embeddings
            known = max(0, min(n, before - done))
            inputs[:known] = rows[done : done + known]
            if known < n:
                first = done + known - before
                inputs[known:n] = hidden[first : first + n - known]
            context.decode()
            done += n
        state.restart(end, hidden[-min(count, state.keep) :])

    def propose(self, sequences: ListOf[Sequence], limits: ListOf[int]) -> ListOf[Draft]:
        """Catch up and draft the first token in one decode, then chain."""
        begun, self._begun = self._begun, None
        if begun is not None and len(sequences) == 1 and limits[0] > 0:
            sequence, row, length = begun
            if sequence is sequences[0] and len(sequence.tokens) == length:
                found = self._context.chain([row], [limits[0]], begun=True)
                return [Draft(found[0], None, self.name)]
        drafts = [NO_DRAFT] * len(sequences)
        active: list[int] = []
        rows: list[int] = []
        lengths: list[int] = []
        self._context.batch.clear()
        for i, limit in enumerate(limits):
            if limit > 0:
                active.append(i)
                rows.append(self._feed(sequences[i], self._shape(limit) if len(limits) == 1 else 1))
                lengths.append(limit)
        if not active:
            return drafts
        if self._sample:
            drawn = self._draw([sequences[i] for i in active], lengths, rows)
            for i, (tokens, q) in zip(active, drawn, strict=True):
                drafts[i] = Draft(tokens, q, self.name)
        else:
            for i, tokens in zip(active, self._context.chain(rows, lengths), strict=True):
                drafts[i] = Draft(tokens, None, self.name)
        return drafts

    def _shape(self, length: int) -> int:
        """Rows of every decode that drafts so many tokens: as many as can be pending before."""
        return length + 1 if self._steady and length < _STEADY_ROWS else 1

    def _feed(self, sequence: Sequence, wanted: int) -> int:
        """Add a sequence's pending rows to the batch; the last, its anchor's, is returned.

        `wanted` rows where as many are known: then every decode has one shape.
        """
        slot, context = sequence.slot.id, self._context
        batch, state = context.batch, self._slots[slot]
        start, end = state.first(wanted), state.base + state.count
        context.truncate(slot, start)
        first = batch.extend(sequence.tokens[start:end], start, slot, last_output=True)
        batch.take_rows(first, state.rows, start - state.base, end - start)
        state.cached = end
        return first + end - start - 1

    def _draw(
        self, sequences: ListOf[Sequence], lengths: ListOf[int], rows: ListOf[int]
    ) -> list[tuple[list[int], list[Distribution]]]:
        """Decode the batch, and chain tokens drawn from the head's distributions."""
        context, batch = self._context, self._context.batch
        chains: list[tuple[list[int], list[Distribution]]] = [([], []) for _ in sequences]
        going = list(enumerate(rows))
        while True:
            context.decode()
            for i, row in going:
                tokens, drawn_from = chains[i]
                token, q = self._sampler.draw(sequences[i], tokens, context.logits(row))
                tokens.append(token)
                drawn_from.append(q)
            going = [(i, row) for i, row in going if len(chains[i][0]) < lengths[i]]
            if not going:
                return chains
            batch.clear()
            for n, (i, row) in enumerate(going):
                slot, tokens = sequences[i].id, chains[i][0]
                position = self._slots[slot].cached + len(tokens) - 1
                batch.take_hidden(batch.add(tokens[-1], position, slot, True), context, row)
                going[n] = (i, n)

    def commit(self, sequences: ListOf[Sequence], steps: ListOf[Step]) -> None:
        """Keep the true hidden rows of what was emitted."""
        for sequence, step in zip(sequences, steps, strict=True):
            state, length = self._slots[sequence.slot.id], len(sequence.tokens)
            # after a prefill the row of the first token is known already
            missing = length - state.base - state.count
            if missing > 0:
                state.append(self._target, step.row + len(step.tokens) - missing, missing)
            if length - state.cached > state.most:
                self._catch_up(sequence.slot.id, sequence.tokens, state)
        if self._ahead and len(sequences) == 1:
            self._begin(sequences[0], steps[0])

    def _begin(self, sequence: Sequence, step: Step) -> None:
        """Begin the next draft, which whoever drafted will be asked for again."""
        if step.draft.source == self.name and sequence.finish is None:
            self._context.batch.clear()
            row = self._feed(sequence, self._shape(len(step.draft.tokens)))
            self._context.submit()
            self._begun = sequence, row, len(sequence.tokens)

    def _catch_up(self, slot: int, tokens: ListOf[int], state: _Rows) -> None:
        """Feed the pending rows but the anchor's, before they outgrow the buffer."""
        self._begun = None
        batch, count = self._context.batch, state.pending - 1
        self._context.truncate(slot, state.cached)
        batch.clear()
        batch.extend(tokens[state.cached : state.cached + count], state.cached, slot)
        batch.embeddings[:count] = state.from_cached()[:count]
        self._context.decode()
        state.cached += count

    def end(self, sequence: Sequence) -> None:
        """What was begun for another step is of no use."""
        self._drop(sequence.slot.id)

    def _drop(self, slot: int) -> None:
        """Forget what was begun: the anchor of another step stays out of the slot's cache."""
        self._begun = None
        state = self._slots[slot]
        state.cached = min(state.cached, state.base + state.count - 1)

    def rewind(self, slot: Slot, length: int) -> None:
        """The conversation was cut: so is the head's cache."""
        state = self._slots[slot.id]
        state.cut(length)
        self._context.truncate(slot.id, state.cached)

    def clear(self, slot: Slot) -> None:
        """Forget the slot."""
        self._begun = None
        self._context.clear(slot.id)
        self._slots[slot.id].reset()

    def snapshot(self, slot: Slot) -> bytes:
        """The head's cache and the pending rows, which live outside both contexts."""
        self._drop(slot.id)
        state = self._slots[slot.id]
        self._context.truncate(slot.id, state.cached)
        cache = bytes(self._context.save(slot.id)) if state.cached else b""
        rows = state.from_cached()
        return struct.pack("<III", state.cached, len(rows), len(cache)) + rows.tobytes() + cache

    def token_rows(self, data: bytes) -> ListOf[Rows]:
        """The rows of the head's cache."""
        _, _, size = struct.unpack_from("<III", data)
        start = len(data) - size
        found = self._context.token_rows(data[start:])
        return [attrs.evolve(rows, offset=start + rows.offset) for rows in found]

    def restore(self, slot: Slot, data: bytes) -> None:
        """Load what `snapshot` wrote."""
        self._begun = None
        state, width = self._slots[slot.id], self._target.n_embd
        start = struct.calcsize("<III")
        if len(data) < start:
            raise EngineError("the saved MTP state is too short")
        cached, count, size = struct.unpack_from("<III", data)
        end = start + 4 * count * width
        if len(data) != end + size or not 1 <= count <= len(state.buffer):
            raise EngineError("the saved MTP state does not fit this model")
        if size:
            self._context.load(slot.id, data[end:])
        else:
            self._context.clear(slot.id)
        if self._context.length(slot.id) != cached:
            self._context.clear(slot.id)
            raise EngineError("the saved MTP state does not fit this model")
        state.base = state.cached = cached
        state.count = count
        state.buffer[:count] = np.frombuffer(data[start:end], np.float32).reshape(count, width)
