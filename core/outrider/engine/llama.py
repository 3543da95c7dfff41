"""The `llama-cpp` engine: one model, its target context, and contexts for drafters."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns, process_time_ns
from typing import Any, Literal

import attrs
from attrs import validators

from outrider.components import Assembly, Component
from outrider.engine import declarations as decl
from outrider.engine.context import LlamaContext
from outrider.engine.fingerprint import file_fingerprint
from outrider.engine.gguf import read_model_info
from outrider.engine.library import ffi, library, recent_messages
from outrider.engine.memory import cache_bytes, recurrent_bytes, score_bytes
from outrider.engine.vocabulary import LlamaVocabulary
from outrider.errors import ConfigError, EngineError, ModelError
from outrider.target import EnginePlan, ModelInfo

CacheType = Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"]

_UNTILED_VALUES = ("f32", "f16", "bf16")
"""Types of values that attention without tiles can read: rows of a block type cannot be turned."""
_MOST_SCORES = 256 << 20


def _between(low: int) -> Callable[[Any, Any, int], None]:
    """A validator: a number from `low` to the largest that llama.cpp's parameters hold."""
    return validators.and_(validators.ge(low), validators.le(2**31 - 1))


@attrs.frozen
class LlamaConfig:
    """Options of the `llama-cpp` engine."""

    context: int = attrs.field(default=4096, validator=_between(0))
    """Positions a sequence may use; 0 takes what the model was trained with."""
    threads: int | None = attrs.field(default=None, validator=validators.optional(_between(1)))
    """CPU threads; by default the cores this process may use."""
    batch: int = attrs.field(default=2048, validator=_between(1))
    """Most rows of one decode call."""
    ubatch: int = attrs.field(default=512, validator=_between(1))
    """Most rows computed at once."""
    gpu_layers: int = -1
    """Layers kept on the accelerator; -1: all, 0: none."""
    devices: tuple[str, ...] = ()
    """Names of the devices to use; empty: all."""
    split_mode: Literal["none", "layer", "row", "tensor"] = "layer"
    """How a model is spread over several devices: whole layers, or every layer in parts."""
    tensor_split: tuple[float, ...] = ()
    """Share of the model on each device."""
    main_gpu: int = 0
    """The device for everything where nothing is spread."""
    flash_attention: Literal["auto", "on", "off"] = "auto"
    """auto: off where the model is computed on the CPU and the scores of a long prompt fit 256 MiB
    (llama.cpp's kernel there takes rows one by one below 64: at 1,100 tokens of context a verify
    batch then costs twice as much), else what llama.cpp chooses."""
    cache_type_k: CacheType = "f16"
    """Type of the keys of the attention cache; smaller ones save memory and lose precision."""
    cache_type_v: CacheType = "f16"
    """The same for its values."""
    offload_kqv: bool = True
    """Keep the attention cache and its computations on the accelerator."""
    steady: Literal["auto", "on", "off"] = "auto"
    """Whether a drafter's decodes get rows they do not need so that all have one shape: a device
    replays a shape it knows, while another one has its graph built anew. auto: where the model is
    computed on an accelerator."""
    ahead: Literal["auto", "on", "off"] = "auto"
    """Whether a drafter's next decode is begun as soon as a step's tokens are known, while the
    host is still busy with them. auto: where the model is computed on an accelerator."""
    warmup: bool = True
    """Decode once at start, so that the first request does not pay for set-up."""
    clock: Literal["wall", "cpu"] = "wall"
    """What times are taken with. cpu: processor time of this process, for measuring with one
    thread on a machine that others use."""


