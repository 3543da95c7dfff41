"""A problem, an engine's answer to it, and how arithmetic, calls and needles are judged."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs


@attrs.frozen
class Answer:
    """What an engine answered: text without reasoning, tool calls as (name, arguments)."""

    content: str
    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()
    reasoning: str = ""
    finish: str = ""
    tokens: Sequence[int] | None = None
    prompt_tokens: Sequence[int] | None = None


@attrs.frozen
class Verdict:
    """Whether an answer is right, and why not."""

    right: bool
    reason: str = ""


Judge = Callable[[Answer], Verdict]


@attrs.frozen
class Problem:
    """A conversation to answer, in the shape of an OpenAI chat body, and the judge of it."""

    suite: str
    name: str
    request: Mapping[str, Any]
    judge: Judge
    max_tokens: int = 1024


NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def last_number(text: str) -> float | None:
    """The last number of a text; thousands may be grouped by commas."""
    found = NUMBER.findall(text)
    return float(found[-1].replace(",", "")) if found else None


def number_is(expected: float) -> Judge:
    """The answer's last number is `expected`; a number after `####` counts as the last."""

    def judge(answer: Answer) -> Verdict:
        text = answer.content
        if "####" in text:
            marked = NUMBER.search(text.split("####")[-1])
            text = marked[0] if marked else text
        found = last_number(text)
        if found is None:
            return Verdict(False, "there is no number in the answer")
        if abs(found - expected) > 1e-6 * max(1.0, abs(expected)):
            return Verdict(False, f"{found:g} instead of {expected:g}")
        return Verdict(True)

    return judge


def contains(*wanted: str) -> Judge:
    """Each text occurs in the answer, as whole words, whatever their case."""

    def judge(answer: Answer) -> Verdict:
        for text in wanted:
            edge_left = r"(?<!\w)" if text[:1].isalnum() else ""
            edge_right = r"(?!\w)" if text[-1:].isalnum() else ""
            pattern = edge_left + re.escape(text) + edge_right
            if not re.search(pattern, answer.content, re.IGNORECASE):
                return Verdict(False, f"{text!r} is not in the answer")
        return Verdict(True)

    return judge


def fenced(text: str) -> str:
    """The first fenced block of a text, or all of it."""
    found = re.search(r"```[\w+-]*\n(.*?)(?:```|\Z)", text, re.DOTALL)
    return found[1] if found else text


def code_is(expected: str) -> Judge:
    """The answer's code is `expected`, white space at line ends apart."""

    def lines(text: str) -> list[str]:
        return [line.rstrip() for line in text.strip("\n").splitlines()]

    def judge(answer: Answer) -> Verdict:
        found, wanted = lines(fenced(answer.content)), lines(expected)
        for i, (a, b) in enumerate(zip(found, wanted, strict=False)):
            if a != b:
                return Verdict(False, f"line {i + 1} is {a!r} instead of {b!r}")
        if len(found) != len(wanted):
            return Verdict(False, f"{len(found)} lines instead of {len(wanted)}")
        return Verdict(True)

    return judge


def json_is(expected: Any) -> Judge:
    """The answer is this JSON value, in a fenced block or bare; numbers may be texts."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {k.lower(): plain(v) for k, v in value.items()}
        if isinstance(value, list):
            return [plain(v) for v in value]
        return str(value)

    def judge(answer: Answer) -> Verdict:
        text = fenced(answer.content).strip()
        try:
            found = json.loads(text)
        except ValueError as error:
            return Verdict(False, f"not JSON: {error}")
        if plain(found) != plain(expected):
            return Verdict(False, f"{json.dumps(found)} instead of {json.dumps(expected)}")
        return Verdict(True)

    return judge


def calls_are(*expected: tuple[str, Mapping[str, Any]]) -> Judge:
    """Exactly these calls with these arguments, in any order."""

    def judge(answer: Answer) -> Verdict:
        def key(call: tuple[str, Mapping[str, Any]]) -> str:
            return json.dumps([call[0], call[1]], sort_keys=True)

        found, wanted = sorted(map(key, answer.calls)), sorted(map(key, expected))
        if found != wanted:
            said = ", ".join(found) or "no call"
            return Verdict(False, f"{said} instead of {', '.join(wanted) or 'no call'}")
        return Verdict(True)

    return judge
