"""Ways to undo the rejected rows of a verify batch, the cheapest possible one for each model."""

from __future__ import annotations

from outrider import PrefixCache, hookimpl

from outrider_rollback.checkpoint import CheckpointRollback
from outrider_rollback.ring import SnapshotRing
from outrider_rollback.truncate import TruncateRollback


class NoCache(PrefixCache):
    """Keeps nothing: every prompt is prefilled whole."""


@hookimpl
def outrider_rollbacks():
    """Offer `snapshot-ring`, `kv-truncate` and `checkpoint`."""
    return {
        "snapshot-ring": SnapshotRing,
        "kv-truncate": TruncateRollback,
        "checkpoint": CheckpointRollback,
    }


@hookimpl
def outrider_caches():
    """Offer `none`: every prompt is prefilled."""
    return {"none": NoCache}
