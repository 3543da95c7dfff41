#!/usr/bin/env python3
"""Try the snapshots cache hard; every command prints one JSON object and fails if a rule breaks.

scripts/cache_soak.py histories --pipeline mtp --count 200   answers equal cold answers
scripts/cache_soak.py kill --count 100                       SIGKILL during writes
scripts/cache_soak.py corrupt                                every byte of a file, damaged
scripts/cache_soak.py hammer --seconds 60                    two processes, one directory
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from soak import files, histories, shapes, sharing


def main() -> int:
    """Run one of the commands; 0 when every rule held."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("histories")
    command.add_argument("--pipeline", choices=sorted(histories.PIPELINES), required=True)
    command.add_argument("--count", type=int, default=200)
    command.add_argument("--seed", type=int, default=1)
    command.add_argument("--control", action="store_true", help="believe the ring too much")
    command = commands.add_parser("kill")
    command.add_argument("--count", type=int, default=100)
    commands.add_parser("corrupt")
    command = commands.add_parser("hammer")
    command.add_argument("--seconds", type=float, default=60.0)
    command = commands.add_parser("shapes")
    command.add_argument("--count", type=int, default=60)
    command = commands.add_parser("sharing")
    command.add_argument("--turns", type=int, default=12)
    command.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    for name in ("write", "pound"):
        command = commands.add_parser(name)
        command.add_argument("folder", type=Path)
        command.add_argument("seed", type=int)
        command.add_argument("seconds", type=float)
    options = parser.parse_args()
    match options.command:
        case "histories":
            result = histories.run(
                options.pipeline, options.count, options.seed, control=options.control
            )
        case "kill":
            result = files.kill(options.count)
        case "corrupt":
            result = files.corrupt()
        case "hammer":
            result = files.hammer(options.seconds)
        case "shapes":
            result = shapes.run(options.count)
        case "sharing":
            result = sharing.run(options.turns, options.set)
        case "write":
            files.write(options.folder, options.seed, options.seconds)
            return 0
        case _:
            result = files.pound(options.folder, options.seed, options.seconds)
    print(json.dumps(result))
    return 0 if result["held"] else 1


if __name__ == "__main__":
    sys.exit(main())
