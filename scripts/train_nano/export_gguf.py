"""Write the target (with its MTP block) and the DFlash2 drafter as GGUF files.

python export_gguf.py --checkpoint CKPT --out DIR --type q8_0
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Q
from gguf import GGUFWriter
from nano.checkpoint import load_models
from nano.config import NanoConfig
from nano.drafter import Drafter, DrafterBlock
from nano.layers import FeedForward, GatedAttention, GatedDeltaNet
from nano.target import Target
from nano.template import TEMPLATE
from nano.tokenizer import CONTROL_TOKENS, MASK_TOKEN, USER_TOKENS
from torch import Tensor

HERE = Path(__file__).parent
NAME = "outrider-nano"
FILE_TYPES = {"f32": 0, "f16": 1, "q8_0": 7}
TYPES = {"f32": Q.F32, "f16": Q.F16, "q8_0": Q.Q8_0}
TOKEN_NORMAL, TOKEN_CONTROL, TOKEN_USER = 1, 3, 4


class Walk:
    """All tensors of the two models under their names in GGUF, for writing and for reading."""

    def tensor(self, name: str, tensor: Tensor, quantize: bool = False) -> None:
        raise NotImplementedError

    def decay(self, name: str, a_log: Tensor) -> None:
        """`a_log` stands in the file as -exp(a_log)."""
        raise NotImplementedError

    def target(self, config: NanoConfig, model: Target) -> None:
        c = config.target
        self.tensor("token_embd.weight", model.embed.weight, quantize=True)
        self.tensor("output_norm.weight", model.norm.weight)
        for i, block in enumerate(model.blocks):
            blk = f"blk.{i}"
            self.tensor(f"{blk}.attn_norm.weight", block.attn_norm.weight)
            self.tensor(f"{blk}.post_attention_norm.weight", block.post_norm.weight)
            if isinstance(block.mixer, GatedDeltaNet):
                self.delta_net(blk, block.mixer)
            else:
                self.attention(blk, block.mixer)
            self.feed_forward(blk, block.ffn)
        blk, m = f"blk.{c.n_layer}", model.mtp
        self.tensor(f"{blk}.attn_norm.weight", m.attn_norm.weight)
        self.tensor(f"{blk}.post_attention_norm.weight", m.post_norm.weight)
        self.attention(blk, m.mixer)
        self.feed_forward(blk, m.ffn)
        self.tensor(f"{blk}.nextn.eh_proj.weight", m.eh_proj.weight, quantize=True)
        self.tensor(f"{blk}.nextn.enorm.weight", m.enorm.weight)
        self.tensor(f"{blk}.nextn.hnorm.weight", m.hnorm.weight)
        self.tensor(f"{blk}.nextn.shared_head_norm.weight", m.head_norm.weight)

    def drafter(self, model: Drafter) -> None:
        self.tensor("fc.weight", model.fc.weight, quantize=True)
        self.tensor("enc.output_norm.weight", model.enc_norm.weight)
        self.tensor("output_norm.weight", model.norm.weight)
        self.tensor("selector_predecessor.weight", model.sel_prev.weight, quantize=True)
        self.tensor("selector_successor.weight", model.sel_next.weight, quantize=True)
        self.tensor("selector_hidden.weight", model.sel_hidden.weight, quantize=True)
        for i, b in enumerate(model.blocks):
            blk = f"blk.{i}"
            self.tensor(f"{blk}.attn_norm.weight", b.attn_norm.weight)
            self.attention(blk, b)
            self.tensor(f"{blk}.attn_conv_base", b.attn_conv.base)
            self.tensor(f"{blk}.attn_conv_proj.weight", b.attn_conv.proj.weight, quantize=True)
            self.tensor(f"{blk}.ffn_norm.weight", b.ffn_norm.weight)
            self.feed_forward(blk, b.ffn)
            self.tensor(f"{blk}.ffn_conv_base", b.ffn_conv.base)
            self.tensor(f"{blk}.ffn_conv_proj.weight", b.ffn_conv.proj.weight, quantize=True)

    def attention(self, blk: str, m: GatedAttention | DrafterBlock) -> None:
        for ours, theirs in (
            ("q", "attn_q"),
            ("k", "attn_k"),
            ("v", "attn_v"),
            ("o", "attn_output"),
        ):
            self.tensor(f"{blk}.{theirs}.weight", getattr(m, ours).weight, quantize=True)
        self.tensor(f"{blk}.attn_q_norm.weight", m.q_norm.weight)
        self.tensor(f"{blk}.attn_k_norm.weight", m.k_norm.weight)

    def delta_net(self, blk: str, m: GatedDeltaNet) -> None:
        self.tensor(f"{blk}.attn_qkv.weight", m.qkv.weight, quantize=True)
        self.tensor(f"{blk}.attn_gate.weight", m.z.weight, quantize=True)
        self.tensor(f"{blk}.ssm_out.weight", m.out.weight, quantize=True)
        self.tensor(f"{blk}.ssm_beta.weight", m.beta.weight)
        self.tensor(f"{blk}.ssm_alpha.weight", m.alpha.weight)
        self.tensor(f"{blk}.ssm_conv1d.weight", m.conv)
        self.tensor(f"{blk}.ssm_dt.bias", m.dt_bias)
        self.decay(f"{blk}.ssm_a", m.a_log)
        self.tensor(f"{blk}.ssm_norm.weight", m.norm.weight)

    def feed_forward(self, blk: str, m: FeedForward) -> None:
        for part in ("gate", "up", "down"):
            self.tensor(f"{blk}.ffn_{part}.weight", getattr(m, part).weight, quantize=True)


class Exporter(Walk):
    def __init__(self, path: Path, arch: str, kind: str) -> None:
        self.writer = GGUFWriter(path, arch)
        self.arch, self.kind = arch, kind

    def key(self, name: str, value: int | float | list[int]) -> None:
        full = f"{self.arch}.{name}"
        if isinstance(value, list):
            self.writer.add_array(full, value)
        elif isinstance(value, float):
            self.writer.add_float32(full, value)
        else:
            self.writer.add_uint32(full, value)

    def tensor(self, name: str, tensor: Tensor, quantize: bool = False) -> None:
        data = tensor.detach().float().cpu().numpy()
        qtype = TYPES[self.kind] if quantize else Q.F32
        if qtype == Q.Q8_0:
            self.writer.add_tensor(name, gguf.quants.quantize(data, qtype), raw_dtype=qtype)
        else:
            self.writer.add_tensor(name, data.astype(np.float16) if qtype == Q.F16 else data)

    def decay(self, name: str, a_log: Tensor) -> None:
        self.tensor(name, -a_log.float().exp())

    def general(self, name: str, description: str, file_type: int) -> None:
        w = self.writer
        w.add_type("model")
        w.add_name(name)
        w.add_description(description)
        w.add_license("apache-2.0")
        w.add_file_type(file_type)
        w.add_quantization_version(2)

    def vocabulary(self, tokenizer: Path, template: str | None) -> None:
        data = json.loads(tokenizer.read_text())
        vocab: dict[str, int] = data["model"]["vocab"]
        tokens = [""] * (len(vocab) + len(data["added_tokens"]))
        kinds = [TOKEN_NORMAL] * len(tokens)
        for text, i in vocab.items():
            tokens[i] = text
        for added in data["added_tokens"]:
            tokens[added["id"]] = added["content"]
            kinds[added["id"]] = TOKEN_CONTROL if added["content"] in CONTROL_TOKENS else TOKEN_USER
        ids = {t: tokens.index(t) for t in CONTROL_TOKENS + USER_TOKENS}
        merges = [m if isinstance(m, str) else " ".join(m) for m in data["model"]["merges"]]
        w = self.writer
        w.add_tokenizer_model("gpt2")
        w.add_tokenizer_pre("qwen35")
        w.add_token_list(tokens)
        w.add_token_types(kinds)
        w.add_token_merges(merges)
        w.add_eos_token_id(ids["<|im_end|>"])
        w.add_pad_token_id(ids["<|endoftext|>"])
        w.add_uint32("tokenizer.ggml.eot_token_id", ids["<|im_end|>"])
        w.add_uint32("tokenizer.ggml.fim_pre_token_id", ids["<|fim_prefix|>"])
        w.add_uint32("tokenizer.ggml.fim_suf_token_id", ids["<|fim_suffix|>"])
        w.add_uint32("tokenizer.ggml.fim_mid_token_id", ids["<|fim_middle|>"])
        w.add_mask_token_id(ids[MASK_TOKEN])
        w.add_add_bos_token(False)
        if template is not None:
            w.add_chat_template(template)

    def finish(self) -> None:
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()


def export_target(
    path: Path, config: NanoConfig, model: Target, tokenizer: Path, template: str, kind: str
) -> None:
    c = config.target
    e = Exporter(path, "qwen35", kind)
    e.general(
        NAME, "Tiny hybrid Gated-DeltaNet language model with a NextN (MTP) block", FILE_TYPES[kind]
    )
    e.key("block_count", c.n_layer + 1)
    e.key("nextn_predict_layers", 1)
    e.key("context_length", c.context_length)
    e.key("embedding_length", c.n_embd)
    e.key("feed_forward_length", c.n_ff)
    e.key("attention.head_count", c.n_head)
    e.key("attention.head_count_kv", c.n_head_kv)
    e.key("attention.key_length", c.head_dim)
    e.key("attention.value_length", c.head_dim)
    e.key("attention.layer_norm_rms_epsilon", c.norm_eps)
    e.key("rope.freq_base", c.rope_theta)
    e.key("rope.dimension_count", c.n_rot)
    e.key("rope.dimension_sections", list(c.rope_sections))
    e.key("full_attention_interval", c.full_attention_interval)
    e.key("ssm.conv_kernel", c.conv_kernel)
    e.key("ssm.state_size", c.gdn_state)
    e.key("ssm.group_count", c.gdn_heads)
    e.key("ssm.time_step_rank", c.gdn_heads)
    e.key("ssm.inner_size", c.gdn_dim)
    e.key("vocab_size", c.vocab_size)
    e.vocabulary(tokenizer, template)
    e.target(config, model)
    e.finish()


def export_drafter(
    path: Path, config: NanoConfig, model: Drafter, tokenizer: Path, kind: str
) -> None:
    c, t = config.drafter, config.target
    e = Exporter(path, "dflash", kind)
    e.general(f"{NAME}-dflash2", "DFlash2 block drafter for outrider-nano", FILE_TYPES[kind])
    e.key("block_count", c.n_layer)
    e.key("context_length", t.context_length)
    e.key("embedding_length", t.n_embd)
    e.key("feed_forward_length", c.n_ff)
    e.key("attention.head_count", c.n_head)
    e.key("attention.head_count_kv", c.n_head_kv)
    e.key("attention.key_length", c.head_dim)
    e.key("attention.value_length", c.head_dim)
    e.key("attention.layer_norm_rms_epsilon", t.norm_eps)
    e.writer.add_bool("dflash.attention.causal", False)
    e.key("rope.freq_base", c.rope_theta)
    e.key("rope.dimension_count", c.head_dim)
    e.key("rope.dimension_sections", [c.head_dim // 2, 0, 0, 0])
    e.key("block_size", c.block_size)
    e.key("conv_kernel_size", c.conv_kernel)
    e.key("conv_group_size", c.conv_group)
    e.key("selector_rank", c.selector_rank)
    e.key("selector_top_k", c.selector_top_k)
    e.key("target_layers", list(c.target_layers))
    e.key("vocab_size", t.vocab_size)
    e.vocabulary(tokenizer, None)
    e.drafter(model)
    e.finish()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, default=HERE / "tokenizer.json")
    parser.add_argument("--template", type=Path, default=TEMPLATE)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--type", choices=list(TYPES), default="q8_0")
    args = parser.parse_args()
    config, target, drafter = load_models(args.checkpoint)
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / f"{NAME}-{args.type}.gguf"
    export_target(path, config, target, args.tokenizer, args.template.read_text(), args.type)
    print(path, path.stat().st_size)
    if drafter is not None:
        path = args.out / f"{NAME}-dflash2-{args.type}.gguf"
        export_drafter(path, config, drafter, args.tokenizer, args.type)
        print(path, path.stat().st_size)


if __name__ == "__main__":
    main()
