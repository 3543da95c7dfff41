"""A llama.cpp context: a model's memory and the calls that read and write it."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outrider import native
from outrider.engine import declarations as decl
from outrider.engine import layout
from outrider.engine.batch import LlamaBatch
from outrider.engine.library import ffi, library, recent_messages
from outrider.engine.ring import RingWrites
from outrider.errors import EngineError
from outrider.target import Rows

_NO_LOGIT = float("-inf")
_DECODE_FAILURES = {
    1: "there is no room for the batch; shorten the prompt or raise engine.context",
    2: "decoding was aborted",
    -1: "the batch is not valid (positions that do not follow, too many outputs)",
    -2: "the compute buffers could not be allocated; lower `ubatch` or `context`",
    -3: "the computation failed on the device",
}


class LlamaContext:
    """See `outrider.components.Context`; one context belongs to one thread."""

    def __init__(
        self,
        model: Any,
        params: Any,
        *,
        what: str,
        keep: tuple[Any, ...] = (),
        width: int = 0,
        tokens: bool = True,
        on_accelerator: bool = False,
        clock: Callable[[], int] = perf_counter_ns,
    ) -> None:
        lib = library()
        self._c, self._ext = lib.c, lib.ext
        self._keep = keep
        self._clock = clock
        recent_messages()
        self._ctx = self._c.llama_init_from_model(model, params)
        if self._ctx == ffi.NULL:
            said = recent_messages()
            raise EngineError(
                f"llama.cpp could not create {what}"
                + (f": {said}" if said else "")
                + ". Lower `context` or `max_sequences`, or check the cache types."
            )
        self._what = what
        self._memory = self._c.llama_get_memory(self._ctx)
        self.n_ctx: int = self._c.llama_n_ctx_seq(self._ctx)
        self.n_batch: int = self._c.llama_n_batch(self._ctx)
        self.n_ubatch: int = self._c.llama_n_ubatch(self._ctx)
        self.n_seq_max: int = self._c.llama_n_seq_max(self._ctx)
        self._most_outputs: int = params.n_outputs_max
        self._ranks = self.n_seq_max == 1
        """Whether candidates ranked on the device can be trusted; see `_attach`."""
        self.ring_depth: int = self._c.llama_n_rs_seq(self._ctx)
        self.n_embd: int = self._c.llama_model_n_embd_out(model)
        self.n_embd_inp: int = self._c.llama_model_n_embd(model)
        self.n_vocab: int = self._c.llama_vocab_n_tokens(self._c.llama_model_get_vocab(model))
        rope = self._c.llama_model_rope_type(model)
        n_positions = 4 if rope in (decl.ROPE_MROPE, decl.ROPE_IMROPE) else 1
        self.batch = LlamaBatch(self.n_batch, width=width, tokens=tokens, n_positions=n_positions)
        self._n_positions = n_positions
        self.ring_writes = RingWrites(self._c, self._ctx)
        """How many planes of the ring are written; see `outrider.engine.ring`."""
        self._samplers: dict[int, tuple[Any, int]] = {}
        self.on_accelerator = on_accelerator
        self._device_argmax = False
        self._row_bytes = 4 * self.n_vocab
        self._hidden_base = self._ext["get_embeddings_nextn"]
        self.decodes = 0
        """Decode calls so far."""
        self.engine_ns = 0
        """Nanoseconds spent inside libllama so far: decoding, reading results, rolling back."""
        self.state_bytes = 0
        """Bytes of state saved or loaded so far, on the host or the device."""

    # --- decoding -----------------------------------------------------------------------------

    def decode(self) -> None:
        """Decode the rows of `batch`. Raises EngineError."""
        self._decode(self.batch)

    def decode_embeddings(self, batch: LlamaBatch) -> None:
        """Decode rows of another batch made for this context (embedding rows)."""
        self._decode(batch)

    def set_causal(self, causal: bool) -> None:
        """Whether a row sees only rows at its own and earlier positions."""
        self._c.llama_set_causal_attn(self._ctx, causal)

    def embedding_batch(self, width: int) -> LlamaBatch:
        """A batch of embedding rows without tokens, `width` float32 values a row."""
        return LlamaBatch(self.n_batch, width=width, tokens=False, n_positions=self._n_positions)

    def _decode(self, batch: LlamaBatch) -> None:
        if self.ring_depth:
            n = batch.size
            one = self.n_seq_max == 1
            self.ring_writes.expect(n if one else int(np.bincount(batch.sequences[:n]).max()))
        if batch.size > self._most_outputs:
            self._check_outputs(batch)
        start = self._clock()
        code = self._c.llama_decode(self._ctx, batch.struct())
        # every caller reads the results next, so waiting here costs nothing and dates honestly
        self._c.llama_synchronize(self._ctx)
        self.engine_ns += self._clock() - start
        self.decodes += 1
        if code != 0:
            said = recent_messages()
            reason = _DECODE_FAILURES.get(code, f"llama_decode returned {code}")
            raise EngineError(
                f"{self._what}: decoding {batch.size} rows failed: {reason}"
                + (f" (llama.cpp: {said})" if said else "")
            )

    def _check_outputs(self, batch: LlamaBatch) -> None:
        """More outputs than reserved end the process in an assertion of llama.cpp."""
        asked = int(np.count_nonzero(batch.outputs[: batch.size]))
        if asked > self._most_outputs:
            raise EngineError(
                f"{self._what}: {asked} output rows were asked for, {self._most_outputs} are "
                "reserved (max_sequences × (longest draft + 1))"
            )

    # --- reading ------------------------------------------------------------------------------

    def argmax(self, row: int) -> int:
        """The most likely token after an output row, from the device when a sampler is there."""
        c, ctx = self._c, self._ctx
        start = self._clock()
        if not self._samplers:
            pointer = c.llama_get_logits_ith(ctx, row)
            self.engine_ns += self._clock() - start
            if not pointer:
                return native.argmax(self.logits(row))  # names what is wrong
            return native.argmax_at(int(ffi.cast("intptr_t", pointer)), self.n_vocab)
        if self._ranks and c.llama_get_sampled_candidates_count_ith(ctx, row) == 1:
            token = c.llama_get_sampled_candidates_ith(ctx, row)[0]
            logit = c.llama_get_sampled_logits_ith(ctx, row)[0]
            self.engine_ns += self._clock() - start
            if not logit > _NO_LOGIT:
                native.argmax(np.array([logit], np.float32))  # names what is wrong
            return token
        token = c.llama_get_sampled_token_ith(ctx, row)
        self.engine_ns += self._clock() - start
        if token >= 0:
            logits = c.llama_get_logits_ith(ctx, row)
            if not logits[token] > _NO_LOGIT:
                native.argmax(np.array([logits[token]], np.float32))
            return token
        ids, ranked = self.top_k(row)
        best = native.argmax(ranked)
        return best if ids is None else int(ids[best])

    def top_k(self, row: int) -> tuple[NDArray[np.int32] | None, NDArray[np.float32]]:
        """Ids and logits that the device ranked: views, valid until the next decode."""
        c, ctx = self._c, self._ctx
        count = c.llama_get_sampled_candidates_count_ith(ctx, row)
        if count == 0:
            return None, self.logits(row)
        ids = ffi.buffer(c.llama_get_sampled_candidates_ith(ctx, row), 4 * count)
        logits = ffi.buffer(c.llama_get_sampled_logits_ith(ctx, row), 4 * count)
        return np.frombuffer(ids, np.int32), np.frombuffer(logits, np.float32)

    def logits(self, row: int) -> NDArray[np.float32]:
        """Raw logits [n_vocab] after an output row: a view, valid until the next decode."""
        pointer = self._c.llama_get_logits_ith(self._ctx, row)
        # where a device sampler ran, llama.cpp answers with the logits that it left
        ranked = self._c.llama_get_sampled_logits_count_ith(self._ctx, row) if self._samplers else 0
        if pointer == ffi.NULL or 0 < ranked < self.n_vocab:
            raise EngineError(
                f"{self._what}: row {row} of the last batch has no logits"
                + (f": the device kept {ranked} of them" if ranked else "")
            )
        return np.frombuffer(ffi.buffer(pointer, self._row_bytes), np.float32)

    def export_hidden(self, masked: bool = False) -> None:
        """Export `nextn` rows, of all batch rows (the right choice) or of output rows only."""
        self._ext["set_embeddings_nextn"](self._ctx, True, masked)

    def hidden(self, row: int, count: int = 1) -> NDArray[np.float32]:
        """Exported `nextn` rows [count, n_embd] from batch row `row`: a view."""
        return _view(self.hidden_pointer(row), count, self.n_embd)

    def hidden_pointer(self, row: int) -> Any:
        """Where the exported row of batch row `row` lies (cffi `float *`)."""
        start = self._clock()
        pointer = self._hidden_base(self._ctx)
        self.engine_ns += self._clock() - start
        if not pointer:
            raise EngineError(f"{self._what}: no hidden rows are exported")
        return pointer + row * self.n_embd

    def export_layer_inputs(self, layers: tuple[int, ...]) -> None:
        """Export the input rows of these layers."""
        for layer in layers:
            self._ext["set_embeddings_layer_inp"](self._ctx, layer, True)

    def layer_input(self, layer: int, row: int, count: int = 1) -> NDArray[np.float32]:
        """Exported inputs [count, n_embd] of a layer from batch row `row`: a view."""
        pointer = self._ext["get_embeddings_layer_inp"](self._ctx, layer)
        if pointer == ffi.NULL:
            raise EngineError(f"{self._what}: the inputs of layer {layer} are not exported")
        return _view(pointer + row * self.n_embd_inp, count, self.n_embd_inp)

    # --- device samplers ----------------------------------------------------------------------

    def attach_argmax(self) -> bool:
        """Compute the argmax of output rows on the device, so that no row is copied.

        False when the backend cannot, and on the host: there no row has to travel, and padding
        and gathering it for the sampler costs more than the one pass of `argmax`.
        """
        self._device_argmax = self.on_accelerator and all(
            self._attach(s, 0) for s in range(self.n_seq_max)
        )
        if not self._device_argmax:
            self.detach_samplers()
        return self._device_argmax

    def need_logits(self, sequence: int, needed: bool) -> None:
        """Switch a sequence between device argmax and real logits."""
        if needed:
            self._detach(sequence)
        elif self._device_argmax:
            self._attach(sequence, 0)

    def need_top_k(self, sequence: int, k: int) -> None:
        """Rank a sequence's rows on the device, where that can be done."""
        if self._ranks:
            self._attach(sequence, k)
        else:
            self._detach(sequence)

    def detach_samplers(self) -> None:
        """Real logits for every sequence from now on."""
        for sequence in list(self._samplers):
            self._detach(sequence)
        self._device_argmax = False

    def _attach(self, sequence: int, top_k: int) -> bool:
        """Attach a chain that leaves the best token (`top_k` 0) or several, with their logits.

        Temperature 0 is an argmax that keeps one candidate and its logit. (`greedy` would name
        the token and hand out the whole row besides: `build_sampling` in llama-graph.cpp.) In
        contexts of several sequences, though, llama.cpp hands out wrong candidates for some
        shapes of joint batches (two sequences of 5 and 4 rows: the first row gets the second
        row's candidate), while the token that `greedy` names is right: there it is `greedy`.
        """
        attached = self._samplers.get(sequence)
        if attached is not None and attached[1] == top_k:
            return True
        self._detach(sequence)
        c = self._c
        chain = c.llama_sampler_chain_init(c.llama_sampler_chain_default_params())
        if top_k:
            sampler = c.llama_sampler_init_top_k(top_k)
        elif self._ranks:
            sampler = c.llama_sampler_init_temp(0.0)
        else:
            sampler = c.llama_sampler_init_greedy()
        c.llama_sampler_chain_add(chain, sampler)
        if not c.llama_set_sampler(self._ctx, sequence, chain):
            c.llama_sampler_free(chain)
            return False
        self._samplers[sequence] = (chain, top_k)
        return True

    def _detach(self, sequence: int) -> None:
        attached = self._samplers.pop(sequence, None)
        if attached is not None:
            self._c.llama_set_sampler(self._ctx, sequence, ffi.NULL)
            self._c.llama_sampler_free(attached[0])

    # --- memory -------------------------------------------------------------------------------

    def length(self, sequence: int) -> int:
        """Tokens of a sequence in memory."""
        return self._c.llama_memory_seq_pos_max(self._memory, sequence) + 1

    def truncate(self, sequence: int, length: int) -> bool:
        """Remove positions ≥ `length`; False when the memory refuses."""
        start = self._clock()
        removed = self._c.llama_memory_seq_rm(self._memory, sequence, length, -1)
        self.engine_ns += self._clock() - start
        return removed

    def copy(self, source: int, destination: int) -> None:
        """Make `destination` hold what `source` holds."""
        self._c.llama_memory_seq_cp(self._memory, source, destination, -1, -1)

    def clear(self, sequence: int | None = None) -> None:
        """Empty one sequence, or everything."""
        if sequence is None:
            self._c.llama_memory_clear(self._memory, True)
        else:
            self._c.llama_memory_seq_rm(self._memory, sequence, -1, -1)

    def save(self, sequence: int, *, partial: bool = False, device: bool = False) -> Any:
        """Serialised state of a sequence (`llama_state_seq_get_data_ext`)."""
        flags = decl.STATE_PARTIAL * partial | decl.STATE_ON_DEVICE * device
        size = self._c.llama_state_seq_get_size_ext(self._ctx, sequence, flags)
        data = bytearray(size)
        written = self._c.llama_state_seq_get_data_ext(
            self._ctx, ffi.from_buffer("uint8_t[]", data), size, sequence, flags
        )
        if written == 0 or written > size:
            raise EngineError(
                f"{self._what}: saving the state of sequence {sequence} failed "
                f"({written} of {size} bytes){_said()}"
            )
        self.state_bytes += written
        del data[written:]
        return data

    def load(
        self, sequence: int, data: Any, *, partial: bool = False, device: bool = False
    ) -> None:
        """Restore a saved state (`llama_state_seq_set_data_ext`); a refused one leaves nothing."""
        flags = decl.STATE_PARTIAL * partial | decl.STATE_ON_DEVICE * device
        size = len(data)
        read = self._c.llama_state_seq_set_data_ext(
            self._ctx, ffi.from_buffer("uint8_t[]", data), size, sequence, flags
        )
        self.state_bytes += size
        if read != size:
            self.clear(sequence)
            raise EngineError(
                f"{self._what}: a saved state of {size} bytes does not fit this context{_said()}"
            )

    def token_rows(self, data: Any) -> tuple[Rows, ...]:
        """Where a state that `save` returned keeps one row a token."""
        return layout.token_rows(data)

    def close(self) -> None:
        """Free the context."""
        if self._ctx != ffi.NULL:
            self.detach_samplers()
            self._c.llama_free(self._ctx)
            self._ctx = ffi.NULL


def _said() -> str:
    said = recent_messages()
    return f" (llama.cpp: {said})" if said else ""


def _view(pointer: Any, count: int, width: int) -> NDArray[np.float32]:
    """Rows [count, width] of float32 that lie at a cffi pointer."""
    return np.ndarray((count, width), np.float32, ffi.buffer(pointer, 4 * count * width))
