"""The component protocols: what a drafter, sampler, rollback, … must do, and their value types.

Hooks (see `outrider.hookspecs`) hand over *classes*; the pipeline builds one instance of each
class it needs and then calls plain methods. Everything works on lists of sequences, because one
verify batch carries the rows of every active sequence; where a per-sequence method is simpler to
write (`Drafter.propose_one`), the base class turns it into the list form.

The life of a component:

1. `__init__(config, assembly)`: cheap; nothing heavy is imported or loaded before this.
2. `unsupported_reason(model)`: asked before any weight is loaded.
3. `open(runtime)`: the engine is there; allocate contexts and buffers.
4. its own methods, once a step or less.
5. `close()`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import attrs
import numpy as np
from numpy.typing import NDArray

from outrider.errors import PluginError
from outrider.step import NO_DRAFT, Accepted, Distribution, Draft, Step
from outrider.target import Context, Engine, ModelInfo, Needs, Rows

if TYPE_CHECKING:
    from pathlib import Path

    from outrider.pipeline import Pipeline
    from outrider.sequence import Request, Slot
    from outrider.sequence import Sequence as Seq
    from outrider.states import States

# --- building -----------------------------------------------------------------------------------


class Builder(Protocol):
    """Builds components from specs; handed to components that are made of components."""

    def build(self, kind: str, spec: ComponentSpec) -> Any:
        """Build the component a spec names."""
        ...

    def model_path(self, reference: str) -> Path:
        """The file behind a model reference: a path, or the name of a packaged model."""
        ...

    def inspect(self, path: Path) -> ModelInfo:
        """What a model file's header says, without loading weights."""
        ...


@attrs.frozen
class ComponentSpec:
    """A component as written in YAML: `{use: NAME, option: value, …}`, already checked."""

    use: str
    config: Any
    path: str = ""
    """Where it stands in the pipeline file, e.g. `drafter.of[1]`."""


class DrafterSpec(ComponentSpec):
    """A drafter nested in another component's options."""


class SamplerSpec(ComponentSpec):
    """A sampler nested in another component's options."""


@attrs.frozen
class Assembly:
    """What a component may use while it is being built."""

    builder: Builder
    name: str = ""
    """The component's name in the pipeline file."""

    def drafter(self, spec: ComponentSpec) -> Drafter:
        """Build a nested drafter."""
        return self.builder.build("drafter", spec)

    def sampler(self, spec: ComponentSpec) -> Sampler:
        """Build a nested sampler."""
        return self.builder.build("sampler", spec)

    def model_path(self, reference: str) -> Path:
        """A model file: a path (relative to the pipeline file), or the name of a packaged model.

        Raises ModelError when there is no such file.
        """
        return self.builder.model_path(reference)

    def inspect(self, path: Path) -> ModelInfo:
        """What a model file's header says. Raises ModelError."""
        return self.builder.inspect(path)


@attrs.frozen
class Runtime:
    """What an opened component works with."""

    engine: Engine
    sampler: Sampler
    drafter: Drafter
    draft_length: DraftLength
    rollback: StateRollback
    max_draft: int
    """Most drafts of one step: the ring, the batches and the buffers are sized for it."""
    max_sequences: int
    padding: int = 0
    """Most rows behind the drafts of a step that nobody looks at; see `DraftLength.rows`."""


class Component:
    """Base of every component. `Config` is an attrs class; its fields are the YAML options."""

    Config: type[Any] = attrs.make_class("Config", [], frozen=True)
    kind: ClassVar[str] = ""

    def __init__(self, config: Any, assembly: Assembly) -> None:
        self.config = config
        self.name = assembly.name

    def unsupported_reason(self, model: ModelInfo) -> str | None:
        """Why this component cannot serve this model, as a sentence; None when it can."""
        return None

    def open(self, runtime: Runtime) -> None:
        """Get ready: contexts, buffers. The engine is loaded."""

    def ready(self, pipeline: Pipeline) -> None:
        """All components are open and the pipeline can decode; no request has come yet.

        What decodes here must leave every slot empty.
        """

    def close(self) -> None:
        """Release what `open` took."""

    def statistics(self) -> Mapping[str, Any]:
        """Numbers of the component's own, for the summary and `--json`."""
        return {}


# --- the step -----------------------------------------------------------------------------------


