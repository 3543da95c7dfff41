"""The `snapshots` cache: never prefill the same tokens twice, for models whose state cannot be cut.

See docs/prefix-cache.md.
"""

from __future__ import annotations

import click
from outrider import hookimpl


@hookimpl
def outrider_caches():
    """Offer `snapshots`."""
    from outrider_snapshots.cache import SnapshotCache

    return {"snapshots": SnapshotCache}


@hookimpl
def outrider_commands(group: click.Group) -> None:
    """Add `outrider cache`."""
    from outrider_snapshots.command import cache

    group.add_command(cache)
