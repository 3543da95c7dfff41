"""Foreign templates: the sandbox, what transformers offers to them, and their errors."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from outrider import Pipeline, RequestError
from outrider_jinja.rendering import JinjaRenderer
from outrider_jinja.sandbox import render_template

from tests.plugins.templates.vectors import template_text

TALK = {"messages": [{"role": "user", "content": "q"}]}


def rendered(template: str, **renderer: Any) -> str:
    made = JinjaRenderer(template, **renderer)
    return made.render(made.read(TALK)).text


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{% for i in range(5) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
        ("{{ {'é': [1, '<b>', 1.0]} | tojson }}", '{"é": [1, "<b>", 1.0]}'),
        ("{{ {'b': 1, 'a': 2} | tojson(indent=1) }}", '{\n "b": 1,\n "a": 2\n}'),
        ("{% generation %}x{% endgeneration %}", "x"),
        ("{{ strftime_now('%Y') | length }}", "4"),
        ("  {%- if true %}\n  y\n  {% endif %}\nz", "  y\nz"),
        ("{{ missing }}|{{ messages[0].missing is defined }}", "|False"),
    ],
)
def test_what_templates_may_use(template: str, text: str) -> None:
    assert render_template(template, TALK) == text


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ messages[0].update({'role': 'x'}) }}",
    ],
)
def test_templates_cannot_leave_the_sandbox(template: str) -> None:
    shown = ""
    with contextlib.suppress(RequestError):
        shown = render_template(template, TALK)
    assert "class" not in shown
    assert TALK == {"messages": [{"role": "user", "content": "q"}]}


@pytest.mark.parametrize("template", ["{{ 1 / 0 }}", "{{ [][0].x }}", "{{ 'a' * 'b' }}"])
def test_a_template_that_fails_is_a_refusal(template: str) -> None:
    with pytest.raises(RequestError, match="cannot render this request"):
        rendered(template)


def test_a_templates_own_error_is_the_refusal() -> None:
    with pytest.raises(RequestError, match=r"^Only the blue one, please\.$"):
        rendered("{{ raise_exception('Only the blue one, please.') }}")


@pytest.mark.parametrize("template", ["{% if %}", "{{ messages | nonsense }}", "{% for x in y %}"])
def test_broken_syntax_names_the_line(template: str) -> None:
    with pytest.raises(RequestError, match=r"not valid Jinja: .* \(line 2\)"):
        rendered("\n" + template)


def test_the_first_token_is_not_written_twice() -> None:
    template = "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"
    assert rendered(template, bos="<s>", eos="</s>") == "<s>q</s>"
    assert rendered(template, bos="<s>", eos="</s>", adds_bos=True) == "q</s>"


def test_the_generation_prompt_is_what_the_template_adds() -> None:
    renderer = JinjaRenderer("{{ messages[0].content }}{% if add_generation_prompt %}A:{% endif %}")
    prompt = renderer.render(renderer.read(TALK))
    assert (prompt.text, prompt.text[: prompt.history]) == ("qA:", "q")


def test_qwen_renders_a_foreign_text_with_the_models_tokens(tmp_path: Path) -> None:
    """A text of the family that `qwen` does not know is `jinja`'s to the byte."""
    text = template_text("qwen3.5").replace("You are", "You really are", 1)
    file = tmp_path / "mine.jinja"
    file.write_text("{{ eos_token }}<function=<tool_call><think>" + text, encoding="utf-8")
    found = []
    for use in ("jinja", "qwen"):
        template = f"template={{use: {use}, file: {file}}}"
        with Pipeline.load(overrides=[template, "engine.threads=1"]).open() as pipeline:
            assert pipeline.template is not None
            found.append(pipeline.template.render(TALK).text)
            if use == "qwen":
                assert "jinja, because" in str(pipeline.template.statistics()["rendering"])
    assert found[0] == found[1]
    assert found[0].startswith("<|im_end|><function=")
