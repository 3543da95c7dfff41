"""Draft a whole block in one pass, from what the target's layers saw.

The drafter is a small model of its own that shares the target's embeddings. Its cache is filled
from the target's layer inputs at committed positions; one non-causal pass over [anchor, mask × k]
then fills in all masks at once. DFlash2 files add a selector, which turns the pass into a lattice
of candidates with pairwise scores (see `outrider_dflash2.lattice`); plain DFlash files give one
row of logits a position. Reference: `common_speculative_impl_draft_dflash` in llama.cpp's
`common/speculative.cpp`, `src/models/dflash.cpp`.

The block's own rows are removed after the pass: the cache holds committed positions only.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence as ListOf
from typing import Literal

import attrs
import numpy as np
from attrs import validators
from numpy.typing import NDArray
from outrider import (
    NO_DRAFT,
    Assembly,
    Distribution,
    Draft,
    Drafter,
    EngineError,
    ModelInfo,
    Needs,
    Rows,
    Runtime,
    Sequence,
    Slot,
    Step,
    file_fingerprint,
)

from outrider_dflash2.header import BlockModel
from outrider_dflash2.injection import Injector
from outrider_dflash2.lattice import confidence, walk

CacheType = Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"]

_HEAD = struct.Struct("<III")
"""Of a saved state: cached positions, rows that wait, bytes of the cache."""
_FEW = 64
"""Rows that may wait after a prefill and in a saved state, where they take more room than what
the cache makes of them."""


@attrs.frozen
class BlockConfig:
    """Options of the `dflash2` drafter."""

    model: str
    """The drafter's GGUF file (architecture dflash), or the name of a packaged model."""
    min_p: float = attrs.field(default=0.0, validator=[validators.ge(0.0), validators.le(1.0)])
    """End the draft where the likeliest token is less probable than this; 0: never."""
    sample: bool | None = None
    """Draw drafts as the sampler draws tokens; null: where the sampler draws at all."""
    cache_type: CacheType | None = None
    """Type of the drafter's cache; null: the engine's."""
    batch: int = attrs.field(default=512, validator=validators.ge(1))
    """Most prompt positions injected by one pass."""
    waiting: int = attrs.field(default=512, validator=validators.ge(1))
    """Rows of committed tokens kept on the host before they must be injected."""


