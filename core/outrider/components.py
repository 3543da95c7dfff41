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

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import attrs
import numpy as np
from numpy.typing import NDArray

from outrider.errors import PluginError

if TYPE_CHECKING:
    from pathlib import Path

    from outrider.pipeline import Pipeline
    from outrider.sequence import Request, Slot
    from outrider.sequence import Sequence as Seq
    from outrider.states import Snapshot, States


# --- what components are told about the model and the machine -------------------------------


@attrs.frozen
class ModelInfo:
    """What a GGUF header says about a model, known before its weights are loaded."""

    path: Path
    architecture: str
    name: str
    n_layer: int
    """Decoder layers, MTP layers not counted."""
    n_layer_nextn: int
    """Multi-token-prediction (NextN) layers; 0 when the file has no such head."""
    n_embd: int
    n_vocab: int
    n_ctx_train: int
    recurrent: bool
    """Whether some of the memory is a recurrent state, which cannot be truncated."""
    chat_template: str | None
    size: int
    """File size in bytes."""
    metadata: Mapping[str, Any]
    """Scalar metadata of the file, by key; arrays of numbers as tuples, long arrays left out."""
    tensors: frozenset[str]
    """Names of the tensors in the file."""


@attrs.frozen
class Needs:
    """What a drafter reads of the target besides its logits; the pipeline turns on just this."""

    nextn: bool = False
    """Hidden rows after the last layer, as the MTP head takes them."""
    layer_inputs: tuple[int, ...] = ()
    """Layers whose input rows are exported."""

    def __or__(self, other: Needs) -> Needs:
        layers = tuple(sorted({*self.layer_inputs, *other.layer_inputs}))
        return Needs(self.nextn or other.nextn, layers)


class Vocabulary(Protocol):
    """Tokens and text of a model."""

    size: int
    eog: frozenset[int]
    """Tokens that end a generation."""

    def tokenize(self, text: str, *, special: bool = True, bos: bool = False) -> list[int]:
        """Token ids of `text`; `special` recognises control tokens spelt out in it."""
        ...

    def piece(self, token: int) -> bytes:
        """The bytes a token stands for (may be half a character); control tokens spelt out."""
        ...

    def is_control(self, token: int) -> bool:
        """Whether a token is a control token, which is not part of the text."""
        ...

    def detokenize(self, tokens: Iterable[int]) -> bytes:
        """The bytes of a token list, control tokens spelt out."""
        ...


class Batch(Protocol):
    """Rows for one decode call, written through preallocated arrays.

    `tokens`, `positions`, `sequences`: int32 [capacity]; `outputs`: int8 [capacity], 1 where
    logits are wanted; `embeddings`: float32 [capacity, width] or None. Rows `0 … size-1` count.
    """

    capacity: int
    size: int
    tokens: NDArray[np.int32]
    positions: NDArray[np.int32]
    sequences: NDArray[np.int32]
    outputs: NDArray[np.int8]
    embeddings: NDArray[np.float32] | None

    def clear(self) -> None:
        """Forget all rows."""
        ...

    def add(self, token: int, position: int, sequence: int, output: bool = False) -> int:
        """Append one row and return its index."""
        ...

    def extend(
        self, tokens: Sequence[int], position: int, sequence: int, output: bool = False
    ) -> int:
        """Append rows at consecutive positions, outputs on all or none; returns the first."""
        ...

    def take_hidden(self, at: int, source: Context, row: int, count: int = 1) -> None:
        """Copy `nextn` rows that `source` exported into the embeddings of rows from `at`."""
        ...


@attrs.frozen
class Rows:
    """Where a saved state keeps one row a token: `count` rows of `size` bytes from `offset`.

    Row i belongs to token i, and stays what it is while the sequence grows, so that snapshots of
    one conversation can share it. A wrong answer costs memory, never correctness.
    """

    offset: int
    size: int
    count: int


