"""The `trace` observer: one JSON line a step and sequence."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence as ListOf
from pathlib import Path
from typing import IO, Any

import attrs
from outrider import Assembly, ConfigError, Observer, Runtime, Sequence, Step, hookimpl


@attrs.frozen
class TraceConfig:
    """Options of the `trace` observer."""

    path: Path
    """File that the lines are written to; an existing one is replaced."""


class Trace(Observer):
    """Writes what every step proposed, accepted and emitted.

    Lines: `{"event": "start", slot, prompt_tokens, cached, token}`, `{"event": "step", slot,
    position, anchor, draft, source, accepted, tokens}`, `{"event": "finish", slot, reason,
    detail, tokens}`. With a constraint, `forced` of the last drafts are its own, and `barred` of
    the drafter's were cut off before them.
    """

    Config = TraceConfig

    def __init__(self, config: TraceConfig, assembly: Assembly) -> None:
        super().__init__(config, assembly)
        self._file: IO[str] | None = None
        # before any weight is loaded
        folder = config.path.parent
        if not folder.is_dir():
            raise ConfigError(f"the trace file {config.path} needs a folder that does not exist")
        if config.path.is_dir():
            raise ConfigError(f"the trace file {config.path} is a folder")
        if not os.access(config.path if config.path.exists() else folder, os.W_OK):
            raise ConfigError(f"the trace file {config.path} cannot be written: permission denied")

    def open(self, runtime: Runtime) -> None:
        """Open the file."""
        try:
            self._file = self.config.path.open("w", encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                f"the trace file {self.config.path} cannot be written: {error.strerror}"
            ) from None

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def started(self, sequence: Sequence) -> None:
        """A request was prefilled."""
        self._write(
            event="start",
            slot=sequence.id,
            prompt_tokens=sequence.prompt_length,
            cached=sequence.cached,
            token=sequence.tokens[-1],
        )

    def step(self, sequences: ListOf[Sequence], steps: ListOf[Step]) -> None:
        """A step is over."""
        for sequence, step in zip(sequences, steps, strict=True):
            position = len(sequence.tokens) - len(step.tokens) - 1
            self._write(
                event="step",
                slot=sequence.id,
                position=position,
                anchor=sequence.tokens[position],
                draft=list(step.draft.tokens),
                source=step.draft.source,
                forced=step.draft.forced,
                barred=step.draft.barred,
                accepted=step.accepted,
                tokens=list(step.tokens),
            )

    def finished(self, sequence: Sequence) -> None:
        """A request ended."""
        assert sequence.finish is not None
        self._write(
            event="finish",
            slot=sequence.id,
            reason=sequence.finish.reason.value,
            detail=sequence.finish.detail,
            tokens=sequence.generated,
        )

    def _write(self, **line: Any) -> None:
        assert self._file is not None
        json.dump(line, self._file, separators=(",", ":"))
        self._file.write("\n")


@hookimpl
def outrider_observers():
    """Offer `trace`."""
    return {"trace": Trace}