class Drafter(Component):
    """Proposes tokens for the target to verify.

    The smallest useful one::

        class RepeatLast(Drafter):
            def propose_one(self, sequence, limit):
                return Draft([sequence.anchor] * limit)

    A drafter with a memory of its own follows the target's: `observe` sees prefilled prompt
    rows, `commit` sees the rows of a verify batch, and `rewind` / `snapshot` / `restore` /
    `clear` keep it in step when a slot's memory is cut, saved, loaded or emptied. A drafter
    whose state is a function of `sequence.tokens` needs none of them.
    """

    kind = "drafter"
    needs: Needs = Needs()
    max_draft: int | None = None
    """Most tokens it can propose in one step; None: no bound of its own."""
    cheap: bool = False
    """Proposing costs next to nothing, so a proposal may be asked for and dropped."""
    parts: Sequence[Drafter] = ()
    """The drafters this one is made of; it must ask `DraftLength.decide` which of them drafts."""

    def begin(self, sequence: Seq) -> None:
        """A request starts on `sequence.slot`; `slot.length` tokens of it are in memory."""

    def observe(self, sequence: Seq, row: int, count: int) -> None:
        """The target decoded `count` prompt tokens at batch rows from `row`.

        They are `sequence.tokens[slot.length - count : slot.length]`; exported rows are
        readable now.
        """

    def propose(self, sequences: Sequence[Seq], limits: Sequence[int]) -> Sequence[Draft]:
        """One draft a sequence, of at most `limits[i]` tokens; 0 asks for none.

        Not called in a step in which nobody is asked for any.
        """
        return [
            self.propose_one(s, n) if n > 0 else NO_DRAFT
            for s, n in zip(sequences, limits, strict=True)
        ]

    def propose_one(self, sequence: Seq, limit: int) -> Draft:
        """A draft of at most `limit` ≥ 1 tokens for one sequence."""
        raise NotImplementedError

    def prospect(self, sequence: Seq) -> int | None:
        """The grade (`Draft.evidence`) of what it would propose now; 0: it has nothing to propose.

        For cheap drafters, so that a proposal that would not be used need not be made. None: to
        be seen only by proposing.
        """
        return None

    def meanwhile(self, sequences: Sequence[Seq], drafts: Sequence[Draft]) -> None:
        """The target is busy with these drafts, and nothing of it may be read yet.

        Called where the target is computed elsewhere (`Context.ahead`), for work that would keep
        it waiting later on.
        """

    def commit(self, sequences: Sequence[Seq], steps: Sequence[Step]) -> None:
        """A step is over; `sequence.tokens` already ends with `step.tokens`.

        Rows exported by the verify batch are readable now; rejected ones leave the target's
        memory right after this call, which then holds `len(sequence.tokens) - 1` tokens. Also
        called after steps without a draft and with drafts of another drafter, and once after a
        prefill with the first token (`step.row` is then the prompt's last row).
        """

    def end(self, sequence: Seq) -> None:
        """The request is over; the slot's memory stays live."""

    def rewind(self, slot: Slot, length: int) -> None:
        """The slot's memory was cut to its first `length` tokens."""

    def clear(self, slot: Slot) -> None:
        """The slot's memory was emptied."""

    def fingerprint(self) -> str:
        """What a saved drafter state depends on besides the engine (its own model, say)."""
        return self.name

    def snapshot(self, slot: Slot) -> bytes:
        """The drafter's state for a slot; together with the target's it must continue exactly."""
        return b""

    def restore(self, slot: Slot, data: bytes) -> None:
        """Load what `snapshot` returned. Raise OutriderError if it does not fit."""

    def token_rows(self, data: bytes) -> Sequence[Rows]:
        """Where a state that `snapshot` returned keeps one row a token, to store it only once."""
        return ()


class Verifier(Component):
    """Puts the drafts into one target batch and decodes it."""

    kind = "verifier"

    def verify(self, sequences: Sequence[Seq], drafts: Sequence[Draft]) -> Sequence[int]:
        """Decode [anchor, d1 … dk] of every sequence in ONE call, outputs on every row.

        Returns the batch row of each sequence's anchor.
        """
        raise NotImplementedError


