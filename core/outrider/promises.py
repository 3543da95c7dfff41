"""What components owe the decode loop, checked where their answers come in.

A wrong answer would become wrong text, or an error somewhere else that names nobody. The checks
look at what can be seen in a microsecond; what a drafter's q is worth, the sampler that uses it
says. Raised is always PluginError, with the name of the component.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence as ListOf
from typing import Any

from outrider.components import Component, Reuse
from outrider.errors import PluginError
from outrider.sequence import Request, Sequence, Slot
from outrider.states import States
from outrider.step import Accepted, Draft

Held = list[tuple[int, int]]
"""Length and anchor of each sequence's tokens."""


def held(sequences: ListOf[Sequence]) -> Held:
    """What only the loop may change."""
    return [(len(s.tokens), s.tokens[-1]) for s in sequences]


def check_drafts(
    component: Component,
    sequences: ListOf[Sequence],
    limits: ListOf[int],
    drafts: ListOf[Draft],
    before: Held,
    n_vocab: int,
) -> None:
    """One draft a sequence, of no more tokens of the vocabulary than were asked for."""
    _check_count(component, "propose", Draft, sequences, drafts)
    for sequence, limit, draft, was in zip(sequences, limits, drafts, before, strict=True):
        tokens = draft.tokens
        if tokens:
            if len(tokens) > limit:
                raise PluginError(
                    f"the drafter {draft.source or component.name!r} proposed {len(tokens)} "
                    f"tokens; at most {limit} were asked for"
                )
            for token in tokens:
                _check_token(f"drafter {draft.source or component.name!r}", token, n_vocab)
            if draft.q is not None and len(draft.q) != len(tokens):
                raise PluginError(
                    f"the drafter {draft.source or component.name!r} proposed {len(tokens)} "
                    f"tokens with {len(draft.q)} distributions; `q` has one for each token, or "
                    "None where it was not drawn"
                )
        _check_held(component, "propose", sequence, was)


def check_answers(
    component: Component,
    sequences: ListOf[Sequence],
    drafts: ListOf[Draft],
    answers: ListOf[Accepted],
    before: Held,
    n_vocab: int,
) -> None:
    """No more drafts accepted than there were, and a token after them that is allowed there."""
    _check_count(component, "accept", Accepted, sequences, answers)
    for sequence, draft, answer, was in zip(sequences, drafts, answers, before, strict=True):
        count, token = answer.count, answer.token
        if not 0 <= count <= len(draft.tokens):
            raise PluginError(
                f"the sampler {component.name!r} accepted {count} drafts of {len(draft.tokens)}"
            )
        _check_token(f"sampler {component.name!r}", token, n_vocab)
        _check_held(component, "accept", sequence, was)
        constraint = sequence.request.constraint
        if constraint is not None and not constraint.allows(draft.tokens[:count], token):
            raise PluginError(
                f"the sampler {component.name!r} chose token {token}, which the request's "
                "constraint forbids there; a sampler must hold `sequence.constraint` (see "
                "Sampler.accept), and `mask` and `allows` of a constraint must agree"
            )


def check_reuse(
    component: Component, request: Request, free: ListOf[Slot], reuse: Reuse, states: States
) -> None:
    """A free slot that holds the beginning of the prompt, and not all of it."""
    if not isinstance(reuse, Reuse):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise PluginError(
            f"the cache {component.name!r}: `prepare` returned {_shown(reuse)}; expected a Reuse"
        )
    name, slot, length = component.name, reuse.slot, reuse.length
    if slot not in free:
        raise PluginError(f"the cache {name!r} gave a slot that was not offered to it")
    if length != slot.length:
        raise PluginError(
            f"the cache {name!r} reports {length} reused tokens, but the slot holds {slot.length}"
        )
    if length >= len(request.prompt):
        raise PluginError(
            f"the cache {name!r} kept all {length} tokens of the prompt; the last one must be "
            "decoded for the row that the first token is drawn from"
        )
    if states.tokens(slot) != list(request.prompt[:length]):
        raise PluginError(
            f"the cache {name!r} gave a slot with {length} tokens that are not the prompt's first"
        )


def _check_count(
    component: Component, method: str, expected: type, sequences: ListOf[Any], answers: Any
) -> None:
    if isinstance(answers, (list, tuple)) and len(answers) == len(sequences):  # pyright: ignore[reportUnknownArgumentType]
        for answer in answers:  # pyright: ignore[reportUnknownVariableType]
            if not isinstance(answer, expected):
                raise PluginError(
                    f"{component.name!r}: `{method}` returned {_shown(answer)} for a sequence; "
                    f"expected {expected.__name__}"
                )
        return
    raise PluginError(
        f"{component.name!r}: `{method}` returned {_shown(answers)}; expected a list with one "
        f"{expected.__name__} for each of {len(sequences)} sequences"
    )


def _check_token(who: str, token: Any, n_vocab: int) -> None:
    if type(token) is not int:
        try:
            token = operator.index(token)
        except TypeError:
            raise PluginError(f"the {who} gave {_shown(token)} for a token id") from None
    if not 0 <= token < n_vocab:
        raise PluginError(f"the {who} gave token {token}; the vocabulary has {n_vocab}")


def _check_held(
    component: Component, method: str, sequence: Sequence, was: tuple[int, int]
) -> None:
    tokens = sequence.tokens
    if len(tokens) != was[0] or tokens[-1] != was[1]:
        raise PluginError(
            f"{component.name!r} changed `sequence.tokens` in `{method}`; only the decode loop may"
        )


def _shown(value: Any) -> str:
    """A value, or how many and of what type, for a message."""
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__} of {len(value)}"  # pyright: ignore[reportUnknownArgumentType]
    text = repr(value)
    return text if len(text) <= 40 else type(value).__name__
