"""Offers the `llama-cpp` engine, through the same door as every other plugin."""

from __future__ import annotations

from typing import Any

from outrider.hookspecs import hookimpl


@hookimpl
def outrider_engines() -> dict[str, type[Any]]:
    """Offer `llama-cpp`."""
    from outrider.engine.llama import LlamaEngine

    return {"llama-cpp": LlamaEngine}