class Context(Protocol):
    """A model with a memory: the target, or a drafter's own context.

    Row indices count the rows of the last decoded batch. Arrays returned are views into the
    engine's memory: they are valid until the next `decode` of the same context.
    """

    n_ctx: int
    """Positions a sequence may use."""
    n_batch: int
    """Most rows of one decode call."""
    n_vocab: int
    n_embd: int
    ring_depth: int
    """Recurrent snapshots the context really got (`llama_n_rs_seq`), 0 without a ring."""
    batch: Batch
    engine_ns: int
    """Nanoseconds spent inside the engine's library so far."""

    def decode(self) -> None:
        """Decode the rows of `batch`. Raises EngineError with what to do about it."""
        ...

    def embedding_batch(self, width: int) -> Batch:
        """A batch of `n_batch` embedding rows without tokens, `width` float32 values a row."""
        ...

    def decode_embeddings(self, batch: Batch) -> None:
        """Decode the rows of a batch that `embedding_batch` made."""
        ...

    def argmax(self, row: int) -> int:
        """The most likely token after an output row."""
        ...

    def attach_argmax(self) -> bool:
        """Compute `argmax` on the device from now on; False when the backend cannot."""
        ...

    def need_logits(self, sequence: int, needed: bool) -> None:
        """Whether `logits` will be read for a sequence, or only `argmax` (cheaper)."""
        ...

    on_accelerator: bool
    """Whether rows are computed on a device that they have to be copied from."""

    def need_top_k(self, sequence: int, k: int) -> None:
        """Only `top_k` will be read for a sequence from now on, until `need_logits`."""
        ...

    def top_k(self, row: int) -> tuple[NDArray[np.int32] | None, NDArray[np.float32]]:
        """Ids [k] and raw logits [k] of the k most likely tokens after an output row.

        `(None, logits [n_vocab])` when the device could not rank them.
        """
        ...

    def logits(self, row: int) -> NDArray[np.float32]:
        """Raw logits [n_vocab] after an output row."""
        ...

    def hidden(self, row: int, count: int) -> NDArray[np.float32]:
        """Exported `nextn` rows [count, n_embd] of `count` batch rows from `row`."""
        ...

    def layer_input(self, layer: int, row: int, count: int) -> NDArray[np.float32]:
        """Exported inputs [count, n_embd] of a layer for `count` batch rows from `row`."""
        ...

    def length(self, sequence: int) -> int:
        """Tokens of a sequence in memory (last position + 1; 0 when empty)."""
        ...

    def truncate(self, sequence: int, length: int) -> bool:
        """Remove positions ≥ `length`. False when the memory refuses (nothing changed then)."""
        ...

    def copy(self, source: int, destination: int) -> None:
        """Make `destination` hold what `source` holds."""
        ...

    def clear(self, sequence: int | None = None) -> None:
        """Empty one sequence, or everything."""
        ...

    def save(self, sequence: int, *, partial: bool = False, device: bool = False) -> Any:
        """Serialised state of a sequence, as bytes-like (an opaque handle for `device`).

        `partial`: the recurrent part only. `device`: tensors stay in device memory; a later
        device save of the same sequence invalidates the earlier one.
        """
        ...

    def load(
        self, sequence: int, data: Any, *, partial: bool = False, device: bool = False
    ) -> None:
        """Restore what `save` returned. Raises EngineError if the data do not fit."""
        ...

    def token_rows(self, data: Any) -> Sequence[Rows]:
        """Where a state that `save` returned keeps one row a token; empty when unknown."""
        ...


@attrs.frozen
class EnginePlan:
    """What the pipeline asks an engine to load and reserve."""

    model: ModelInfo
    max_sequences: int
    max_draft: int
    ring_depth: int
    needs: Needs
    greedy: bool


class Engine(Protocol):
    """Opens models and contexts. Built in: `llama-cpp`, and `scripted` for tests.

    An engine is a component: its class has a `Config`, `inspect` is called before `load`, and
    the attributes below exist after `load`.
    """

    info: ModelInfo
    vocabulary: Vocabulary
    target: Context

    def inspect(self, path: Path) -> ModelInfo:
        """What the file's header says, without loading weights. Raises ModelError."""
        ...

    def load(self, plan: EnginePlan, progress: Callable[[float], None] | None = None) -> None:
        """Load the weights and create the target context; `progress` gets 0.0 … 1.0."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes with anything that makes saved states incomparable: model, build, parameters."""
        ...

    @property
    def cost_key(self) -> str:
        """Changes with anything that changes what a decode costs: model, build, devices, options.

        Not with the depth of the snapshot ring.
        """
        ...

    def open_mtp(self, *, n_batch: int) -> Context:
        """A context on the target's own multi-token-prediction head."""
        ...

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
    ) -> Context:
        """Load a drafter model that shares the target's embeddings (`ctx_other`).

        `outputs`: output rows a sequence; `room`: positions beyond the target's context, for
        drafted rows; `causal`: False lets the rows of a block see each other; `hidden`: export
        `nextn` rows; `cache_type`: of K and V, by default the engine's. Raises ModelError.
        """
        ...

    def clock_ns(self) -> int:
        """The time that costs are counted in: real, unless the engine simulates its own."""
        ...

    def busy_ns(self) -> int:
        """Nanoseconds spent inside the engine's library so far, by all contexts."""
        ...

    def memory(self) -> Mapping[str, int]:
        """Bytes reserved, by what for (weights, attention cache, recurrent state and ring)."""
        ...

    def close(self) -> None:
        """Free everything."""
        ...


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


