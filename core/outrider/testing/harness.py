"""Pipelines for tests: from a mapping instead of a file, with components that are not installed."""

from __future__ import annotations

import copy
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from outrider.hookspecs import hookimpl
from outrider.pipeline import Pipeline
from outrider.plugins import KINDS, Registry, Source, installed
from outrider.sequence import Request
from outrider.sequence import Sequence as Seq
from outrider.settings import raise_problems, read_config, registry_for
from outrider.yamlfile import Document

SCRIPTED: Mapping[str, Any] = {"model": "scripted", "engine": {"use": "scripted"}}
"""The keys of a pipeline on the scripted engine."""

Offers = Mapping[str, Mapping[str, type[Any]]]
"""Component classes by kind and name, for example `{"drafter": {"mine": MyDrafter}}`."""


def module_offering(offers: Offers, name: str = "under_test") -> types.ModuleType:
    """A plugin module that offers these classes. Raises KeyError for an unknown kind."""
    module = types.ModuleType(name)
    for kind, classes in offers.items():
        setattr(module, KINDS[kind].hook, _hook(dict(classes)))
    return module


def _hook(classes: dict[str, type[Any]]) -> Any:
    def offer() -> dict[str, type[Any]]:
        return classes

    return hookimpl(offer)


def registry_offering(offers: Offers) -> Registry:
    """The installed plugins, and these classes as one more plugin."""
    if not offers:
        return installed()
    registry = Registry()
    registry.load_installed()
    registry.add(module_offering(offers), Source("under test", "", ""))
    return registry


def make_pipeline(
    keys: Mapping[str, Any] | None = None, *, offers: Offers | None = None
) -> Pipeline:
    """A pipeline of these top-level keys, on the scripted engine unless they say otherwise.

    Options of the engine are merged: `{"engine": {"eog": 0.1}}` keeps the scripted engine.
    Raises ConfigError like `Pipeline.load`.
    """
    data: dict[str, Any] = {**SCRIPTED, **(keys or {})}
    if isinstance(data["engine"], dict):
        data["engine"] = {**SCRIPTED["engine"], **data["engine"]}
    document = Document(copy.deepcopy(data), "(test pipeline)", Path.cwd())
    registry = registry_offering(offers) if offers else registry_for(document)
    config = read_config(document, registry)
    raise_problems(document.problems)
    assert config is not None
    return Pipeline(config, registry)


@contextmanager
def opened(
    keys: Mapping[str, Any] | None = None, *, offers: Offers | None = None
) -> Iterator[Pipeline]:
    """`make_pipeline`, opened and closed again."""
    pipeline = make_pipeline(keys, offers=offers)
    pipeline.open()
    with pipeline:
        yield pipeline


def decode_all(pipeline: Pipeline, requests: Sequence[Request]) -> list[Seq]:
    """Decode requests together, as many at once as there are slots; the finished sequences."""
    pending = list(requests)
    order: list[Seq] = []
    active: list[Seq] = []
    while pending or active:
        while pending and len(active) < len(pipeline.decoder.slots):
            sequence = pipeline.start(pending.pop(0))
            order.append(sequence)
            active.append(sequence)
            active = [s for s in active if not s.done]
        if active:
            pipeline.step(active)
            active = [s for s in active if not s.done]
    return order


def emitted(sequence: Seq) -> list[int]:
    """The tokens that were emitted after the prompt."""
    return sequence.tokens[sequence.prompt_length :]


def plain_tokens(
    pipeline: Pipeline, prompt: Sequence[int], count: int, *, ignore_eog: bool = False
) -> list[int]:
    """What the scripted model says after a prompt when nothing is drafted.

    Computed from the model's definition, without the engine, the decode loop or any plugin:
    up to `count` tokens, to the end of the context, or to an end-of-generation token.
    """
    engine: Any = pipeline.engine
    room = min(count, engine.target.n_ctx - len(prompt))
    tokens: list[int] = engine.continuation(prompt, room)
    if not ignore_eog:
        for i, token in enumerate(tokens):
            if token in engine.vocabulary.eog:
                return tokens[: i + 1]
    return tokens
