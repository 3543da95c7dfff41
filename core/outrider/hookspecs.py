"""Every hook of Outrider. A plugin implements the ones it needs and nothing else.

Hooks assemble; they are called once, when a pipeline is put together, and never in the decode
loop. Each hook below returns a mapping from the name used in a pipeline file to a component
class of `outrider.components`; `outrider_commands` is given the command group instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import pluggy

from outrider.components import (
    ChatTemplate,
    ConstraintFactory,
    Drafter,
    DraftLength,
    Observer,
    PrefixCache,
    Sampler,
    StateRollback,
    Verifier,
)

hookspec = pluggy.HookspecMarker("outrider")
hookimpl = pluggy.HookimplMarker("outrider")


@hookspec
def outrider_drafters() -> Mapping[str, type[Drafter]]:
    """Drafters: propose tokens for the target to verify.

    Built in: cascade, dflash2, mtp, none, suffix.
    """
    raise NotImplementedError


@hookspec
def outrider_draft_lengths() -> Mapping[str, type[DraftLength]]:
    """Policies that choose how many tokens to draft. Built in: adaptive, fixed, measured."""
    raise NotImplementedError


@hookspec
def outrider_verifiers() -> Mapping[str, type[Verifier]]:
    """Verifiers: decode anchor and drafts in one target batch. Built in: chain."""
    raise NotImplementedError


@hookspec
def outrider_samplers() -> Mapping[str, type[Sampler]]:
    """Samplers: accept drafts and choose the token after them.

    Built in: greedy, rejection, synthetic.
    """
    raise NotImplementedError


@hookspec
def outrider_rollbacks() -> Mapping[str, type[StateRollback]]:
    """Ways to undo rejected rows. Built in: checkpoint, kv-truncate, snapshot-ring."""
    raise NotImplementedError


@hookspec
def outrider_caches() -> Mapping[str, type[PrefixCache]]:
    """Prefix caches: what need not be prefilled again. Built in: none, snapshots."""
    raise NotImplementedError


@hookspec
def outrider_templates() -> Mapping[str, type[ChatTemplate]]:
    """Chat templates: render conversations, read answers. Built in: jinja, qwen."""
    raise NotImplementedError


@hookspec
def outrider_constraints() -> Mapping[str, type[ConstraintFactory]]:
    """Constraints: restrict which tokens may follow (grammars, reasoning budgets).

    Built in: json-schema, reasoning-budget, tool-calls.
    """
    raise NotImplementedError


@hookspec
def outrider_observers() -> Mapping[str, type[Observer]]:
    """Observers: watch every step. Built in: trace."""
    raise NotImplementedError


@hookspec
def outrider_engines() -> Mapping[str, type[Any]]:
    """Engines: open models and contexts. Built in: llama-cpp, scripted."""
    raise NotImplementedError


@hookspec
def outrider_models() -> Mapping[str, Path]:
    """Packaged model files by name, usable wherever a pipeline file wants a model."""
    raise NotImplementedError


@hookspec
def outrider_commands(group: click.Group) -> None:
    """Add commands to the `outrider` command line."""
