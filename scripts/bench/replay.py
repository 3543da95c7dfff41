"""Decoding without a model: recorded texts, recorded drafts, and a table of costs.

What a greedy model says does not depend on how it is drafted, and a block drafter that follows it
proposes the same after the same tokens. So one recording is enough to try any draft length on it,
in a second, without noise or with just the noise one wants.
"""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections.abc import Sequence as ListOf
from math import exp
from pathlib import Path
from typing import Any

import attrs
from outrider import (
    NO_DRAFT,
    Assembly,
    Component,
    ComponentSpec,
    ConfigError,
    Draft,
    Drafter,
    DraftLength,
    Request,
    Sequence,
    Slot,
    Step,
)
from outrider_cascade import CascadeConfig, CascadeDrafter
from outrider_lengths.costs import CostTable
from outrider_suffix import SuffixConfig, SuffixDrafter

BLOCK = "block"
"""Name of the drafter whose proposals were recorded."""


@attrs.frozen
class Text:
    """A prompt and what a greedy model says to it."""

    family: str
    name: str
    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    held: tuple[int, ...]
    """How many of the most drafts after `tokens[:i]` are what follows; unknown for i = 0."""


@attrs.frozen
class Truth:
    """What things cost, in µs; draft lengths learn of it only through `observe`.

    `rows[r - 1]`: a step with r verify rows. `drafting[k]`: k recorded drafts.
    """

    rows: tuple[float, ...]
    drafting: tuple[float, ...]
    beside: float
    """By how much a batch is dearer after a pass of the block drafter, which empties caches."""
    lookup: float
    """A proposal of the suffix drafter."""
    enter: float
    """A step with more rows than the one before."""
    leave: float
    """A step with fewer."""
    catch_up: float
    """The block drafter, after steps without it."""
    waiting: float
    """The same, for each token since its last draft."""
    thinking: tuple[float, float]
    """Choosing a length: where nothing is to be chosen, and otherwise."""
    settling: tuple[float, ...] = ()
    """By how much the first steps of a request are dearer."""


@attrs.frozen
class Recording:
    """Texts, and what it took to decode them."""

    about: dict[str, Any]
    truth: Truth
    texts: tuple[Text, ...]

    def save(self, path: Path) -> None:
        """Write a compressed JSON file, the same bytes for the same recording."""
        data = json.dumps(attrs.asdict(self), separators=(",", ":")).encode()
        path.write_bytes(gzip.compress(data, 9, mtime=0))

    @staticmethod
    def load(path: Path) -> Recording:
        """Read what `save` wrote. Raises ConfigError for any other file, or none."""
        try:
            data = json.loads(gzip.decompress(path.read_bytes()))
            truth = {k: tuple(v) if isinstance(v, list) else v for k, v in data["truth"].items()}
            texts = tuple(
                Text(t["family"], t["name"], *(tuple(t[k]) for k in ("prompt", "tokens", "held")))
                for t in data["texts"]
            )
            return Recording(data["about"], Truth(**truth), texts)
        except FileNotFoundError:
            raise ConfigError(f"recording not found: {path}") from None
        except (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError) as error:
            raise ConfigError(
                f"{path} is no recording of `scripts/replay_lengths.py record`: {error}"
            ) from None

    def families(self) -> list[str]:
        """Names of the families."""
        return sorted({text.family for text in self.texts})


class RecordedDrafter(Drafter):
    """Proposes as many right tokens as were right when it was recorded, then wrong ones.

    A shorter draft is taken to be the beginning of a longer one.
    """

    def __init__(self, most: int) -> None:
        super().__init__(None, Assembly(None, name=BLOCK))
        self.max_draft = most

    def propose_one(self, sequence: Sequence, limit: int) -> Draft:
        """The recorded draft at this place."""
        text: Text = sequence.scratch[BLOCK]
        at = len(sequence.tokens) - len(text.prompt)
        held = min(text.held[at], limit)
        right = text.tokens[at : at + held]
        wrong = [token + 1 for token in text.tokens[at + held : at + limit]]
        return Draft([*right, *wrong])


@attrs.frozen
class _Parts:
    """Hands a cascade its drafters."""

    drafters: dict[str, Drafter]

    def build(self, kind: str, spec: ComponentSpec) -> Component:
        return self.drafters[spec.use]


@attrs.frozen
class _Runtime:
    drafter: Drafter
    draft_length: DraftLength
    max_draft: int


