"""A llama.cpp context: a model's memory and the calls that read and write it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outrider import native
from outrider.engine import _calls, layout
from outrider.engine import declarations as decl
from outrider.engine.batch import LlamaBatch
from outrider.engine.library import ffi, library, recent_messages
from outrider.engine.ring import written_planes
from outrider.errors import EngineError, LogitsError, OutriderError
from outrider.target import RowBuffer, Rows

_lib: Any = _calls.lib
_new: Any = _calls.ffi.new
_DECODE_FAILURES = {
    1: "there is no room for the batch; shorten the prompt or raise engine.context",
    2: "decoding was aborted",
    -1: "the batch is not valid (positions that do not follow, too many outputs)",
    -2: "the compute buffers could not be allocated; lower `ubatch` or `context`",
    -3: "the computation failed on the device",
}


class LlamaContext:
    """See `outrider.target.Context`; one context belongs to one thread."""

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
        steady: bool = False,
        ahead: bool = False,
        cpu_time: bool = False,
    ) -> None:
        lib = library()
        self._c, self._ext = lib.c, lib.ext
        self._keep = keep
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
        self._exported: frozenset[int] = frozenset()
        self._memory = self._c.llama_get_memory(self._ctx)
        self.n_ctx: int = self._c.llama_n_ctx_seq(self._ctx)
        self.n_batch: int = self._c.llama_n_batch(self._ctx)
        self.n_ubatch: int = self._c.llama_n_ubatch(self._ctx)
        self.n_seq_max: int = self._c.llama_n_seq_max(self._ctx)
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
        self._rows_of: Any = _new("int32_t[]", self.n_seq_max)
        self._samplers: dict[int, tuple[Any, int]] = {}
        self.on_accelerator = on_accelerator
        self.steady = steady
        self.ahead = ahead
        self._device_argmax = False
        self._row_bytes = 4 * self.n_vocab
        self.calls: Any = _new(
            "context_calls *",
            {
                "lib": lib.calls,
                "ctx": _address(self._ctx),
                "memory": _address(self._memory),
                "n_vocab": self.n_vocab,
                "n_embd": self.n_embd,
                "n_embd_inp": self.n_embd_inp,
                "most_outputs": params.n_outputs_max,
                "n_seq_max": self.n_seq_max,
                "rows_of": self._rows_of,
                "ring_depth": self.ring_depth,
                "planes": _address(written_planes(self._c, self._ctx)),
                "cpu_time": cpu_time,
            },
        )
        self._next: Any = _new("int32_t *")
        self._chained: Any = _new("int32_t[]", 16)
        self.state_bytes = 0
        """Bytes of state saved or loaded so far, on the host or the device."""

    @property
    def decodes(self) -> int:
        """Decode calls so far."""
        return self.calls.decodes

    @property
    def engine_ns(self) -> int:
        """Nanoseconds spent inside libllama so far: decoding, reading results, rolling back."""
        return self.calls.inside_ns

    # --- decoding -----------------------------------------------------------------------------

    def decode(self, batch: LlamaBatch | None = None) -> None:
        """Decode the rows of `batch`, the context's own by default. Raises EngineError."""
        if batch is None:
            batch = self.batch
        answer: int = _lib.decode(self.calls, batch.struct())
        if answer:
            raise self._failure(batch, answer)

    def submit(self, batch: LlamaBatch | None = None) -> None:
        """Begin decoding, without waiting for the results. Raises EngineError."""
        if batch is None:
            batch = self.batch
        answer: int = _lib.submit(self.calls, batch.struct())
        if answer:
            raise self._failure(batch, answer)

    def wait(self) -> None:
        """Wait for what was submitted."""
        _lib.finish(self.calls)

    def decode_embeddings(self, batch: LlamaBatch) -> None:
        """Begin decoding rows of another batch made for this context (embedding rows)."""
        self.submit(batch)

    def set_causal(self, causal: bool) -> None:
        """Whether a row sees only rows at its own and earlier positions."""
        self._c.llama_set_causal_attn(self._ctx, causal)

    def embedding_batch(self, width: int) -> LlamaBatch:
        """A batch of embedding rows without tokens, `width` float32 values a row."""
        return LlamaBatch(self.n_batch, width=width, tokens=False, n_positions=self._n_positions)

    def _failure(self, batch: LlamaBatch, answer: int) -> EngineError:
        if answer == _lib.TOO_MANY_OUTPUTS:
            asked: int = _lib.count_outputs(batch.struct())
            return EngineError(
                f"{self._what}: {asked} output rows were asked for, {self.calls.most_outputs} are "
                "reserved (max_sequences × (longest draft + 1))"
            )
        said = recent_messages()
        code: int = self.calls.status
        reason = _DECODE_FAILURES.get(code, f"llama_decode returned {code}")
        return EngineError(
            f"{self._what}: decoding {batch.size} rows failed: {reason}"
            + (f" (llama.cpp: {said})" if said else "")
        )

    # --- reading ------------------------------------------------------------------------------

    def argmax(self, row: int) -> int:
        """The most likely token after an output row, from the device when a sampler is there."""
        token: int = _lib.best(self.calls, row)
        return token if token >= 0 else self._unranked(row, token)

    def match(self, row: int, tokens: Sequence[int], position: int) -> tuple[int, int]:
        """How many of `tokens` are the most likely ones from `row` on, and the one after them."""
        if not isinstance(tokens, (list, tuple)):
            tokens = list(tokens)
        count: int = _lib.match(self.calls, row, tokens, len(tokens), self._next)
        token: int = self._next[0]
        while token < 0:
            try:
                token = self._unranked(row + count, token)
            except LogitsError as error:
                raise LogitsError(f"position {position + count}: {error}") from None
            if count == len(tokens) or tokens[count] != token:
                break
            count += 1
            token = _lib.best(self.calls, row + count)
        return count, token

    def _unranked(self, row: int, answer: int) -> int:
        """The most likely token where the short way found none. Raises LogitsError."""
        if answer == _lib.ROW_MISSING:
            raise self._missing(row)
        if answer != _lib.ROW_UNRANKED:
            return native.checked(answer)
        ids, ranked = self.top_k(row)
        best = native.argmax(ranked)
        return best if ids is None else int(ids[best])

    def chain(self, rows: list[int], lengths: list[int], *, begun: bool = False) -> list[list[int]]:
        """Decode `batch`, and let its output rows be continued by their most likely tokens."""
        batch, n, longest = self.batch, len(rows), max(lengths)
        size = n * longest
        if size > len(self._chained):
            self._chained = _new("int32_t[]", size)
        answer: int = _lib.chain(
            self.calls,
            batch.struct(),
            n,
            rows,
            lengths,
            self._chained,
            longest,
            self.steady,
            begun,
        )
        if answer:
            raise self._broken_chain(batch, answer)
        found: list[int] = _calls.ffi.unpack(self._chained, size)
        if n == 1:
            return [found]
        return [found[i * longest : i * longest + lengths[i]] for i in range(n)]

    def _broken_chain(self, batch: LlamaBatch, answer: int) -> OutriderError:
        if answer in (_lib.CALL_FAILED, _lib.TOO_MANY_OUTPUTS):
            return self._failure(batch, answer)
        if answer == _lib.ROW_MISSING:
            return EngineError(
                f"{self._what}: a row to chain from has no logits or hidden row, or the batch no "
                "embeddings to put it in"
            )
        if answer == _lib.ROW_UNRANKED:
            return EngineError(f"{self._what}: the device did not name one token for every row")
        return native.failure(answer)

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
            raise self._missing(row, ranked)
        return np.frombuffer(ffi.buffer(pointer, self._row_bytes), np.float32)

    def _missing(self, row: int, ranked: int = 0) -> EngineError:
        return EngineError(
            f"{self._what}: row {row} of the last batch has no logits"
            + (f": the device kept {ranked} of them" if ranked else "")
        )

    def export_hidden(self, masked: bool = False) -> None:
        """Export `nextn` rows, of all batch rows (the right choice) or of output rows only."""
        self._ext["set_embeddings_nextn"](self._ctx, True, masked)

    def hidden(self, row: int, count: int = 1) -> NDArray[np.float32]:
        """Exported `nextn` rows [count, n_embd] from batch row `row`: a view."""
        pointer = _calls.ffi.cast("float *", self.hidden_address(row))
        return _view(_calls.ffi.buffer(pointer, 4 * count * self.n_embd), count, self.n_embd)

    def hidden_address(self, row: int) -> int:
        """Where the exported row of batch row `row` lies in memory."""
        address: int = _lib.hidden_row(self.calls, row)
        if not address:
            raise self._nothing_exported()
        return address

    def keep_hidden(self, row: int, count: int, rows: RowBuffer, at: int) -> None:
        """Copy exported `nextn` rows from batch row `row` into a buffer."""
        if _lib.keep_hidden(self.calls, row, count, rows.place(at, count, self.n_embd)):
            raise self._nothing_exported()

    def _nothing_exported(self) -> EngineError:
        return EngineError(f"{self._what}: no hidden rows are exported")

    def export_layer_inputs(self, layers: tuple[int, ...]) -> None:
        """Export the input rows of these layers."""
        self._exported = frozenset(layers)
        for layer in layers:
            self._ext["set_embeddings_layer_inp"](self._ctx, layer, True)

    def layer_input(self, layer: int, row: int, count: int = 1) -> NDArray[np.float32]:
        """Exported inputs [count, n_embd] of a layer from batch row `row`: a view.

        Raises EngineError when they are not: `Needs.layer_inputs` names the layers.
        """
        if layer not in self._exported:
            raise EngineError(
                f"{self._what}: the inputs of layer {layer} are not exported; name the layer in "
                "the drafter's `needs` (Needs.layer_inputs)"
            )
        pointer = self._ext["get_embeddings_layer_inp"](self._ctx, layer)
        if pointer == ffi.NULL:
            raise EngineError(f"{self._what}: the inputs of layer {layer} are not exported")
        rows = ffi.buffer(pointer + row * self.n_embd_inp, 4 * count * self.n_embd_inp)
        return _view(rows, count, self.n_embd_inp)

    def keep_layer_inputs(
        self, layers: Sequence[int], row: int, count: int, rows: RowBuffer, at: int
    ) -> None:
        """Copy exported layer inputs from batch row `row` into a buffer, layers side by side."""
        to = rows.place(at, count, len(layers) * self.n_embd_inp)
        if _lib.gather(self.calls, layers, len(layers), row, count, to):
            for layer in layers:
                self.layer_input(layer, row)  # names the one that is missing

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
        self.calls.ranking = _lib.FROM_CANDIDATES if self._ranks else _lib.FROM_TOKEN
        return True

    def _detach(self, sequence: int) -> None:
        attached = self._samplers.pop(sequence, None)
        if attached is not None:
            self._c.llama_set_sampler(self._ctx, sequence, ffi.NULL)
            self._c.llama_sampler_free(attached[0])
        if not self._samplers:
            self.calls.ranking = _lib.FROM_LOGITS

    # --- memory -------------------------------------------------------------------------------

    def length(self, sequence: int) -> int:
        """Tokens of a sequence in memory."""
        return self._c.llama_memory_seq_pos_max(self._memory, sequence) + 1

    def truncate(self, sequence: int, length: int) -> bool:
        """Remove positions ≥ `length`; False when the memory refuses."""
        return bool(_lib.cut(self.calls, sequence, length))

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
        size: int = self._c.llama_state_seq_get_size_ext(self._ctx, sequence, flags)
        # a bytearray would be filled with zeros first: as dear as the copy, for a state of 150 MB
        data: NDArray[np.uint8] = np.empty(size, dtype=np.uint8)
        written = self._c.llama_state_seq_get_data_ext(
            self._ctx, ffi.from_buffer("uint8_t[]", data), size, sequence, flags
        )
        if written == 0 or written > size:
            raise EngineError(
                f"{self._what}: saving the state of sequence {sequence} failed "
                f"({written} of {size} bytes){_said()}"
            )
        self.state_bytes += written
        return data[:written].data

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


def _address(pointer: Any) -> Any:
    """A pointer of the ABI-mode binding, for the compiled calls."""
    return _calls.ffi.cast("void *", int(ffi.cast("intptr_t", pointer)))


def _said() -> str:
    said = recent_messages()
    return f" (llama.cpp: {said})" if said else ""


def _view(rows: Any, count: int, width: int) -> NDArray[np.float32]:
    """Rows [count, width] of float32 in a cffi buffer."""
    return np.ndarray((count, width), np.float32, rows)
