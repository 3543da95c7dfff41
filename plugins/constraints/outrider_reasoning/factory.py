"""The component `reasoning-budget`: which budget a request asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import attrs
from outrider import (
    Assembly,
    Constraint,
    ConstraintFactory,
    EngineError,
    Prompt,
    RequestError,
    Runtime,
)

from outrider_reasoning.budget import ReasoningBudget, Tags


@attrs.frozen
class Config:
    """Options of `reasoning-budget`."""

    budget: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(0))
    )
    """Thinking tokens of every request that names no budget of its own; none: no limit."""
    efforts: Mapping[str, int] = attrs.field(
        factory=lambda: {"minimal": 512, "low": 512, "medium": 4096}
    )
    """Thinking tokens by reasoning effort; an effort that is not listed has no limit."""
    min_answer_tokens: int = attrs.field(default=16, validator=attrs.validators.ge(0))
    """Kept back for the answer: thinking ends so early that they fit below max_tokens."""
    message: str = ""
    """Text put before the closing tag when the budget is spent."""


class ReasoningBudgetFactory(ConstraintFactory):
    """Ends the thinking of a request when its budget is spent, and leaves room for the answer.

    The budget is `reasoning: {budget: N}` (or llama-server's `reasoning_budget_tokens`,
    `thinking_budget_tokens`), else that of the request's effort, else the configured one.
    """

    Config = Config

    def __init__(self, config: Config, assembly: Assembly) -> None:
        super().__init__(config, assembly)
        self.config: Config = config

    def open(self, runtime: Runtime) -> None:
        """Find the tags in the vocabulary."""
        self._vocabulary = runtime.engine.vocabulary
        self._tags: Tags | None = None

    fields = frozenset({"reasoning", "reasoning_budget_tokens", "thinking_budget_tokens"})

    def make(self, request: Mapping[str, Any], prompt: Prompt | None) -> Constraint | None:
        """The budget of a request; None when it has no limit."""
        budget = self._budget(request)
        room = _whole(request, "max_completion_tokens") or _whole(request, "max_tokens")
        kept = _wish(request, "min_answer_tokens", None)
        if budget is None and (kept is None or room is None):
            return None
        tags = self._find_tags()
        if room is not None:
            kept = self.config.min_answer_tokens if kept is None else kept
            most = max(0, room - len(tags.closing) - kept)
            budget = most if budget is None else min(budget, most)
        assert budget is not None
        inside = prompt is not None and prompt.thinking
        return ReasoningBudget(budget, tags, inside=inside, n_vocab=self._vocabulary.size)

    def _budget(self, request: Mapping[str, Any]) -> int | None:
        named = _wish(request, "budget", None)
        if named is not None:
            return named
        for name in ("reasoning_budget_tokens", "thinking_budget_tokens"):
            value = _whole(request, name)
            if value is not None:
                return value
        effort = _reasoning(request).get("effort", request.get("reasoning_effort"))
        if isinstance(effort, str) and effort in self.config.efforts:
            return self.config.efforts[effort]
        return self.config.budget

    def _find_tags(self) -> Tags:
        if self._tags is None:
            vocabulary = self._vocabulary
            text = f"{self.config.message}\n</think>\n\n"
            opening = vocabulary.tokenize("<think>")
            close = vocabulary.tokenize("</think>")
            closing = tuple(vocabulary.tokenize(text))
            if len(opening) != 1 or len(close) != 1 or close[0] not in closing:
                raise EngineError(
                    "a reasoning budget needs a model whose vocabulary has <think> and </think> "
                    "as tokens; this one has not"
                )
            self._tags = Tags(
                open=opening[0],
                close=close[0],
                closing=closing,
                is_blank=lambda token: not vocabulary.piece(token).strip(),
                eog=vocabulary.eog,
            )
        return self._tags


def _reasoning(request: Mapping[str, Any]) -> Mapping[str, Any]:
    value = request.get("reasoning")
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _wish(request: Mapping[str, Any], name: str, default: int | None) -> Any:
    """A whole number under `reasoning`."""
    value = _reasoning(request).get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise RequestError(f"reasoning.{name} must be a whole number of tokens, got {value!r}")
    return value


def _whole(request: Mapping[str, Any], name: str) -> int | None:
    """A token count on top level; -1 and null mean none."""
    value = request.get(name)
    if value is None or value == -1:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise RequestError(f"{name} must be a whole number of tokens, got {value!r}")
    return value
