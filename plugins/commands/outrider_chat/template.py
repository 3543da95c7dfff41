"""`outrider template render` and `outrider template parse`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import attrs
import click
from outrider import ChatTemplate, ComponentSpec, Pipeline, Prompt, RequestError
from outrider.chat import read_json
from outrider.cli import pipeline_options

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.group()
def template() -> None:
    """Render conversations and read answers, without running a model."""


def _options(command: Any) -> Any:
    for option in (
        click.option("--images", is_flag=True, help="Let image and video parts through."),
        click.option(
            "--template", "file", type=_FILE, help="Template file instead of the model's own."
        ),
        pipeline_options,
        click.option(
            "--request", type=_FILE, required=True, help="An OpenAI-shaped request body (JSON)."
        ),
    ):
        command = option(command)
    return command


@template.command()
@_options
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but the prompt.")
def render(
    request: Path,
    pipeline: Path | None,
    model: str | None,
    overrides: tuple[str, ...],
    file: Path | None,
    images: bool,
    quiet: bool,
) -> None:
    """Print the prompt of a request; exit code 2 and the reason when it must be refused."""
    body = _body(request)
    chosen = _template(Pipeline.load(pipeline, model=model, overrides=overrides), file, images)
    prompt = chosen.render(body)
    if not quiet:
        rendering = chosen.statistics().get("rendering", "")
        click.echo(f"template {chosen.name}: {rendering}".rstrip(": "), err=True)
        for note in prompt.notes:
            click.echo(f"note: {note}", err=True)
    click.echo(prompt.text.encode(), nl=False)


@template.command()
@_options
@click.option("--text-file", type=_FILE, required=True, help="What the model wrote.")
def parse(
    request: Path,
    pipeline: Path | None,
    model: str | None,
    overrides: tuple[str, ...],
    file: Path | None,
    images: bool,
    text_file: Path,
) -> None:
    """Print what a model's answer to a request contains, as JSON.

    The request needs no messages here. `enable_thinking` on top level tells whether the answer
    starts inside a thinking block; without it the rendered prompt decides.
    """
    body = dict(_body(request))
    body.setdefault("messages", [{"role": "user", "content": ""}])
    thinking = body.pop("enable_thinking", None)
    chosen = _template(Pipeline.load(pipeline, model=model, overrides=overrides), file, images)
    prompt = Prompt("", 0, thinking) if isinstance(thinking, bool) else chosen.render(body)
    parser = chosen.parser(body, prompt)
    parser.feed(_read(text_file).decode(errors="replace"))
    parser.finish()
    click.echo(json.dumps(parser.message.to_json(), ensure_ascii=False, indent=2))


def _body(path: Path) -> Mapping[str, Any]:
    body: Any = read_json(_read(path), f"{path}")
    if not isinstance(body, Mapping):
        raise RequestError(f"{path} must hold a JSON object")
    return cast("Mapping[str, Any]", body)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RequestError(f"the file {path} cannot be read: {error.strerror}") from None


def _template(pipeline: Pipeline, file: Path | None, images: bool) -> ChatTemplate:
    """The pipeline's template, or the first installed one that renders `file`."""
    if file is None and not images:
        if pipeline.template is None:
            raise RequestError(f"{pipeline.model.name} has no chat template that can be rendered")
        return pipeline.template
    wanted = {"file": None if file is None else str(file.resolve()), "images": images}
    reasons: list[str] = []
    entries = [e for e in pipeline.registry.entries("template") if _has(e.cls.Config, wanted)]
    for entry in sorted(entries, key=lambda e: e.cls.cost):
        built = pipeline.build("template", ComponentSpec(entry.name, entry.cls.Config(**wanted)))
        reason = built.unsupported_reason(pipeline.model)
        if reason is None:
            return built
        reasons.append(f"{entry.name}: {reason}")
    raise RequestError("no template plugin can render this: " + "; ".join(reasons))


def _has(config: type[Any], options: Mapping[str, Any]) -> bool:
    return set(options) <= {f.name for f in attrs.fields(config)}
