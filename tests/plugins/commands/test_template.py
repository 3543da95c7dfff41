"""`outrider template` as people and scripts use it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from outrider.cli import Group
from outrider_chat import outrider_commands

from tests.plugins.templates.vectors import DATA, read_records

QWEN38 = str(DATA / "templates" / "qwen3.8.jinja")
USER = {"role": "user", "content": "hi"}


@pytest.fixture
def cli() -> click.Group:
    group = Group("outrider")
    outrider_commands(group)
    return group


def run(cli: click.Group, folder: Path, request: Any, *options: str, text: str = "") -> Result:
    body = folder / "request.json"
    body.write_bytes(request if isinstance(request, bytes) else json.dumps(request).encode())
    command = ["template", options[0], "--request", str(body), *options[1:]]
    if options[0] == "parse":
        (folder / "answer.txt").write_text(text, encoding="utf-8", newline="")
        command += ["--text-file", str(folder / "answer.txt")]
    return CliRunner().invoke(cli, command)


def test_the_prompt_and_nothing_else_goes_to_stdout(cli: click.Group, tmp_path: Path) -> None:
    request = {"messages": [USER], "reasoning_effort": "medium"}
    result = run(cli, tmp_path, request, "render", "--template", QWEN38)
    assert result.exit_code == 0
    assert result.stdout == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n<think>\n"
    assert "native, qwen3.8" in result.stderr


def test_a_template_that_is_not_rendered_natively_is_said_so(
    cli: click.Group, tmp_path: Path
) -> None:
    changed = tmp_path / "mine.jinja"
    changed.write_text(Path(QWEN38).read_text().replace("Required parameters", "All parameters"))
    request = {"messages": [USER], "tools": [{"type": "function", "function": {"name": "f"}}]}
    result = run(cli, tmp_path, request, "render", "--template", str(changed))
    assert "All parameters MUST" in result.stdout
    assert "jinja" in result.stderr
    assert "it differs from" in result.stderr


def test_what_must_be_refused_is_exit_code_2_and_the_reason(
    cli: click.Group, tmp_path: Path
) -> None:
    request = {"messages": [USER], "reasoning_effort": "auto"}
    result = run(cli, tmp_path, request, "render", "--template", QWEN38)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "xhigh (default), medium, and low" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_template_file_that_is_not_there_is_said_so(cli: click.Group, tmp_path: Path) -> None:
    result = run(cli, tmp_path, {"messages": [USER]}, "render", "--template", "nowhere.jinja")
    assert result.exit_code == 2
    assert "template file not found" in result.stderr


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"messages": "x"}'])
def test_a_file_that_is_no_request_is_exit_code_2(
    cli: click.Group, tmp_path: Path, body: bytes
) -> None:
    result = run(cli, tmp_path, body, "render")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("outrider: ")


def test_the_models_own_template_is_taken_without_another(cli: click.Group, tmp_path: Path) -> None:
    result = run(cli, tmp_path, {"messages": [USER]}, "render")
    assert result.exit_code == 0
    assert result.stdout.endswith("<|im_start|>assistant\n<think>\n")


def test_images_are_let_through_only_on_request(cli: click.Group, tmp_path: Path) -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    request = {"messages": [{"role": "user", "content": [image]}]}
    refused = run(cli, tmp_path, request, "render", "--template", QWEN38)
    assert refused.exit_code == 2
    shown = run(cli, tmp_path, request, "render", "--template", QWEN38, "--images")
    assert "<|vision_start|><|image_pad|><|vision_end|>" in shown.stdout


def test_an_answer_is_printed_as_json(cli: click.Group, tmp_path: Path) -> None:
    cases = {c["id"]: c for c in read_records("toolcall-cases")}
    for name in ("think-then-call", "int-bad", "cut-in-value", "str-unicode"):
        case = cases[name]
        result = run(cli, tmp_path, case["request"], "parse", text=case["text"])
        assert result.exit_code == 0
        message = json.loads(result.stdout)
        assert {"content", "reasoning_content", "tool_calls", "violations"} <= set(message)
        calls = [json.loads(c["function"]["arguments"]) for c in message["tool_calls"]]
        assert calls == [c["arguments"] for c in case.get("expected", {}).get("tool_calls", [])]
    assert message["violations"] == []


def test_the_rendered_prompt_decides_whether_an_answer_starts_by_thinking(
    cli: click.Group, tmp_path: Path
) -> None:
    text = "hm\n</think>\n\nYes."
    off = {"chat_template_kwargs": {"enable_thinking": False}}
    for request, thought in (({}, "hm"), (off, "")):
        body = {"messages": [USER], **request}
        result = run(cli, tmp_path, body, "parse", "--template", QWEN38, text=text)
        assert json.loads(result.stdout)["reasoning_content"] == thought
