"""A pipeline file and the plugins, put together into something that decodes."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import attrs

from outrider.components import (
    Assembly,
    ChatTemplate,
    Component,
    ComponentSpec,
    ConstraintFactory,
    Drafter,
    DraftLength,
    Observer,
    PrefixCache,
    Runtime,
    Sampler,
    StateRollback,
    Verifier,
)
from outrider.decode import Decoder
from outrider.errors import ConfigError, ModelError, OutriderError, RequestError
from outrider.plugins import Registry
from outrider.sequence import Request
from outrider.sequence import Sequence as Seq
from outrider.settings import (
    PipelineConfig,
    raise_problems,
    read_config,
    read_document,
    registry_for,
)
from outrider.statistics import Statistics
from outrider.step import LogProb
from outrider.target import Engine, EnginePlan, ModelInfo

_log = logging.getLogger("outrider.pipeline")

if TYPE_CHECKING:
    from outrider.chat import Delta
    from outrider.chat.answer import ChatAnswer, ChatResult


@attrs.frozen
class Result:
    """A finished generation."""

    text: str
    token_ids: tuple[int, ...]
    prompt_token_ids: tuple[int, ...]
    finish_reason: str
    finish_detail: str
    stats: Mapping[str, Any]
    logprobs: tuple[LogProb, ...] = ()
    """One entry a token, when the sampler was asked for log-probabilities."""


class Pipeline:
    """Assembled components. `load` checks everything that can be checked without weights;
    `open` loads them; then `generate`, or `start` and `step` for several sequences at once.
    """

    def __init__(self, config: PipelineConfig, registry: Registry) -> None:
        self.config = config
        self.registry = registry
        self._built: Counter[tuple[str, str]] = Counter()
        self.model: ModelInfo
        self.engine: Engine
        self._assemble()
        self._decoder: Decoder | None = None

    # --- assembly -----------------------------------------------------------------------------

    @classmethod
    def load(
        cls,
        path: Path | str | None = None,
        *,
        model: str | None = None,
        overrides: Sequence[str] = (),
    ) -> Pipeline:
        """Assemble a pipeline file (default: the built-in pipeline).

        `model` replaces the file's model (a path relative to the current folder, or a packaged
        name); `overrides` are `key=value` strings. Raises ConfigError with every problem found.
        """
        document = read_document(Path(path) if path is not None else None)
        for assignment in overrides:
            document.set(assignment)
        if model is not None:
            document.data["model"] = str(Path(model).resolve()) if Path(model).exists() else model
            document.places[("model",)] = f"--model {model}"
        registry = registry_for(document)
        config = read_config(document, registry)
        raise_problems(document.problems)
        assert config is not None
        return cls(config, registry)

    def build(self, kind: str, spec: ComponentSpec) -> Any:
        """Build the component a spec names (`Builder`).

        The second of a kind under one name is called `NAME-2`: names keep statistics, costs and
        what belongs to a sequence apart.
        """
        entry = self.registry.find(kind, spec.use)
        assert entry is not None, spec
        self._built[kind, spec.use] += 1
        count = self._built[kind, spec.use]
        name = spec.use if count == 1 else f"{spec.use}-{count}"
        try:
            return entry.cls(spec.config, Assembly(self, name=name))
        except (ConfigError, ModelError) as error:
            raise ConfigError(f"{self.config.name}: {spec.path or kind}: {error}") from None

    def model_path(self, reference: str) -> Path:
        """The file behind a model reference (`Builder`)."""
        return self.registry.model_path(reference, self.config.base)

    def inspect(self, path: Path) -> ModelInfo:
        """A model file's header (`Builder`)."""
        return self.engine.inspect(path)

    def _assemble(self) -> None:
        config = self.config
        specs = config.components
        self.engine = cast(Engine, self._component("engine"))
        try:
            path = self.model_path(config.model)
            self.model = self.engine.inspect(path)
        except ModelError as error:
            raise ConfigError(f"{config.model_place}: model: {error}") from None
        self.drafter = cast(Drafter, self._component("drafter"))
        self.draft_length = cast(DraftLength, self._component("draft_length"))
        self.verifier = cast(Verifier, self._component("verifier"))
        self.sampler = cast(Sampler, self._component("sampler"))
        self.cache = cast(PrefixCache, self._component("cache"))
        self.template = cast(
            "ChatTemplate | None",
            self._component("template") if specs["template"] else self._choose_template(),
        )
        self.rollbacks = (
            [cast(StateRollback, self._component("rollback"))]
            if specs["rollback"]
            else self._choose_rollbacks()
        )
        self._doubt_choices()
        self.constraints = [
            cast(ConstraintFactory, self.build("constraint", s))
            for s in config.lists["constraints"]
        ]
        self.observers = [
            cast(Observer, self.build("observer", s)) for s in config.lists["observers"]
        ]
        problems = [
            f"{config.name}: {kind}: {component.name} cannot be used: {reason}"
            for kind, component in self._components()
            if (reason := component.unsupported_reason(self.model))
        ]
        problems += [
            f"{config.name}: drafter: {self.drafter.name} needs the inputs of layer {layer!r}; "
            f"the model has layers 0 to {self.model.n_layer - 1}"
            for layer in self.drafter.needs.layer_inputs
            if layer not in range(self.model.n_layer)
        ]
        raise_problems(problems)
        bound = self.drafter.max_draft
        self.max_draft = (
            self.draft_length.max if bound is None else min(self.draft_length.max, bound)
        )
        self.padding = self.draft_length.padding if self.max_draft else 0

    def _component(self, key: str) -> Component:
        spec = self.config.components[key]
        assert spec is not None
        return self.build(key, spec)

    def _choose_rollbacks(self) -> list[StateRollback]:
        """Every rollback that can serve the model by its header, the cheapest first."""
        found = [
            rollback
            for rollback in self._defaults("rollback")
            if rollback.unsupported_reason(self.model) is None
        ]
        if not found:
            raise ConfigError(
                f"{self.config.name}: rollback: no installed rollback can serve this model"
            )
        return sorted(found, key=lambda r: r.cost)

    def _choose_template(self) -> ChatTemplate | None:
        """The first template plugin that renders this model's own template."""
        usable = [t for t in self._defaults("template") if t.unsupported_reason(self.model) is None]
        return min(usable, key=lambda t: t.cost) if usable else None

    def _doubt_choices(self) -> None:
        """A plugin that could not be loaded may have offered what would have been chosen."""
        specs, failures = self.config.components, self.registry.failures
        chosen = {"template": self.template, "rollback": self.rollbacks[0]}
        automatic = {k: c.name if c else "none" for k, c in chosen.items() if not specs[k]}
        if failures and automatic:
            _log.warning(
                "%s: chosen automatically: %s. These plugins could not be loaded, and may have "
                "had the better choice: %s. Repair or remove them, or name what to use.",
                self.config.name,
                ", ".join(f"{kind} {name}" for kind, name in automatic.items()),
                "; ".join(f"{f.source}: {f.reason}" for f in failures),
            )

    def _defaults(self, kind: str) -> list[Any]:
        """Everything of a kind that can be used without being configured."""
        return [
            self.build(kind, ComponentSpec(entry.name, entry.cls.Config(), kind))
            for entry in self.registry.entries(kind)
            if not entry.needs_options
        ]

    def _components(self) -> Iterator[tuple[str, Component]]:
        yield "drafter", self.drafter
        yield "draft_length", self.draft_length
        yield "verifier", self.verifier
        yield "sampler", self.sampler
        yield "rollback", self.rollbacks[0]
        yield "cache", self.cache
        if self.template is not None:
            yield "template", self.template
        for constraint in self.constraints:
            yield "constraints", constraint
        for observer in self.observers:
            yield "observers", observer

    # --- running ------------------------------------------------------------------------------

    def open(self, progress: Callable[[float], None] | None = None) -> Pipeline:
        """Load the weights and open every component. Raises OutriderError when it is open."""
        if self._decoder is not None:
            raise OutriderError("the pipeline is open already; close() it first")
        most = self.max_draft + self.padding
        plan = EnginePlan(
            model=self.model,
            max_sequences=self.config.max_sequences,
            max_draft=most,
            ring_depth=self.rollbacks[0].ring_depth(most),
            needs=self.drafter.needs,
            greedy=self.sampler.greedy,
        )
        try:
            self.engine.load(plan, progress)
            rollback = self._usable_rollback()
            runtime = Runtime(
                engine=self.engine,
                sampler=self.sampler,
                drafter=self.drafter,
                draft_length=self.draft_length,
                rollback=rollback,
                max_draft=self.max_draft,
                max_sequences=self.config.max_sequences,
                padding=self.padding,
            )
            self.rollback = rollback
            for _, component in self._components():
                if not isinstance(component, StateRollback):
                    component.open(runtime)
            rollback.open(runtime)
        except BaseException:
            self.close()
            raise
        self._decoder = Decoder(
            engine=self.engine,
            drafter=self.drafter,
            draft_length=self.draft_length,
            verifier=self.verifier,
            sampler=self.sampler,
            rollback=rollback,
            cache=self.cache,
            observers=self.observers,
            max_draft=self.max_draft,
            max_sequences=self.config.max_sequences,
            padding=self.padding,
        )
        try:
            for _, component in self._components():
                component.ready(self)
        except BaseException:
            self.close()
            raise
        return self

    def _usable_rollback(self) -> StateRollback:
        reasons: list[str] = []
        for rollback in self.rollbacks:
            reason = rollback.unsupported_context(self.engine.target) if self.max_draft else None
            if reason is None:
                return rollback
            reasons.append(f"{rollback.name}: {reason}")
        raise ConfigError(f"{self.config.name}: no rollback can be used: {'; '.join(reasons)}")

    def trace(self, path: Path) -> None:
        """Write one JSON line a step to `path`, through the `trace` observer. Before `open`."""
        entry = self.registry.find("observer", "trace")
        if entry is None:
            raise ConfigError("--trace needs the `trace` observer, which is not installed")
        spec = ComponentSpec("trace", entry.cls.Config(path=path))
        self.observers.append(cast(Observer, self.build("observer", spec)))

    @property
    def decoder(self) -> Decoder:
        """The decode loop; the pipeline must be open."""
        if self._decoder is None:
            raise OutriderError("the pipeline is not open; call open() first")
        return self._decoder

    @property
    def statistics(self) -> Statistics:
        """Counts and times since the pipeline was opened, or since `reset_statistics`."""
        return self.decoder.statistics

    def reset_statistics(self) -> None:
        """Start counting anew."""
        self.decoder.statistics = Statistics()

    @contextmanager
    def _counted_anew(self) -> Iterator[None]:
        """A request begins, and its statistics; where it is refused the old ones stay."""
        before = self.statistics
        self.reset_statistics()
        try:
            yield
        except BaseException:
            self.decoder.statistics = before
            raise

    def plan(self) -> dict[str, Any]:
        """What was put together, for the start-up line; the pipeline must be open."""
        memory = self.decoder.engine.memory()
        return {
            "model": self.model.name,
            "drafter": self.drafter.name,
            "max_draft": self.max_draft,
            "draft_length": self.draft_length.name,
            "sampler": self.sampler.name,
            "rollback": self.rollback.name,
            "cache": self.cache.name,
            "template": self.template.name if self.template else None,
            "memory": {**memory, **self.cache.memory()},
        }

    def tokenize(self, text: str) -> list[int]:
        """Prompt tokens of a text, control tokens recognised."""
        return self.decoder.engine.vocabulary.tokenize(text, special=True, bos=True)

    def start(self, request: Request) -> Seq:
        """Prefill a request and emit its first token; see `Decoder.start`."""
        return self.decoder.start(request)

    def step(self, sequences: Sequence[Seq]) -> None:
        """One step for sequences that have not ended; see `Decoder.step`."""
        self.decoder.step(sequences)

    def stream(self, request: Request) -> Iterator[str]:
        """The text of one request as it becomes certain."""
        sequence = self.start(request)
        yield from self.text_of(sequence)

    def text_of(self, sequence: Seq) -> Iterator[str]:
        """Step a started sequence to its end, yielding its text."""
        assert sequence.stream is not None
        single = (sequence,)
        try:
            while True:
                text = sequence.stream.take()
                if text:
                    yield text
                if sequence.finish is not None:
                    break
                self.decoder.step(single)
        finally:
            self.decoder.abandon(sequence)

    def generate(
        self,
        prompt: str | Sequence[int],
        *,
        max_tokens: int | None = None,
        stop: str | Sequence[str] = (),
        on_text: Callable[[str], None] | None = None,
        **sampling: Any,
    ) -> Result:
        """Continue a text or a token list up to a `stop` text, or the first of several.

        Keyword arguments override sampler options.
        """
        tokens = self.tokenize(prompt) if isinstance(prompt, str) else list(prompt)
        request = Request(prompt=tokens, max_tokens=max_tokens, stop=stop, sampling=sampling)
        return self.run(request, on_text)

    def run(self, request: Request, on_text: Callable[[str], None] | None = None) -> Result:
        """Decode one request to its end."""
        with self._counted_anew():
            sequence = self.start(request)
        for text in self.text_of(sequence):
            if on_text is not None:
                on_text(text)
        return self.result(sequence)

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        on_delta: Callable[[Delta], None] | None = None,
        **request: Any,
    ) -> ChatResult:
        """Answer a conversation, as `/v1/chat/completions` would.

        `request` are further fields of an OpenAI-shaped body (`max_tokens`, `tool_choice`,
        `response_format`, `reasoning`, …); sampler options go by their own names. Deltas are
        handed to `on_delta` as they become certain. Raises RequestError, also for a field that
        neither the template nor a constraint nor the sampler reads.
        """
        from outrider.chat.fields import BODY_FIELDS, check_known

        own = {field.name for field in attrs.fields(self.sampler.Config)} - BODY_FIELDS
        read = [component.fields for component in (*self.constraints, self.template) if component]
        check_known(request, BODY_FIELDS.union(own, *read))
        body: dict[str, Any] = {"messages": list(messages), **request}
        if tools is not None:
            body["tools"] = list(tools)
        with self._counted_anew():
            answer = self.start_chat(body, {name: body[name] for name in own & body.keys()})
            answer.start()
        for delta in answer.deltas():
            if on_delta is not None:
                on_delta(delta)
        return answer.result()

    def start_chat(
        self, body: Mapping[str, Any] | bytes, sampling: Mapping[str, Any] | None = None
    ) -> ChatAnswer:
        """Start answering an OpenAI-shaped request body; nothing is decoded yet.

        `sampling` are options of the sampler beyond those that such bodies have.
        """
        from outrider.chat.answer import ChatAnswer

        return ChatAnswer(self, body, sampling)

    def result(self, sequence: Seq) -> Result:
        """The outcome of a finished sequence, with the statistics so far."""
        if sequence.finish is None or sequence.stream is None:
            raise RequestError("the sequence has not finished")
        return Result(
            text=sequence.stream.text,
            token_ids=tuple(sequence.tokens[sequence.prompt_length :]),
            prompt_token_ids=sequence.request.prompt,
            finish_reason=sequence.finish.reason.value,
            finish_detail=sequence.finish.detail,
            stats=self.summary(),
            logprobs=tuple(sequence.logprobs),
        )

    def summary(self) -> dict[str, Any]:
        """Statistics under the names of `--json`, with what components add of their own."""
        summary = self.statistics.summary()
        extra = {
            f"{kind}:{component.name}": dict(numbers)
            for kind, component in self._components()
            if (numbers := component.statistics())
        }
        if extra:
            summary["components"] = extra
        return summary

    def close(self) -> None:
        """Close components, then the engine. What decodes afterwards raises OutriderError."""
        if self._decoder is not None:
            self._decoder.close()
            self._decoder = None
        with ExitStack() as last:
            # whatever a component's close raises, the others and the engine are closed as well
            last.callback(self.engine.close)
            for _, component in reversed(list(self._components())):
                last.callback(component.close)

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
