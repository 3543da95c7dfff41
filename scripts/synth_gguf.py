#!/usr/bin/env python3
"""Write a random-weight GGUF with the geometry of a hybrid Gated-DeltaNet model.

Random weights say nothing about language, but they cost exactly what real ones cost: such a file
measures verify cost per row, rollback, state size and prefill at a size for which no trained
weights are at hand. `tiny` loads in milliseconds.

    synth_gguf.py target --size 27b --vocab ggml-vocab-qwen35.gguf out.gguf
    synth_gguf.py dflash --size 27b --vocab ggml-vocab-qwen35.gguf out-dflash2.gguf

Tensor names, shapes and metadata follow llama.cpp's `qwen35` and `dflash` loaders
(src/models/qwen35.cpp and dflash.cpp, commit 0c1e57098).
"""

from __future__ import annotations

import argparse
from typing import Any

import attrs
import numpy as np
from gguf import GGMLQuantizationType as QuantType
from gguf import GGUFReader, GGUFValueType, GGUFWriter
from numpy.typing import NDArray

DEVIATION = 0.6  # times 1/√columns: large enough that the recurrent state matters for the logits
REPEATED_BLOCKS = 1 << 15  # random quantisation blocks of a tensor; larger tensors repeat them


@attrs.frozen
class Geometry:
    """Sizes of a target; `quantised`: Q4_K body and Q6_K head, else unquantised."""

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
    quantised: bool


SIZES = {
    "27b": Geometry(5120, 64, 17408, 24, 4, 256, 16, 48, 128, 64, (11, 11, 10, 0), True),
    "4b": Geometry(2560, 32, 9216, 16, 4, 256, 16, 32, 128, 64, (11, 11, 10, 0), True),
    "0.8b": Geometry(1024, 24, 3584, 8, 2, 256, 16, 16, 128, 64, (11, 11, 10, 0), True),
    "tiny": Geometry(256, 4, 512, 4, 2, 64, 2, 4, 64, 32, (6, 5, 5, 0), False),
}

Bytes = NDArray[np.uint8]


