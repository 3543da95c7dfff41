"""Find plugins, check what they offer, and keep it by kind and name.

Plugins are modules with hook implementations. Installed ones come through the entry-point group
`outrider`, one-file ones by path; the built-in ones are installed ones like any other. Importing
a plugin must be cheap: what is heavy belongs in the component's constructor.

`OUTRIDER_PLUGINS` (comma-separated entry-point names) limits which installed plugins are loaded;
`OUTRIDER_TRACE_PLUGINS=1` prints every hook call.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import inspect
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs
import click
import pluggy

from outrider import hookspecs
from outrider.components import (
    ChatTemplate,
    Component,
    ConstraintFactory,
    Drafter,
    DraftLength,
    Observer,
    PrefixCache,
    Sampler,
    StateRollback,
    Verifier,
)
from outrider.errors import ConfigError, ModelError, PluginError
from outrider.yamlfile import home_expanded, nearest

GROUP = "outrider"


@attrs.frozen
class Kind:
    """A kind of component: its hook, its base class, and what a class must define.

    `required` lists alternatives: one method of each tuple must be overridden.
    """

    name: str
    hook: str
    base: type[Any]
    required: tuple[tuple[str, ...], ...] = ()


_ENGINE_COUNTERS = ("clock_ns", "busy_ns", "memory")

KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            "engine",
            "outrider_engines",
            Component,
            tuple((m,) for m in ("inspect", "load", "close", "fingerprint", *_ENGINE_COUNTERS)),
        ),
        Kind("drafter", "outrider_drafters", Drafter, (("propose", "propose_one"),)),
        Kind("draft_length", "outrider_draft_lengths", DraftLength, (("choose",), ("max",))),
        Kind("verifier", "outrider_verifiers", Verifier, (("verify",),)),
        Kind("sampler", "outrider_samplers", Sampler, (("accept",),)),
        Kind("rollback", "outrider_rollbacks", StateRollback, (("reach",), ("rewind",))),
        Kind("cache", "outrider_caches", PrefixCache),
        Kind("template", "outrider_templates", ChatTemplate, (("render",), ("parser",))),
        Kind("constraint", "outrider_constraints", ConstraintFactory, (("make",),)),
        Kind("observer", "outrider_observers", Observer),
    )
}


@attrs.frozen
class Source:
    """Where a plugin comes from."""

    plugin: str
    """Entry-point name, or the path of a one-file plugin."""
    distribution: str
    version: str

    def __str__(self) -> str:
        if not self.version:
            return self.plugin
        return f"{self.plugin} ({self.distribution} {self.version})"


@attrs.frozen
class Entry:
    """One component class and the plugin that offers it."""

    kind: str
    name: str
    cls: type[Any]
    source: Source

    @property
    def needs_options(self) -> bool:
        """Whether it cannot be used without being configured."""
        fields = attrs.fields(self.cls.Config)
        return any(f.default is attrs.NOTHING for f in fields if f.init)


@attrs.frozen
class Failure:
    """A plugin that could not be loaded."""

    source: Source
    reason: str


class Registry:
    """Every component class on offer."""

    def __init__(self) -> None:
        self._manager = pluggy.PluginManager(GROUP)
        self._manager.add_hookspecs(hookspecs)
        if os.environ.get("OUTRIDER_TRACE_PLUGINS"):
            self._manager.add_hookcall_monitoring(_trace_before, _trace_after)
        self._entries: dict[tuple[str, str], Entry] = {}
        self._claimed_twice: dict[tuple[str, str], str] = {}
        self._allowed: frozenset[str] | None = None
        self._models: dict[str, tuple[Path, Source]] = {}
        self._disputed_models: dict[str, str] = {}
        self.failures: list[Failure] = []

    # --- loading ------------------------------------------------------------------------------

    def load_installed(self) -> None:
        """Load the plugins of every installed distribution.

        What is wrong with one of them is kept in `failures` and stops only a pipeline that needs
        it: a failing import, a broken contract, a name that two of them claim.
        """
        allowed = os.environ.get("OUTRIDER_PLUGINS")
        if allowed is not None:
            self._allowed = frozenset(n.strip() for n in allowed.split(",") if n.strip())
        known: set[str] = set()
        for point in sorted(importlib.metadata.entry_points(group=GROUP), key=lambda p: p.name):
            known.add(point.name)
            if self._allowed is not None and point.name not in self._allowed:
                continue
            distribution = point.dist
            source = Source(
                point.name,
                distribution.name if distribution else "?",
                distribution.version if distribution else "?",
            )
            try:
                self._register(point.load(), source, shared=True)
            except PluginError as error:
                self.failures.append(Failure(source, str(error)))
            except (Exception, SystemExit) as error:
                self.failures.append(Failure(source, f"{type(error).__name__}: {error}"))
        for name in sorted((self._allowed or frozenset()) - known):
            reason = f"named in OUTRIDER_PLUGINS, but not installed; {nearest(name, known)}"
            self.failures.append(Failure(Source(name, "", ""), reason))

    def load_file(self, path: Path) -> None:
        """Load a one-file plugin. Raises PluginError with the original error if it is broken."""
        if not path.is_file():
            raise PluginError(f"plugin file not found: {path}")
        digest = hashlib.sha1(str(path.resolve()).encode()).hexdigest()[:8]
        name = f"outrider_file_{path.stem}_{digest}"
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise PluginError(f"{path} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            del sys.modules[name]
            line = _line_in(error, path)
            raise PluginError(
                f"the plugin {path} cannot be imported{line}: {type(error).__name__}: {error}"
            ) from error
        self.add(module, Source(str(path), "", ""))

    def add(self, module: ModuleType, source: Source) -> None:
        """Register a plugin module. Raises PluginError when it breaks a contract.

        Nothing of a plugin that is refused stays registered.
        """
        self._register(module, source, shared=False)

    def _register(self, module: ModuleType, source: Source, *, shared: bool) -> None:
        """`shared`: a name that is taken already is noted, and then belongs to neither."""
        try:
            self._manager.register(module, name=source.plugin)
            self._manager.check_pending()
            offers = self._collect(module, source)
            models = {
                name: _model_file(name, path, source)
                for name, path in self._offers(module, "outrider_models", source).items()
            }
            for entry in offers:
                problem = contract_problem(KINDS[entry.kind], entry.cls)
                if problem:
                    raise PluginError(f"the {entry.kind} {entry.name!r} of {source}: {problem}")
            twice = [e for e in offers if (e.kind, e.name) in self._entries]
            if twice and not shared:
                raise PluginError(self._claim(twice[0]))
            disputed = {n: self._model_claim(n, source) for n in models if n in self._models}
            if disputed and not shared:
                raise PluginError(next(iter(disputed.values())))
        except (pluggy.PluginValidationError, ValueError) as error:
            self._forget(module)
            raise PluginError(f"the plugin {source} is not valid: {error}") from None
        except PluginError:
            self._forget(module)
            raise
        for entry in twice:
            key = (entry.kind, entry.name)
            self._claimed_twice[key] = self._claim(entry)
            self.failures.append(Failure(source, self._claimed_twice[key]))
        for entry in offers:
            if entry not in twice:
                self._entries[(entry.kind, entry.name)] = entry
        for name, claim in disputed.items():
            self._disputed_models[name] = claim
            self.failures.append(Failure(source, claim))
        for name, path in models.items():
            if name not in disputed:
                self._models[name] = (path, source)

    def _forget(self, module: ModuleType) -> None:
        if self._manager.is_registered(module):
            self._manager.unregister(module)

    def _collect(self, module: ModuleType, source: Source) -> list[Entry]:
        callers = self._manager.get_hookcallers(module)
        if not callers:
            raise PluginError(
                f"{source} implements no hook; is @hookimpl missing? The hooks are: "
                + ", ".join(kind.hook for kind in KINDS.values())
            )
        return [
            Entry(kind.name, name, cls, source)
            for kind in KINDS.values()
            for name, cls in self._offers(module, kind.hook, source).items()
        ]

    def _offers(self, module: ModuleType, hook: str, source: Source) -> Mapping[str, Any]:
        """What one plugin's implementation of a hook returns."""
        others = [m for m in self._manager.get_plugins() if m is not module]
        caller = self._manager.subset_hook_caller(hook, others)
        if not caller.get_hookimpls():
            return {}
        try:
            [offers] = caller() or [None]
        except Exception as error:
            raise PluginError(
                f"{hook} of {source} failed: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(offers, Mapping):
            raise PluginError(
                f"{hook} of {source} returned {type(offers).__name__}; expected a mapping from "
                "name to class"
            )
        for name in offers:  # pyright: ignore[reportUnknownVariableType]
            if not isinstance(name, str):
                raise PluginError(f"{hook} of {source} offers the name {name!r}; expected a text")
        return dict(offers)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]

    def _claim(self, entry: Entry) -> str:
        other = self._entries[(entry.kind, entry.name)]
        return (
            f"the {entry.kind} name {entry.name!r} is claimed twice: by "
            f"{_qualified(other.cls)} of {other.source} and by {_qualified(entry.cls)} of "
            f"{entry.source}; uninstall one of them, or list in OUTRIDER_PLUGINS what to load"
        )

    def _model_claim(self, name: str, source: Source) -> str:
        return (
            f"the model name {name!r} is claimed twice: by {self._models[name][1]} and by "
            f"{source}; uninstall one of them, or list in OUTRIDER_PLUGINS what to load"
        )

    # --- asking -------------------------------------------------------------------------------

    def entries(self, kind: str | None = None) -> list[Entry]:
        """Everything on offer (of a kind), by kind and name."""
        return sorted(
            (
                e
                for key, e in self._entries.items()
                if kind in (None, e.kind) and key not in self._claimed_twice
            ),
            key=lambda e: (list(KINDS).index(e.kind), e.name),
        )

    def find(self, kind: str, name: str) -> Entry | None:
        """The component of this kind and name, if exactly one plugin offers it."""
        if (kind, name) in self._claimed_twice:
            return None
        return self._entries.get((kind, name))

    def unknown(self, kind: str, name: str) -> str:
        """A sentence about a name that is not on offer: the names that are, and failed plugins."""
        if (kind, name) in self._claimed_twice:
            return self._claimed_twice[(kind, name)]
        known = [e.name for e in self.entries(kind)]
        text = f"there is no {kind} named {name!r}; {nearest(name, known)}"
        if self._allowed is not None:
            text += " (OUTRIDER_PLUGINS limits which plugins are loaded)"
        if self.failures:
            failed = "; ".join(f"{f.source}: {f.reason}" for f in self.failures)
            text += f" (these plugins could not be loaded: {failed})"
        return text

    def models(self) -> dict[str, Path]:
        """Packaged models by name."""
        return {
            name: path
            for name, (path, _) in sorted(self._models.items())
            if name not in self._disputed_models
        }

    def model_path(self, reference: str, base: Path) -> Path:
        """A packaged model's file, or the path `reference` relative to `base`."""
        if reference in self._disputed_models:
            raise ModelError(self._disputed_models[reference])
        if reference in self._models:
            return self._models[reference][0]
        try:
            path = home_expanded(reference)
        except ConfigError as error:
            raise ModelError(str(error)) from None
        path = path if path.is_absolute() else base / path
        if not path.exists():
            hint = nearest(reference, self._models).replace("there are:", "packaged models:")
            raise ModelError(f"model file not found: {path}; {hint}")
        return path

    def add_commands(self, group: click.Group) -> None:
        """Let plugins add their commands to the command line; one that fails counts as failed."""
        for implementation in self._manager.hook.outrider_commands.get_hookimpls():
            try:
                implementation.function(*[group for _ in implementation.argnames])
            except Exception as error:
                reason = f"outrider_commands failed: {type(error).__name__}: {error}"
                self.failures.append(Failure(Source(implementation.plugin_name, "", ""), reason))


