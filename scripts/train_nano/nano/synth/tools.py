"""Conversations with tools: one call, several calls, a chain, results, or no call at all."""

from __future__ import annotations

import json
import re
from typing import Any

from .asks import GENERIC, MORE
from .gen import Gen, join_and
from .toolbox import SPECS, Spec, definition, made_up, spoken_arguments
from .types import Call, Thought, Turn
from .wordings_tools import INSTRUCTIONS, SECOND


def shown(value: Any) -> str:
    """A value as people write it in a request."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return json.dumps(value)
    return ", ".join(map(shown, value)) if isinstance(value, list) else str(value)


def _pick(g: Gen) -> Spec:
    return made_up(g) if g.chance(0.5) else g.choice(SPECS)


def _thought(spec: Spec, args: dict[str, Any], ask: str) -> Thought:
    listing = ", ".join(f"{k} = {shown(v)}" for k, v in args.items())
    return Thought(
        f"I should call {spec.name}.",
        (f"The user wants to {spec.description[0].lower()}{spec.description[1:]}.", f"I will call {spec.name} with {listing}."),
        f"The user said: {ask}",
        f"The function {spec.name} needs {join_and([a.name for a in spec.args])}, and I have all of it.",
    )  # fmt: skip


def _result(g: Gen, spec: Spec, args: dict[str, Any]) -> tuple[dict[str, Any], str, str]:
    """Result, its text, and the sentence that reports it."""
    result = spec.result(g, args)
    values = {k: shown(v) for k, v in {**args, **result}.items()}
    lines = "\n".join(f"{k}: {shown(v)}" for k, v in result.items())
    return result, json.dumps(result) if g.chance(0.8) else lines, spec.reply.format(**values)


def _report(spec: Spec, result: dict[str, Any]) -> Thought:
    listing = ", ".join(f"{k} = {shown(v)}" for k, v in result.items())
    return Thought(
        "The tool gave the answer.",
        (f"The tool returned {listing}.", "I can answer now."),
        f"I called {spec.name} and got a result.",
    )


def _wordings(g: Gen, spec: Spec) -> tuple[str, ...]:
    """How to ask for a tool: its own requests, or one made from its name and description."""
    if spec not in SPECS:
        return spec.asks
    if g.chance(0.3):
        spoken = spoken_arguments(g, spec.args)
        desc = spec.description[0].lower() + spec.description[1:]
        values = {"name": spec.name, "desc": desc, "Desc": spec.description, "spoken": spoken}
        return (g.spell(g.choice(GENERIC)).format(**values, Spoken=spoken[0].upper() + spoken[1:]),)
    part = g.random()
    if part < 0.2:
        return spec.asks
    return MORE[spec.name] if part < 0.5 else INSTRUCTIONS[spec.name]


def _ended(g: Gen, wording: str, values: dict[str, str]) -> str:
    """With stray words behind some slots whose value holds no space, as a space ends such a value.

    Only values that nobody takes for a word count: paths, names with underscores, codes, dates.
    """
    for name, value in values.items():
        if re.fullmatch(r"[^\s\"]*[\d/_@][^\s\"]*", value) and g.chance(0.15):
            stray = g.verb() if g.chance(0.5) else g.word()
            wording = re.sub(rf"{{{name}}}(?=$|[ .,?!;])", f"{{{name}}} {stray}", wording)
    return wording


def request(g: Gen, spec: Spec | None = None) -> tuple[Spec, dict[str, Any], str]:
    """A tool (any, unless given), arguments, and a request that holds them."""
    spec = spec or _pick(g)
    args = {a.name: a.make(g) for a in spec.args}
    values = {k: shown(v) for k, v in args.items()}
    wording = g.say(_wordings(g, spec), spec.unseen)
    if not g.unseen:
        wording = g.fresh(lambda: _ended(g, wording, values), spec.unseen)
    ask = wording.format(**values)
    if g.chance(0.1):
        ask = g.choice(["Hi! ", "Hello, ", "Please help me. ", "Quick question: "]) + ask
    elif not g.unseen and g.chance(0.08):
        ask = f"{g.sentence()} {ask}"
    if not g.unseen and g.chance(0.3) and ask[-1] not in ".?!\"'`":
        ask += "."
    return spec, args, ask


def _definitions(g: Gen, specs: list[Spec], extra: int) -> tuple[dict[str, Any], ...]:
    unique = {s.name: s for s in specs}
    for _ in range(extra):
        other = _pick(g)
        unique.setdefault(other.name, other)
    order = list(unique.values())
    g.shuffle(order)
    return tuple(definition(g, s) for s in order)


def _exchange(g: Gen, specs: list[Spec]) -> list[Turn]:
    """A request, its calls and often their results; new tools are added to `specs`."""
    known = g.choice(specs) if specs and g.chance(0.55) else None
    spec, args, ask = request(g, known)
    used, calls = [spec], [Call(spec.name, args)]
    thought = _thought(spec, args, ask)
    if g.chance(0.2):  # several calls in one turn
        other, more, ask2 = request(g)
        if other.name != spec.name:
            link = g.say(
                (
                    "Also: ",
                    "And then: ",
                    "Then ",
                    "After that: ",
                    "[Also|And|Second|Next|Furthermore|In addition|Secondly|Another thing|One more thing|Plus|Finally][:|,] ",
                    "",
                    *(f"{link} " for link in SECOND),
                ),
                ("Besides, ",),
            )
            ask = (
                f"{ask.rstrip()} {link}{ask2}"
                if g.unseen or g.chance(0.8)
                else f"{ask.rstrip()}\n{ask2}"
            )
            used.append(other)
            calls.append(Call(other.name, more))
            steps = (f"There are two things to do: {spec.name} and {other.name}.",)
            brief = f"I should call {spec.name} and {other.name}."
            thought = Thought(brief, steps, f"The user said: {ask}")
    specs += [s for s in used if s.name not in {t.name for t in specs}]
    say = "" if g.chance(0.9) else g.choice(["Let me check that.", "I will look that up."])
    turns = [Turn(ask, thought, say, tuple(calls))]
    done = [_result(g, s, c.arguments) for s, c in zip(used, calls, strict=True)]
    note, texts = _report(used[-1], done[-1][0]), tuple(d[1] for d in done)
    turns.append(Turn(None, note, " ".join(d[2] for d in done), results=texts))
    return turns


def tool_chat(g: Gen) -> tuple[tuple[dict[str, Any], ...], list[Turn]]:
    """Tool definitions and the turns of one conversation with one to six requests."""
    specs: list[Spec] = []
    turns: list[Turn] = []
    for _ in range(g.choices([1, 2, 3, 4, 6], [35, 25, 18, 12, 10])[0]):
        turns += _exchange(g, specs)
    if g.chance(0.35):
        turns.pop()
    return _definitions(g, specs, g.choice([0, 0, 1, 1, 2, 3, 4])), turns


def unused_tools(g: Gen) -> tuple[dict[str, Any], ...]:
    """Definitions for a chat that needs none of them."""
    return _definitions(g, [g.choice(SPECS)], g.randint(0, 2))
