"""Save and load checkpoints as bf16 or fp32 safetensors in bounded pieces."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from .config import NanoConfig
from .drafter import Drafter
from .target import Target

PIECE_BYTES = 15 << 20
DRAFTERS = {"mtp": "target.mtp.", "dflash": "drafter."}  # what train_drafters.py writes


def state_of(target: Target, drafter: Drafter | None) -> dict[str, Tensor]:
    state = {f"target.{k}": v for k, v in target.state_dict().items() if "_orig_mod" not in k}
    if drafter is not None:
        state |= {f"drafter.{k}": v for k, v in drafter.state_dict().items()}
    return state


def save_checkpoint(
    folder: Path,
    config: NanoConfig,
    state: dict[str, Tensor],
    dtype: torch.dtype = torch.bfloat16,
    clock: float = 0.0,
) -> None:
    """Small tensors (norms, gates, conv) stay in fp32; the rest are cast to `dtype`.

    `clock` is the training time so far in seconds, which the schedule goes by.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "clock.json").write_text(json.dumps({"seconds": clock}))
    for old in folder.glob("ckpt-*.safetensors"):
        old.unlink()
    (folder / "config.json").write_text(json.dumps(config.to_dict()))
    piece: dict[str, Tensor] = {}
    size = count = 0
    for name, tensor in state.items():
        t = (
            tensor.detach()
            .to("cpu", torch.float32 if tensor.numel() < 20_000 else dtype)
            .contiguous()
        )
        nbytes = t.numel() * t.element_size()
        if piece and size + nbytes > PIECE_BYTES:
            save_file(piece, folder / f"ckpt-{count:02d}.safetensors")
            piece, size, count = {}, 0, count + 1
        piece[name] = t
        size += nbytes
    save_file(piece, folder / f"ckpt-{count:02d}.safetensors")


def _blocks(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """Q8_0: int8 values [..., n / 32, 32] and fp16 scales [..., n / 32, 1], as ggml rounds them."""
    x = tensor.float().unflatten(-1, (-1, 32))
    scale = x.abs().amax(-1, keepdim=True) / 127
    inverse = torch.where(scale > 0, 1 / scale, 0)
    return torch.round(x * inverse).to(torch.int8), scale.half()


def save_packed(path: Path, config: NanoConfig, state: dict[str, Tensor]) -> None:
    """One file of about 1.06 bytes a weight, for travelling; matrices are rounded to Q8_0."""
    packed: dict[str, Tensor] = {}
    for name, tensor in state.items():
        t = tensor.detach().cpu()
        if t.numel() < 20_000 or t.shape[-1] % 32:
            packed[name] = t.float().contiguous()
        else:
            packed[f"{name}|q"], packed[f"{name}|d"] = (x.contiguous() for x in _blocks(t))
    save_file(packed, path, {"config": json.dumps(config.to_dict())})


def load_packed(path: Path) -> tuple[NanoConfig, dict[str, Tensor]]:
    """Config and state that `save_packed` wrote."""
    with safe_open(path, "pt") as file:
        config = NanoConfig.from_dict(json.loads(file.metadata()["config"]))
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    state = {n: t for n, t in tensors.items() if "|" not in n}
    for name in (n[:-2] for n in tensors if n.endswith("|q")):
        state[name] = (tensors[f"{name}|q"].float() * tensors[f"{name}|d"].float()).flatten(-2)
    return config, state


def load_clock(folder: Path) -> float:
    """Training time of a checkpoint in seconds."""
    return float(json.loads((folder / "clock.json").read_text())["seconds"])


def load_state(folder: Path) -> dict[str, Tensor]:
    state: dict[str, Tensor] = {}
    for path in sorted(folder.glob("ckpt-*.safetensors")):
        state |= load_file(path)
    return {k: v for k, v in state.items() if "_orig_mod" not in k}


def load_weights(at: Path) -> tuple[NanoConfig, dict[str, Tensor]]:
    """Config and state of a checkpoint folder, with drafters beside it, or of a packed file."""
    if at.is_file():
        return load_packed(at)
    config = NanoConfig.from_dict(json.loads((at / "config.json").read_text()))
    state = load_state(at)
    for drafters in sorted(at.glob("drafters*.safetensors")):
        state |= load_packed(drafters)[1]
    return config, state


def load_models(at: Path) -> tuple[NanoConfig, Target, Drafter | None]:
    """The models of a checkpoint folder, or of a packed file."""
    config, state = load_weights(at)
    target = Target(config.target)
    load_prefixed(target, state, "target.")
    if not any(k.startswith("drafter.") for k in state):
        return config, target, None
    drafter = Drafter(config.drafter, config.target)
    load_prefixed(drafter, state, "drafter.")
    return config, target, drafter


def load_prefixed(module: nn.Module, state: dict[str, Tensor], prefix: str) -> None:
    module.load_state_dict({k[len(prefix) :]: v for k, v in state.items() if k.startswith(prefix)})
