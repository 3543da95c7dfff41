"""Tables and plots from a benchmark's raw JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from bench.measure import rate, run_rate
from bench.statistics import geometric_mean, spread


@attrs.frozen
class Row:
    """One engine in one sampling mode."""

    label: str
    families: Mapping[str, float]
    """Tokens a second by family."""
    mean: float
    """Mean over the families of tokens a second."""
    ratio: float | None
    """Geometric mean over the families of the ratio to the engine that is compared with."""
    processor_ms: float | None
    """Processor time a token, prefill included, mean over the families; None when not measured."""
    accepted: float | None
    """Accepted share of the drafted tokens."""
    length: float | None
    """Mean draft length verified, over all steps; None for engines that do not tell."""


def family_rates(by_prompt: Mapping[str, Sequence[dict[str, Any]]]) -> dict[str, float]:
    """Tokens a second by family: the tokens of all its prompts over the time of median runs."""
    tokens: dict[str, float] = {}
    seconds: dict[str, float] = {}
    for name, entries in by_prompt.items():
        median = rate(entries)
        if not entries or median == 0:
            continue
        family = name.split("/")[0]
        count = sum(e["count"] - 1 for e in entries) / len(entries)
        tokens[family] = tokens.get(family, 0.0) + count
        seconds[family] = seconds.get(family, 0.0) + count / median
    return {family: tokens[family] / seconds[family] for family in tokens}


def rows(record: Mapping[str, Any], sampling: str, baseline: str | None) -> list[Row]:
    """One row an engine; ratios to `baseline`, an engine's label."""
    by_engine = record["runs"][sampling]
    base = family_rates(by_engine[baseline]) if baseline in by_engine else None
    found: list[Row] = []
    for label, by_prompt in by_engine.items():
        rates = family_rates(by_prompt)
        if not rates:
            continue
        entries = [e for runs in by_prompt.values() for e in runs]
        proposed = sum(e.get("proposed", 0) for e in entries)
        accepted = sum(e.get("accepted", 0) for e in entries)
        steps = sum(e.get("steps", 0) for e in entries)
        ratio = geometric_mean(rates[f] / base[f] for f in rates if f in base) if base else None
        found.append(
            Row(
                label,
                rates,
                sum(rates.values()) / len(rates),
                ratio,
                _processor_ms(by_prompt),
                accepted / proposed if proposed else None,
                proposed / steps if steps and proposed else None,
            )
        )
    return found


def _processor_ms(by_prompt: Mapping[str, Sequence[dict[str, Any]]]) -> float | None:
    families: dict[str, list[float]] = {}
    for name, entries in by_prompt.items():
        if not entries or any("cpu_ms" not in e for e in entries):
            return None
        cost = spread(e["cpu_ms"] / e["count"] for e in entries).median
        families.setdefault(name.split("/")[0], []).append(cost)
    means = [sum(costs) / len(costs) for costs in families.values()]
    return sum(means) / len(means) if means else None


def baseline_of(record: Mapping[str, Any]) -> str | None:
    """Label of llama-server, without speculation if that was measured, else the first engine."""
    labels = list(next(iter(record["runs"].values()), {}))
    peers = [label for label in labels if label.startswith("llama-server ")]
    return next((x for x in ("llama-server plain", *peers, *labels) if x in labels), None)


def markdown(record: Mapping[str, Any]) -> str:
    """A table for each sampling mode, and a sentence about divergences."""
    baseline = baseline_of(record)
    parts: list[str] = []
    for sampling in record["runs"]:
        table = rows(record, sampling, baseline)
        families = list(table[0].families) if table else []
        head = [sampling, *families, "mean", f"ratio to {baseline}", "CPU ms a token"]
        head += ["accepted", "drafted a step"]
        lines = [_line(head), _line(["---", *["---:"] * (len(head) - 1)])]
        for row in table:
            lines.append(
                _line(
                    [
                        row.label,
                        *(f"{row.families[f]:.0f}" for f in families),
                        f"{row.mean:.0f}",
                        "" if row.ratio is None else f"{row.ratio:.2f}",
                        "" if row.processor_ms is None else f"{row.processor_ms:.2f}",
                        "" if row.accepted is None else f"{row.accepted:.0%}",
                        "" if row.length is None else f"{row.length:.1f}",
                    ]
                )
            )
        parts.append("\n".join(lines))
    parts.append(divergence_sentence(record))
    return "\n\n".join(part for part in parts if part) + "\n"