class Sampler(Component):
    """Turns verify rows into tokens."""

    kind = "sampler"
    greedy: bool = False
    """True: only `Context.argmax` is read, which the engine may then compute on the device."""

    def needs_logits(self, sequence: Seq) -> bool:
        """Whether this sequence's rows must come back as real logits."""
        return not self.greedy or sequence.constraint is not None

    def settings(self, overrides: Mapping[str, Any]) -> Any:
        """The options for one request: the pipeline's `Config` with `overrides` applied.

        Raises RequestError that names an unknown or unusable option.
        """
        from outrider.config import override

        return override(self.config, overrides, where=f"sampling option of {self.name!r}")

    def begin(self, sequence: Seq) -> None:
        """A request starts on `sequence.slot`; nothing of it is decoded yet.

        Raises RequestError for options that only now turn out to be unusable.
        """

    def accept(
        self, sequences: Sequence[Seq], drafts: Sequence[Draft], rows: Sequence[int]
    ) -> Sequence[Accepted]:
        """The longest accepted prefix of each draft and the token after it.

        Must hold `sequence.constraint` if there is one, and must not change its own state:
        what was really kept arrives through `commit`.
        """
        raise NotImplementedError

    def draw(
        self, sequence: Seq, prefix: Sequence[int], logits: NDArray[np.float32]
    ) -> tuple[int, Distribution]:
        """Draw a draft token from a drafter's logits, as this sampler would draw.

        `prefix` are the tokens drafted before it in this step. Samplers without randomness do
        not support it.
        """
        raise PluginError(
            f"the sampler {self.name!r} draws no samples, so drafters cannot sample with it; "
            "remove `sample: true` or use a sampler with a temperature"
        )

    def commit(self, sequences: Sequence[Seq], steps: Sequence[Step]) -> None:
        """A step is over; `sequence.tokens` already ends with `step.tokens`."""


class StateRollback(Component):
    """Undoes the rejected rows of a verify batch."""

    kind = "rollback"
    cost: ClassVar[int] = 100
    """Rank for `use: auto`: the cheapest one that can serve the model is taken."""

    def ring_depth(self, max_draft: int) -> int:
        """Recurrent snapshots the target context must keep for this rollback."""
        return 0

    def before_verify(self, sequences: Sequence[Seq], drafts: Sequence[Draft]) -> None:
        """A verify batch is about to be decoded."""

    def unsupported_context(self, target: Context) -> str | None:
        """Why the context that was really created cannot serve it; None when it can."""
        return None

    def reach(self, slot: Slot) -> int:
        """How many of the slot's last tokens could be undone exactly right now."""
        raise NotImplementedError

    def rewind(self, sequences: Sequence[Seq], counts: Sequence[int]) -> None:
        """Undo the last `counts[i]` rows of each slot (0: leave it alone).

        Never called with more than the rows of the verify batch minus one. After it the
        target's memory holds exactly the kept tokens.
        """
        raise NotImplementedError

    def rewind_slot(self, slot: Slot, count: int) -> None:
        """Undo `count` ≤ `reach(slot)` tokens outside a step (a diverging request)."""
        raise NotImplementedError


@attrs.frozen
class Decision:
    """How many of a drafter's tokens are worth verifying now, and what that is expected to bring.

    `rate`: expected tokens per µs of such a step. Only comparisons of rates mean anything.
    """

    length: int
    rate: float


class DraftLength(Component):
    """Chooses how many tokens to draft."""

    kind = "draft_length"

    @property
    def max(self) -> int:
        """The largest k it may ever choose; ring and buffers are sized for it."""
        raise NotImplementedError

    @property
    def padding(self) -> int:
        """How many rows `rows` may add at most; each takes a plane of the snapshot ring."""
        return 0

    def choose(self, sequences: Sequence[Seq]) -> Sequence[int]:
        """The draft length of each sequence for this step; 0 means plain decoding."""
        raise NotImplementedError

    def rows(self, needed: int) -> int:
        """How many rows to verify where anchor and drafts are `needed` rows.

        More can cost less: kernels are chosen by the number of rows. The rows added are decoded
        behind the drafts, looked at by nobody, and undone like rejected drafts. Only asked where
        `padding` > 0 and one sequence is decoded alone: rows of several stay one batch only while
        they are equally many.
        """
        return needed

    def decide(self, sequence: Seq, drafter: str, limit: int, evidence: int = 0) -> Decision | None:
        """For a drafter made of others: the best use of one of them in this step.

        At most `limit` tokens. None: this policy does not compare drafters.
        """
        return None

    def trim(self, sequences: Sequence[Seq], drafts: Sequence[Draft]) -> Sequence[Draft]:
        """How much of each draft is verified: a leading part; here all of it.

        Asked where anything was drafted, before constraints cut drafts or add to them. What is
        not verified costs no rows, and the tokens that are emitted next still show whether it
        would have held. To stay exact, the length must not depend on a token that was drawn
        (`Draft.q`), only on those before it.
        """
        return drafts

    def observe(
        self, sequences: Sequence[Seq], steps: Sequence[Step], draft_us: float, rest_us: float
    ) -> None:
        """What the step brought, and its cost: drafting, and all the rest (µs)."""


# --- around the step ----------------------------------------------------------------------------