# --- one step ---------------------------------------------------------------------------------


@attrs.frozen
class LogProb:
    """Log-probabilities of one emitted token, of the model's own distribution.

    `top` are the most likely tokens with theirs, best first.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@attrs.frozen
class Distribution:
    """A distribution with small support: q of a sampled draft.

    `ids` int32 [m] without repeats; `probs` float64 [m], summing to 1. Tokens that are not
    listed have probability 0.
    """

    ids: NDArray[np.int32]
    probs: NDArray[np.float64]


@attrs.frozen
class Draft:
    """Tokens proposed to follow the anchor.

    `q[i]` is the distribution that `tokens[i]` was really drawn from, None where the token was
    chosen deterministically (a point mass); `q` itself None means that everywhere. `source`
    names the drafter for the statistics; empty means "the pipeline's drafter". `evidence` grades
    the drafter's own reason for this draft, where it has one (the suffix drafter: how long the
    repeated context is); acceptance is learnt apart for each grade.
    """

    tokens: Sequence[int] = ()
    q: Sequence[Distribution | None] | None = None
    source: str = ""
    evidence: int = 0

    def __len__(self) -> int:
        return len(self.tokens)

    def cut(self, length: int) -> Draft:
        """The first `length` tokens of this draft."""
        if length >= len(self.tokens):
            return self
        q = None if self.q is None else self.q[:length]
        return Draft(self.tokens[:length], q, self.source, self.evidence)


NO_DRAFT = Draft()


@attrs.frozen
class Accepted:
    """A sampler's answer for one sequence: `count` drafts hold, `token` follows them."""

    count: int
    token: int


@attrs.frozen
class Step:
    """What one step did to one sequence.

    Batch rows `row … row + len(draft)` of the target's last decode are [anchor, d1 … dk]; row
    `row + i` predicts what follows. `tokens` were emitted: kept drafts and one more token,
    fewer when a stop condition cut them. The target's memory now ends before `tokens[-1]`.
    """

    draft: Draft
    accepted: int
    """Drafts the sampler accepted (before any cut)."""
    tokens: tuple[int, ...]
    row: int


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
        """One draft a sequence, of at most `limits[i]` tokens; 0 asks for none."""
        return [
            self.propose_one(s, n) if n > 0 else NO_DRAFT
            for s, n in zip(sequences, limits, strict=True)
        ]

    def propose_one(self, sequence: Seq, limit: int) -> Draft:
        """A draft of at most `limit` ≥ 1 tokens for one sequence."""
        raise NotImplementedError

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

    def choose(self, sequences: Sequence[Seq]) -> Sequence[int]:
        """The draft length of each sequence for this step; 0 means plain decoding."""
        raise NotImplementedError

    def decide(self, sequence: Seq, drafter: str, limit: int, evidence: int = 0) -> Decision | None:
        """For a drafter made of others: the best use of one of them in this step.

        At most `limit` tokens. None: this policy does not compare drafters.
        """
        return None

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
        """Prompt lengths > `start` at which prefill pauses and `checkpoint` is called, ascending."""
        return ()

    def checkpoint(self, sequence: Seq, states: States) -> None:
        """Prefill stands at a boundary: `sequence.slot.length` tokens are in memory."""

    def finished(self, sequence: Seq, states: States) -> None:
        """The request is over; its slot's memory is still live."""

    def lost(self, snapshot: Snapshot) -> None:
        """A snapshot could not be used after all."""


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