@functools.cache
def installed() -> Registry:
    """The registry of installed plugins."""
    registry = Registry()
    registry.load_installed()
    return registry


def registry_with(files: Iterable[Path]) -> Registry:
    """Installed plugins and these one-file plugins."""
    paths = list(files)
    if not paths:
        return installed()
    registry = Registry()
    registry.load_installed()
    for path in paths:
        registry.load_file(path)
    return registry


def contract_problem(kind: Kind, cls: Any) -> str | None:
    """What is wrong with a component class, as a sentence; None when nothing is."""
    base = kind.base
    if not (inspect.isclass(cls) and issubclass(cls, base)):
        return f"expected a subclass of outrider.{base.__name__}, got {cls!r}"
    for alternatives in kind.required:
        if all(getattr(cls, m, None) is getattr(base, m, None) for m in alternatives):
            names = " or ".join(f"`{m}`" for m in alternatives)
            return f"{cls.__qualname__} must define {names}"
    if not attrs.has(cls.Config):
        return f"{cls.__qualname__}.Config must be an attrs class"
    for name, method in inspect.getmembers(base, inspect.isfunction):
        own = inspect.getattr_static(cls, name)
        if name.startswith("_") or own is inspect.getattr_static(base, name):
            continue
        if not inspect.isfunction(own):
            continue
        expected = _positional(method)
        try:
            inspect.signature(own).bind(*expected)
        except TypeError as error:
            arguments = ", ".join(expected)
            return f"{cls.__qualname__}.{name} must take ({arguments}): {error}"
    return None


def _model_file(name: str, path: Any, source: Source) -> Path:
    if isinstance(path, (str, os.PathLike)):
        return Path(path)  # pyright: ignore[reportUnknownArgumentType]
    raise PluginError(f"outrider_models of {source} offers {name!r}: {path!r}; expected a path")


def _positional(method: Any) -> list[str]:
    empty = inspect.Parameter.empty
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [
        p.name
        for p in inspect.signature(method).parameters.values()
        if p.kind in kinds and p.default is empty
    ]


def _line_in(error: BaseException, path: Path) -> str:
    if isinstance(error, SyntaxError) and error.lineno:
        return f" (line {error.lineno})"
    line = None
    own = path.resolve()
    trace = error.__traceback__
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename).resolve() == own:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f" (line {line})" if line else ""


def _qualified(cls: Any) -> str:
    return str(getattr(cls, "__qualname__", cls))


def _trace_before(hook_name: str, methods: Any, kwargs: Any) -> None:
    names = ", ".join(m.plugin_name for m in methods) or "nobody"
    print(f"outrider: {hook_name} -> {names}", file=sys.stderr)


def _trace_after(outcome: Any, hook_name: str, methods: Any, kwargs: Any) -> None:
    del outcome, hook_name, methods, kwargs