class Replay:
    """One draft length and what it has learnt; texts run one after the other.

    The cascade of the suffix drafter and the recorded one decodes them, with the real cascade, the
    real suffix drafter and the real draft length: only the target is missing.
    """

    def __init__(self, truth: Truth, length: DraftLength, believed: CostTable | None) -> None:
        if believed is None and type(length).ready is not DraftLength.ready:
            raise ConfigError(
                f"the draft length {length.name!r} measures when its pipeline opens; to be "
                "replayed, it needs a method `start(table)` that takes the costs instead"
            )
        self.truth, self.length = truth, length
        most = len(truth.drafting) - 1
        suffix = SuffixDrafter(SuffixConfig(), Assembly(None, name="suffix"))
        parts = _Parts({"suffix": suffix, BLOCK: RecordedDrafter(most)})
        specs = tuple(ComponentSpec(name, None, "drafter") for name in parts.drafters)
        self.drafter = CascadeDrafter(CascadeConfig(specs), Assembly(parts, name="cascade"))
        self.most = min(length.max, len(truth.rows) - 1)
        runtime: Any = _Runtime(self.drafter, length, self.most)
        suffix.open(runtime)
        self.drafter._draft_length = length
        length.open(runtime)
        if believed is not None:
            length.start(believed)

    def run(self, text: Text, most_tokens: int, rng: random.Random | None) -> tuple[int, float]:
        """Tokens after the first, and µs that they took."""
        truth, said = self.truth, text.tokens
        prompt = list(text.prompt)
        sequence = Sequence(Request(prompt=prompt), Slot(0), [*prompt, said[0]])
        sequence.scratch[BLOCK] = text
        self.drafter.begin(sequence)
        end = min(most_tokens, len(said))
        at, spent, last, drafted, steps = 1, 0.0, 1, 0, 0
        while at < end:
            limit = min(self.length.choose([sequence])[0], self.most, end - at - 1)
            draft = self.drafter.propose([sequence], [limit])[0] if limit > 0 else NO_DRAFT
            proposed, source = len(draft.tokens), draft.source
            if limit > 0:
                draft = self.length.trim([sequence], [draft])[0]
            k = len(draft.tokens)
            held = 0
            while held < k and draft.tokens[held] == said[at + held]:
                held += 1
            rows = k + 1
            rest = truth.rows[k] + (rows > last) * truth.enter + (rows < last) * truth.leave
            drafting = truth.thinking[limit > 0]
            if source == BLOCK:
                drafting += truth.drafting[proposed]
                if drafted < at:
                    drafting += truth.catch_up + truth.waiting * (at - drafted)
                drafted = at + held + 1
                rest *= truth.beside
            else:
                drafting += truth.lookup * bool(proposed)
            if steps < len(truth.settling):
                rest *= truth.settling[steps]
            if rng is not None:
                rest *= noise(rng)
            emitted = tuple(said[at : at + held + 1])
            step = Step(draft if k else NO_DRAFT, held, emitted, 0)
            self.length.observe([sequence], [step], drafting, rest)
            sequence.tokens.extend(emitted)
            self.drafter.commit([sequence], [step])
            spent += drafting + rest
            at, last, steps = at + held + 1, rows, steps + 1
        return at - 1, spent


def noise(rng: random.Random) -> float:
    """5 % of spread, and an interruption in one step of a hundred."""
    factor = exp(rng.gauss(0.0, 0.05))
    return factor * rng.uniform(1.2, 2.0) if rng.random() < 0.01 else factor


def misjudged(truth: Truth, rng: random.Random) -> CostTable:
    """The truth as a calibration of another hour has it: batches off by up to a quarter."""
    batches = rng.uniform(0.75, 1.05)
    rows = tuple(0.9 * r * (batches if i else 1.0) for i, r in enumerate(truth.rows))
    drafting = {"suffix": (truth.lookup,) * len(rows), BLOCK: truth.drafting}
    return CostTable(rows, drafting, 0.5 * (truth.enter + truth.leave))


def rates(
    recording: Recording, length: DraftLength, *, tokens: int, turns: int, seed: int
) -> dict[str, float]:
    """Tokens a second by family, when all texts come `turns` times in random order, with noise."""
    rng = random.Random(seed)
    believed = misjudged(recording.truth, rng) if hasattr(length, "start") else None
    replay = Replay(recording.truth, length, believed)
    counts, spent = (dict.fromkeys(recording.families(), 0.0) for _ in range(2))
    for _ in range(turns):
        for text in rng.sample(recording.texts, len(recording.texts)):
            n, us = replay.run(text, tokens, rng)
            counts[text.family] += n
            spent[text.family] += us
    return {family: 1e6 * counts[family] / spent[family] for family in counts}


def mean_ratio(found: dict[str, float], base: dict[str, float], families: ListOf[str]) -> float:
    """Mean over families of what one is against the other."""
    return sum(found[f] / base[f] for f in families) / len(families)