class BlockDrafter(Drafter):
    """Drafts a whole block in one pass of a DFlash2 or DFlash model of its own."""

    Config = BlockConfig

    def __init__(self, config: BlockConfig, assembly: Assembly) -> None:
        super().__init__(config, assembly)
        self.config: BlockConfig = config
        self.model = BlockModel.read(assembly.inspect(assembly.model_path(config.model)))
        self.needs = Needs(layer_inputs=self.model.target_layers)
        self.max_draft = self.model.max_draft

    def unsupported_reason(self, model: ModelInfo) -> str | None:
        """The drafter must have been trained for this target."""
        return self.model.mismatch(model)

    def open(self, runtime: Runtime) -> None:
        """Load the drafter and create its context."""
        model, engine = self.model, runtime.engine
        self._sampler = runtime.sampler
        sample = self.config.sample
        self._sample = not runtime.sampler.greedy if sample is None else sample
        block = min(runtime.max_draft, model.max_draft) + 1
        n_batch = max(self.config.batch, block)
        self._context = engine.open_drafter(
            model.info.path,
            n_batch=n_batch,
            outputs=1 if model.top_k else block,
            room=block,
            causal=model.causal,
            hidden=model.top_k > 0,
            cache_type=self.config.cache_type,
        )
        self._plain_argmax = not self._sample and self.config.min_p == 0.0
        if not model.top_k and self._plain_argmax:
            self._context.attach_argmax()
        waiting = max(self.config.waiting, block)
        self._injector = Injector(
            engine.target,
            self._context,
            model.target_layers,
            runtime.max_sequences,
            waiting,
            keep=block if self._context.steady else 0,
        )
        self._row: NDArray[np.float32] = np.full(engine.target.n_vocab, -np.inf, np.float32)

    def fingerprint(self) -> str:
        """Name, file and cache type: what a saved cache depends on."""
        return self._fingerprint

    @functools.cached_property
    def _fingerprint(self) -> str:
        return f"{self.name}:{file_fingerprint(self.model.info.path)}:{self.config.cache_type}"

    # --- following the target -----------------------------------------------------------------

    def observe(self, sequence: Sequence, row: int, count: int) -> None:
        """Inject prompt positions; a few of them wait for the first block."""
        if count <= min(_FEW, self._injector.slots[sequence.id].room):
            self._injector.wait(sequence.id, row, count)
        else:
            self._injector.direct(sequence.id, row, count)

    def commit(self, sequences: ListOf[Sequence], steps: ListOf[Step]) -> None:
        """Keep the rows of the anchor and the accepted drafts for the next injection."""
        for sequence, step in zip(sequences, steps, strict=True):
            kept = len(sequence.tokens) - 1 - self._injector.slots[sequence.id].length
            if kept:
                self._injector.wait(sequence.id, step.row, kept)
        if self._context.ahead:
            # whoever drafted will draft again
            going = [
                sequence.id
                for sequence, step in zip(sequences, steps, strict=True)
                if step.draft.source == self.name and sequence.finish is None
            ]
            self._injector.flush(going, self._shape(steps))

    def _shape(self, steps: ListOf[Step]) -> int:
        """Rows of every injection after steps with so many drafts, 0 for as few as possible."""
        if not self._context.steady or len(steps) != 1:
            return 0
        return len(steps[0].draft.tokens) + 1

    def meanwhile(self, sequences: ListOf[Sequence], drafts: ListOf[Draft]) -> None:
        """Have the graph of the next injection built, by repeating the last one.

        llama.cpp keeps one graph, and that of the block is another one: building it anew takes
        longer than the injection itself.
        """
        if self._context.steady and len(drafts) == 1 and drafts[0].source == self.name:
            self._injector.repeat(sequences[0].id, len(drafts[0].tokens) + 1)

    def rewind(self, slot: Slot, length: int) -> None:
        """Cut the drafter's cache along with the target's memory."""
        state = self._injector.slots[slot.id]
        state.cut(length)
        self._context.truncate(slot.id, state.cached)

    def clear(self, slot: Slot) -> None:
        """Forget the slot."""
        self._injector.slots[slot.id].cut(0)
        self._context.clear(slot.id)

    def snapshot(self, slot: Slot) -> bytes:
        """The drafter's cache, and the rows that wait for it."""
        state = self._injector.slots[slot.id]
        if state.count > _FEW:
            self._injector.flush((slot.id,))
        cache = bytes(self._context.save(slot.id)) if state.cached else b""
        return _HEAD.pack(state.cached, state.count, len(cache)) + state.waiting.tobytes() + cache

    def token_rows(self, data: bytes) -> ListOf[Rows]:
        """The rows of the cache."""
        start = len(data) - _HEAD.unpack_from(data)[2]
        found = self._context.token_rows(data[start:])
        return [attrs.evolve(rows, offset=start + rows.offset) for rows in found]

    def restore(self, slot: Slot, data: bytes) -> None:
        """Load what `snapshot` wrote."""
        if len(data) < _HEAD.size:
            raise EngineError("the saved state of the block drafter is too short")
        cached, count, size = _HEAD.unpack_from(data)
        state = self._injector.slots[slot.id]
        self.clear(slot)
        rows = data[_HEAD.size : len(data) - size]
        if len(rows) != count * state.rows[0].nbytes or count > len(state.rows):
            raise EngineError("the saved state of the block drafter does not fit this model")
        if size:
            self._context.load(slot.id, data[len(data) - size :])
        if self._context.length(slot.id) != cached:
            self._context.clear(slot.id)
            raise EngineError("the saved state of the block drafter does not fit this model")
        shape = (count, state.rows.shape[1])
        state.restart(cached, np.frombuffer(rows, np.float32).reshape(shape))

    # --- drafting -----------------------------------------------------------------------------

    def propose(self, sequences: ListOf[Sequence], limits: ListOf[int]) -> ListOf[Draft]:
        """One block for each sequence that may draft, in as few passes as fit."""
        drafts: list[Draft] = [NO_DRAFT] * len(sequences)
        active = [i for i, limit in enumerate(limits) if limit > 0]
        if not active:
            return drafts
        self._injector.flush([sequences[i].id for i in active])
        # the convolutions need blocks of equal length, whole within one pass
        block = max(limits[i] for i in active) + 1
        together = max(1, self._context.batch.capacity // block)
        for start in range(0, len(active), together):
            part = active[start : start + together]
            self._decode([sequences[i] for i in part], block)
            for n, i in enumerate(part):
                drafts[i] = self._read(sequences[i], n * block + 1, limits[i])
        return drafts

    def _decode(self, sequences: ListOf[Sequence], block: int) -> None:
        """One pass over [anchor, mask, …] of each sequence; its rows leave the cache again."""
        batch, masks = self._context.batch, [self.model.mask] * (block - 1)
        batch.clear()
        output = self.model.top_k == 0
        for sequence in sequences:
            cached = self._injector.slots[sequence.id].cached
            batch.extend((sequence.tokens[-1], *masks), cached, sequence.id, output)
        self._context.decode()
        for sequence in sequences:
            self._context.truncate(sequence.id, self._injector.slots[sequence.id].cached)

    def _read(self, sequence: Sequence, row: int, count: int) -> Draft:
        q: list[Distribution | None] | None = [] if self._sample else None
        if self.model.top_k:
            tokens = self._walk(sequence, row, count, q)
        else:
            tokens = self._read_logits(sequence, row, count, q)
        return Draft(tokens, q, source=self.name) if tokens else NO_DRAFT

    def _walk(
        self, sequence: Sequence, row: int, count: int, q: list[Distribution | None] | None
    ) -> list[int]:
        def draw(path: list[int], ids: NDArray[np.int32], scores: NDArray[np.float32]) -> int:
            logits = self._row
            logits[ids] = scores
            token, distribution = self._sampler.draw(sequence, path, logits)
            logits[ids] = -np.inf
            q.append(distribution)
            return token

        return walk(
            self._context.hidden(row, count),
            self.model.top_k,
            min_p=self.config.min_p,
            draw=None if q is None else draw,
        )

    def _read_logits(
        self, sequence: Sequence, row: int, count: int, q: list[Distribution | None] | None
    ) -> list[int]:
        """Plain DFlash: every position on its own."""
        context, min_p = self._context, self.config.min_p
        tokens: list[int] = []
        for r in range(row, row + count):
            if min_p > 0.0 and confidence(context.logits(r)) < min_p:
                break
            if q is None:
                tokens.append(context.argmax(r))
            else:
                token, distribution = self._sampler.draw(sequence, tokens, context.logits(r))
                q.append(distribution)
                tokens.append(token)
        return tokens
