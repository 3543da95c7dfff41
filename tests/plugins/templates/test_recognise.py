"""A template is known by what it does: small changes to its text are noticed or make none."""

from __future__ import annotations

import pytest
from outrider_qwen import recognise as recognition
from outrider_qwen.recognise import recognise

from tests.plugins.templates.vectors import template_text

PROMPT = "{%- if add_generation_prompt %}"
NATIVE = ("qwen3.5", "qwen3.6", "qwen3.8", "qwen3.8-unsloth")


@pytest.mark.parametrize("name", NATIVE)
def test_the_known_texts_are_recognised(name: str) -> None:
    dialect = recognise(template_text(name)).dialect
    assert dialect is not None
    assert dialect.name == name


@pytest.mark.parametrize("name", NATIVE)
def test_a_text_that_does_the_same_is_recognised_by_probing(name: str) -> None:
    changed = "{#- another comment #}" + template_text(name) + "\n\n"
    assert recognition.known_dialect(changed) is None
    found = recognise(changed)
    assert found.dialect is not None, found.reason
    assert found.dialect.name == name


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# Tools\\n", "# Tool\\n"),
        ("{%- set reasoning_content = reasoning_content|trim %}", ""),
        ("Required parameters MUST", "Required parameters must"),
        ("'\\n\\n<tool_call>", "'\\n<tool_call>"),
        ("elif loop.last", "elif loop.first"),
        ("messages[::-1]", "messages"),
        ("'<|im_end|>' + '\\n'", "'<|im_end|>'"),
        ("'Picture '", "'Image '"),
        ("System message must be at", "A system message must be at"),
        ("<think>\\n\\n</think>\\n\\n' }}", "<think>\\n</think>\\n\\n' }}"),
        (PROMPT, "{%- if messages[0].magic %}!{%- endif %}" + PROMPT),
        (PROMPT, "{{- weather }}" + PROMPT),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", NATIVE)
def test_a_text_that_does_something_else_is_not_taken_for_a_known_one(
    name: str, before: str, after: str
) -> None:
    text = template_text(name)
    assert before in text
    found = recognise(text.replace(before, after))
    assert found.dialect is None
    assert found.reason


def test_foreign_templates_are_not_ours() -> None:
    for name in ("qwen3-0.6b", "qwen3-coder"):
        assert recognise(template_text(name)).dialect is None


def test_an_effort_line_of_its_own_makes_a_template_a_stranger() -> None:
    note = "{%- if reasoning_effort is defined %}{{- 'Effort ' ~ reasoning_effort }}{%- endif %}"
    found = recognise(note + template_text("qwen3.5"))
    assert found.dialect is None
    assert "effort" in found.reason


def test_broken_jinja_is_a_reason_and_not_a_crash() -> None:
    text = template_text("qwen3.8").replace("{%- endmacro %}", "")
    assert "not valid Jinja" in recognise(text).reason
