"""The `dflash2` drafter: a block drafter that reads the target's layer inputs."""

from __future__ import annotations

from outrider import hookimpl

from outrider_dflash2.drafter import BlockDrafter


@hookimpl
def outrider_drafters():
    """Offer `dflash2`."""
    return {"dflash2": BlockDrafter}