class LlamaEngine(Component):
    """llama.cpp, bound with cffi."""

    kind = "engine"
    Config = LlamaConfig

    def __init__(self, config: LlamaConfig, assembly: Assembly) -> None:
        super().__init__(config, assembly)
        self.config: LlamaConfig = config
        self._models: list[Any] = []
        self._contexts: list[LlamaContext] = []
        self._clock = process_time_ns if config.clock == "cpu" else perf_counter_ns

    def inspect(self, path: Path) -> ModelInfo:
        """What the file's header says. Raises ModelError."""
        return read_model_info(path)

    def load(self, plan: EnginePlan, progress: Callable[[float], None] | None = None) -> None:
        """Load the weights and create the target context."""
        config = self.config
        self.info = plan.model
        self._plan = plan
        self.__dict__.pop("fingerprint", None)  # the file may be another one since
        rows = plan.max_sequences * (plan.max_draft + 1)
        least = {
            "ubatch": config.ubatch, "batch": config.batch, "context": self._context_size(),
        }  # fmt: skip
        key = min(least, key=least.__getitem__)
        if rows > least[key] or plan.ring_depth + 1 >= least[key]:
            raise ConfigError(
                f"engine.{key} is {least[key]}, but {plan.max_sequences} sequences with up to "
                f"{plan.max_draft} drafts need verify batches of {rows} rows in one ubatch; "
                f"set engine.{key} to at least {max(rows, plan.ring_depth + 2)}"
            )
        self._model = self._load_model(plan.model.path, plan.needs.nextn, progress)
        self.vocabulary = LlamaVocabulary(self._model)
        params = self._params(
            n_batch=config.batch,
            n_rs_seq=plan.ring_depth,
            outputs=plan.max_draft + 1,
        )
        self.target = self._open(self._model, params, what=f"the target context of {self._size()}")
        if plan.greedy:
            self.target.attach_argmax()
        if plan.needs.nextn:
            self.target.export_hidden()
        self.target.export_layer_inputs(plan.needs.layer_inputs)
        if config.warmup:
            self._warm(self.target, plan.max_draft + 1)

    @functools.cached_property
    def fingerprint(self) -> str:
        """Digest of model file, library build and the parameters that shape saved states."""
        c = self.config
        parts = (
            file_fingerprint(self.info.path),
            library().build,
            self.target.n_ctx,
            self.target.n_seq_max,
            self.target.ring_depth,
            c.cache_type_k,
            c.cache_type_v,
            self._attention(self.config.cache_type_v),
            c.gpu_layers,
            c.devices,
            c.split_mode,
            c.tensor_split,
        )
        return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()

    @property
    def cost_key(self) -> str:
        """Digest of model file, build, devices and all options of the engine."""
        lib = library()
        parts = (
            file_fingerprint(self.info.path),
            lib.build,
            lib.devices(),
            self.config,
            self._attention(self.config.cache_type_v),
            self.config.threads or available_cores(),
            self._plan.max_sequences,
        )
        return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()

    def open_mtp(self, *, n_batch: int) -> LlamaContext:
        """A context on the target's own MTP head; its batches carry a token and a hidden row."""
        if not self.info.n_layer_nextn:
            raise ModelError(f"{self.info.path.name} has no multi-token-prediction head")
        params = self._params(n_batch=n_batch, n_rs_seq=0, outputs=1)
        params.ctx_type = decl.CONTEXT_MTP
        params.ctx_other = self.target._ctx  # pyright: ignore[reportPrivateUsage]
        context = self._open(self._model, params, what="the MTP context", width=self.target.n_embd)
        context.export_hidden()
        return context

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
    ) -> LlamaContext:
        """Load a drafter model whose context refers to the target's (`ctx_other`).

        See `outrider.target.Engine.open_drafter`.
        """
        model = self._load_model(path, False, None)
        params = self._params(n_batch=n_batch, n_rs_seq=0, outputs=outputs)
        params.n_ctx += room * self._plan.max_sequences
        if cache_type:
            params.type_k = params.type_v = decl.KV_TYPES[cache_type]
            params.flash_attn_type = decl.FLASH_ATTENTION[self._attention(cache_type)]
        params.ctx_other = self.target._ctx  # pyright: ignore[reportPrivateUsage]
        context = self._open(model, params, what=f"a context for the drafter {path.name}")
        context.set_causal(causal)
        if hidden:
            context.export_hidden()
        return context

    def memory(self) -> dict[str, int]:
        """Bytes reserved: weights, attention cache, recurrent state, snapshot ring."""
        config, sequences = self.config, self._plan.max_sequences
        position = cache_bytes(self.info, config.cache_type_k, config.cache_type_v)
        state = recurrent_bytes(self.info) * sequences
        return {
            "weights": sum(int(library().c.llama_model_size(m)) for m in self._models),
            "attention_cache": int(position * self.target.n_ctx * sequences),
            "recurrent_state": state,
            "snapshot_ring": state * self.target.ring_depth,
        }

    @property
    def clock_ns(self) -> Callable[[], int]:
        """The configured clock; called many times a step, so nothing stands around it."""
        return self._clock

    def busy_ns(self) -> int:
        """Nanoseconds spent inside the engine's library so far, by all contexts."""
        total = 0
        for context in self._contexts:
            total += context.calls.inside_ns
        return total

    def close(self) -> None:
        """Free contexts, then models."""
        for context in reversed(self._contexts):
            context.close()
        self._contexts.clear()
        for model in reversed(self._models):
            library().c.llama_model_free(model)
        self._models.clear()

    # --- helpers ------------------------------------------------------------------------------

    def _size(self) -> str:
        n = self._plan.max_sequences
        return f"{n} × {self._context_size()} positions"

    def _context_size(self) -> int:
        return self.config.context or self.info.n_ctx_train

    @property
    def _on_accelerator(self) -> bool:
        return self.config.gpu_layers != 0 and library().has_accelerator()

    def _attention(self, values: str) -> str:
        """How attention over a cache with such values is computed; see `flash_attention`."""
        config = self.config
        if (
            config.flash_attention != "auto"
            or self._on_accelerator
            or values not in _UNTILED_VALUES
            or score_bytes(self.info, config.ubatch, self._context_size()) > _MOST_SCORES
        ):
            return config.flash_attention
        return "off"

    def _open(self, model: Any, params: Any, *, what: str, width: int = 0) -> LlamaContext:
        config = self.config
        context = LlamaContext(
            model,
            params,
            what=what,
            width=width,
            on_accelerator=self._on_accelerator,
            steady=self._on_accelerator if config.steady == "auto" else config.steady == "on",
            ahead=self._on_accelerator if config.ahead == "auto" else config.ahead == "on",
            cpu_time=config.clock == "cpu",
        )
        self._contexts.append(context)
        return context

    def _load_model(self, path: Path, mtp: bool, progress: Callable[[float], None] | None) -> Any:
        lib = library()
        config = self.config
        params = lib.c.llama_model_default_params()
        params.n_gpu_layers = config.gpu_layers
        params.split_mode = decl.SPLIT_MODES[config.split_mode]
        params.main_gpu = config.main_gpu
        params.load_mtp = mtp
        keep: list[Any] = []
        if config.devices:
            handles = [self._device(name) for name in config.devices]
            array = ffi.new("ggml_backend_dev_t[]", [*handles, ffi.NULL])
            keep.append(array)
            params.devices = array
        if config.tensor_split:
            shares = ffi.new("float[]", lib.c.llama_max_devices())
            for i, share in enumerate(config.tensor_split):
                shares[i] = share
            keep.append(shares)
            params.tensor_split = shares
        if progress is not None:
            report = progress

            @ffi.callback("bool(float, void *)")
            def on_progress(done: float, _data: Any) -> bool:
                report(done)
                return True

            keep.append(on_progress)
            params.progress_callback = on_progress
        recent_messages()
        model = lib.c.llama_model_load_from_file(str(path).encode(), params)
        if model == ffi.NULL:
            said = recent_messages()
            raise ModelError(f"llama.cpp could not load {path}" + (f": {said}" if said else ""))
        self._models.append(model)
        return model

    def _device(self, name: str) -> Any:
        lib = library()
        device = lib.c.ggml_backend_dev_by_name(name.encode())
        if device == ffi.NULL:
            known = ", ".join(f"{n} ({d})" for n, d in lib.devices())
            raise ConfigError(f"engine.devices: there is no device {name!r}; there are: {known}")
        return device

    def _params(self, *, n_batch: int, n_rs_seq: int, outputs: int) -> Any:
        config, plan = self.config, self._plan
        params = library().c.llama_context_default_params()
        threads = config.threads or available_cores()
        params.n_ctx = self._context_size() * plan.max_sequences
        params.n_batch = n_batch
        params.n_ubatch = min(config.ubatch, n_batch)
        params.n_seq_max = plan.max_sequences
        params.n_rs_seq = n_rs_seq
        params.n_outputs_max = outputs * plan.max_sequences
        params.n_outputs_max_per_seq = outputs
        params.n_threads = params.n_threads_batch = threads
        params.flash_attn_type = decl.FLASH_ATTENTION[self._attention(config.cache_type_v)]
        params.type_k = decl.KV_TYPES[config.cache_type_k]
        params.type_v = decl.KV_TYPES[config.cache_type_v]
        params.offload_kqv = config.offload_kqv
        return params

    def _warm(self, context: LlamaContext, rows: int) -> None:
        try:
            for count in sorted({1, rows}):
                context.batch.clear()
                context.batch.extend([0] * count, 0, 0, True)
                context.decode()
                context.clear()
            context.batch.clear()
        except EngineError as error:
            raise EngineError(f"the warm-up decode failed: {error}") from None


def available_cores() -> int:
    """CPU cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
