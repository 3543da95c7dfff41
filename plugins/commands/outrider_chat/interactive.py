"""`outrider chat`: a conversation in the terminal."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from outrider import OutriderError, Pipeline
from outrider.chat import CallFinished, ContentDelta, ReasoningDelta
from outrider.cli import opened, pipeline_options

HELP = "/reset forgets the conversation, /stats shows the last answer's numbers, /quit leaves."


@click.command()
@pipeline_options
@click.option("-s", "--system", help="System message.")
@click.option("-n", "--max-tokens", type=click.IntRange(min=1), help="Most tokens of an answer.")
@click.option("--effort", help="Reasoning effort.")
@click.option("--budget", type=click.IntRange(min=0), help="Most thinking tokens of an answer.")
@click.option("--hide-thinking", is_flag=True, help="Show the answer only.")
def chat(
    pipeline: Path | None,
    model: str | None,
    overrides: tuple[str, ...],
    system: str | None,
    max_tokens: int | None,
    effort: str | None,
    budget: int | None,
    hide_thinking: bool,
) -> None:
    """Talk to a model. Ctrl-C stops an answer, Ctrl-D leaves."""
    wishes: dict[str, Any] = {"max_tokens": max_tokens, "reasoning_effort": effort}
    if budget is not None:
        wishes["reasoning"] = {"budget": budget}
    wishes = {name: value for name, value in wishes.items() if value is not None}
    assembled = Pipeline.load(pipeline, model=model, overrides=overrides)
    with opened(assembled) as ready:
        conversation = Conversation(ready, system, wishes, hide_thinking)
        rendering = ready.template.statistics().get("rendering", "") if ready.template else ""
        click.secho(f"{ready.model.name}, template: {rendering}\n{HELP}", dim=True, err=True)
        for line in _lines():
            conversation.enter(line)
            if conversation.over:
                break


class Conversation:
    """The turns so far, and what the commands do to them."""

    def __init__(
        self, pipeline: Pipeline, system: str | None, wishes: dict[str, Any], hide_thinking: bool
    ) -> None:
        self._pipeline = pipeline
        self._start = [{"role": "system", "content": system}] if system else []
        self._wishes = wishes
        self._hide_thinking = hide_thinking
        self._stats: dict[str, Any] = {}
        self.messages: list[dict[str, Any]] = list(self._start)
        self.over = False
        self._gap = False

    def enter(self, line: str) -> None:
        """A line from the user: a command or a message."""
        match line.strip():
            case "":
                return
            case "/quit" | "/exit":
                self.over = True
            case "/reset":
                self.messages = list(self._start)
                click.secho("The conversation is forgotten.", dim=True, err=True)
            case "/stats":
                self._show_stats()
            case "/help":
                click.secho(HELP, dim=True, err=True)
            case command if command.startswith("/") and " " not in command:
                click.secho(f"There is no command {command}. {HELP}", dim=True, err=True)
            case _:
                self._answer(line)

    def _answer(self, text: str) -> None:
        question = {"role": "user", "content": text}
        self._pipeline.reset_statistics()
        try:
            answer = self._pipeline.start_chat(
                {**self._wishes, "messages": [*self.messages, question]}
            )
            with _interrupt_stops(answer) as asked:
                sequence = answer.start()
                if asked:  # while the question was read
                    sequence.cancel()
                for delta in answer.deltas():
                    self._show(delta)
        except OutriderError as error:
            click.secho(f"\noutrider: {error}", fg="red", err=True)
            return
        result = answer.result()
        click.echo()
        if result.finish_reason in ("length", "cancelled"):
            click.secho(f"[{result.finish_detail}]", dim=True, err=True)
        self._stats = {**result.stats, "usage": result.usage}
        self.messages += [question, result.message.to_openai()]

    def _show(self, delta: Any) -> None:
        match delta:
            case ReasoningDelta(text):
                if not self._hide_thinking:
                    click.secho(text, dim=True, nl=False)
                    self._gap = True
            case ContentDelta(text):
                if self._gap:
                    click.echo("\n")
                    self._gap = False
                click.echo(text, nl=False)
            case CallFinished(call, _):
                click.echo(f"\n{call.name}({call.arguments})")
            case _:
                return
        sys.stdout.flush()

    def _show_stats(self) -> None:
        stats = self._stats
        if not stats:
            click.secho("There is no answer yet.", dim=True, err=True)
            return
        usage = stats["usage"]
        click.secho(
            f"{stats['tokens_per_second']:.1f} tokens/s, {stats['mean_accepted_length']:.2f} "
            f"tokens a step, acceptance {stats['acceptance'] or 0:.0%}\n"
            f"prompt {usage.prompt_tokens} tokens ({usage.cached_tokens} cached), answer "
            f"{usage.completion_tokens} tokens, {usage.reasoning_tokens} of them thinking",
            dim=True,
            err=True,
        )


def _lines() -> Iterator[str]:
    """What the user types, until the end of input."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - line editing for input()
    ask = "> " if sys.stdin.isatty() else ""
    while True:
        try:
            yield input(ask)
        except EOFError:
            return
        except KeyboardInterrupt:
            click.secho("\nCtrl-D or /quit leaves.", dim=True, err=True)


@contextlib.contextmanager
def _interrupt_stops(answer: Any) -> Iterator[list[int]]:
    """Ctrl-C asks for the end at the next step, so that nothing is left half done; the list is
    not empty then."""
    asked: list[int] = []

    def stop(number: int, _: Any) -> None:
        asked.append(number)
        if answer.sequence is not None:
            answer.sequence.cancel()

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)
