"""The suites: where their problems come from, and how answers are judged."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from evals import sandbox
from evals.problem import (
    Answer,
    Judge,
    Problem,
    Verdict,
    calls_are,
    code_is,
    contains,
    fenced,
    json_is,
    number_is,
)

FOLDER = Path(__file__).resolve().parent
NEEDLE_CHARACTERS = 41_000
DEPTHS = (0.05, 0.3, 0.5, 0.7, 0.95)


class DataError(ValueError):
    """A data file that is missing or is not what the suite expects."""


def records(path: Path, *keys: str) -> list[dict[str, Any]]:
    """The JSON lines of a file. Raises DataError that names the file and the line."""
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    found: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise DataError(f"{path}, line {number}: not JSON: {error}") from None
        missing = [key for key in keys if key not in record]
        if missing:
            raise DataError(f"{path}, line {number}: {', '.join(missing)} missing")
        found.append(record)
    return found


def gsm8k(path: Path) -> list[Problem]:
    """Grade-school arithmetic: records of GSM8K (openai/grade-school-math, MIT)."""
    problems: list[Problem] = []
    for i, record in enumerate(records(path, "question", "answer")):
        gold = record["answer"].rsplit("####", 1)[-1].strip().replace(",", "")
        ask = f"{record['question']}\n\nWrite the final number after ####."
        problems.append(Problem("gsm8k", f"gsm8k/{i}", _user(ask), number_is(float(gold))))
    return problems


def humaneval(path: Path) -> list[Problem]:
    """Functions to complete, tested by running them: records of HumanEval (openai, MIT)."""
    problems: list[Problem] = []
    for record in records(path, "task_id", "prompt", "entry_point", "test"):
        ask = (
            "Complete this function. Answer with the whole function in one code block.\n\n"
            f"```python\n{record['prompt']}```"
        )
        problems.append(Problem("humaneval", record["task_id"], _user(ask), _passes(record)))
    return problems


def _passes(record: Mapping[str, Any]) -> Judge:
    def judge(answer: Answer) -> Verdict:
        code = fenced(answer.content)
        # a bare body continues the prompt; a whole function stands for itself
        if f"def {record['entry_point']}" not in code:
            code = record["prompt"] + code
        else:
            head = record["prompt"].split(f"def {record['entry_point']}")[0]
            code = f"{head}\n{code}"
        program = f"{code}\n\n{record['test']}\n\ncheck({record['entry_point']})\n"
        outcome = sandbox.run(program)
        return Verdict(outcome.ok, "" if outcome.ok else outcome.said)

    return judge


def needle(characters: int = NEEDLE_CHARACTERS, suite: str = "needle") -> list[Problem]:
    """A sentence hidden in a long text, at five depths; `characters` is the text's length."""
    problems: list[Problem] = []
    for depth in DEPTHS:
        rng = random.Random(f"needle {characters} {depth}")
        code = rng.randrange(1000, 9999)
        name = rng.choice(("falcon", "harbor", "lantern", "meadow", "orchid"))
        sentence = f"The access code of the {name} is {code}. "
        text = haystack(rng, characters - len(sentence))
        place = text.rfind(". ", 0, max(3, int(depth * len(text)))) + 2
        whole = text[:place] + sentence + text[place:]
        ask = f"{whole}\n\nWhat is the access code of the {name}?"
        problems.append(
            Problem(suite, f"{suite}/{depth:g}", _user(ask), contains(str(code)), max_tokens=256)
        )
    return problems


def haystack(rng: random.Random, characters: int) -> str:
    """Plain sentences without numbers, about `characters` long."""
    people = ("Marta", "Ivan", "Chloe", "Omar", "Lily", "Pedro", "Yuki", "Hugo")
    things = ("bridge", "garden", "engine", "letter", "museum", "basket", "window", "ladder")
    qualities = ("quiet", "narrow", "bright", "heavy", "gentle", "modern", "wide", "old")
    places = ("Oslo", "Porto", "Lima", "Kyoto", "Geneva", "Bergen", "Athens", "Milan")
    parts: list[str] = []
    length = 0
    while length < characters:
        sentence = rng.choice(
            (
                "{p} walked past the {q} {t} in {c}. ",
                "The {t} near the {q} {u} was painted in {c}. ",
                "Nobody in {c} knew why the {t} was so {q}. ",
                "{p} wrote about a {q} {t} and a {u}. ",
            )
        ).format(
            p=rng.choice(people),
            q=rng.choice(qualities),
            t=rng.choice(things),
            u=rng.choice(things),
            c=rng.choice(places),
        )
        parts.append(sentence)
        length += len(sentence)
    return "".join(parts)[:characters].rsplit(". ", 1)[0] + ". "


def from_file(suite: str) -> list[Problem]:
    """Problems written down in `SUITE.yaml` next to this module (`nano`, `tools`)."""
    document = yaml.safe_load((FOLDER / f"{suite}.yaml").read_text())
    problems = [
        Problem(suite, f"{suite}/{entry['name']}", _request(entry), _judge(entry), 384)
        for entry in document["problems"]
    ]
    for length in document.get("needles", ()):
        problems += needle(length, f"{suite}-needle")
    return problems


def _request(entry: Mapping[str, Any]) -> dict[str, Any]:
    body = _user(entry["ask"]) if "ask" in entry else dict(entry["request"])
    for key in ("tools", "reasoning_effort", "chat_template_kwargs"):
        if key in entry:
            body[key] = entry[key]
    return body


_JUDGES: dict[str, Callable[[Any], Judge]] = {
    "number": number_is,
    "contains": lambda wanted: contains(*([wanted] if isinstance(wanted, str) else wanted)),
    "code": code_is,
    "json": json_is,
    "calls": lambda calls: calls_are(*((call["name"], call["arguments"]) for call in calls)),
}


def _judge(entry: Mapping[str, Any]) -> Judge:
    found = [kind for kind in _JUDGES if kind in entry]
    if len(found) != 1:
        raise DataError(f"problem {entry['name']!r} needs one of {', '.join(_JUDGES)}")
    return _JUDGES[found[0]](entry[found[0]])


def _user(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}