def pairs(records: Mapping[str, Mapping[str, Any]]) -> str:
    """One line for each comparison of an outrider pipeline with one mode of llama-server.

    The ratio compares run with run, not median with median: runs differ in their seed, and so in
    what is accepted.
    """
    head = ["comparison", "sampling", "outrider", "llama-server", "ratio, run by run", "accepted"]
    lines = [_line(head), _line(["---", "---", "---:", "---:", "---:", "---:"])]
    for ours, theirs, sampling, record in _compared(records):
        a, b = record["runs"][sampling][ours], record["runs"][sampling][theirs]
        proposed = sum(e.get("proposed", 0) for runs in a.values() for e in runs)
        accepted = sum(e.get("accepted", 0) for runs in a.values() for e in runs)
        names = f"{ours.split(' ', 1)[1]} and {theirs.split(' ', 1)[1]}"
        rates = [f"{overall_rate(a):.0f}", f"{overall_rate(b):.0f}", f"{run_by_run(a, b):.2f}"]
        share = f"{accepted / proposed:.0%}" if proposed else ""
        lines.append(_line([names, sampling, *rates, share]))
    return "\n".join(lines) + "\n"


def _compared(
    records: Mapping[str, Mapping[str, Any]],
) -> Iterator[tuple[str, str, str, Mapping[str, Any]]]:
    """Labels of a pipeline and the one mode of llama-server it was run with, sampling, record."""
    for record in records.values():
        for sampling, by_engine in record["runs"].items():
            ours = [label for label in by_engine if label.startswith("outrider ")]
            theirs = [label for label in by_engine if label.startswith("llama-server ")]
            if len(theirs) == 1:
                for label in ours:
                    yield label, theirs[0], sampling, record


def overall_rate(by_prompt: Mapping[str, Sequence[dict[str, Any]]]) -> float:
    """Tokens a second over all runs of all prompts together."""
    entries = [e for runs in by_prompt.values() for e in runs]
    return 1e3 * sum(e["count"] - 1 for e in entries) / sum(e["decode_ms"] for e in entries)


def run_by_run(
    ours: Mapping[str, Sequence[dict[str, Any]]], theirs: Mapping[str, Sequence[dict[str, Any]]]
) -> float:
    """Geometric mean over prompts of the median ratio of runs that took turns."""
    return geometric_mean(
        spread(run_rate(a) / run_rate(b) for a, b in zip(entries, theirs[name], strict=True)).median
        for name, entries in ours.items()
    )


def lengths(records: Mapping[str, Mapping[str, Any]]) -> str:
    """`adaptive` beside the best fixed length and the best mode of llama-server, by drafter.

    The best are those with most tokens a second over all runs, the ratios run by run.
    """
    head = ["drafter", "sampling", "adaptive", "drafts a step", "best fixed length", "tokens/s"]
    head += ["ratio", "llama-server's best mode", "tokens/s", "ratio"]
    lines = [_line(head), _line(["---", "---", "---:", "---", *["---", "---:", "---:"] * 2])]
    for name, record in records.items():
        for sampling, by_engine in record["runs"].items():
            ours = {label: runs for label, runs in by_engine.items() if "adaptive" in label}
            theirs = {k: runs for k, runs in by_engine.items() if k.startswith("llama-server ")}
            fixed = {k: runs for k, runs in by_engine.items() if k not in ours | theirs}
            (own,) = ours.values()
            cells = [name, sampling, f"{overall_rate(own):.0f}", _chosen(own)]
            for others in (fixed, theirs):
                label = max(others, key=lambda k: overall_rate(others[k]))
                best = others[label]
                shown = label.split(" ", 1)[1].removeprefix(f"{name}+").replace("draft_length.", "")
                cells += [shown.replace("+", ", "), f"{overall_rate(best):.0f}"]
                cells.append(f"{run_by_run(own, best):.2f}")
            lines.append(_line(cells))
    return "\n".join(lines) + "\n"


