"""The `outrider` command line. Machine output goes to stdout, everything else to stderr."""

from __future__ import annotations

import io
import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from outrider.errors import ConfigError, OutriderError, RequestError
from outrider.pipeline import Pipeline
from outrider.plugins import KINDS, installed
from outrider.schema import pipeline_schema
from outrider.sequence import Request
from outrider.settings import raise_problems, read_config, read_document, registry_for

FAILURE = 1
USAGE_ERROR = 2
_stderr = Console(stderr=True)


class Group(click.Group):
    """Shows Outrider's own errors as one message, without a traceback, with exit code 2."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line."""
        try:
            return super().main(*args, **kwargs)
        except OutriderError as error:
            click.echo(f"outrider: {error}", err=True)
            sys.exit(USAGE_ERROR)
        except OSError as error:
            # a full disk behind standard output, say; click takes care of a closed pipe
            click.echo(f"outrider: {error}", err=True)
            sys.exit(FAILURE)


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="outrider")
@click.option("-v", "--verbose", count=True, help="Show log lines (twice: llama.cpp's too).")
def cli(verbose: int) -> None:
    """Composable speculative decoding for hybrid language models on llama.cpp."""
    if verbose:
        level = logging.DEBUG if verbose > 1 else logging.INFO
        logging.basicConfig(level=level, format="%(levelname)s %(name)s: %(message)s")
        if verbose == 1:
            logging.getLogger("outrider.llama").setLevel(logging.WARNING)


def pipeline_options(command: Any) -> Any:
    """The options of every command that runs a pipeline."""
    for option in (
        click.option(
            "--set",
            "overrides",
            multiple=True,
            metavar="KEY=VALUE",
            help="Override a value of the pipeline file, e.g. drafter.use=none.",
        ),
        click.option("-m", "--model", metavar="GGUF", help="Model file or packaged name."),
        click.option(
            "-p",
            "--pipeline",
            type=click.Path(path_type=Path, dir_okay=False),
            help="Pipeline file; without one the built-in pipeline runs.",
        ),
    ):
        command = option(command)
    return command


