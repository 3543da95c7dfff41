"""Foreign templates: the sandbox, what transformers offers to them, and their errors."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from outrider import RequestError
from outrider_jinja.rendering import JinjaRenderer
from outrider_jinja.sandbox import render_template

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