class Constraint:
    """Restricts which tokens may follow: a grammar, a reasoning budget.

    Built per request, by a plugin's `ConstraintFactory`. All queries are about the tokens
    emitted so far plus `prefix`, the drafted tokens before the row in question; they change
    nothing. Only `commit` and `rewind` do.
    """

    def legal_prefix(self, tokens: Sequence[int]) -> int:
        """How many leading tokens of a draft may follow what was emitted."""
        raise NotImplementedError

    def forced(self, prefix: Sequence[int]) -> Sequence[int]:
        """Tokens that must follow `prefix`, as many as are certain; empty when there is choice.

        They are verified like drafts, so that forcing costs no extra target call.
        """
        return ()

    def allows(self, prefix: Sequence[int], token: int) -> bool:
        """Whether `token` may follow `prefix`."""
        return self.legal_prefix([*prefix, token]) == len(prefix) + 1

    def mask(self, prefix: Sequence[int]) -> NDArray[np.uint32] | None:
        """Legal tokens after `prefix` as a bit mask (bit t%32 of word t//32); None: all."""
        raise NotImplementedError

    def commit(self, tokens: Sequence[int]) -> None:
        """These tokens were emitted."""

    def rewind(self, count: int) -> None:
        """The last `count` emitted tokens are taken back."""

    def was_forced(self, index: int) -> bool:
        """Whether emitted token `index` was written for the model, against its own choice."""
        return False


class ConstraintFactory(Component):
    """Makes a `Constraint` for each request that asks for one."""

    kind = "constraint"
    fields: ClassVar[frozenset[str]] = frozenset()
    """Fields of a request body that it reads; `Pipeline.chat` refuses what nobody reads."""

    def make(self, request: Mapping[str, Any], prompt: Prompt | None) -> Constraint | None:
        """The constraint for an OpenAI-shaped request; None when it asks for none."""
        raise NotImplementedError


@attrs.frozen
class Reuse:
    """What a prefix cache found for a request.

    `length` tokens of the prompt are in the memory of `slot` now, drafters included; `source`
    is `live`, `ring`, `ram`, `disk` or `none`; `miss` names the reason when it is `none`.
    """

    slot: Slot
    length: int = 0
    source: str = "none"
    miss: str = ""


class PrefixCache(Component):
    """Finds what need not be prefilled again."""

    kind = "cache"

    def prepare(self, request: Request, slots: Sequence[Slot], states: States) -> Reuse:
        """Choose one of the free `slots` and bring the longest usable prefix into its memory.

        At most `len(request.prompt) - 1` tokens may be reused: the last one is decoded for its
        logits. `states` saves, loads, rewinds and clears slots (target and drafters together).
        """
        slot = min(slots, key=lambda s: s.last_used)
        states.clear(slot)
        return Reuse(slot)

    def boundaries(self, request: Request, start: int) -> Sequence[int]:
        """Prompt lengths > `start` at which prefill pauses for `checkpoint`, ascending."""
        return ()

    def checkpoint(self, sequence: Seq, states: States) -> None:
        """Prefill stands at a boundary: `sequence.slot.length` tokens are in memory."""

    def finished(self, sequence: Seq, states: States) -> None:
        """The request is over; its slot's memory is still live."""

    def memory(self) -> Mapping[str, int]:
        """Bytes that the cache may take, by what for, for the plan at start."""
        return {}


@attrs.frozen
class Prompt:
    """A rendered conversation.

    `text[:history]` is the conversation without the generation prompt; `thinking` tells
    whether the prompt leaves a thinking block open.
    """

    text: str
    history: int
    thinking: bool = False
    notes: tuple[str, ...] = ()
    """Oddities of the request that changed or did not change the prompt, as sentences."""


class ChatTemplate(Component):
    """Renders conversations and reads answers."""

    kind = "template"
    cost: ClassVar[int] = 100
    """Rank when the template is chosen automatically: the lowest that serves the model."""
    fields: ClassVar[frozenset[str]] = frozenset()
    """Fields of a request body that it reads beyond `outrider.chat.BODY_FIELDS`."""

    def render(self, request: Mapping[str, Any]) -> Prompt:
        """The prompt of an OpenAI-shaped request body. Raises RequestError with the reason."""
        raise NotImplementedError

    def parser(self, request: Mapping[str, Any], prompt: Prompt) -> Any:
        """An incremental reader of the answer's text (reasoning, content, tool calls)."""
        raise NotImplementedError


class Observer(Component):
    """Watches steps; called only when one is configured."""

    kind = "observer"

    def started(self, sequence: Seq) -> None:
        """Prefill is done; the first token was emitted."""

    def step(self, sequences: Sequence[Seq], steps: Sequence[Step]) -> None:
        """A step is over."""

    def finished(self, sequence: Seq) -> None:
        """A sequence has ended."""
