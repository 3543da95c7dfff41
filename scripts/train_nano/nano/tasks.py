"""Generated tasks with one right answer, and how to tell whether an answer is right."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from attrs import evolve, frozen

from .synth import arith, data, edits, longer, problems, text, tools
from .synth.gen import Gen
from .synth.types import Chat, Turn
from .template import END, render

Check = Callable[[str, str], bool]


def same(expected: str, got: str) -> bool:
    return got.strip() == expected.strip()


def same_number(expected: str, got: str) -> bool:
    """The last number of both texts is the same."""
    numbers = [re.findall(r"-?\d+(?:\.\d+)?", t) for t in (expected, got)]
    return bool(numbers[1]) and numbers[0][-1] == numbers[1][-1]


def same_block(expected: str, got: str) -> bool:
    """The fenced block, or the whole text where there is no fence, is the same."""

    def block(answer: str) -> str:
        found = re.search(r"```\w*\n(.*?)```", answer, re.S)
        return (found[1] if found else answer).strip()

    return block(expected) == block(got)


def same_value(expected: str, got: str) -> bool:
    """Both give the same value, bare or at the end of "The KEY is VALUE."."""

    def value(answer: str) -> str:
        return answer.strip().removesuffix(".").rsplit(" is ", 1)[-1]

    return value(expected) == value(got)


def same_calls(expected: str, got: str) -> bool:
    """All tool calls are the same to the byte; text before them is free."""
    mark = "<tool_call>"
    return (
        mark in got and got[got.index(mark) :].strip() == expected[expected.index(mark) :].strip()
    )


def _single(make: Callable[[Gen], Turn], level: str) -> Callable[[Gen], Chat]:
    return lambda g: Chat((make(g),), level=level)


def _tool(level: str) -> Callable[[Gen], Chat]:
    def make(g: Gen) -> Chat:
        definitions, turns = tools.tool_chat(g)
        return Chat((evolve(turns[0], answer=""),), tools=definitions, level=level)

    return make


def _recall(g: Gen) -> Chat:
    """A long conversation that ends with a question about an earlier turn."""
    turns = longer.recall(g)
    while turns[-1].answer in ("Noted.", "Got it.", "I will remember that."):
        turns.pop()
        if not turns:
            turns = longer.recall(g)
    return Chat(tuple(turns), level="off")


@frozen
class Family:
    """A kind of task: how to make one, at which effort, and what counts as right."""

    name: str
    make: Callable[[Gen], Chat]
    check: Check
    target: float | None = None


FAMILIES: tuple[Family, ...] = (
    Family("tool call", _tool("off"), same_calls, 0.97),
    Family("code edit", _single(edits.edit, "off"), same_block, 0.85),
    Family("arithmetic", _single(arith.direct, "medium"), same_number, 0.90),
    Family("word problem", _single(problems.word_problem, "medium"), same_number, 0.75),
    Family("lookup", _single(data.lookup, "off"), same_value, 0.90),
    Family("reformat", _single(data.reformat, "off"), same_block, 0.90),
    Family("list", _single(text.list_task, "off"), same, 0.90),
    Family("arithmetic, low", _single(arith.direct, "low"), same_number),
    Family("arithmetic, xhigh", _single(arith.direct, "xhigh"), same_number),
    Family("arithmetic, off", _single(arith.direct, "off"), same_number),
    Family("word problem, xhigh", _single(problems.word_problem, "xhigh"), same_number),
    Family("tool call, xhigh", _tool("xhigh"), same_calls),
    Family("code edit, xhigh", _single(edits.edit, "xhigh"), same_block),
    Family("reading", _single(text.reading, "off"), same),
    Family("table question", _single(data.field_question, "off"), same_value),
    Family("long text", _single(longer.needle, "off"), same_block),
    Family("recall over turns", _recall, same),
)


def expected_answer(template: Callable[..., Any], chat: Chat) -> str:
    """What the last turn says behind its thinking."""
    answer = next(s for s, trained in reversed(render(template, chat)) if trained)
    return answer.removesuffix(END).split("</think>")[-1].strip()
