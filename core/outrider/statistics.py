"""What decoding did: counts and times, added up step by step."""

from __future__ import annotations

from collections import Counter, deque
from statistics import median
from typing import Any

import attrs

from outrider.step import Step

CONSTRAINT = "constraint"
"""Whose the tokens are that a constraint forces."""


@attrs.define
class DrafterCount:
    """Tokens one drafter proposed, and how many of them were accepted."""

    proposed: int = 0
    accepted: int = 0


@attrs.define
class Statistics:
    """Counts and times of a pipeline, or of a part of its life (see `since`)."""

    steps: int = 0
    """Sequence steps: a step of three sequences counts three."""
    emitted: int = 0
    """Tokens emitted by steps; the first token of a request comes from its prefill."""
    proposed: list[int] = attrs.field(factory=list[int])
    """Times that a drafter proposed a token at position i."""
    accepted: list[int] = attrs.field(factory=list[int])
    """Times that it was accepted. Tokens that a constraint forces are counted in neither."""
    drafters: dict[str, DrafterCount] = attrs.field(factory=dict[str, DrafterCount])
    lengths: Counter[int] = attrs.field(factory=Counter[int])
    """How often each draft length was verified."""
    batches: int = 0
    """Target decode calls for steps."""
    draft_ns: int = 0
    verify_ns: int = 0
    sample_ns: int = 0
    step_ns: int = 0
    overheads: deque[int] = attrs.field(factory=lambda: deque[int](maxlen=4096))
    """The loop's own time in each of the last steps, ns: not inside the engine's library."""
    engine_ns: int = 0
    """Time inside the engine's library during steps, the target's and the drafters' contexts."""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    prefill_ns: int = 0
    """Time to first token, cache lookup included."""

    def count(self, step: Step, default: str) -> None:
        """Add one sequence's step."""
        draft = step.draft
        verified = len(draft.tokens)
        self.steps += 1
        self.emitted += len(step.tokens)
        self.lengths[verified] += 1
        k, held = verified, step.accepted
        if draft.forced or draft.barred:
            k, held = step.proposed, step.held
            if draft.forced:
                self._credit(CONSTRAINT, draft.forced, step.accepted - held)
        if not k:
            return
        proposed, accepted = self.proposed, self.accepted
        while len(proposed) < k:
            proposed.append(0)
            accepted.append(0)
        for i in range(k):
            proposed[i] += 1
        for i in range(held):
            accepted[i] += 1
        self._credit(draft.source or default, k, held)

    def _credit(self, name: str, proposed: int, accepted: int) -> None:
        entry = self.drafters.get(name)
        if entry is None:
            entry = self.drafters[name] = DrafterCount()
        entry.proposed += proposed
        entry.accepted += accepted

    def summary(self) -> dict[str, Any]:
        """The numbers under the names of `outrider generate --json`."""
        accepted = sum(self.accepted)
        proposed = sum(self.proposed)
        return {
            "tokens_per_second": _ratio(self.emitted * 1e9, self.step_ns),
            "steps": self.steps,
            "emitted": self.emitted,
            "target_calls": self.batches,
            "mean_accepted_length": _ratio(self.emitted, self.steps),
            "acceptance": _ratio(accepted, proposed),
            "acceptance_by_position": [
                round(a / p, 4) for a, p in zip(self.accepted, self.proposed, strict=True)
            ],
            "drafters": {
                name: {"proposed": d.proposed, "accepted": d.accepted}
                for name, d in self.drafters.items()
            },
            "draft_lengths": {str(k): n for k, n in sorted(self.lengths.items())},
            "time": {
                "draft_ms": round(self.draft_ns / 1e6, 3),
                "verify_ms": round(self.verify_ns / 1e6, 3),
                "sample_ms": round(self.sample_ns / 1e6, 3),
                "step_ms": round(self.step_ns / 1e6, 3),
                "overhead_us_per_step": (
                    round(median(self.overheads) / 1e3, 3) if self.overheads else 0.0
                ),
                "mean_overhead_us_per_step": _ratio(
                    (self.step_ns - self.engine_ns) / 1e3, self.batches
                ),
            },
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "prefill_ms": round(self.prefill_ns / 1e6, 3),
        }


def _ratio(a: float, b: float) -> float:
    return round(a / b, 4) if b else 0.0
