"""`outrider compare`: two pipelines on the same tokens, as a table, JSON or a plot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import click
from rich.console import Console
from rich.table import Table

from outrider.comparison import Comparison, compare
from outrider.errors import RequestError
from outrider.hookspecs import hookimpl
from outrider.pipeline import Pipeline

PROMPTS = (
    "def binary_search(items, target):\n",
    "import json\n\nclass Settings:\n    def __init__(self, path):\n",
    "x = x + 1\ny = y + 1\nz =",
    "# Installation\n\nThe package can be installed with",
)


def read_prompts(path: Path) -> list[str]:
    """Prompts from a file: JSON lines (texts, or objects with `prompt`), else one a line."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"the prompts file {path} cannot be read: {error}") from None
    prompts = [_prompt(line, path.suffix == ".jsonl") for line in text.splitlines() if line.strip()]
    if not prompts:
        raise RequestError(f"the prompts file {path} holds no prompt")
    return prompts


def _prompt(line: str, json_lines: bool) -> str:
    if not json_lines:
        return line
    try:
        value = json.loads(line)
        return value if isinstance(value, str) else str(value["prompt"])
    except (ValueError, KeyError, TypeError):
        raise RequestError(
            f'expected a JSON text or an object with "prompt", got the line {line[:60]!r}'
        ) from None


@click.command("compare")
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option("--prompts", type=click.Path(path_type=Path), help="One prompt a line, or .jsonl.")
@click.option("-n", "--max-tokens", type=click.IntRange(min=2), default=128, show_default=True)
@click.option("--repeats", type=click.IntRange(min=1), default=3, show_default=True)
@click.option(
    "--seeds",
    type=click.IntRange(min=2),
    default=200,
    show_default=True,
    help="Seeds a prompt for the distribution of sampling pipelines.",
)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="For both.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--plot", type=click.Path(path_type=Path), help="Write a plot (needs matplotlib).")
def command(
    a: Path,
    b: Path,
    prompts: Path | None,
    max_tokens: int,
    repeats: int,
    seeds: int,
    overrides: tuple[str, ...],
    as_json: bool,
    plot: Path | None,
) -> None:
    """Run two pipeline files on the same tokens and compare them.

    Speed is measured in turns. Greedy pipelines are then compared token by token, sampling
    pipelines by the total-variation distance of short continuations.
    """
    if plot is not None:
        _pyplot()
    texts = read_prompts(prompts) if prompts is not None else list(PROMPTS)
    assembled = [Pipeline.load(path, overrides=overrides) for path in (a, b)]
    console = Console(stderr=True)
    with assembled[0].open() as first, assembled[1].open() as second:
        tokens = [tuple(first.tokenize(text)) for text in texts]
        with console.status("comparing", spinner="line") as status:
            result = compare(
                first,
                second,
                tokens,
                max_tokens=max_tokens,
                repeats=repeats,
                seeds=seeds,
                progress=status.update,
            )
        names = (_name(a), _name(b)) if _name(a) != _name(b) else (str(a), str(b))
    if plot is not None:
        _plot(result, names, plot)
    if as_json:
        click.echo(json.dumps(as_dict(result, names)))
    else:
        Console().print(table(result, names))
        click.echo(verdict(result))


def _name(path: Path) -> str:
    return path.stem


def as_dict(result: Comparison, names: tuple[str, str]) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "pipelines": [
            {"name": name, "median_tokens_per_second": speed.median, **attrs.asdict(speed)}
            for name, speed in zip(names, result.speeds, strict=True)
        ],
        "speed_ratio": round(result.speeds[1].median / result.speeds[0].median, 4),
        "divergences": attrs.asdict(result.divergences) if result.divergences else None,
        "distance": attrs.asdict(result.distance) if result.distance else None,
    }


def table(result: Comparison, names: tuple[str, str]) -> Table:
    """Speed and acceptance, one column a pipeline."""
    found = Table(box=None, pad_edge=False)
    found.add_column("")
    for name in names:
        found.add_column(name, justify="right")
    rows: list[tuple[str, list[str]]] = [
        ("tokens/s, median", [f"{s.median:.1f}" for s in result.speeds]),
        (
            "  of repeats",
            [f"{min(s.tokens_per_second):.1f} … {max(s.tokens_per_second):.1f}"
             for s in result.speeds],
        ),
        ("acceptance", [f"{s.acceptance:.1%}" for s in result.speeds]),
        (
            "  by position",
            [" ".join(f"{p:.2f}" for p in s.acceptance_by_position) or "–" for s in result.speeds],
        ),
        ("mean accepted length", [f"{s.mean_accepted_length:.2f}" for s in result.speeds]),
    ]  # fmt: skip
    for label, cells in rows:
        found.add_row(label, *cells)
    return found


def verdict(result: Comparison) -> str:
    """Whether the text is the same, in a sentence or two."""
    lines = [f"speed: {result.speeds[1].median / result.speeds[0].median:.2f} × the first"]
    if result.divergences is not None:
        d = result.divergences
        lines.append(f"greedy text: {d.identical} of {d.prompts} outputs are the same")
        lines += [
            f"  prompt {e['prompt'] + 1}: parts at token {e['index']}, logit gap {e['gap']:.3f}"
            + (" (a near tie: rounding)" if e["near_tie"] else " (NOT a near tie)")
            for e in d.found
        ]
    if result.distance is not None:
        d = result.distance
        lines.append(
            f"distribution: total-variation distance {d.between:.3f}, noise floor "
            f"{d.noise_floor:.3f} ({d.seeds} seeds a prompt)"
        )
    return "\n".join(lines)


def _pyplot() -> Any:
    try:
        import matplotlib  # pyright: ignore[reportMissingImports]

        matplotlib.use("Agg")  # pyright: ignore[reportUnknownMemberType]
        from matplotlib import pyplot  # pyright: ignore
    except ImportError:
        raise RequestError("--plot needs matplotlib: pip install 'outrider[bench]'") from None
    return pyplot  # pyright: ignore[reportUnknownVariableType]


def _plot(result: Comparison, names: tuple[str, str], path: Path) -> None:
    """Speed with every repeat as a dot, and acceptance by position."""
    figure, (left, right) = _pyplot().subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    for i, speed in enumerate(result.speeds):
        left.bar(i, speed.median, color=f"C{i}", alpha=0.7)
        left.plot([i] * len(speed.tokens_per_second), speed.tokens_per_second, "k.")
        positions = range(1, len(speed.acceptance_by_position) + 1)
        right.plot(positions, speed.acceptance_by_position, "o-", label=names[i])
    left.set_xticks((0, 1), names)
    left.set_ylabel("tokens/s")
    right.set_xlabel("draft position")
    right.set_ylabel("acceptance")
    right.set_ylim(0, 1)
    right.legend()
    figure.suptitle(verdict(result).splitlines()[1], fontsize=9)
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise RequestError(f"the plot {path} cannot be written: {error}") from None


@hookimpl
def outrider_commands(group: click.Group) -> None:
    """Add `compare`."""
    group.add_command(command)
