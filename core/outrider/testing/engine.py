"""The `scripted` engine: a toy language model with chosen statistics and chosen costs.

For tests and for planning: it has everything that makes hybrid models hard (a recurrent state, a
snapshot ring with llama.cpp's own mistakes, a multi-token-prediction head that needs true hidden
rows), and a clock that counts the costs it was told instead of waiting for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter_ns, sleep
from typing import TYPE_CHECKING, Any, Literal

import attrs
from attrs import validators

from outrider.components import Assembly, Component
from outrider.errors import ModelError
from outrider.target import Context, Engine, EnginePlan, ModelInfo, Vocabulary
from outrider.testing import toy
from outrider.testing.context import WIDTH, ScriptedContext, TargetContext
from outrider.testing.head import HeadContext
from outrider.testing.toy import ToyModel, ToyVocabulary

MODEL = "scripted"
"""Name of the packaged toy model."""

MODEL_PATH = Path(toy.__file__)
"""The toy model's file is the code that defines it."""

_chance = [validators.ge(0.0), validators.le(1.0)]


def _chances(_: Any, attribute: attrs.Attribute[Any], values: Sequence[float]) -> None:
    if not all(0 <= v <= 1 for v in values):
        raise ValueError(f"{attribute.name}: expected numbers from 0 to 1, got {list(values)}")


def _odds(_: Any, attribute: attrs.Attribute[Any], values: Sequence[float]) -> None:
    falling = list(values) == sorted(values, reverse=True)
    if not (falling and all(v > 0 for v in values) and sum(values) <= 1 and len(values) <= 16):
        raise ValueError(
            f"{attribute.name}: expected at most 16 probabilities in falling order that sum to 1 "
            f"or less, got {list(values)}"
        )


@attrs.frozen
class ScriptedConfig:
    """Options of the `scripted` engine."""

    context: int = attrs.field(default=512, validator=validators.ge(2))
    """Positions a sequence may use."""
    batch: int = attrs.field(default=256, validator=validators.ge(1))
    """Most rows of one decode call."""
    seed: int = 0
    """Another seed is another model."""
    recurrent: bool = True
    """Whether the model has a recurrent state; false: a dense model, which can be truncated."""
    ring: bool = True
    """Whether recurrent snapshots can be had; false: an architecture without them."""
    predictable: float = attrs.field(default=0.7, validator=_chance)
    """How often a token is followed by its habitual successor."""
    eog: float = attrs.field(default=0.0, validator=_chance)
    """How often the model ends at any token."""
    peak: float = 8.0
    """Logit of the most likely token, the others' lie between 0 and 1."""
    odds: tuple[float, ...] = attrs.field(default=(), validator=_odds)
    """Probabilities of the most likely tokens, in falling order, instead of `peak`: few likely
    words, for tests of what is drawn. All other tokens share the rest."""
    script: str = ""
    """What the model says after a `<|go|>` in the prompt, before it ends."""
    head: tuple[float, ...] = attrs.field(default=(0.9, 0.8, 0.7), validator=_chances)
    """Chance of draft i of the multi-token-prediction head; empty: the model has no head."""
    cost_ms: tuple[float, ...] = attrs.field(default=(1.0, 1.5), validator=validators.min_len(1))
    """Cost of a decode by its number of rows; longer batches continue with the last increase."""
    head_cost_ms: tuple[float, ...] = attrs.field(default=(0.2,), validator=validators.min_len(1))
    """Cost of a decode of the head, likewise."""
    clock: Literal["virtual", "real"] = "virtual"
    """`virtual`: time is the sum of costs. `real`: decodes take as long as they cost."""


def cost_of(table: Sequence[float], rows: int) -> float:
    """The cost of so many rows: the table's, continued with its last increase."""
    if rows <= len(table):
        return table[rows - 1]
    increase = table[-1] - table[-2] if len(table) > 1 else 0.0
    return table[-1] + max(0.0, increase) * (rows - len(table))


