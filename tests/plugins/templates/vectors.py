"""The recorded vectors, ready to use."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[2] / "data"

MAPPED_EFFORTS = {"minimal": "low", "high": "xhigh", "max": "xhigh"}
"""Efforts of other APIs, which the template refuses and the API front end maps."""


def read_records(name: str) -> list[dict[str, Any]]:
    """All records of a `.jsonl.gz` file."""
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def template_text(name: str) -> str:
    """A template text by the name the records use."""
    return (DATA / "templates" / f"{name}.jinja").read_text(encoding="utf-8")


def body_of(record: dict[str, Any]) -> Any:
    """A record's request body, as bytes where the bytes matter."""
    if "raw_body_b64" in record:
        return base64.b64decode(record["raw_body_b64"])
    return record["request"]


def has_images(record: dict[str, Any]) -> bool:
    """Whether the record was made as if the model could see."""
    return record["oracle"].startswith("transformers")


def wanted_prompt(record: dict[str, Any]) -> str | None:
    """The prompt a record demands; None when the request must be refused.

    Where the engines differ, jinja2's form counts (the model was trained on it), except that
    null arguments are a call without arguments. A continuation without an assistant message is
    refused, whatever a template makes of it.
    """
    if record["status"] != 200 or "continue-user-last" in record["id"]:
        return None
    if record.get("engines_agree") is False:
        return record["hf_same_inputs"].get("prompt", record["prompt"])
    return record["prompt"]


def is_mapped(record: dict[str, Any]) -> bool:
    """Whether a refused record is one whose effort the API front end maps."""
    request = record.get("request", {})
    effort = request.get("reasoning_effort")
    effort = effort or (request.get("chat_template_kwargs") or {}).get("reasoning_effort")
    return record["status"] != 200 and effort in MAPPED_EFFORTS