def _chosen(by_prompt: Mapping[str, Sequence[dict[str, Any]]]) -> str:
    """The draft lengths of a twentieth of the steps or more, with their shares."""
    counts: dict[int, int] = {}
    for entry in (e for runs in by_prompt.values() for e in runs):
        for length, steps in entry["draft_lengths"].items():
            counts[int(length)] = counts.get(int(length), 0) + steps
    total = sum(counts.values())
    often = {k: steps / total for k, steps in sorted(counts.items()) if steps >= total / 20}
    return ", ".join(f"{k}: {share:.0%}" for k, share in often.items())


STAGES = ("draft", "verify", "sample", "the rest", "loop's own time")


def stages(record: Mapping[str, Any], sampling: str) -> str:
    """Where a step's time goes, for every outrider pipeline: medians over all runs, in µs."""
    head = ["pipeline", "tokens a step", *STAGES]
    lines = [_line(head), _line(["---", *["---:"] * (len(head) - 1)])]
    for label, by_prompt in record["runs"][sampling].items():
        found = _stage_times(by_prompt)
        if found:
            tokens, *times = found
            lines.append(_line([label, f"{tokens:.2f}", *(f"{t:.0f}" for t in times)]))
    return "\n".join(lines) + "\n"


def _stage_times(by_prompt: Mapping[str, Sequence[dict[str, Any]]]) -> list[float]:
    """Tokens a step, then `STAGES`; nothing for engines that do not tell."""
    parts: list[list[float]] = []
    for e in (e for runs in by_prompt.values() for e in runs if e.get("steps")):
        time, steps = e["time"], e["steps"]
        known = [time[f"{part}_ms"] for part in ("draft", "verify", "sample")]
        per_step = [1e3 * ms / steps for ms in (*known, time["step_ms"] - sum(known))]
        parts.append([(e["count"] - 1) / steps, *per_step, time["overhead_us_per_step"]])
    return [spread(column).median for column in zip(*parts, strict=True)]


def pair_stages(records: Mapping[str, Mapping[str, Any]]) -> str:
    """Stages of each compared pipeline, whole steps, and llama-server's time for as many tokens."""
    head = ["pipeline", "sampling", "tokens a step", *STAGES, "a step", "llama-server's step"]
    lines = [_line(head), _line(["---", "---", *["---:"] * (len(head) - 2)])]
    for ours, theirs, sampling, record in _compared(records):
        mine, peer = record["runs"][sampling][ours], record["runs"][sampling][theirs]
        tokens, *times = _stage_times(mine)
        both = [
            (a, b) for name, runs in mine.items() for a, b in zip(runs, peer[name], strict=True)
        ]
        step = spread(1e3 * a["decode_ms"] / a["steps"] for a, _ in both).median
        # what is accepted is the same in both, so is the number of steps
        other = spread(
            1e3 * b["decode_ms"] / (b["count"] - 1) * (a["count"] - 1) / a["steps"] for a, b in both
        ).median
        cells = [f"{t:.0f}" for t in (*times, step, other)]
        lines.append(_line([ours.split(" ", 1)[1], sampling, f"{tokens:.2f}", *cells]))
    return "\n".join(lines) + "\n"


