"""Policies that choose how many tokens to draft, and the measurement they rest on."""

from __future__ import annotations

import click
from outrider import hookimpl

from outrider_lengths.adaptive import AdaptiveLength
from outrider_lengths.fixed import FixedLength
from outrider_lengths.measured import MeasuredLength


@hookimpl
def outrider_draft_lengths():
    """Offer `fixed`, `measured` and `adaptive`."""
    return {"fixed": FixedLength, "measured": MeasuredLength, "adaptive": AdaptiveLength}


@hookimpl
def outrider_commands(group: click.Group) -> None:
    """Add `outrider calibrate`."""
    from outrider_lengths.command import calibrate

    group.add_command(calibrate)
