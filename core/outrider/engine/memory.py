"""How many bytes a context reserves, from the model's header."""

from __future__ import annotations

from outrider.engine.gguf import as_number
from outrider.target import ModelInfo

_BITS = {
    "f32": 32.0, "f16": 16.0, "bf16": 16.0, "q8_0": 8.5, "q5_1": 6.0, "q5_0": 5.5,
    "q4_1": 5.0, "q4_0": 4.5,
}  # fmt: skip
"""Bits a value in each cache type, block scales included."""


def attention_layers(model: ModelInfo) -> int:
    """Layers with an attention cache; the other ones have a recurrent state."""
    interval = model.metadata.get(f"{model.architecture}.full_attention_interval")
    if not model.recurrent:
        return model.n_layer
    return model.n_layer // int(interval) if interval else 0


def recurrent_bytes(model: ModelInfo) -> int:
    """Bytes of one recurrent state of one sequence (`llama_hparams::n_embd_r`, `n_embd_s`)."""
    if not model.recurrent:
        return 0

    def number(key: str) -> int:
        return int(model.metadata.get(f"{model.architecture}.ssm.{key}", 0))

    inner, state = number("inner_size"), number("state_size")
    conv = max(0, number("conv_kernel") - 1) * (inner + 2 * number("group_count") * state)
    return 4 * (conv + inner * state) * (model.n_layer - attention_layers(model))


def cache_bytes(model: ModelInfo, type_k: str, type_v: str) -> float:
    """Bytes of attention cache for one position."""

    def number(key: str, default: int) -> int:
        return as_number(model.metadata.get(f"{model.architecture}.{key}", default))

    heads = number("attention.head_count", 1)
    kv_heads = number("attention.head_count_kv", heads)
    width = model.n_embd // max(1, heads)
    k = number("attention.key_length", width) * _BITS[type_k]
    v = number("attention.value_length", width) * _BITS[type_v]
    return attention_layers(model) * kv_heads * (k + v) / 8


def score_bytes(model: ModelInfo, ubatch: int, context: int) -> int:
    """Bytes of one layer's attention scores, which attention without tiles holds whole."""
    heads = as_number(model.metadata.get(f"{model.architecture}.attention.head_count", 1))
    return 4 * int(heads) * ubatch * context
