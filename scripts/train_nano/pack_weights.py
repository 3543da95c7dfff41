"""Put a checkpoint folder into one file, rounded to Q8_0 as the GGUF files are.

    python pack_weights.py --checkpoint OUT/final --out weights.safetensors

The file goes wherever a checkpoint goes: `export_gguf.py --checkpoint`, `train_target.py --init`,
`train_drafters.py --trunk`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from nano.checkpoint import load_models, save_packed, state_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    config, target, drafter = load_models(args.checkpoint)
    save_packed(args.out, config, state_of(target, drafter))
    print(args.out, args.out.stat().st_size)


if __name__ == "__main__":
    main()
