"""Write the mean of the trunks of some checkpoints, with the drafters of the last one.

    python average_trunks.py --out MEAN .out/halfway .out/final

It is meant for checkpoints of one training, each saved when its rate had come down: the published
mean gets 1,297 of 1,400 tasks right, its parts 1,280 and 1,277. Of trainings that went apart the
mean was worse than either.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from nano.checkpoint import DRAFTERS, load_models, save_checkpoint, state_of
from torch import Tensor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoints", type=Path, nargs="+", help="folders or packed files")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    for path in args.checkpoints:
        if not path.is_file() and not (path / "config.json").is_file():
            parser.error(f"{path} is neither a packed file nor a folder with config.json")
    states: list[dict[str, Tensor]] = []
    for path in args.checkpoints:
        config, target, drafter = load_models(path)
        states.append(state_of(target, drafter))
    last = states[-1]
    trunk = [name for name in last if not name.startswith(tuple(DRAFTERS.values()))]
    mean = {name: sum(s[name].float() for s in states) / len(states) for name in trunk}
    save_checkpoint(args.out, config, last | mean)
    print(f"{args.out}: the mean of {len(states)} trunks, {len(trunk)} tensors")


if __name__ == "__main__":
    main()