@contextmanager
def opened(pipeline: Pipeline, *, quiet: bool = False) -> Iterator[Pipeline]:
    """The pipeline, opened, with a progress bar while the weights load."""
    show = not quiet and _stderr.is_terminal
    columns = (TextColumn("loading {task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=_stderr, transient=True, disable=not show) as progress:
        task = progress.add_task(pipeline.model.name, total=1.0)
        pipeline.open(lambda done: progress.update(task, completed=done))
    with pipeline:
        yield pipeline


@cli.command()
@click.argument("prompt", required=False)
@pipeline_options
@click.option(
    "--prompt-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Read the prompt from a file.",
)
@click.option("-n", "--max-tokens", type=click.IntRange(min=1), default=256, show_default=True)
@click.option("--stop", multiple=True, help="End at this text (may be given several times).")
@click.option("--seed", type=int, help="Seed of the sampler.")
@click.option("--raw", is_flag=True, help="No chat template: continue the text as it is.")
@click.option("--ignore-eog", is_flag=True, help="Go on after end-of-generation tokens.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
@click.option("--trace", type=click.Path(path_type=Path), help="Write one JSON line a step.")
@click.option("-q", "--quiet", is_flag=True, help="No plan and no summary.")
def generate(
    prompt: str | None,
    pipeline: Path | None,
    model: str | None,
    overrides: tuple[str, ...],
    prompt_file: Path | None,
    max_tokens: int,
    stop: tuple[str, ...],
    seed: int | None,
    raw: bool,
    ignore_eog: bool,
    as_json: bool,
    trace: Path | None,
    quiet: bool,
) -> None:
    """Generate text. PROMPT is a text, or - for standard input."""
    text = _prompt_text(prompt, prompt_file)
    if not text:
        raise RequestError("the prompt is empty: there is nothing to continue")
    assembled = Pipeline.load(pipeline, model=model, overrides=overrides)
    if trace is not None:
        assembled.trace(trace)
    sampling = {} if seed is None else {"seed": seed}
    if sampling:
        assembled.sampler.settings(sampling)  # an option it has not, before weights are loaded
    with opened(assembled, quiet=quiet) as ready:
        if not quiet:
            _stderr.print(_plan_line(ready.plan()), style="dim", highlight=False)
        request = _request(ready, text, raw)
        request = Request(
            prompt=request.prompt,
            history=request.history,
            max_tokens=max_tokens,
            stop=stop,
            sampling=sampling,
            ignore_eog=ignore_eog,
        )
        result = ready.run(request, None if as_json else _write)
        if as_json:
            answer: dict[str, Any] = {
                "text": result.text,
                "token_ids": result.token_ids,
                "prompt_token_ids": result.prompt_token_ids,
                "finish_reason": result.finish_reason,
                "finish_detail": result.finish_detail,
                "stats": result.stats,
            }
            if result.logprobs:
                answer["logprobs"] = [attrs.asdict(entry) for entry in result.logprobs]
            click.echo(json.dumps(answer))
            return
        click.echo()
        if not quiet:
            _summary(result.finish_detail, result.stats)


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plugins(as_json: bool) -> None:
    """List what is installed: kinds, names, and where each comes from."""
    registry = installed()
    if as_json:
        click.echo(
            json.dumps(
                {
                    "components": [
                        {
                            "kind": e.kind,
                            "name": e.name,
                            "class": f"{e.cls.__module__}.{e.cls.__qualname__}",
                            "plugin": e.source.plugin,
                            "distribution": e.source.distribution,
                            "version": e.source.version,
                        }
                        for e in registry.entries()
                    ],
                    "models": {name: str(path) for name, path in registry.models().items()},
                    "failures": [
                        {"plugin": str(f.source), "reason": f.reason} for f in registry.failures
                    ],
                }
            )
        )
        return
    table = Table(box=None, pad_edge=False)
    for column in ("kind", "name", "what it is", "from"):
        table.add_column(column, no_wrap=column in ("kind", "name"))
    for entry in registry.entries():
        what = (entry.cls.__doc__ or "").strip().splitlines()
        cells = (entry.kind, entry.name, what[0] if what else "", str(entry.source))
        table.add_row(*map(escape, cells))
    for name, path in registry.models().items():
        table.add_row("model", name, path.name, "")
    Console().print(table)
    for failure in registry.failures:
        click.echo(f"not loaded: {failure.source}: {failure.reason}", err=True)


@cli.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE")
def check(file: Path, overrides: tuple[str, ...]) -> None:
    """Check a pipeline file; print every problem, exit code 2 if there is one."""
    document = read_document(file)
    for assignment in overrides:
        document.set(assignment)
    registry = registry_for(document)
    config = read_config(document, registry)
    raise_problems(document.problems)
    assert config is not None
    pipeline = Pipeline(config, registry)
    click.echo(
        f"{file}: fine. {pipeline.model.name}, drafter {pipeline.drafter.name} "
        f"(up to {pipeline.max_draft}), rollback {pipeline.rollbacks[0].name}"
    )


@cli.command()
@click.option("-p", "--pipeline", type=click.Path(path_type=Path), help="Include its plugins.")
def schema(pipeline: Path | None) -> None:
    """Print a JSON Schema of pipeline files, with the options of every installed plugin."""
    registry = installed() if pipeline is None else registry_for(read_document(pipeline))
    click.echo(json.dumps(pipeline_schema(registry, KINDS), indent=2))


def main() -> None:
    """Entry point of the `outrider` script."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # a terminal that cannot show a character gets its number, instead of ending us
            stream.reconfigure(errors="backslashreplace")
    try:
        installed().add_commands(cli)
    except OutriderError as error:
        click.echo(f"outrider: {error}", err=True)
        sys.exit(USAGE_ERROR)
    cli()


def _prompt_text(prompt: str | None, file: Path | None) -> str:
    if file is not None:
        if prompt is not None:
            raise RequestError("give either PROMPT or --prompt-file, not both")
        try:
            data = file.read_bytes()
        except OSError as error:
            raise RequestError(f"the prompt file {file} cannot be read: {error.strerror}") from None
        return _decoded(data, str(file))
    if prompt == "-":
        return _decoded(sys.stdin.buffer.read(), "standard input")
    if prompt is None:
        raise RequestError("no prompt: give a text, - for standard input, or --prompt-file")
    return _decoded(os.fsencode(prompt), "the prompt")


def _decoded(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RequestError(
            f"{where} is not UTF-8 text: byte {error.start} is {data[error.start]:#04x}; "
            "convert it, for example with iconv"
        ) from None


def _request(pipeline: Pipeline, text: str, raw: bool) -> Request:
    """The prompt as tokens: through the chat template unless `raw`."""
    if raw or pipeline.template is None:
        return Request(prompt=pipeline.tokenize(text))
    prompt = pipeline.template.render({"messages": [{"role": "user", "content": text}]})
    history = pipeline.tokenize(prompt.text[: prompt.history])
    return Request(prompt=pipeline.tokenize(prompt.text), history=len(history))


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _plan_line(plan: dict[str, Any]) -> str:
    memory = ", ".join(
        f"{name.replace('_', ' ')} {size / 2**20:.1f} MiB"
        for name, size in plan["memory"].items()
        if size
    )
    return (
        f"{plan['model']}: drafter {plan['drafter']} (k ≤ {plan['max_draft']}, "
        f"{plan['draft_length']}), sampler {plan['sampler']}, rollback {plan['rollback']}, "
        f"cache {plan['cache']}; {memory}"
    )


def _summary(finish: str, stats: Any) -> None:
    time = stats["time"]
    lines = [
        f"{stats['tokens_per_second']:.1f} tokens/s, "
        f"{stats['mean_accepted_length']:.2f} tokens a step ({stats['steps']} steps); {finish}"
    ]
    if stats["acceptance_by_position"]:
        positions = " ".join(f"{a:.2f}" for a in stats["acceptance_by_position"])
        lines.append(f"acceptance {stats['acceptance']:.1%}; by position {positions}")
        drafters = ", ".join(
            f"{name} {d['accepted']}/{d['proposed']}" for name, d in stats["drafters"].items()
        )
        lines.append(f"accepted/proposed: {drafters}")
    lines.append(
        f"prompt {stats['prompt_tokens']} tokens ({stats['cached_tokens']} cached) in "
        f"{stats['prefill_ms']:.1f} ms; draft {time['draft_ms']:.1f} ms, verify "
        f"{time['verify_ms']:.1f} ms, sample {time['sample_ms']:.1f} ms, overhead "
        f"{time['overhead_us_per_step']:.0f} µs a step"
    )
    for line in lines:
        _stderr.print(line, style="dim", highlight=False)


__all__ = ["ConfigError", "cli", "main", "opened", "pipeline_options"]