def costs(records: Mapping[str, Mapping[str, Any]]) -> str:
    """Tables of `scripts/engine_costs.py`: verify rows, drafts, ways to undo rows."""
    parts: list[str] = []
    for title, key in (
        ("c(r): rows verified, argmax of each read", "verify_ms"),
        ("c(r), argmax on the host", "verify_host_argmax_ms"),
        ("c(r), logits copied only", "verify_with_logits_ms"),
        ("d(k): tokens drafted", "draft_ms"),
    ):
        counts = sorted({int(n) for record in records.values() for n in record.get(key, ())})
        if not counts:
            continue
        lines = [_line([title, *map(str, counts)]), _line(["---", *["---:"] * len(counts)])]
        for name, record in records.items():
            found = [record[key].get(str(n)) for n in counts]
            lines.append(_line([name, *("" if f is None else f"{f['median']:.1f}" for f in found)]))
        parts.append("\n".join(lines))
    ways = {
        "device_recurrent": "recurrent state on the device",
        "host_recurrent": "recurrent state on the host",
        "host_whole": "whole state on the host",
    }
    head = ["undoing", "ring", *(f"{way}: save, load" for way in ways.values())]
    lines = [_line(head), _line(["---", *["---:"] * (len(head) - 1)])]
    for name, record in records.items():
        undo = record["undo_ms"]
        ring = "" if undo["ring"] is None else f"{undo['ring']['median']:.3f}"
        cells = [
            ""
            if undo[way] is None
            else f"{undo[way]['save']['median']:.1f}, {undo[way]['load']['median']:.1f}"
            for way in ways
        ]
        lines.append(_line([name, ring, *cells]))
    return "\n\n".join([*parts, "\n".join(lines)]) + "\n"


def second_turns(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Time to first token of second turns (`scripts/ttft_bench.py`, `peer_ttft.py`), in ms."""
    keys = ("cold_ms", "live_ms", "cached_ms", "ram_ms", "disk_ms")
    head = ["engine", "prompt tokens", "cold", "live", "cached", "from RAM", "from disk"]
    lines = [_line(head), _line(["---", *["---:"] * (len(head) - 1)])]
    for name, result in found.items():
        cells = ["" if result.get(key) is None else f"{result[key]:.0f}" for key in keys]
        lines.append(_line([name.split()[0], str(result["prompt_tokens"]), *cells]))
    return "\n".join(lines) + "\n"


def divergence_sentence(record: Mapping[str, Any]) -> str:
    """How often greedy tokens were those of plain decoding, and how near the ties were."""
    by_engine = record["runs"].get("greedy")
    if not by_engine or record["settings"].get("synthetic"):
        return ""  # tokens accepted at random are nobody's
    compared = sum(
        1
        for by_prompt in by_engine.values()
        for entries in by_prompt.values()
        if entries and ("tokens" in entries[0] or "same_as_reference" in entries[0])
    )
    found = record["divergences"]
    if not found:
        return f"All {compared} greedy token lists that were compared are the same."
    gaps = [abs(d["gap"]) for d in found if d["gap"] is not None]
    text = f"Of {compared} greedy token lists, {len(found)} differ from plain decoding somewhere"
    if gaps:
        text += f"; the largest logit gap at a first difference is {max(gaps):.3f}"
    return text + "."


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def plot(record: Mapping[str, Any], path: Path) -> None:
    """Bars of tokens a second by family and engine, one picture a sampling mode."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    modes = list(record["runs"])
    figure, axes = plt.subplots(len(modes), 1, figsize=(11, 4.2 * len(modes)), squeeze=False)
    for axis, sampling in zip(axes[:, 0], modes, strict=True):
        table = rows(record, sampling, baseline_of(record))
        families = list(table[0].families)
        width = 0.8 / len(table)
        for i, row in enumerate(table):
            places = [f + (i - len(table) / 2) * width for f in range(len(families))]
            axis.bar(places, [row.families[f] for f in families], width, label=row.label)
        axis.set_xticks(range(len(families)), families)
        axis.set_ylabel("tokens/s")
        axis.set_title(sampling)
        axis.legend(fontsize="x-small", ncols=3)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
