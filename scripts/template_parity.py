#!/usr/bin/env python3
"""Compare three renderings of chat requests, case by case: native, jinja2, and a llama-server's.

    python scripts/template_parity.py                                 # the recorded requests
    python scripts/template_parity.py --template my.jinja --requests r.jsonl
    python scripts/template_parity.py --url http://127.0.0.1:8080     # also ask /apply-template

Without --template every template the recorded requests name is taken (tests/data/templates), and
renderings are compared with the recorded ones too. With --url the server must run the template in
question (`llama-server --jinja --chat-template-file …`); without --template it is asked for the
template it runs (`/props`), and only the recorded requests of that template are sent.

Prints a diff for every difference, then one line of counts a template. Exit code 1 if anything
differs that is not a documented choice: floats and large integers (Python's exact form), null
arguments (none), efforts of other APIs (mapped), and what is refused on purpose.
"""

from __future__ import annotations

import argparse
import base64
import difflib
import gzip
import json
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
from outrider import RequestError
from outrider_jinja.rendering import JinjaRenderer
from outrider_qwen.recognise import recognise
from outrider_qwen.rendering import NativeRenderer

DATA = Path(__file__).resolve().parent.parent / "tests" / "data"
MAPPED = ("minimal", "high", "max")


@attrs.frozen
class Case:
    """One request."""

    id: str
    body: bytes
    images: bool = False
    recorded: str | None = None
    """What was recorded; None when it was refused."""
    has_record: bool = False
    chosen: bool = False
    """Whether our rendering is known to differ from the recorded one, by choice."""


def main() -> int:
    """Compare, print, and tell whether everything agrees."""
    arguments = _arguments()
    if arguments.template is None:
        texts = {p.stem: p.read_text(encoding="utf-8") for p in DATA.glob("templates/*.jinja")}
    else:
        texts = {arguments.template.stem: arguments.template.read_text(encoding="utf-8")}
    if arguments.url and arguments.template is None:
        served = _get(arguments.url + "/props")["chat_template"].rstrip("\n")
        texts = {name: text for name, text in texts.items() if text.rstrip("\n") == served}
        if not texts:
            print("the server runs a template that is not among the recorded ones; name a file "
                  "with --template", file=sys.stderr)  # fmt: skip
            return 2
    failed = False
    for name, text in sorted(texts.items()):
        cases = list(_cases(arguments.requests, name))
        failed |= _compare(name, text, cases, arguments.url, arguments.quiet)
    return int(failed)


def _compare(name: str, text: str, cases: list[Case], url: str | None, quiet: bool) -> bool:
    found = recognise(text)
    theirs = JinjaRenderer(text)
    ours = None if found.dialect is None else NativeRenderer(found.dialect)
    if ours is None:
        print(f"{name}: no native rendering ({found.reason})")
    counts: Counter[str] = Counter()
    failed = False
    for case in cases:
        results = {"jinja2": _outcome(theirs, case)}
        if ours is not None:
            results["native"] = _outcome(ours, case)
        if case.has_record:
            results["recorded"] = case.recorded
        if url and not case.images:  # a server without a projector refuses images
            results["llama-server"] = _ask(url, case)
        ours_differ = ours is not None and results["native"] != results["jinja2"]
        peers = [k for k in ("recorded", "llama-server") if k in results]
        peers_differ = any(results[k] != results["jinja2"] for k in peers)
        counts["refused" if results["jinja2"] is None else "rendered"] += 1
        if not (ours_differ or peers_differ):
            counts["all agree"] += 1
            continue
        choice = case.chosen and not ours_differ
        counts["differ by choice" if choice else "DIFFER"] += 1
        failed |= not choice
        if not quiet:
            print(f"--- {name}/{case.id}{' (by choice)' if choice else ''}")
            _print_differences(results)
    print(f"{name}: {len(cases)} requests; " + ", ".join(f"{n} {k}" for k, n in counts.items()))
    return failed


def _print_differences(results: Mapping[str, str | None]) -> None:
    base = results["jinja2"]
    for name, text in results.items():
        if text == base:
            continue
        if text is None or base is None:
            print(f"    {'refused' if base is None else 'rendered'} by jinja2, "
                  f"{'refused' if text is None else 'rendered'} by {name}")  # fmt: skip
            continue
        lines = difflib.unified_diff(
            base.splitlines(keepends=True), text.splitlines(keepends=True), "jinja2", name, n=1
        )
        for line in lines:
            print("    " + line.rstrip("\n"))


def _outcome(renderer: Any, case: Case) -> str | None:
    try:
        return renderer.render(renderer.read(case.body, images=case.images)).text
    except RequestError:
        return None


def _ask(url: str, case: Case) -> str | None:
    request = urllib.request.Request(
        url + "/apply-template", data=case.body, headers={"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)["prompt"]
    except urllib.error.HTTPError:
        return None


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=60) as response:
        return json.load(response)


def _cases(requests: Path | None, template: str) -> Iterator[Case]:
    if requests is not None:
        for number, line in enumerate(requests.read_bytes().splitlines(), 1):
            if line.strip():
                yield Case(f"line {number}", line)
        return
    with gzip.open(DATA / "template-parity.jsonl.gz", "rt", encoding="utf-8") as records:
        for record in map(json.loads, records):
            if record["template"] == template:
                yield _recorded_case(record)


def _recorded_case(record: Mapping[str, Any]) -> Case:
    raw = record.get("raw_body_b64")
    request = record.get("request") or {}
    body = base64.b64decode(raw) if raw is not None else json.dumps(request).encode()
    variables = request.get("chat_template_kwargs") or {}
    effort = request.get("reasoning_effort", variables.get("reasoning_effort"))
    return Case(
        id=record["id"].partition("/")[2],
        body=body,
        images=record["oracle"].startswith("transformers"),
        recorded=record.get("prompt"),
        has_record=True,
        chosen=record.get("engines_agree") is False
        or (record["status"] != 200 and effort in MAPPED),
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--template", type=Path, help="template file (default: the recorded ones)")
    parser.add_argument("--requests", type=Path, help="requests, one JSON body a line")
    parser.add_argument("--url", help="a llama-server that runs the template")
    parser.add_argument("-q", "--quiet", action="store_true", help="counts only, no diffs")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
