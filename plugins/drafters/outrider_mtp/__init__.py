"""The `mtp` drafter: the target's own multi-token-prediction head, chained."""

from __future__ import annotations

from outrider import hookimpl

from outrider_mtp.drafter import MtpDrafter


@hookimpl
def outrider_drafters():
    """Offer `mtp`."""
    return {"mtp": MtpDrafter}
