"""Published GGUF files as one packed file of weights, to train on from.

    python import_gguf.py --folder ../../models/outrider-nano --out weights.safetensors

The file goes wherever a checkpoint goes: `train_target.py --init`, `train_drafters.py --trunk`. The
models must have the sizes of nano/config.py.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import gguf
import torch
from export_gguf import NAME, Walk
from nano.checkpoint import save_packed, state_of
from nano.config import NanoConfig
from nano.drafter import Drafter
from nano.target import Target
from torch import Tensor


class Importer(Walk):
    """Fills a model from a file."""

    def __init__(self, path: Path) -> None:
        self.tensors = {t.name: t for t in gguf.GGUFReader(path).tensors}

    def tensor(self, name: str, tensor: Tensor, quantize: bool = False) -> None:
        found = self.tensors[name]
        data = gguf.quants.dequantize(found.data, found.tensor_type)
        tensor.data.copy_(torch.from_numpy(data.copy()).view_as(tensor))

    def decay(self, name: str, a_log: Tensor) -> None:
        self.tensor(name, a_log)
        a_log.data.neg_().log_()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    config = NanoConfig()
    target, drafter = Target(config.target), Drafter(config.drafter, config.target)
    Importer(args.folder / f"{NAME}-q8_0.gguf").target(config, target)
    Importer(args.folder / f"{NAME}-dflash2-q8_0.gguf").drafter(drafter)
    save_packed(args.out, config, state_of(target, drafter))
    print(args.out, args.out.stat().st_size)


if __name__ == "__main__":
    main()
