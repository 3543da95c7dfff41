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
from nano.checkpoint import DRAFTERS, load_weights, save_checkpoint
from torch import Tensor


def part_of(path: Path, part: str) -> dict[str, Tensor]:
    """Tensors of `part` in a checkpoint folder, a packed file, or what train_drafters.py wrote."""
    state = load_weights(path)[1]
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
    config, whole = load_weights(args.onto)
    wanted = {name: t.shape for name, t in part_of(args.onto, args.part).items()}
    if not wanted:
        parser.error(f"{args.onto} has no {args.part} to replace")
    parts = [part_of(path, args.part) for path in args.weights]
    for path, part in zip(args.weights, parts, strict=True):
        if not part:
            parser.error(f"{path} has no tensors of {args.part}")
        if {name: t.shape for name, t in part.items()} != wanted:
            parser.error(f"{path}: its {args.part} has other tensors than that of {args.onto}")
    mean = {name: sum(p[name].float() for p in parts) / len(parts) for name in parts[0]}
    save_checkpoint(args.out, config, whole | mean, torch.float32)
    print(f"{args.out}: the mean of {len(parts)}, {len(mean)} tensors")


if __name__ == "__main__":
    main()
