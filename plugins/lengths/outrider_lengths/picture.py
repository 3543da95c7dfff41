"""Measured costs as a table, as bars, and as a picture."""

from __future__ import annotations

from pathlib import Path

from outrider import ConfigError
from rich.table import Table
from rich.text import Text

from outrider_lengths.costs import CostTable
from outrider_lengths.gain import chances

_WIDTH = 48


def table_of(table: CostTable, title: str) -> Table:
    """One line a number of verify rows."""
    shown = Table(title=f"{title}: cost of a step", box=None, pad_edge=False, title_justify="left")
    for column in ("rows", "verify ms", "ms a row"):
        shown.add_column(column, justify="right")
    for name in table.drafting:
        shown.add_column(f"{name} ms", justify="right")
        shown.add_column("pays above", justify="right")
    plain = table.rows[0]
    for i, cost in enumerate(table.rows):
        cells = [str(i + 1), _ms(cost), _ms(cost / (i + 1))]
        for costs in table.drafting.values():
            if i < len(costs):
                needed = (cost + costs[i]) / plain
                cells += [_ms(costs[i]), f"{needed:.2f}" if i else ""]
            else:
                cells += ["", ""]
        shown.add_row(*cells)
    lines = [
        "pays above: tokens a step that make up for drafting and verifying",
        f"another number of rows than the step before costs {_ms(table.change)} ms more",
    ]
    for name, rates in table.acceptance.items():
        if rates:
            expected = " ".join(f"{c:.2f}" for c in chances(rates))
            lines.append(f"{name}: chance that draft i and all before it hold: {expected}")
    shown.caption = "\n".join(lines)
    shown.caption_justify = "left"
    return shown


def chart(table: CostTable) -> Text:
    """Bars of the verify cost; where one is shorter than the one above, a row is free."""
    most = max(table.rows)
    text = Text()
    for i, cost in enumerate(table.rows):
        cheaper = i > 0 and cost < table.rows[i - 1]
        bar = "█" * max(1, round(_WIDTH * cost / most))
        text.append(f"{i + 1:>3} ")
        text.append(bar, style="green" if cheaper else "cyan")
        text.append(f" {_ms(cost)}\n")
    return text


def save_png(table: CostTable, path: Path, title: str) -> None:
    """The same as a PNG. Raises ConfigError without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError(
            "--png needs matplotlib; install the bench extra: pip install 'outrider[bench]'"
        ) from None
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    rows = range(1, len(table.rows) + 1)
    axes.plot(rows, [c / 1e3 for c in table.rows], marker="o", label="verify rows")
    for name, costs in table.drafting.items():
        total = [(d + c) / 1e3 for d, c in zip(costs, table.rows, strict=False)]
        axes.plot(range(1, len(total) + 1), total, marker=".", label=f"… and {name} drafts")
    axes.set_xlabel("verify rows (1 + drafts)")
    axes.set_ylabel("ms a step")
    axes.set_title(title)
    axes.set_xticks(list(rows))
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=150)


def _ms(us: float) -> str:
    return f"{us / 1e3:.2f}"
