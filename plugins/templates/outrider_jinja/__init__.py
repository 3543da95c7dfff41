"""`jinja`: any model's own chat template, in a sandbox."""

from collections.abc import Mapping

from outrider import ChatTemplate, hookimpl

from outrider_jinja.template import JinjaTemplate


@hookimpl
def outrider_templates() -> Mapping[str, type[ChatTemplate]]:
    """The template plugin `jinja`."""
    return {"jinja": JinjaTemplate}
