#!/usr/bin/env python3
"""Write a random-weight GGUF with the geometry of a hybrid Gated-DeltaNet model.

Random weights say nothing about language, but they cost exactly what real ones cost:
use such a file to measure verify cost per row, rollback, state size and prefill at a
size for which no trained weights are at hand. `tiny` loads in milliseconds (unit tests).

    synth_gguf.py target --size 27b  --vocab ggml-vocab-qwen35.gguf out.gguf
    synth_gguf.py dflash --size 27b  --vocab ggml-vocab-qwen35.gguf out-dflash2.gguf

Tensor names, shapes and metadata follow llama.cpp's `qwen35` and `dflash` loaders
(src/models/qwen35.cpp and dflash.cpp, commit 0c1e57098).
"""
from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
from gguf import GGMLQuantizationType as Q, GGUFReader, GGUFValueType, GGUFWriter


@dataclass(frozen=True)
class Geometry:
    n_embd: int
    n_layer: int
    n_ff: int
    n_head: int
    n_head_kv: int
    head_dim: int
    gdn_k_heads: int
    gdn_v_heads: int
    gdn_head_dim: int
    rope_dim: int
    rope_sections: tuple[int, int, int, int]
    quantised: bool  # Q4_K body and Q6_K head, else F16


SIZES = {
    "27b": Geometry(5120, 64, 17408, 24, 4, 256, 16, 48, 128, 64, (11, 11, 10, 0), True),
    "4b": Geometry(2560, 32, 9216, 16, 4, 256, 16, 32, 128, 64, (11, 11, 10, 0), True),
    "0.8b": Geometry(1024, 24, 3584, 8, 2, 256, 16, 16, 128, 64, (11, 11, 10, 0), True),
    "tiny": Geometry(256, 4, 512, 4, 2, 64, 2, 4, 64, 32, (6, 5, 5, 0), False),
}

rng = np.random.default_rng(0)


