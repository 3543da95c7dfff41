"""Measured costs on disk, one small JSON file for each combination that can be told apart."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import attrs
from outrider import Component, Pipeline

from outrider_lengths.costs import CostTable

_FORMAT = 1


def cost_key(pipeline: Pipeline) -> str:
    """What costs depend on: the engine (model, build, devices, options) and the components.

    Options count, as `sample` of a drafter makes drafting dearer; a seed does not.
    """
    parts = (
        _FORMAT,
        pipeline.engine.cost_key,
        pipeline.drafter.fingerprint(),
        _options(pipeline.drafter),
        pipeline.sampler.name,
        pipeline.sampler.greedy,
        _options(pipeline.sampler),
        pipeline.verifier.name,
        pipeline.rollback.name,
    )
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


def _options(component: Component) -> list[tuple[str, Any]]:
    config = component.config
    names = [field.name for field in attrs.fields(type(config)) if field.name != "seed"]
    return [(name, getattr(config, name)) for name in names]


class Store:
    """A folder of tables; by default under the user's cache."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = user_cache() / "costs" if folder is None else folder.expanduser()

    def path(self, key: str) -> Path:
        """The file of a key."""
        return self.folder / f"{key}.json"

    def load(self, key: str) -> CostTable | None:
        """The stored table; None when there is none that can be read."""
        try:
            data = json.loads(self.path(key).read_text())
            table = CostTable(
                rows=tuple(map(float, data["rows_us"])),
                drafting={n: tuple(map(float, t)) for n, t in data["drafting_us"].items()},
                change=float(data["change_us"]),
                acceptance={n: tuple(map(float, t)) for n, t in data["acceptance"].items()},
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return table if table.rows and min(table.rows) > 0 else None

    def save(self, key: str, table: CostTable) -> Path | None:
        """Keep a table; None when the folder cannot be written to (it is measured again then)."""
        data = {
            "rows_us": table.rows,
            "drafting_us": dict(table.drafting),
            "change_us": table.change,
            "acceptance": dict(table.acceptance),
        }
        path = self.path(key)
        temporary = path.with_suffix(f".{os.getpid()}")
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(data, indent=1))
            temporary.replace(path)
            return path
        return None


def user_cache() -> Path:
    """Outrider's folder under the user's cache (`XDG_CACHE_HOME`, by default ~/.cache)."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "outrider"
