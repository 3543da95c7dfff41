"""Every built-in template keeps the template contract."""

from pathlib import Path

from outrider.testing.contracts import TemplateContract

QWEN = (Path(__file__).parents[2] / "data/templates/qwen3.8.jinja").read_text(encoding="utf-8")


class TestQwen(TemplateContract):
    use = "qwen"
    chat_template = QWEN


class TestJinja(TemplateContract):
    use = "jinja"
    chat_template = QWEN