def q4_k(rows: int, cols: int) -> np.ndarray:
    """Random Q4_K blocks (144 bytes per 256 weights) with a near-zero mean."""
    n = min(rows * cols // 256, 1 << 15)
    b = rng.integers(0, 256, size=(n, 144), dtype=np.uint8)
    sd = 0.6 / np.sqrt(cols)
    b[:, 0:2] = np.frombuffer(np.float16(sd / 150).tobytes(), np.uint8)
    b[:, 2:4] = np.frombuffer(np.float16(sd / 150 * 7.5).tobytes(), np.uint8)
    return np.resize(b, (rows, cols // 256 * 144))


def q6_k(rows: int, cols: int) -> np.ndarray:
    n = min(rows * cols // 256, 1 << 15)
    b = rng.integers(0, 256, size=(n, 210), dtype=np.uint8)
    b[:, 208:210] = np.frombuffer(np.float16(0.6 / np.sqrt(cols) / 1400).tobytes(), np.uint8)
    return np.resize(b, (rows, cols // 256 * 210))


class Writer:
    dtype: type = np.float16  # of matrices that are not quantised

    def __init__(self, path: str, arch: str, g: Geometry, vocab: str):
        self.w, self.g, self.arch = GGUFWriter(path, arch), g, arch
        self.n_vocab = self._copy_vocab(vocab)

    def _copy_vocab(self, vocab: str) -> int:
        r = GGUFReader(vocab)
        n = 0
        for key, field in r.fields.items():
            if not key.startswith("tokenizer."):
                continue
            value = field.contents()
            if key == "tokenizer.ggml.tokens":
                n = len(value)
            kind = field.types[0]
            sub = field.types[-1] if kind == GGUFValueType.ARRAY else None
            self.w.add_key_value(key, value, kind, sub_type=sub)
        return n

    def mat(self, name: str, rows: int, cols: int, head: bool = False) -> None:
        if not self.g.quantised or cols % 256:
            t = (rng.standard_normal((rows, cols)) * 0.6 / np.sqrt(cols)).astype(self.dtype)
            self.w.add_tensor(name, t)
            return
        data, kind = (q6_k(rows, cols), Q.Q6_K) if head else (q4_k(rows, cols), Q.Q4_K)
        self.w.add_tensor(name, data, raw_dtype=kind)

    def vec(self, name: str, *shape: int, value: float = 1.0, jitter: float = 0.0) -> None:
        t = np.full(shape, value, np.float32) + jitter * rng.standard_normal(shape).astype(np.float32)
        self.w.add_tensor(name, t.astype(np.float32))

    def attention(self, p: str, gated: bool) -> None:
        g = self.g
        self.mat(f"{p}.attn_q.weight", g.n_head * g.head_dim * (2 if gated else 1), g.n_embd)
        self.mat(f"{p}.attn_k.weight", g.n_head_kv * g.head_dim, g.n_embd)
        self.mat(f"{p}.attn_v.weight", g.n_head_kv * g.head_dim, g.n_embd)
        self.mat(f"{p}.attn_output.weight", g.n_embd, g.n_head * g.head_dim)
        self.vec(f"{p}.attn_q_norm.weight", g.head_dim)
        self.vec(f"{p}.attn_k_norm.weight", g.head_dim)

    def ffn(self, p: str) -> None:
        g = self.g
        self.mat(f"{p}.ffn_gate.weight", g.n_ff, g.n_embd)
        self.mat(f"{p}.ffn_up.weight", g.n_ff, g.n_embd)
        self.mat(f"{p}.ffn_down.weight", g.n_embd, g.n_ff)

    def common(self, n_block: int, n_ctx: int) -> None:
        g, w, a = self.g, self.w, self.arch
        w.add_name(f"synthetic-{a}")
        w.add_block_count(n_block)
        w.add_context_length(n_ctx)
        w.add_embedding_length(g.n_embd)
        w.add_feed_forward_length(g.n_ff)
        w.add_head_count(g.n_head)
        w.add_head_count_kv(g.n_head_kv)
        w.add_key_length(g.head_dim)
        w.add_value_length(g.head_dim)
        w.add_layer_norm_rms_eps(1e-6)
        w.add_rope_freq_base(1e7)
        w.add_rope_dimension_count(g.rope_dim)

    def close(self) -> None:
        self.w.write_header_to_file()
        self.w.write_kv_data_to_file()
        self.w.write_tensors_to_file(progress=False)
        self.w.close()


def target(path: str, g: Geometry, vocab: str, mtp: bool) -> None:
    o = Writer(path, "qwen35", g, vocab)
    w = o.w
    o.common(g.n_layer + mtp, 262144)
    w.add_rope_dimension_sections(list(g.rope_sections))
    w.add_ssm_conv_kernel(4)
    w.add_ssm_state_size(g.gdn_head_dim)
    w.add_ssm_group_count(g.gdn_k_heads)
    w.add_ssm_time_step_rank(g.gdn_v_heads)
    w.add_ssm_inner_size(g.gdn_v_heads * g.gdn_head_dim)
    w.add_uint32("qwen35.full_attention_interval", 4)
    if mtp:
        w.add_nextn_predict_layers(1)
    o.mat("token_embd.weight", o.n_vocab, g.n_embd)
    o.mat("output.weight", o.n_vocab, g.n_embd, head=True)
    o.vec("output_norm.weight", g.n_embd)
    key, val = g.gdn_k_heads * g.gdn_head_dim, g.gdn_v_heads * g.gdn_head_dim
    for i in range(g.n_layer + mtp):
        p = f"blk.{i}"
        o.vec(f"{p}.attn_norm.weight", g.n_embd)
        o.vec(f"{p}.post_attention_norm.weight", g.n_embd)
        if i == g.n_layer or (i + 1) % 4 == 0:
            o.attention(p, gated=True)
        else:
            o.mat(f"{p}.attn_qkv.weight", 2 * key + val, g.n_embd)
            o.mat(f"{p}.attn_gate.weight", val, g.n_embd)
            o.vec(f"{p}.ssm_conv1d.weight", 2 * key + val, 4, value=0.0, jitter=0.4)
            o.vec(f"{p}.ssm_dt.bias", g.gdn_v_heads, value=-3.0, jitter=1.0)
            o.vec(f"{p}.ssm_a", g.gdn_v_heads, value=-1.0, jitter=0.1)
            o.mat(f"{p}.ssm_beta.weight", g.gdn_v_heads, g.n_embd)
            o.mat(f"{p}.ssm_alpha.weight", g.gdn_v_heads, g.n_embd)
            o.vec(f"{p}.ssm_norm.weight", g.gdn_head_dim)
            o.mat(f"{p}.ssm_out.weight", g.n_embd, val)
        o.ffn(p)
        if i == g.n_layer:
            o.mat(f"{p}.nextn.eh_proj.weight", g.n_embd, 2 * g.n_embd)
            o.vec(f"{p}.nextn.enorm.weight", g.n_embd)
            o.vec(f"{p}.nextn.hnorm.weight", g.n_embd)
    o.close()


def dflash(path: str, g: Geometry, vocab: str, n_layer: int, block: int, rank: int, top_k: int) -> None:
    o = Writer(path, "dflash", g, vocab)
    w = o.w
    o.common(n_layer, 262144)
    step = max(1, g.n_layer // 6)
    layers = [1 + step * i for i in range(5 if g.n_layer >= 24 else 3)]
    w.add_array("dflash.target_layers", layers)
    w.add_uint32("dflash.block_size", block)
    w.add_uint32("dflash.conv_kernel_size", 2)
    w.add_uint32("dflash.conv_group_size", 64)
    w.add_uint32("dflash.selector_rank", rank)
    w.add_uint32("dflash.selector_top_k", top_k)
    w.add_mask_token_id(o.n_vocab - 1)
    o.mat("fc.weight", g.n_embd, len(layers) * g.n_embd)
    o.vec("enc.output_norm.weight", g.n_embd)
    o.vec("output_norm.weight", g.n_embd)
    for name in ("selector_predecessor", "selector_successor"):
        t = (rng.standard_normal((1 << 12, rank)) * 0.1).astype(np.float16)
        w.add_tensor(f"{name}.weight", np.resize(t, (o.n_vocab, rank)))
    o.mat("selector_hidden.weight", rank, g.n_embd)
    groups = g.n_embd // 64
    for i in range(n_layer):
        p = f"blk.{i}"
        o.vec(f"{p}.attn_norm.weight", g.n_embd)
        o.vec(f"{p}.ffn_norm.weight", g.n_embd)
        o.attention(p, gated=False)
        o.ffn(p)
        for side in ("attn", "ffn"):
            o.vec(f"{p}.{side}_conv_base", 2, 2, g.n_embd, value=0.5, jitter=0.1)
            o.mat(f"{p}.{side}_conv_proj.weight", 2 * 2 * groups, g.n_embd)
    o.close()


def main() -> None:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("kind", choices=["target", "dflash"])
    ap.add_argument("out")
    ap.add_argument("--size", choices=SIZES, default="tiny")
    ap.add_argument("--vocab", required=True, help="GGUF whose tokenizer is copied")
    ap.add_argument("--f32", action="store_true", help="F32 instead of F16 (sizes not quantised)")
    ap.add_argument("--no-mtp", action="store_true")
    ap.add_argument("--layers", type=int, default=5, help="dflash: drafter layers")
    ap.add_argument("--block", type=int, default=8)
    ap.add_argument("--rank", type=int, default=256)
    ap.add_argument("--top-k", type=int, default=8)
    a = ap.parse_args()
    if a.f32:
        Writer.dtype = np.float32
    if a.kind == "target":
        target(a.out, SIZES[a.size], a.vocab, not a.no_mtp)
    else:
        dflash(a.out, SIZES[a.size], a.vocab, a.layers, a.block, a.rank, a.top_k)


if __name__ == "__main__":
    main()
