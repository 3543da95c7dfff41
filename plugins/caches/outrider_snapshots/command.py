"""`outrider cache`: list, verify and prune the snapshots on disk."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import click
from outrider import ByteSize, ConfigError, Pipeline
from rich.console import Console
from rich.table import Table

from outrider_snapshots.directory import Directory, Entry
from outrider_snapshots.format import FORMAT
from outrider_snapshots.reasons import Miss, UnusableError

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
DAMAGED = 1
"""Exit code of `verify` when something is damaged."""


@click.group()
def cache() -> None:
    """List, verify and prune the snapshots on disk."""


def _where(command: Any) -> Any:
    """The options that name a directory."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        click.option(
            "-p",
            "--pipeline",
            type=click.Path(path_type=Path, dir_okay=False),
            help="The directory that this pipeline file names.",
        ),
        click.option(
            "-d",
            "--directory",
            "path",
            type=click.Path(path_type=Path, file_okay=False),
            help="The directory; ~/.cache/outrider by default.",
        ),
    ):
        command = option(command)
    return command


@cache.command("list")
@_where
def list_(path: Path | None, pipeline: Path | None, as_json: bool) -> None:
    """Show every snapshot: tokens, size, age, hits."""
    directory = _directory(path, pipeline)
    entries = _entries(directory)
    rows = [_describe(directory, entry) for entry in reversed(entries)]
    blocks = directory.block_sizes()
    total = directory.size()
    if as_json:
        click.echo(
            json.dumps(
                {
                    "directory": str(directory.root),
                    "bytes": total,
                    "blocks": len(blocks),
                    "block_bytes": sum(blocks.values()),
                    "state_bytes": sum(r["state_bytes"] for r in rows),
                    "snapshots": rows,
                }
            )
        )
        return
    table = Table(box=None, pad_edge=False)
    for column in ("tokens", "state", "own", "age", "last used", "hits", "taken at", "model"):
        table.add_column(column, justify="left" if column in ("taken at", "model") else "right")
    for row in rows:
        table.add_row(
            str(row["tokens"]),
            _size(row["state_bytes"]),
            _size(row["own_bytes"]),
            _age(row["age_seconds"]),
            _age(row["idle_seconds"]),
            str(row["hits"]),
            row["place"],
            row["fingerprint"],
        )
    Console().print(table)
    click.echo(
        f"{len(rows)} snapshots of {_size(sum(r['state_bytes'] for r in rows))} state in "
        f"{_size(total)} ({len(blocks)} blocks, {_size(sum(blocks.values()))}, shared) "
        f"in {directory.root}",
        err=True,
    )


@cache.command()
@_where
@click.option("--delete", is_flag=True, help="Delete what is damaged.")
def verify(path: Path | None, pipeline: Path | None, as_json: bool, delete: bool) -> None:
    """Read every snapshot and check every byte; exit code 1 if one is damaged."""
    directory = _directory(path, pipeline)
    sound, damaged, others = 0, [], 0
    for entry in _entries(directory):
        if entry.format != FORMAT:
            others += 1
            continue
        try:
            directory.read(entry.name)
        except UnusableError as error:
            if error.reason is Miss.GONE:
                continue
            deleted = delete and directory.discard(entry.name)
            damaged.append(
                {
                    "file": entry.name,
                    "reason": error.reason.value,
                    "detail": str(error),
                    "deleted": deleted,
                }
            )
        else:
            sound += 1
    if as_json:
        click.echo(json.dumps({"sound": sound, "damaged": damaged, "other_formats": others}))
    else:
        for item in damaged:
            what = "deleted" if item["deleted"] else "damaged"
            click.echo(f"{what}: {item['file']}: {item['detail']} ({item['reason']})")
        note = f", {others} of another format left alone" if others else ""
        click.echo(f"{sound} sound, {len(damaged)} damaged{note}", err=True)
    if damaged and not delete:
        sys.exit(DAMAGED)


@cache.command()
@_where
@click.option("--limit", metavar="SIZE", help="Keep at most this much, e.g. 5GiB.")
@click.option("--older-than", metavar="AGE", help="Delete what was not used for, e.g. 7d or 12h.")
@click.option("--all", "everything", is_flag=True, help="Delete everything.")
def prune(
    path: Path | None,
    pipeline: Path | None,
    as_json: bool,
    limit: str | None,
    older_than: str | None,
    everything: bool,
) -> None:
    """Delete the least recently used snapshots, and blocks that none needs."""
    if not everything and limit is None and older_than is None:
        raise ConfigError("say what to delete: --limit SIZE, --older-than AGE, or --all")
    if everything and (limit is not None or older_than is not None):
        raise ConfigError(
            "--all deletes everything; leave it out to keep what --limit or --older-than would keep"
        )
    directory = _directory(path, pipeline)
    try:
        most = ByteSize.parse(limit) if limit is not None else 1 << 62
    except ValueError:
        raise ConfigError(f"--limit must be a size such as 5GiB, got {limit!r}") from None
    before = directory.size()
    since = None if older_than is None else time.time() - _seconds(older_than)
    try:
        dropped = directory.prune(0 if everything else most, since)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"{directory.root} cannot be pruned: {reason}") from None
    freed = before - directory.size()
    if as_json:
        click.echo(json.dumps({"deleted": len(dropped), "freed_bytes": freed}))
    else:
        click.echo(f"{len(dropped)} snapshots deleted, {_size(freed)} freed", err=True)


def _directory(path: Path | None, pipeline: Path | None) -> Directory:
    from outrider_snapshots.cache import DiskConfig, SnapshotsConfig

    if path is None and pipeline is not None:
        config = Pipeline.load(pipeline).cache.config
        if not isinstance(config, SnapshotsConfig) or config.disk is None:
            raise ConfigError(f"{pipeline}: it has no `cache: {{use: snapshots, disk: …}}`")
        path = config.disk.path
    directory = Directory(path if path is not None else DiskConfig().path)
    if not directory.blocks.is_dir():
        raise ConfigError(
            f"{directory.root} is no snapshot directory; name one with --directory, or with "
            "--pipeline a file that has `cache: {use: snapshots, disk: …}`"
        )
    return directory


def _entries(directory: Directory) -> list[Entry]:
    try:
        return directory.entries()
    except OSError as error:
        raise ConfigError(f"{directory.root} cannot be read: {error.strerror}") from None


def _describe(directory: Directory, entry: Entry) -> dict[str, Any]:
    now = time.time()
    row: dict[str, Any] = {
        "file": entry.name,
        "tokens": entry.key[0],
        "own_bytes": entry.size,
        "state_bytes": entry.size,
        "age_seconds": round(now - entry.used),
        "idle_seconds": round(now - entry.used),
        "hits": directory.hits(entry.name),
        "place": "?",
        "fingerprint": entry.fingerprint,
    }
    if entry.format == FORMAT:
        try:
            summary = directory.summary(entry.name)
        except (OSError, UnusableError):
            row["place"] = "damaged"
        else:
            row["state_bytes"] = summary.state_bytes
            row["age_seconds"] = round(now - summary.created)
            row["place"] = summary.place
    return row


def _seconds(age: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", age.strip())
    if match is None:
        raise ConfigError(f"--older-than must be an age such as 12h or 7d, got {age!r}")
    return float(match[1]) * _UNITS[match[2]]


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError


def _age(seconds: float) -> str:
    for unit, size in reversed(_UNITS.items()):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit}"
    return "0s"
