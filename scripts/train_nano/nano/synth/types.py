"""What a generated chat is made of."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

LEVELS = ("off", "low", "medium", "xhigh")


@frozen
class Thought:
    """Reasoning in pieces, so that each effort level can pick a length.

    `brief` alone must be enough to get the answer right; `steps` work it out; `restate` and `check`
    frame the steps at the highest effort.
    """

    brief: str
    steps: tuple[str, ...] = ()
    restate: str = ""
    check: str = ""

    def at(self, level: str) -> str:
        """The text for a level of LEVELS; never empty unless thinking is off."""
        if level == "off":
            return ""
        if level == "low":
            return self.brief
        steps = [s for s in self.steps if s] or [self.brief]
        if level == "medium":
            return "\n".join(steps)
        return "\n".join(p for p in (self.restate, *steps, self.check) if p)


@frozen
class Call:
    """One tool call; arguments are JSON values."""

    name: str
    arguments: dict[str, Any]


@frozen
class Turn:
    """One assistant turn and what it answers: a user message, or the results of the calls before."""

    user: str | None
    thought: Thought
    answer: str
    calls: tuple[Call, ...] = ()
    results: tuple[str, ...] = ()


@frozen
class Chat:
    """A conversation with the template's switches."""

    turns: tuple[Turn, ...]
    system: str = ""
    tools: tuple[dict[str, Any], ...] = field(default=())
    level: str = "medium"
    preserve: bool = True
