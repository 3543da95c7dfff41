#!/usr/bin/env python3
"""Write the benchmark tables of README.md from the published raw JSON, or check them.

    scripts/readme_table.py            rewrite the part of README.md between the two markers
    scripts/readme_table.py --check    exit status 1 when that part is not what the files say

The newest `configs/benchmarks/DATE/embedded-cpu.json` becomes one table, the newest folder
`configs/benchmarks/DATE-h200` of comparisons in pairs another.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench import report
from bench.machine import ROOT

BEGIN = "<!-- benchmarks:begin -->"
END = "<!-- benchmarks:end -->"
PUBLISHED = ROOT / "configs" / "benchmarks"


class MarkerError(ValueError):
    """README.md lacks the two markers, or has them in the wrong order."""


def main() -> int:
    """Rewrite or check; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md")
    parser.add_argument("--published", type=Path, default=PUBLISHED)
    options = parser.parse_args()
    try:
        before = options.readme.read_text()
        after = replaced(before, tables(options.published))
    except (OSError, MarkerError) as error:
        print(f"readme_table: {error}", file=sys.stderr)
        return 1
    if options.check:
        if before != after:
            print("README.md disagrees with configs/benchmarks: run scripts/readme_table.py")
        return int(before != after)
    options.readme.write_text(after)
    return 0


def replaced(readme: str, text: str) -> str:
    """`readme` with `text` between the markers. Raises MarkerError."""
    begin, end = readme.find(BEGIN), readme.find(END)
    if begin < 0 or end < begin:
        raise MarkerError(f"README.md needs the lines\n{BEGIN}\n{END}")
    between = f"\n\n{text}\n" if text else "\n"
    return readme[: begin + len(BEGIN)] + between + readme[end:]


def tables(published: Path) -> str:
    """The tables of the newest published runs, each under a line about how it was measured."""
    parts: list[str] = []
    embedded = newest(published, "*/embedded-cpu.json")
    if embedded is not None:
        record = json.loads(embedded.read_text())
        parts += [provenance(record, embedded, published), report.markdown(record)]
    comparisons = newest(published, "*-h200")
    if comparisons is not None:
        found = [(p, json.loads(p.read_text())) for p in sorted(comparisons.glob("*.json"))]
        found = [(p.stem, record) for p, record in found if "runs" in record]
        if found:
            parts += [provenance(found[0][1], comparisons, published), report.pairs(dict(found))]
    return "\n\n".join(part.rstrip() for part in parts) + "\n" if parts else ""


def newest(published: Path, pattern: str) -> Path | None:
    """The match in the folder with the latest date."""
    return max(published.glob(pattern), default=None)


def provenance(record: dict[str, Any], path: Path, published: Path) -> str:
    """What was measured where, and the file that has it all."""
    machine, settings = record["machine"], record["settings"]
    where = machine["processor"]["model"]
    if machine["accelerators"]:
        where = " + ".join(device["name"] for device in machine["accelerators"])
    else:
        where += f", {settings['threads']} thread{'s' * (settings['threads'] != 1)}"
    name = f"configs/benchmarks/{path.relative_to(published)}"
    return (
        f"Tokens a second on {where}; up to {settings['max_tokens']} tokens, medians of "
        f"{settings['runs']} runs taking turns; commit {(machine['commit'] or 'unknown')[:9]}. "
        f"Raw data: [`{name}`]({name})."
    )


if __name__ == "__main__":
    sys.exit(main())
