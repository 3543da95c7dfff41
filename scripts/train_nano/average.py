"""Write weights with one part replaced by the mean of that part in some others.

    python average.py --part trunk --onto .out/end --out MEAN .out/halfway .out/end
    python average.py --part mtp --onto MEAN --out FINAL {a,b}/drafters-mtp.safetensors

It is meant for weights of one training: ends of several calls, or trainings from one beginning that
differ in their seed. The mean trunk of two ends gets 1,297 of 1,400 tasks right, the ends 1,280 and
1,277; of trainings that went apart the mean was worse than either.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from nano.checkpoint import (
    DRAFTERS,
    load_models,
    load_packed,
    load_state,
    save_checkpoint,
    state_of,
)
from torch import Tensor


def part_of(path: Path, part: str) -> dict[str, Tensor]:
    """Tensors of `part` in a checkpoint folder, a packed file, or what train_drafters.py wrote."""
    state = load_packed(path)[1] if path.is_file() else load_state(path)
    if path.is_dir():
        for drafters in sorted(path.glob("drafters*.safetensors")):
            state |= load_packed(drafters)[1]
    if part == "trunk":
        others = tuple(DRAFTERS.values())
        return {name: t for name, t in state.items() if not name.startswith(others)}
    return {name: t for name, t in state.items() if name.startswith(DRAFTERS[part])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("weights", type=Path, nargs="+", help="folders or packed files")
    parser.add_argument("--part", choices=("trunk", *DRAFTERS), required=True)
    parser.add_argument("--onto", type=Path, required=True, help="where everything else comes from")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    if any(args.out.glob("drafters*.safetensors")):
        parser.error(f"{args.out} holds drafters, which would be loaded instead of these")
    for path in (args.onto, *args.weights):
        if not path.is_file() and not (path / "config.json").is_file():
            parser.error(f"{path} is neither a packed file nor a folder with config.json")
    config, target, drafter = load_models(args.onto)
    whole = state_of(target, drafter)
    parts = [part_of(path, args.part) for path in args.weights]
    for path, found in zip(args.weights, parts, strict=True):
        if not found:
            parser.error(f"{path} has no tensors of {args.part}")
        if strangers := sorted(found.keys() ^ parts[0].keys()) or sorted(found.keys() - whole):
            parser.error(f"{path} does not fit the others: {', '.join(strangers[:3])}")
    mean = {name: sum(p[name].float() for p in parts) / len(parts) for name in parts[0]}
    save_checkpoint(args.out, config, whole | mean, torch.float32)
    print(f"{args.out}: the mean of {len(parts)}, {len(mean)} tensors")


if __name__ == "__main__":
    main()
