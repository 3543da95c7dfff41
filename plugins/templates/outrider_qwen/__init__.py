"""`qwen`: the Qwen3.5 / 3.6 / 3.8 conversation format, rendered natively."""

from collections.abc import Mapping

from outrider import ChatTemplate, hookimpl

from outrider_qwen.template import QwenTemplate


@hookimpl
def outrider_templates() -> Mapping[str, type[ChatTemplate]]:
    """The template plugin `qwen`."""
    return {"qwen": QwenTemplate}
