"""Offers the scripted engine, its toy model and two drafters as doubles, like any plugin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from outrider.components import Drafter
from outrider.hookspecs import hookimpl


@hookimpl
def outrider_engines() -> dict[str, type[Any]]:
    """Offer `scripted`."""
    from outrider.testing.engine import ScriptedEngine

    return {"scripted": ScriptedEngine}


@hookimpl
def outrider_models() -> dict[str, Path]:
    """Offer the toy model `scripted`."""
    from outrider.testing.engine import MODEL, MODEL_PATH

    return {MODEL: MODEL_PATH}


@hookimpl
def outrider_drafters() -> dict[str, type[Drafter]]:
    """Offer `echo` and `always-wrong`."""
    from outrider.testing.drafters import EchoDrafter, WrongDrafter

    return {"echo": EchoDrafter, "always-wrong": WrongDrafter}
