"""The decode loop: draft, verify, accept, roll back, commit.

One step, for a list of sequences (`Decoder.step`):

    limits   = draft_length.choose(sequences)
    drafts   = drafter.propose(sequences, limits)
    drafts   = draft_length.trim(sequences, drafts)   what of them is verified
    rows     = verifier.verify(sequences, drafts)     one target call: [anchor, d1 … dk] each,
                                                      padded where more rows cost less
    accepted = sampler.accept(sequences, drafts, rows)
    drafter.commit(sequences, steps)                  reads rows of the verify batch
    rollback.rewind(sequences, rejected rows)         O(1) through the snapshot ring

Between steps the target's memory holds exactly the committed tokens without the anchor. A token
takes no other path: the first one of a request comes from the last prefill batch by the same
accept and commit, with an empty draft.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from collections.abc import Sequence as ListOf
from contextlib import ExitStack
from typing import TypeVar

from outrider.components import (
    Drafter,
    DraftLength,
    Observer,
    PrefixCache,
    Sampler,
    StateRollback,
    Verifier,
)
from outrider.errors import OutriderError, PluginError, RequestError
from outrider.promises import Held, check_answers, check_drafts, check_reuse, held
from outrider.sequence import Finish, FinishReason, Request, Sequence, Slot
from outrider.states import States
from outrider.statistics import Statistics
from outrider.step import NO_DRAFT, Accepted, Draft, Step
from outrider.target import Engine
from outrider.text import TextStream

log = logging.getLogger("outrider.decode")

Method = TypeVar("Method", bound=Callable[..., object])


class Decoder:
    """Runs sequences through opened components. One thread owns it."""

    def __init__(
        self,
        *,
        engine: Engine,
        drafter: Drafter,
        draft_length: DraftLength,
        verifier: Verifier,
        sampler: Sampler,
        rollback: StateRollback,
        cache: PrefixCache,
        observers: ListOf[Observer],
        max_draft: int,
        max_sequences: int,
        padding: int = 0,
    ) -> None:
        self.engine = engine
        self.drafter = drafter
        self.draft_length = draft_length
        self.verifier = verifier
        self.sampler = sampler
        self.rollback = rollback
        self.cache = cache
        self.observers = observers
        self.max_draft = max_draft
        self.slots = [Slot(i) for i in range(max_sequences)]
        self.states = States(engine, drafter, rollback)
        self.statistics = Statistics()
        self._now = engine.clock_ns
        # calls that do nothing are left out of the step: on a cold cache they cost microseconds
        self._before_verify = _overridden(rollback.before_verify, StateRollback.before_verify)
        self._committed = _overridden(sampler.commit, Sampler.commit)
        self._trim = _overridden(draft_length.trim, DraftLength.trim)
        self._rows = _overridden(draft_length.rows, DraftLength.rows) if padding else None
        self._padding = padding
        self._n_vocab = engine.target.n_vocab
        self._ahead = engine.target.ahead
        self._meanwhile = _overridden(drafter.meanwhile, Drafter.meanwhile)
        self._clock = 0
        self._closed = False
        self._turn = threading.Lock()
        self._thread = 0
        """Whose turn it is, while `_turn` is taken."""
        self._process = os.getpid()

    def close(self) -> None:
        """The engine goes away: nothing can be decoded any more.

        Waits for the step of another thread. Raises OutriderError when a component calls it
        from inside a step.
        """
        if self._process == os.getpid():
            if self._turn.locked() and self._thread == threading.get_ident():
                raise OutriderError("the pipeline cannot be closed from inside one of its steps")
            with self._turn:
                self._closed = True
        self._closed = True

    def _enter(self) -> None:
        """Take the loop for one call; the library under it crashes where two threads are in it."""
        if self._closed:
            raise OutriderError("the pipeline was closed; nothing can be decoded any more")
        if self._process != os.getpid():
            raise OutriderError(
                "the pipeline was opened before this process was forked; open one of its own"
            )
        if not self._turn.acquire(False):
            raise RequestError(
                "another thread is decoding with this pipeline; one thread owns it, and steps "
                "several sequences together (`Pipeline.step`)"
            )
        self._thread = threading.get_ident()

    # --- the start of a sequence --------------------------------------------------------------

    def start(self, request: Request) -> Sequence:
        """Prefill what no cache holds, emit the first token, and return the sequence.

        Raises RequestError for an empty prompt, one that does not fit the context, or when
        every slot is taken, or another thread is decoding.
        """
        self._enter()
        try:
            return self._start(request)
        finally:
            self._turn.release()

    def _start(self, request: Request) -> Sequence:
        started = self._now()
        self._check(request)
        free = [slot for slot in self.slots if slot.owner is None]
        if not free:
            raise RequestError(f"all {len(self.slots)} sequences are busy (max_sequences)")
        # before the cache gives up anything for a request that cannot be served
        settings = self.sampler.settings(request.sampling)
        reuse = self.cache.prepare(request, free, self.states)
        check_reuse(self.cache, request, free, reuse, self.states)
        slot = reuse.slot
        sequence = Sequence(
            request=request,
            slot=slot,
            tokens=list(request.prompt),
            settings=settings,
            stream=TextStream(self.engine.vocabulary, request.stop),
            cached=reuse.length,
        )
        slot.owner = sequence
        self._clock += 1
        slot.last_used = self._clock
        try:
            self.engine.target.need_logits(slot.id, self.sampler.needs_logits(sequence))
            self.sampler.begin(sequence)
            self.drafter.begin(sequence)
            row = self._prefill(sequence)
            self._first_token(sequence, row)
            self.statistics.prompt_tokens += len(request.prompt)
            self.statistics.cached_tokens += reuse.length
            self.statistics.prefill_ns += self._now() - started
            for observer in self.observers:
                observer.started(sequence)
            if sequence.finish is not None:
                self._end(sequence)
        except BaseException:
            slot.owner = None
            self.states.clear(slot)
            raise
        return sequence

    def _check(self, request: Request) -> None:
        n, limit = len(request.prompt), self.engine.target.n_ctx
        if n == 0:
            raise RequestError("the prompt is empty: there is nothing to continue")
        if n >= limit:
            raise RequestError(
                f"the prompt has {n} tokens, which leaves no room in a context of {limit}; "
                "shorten it or raise engine.context"
            )
        for token in (min(request.prompt), max(request.prompt)):
            if not 0 <= token < self._n_vocab:
                raise RequestError(
                    f"the prompt names token {token}; the vocabulary has {self._n_vocab}"
                )
        if request.max_tokens is not None and request.max_tokens < 1:
            raise RequestError(f"max_tokens is {request.max_tokens}; expected at least 1")

    def _prefill(self, sequence: Sequence) -> int:
        """Decode the prompt's missing tokens; returns the batch row of the last one."""
        target, slot, prompt = self.engine.target, sequence.slot, sequence.request.prompt
        batch = target.batch
        pauses = [
            p for p in self.cache.boundaries(sequence.request, slot.length) if p < len(prompt)
        ]
        while True:
            start = slot.length
            end = min(len(prompt), start + target.n_batch)
            if pauses and pauses[0] <= end:
                end = pauses.pop(0)
            batch.clear()
            last = end == len(prompt)
            batch.extend(prompt[start:end], start, slot.id, last_output=last)
            target.decode()
            slot.decoded(end - start)
            self.drafter.observe(sequence, 0, end - start)
            if last:
                return end - start - 1
            self.cache.checkpoint(sequence, self.states)

    def _first_token(self, sequence: Sequence, row: int) -> None:
        single, none, before = (sequence,), (NO_DRAFT,), held((sequence,))
        answers = self.sampler.accept(single, none, (row,))
        check_answers(self.sampler, single, none, answers, before, self._n_vocab)
        step = self._keep(sequence, NO_DRAFT, answers[0], row)
        self.sampler.commit(single, (step,))
        self.drafter.commit(single, (step,))

    # --- one step -----------------------------------------------------------------------------

    def step(self, sequences: ListOf[Sequence]) -> ListOf[Step]:
        """One step for every sequence; those that ended have `finish` set afterwards.

        When it fails, all of them end with `FinishReason.ERROR` and their slots are emptied:
        nobody knows how far the memory got. What a component raises at the end of a sequence
        is raised when everything that ended has been ended; the others can be stepped on.
        Raises RequestError for one that has ended before, is named twice or is another
        pipeline's; nothing has happened then.
        """
        if not sequences:
            return []
        for sequence in sequences:
            if sequence.slot.owner is not sequence:
                raise RequestError("a sequence that has ended cannot be stepped; start another")
            if sequence.slot not in self.slots:
                raise RequestError("the sequence belongs to another pipeline")
        if len(sequences) > 1 and len({s.id for s in sequences}) < len(sequences):
            raise RequestError("the same sequence was given to a step twice")
        self._enter()
        try:
            try:
                steps = self._step(sequences)
            except BaseException:
                self._give_up(sequences)
                raise
            for sequence in sequences:
                if sequence.finish is not None:
                    self._end_all(sequences)
                    break
            return steps
        finally:
            self._turn.release()

    def _step(self, sequences: ListOf[Sequence]) -> ListOf[Step]:
        statistics, now = self.statistics, self._now
        t0 = now()
        engine0 = self.engine.busy_ns()
        before = held(sequences)
        limits = self._limits(sequences)
        drafts = self._drafts(sequences, limits, before)
        if self._trim is not None and any(limits):
            drafts = self._trimmed(sequences, drafts, self._trim)
        for sequence in sequences:
            if sequence.request.constraint is not None:
                drafts = self._constrain(sequences, drafts)
                break
        padded = drafts
        if self._rows is not None and len(sequences) == 1:
            padded = (self._padded(sequences[0], drafts[0], self._rows),)
        if self._before_verify is not None:
            self._before_verify(sequences, padded)
        t1 = now()
        rows = self.verifier.verify(sequences, padded)
        if self._ahead:
            if self._meanwhile is not None:
                self._meanwhile(sequences, drafts)
            self.engine.target.wait()
        t2 = now()
        answers = self.sampler.accept(sequences, drafts, rows)
        check_answers(self.sampler, sequences, drafts, answers, before, self._n_vocab)
        t3 = now()
        steps: list[Step] = []
        rejected: list[int] = []
        for sequence, draft, whole, answer, row in zip(
            sequences, drafts, padded, answers, rows, strict=True
        ):
            verified = len(whole.tokens) + 1
            sequence.slot.decoded(verified)
            step = self._keep(sequence, draft, answer, row)
            steps.append(step)
            rejected.append(verified - len(step.tokens))
            statistics.count(step, self.drafter.name)
        if self._committed is not None:
            self._committed(sequences, steps)
        t4 = now()
        self.drafter.commit(sequences, steps)
        t5 = now()
        self.rollback.rewind(sequences, rejected)
        drafting = t1 - t0 + t5 - t4
        rest = now() - t0 - drafting
        self.draft_length.observe(sequences, steps, drafting / 1e3, rest / 1e3)
        for observer in self.observers:
            observer.step(sequences, steps)
        statistics.batches += 1
        statistics.draft_ns += drafting
        statistics.verify_ns += t2 - t1
        statistics.sample_ns += t3 - t2
        inside, whole = self.engine.busy_ns() - engine0, now() - t0
        statistics.engine_ns += inside
        statistics.step_ns += whole
        statistics.overheads.append(whole - inside)
        return steps

    def _limits(self, sequences: ListOf[Sequence]) -> list[int]:
        """The chosen draft lengths, cut to what tokens and context still allow."""
        limits: list[int] = []
        for sequence, k in zip(sequences, self.draft_length.choose(sequences), strict=True):
            limits.append(max(0, min(k, self._room(sequence))))
        return limits

    def _drafts(
        self, sequences: ListOf[Sequence], limits: ListOf[int], before: Held
    ) -> ListOf[Draft]:
        if any(limits):
            drafts = self.drafter.propose(sequences, limits)
            check_drafts(self.drafter, sequences, limits, drafts, before, self._n_vocab)
            return drafts
        return [NO_DRAFT] * len(sequences)

    def _trimmed(
        self,
        sequences: ListOf[Sequence],
        drafts: ListOf[Draft],
        trim: Callable[[ListOf[Sequence], ListOf[Draft]], ListOf[Draft]],
    ) -> ListOf[Draft]:
        """What the draft length leaves of the drafts."""
        kept = trim(sequences, drafts)
        for part, draft in zip(kept, drafts, strict=True):
            if len(part.tokens) > len(draft.tokens):
                raise PluginError(
                    f"the draft length {self.draft_length.name!r} made {len(part.tokens)} tokens "
                    f"of a draft of {len(draft.tokens)}; `trim` may only shorten drafts"
                )
        return kept

    def _room(self, sequence: Sequence) -> int:
        """How many drafts may be verified, so that they and one more token still fit."""
        length, request = len(sequence.tokens), sequence.request
        room = min(self.max_draft, self.engine.target.n_ctx - length - 1)
        if request.max_tokens is None:
            return room
        return min(room, request.max_tokens - (length - len(request.prompt)) - 1)

    def _constrain(self, sequences: ListOf[Sequence], drafts: ListOf[Draft]) -> ListOf[Draft]:
        """Cut drafts to their legal prefix, and append what the constraint forces anyway."""
        result: list[Draft] = []
        for sequence, draft in zip(sequences, drafts, strict=True):
            constraint = sequence.request.constraint
            if constraint is not None:
                legal = constraint.legal_prefix(draft.tokens)
                spare = self._room(sequence) - legal
                forced = constraint.forced(draft.tokens[:legal])[:spare] if spare > 0 else ()
                draft = draft.constrained(legal, forced)
            result.append(draft)
        return result

    def _padded(self, sequence: Sequence, draft: Draft, rows: Callable[[int], int]) -> Draft:
        """The draft, with filler behind it where more rows cost less, for the verifier only."""
        needed = len(draft.tokens) + 1
        wanted = rows(needed)
        if wanted > needed + self._padding:
            raise PluginError(
                f"the draft length {self.draft_length.name!r} asked for {wanted} rows instead of "
                f"{needed}; its `padding` is {self._padding}"
            )
        room = self.engine.target.n_ctx - len(sequence.tokens) + 1
        if not needed < wanted <= room:
            return draft
        return Draft([*draft.tokens, *[sequence.tokens[-1]] * (wanted - needed)])

    def _keep(self, sequence: Sequence, draft: Draft, answer: Accepted, row: int) -> Step:
        """Emit the accepted drafts and the token after them, up to the first stop condition."""
        request, stream, eog = sequence.request, sequence.stream, self.engine.vocabulary.eog
        assert stream is not None
        kept = [*draft.tokens[: answer.count], answer.token]
        if sequence.cancelled:
            sequence.finish = Finish(FinishReason.CANCELLED, "the request was cancelled")
        ended = not request.ignore_eog and not eog.isdisjoint(kept)
        if ended:
            kept = kept[: next(i for i, token in enumerate(kept, 1) if token in eog)]
        stopped = stream.push(kept[:-1] if ended else kept)
        if stopped is not None:
            kept = kept[:stopped]
            sequence.finish = Finish(FinishReason.STOP, "stop string")
        elif ended:
            sequence.finish = Finish(FinishReason.STOP, "end-of-generation token")
        sequence.tokens.extend(kept)
        if request.constraint is not None:
            request.constraint.commit(kept)
        if sequence.finish is None:
            if request.max_tokens is not None and sequence.generated >= request.max_tokens:
                sequence.finish = Finish(
                    FinishReason.LENGTH, f"max_tokens ({request.max_tokens}) reached"
                )
            elif len(sequence.tokens) >= self.engine.target.n_ctx:
                sequence.finish = Finish(
                    FinishReason.LENGTH,
                    f"the context of {self.engine.target.n_ctx} tokens is full",
                )
        return Step(draft, answer.count, tuple(kept), row)

    # --- the end of a sequence ----------------------------------------------------------------

    def _end_all(self, sequences: ListOf[Sequence]) -> None:
        """End those that have finished, whatever is raised at the end of one of them."""
        t0, engine0 = self._now(), self.engine.busy_ns()
        with ExitStack() as ends:
            for sequence in reversed(sequences):
                if sequence.finish is not None:
                    ends.callback(self._end, sequence)
        self.statistics.engine_ns += self.engine.busy_ns() - engine0
        self.statistics.step_ns += self._now() - t0

    def _end(self, sequence: Sequence) -> None:
        slot = sequence.slot
        assert sequence.stream is not None
        sequence.stream.close()
        slot.tokens = sequence.tokens[: slot.length]
        slot.owner = None
        with ExitStack() as told:
            for observer in reversed(self.observers):
                told.callback(observer.finished, sequence)
            told.callback(self.cache.finished, sequence, self.states)
            told.callback(self.drafter.end, sequence)

    def abandon(self, sequence: Sequence) -> None:
        """End a sequence between steps (a client that hung up); its memory stays live.

        While another thread decodes it is only cancelled: its next step ends it.
        """
        if sequence.finish is not None or self._closed:
            return
        # a generator may be collected by any thread, or in a forked child
        if self._process != os.getpid() or not self._turn.acquire(blocking=False):
            sequence.cancel()
            return
        self._thread = threading.get_ident()
        try:
            sequence.finish = Finish(FinishReason.CANCELLED, "the request was cancelled")
            self._end(sequence)
        finally:
            self._turn.release()

    def _give_up(self, sequences: ListOf[Sequence]) -> None:
        """A step failed half-way: end its sequences and empty their slots.

        What is raised on the way is logged.
        """
        for sequence in sequences:
            if sequence.slot.owner is not sequence:
                continue
            sequence.finish = Finish(FinishReason.ERROR, "the step failed")
            sequence.slot.owner = None
            try:
                with ExitStack() as last:
                    last.callback(self.states.clear, sequence.slot)
                    self.drafter.end(sequence)
            except Exception:
                # the error of the step is what is raised
                log.exception("ending sequence %d failed as well", sequence.id)


def _overridden(method: Method, default: Callable[..., object]) -> Method | None:
    """A component's method, None where it is the one that does nothing."""
    return None if getattr(method, "__func__", None) is default else method
