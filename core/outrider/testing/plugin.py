"""Offers the scripted engine, its toy model and the doubles for tests, like any plugin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from outrider.components import Drafter, DraftLength, PrefixCache
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
    """Offer `echo`, `always-wrong` and `ranked`."""
    from outrider.testing.drafters import EchoDrafter, RankedDrafter, WrongDrafter

    return {"echo": EchoDrafter, "always-wrong": WrongDrafter, "ranked": RankedDrafter}


@hookimpl
def outrider_draft_lengths() -> dict[str, type[DraftLength]]:
    """Offer `random`."""
    from outrider.testing.doubles import RandomLength

    return {"random": RandomLength}


@hookimpl
def outrider_caches() -> dict[str, type[PrefixCache]]:
    """Offer `replay`."""
    from outrider.testing.doubles import ReplayCache

    return {"replay": ReplayCache}
