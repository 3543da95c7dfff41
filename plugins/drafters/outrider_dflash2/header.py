"""What the header of a block drafter says, and whether it fits a target.

The keys are those that `llama_model_dflash::load_arch_hparams` (llama.cpp, `src/models/dflash.cpp`)
reads.
"""

from __future__ import annotations

import attrs
from outrider import ModelError, ModelInfo

_SELECTOR = "selector_hidden.weight"
_UNSUPPORTED = {
    "markov_w1.weight": "a Markov head (DSpark), which this drafter does not walk",
    "hc_head_fn.weight": "hyper-connections (DeepSeek V4), which this drafter does not know",
}
_MASK = "tokenizer.ggml.mask_token_id"


@attrs.frozen
class BlockModel:
    """A drafter of architecture `dflash`, as its header describes it."""

    info: ModelInfo
    block_size: int
    """Rows of a block: the anchor and `block_size - 1` masks."""
    target_layers: tuple[int, ...]
    """Layers of the target whose inputs are injected."""
    mask: int
    """The token that stands for a position to be drafted."""
    top_k: int
    """Candidates a position in the selector's lattice; 0 without a selector (plain DFlash)."""
    causal: bool

    @classmethod
    def read(cls, info: ModelInfo) -> BlockModel:
        """Interpret a header. Raises ModelError for one that is no usable block drafter."""
        name, meta = info.path.name, info.metadata
        if info.architecture != "dflash":
            raise ModelError(
                f"{name} is a {info.architecture} model; the dflash2 drafter needs a file of "
                "architecture dflash"
            )
        for tensor, what in _UNSUPPORTED.items():
            if tensor in info.tensors:
                raise ModelError(f"{name} has {what}")
        layers = meta.get("dflash.target_layers")
        if not layers:
            raise ModelError(f"{name} does not say which target layers it reads (target_layers)")
        if _MASK not in meta:
            raise ModelError(f"{name} names no mask token ({_MASK})")
        selector = _SELECTOR in info.tensors
        return cls(
            info=info,
            block_size=int(meta.get("dflash.block_size", 16)),
            target_layers=tuple(int(i) for i in layers),
            mask=int(meta[_MASK]),
            top_k=int(meta.get("dflash.selector_top_k", 0)) if selector else 0,
            causal=bool(meta.get("dflash.attention.causal", False)),
        )

    @property
    def max_draft(self) -> int:
        """Most tokens of one block."""
        return self.block_size - 1

    def mismatch(self, target: ModelInfo) -> str | None:
        """Which number shows that this drafter was trained for another target; None if none."""
        drafter = self.info
        for what, own, other in (
            ("hidden size", drafter.n_embd, target.n_embd),
            ("vocabulary", drafter.n_vocab, target.n_vocab),
        ):
            if own != other:
                return self._another(target, f"{what} {own}", str(other))
        if max(self.target_layers) >= target.n_layer:
            return self._another(
                target,
                f"the input of layer {max(self.target_layers)}",
                f"layers 0 to {target.n_layer - 1}",
            )
        return None

    def _another(self, target: ModelInfo, own: str, other: str) -> str:
        return (
            f"{self.info.path.name} was trained for another target: it expects {own}, and "
            f"{target.path.name} has {other}"
        )
