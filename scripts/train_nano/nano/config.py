"""Model hyper-parameters shared by training, export and verification."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class TargetConfig:
    """The `qwen35` trunk plus its single NextN (MTP) block."""

    vocab_size: int = 8192
    n_embd: int = 384
    n_layer: int = 8
    full_attention_interval: int = 4
    n_ff: int = 1024
    n_head: int = 6
    n_head_kv: int = 2
    head_dim: int = 64
    n_rot: int = 32
    rope_sections: tuple[int, int, int, int] = (6, 5, 5, 0)
    rope_theta: float = 10000.0
    gdn_heads: int = 8
    gdn_state: int = 64
    conv_kernel: int = 4
    norm_eps: float = 1e-6
    context_length: int = 4096

    @property
    def gdn_dim(self) -> int:
        return self.gdn_heads * self.gdn_state

    def is_recurrent(self, layer: int) -> bool:
        return (layer + 1) % self.full_attention_interval != 0


@dataclass(frozen=True)
class DrafterConfig:
    """The DFlash2 block drafter (llama.cpp arch `dflash` with selector tensors)."""

    n_layer: int = 3
    n_ff: int = 1024
    n_head: int = 6
    n_head_kv: int = 2
    head_dim: int = 64
    rope_theta: float = 10000.0
    block_size: int = 8
    conv_kernel: int = 2
    conv_group: int = 16
    selector_rank: int = 64
    selector_top_k: int = 8
    target_layers: tuple[int, ...] = (2, 5, 7)


@dataclass(frozen=True)
class NanoConfig:
    target: TargetConfig = field(default_factory=TargetConfig)
    drafter: DrafterConfig = field(default_factory=DrafterConfig)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(data: dict[str, Any]) -> NanoConfig:
        target = dict(data["target"])
        target["rope_sections"] = tuple(target["rope_sections"])
        drafter = dict(data["drafter"])
        drafter["target_layers"] = tuple(drafter["target_layers"])
        return NanoConfig(TargetConfig(**target), DrafterConfig(**drafter))