class Writer:
    """A GGUF file that gets the tokenizer of `vocab` and random tensors."""

    def __init__(
        self, path: str, architecture: str, geometry: Geometry, vocab: str, wide: bool
    ) -> None:
        self.file = GGUFWriter(path, architecture)
        self.geometry = geometry
        self.architecture = architecture
        self._dtype = np.float32 if wide else np.float16
        self._random = np.random.default_rng(0)
        self.n_vocab = self._copy_vocab(vocab)

    def _copy_vocab(self, vocab: str) -> int:
        size = 0
        for key, field in GGUFReader(vocab).fields.items():
            if not key.startswith("tokenizer."):
                continue
            value = field.contents()
            if key == "tokenizer.ggml.tokens":
                size = len(value)
            kind = field.types[0]
            inner = field.types[-1] if kind == GGUFValueType.ARRAY else None
            self.file.add_key_value(key, value, kind, sub_type=inner)
        return size

    def matrix(self, name: str, rows: int, columns: int, head: bool = False) -> None:
        """A weight matrix: Q4_K (a head: Q6_K) where the geometry is quantised, else floats."""
        if not self.geometry.quantised or columns % 256:
            self.floats(name, (rows, columns), DEVIATION / np.sqrt(columns))
        elif head:
            self.file.add_tensor(name, self._q6_k(rows, columns), raw_dtype=QuantType.Q6_K)
        else:
            self.file.add_tensor(name, self._q4_k(rows, columns), raw_dtype=QuantType.Q4_K)

    def floats(self, name: str, shape: tuple[int, ...], deviation: Any) -> None:
        """An unquantised tensor of normally distributed weights around 0."""
        values = self._random.standard_normal(shape) * deviation
        self.file.add_tensor(name, values.astype(self._dtype))

    def table(self, name: str, rows: int, columns: int) -> None:
        """An F16 table whose random rows repeat after 4096."""
        values = (self._random.standard_normal((1 << 12, columns)) * 0.1).astype(np.float16)
        self.file.add_tensor(name, np.resize(values, (rows, columns)))

    def _q4_k(self, rows: int, columns: int) -> Bytes:
        """Random Q4_K blocks (144 bytes for 256 weights) with a mean near zero."""
        count = min(rows * columns // 256, REPEATED_BLOCKS)
        blocks = self._random.integers(0, 256, size=(count, 144), dtype=np.uint8)
        scale = DEVIATION / np.sqrt(columns) / 150
        blocks[:, 0:2] = np.frombuffer(np.float16(scale).tobytes(), np.uint8)
        blocks[:, 2:4] = np.frombuffer(np.float16(scale * 7.5).tobytes(), np.uint8)
        return np.resize(blocks, (rows, columns // 256 * 144))

    def _q6_k(self, rows: int, columns: int) -> Bytes:
        """Random Q6_K blocks (210 bytes for 256 weights)."""
        count = min(rows * columns // 256, REPEATED_BLOCKS)
        blocks = self._random.integers(0, 256, size=(count, 210), dtype=np.uint8)
        scale = np.float16(DEVIATION / np.sqrt(columns) / 1400)
        blocks[:, 208:210] = np.frombuffer(scale.tobytes(), np.uint8)
        return np.resize(blocks, (rows, columns // 256 * 210))

    def vector(self, name: str, *shape: int, value: float = 1.0, jitter: float = 0.0) -> None:
        """A float32 tensor around `value`."""
        noise = self._random.standard_normal(shape).astype(np.float32)
        values = np.full(shape, value, np.float32) + jitter * noise
        self.file.add_tensor(name, values.astype(np.float32))

    def attention(self, prefix: str, gated: bool) -> None:
        """The tensors of a full-attention layer."""
        g = self.geometry
        self.matrix(f"{prefix}.attn_q.weight", g.n_head * g.head_dim * (1 + gated), g.n_embd)
        self.matrix(f"{prefix}.attn_k.weight", g.n_head_kv * g.head_dim, g.n_embd)
        self.matrix(f"{prefix}.attn_v.weight", g.n_head_kv * g.head_dim, g.n_embd)
        self.matrix(f"{prefix}.attn_output.weight", g.n_embd, g.n_head * g.head_dim)
        self.vector(f"{prefix}.attn_q_norm.weight", g.head_dim)
        self.vector(f"{prefix}.attn_k_norm.weight", g.head_dim)

    def delta_net(self, prefix: str) -> None:
        """The tensors of a Gated DeltaNet layer."""
        g = self.geometry
        keys, values = g.gdn_k_heads * g.gdn_head_dim, g.gdn_v_heads * g.gdn_head_dim
        self.matrix(f"{prefix}.attn_qkv.weight", 2 * keys + values, g.n_embd)
        self.matrix(f"{prefix}.attn_gate.weight", values, g.n_embd)
        self.vector(f"{prefix}.ssm_conv1d.weight", 2 * keys + values, 4, value=0.0, jitter=0.4)
        self.vector(f"{prefix}.ssm_dt.bias", g.gdn_v_heads, value=-3.0, jitter=1.0)
        self.vector(f"{prefix}.ssm_a", g.gdn_v_heads, value=-1.0, jitter=0.1)
        self.matrix(f"{prefix}.ssm_beta.weight", g.gdn_v_heads, g.n_embd)
        self.matrix(f"{prefix}.ssm_alpha.weight", g.gdn_v_heads, g.n_embd)
        self.vector(f"{prefix}.ssm_norm.weight", g.gdn_head_dim)
        self.matrix(f"{prefix}.ssm_out.weight", g.n_embd, values)

    def feed_forward(self, prefix: str) -> None:
        """The tensors of a gated feed-forward block."""
        g = self.geometry
        self.matrix(f"{prefix}.ffn_gate.weight", g.n_ff, g.n_embd)
        self.matrix(f"{prefix}.ffn_up.weight", g.n_ff, g.n_embd)
        self.matrix(f"{prefix}.ffn_down.weight", g.n_embd, g.n_ff)

    def common(self, n_block: int, n_ctx: int) -> None:
        """Metadata that both architectures have."""
        g, file = self.geometry, self.file
        file.add_name(f"synthetic-{self.architecture}")
        file.add_block_count(n_block)
        file.add_context_length(n_ctx)
        file.add_embedding_length(g.n_embd)
        file.add_feed_forward_length(g.n_ff)
        file.add_head_count(g.n_head)
        file.add_head_count_kv(g.n_head_kv)
        file.add_key_length(g.head_dim)
        file.add_value_length(g.head_dim)
        file.add_layer_norm_rms_eps(1e-6)
        file.add_rope_freq_base(1e7)
        file.add_rope_dimension_count(g.rope_dim)

    def close(self) -> None:
        """Write everything."""
        self.file.write_header_to_file()
        self.file.write_kv_data_to_file()
        self.file.write_tensors_to_file(progress=False)
        self.file.close()


def target(writer: Writer, mtp: bool) -> None:
    """A hybrid target, every fourth layer full attention, with an MTP block at its end."""
    g, file = writer.geometry, writer.file
    writer.common(g.n_layer + mtp, 262144)
    file.add_rope_dimension_sections(list(g.rope_sections))
    file.add_ssm_conv_kernel(4)
    file.add_ssm_state_size(g.gdn_head_dim)
    file.add_ssm_group_count(g.gdn_k_heads)
    file.add_ssm_time_step_rank(g.gdn_v_heads)
    file.add_ssm_inner_size(g.gdn_v_heads * g.gdn_head_dim)
    file.add_uint32("qwen35.full_attention_interval", 4)
    if mtp:
        file.add_nextn_predict_layers(1)
    writer.matrix("token_embd.weight", writer.n_vocab, g.n_embd)
    writer.matrix("output.weight", writer.n_vocab, g.n_embd, head=True)
    writer.vector("output_norm.weight", g.n_embd)
    for i in range(g.n_layer + mtp):
        prefix = f"blk.{i}"
        writer.vector(f"{prefix}.attn_norm.weight", g.n_embd)
        writer.vector(f"{prefix}.post_attention_norm.weight", g.n_embd)
        if i == g.n_layer or (i + 1) % 4 == 0:
            writer.attention(prefix, gated=True)
        else:
            writer.delta_net(prefix)
        writer.feed_forward(prefix)
        if i == g.n_layer:
            writer.matrix(f"{prefix}.nextn.eh_proj.weight", g.n_embd, 2 * g.n_embd)
            writer.vector(f"{prefix}.nextn.enorm.weight", g.n_embd)
            writer.vector(f"{prefix}.nextn.hnorm.weight", g.n_embd)


def dflash(writer: Writer, n_layer: int, block: int, rank: int, top_k: int) -> None:
    """A DFlash2 drafter for a target of the same geometry."""
    g, file = writer.geometry, writer.file
    writer.common(n_layer, 262144)
    step = max(1, g.n_layer // 6)
    layers = [1 + step * i for i in range(5 if g.n_layer >= 24 else 3)]
    file.add_array("dflash.target_layers", layers)
    file.add_uint32("dflash.block_size", block)
    file.add_uint32("dflash.conv_kernel_size", 2)
    file.add_uint32("dflash.conv_group_size", 64)
    file.add_uint32("dflash.selector_rank", rank)
    file.add_uint32("dflash.selector_top_k", top_k)
    file.add_mask_token_id(writer.n_vocab - 1)
    writer.matrix("fc.weight", g.n_embd, len(layers) * g.n_embd)
    writer.vector("enc.output_norm.weight", g.n_embd)
    writer.vector("output_norm.weight", g.n_embd)
    for name in ("selector_predecessor", "selector_successor"):
        writer.table(f"{name}.weight", writer.n_vocab, rank)
    writer.matrix("selector_hidden.weight", rank, g.n_embd)
    groups = g.n_embd // 64
    for i in range(n_layer):
        prefix = f"blk.{i}"
        writer.vector(f"{prefix}.attn_norm.weight", g.n_embd)
        writer.vector(f"{prefix}.ffn_norm.weight", g.n_embd)
        writer.attention(prefix, gated=False)
        writer.feed_forward(prefix)
        for side in ("attn", "ffn"):
            base = f"{prefix}.{side}_conv_base"
            writer.vector(base, 2, 2, g.n_embd, value=0.5, jitter=0.1)
            writer.matrix(f"{prefix}.{side}_conv_proj.weight", 2 * 2 * groups, g.n_embd)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("kind", choices=["target", "dflash"])
    add("out", help="the file to write")
    add("--size", choices=SIZES, default="tiny")
    add("--vocab", required=True, help="GGUF whose tokenizer is copied")
    add("--f32", action="store_true", help="F32 instead of F16 (sizes that are not quantised)")
    add("--no-mtp", action="store_true", help="target: leave the MTP block out")
    add("--layers", type=int, default=5, help="dflash: layers of the drafter")
    add("--block", type=int, default=8, help="dflash: tokens of a block, the anchor included")
    add("--rank", type=int, default=256, help="dflash: rank of the selector")
    add("--top-k", type=int, default=8, help="dflash: candidates a position")
    options = parser.parse_args()
    architecture = "qwen35" if options.kind == "target" else "dflash"
    geometry = SIZES[options.size]
    writer = Writer(options.out, architecture, geometry, options.vocab, options.f32)
    if options.kind == "target":
        target(writer, not options.no_mtp)
    else:
        dflash(writer, options.layers, options.block, options.rank, options.top_k)
    writer.close()


if __name__ == "__main__":
    main()
