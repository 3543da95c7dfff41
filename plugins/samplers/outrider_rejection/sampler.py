"""Speculative sampling that leaves the configured distribution as it is.

Row i of a verify batch gives p, the distribution of the token after draft i.

A draft that was chosen deterministically is a point mass: draw x from p with the number that
belongs to the position; the draft holds if it is x. What is emitted is x in either case, so the
tokens are those of plain decoding with the same seed. A draft that was drawn from a known q holds
with probability min(1, p/q) and is replaced from the normalised max(p - q, 0) otherwise (Leviathan,
Kalman and Matias, "Fast inference from transformers via speculative decoding", 2023; Chen and
others, "Accelerating large language model decoding with speculative sampling", 2023).

Nothing here has state that drafts could disturb: random numbers are a function of (seed, position,
purpose), penalties are computed from the tokens before the row, drafts included.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping
from collections.abc import Sequence as ListOf
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray
from outrider import (
    Accepted,
    Assembly,
    Constraint,
    Distribution,
    Draft,
    LogitsError,
    LogProb,
    PluginError,
    RequestError,
    Runtime,
    Sampler,
    Sequence,
    Step,
)
from outrider.native import Purpose, RowSampler, SamplingOptions

from outrider_rejection.options import RejectionConfig, Rows, rows_needed

DRAFT_SUPPORT = 128
"""Most tokens in the q of a sampled draft. What is rarer is never drafted, only resampled."""


class _History:
    """The tokens of a sequence as an int32 array that grows with it."""

    def __init__(self) -> None:
        self._buffer: NDArray[np.int32] = np.empty(1024, np.int32)
        self._known = 0

    def before(self, tokens: ListOf[int], prefix: ListOf[int]) -> NDArray[np.int32]:
        """`tokens` followed by `prefix`: a view, valid until the next call."""
        end = len(tokens) + len(prefix)
        if end > len(self._buffer):
            self._buffer = np.concatenate([self._buffer, np.empty(end, np.int32)])
        self._buffer[self._known : len(tokens)] = tokens[self._known :]
        self._known = len(tokens)
        self._buffer[len(tokens) : end] = prefix
        return self._buffer[:end]


@attrs.frozen
class _Request:
    """What one request samples with."""

    config: RejectionConfig
    seed: int
    rows: Rows
    options: SamplingOptions
    draft_options: SamplingOptions
    history: _History


_NO_HISTORY: NDArray[np.int32] = np.empty(0, np.int32)


class RejectionSampler(Sampler):
    """Draws tokens, with or without drafts from the same distribution."""

    Config = RejectionConfig

    def __init__(self, config: RejectionConfig, assembly: Assembly) -> None:
        super().__init__(config, assembly)
        self.config: RejectionConfig = config
        self.greedy = rows_needed(config, constrained=False, accelerator=False) is Rows.ARGMAX
        self._rows: Counter[str] = Counter()
        self._redrawn = 0
        self._last_seed: int | None = None

    def open(self, runtime: Runtime) -> None:
        """Allocate the buffers."""
        self._target = runtime.engine.target
        self._drafter = runtime.drafter.name
        self._kernel = RowSampler(self._target.n_vocab)

    def settings(self, overrides: Mapping[str, Any]) -> RejectionConfig:
        """The options of one request, with a seed of its own unless one is given."""
        config: RejectionConfig = super().settings(overrides)
        return (
            config if config.seed is not None else attrs.evolve(config, seed=secrets.randbits(63))
        )

    def needs_logits(self, sequence: Sequence) -> bool:
        """Whether whole rows are read for this sequence."""
        return self._needed(sequence) is Rows.LOGITS

    def begin(self, sequence: Sequence) -> None:
        """Prepare the options of a request; raises RequestError for an unknown token id."""
        config: RejectionConfig = sequence.settings
        for token in config.logit_bias:
            if token >= self._target.n_vocab:
                raise RequestError(
                    f"logit_bias names token {token}; the vocabulary has {self._target.n_vocab}"
                )
        rows = self._needed(sequence)
        if rows is Rows.DEVICE_TOP_K:
            self._target.need_top_k(sequence.id, config.top_k)
        assert config.seed is not None
        self._last_seed = config.seed
        sequence.scratch[self.name] = _Request(
            config=config,
            seed=config.seed % 2**64,
            rows=rows,
            options=config.for_kernels(),
            draft_options=config.for_kernels(
                top_k=min(config.top_k, DRAFT_SUPPORT) if config.top_k else DRAFT_SUPPORT
            ),
            history=_History(),
        )

    def accept(
        self, sequences: ListOf[Sequence], drafts: ListOf[Draft], rows: ListOf[int]
    ) -> ListOf[Accepted]:
        """The drafts that hold, and the token after them."""
        return [
            self._accept_one(sequence, sequence.scratch[self.name], draft, row)
            for sequence, draft, row in zip(sequences, drafts, rows, strict=True)
        ]

    def draw(
        self, sequence: Sequence, prefix: ListOf[int], logits: NDArray[np.float32]
    ) -> tuple[int, Distribution]:
        """Draw a draft with the request's own options, and tell what it was drawn from."""
        request: _Request = sequence.scratch[self.name]
        position = len(sequence.tokens) + len(prefix)
        try:
            token, ids, probs = self._kernel.draw(
                logits,
                request.draft_options,
                history=_seen(request, sequence, prefix),
                seed=request.seed,
                position=position,
            )
        except LogitsError:
            # a bias may ban every candidate of a drafter; its draft will just not hold then
            token, ids, probs = self._kernel.draw(
                logits, SamplingOptions(top_k=1), seed=request.seed, position=position
            )
        return token, Distribution(ids, probs)

    def commit(self, sequences: ListOf[Sequence], steps: ListOf[Step]) -> None:
        """Record log-probabilities of what was really emitted, one entry a token."""
        for sequence, step in zip(sequences, steps, strict=True):
            n_top = sequence.settings.logprobs
            if n_top is None:
                continue
            for i, token in enumerate(step.tokens):
                found = self._kernel.log_probs(self._target.logits(step.row + i), token, n_top)
                top = tuple(zip(found.ids, found.values, strict=True))
                sequence.logprobs.append(LogProb(token, found.chosen, top))

    def statistics(self) -> Mapping[str, Any]:
        """Rows read by each path, tokens drawn again for a constraint, the last request's seed."""
        return {
            "rows": dict(self._rows),
            "redrawn": self._redrawn,
            "last_seed": self._last_seed,
        }

    # --- one sequence -------------------------------------------------------------------------

    def _needed(self, sequence: Sequence) -> Rows:
        return rows_needed(
            sequence.settings,
            constrained=sequence.constraint is not None,
            accelerator=self._target.on_accelerator,
        )

    def _accept_one(
        self, sequence: Sequence, request: _Request, draft: Draft, row: int
    ) -> Accepted:
        if request.rows is Rows.ARGMAX:
            count, token = self._target.match(row, draft.tokens, len(sequence.tokens))
            self._rows[Rows.ARGMAX.value] += count + 1
            return Accepted(count, token)
        count = 0
        token = self._next(sequence, request, draft, 0, row)
        while count < len(draft.tokens) and token == draft.tokens[count]:
            count += 1
            token = self._next(sequence, request, draft, count, row + count)
        return Accepted(count, token)

    def _next(self, sequence: Sequence, request: _Request, draft: Draft, i: int, row: int) -> int:
        """The token after the first `i` drafts; equal to the next draft if that holds."""
        position = len(sequence.tokens) + i
        candidates: NDArray[np.int32] | None = None
        if request.rows is Rows.DEVICE_TOP_K:
            candidates, logits = self._target.top_k(row)
        else:
            logits = self._target.logits(row)
        # the device may be unable to rank rows; it hands out whole ones then
        self._rows[(Rows.LOGITS if candidates is None else Rows.DEVICE_TOP_K).value] += 1
        prefix = draft.tokens[:i]
        history = _seen(request, sequence, prefix)
        q = draft.q[i] if draft.q is not None and i < len(draft.tokens) else None
        if q is not None and sequence.constraint is not None:
            q = _legal_part(q, sequence.constraint, prefix, draft.tokens[i])
        if q is None:
            token = self._kernel.sample(
                logits,
                request.options,
                history=history,
                candidates=candidates,
                seed=request.seed,
                position=position,
                purpose=Purpose.TOKEN,
            )
        else:
            try:
                token = self._kernel.verify(
                    logits,
                    request.options,
                    draft.tokens[i],
                    q.ids,
                    q.probs,
                    history=history,
                    candidates=candidates,
                    seed=request.seed,
                    position=position,
                )
            except PluginError as error:
                source = draft.source or self._drafter
                raise PluginError(f"the drafter {source!r}: {error}") from None
        constraint = sequence.constraint
        if constraint is None or constraint.allows(prefix, token):
            return token
        mask = constraint.mask(prefix)
        assert mask is not None, "a constraint that refuses a token must have a mask"
        self._redrawn += 1
        return self._kernel.sample_legal(
            logits, request.options, mask, history=history, seed=request.seed, position=position
        )


def _legal_part(
    q: Distribution, constraint: Constraint, prefix: ListOf[int], drafted: int
) -> Distribution:
    """What a draft was drawn from, given that it is legal: illegal drafts were cut off before."""
    mask = constraint.mask(prefix)
    if mask is None:
        return q
    if mask[drafted // 32] >> (drafted % 32) & 1:
        legal = mask[q.ids // 32] >> (q.ids % 32).astype(np.uint32) & 1
    else:
        # where a grammar forces text its mask may name the usual token alone, while other ways
        # to spell that text are allowed, too
        legal = np.array([constraint.allows(prefix, token) for token in q.ids.tolist()])
    probs = q.probs * legal
    return Distribution(q.ids, probs / probs.sum())


def _seen(request: _Request, sequence: Sequence, prefix: ListOf[int]) -> NDArray[np.int32]:
    """The tokens before a row, where the options look at them."""
    if not request.options.sees_history:
        return _NO_HISTORY
    return request.history.before(sequence.tokens, prefix)
