"""`outrider calibrate`: measure what steps cost, show it, keep it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from outrider import Pipeline
from outrider.cli import opened, pipeline_options
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from outrider_lengths.calibration import THOROUGH, Effort, measure
from outrider_lengths.calibration import Progress as Report
from outrider_lengths.costs import CostTable
from outrider_lengths.picture import chart, save_png, table_of
from outrider_lengths.store import Store, cost_key

MOST_ROWS = 16
_stderr = Console(stderr=True)


@click.command()
@pipeline_options
@click.option(
    "--rows",
    type=click.IntRange(2, 64),
    default=MOST_ROWS,
    show_default=True,
    help="Most verify rows to measure; never fewer than the pipeline's draft length may ask for.",
)
@click.option("--seconds", type=float, default=THOROUGH.seconds, help="Time for each part.")
@click.option("--png", type=click.Path(path_type=Path), help="Also draw a picture (bench extra).")
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON.")
def calibrate(
    pipeline: Path | None,
    model: str | None,
    overrides: tuple[str, ...],
    rows: int,
    seconds: float,
    png: Path | None,
    as_json: bool,
) -> None:
    """Measure verify rows and drafters on this machine.

    The costs of 1 to 16 verify rows and of each drafter's lengths are kept under the user's
    cache, where `measured` and `adaptive` draft lengths find them.
    """
    configured = Pipeline.load(pipeline, model=model, overrides=overrides)
    length = configured.draft_length
    rows = max(rows, length.max + length.padding + 1)
    folder: Path | None = getattr(length.config, "folder", None)
    forced = (*overrides, f"draft_length={{use: fixed, k: {rows - 1}}}")
    assembled = Pipeline.load(pipeline, model=model, overrides=forced)
    # also where the drafter proposes less: several sequences share a batch
    assembled.max_draft = rows - 1
    with opened(assembled, quiet=as_json) as ready, _progress(quiet=as_json) as report:
        table = measure(ready, rows - 1, Effort(THOROUGH.rounds, seconds), report)
        path = Store(folder).save(cost_key(ready), table)
        name = ready.model.name
    if png is not None:
        save_png(table, png, name)
    if as_json:
        click.echo(json.dumps(_json(table, path)))
        return
    console = Console()
    console.print(table_of(table, name))
    console.print(chart(table))
    if path is None:
        _stderr.print(f"not kept: {Store(folder).folder} cannot be written to", style="yellow")
    else:
        _stderr.print(f"kept in {path}", style="dim", highlight=False)


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Report]:
    columns = (TextColumn("measuring {task.description}"), BarColumn())
    show = not quiet and _stderr.is_terminal
    with Progress(*columns, console=_stderr, transient=True, disable=not show) as progress:
        task = progress.add_task("", total=1.0)
        yield lambda what, done: progress.update(task, description=what, completed=done)


def _json(table: CostTable, path: Path | None) -> dict[str, object]:
    return {
        "rows_us": [round(c, 1) for c in table.rows],
        "drafting_us": {n: [round(c, 1) for c in t] for n, t in table.drafting.items()},
        "change_us": round(table.change, 1),
        "acceptance": {n: [round(a, 3) for a in t] for n, t in table.acceptance.items()},
        "file": None if path is None else str(path),
    }
