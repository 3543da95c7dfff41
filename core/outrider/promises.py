"""What components owe the decode loop, checked where their answers come in.

A wrong answer would become wrong text, or an error somewhere else that names nobody. The checks
of a step look at what can be seen in a microsecond, and call hardly anything where all is well:
after a decode caches are cold, and a Python function costs several times what it costs in a loop.
What a drafter's q is worth, the sampler that uses it says. Raised is always PluginError, with the
name of the component.
"""

from __future__ import annotations

import operator
from array import array
from collections.abc import Sequence as ListOf
from typing import Any

from outrider.components import Component, Reuse
from outrider.errors import PluginError
from outrider.sequence import Request, Sequence, Slot
from outrider.states import States
from outrider.step import Accepted, Draft

_LISTS = (list, tuple)

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
    if type(drafts) not in _LISTS or len(drafts) != len(sequences):
        raise _wrong_list(component, "propose", Draft, sequences, drafts)
    for sequence, limit, draft, (length, anchor) in zip(
        sequences, limits, drafts, before, strict=True
    ):
        if type(draft) is not Draft:
            raise _wrong_list(component, "propose", Draft, sequences, drafts)
        tokens, own = draft.tokens, sequence.tokens
        if tokens:
            who = draft.source or component.name
            if len(tokens) > limit:
                raise PluginError(
                    f"the drafter {who!r} proposed {len(tokens)} tokens; at most {limit} were "
                    "asked for"
                )
            if not _all_tokens(tokens, n_vocab):
                raise _wrong_token(f"drafter {who!r}", tokens, n_vocab)
            if draft.q is not None and len(draft.q) != len(tokens):
                raise PluginError(
                    f"the drafter {who!r} proposed {len(tokens)} tokens with {len(draft.q)} "
                    "distributions; `q` has one for each token, or None where it was not drawn"
                )
        if len(own) != length or own[-1] != anchor:
            raise _meddling(component, "propose")


def check_answers(
    component: Component,
    sequences: ListOf[Sequence],
    drafts: ListOf[Draft],
    answers: ListOf[Accepted],
    before: Held,
    n_vocab: int,
) -> None:
    """No more drafts accepted than there were, and a token after them that is allowed there."""
    if type(answers) not in _LISTS or len(answers) != len(sequences):
        raise _wrong_list(component, "accept", Accepted, sequences, answers)
    for sequence, draft, answer, (length, anchor) in zip(
        sequences, drafts, answers, before, strict=True
    ):
        if type(answer) is not Accepted:
            raise _wrong_list(component, "accept", Accepted, sequences, answers)
        count, token, own = answer.count, answer.token, sequence.tokens
        if not 0 <= count <= len(draft.tokens):
            raise PluginError(
                f"the sampler {component.name!r} accepted {count} drafts of {len(draft.tokens)}"
            )
        if type(token) is not int and not _all_tokens((token,), n_vocab):
            raise _wrong_token(f"sampler {component.name!r}", [token], n_vocab)
        if not 0 <= token < n_vocab:
            raise _wrong_token(f"sampler {component.name!r}", [token], n_vocab)
        if len(own) != length or own[-1] != anchor:
            raise _meddling(component, "accept")
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


def _all_tokens(tokens: ListOf[int], n_vocab: int) -> bool:
    """Whether all are whole numbers that the vocabulary has."""
    try:
        ids = array("i", tokens)
    except (TypeError, OverflowError):
        return False
    return min(ids) >= 0 and max(ids) < n_vocab


def _wrong_list(
    component: Component, method: str, expected: type, sequences: ListOf[Any], answers: Any
) -> PluginError:
    name = f"{component.name!r}: `{method}` returned"
    if type(answers) in _LISTS and len(answers) == len(sequences):
        for answer in answers:
            if type(answer) is not expected:
                return PluginError(
                    f"{name} {_shown(answer)} for a sequence; expected {expected.__name__}"
                )
    return PluginError(
        f"{name} {_shown(answers)}; expected a list with one {expected.__name__} for each of "
        f"{len(sequences)} sequences"
    )


def _wrong_token(who: str, tokens: ListOf[Any], n_vocab: int) -> PluginError:
    for token in tokens:
        try:
            number = operator.index(token)
        except TypeError:
            return PluginError(f"the {who} gave {_shown(token)} for a token id")
        if not 0 <= number < n_vocab:
            return PluginError(f"the {who} gave token {number}; the vocabulary has {n_vocab}")
    return PluginError(f"the {who} gave {_shown(tokens[0])} for a token id; expected an int")


def _meddling(component: Component, method: str) -> PluginError:
    return PluginError(
        f"{component.name!r} changed `sequence.tokens` in `{method}`; only the decode loop may"
    )


def _shown(value: Any) -> str:
    """A value, or how many and of what type, for a message."""
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__} of {len(value)}"  # pyright: ignore[reportUnknownArgumentType]
    text = repr(value)
    return text if len(text) <= 40 else type(value).__name__
