#!/usr/bin/env python3
"""Write the tables of README.md and docs/performance.md from published raw JSON, or check them.

    scripts/readme_table.py            rewrite the parts between the markers
    scripts/readme_table.py --check    exit status 1 when they are not what the files say

The newest `configs/benchmarks/DATE/embedded-cpu.json` becomes one table of README.md, the newest
folder `configs/benchmarks/DATE-h200` of comparisons in pairs another; docs/performance.md shows
where the steps of the same runs spend their time, and what else that folder holds.
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


class MarkerError(ValueError):
    """A document lacks its two markers, or has them in the wrong order."""


def main() -> int:
    """Rewrite or check; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--root", type=Path, default=ROOT, help="holds README.md, docs, configs")
    options = parser.parse_args()
    root: Path = options.root
    published = root / "configs" / "benchmarks"
    status = 0
    for path, mark, write in (
        (root / "README.md", "benchmarks", tables),
        (root / "docs" / "performance.md", "stages", stages),
        (root / "docs" / "performance.md", "accelerator", accelerator),
    ):
        try:
            before = path.read_text()
            after = replaced(before, mark, write(published))
        except (OSError, MarkerError) as error:
            print(f"readme_table: {path.name}: {error}", file=sys.stderr)
            return 1
        if options.check and before != after:
            print(f"{path.name} disagrees with configs/benchmarks: run scripts/readme_table.py")
            status = 1
        elif not options.check:
            path.write_text(after)
    return status


def replaced(document: str, mark: str, text: str) -> str:
    """`document` with `text` between the markers of `mark`. Raises MarkerError."""
    begin_mark, end_mark = f"<!-- {mark}:begin -->", f"<!-- {mark}:end -->"
    begin, end = document.find(begin_mark), document.find(end_mark)
    if begin < 0 or end < begin:
        raise MarkerError(f"it needs the lines\n{begin_mark}\n{end_mark}")
    between = f"\n\n{text}\n" if text else "\n"
    return document[: begin + len(begin_mark)] + between + document[end:]


def tables(published: Path) -> str:
    """The tables of the newest published runs, each under a line about how it was measured."""
    parts: list[str] = []
    embedded = newest(published, "*/embedded-cpu.json")
    if embedded is not None:
        record = json.loads(embedded.read_text())
        parts += [provenance(record, embedded, published), report.markdown(record)]
    comparisons = newest(published, "*-h200")
    if comparisons is not None:
        found = _records(comparisons, "runs")
        if found:
            first = next(iter(found.values()))
            line = provenance(first, comparisons, published, each="")
            parts += [line, report.pairs(found), *lengths(comparisons)]
    return "\n\n".join(part.rstrip() for part in parts) + "\n" if parts else ""


def stages(published: Path) -> str:
    """Where the steps of the newest published runs spend their time."""
    parts: list[str] = []
    embedded = newest(published, "*/embedded-cpu.json")
    if embedded is not None:
        record = json.loads(embedded.read_text())
        parts.append(provenance(record, embedded, published, up="../"))
        parts += [
            f"{sampling}:\n\n{report.stages(record, sampling)}" for sampling in record["runs"]
        ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n" if parts else ""


def accelerator(published: Path) -> str:
    """The newest run on an accelerator: steps, costs of the engine's calls, second turns."""
    folder = newest(published, "*-h200")
    if folder is None:
        return ""
    parts: list[str] = []
    compared, costs = _records(folder, "runs"), _records(folder, "undo_ms")
    if compared:
        first = next(iter(compared.values()))
        line = provenance(first, folder, published, up="../", each="")
        parts += [line, report.pairs(compared)]
        parts += ["Steps, in µs:", report.pair_stages(compared)]
    parts += lengths(folder)
    if costs:
        settings = next(iter(costs.values()))["settings"]
        parts += [
            f"Calls, in ms, medians of {settings['repeats']}, with {settings['length']} tokens in "
            "memory:",
            report.costs({name.removeprefix("costs-"): c for name, c in costs.items()}),
        ]
    turns = folder / "ttft.json"
    if turns.is_file():
        parts += [
            "Time to first token of a second turn, in ms:",
            report.second_turns(json.loads(turns.read_text())),
        ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n" if parts else ""


def lengths(folder: Path) -> list[str]:
    """What `adaptive` chooses in a run on an accelerator, if that was measured."""
    found = _records(folder / "lengths", "runs")
    if not found:
        return []
    commit = next(iter(found.values()))["machine"]["commit"]
    return [
        "Draft lengths that `adaptive` chooses, tokens a second, ratios run by run; commit "
        f"{commit[:9]}:",
        report.lengths(found),
    ]


def _records(folder: Path, key: str) -> dict[str, dict[str, Any]]:
    """The files of a folder that have `key`, by their names."""
    found = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    return {name: record for name, record in found.items() if key in record}


def newest(published: Path, pattern: str) -> Path | None:
    """The match in the folder with the latest date."""
    return max(published.glob(pattern), default=None)


def provenance(
    record: dict[str, Any], path: Path, published: Path, *, up: str = "", each: str = "medians of "
) -> str:
    """What was measured where, and the file that has it all; `up` leads from the page to it."""
    machine, settings = record["machine"], record["settings"]
    where = machine["processor"]["model"]
    if machine["accelerators"]:
        where = " + ".join(device["name"] for device in machine["accelerators"])
    else:
        where += f", {settings['threads']} thread{'s' * (settings['threads'] != 1)}"
    name = f"configs/benchmarks/{path.relative_to(published)}"
    return (
        f"Tokens a second on {where}; up to {settings['max_tokens']} tokens, {each}"
        f"{settings['runs']} runs taking turns; commit {(machine['commit'] or 'unknown')[:9]}. "
        f"Raw data: [`{name}`]({up}{name})."
    )


if __name__ == "__main__":
    sys.exit(main())