class ScriptedEngine(Component):
    """A toy model with chosen statistics and costs, for tests."""

    kind = "engine"
    Config = ScriptedConfig

    def __init__(self, config: ScriptedConfig, assembly: Assembly) -> None:
        super().__init__(config, assembly)
        self.config: ScriptedConfig = config
        self._contexts: list[ScriptedContext] = []
        self._now = 0

    def inspect(self, path: Path) -> ModelInfo:
        """The toy model; there is no other."""
        if path != MODEL_PATH:
            raise ModelError(
                f"the scripted engine has a model of its own and cannot load {path}; "
                f"set `model: {MODEL}`"
            )
        config = self.config
        return ModelInfo(
            path=path,
            architecture="toy-hybrid" if config.recurrent else "toy-dense",
            name=MODEL,
            n_layer=2,
            n_layer_nextn=1 if config.head else 0,
            n_embd=WIDTH,
            n_vocab=ToyVocabulary().size,
            n_ctx_train=config.context,
            recurrent=config.recurrent,
            chat_template=None,
            size=path.stat().st_size,
            metadata={},
            tensors=frozenset(),
        )

    def load(self, plan: EnginePlan, progress: Callable[[float], None] | None = None) -> None:
        """Make the toy model and its target context."""
        config = self.config
        self.info = plan.model
        self._plan = plan
        vocabulary = ToyVocabulary()
        self.vocabulary: Vocabulary = vocabulary
        self.model = ToyModel(
            vocabulary,
            seed=config.seed,
            predictable=config.predictable,
            eog=config.eog,
            peak=config.peak,
            odds=config.odds,
            script=tuple(vocabulary.tokenize(config.script)),
        )
        target = TargetContext(
            self.model,
            n_ctx=config.context,
            n_batch=config.batch,
            max_sequences=plan.max_sequences,
            ring_depth=plan.ring_depth if config.recurrent and config.ring else 0,
            recurrent=config.recurrent,
            spend=lambda rows: self._spend(cost_of(config.cost_ms, rows)),
        )
        self.target: Context = target
        self._contexts.append(target)
        if progress is not None:
            progress(1.0)

    @property
    def fingerprint(self) -> str:
        """The options, all of which shape saved states."""
        return repr(self.config)

    @property
    def cost_key(self) -> str:
        """All options: the costs are among them."""
        return repr(self.config)

    def open_mtp(self, *, n_batch: int) -> HeadContext:
        """A context on the toy's multi-token-prediction head."""
        config = self.config
        if not config.head:
            raise ModelError("the scripted model has no multi-token-prediction head")
        context = HeadContext(
            self.model,
            config.head,
            n_ctx=config.context,
            n_batch=n_batch,
            max_sequences=self._plan.max_sequences,
            spend=lambda rows: self._spend(cost_of(config.head_cost_ms, rows)),
        )
        self._contexts.append(context)
        return context

    def open_drafter(
        self,
        path: Path,
        *,
        n_batch: int,
        outputs: int = 1,
        room: int = 0,
        causal: bool = True,
        hidden: bool = False,
        cache_type: str | None = None,
    ) -> HeadContext:
        """The toy has no drafter models."""
        raise ModelError(f"the scripted engine cannot load the drafter model {path}")

    def continuation(self, tokens: Sequence[int], count: int) -> list[int]:
        """What the model will say after `tokens`: the `count` most likely tokens in turn."""
        return self.model.continuation(tokens, count)

    def clock_ns(self) -> int:
        """Nanoseconds of costs so far, or real ones."""
        return self._now if self.config.clock == "virtual" else perf_counter_ns()

    def busy_ns(self) -> int:
        """Nanoseconds spent in decode calls of all contexts so far."""
        return sum(context.engine_ns for context in self._contexts)

    def memory(self) -> Mapping[str, int]:
        """The toy reserves nothing worth counting."""
        return {}

    def close(self) -> None:
        """Forget the contexts."""
        self._contexts.clear()

    def _spend(self, milliseconds: float) -> int:
        cost = int(milliseconds * 1e6)
        if self.config.clock == "virtual":
            self._now += cost
            return cost
        end = perf_counter_ns() + cost
        if cost > 2_000_000:
            sleep((cost - 1_000_000) / 1e9)
        while perf_counter_ns() < end:
            pass
        return cost


if TYPE_CHECKING:

    def keeps_the_protocols(engine: ScriptedEngine, head: HeadContext) -> tuple[Engine, Context]:
        return engine, head
