"""The generated end of a document: rewriting it, and checking that it is up to date."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path


def document(present: str, start: str, text: str) -> str:
    """A document with everything behind its line `start` replaced."""
    written, marker, _ = present.partition(start)
    assert marker, f"the document has no line {start}"
    return f"{written}{start}\n\n{text}"


def main(path: Path, start: str, reference: Callable[[], str], about: str | None) -> None:
    """Rewrite or check the document."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--check", action="store_true", help="fail when it is not up to date")
    check = parser.parse_args().check
    present = path.read_text(encoding="utf-8")
    wanted = document(present, start, reference())
    if check and wanted != present:
        sys.exit(f"{path} is not up to date; run python {sys.argv[0]}")
    if not check:
        path.write_text(wanted, encoding="utf-8")
