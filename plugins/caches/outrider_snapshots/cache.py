"""The `snapshots` cache: live memory, the ring, RAM and the disk, in one decision a request."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence as ListOf
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import attrs
import numpy as np
from attrs import validators
from numpy.typing import NDArray
from outrider import (
    Assembly,
    ByteSize,
    EngineError,
    OutriderError,
    PrefixCache,
    Request,
    Reuse,
    Runtime,
    Sequence,
    Slot,
    States,
)

from outrider_snapshots.packing import Key, key_of, token_array
from outrider_snapshots.policy import (
    Candidate,
    Experience,
    best_first,
    boundaries,
    common_length,
    live_candidate,
    survives,
)
from outrider_snapshots.reasons import HINTS, Miss, UnusableError
from outrider_snapshots.store import EVICTED, Store

log = logging.getLogger("outrider.cache")

_PATIENCE = 8
"""Prompts without a single hit before the log says so."""
_NOT_SAVED = "not saved"
"""Counts snapshots that could not be taken among those that could not be used."""


@attrs.frozen
class DiskConfig:
    """Where snapshots outlive the process."""

    path: Path = attrs.field(factory=lambda: Path("~/.cache/outrider").expanduser())
    """Directory; several processes and models may share it. It holds readable prompts."""
    limit: ByteSize = attrs.field(default=20 << 30, converter=ByteSize)
    """Most bytes in the directory; the least recently used snapshots go first."""


@attrs.frozen
class SnapshotsConfig:
    """Options of the `snapshots` cache."""

    ram: ByteSize = attrs.field(default=1 << 30, converter=ByteSize)
    """Most bytes of snapshots in RAM; the least recently used go first."""
    disk: DiskConfig | None = None
    """The disk tier; null: none."""
    every: int = attrs.field(default=2048, validator=validators.ge(0))
    """Also take a snapshot at every multiple of this many prompt tokens; 0: at none."""
    min_tokens: int = attrs.field(default=64, validator=validators.ge(1))
    """Least number of tokens that a snapshot must save over none, or over the one before it."""


@attrs.frozen
class _Turn:
    """The last request of a slot: where its answer began and where its memory ended."""

    answer: int
    end: int


class SnapshotCache(PrefixCache):
    """Reuses live sequences, and snapshots of target and drafter in RAM and on disk."""

    Config = SnapshotsConfig

    def __init__(self, config: SnapshotsConfig, assembly: Assembly) -> None:
        super().__init__(config, assembly)
        self.config: SnapshotsConfig = config
        self.store: Store | None = None
        self._turns: dict[int, _Turn] = {}
        self._stored: dict[int, Key] = {}
        """The longest snapshot that begins what is in a slot."""
        self.pauses: frozenset[int] = frozenset()
        """Where the prefill of the latest request pauses for a snapshot."""
        self._slot: Slot
        self._experience = Experience()
        self._hits: Counter[str] = Counter()
        self._saved: Counter[str] = Counter()
        self._misses: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._restore_ns: Counter[str] = Counter()
        self._save_ns = self._saves = 0
        self._requests = 0
        self._warned = False

    def open(self, runtime: Runtime) -> None:
        """Find the directory and start the background thread."""
        self._vocabulary = runtime.engine.vocabulary
        states = States(runtime.engine, runtime.drafter, runtime.rollback)
        disk = self.config.disk
        self.store = Store(
            self.config.ram,
            None if disk is None else disk.path,
            0 if disk is None else disk.limit,
            states.fingerprint,
        )

    def close(self) -> None:
        """Finish writing."""
        if self.store is not None:
            self.store.close()
            self.store = None
            if self._requests > 1:
                self._say_if_useless()

    # --- the start of a request ---------------------------------------------------------------

    def prepare(self, request: Request, slots: ListOf[Slot], states: States) -> Reuse:
        """Bring the longest usable prefix of the prompt into the memory of one of the slots."""
        assert self.store is not None
        prompt = token_array(request.prompt)
        most = len(prompt) - 1
        candidates: list[Candidate] = []
        common: dict[int, int] = {}
        for slot in slots:
            if not slot.length:
                continue
            common[slot.id] = common_length(token_array(states.tokens(slot)), prompt)
            found = live_candidate(slot, common[slot.id], slot.length, states.reach(slot), most)
            if found:
                candidates.append(found)
        self._learn(common)
        if most >= self.config.min_tokens:
            candidates += self.store.candidates(prompt, most)
        failure: Miss | None = None
        for candidate in best_first(candidates):
            try:
                slot = self._bring(candidate, slots, states)
            except UnusableError as error:
                failure = error.reason
                self._failures[error.reason.value] += 1
                if candidate.source in ("ram", "disk"):
                    self.store.unusable(candidate, error)
                continue
            return self._hit(candidate, slot)
        miss = failure or self._reason(prompt, most, max(common.values(), default=0))
        slot = self._empty_slot(slots, states)
        states.clear(slot)
        return self._miss(slot, miss, len(prompt))

    def _bring(self, candidate: Candidate, slots: ListOf[Slot], states: States) -> Slot:
        """Make a candidate true. Raises UnusableError."""
        assert self.store is not None
        if candidate.source in ("live", "ring"):
            self._cut(candidate.place, candidate.length, states)
            return candidate.place
        start = perf_counter_ns()
        snapshot = self.store.load(candidate)
        slot = self._empty_slot(slots, states)
        try:
            states.restore(slot, snapshot)
        except OutriderError as error:
            raise UnusableError(Miss.REFUSED, str(error)) from None
        self._restore_ns[candidate.source] += perf_counter_ns() - start
        self._stored[slot.id] = candidate.place
        return slot

    def _cut(self, slot: Slot, length: int, states: States) -> None:
        if slot.length - length >= self.config.min_tokens:
            self._keep_live(slot, states)
        try:
            states.rewind(slot, length)
        except OutriderError as error:
            log.warning("a live sequence could not be cut to %d tokens: %s", length, error)
            states.clear(slot)
            raise UnusableError(Miss.REFUSED, str(error)) from None
        key = self._stored.get(slot.id)
        if key is not None and key[0] > length:
            del self._stored[slot.id]

    def _empty_slot(self, slots: ListOf[Slot], states: States) -> Slot:
        """An empty slot, or the one that was idle longest, its conversation kept in a snapshot."""
        slot = min(slots, key=lambda s: (s.length > 0, s.last_used))
        self._keep_live(slot, states)
        self._turns.pop(slot.id, None)
        self._stored.pop(slot.id, None)
        return slot

    def _keep_live(self, slot: Slot, states: States) -> None:
        if slot.length >= self.config.min_tokens:
            self._take(slot, states, EVICTED)

    def _take(self, slot: Slot, states: States, place: str) -> None:
        """Snapshot a slot, unless that has been done already."""
        assert self.store is not None
        key = key_of(token_array(states.tokens(slot)))
        if key not in self.store:
            start = perf_counter_ns()
            try:
                self.store.put(states.snapshot(slot), place)
            except (EngineError, MemoryError) as error:
                # a request can be answered without it
                self._failures[_NOT_SAVED] += 1
                reason = str(error) or type(error).__name__
                log.warning("no snapshot of %d tokens could be taken: %s", slot.length, reason)
                return
            self._save_ns += perf_counter_ns() - start
            self._saves += 1
        self._stored[slot.id] = key

    def _stored_length(self, slot: Slot) -> int:
        """How many tokens of a slot are in a snapshot that still exists."""
        key = self._stored.get(slot.id)
        return key[0] if key is not None and self.store is not None and key in self.store else 0

    def _learn(self, common: dict[int, int]) -> None:
        """Did the ends of earlier turns come back?"""
        for slot, length in common.items():
            turn = self._turns.get(slot)
            if turn is None or length < turn.answer:
                continue
            del self._turns[slot]
            self._experience.note(length >= turn.end)
            if length < turn.end and self._experience.lost == 1:
                log.info(
                    "a prompt repeats its conversation up to the last answer and then differs "
                    "after %d of %d tokens: the client, or the template, renders answers "
                    "differently (thinking left out?); snapshots before the answer serve",
                    length,
                    turn.end,
                )

    def _reason(self, prompt: NDArray[np.int32], most: int, live: int) -> Miss:
        assert self.store is not None
        if most < self.config.min_tokens:
            return Miss.SHORT
        return self.store.why_not(prompt, most, live)

    def _hit(self, candidate: Candidate, slot: Slot) -> Reuse:
        self._requests += 1
        self._hits[candidate.source] += 1
        self._saved[candidate.source] += candidate.length
        self._turns.pop(slot.id, None)
        self._slot = slot
        return Reuse(slot, candidate.length, candidate.source)

    def _miss(self, slot: Slot, reason: Miss, tokens: int) -> Reuse:
        self._requests += 1
        self._slot = slot
        self._misses[reason.value] += 1
        log.info("nothing cached for a prompt of %d tokens: %s", tokens, reason.value)
        if self._requests >= _PATIENCE:
            self._say_if_useless()
        return Reuse(slot, miss=reason.value)

    def _say_if_useless(self) -> None:
        if self._warned or self._hits or not self._misses:
            return
        self._warned = True
        reason, count = self._misses.most_common(1)[0]
        hint = HINTS.get(Miss(reason), "see the log lines before this one")
        log.warning(
            "the cache is on, but none of %d prompts found anything in it (%d of them: %s). %s.",
            self._requests,
            count,
            reason,
            hint[0].upper() + hint[1:],
        )

    # --- taking snapshots ---------------------------------------------------------------------

    def boundaries(self, request: Request, start: int) -> list[int]:
        """The history boundary and the multiples of `every`; see `policy.boundaries`."""
        slot, config = self._slot, self.config
        stored = self._stored_length(slot)
        places = boundaries(
            len(request.prompt), request.history, start, stored, config.every, config.min_tokens
        )
        self.pauses = frozenset(places)
        return places

    def checkpoint(self, sequence: Sequence, states: States) -> None:
        """Prefill paused; take a snapshot if it is at a boundary."""
        length, request = sequence.slot.length, sequence.request
        if length in self.pauses:
            last = "tail" if request.history is None else "history"
            self._take(sequence.slot, states, last if length == max(self.pauses) else "every")

    def finished(self, sequence: Sequence, states: States) -> None:
        """Keep the end of the turn if the next prompt is likely to begin with all of it."""
        slot, request = sequence.slot, sequence.request
        answer = request.history if request.history is not None else len(request.prompt)
        self._turns[slot.id] = _Turn(answer, slot.length)
        if (
            slot.length >= max(self.config.min_tokens, len(request.prompt) + 1)
            and self._experience.worth_keeping
            and self._survives(sequence)
        ):
            self._take(slot, states, "turn")

    def _survives(self, sequence: Sequence) -> bool:
        start = sequence.request.history or 0
        tail = sequence.tokens[start:]
        text = self._vocabulary.detokenize(tail).decode("utf-8", "replace")
        again = self._vocabulary.tokenize(text, special=True, bos=False)
        return survives(tail, again, sequence.slot.length - start)

    def memory(self) -> dict[str, int]:
        """The RAM budget."""
        return {"snapshots": int(self.config.ram)}

    # --- numbers ------------------------------------------------------------------------------

    def statistics(self) -> dict[str, Any]:
        """Hits by tier, misses by reason, tokens saved, bytes, times."""
        numbers: dict[str, Any] = {
            "requests": self._requests,
            "hits": dict(self._hits),
            "misses": dict(self._misses),
            "tokens_saved": dict(self._saved),
            "restore_ms": {
                tier: round(ns / 1e6 / max(1, self._hits[tier]), 3)
                for tier, ns in self._restore_ns.items()
            },
            "save_ms": round(self._save_ns / 1e6 / max(1, self._saves), 3),
            "ends_of_turns": {"came_back": self._experience.kept, "lost": self._experience.lost},
        }
        if self._failures:
            numbers["unusable"] = dict(self._failures)
        if self.store is not None:
            numbers["store"] = self.store.statistics()
        return numbers
