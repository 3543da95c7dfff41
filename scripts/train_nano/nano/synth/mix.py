"""Draw a whole chat: families, number of turns, effort, system prompt, history."""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve

from . import arith, coding, data, edits, longer, problems, stories, text, tools
from .gen import Gen
from .types import Chat, Turn

FAMILIES: tuple[tuple[float, Callable[[Gen], Turn]], ...] = (
    (5, arith.direct), (11, problems.word_problem), (6, stories.story_problem), (1, arith.convert), (1, arith.compare),
    (42, edits.edit), (4, coding.write), (1, coding.explain), (3, coding.describe_real),
    (10, data.reformat), (5, data.lookup), (2, data.field_question), (2, text.greeting),
    (2, text.fact), (4, text.reading), (30, text.list_task), (5, text.spelling), (4, text.repeat), (1, text.summarize),
    (1.5, text.story), (1, text.letter), (1, text.classify), (1.5, text.continue_prose), (1.5, longer.needle),
)  # fmt: skip
MAKERS = [f[1] for f in FAMILIES]
WEIGHTS = [f[0] for f in FAMILIES]
SYSTEMS = (
    "You are a helpful assistant.", "You are a helpful coding assistant.", "Answer briefly.",
    "You are Outrider Nano, a small and helpful assistant.", "You are an expert Python programmer.",
    "You are a friendly assistant. Keep your answers short.", "Be concise and correct.",
    "You are an AI assistant that can call functions.", "Today is a working day.",
    "Follow the instructions of the user carefully.", "Use the tools when they help.",
)  # fmt: skip
LEVEL_SHARES = {"off": 42, "low": 12, "medium": 28, "xhigh": 18}


def sample_chat(g: Gen) -> Chat:
    """One chat of the training mix."""
    level = g.choices(list(LEVEL_SHARES), list(LEVEL_SHARES.values()))[0]
    system = ""
    if g.chance(0.35):
        system = g.choice(SYSTEMS) if g.chance(0.7) else g.text(1, 3)
    definitions: tuple[dict[str, object], ...] = ()
    kind = g.random()
    if kind < 0.24:
        definitions, turns = tools.tool_chat(g)
        if g.chance(0.1):
            turns.insert(0, g.choices(MAKERS, WEIGHTS)[0](g))
    elif kind < 0.26:
        turns = longer.recall(g)
    else:
        count = g.choices([1, 2, 3, 4, 8], [52, 22, 12, 9, 5])[0]
        turns = [g.choices(MAKERS, WEIGHTS)[0](g) for _ in range(count)]
        if g.chance(0.04):
            definitions = tools.unused_tools(g)
    chat = Chat(tuple(turns), system, definitions, level, preserve=not g.chance(0.1))
    return evolve(chat, level="off") if level == "off" else chat
