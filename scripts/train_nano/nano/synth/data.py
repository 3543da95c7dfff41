"""Extraction, reformatting and retrieval over structured text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from . import wordings
from .edits import fence
from .gen import COLORS, JOBS, Gen, join_and
from .types import Thought, Turn

FIELDS: dict[str, Callable[[Gen], Any]] = {
    "name": Gen.name,
    "age": lambda g: g.randint(18, 90),
    "city": Gen.city,
    "email": Gen.email,
    "job": lambda g: g.choice(JOBS),
    "id": Gen.code,
    "color": lambda g: g.choice(COLORS),
    "price": lambda g: g.randint(1, 999),
    "date": Gen.date,
    "item": Gen.noun,
    "quantity": lambda g: g.randint(1, 60),
    "status": lambda g: g.choice(["active", "pending", "closed", "open"]),
    "team": Gen.fake,
    "title": lambda g: g.phrase(2, 3),
}
Record = dict[str, Any]


def _value(g: Gen, key: str) -> Any:
    return FIELDS[key](g) if key in FIELDS else g.code()


def record(g: Gen, low: int = 2, high: int = 5) -> Record:
    keys = g.sample(list(FIELDS), g.randint(low, high))
    if g.chance(0.35):
        keys[-1] = g.identifier()
    return {k: _value(g, k) for k in dict.fromkeys(keys)}


def as_yaml(rec: Record) -> str:
    return "\n".join(f"{k}: {v}" for k, v in rec.items())


def as_csv(recs: list[Record]) -> str:
    return "\n".join([",".join(recs[0]), *(",".join(map(str, r.values())) for r in recs)])


def as_table(recs: list[Record]) -> str:
    head = "| " + " | ".join(recs[0]) + " |\n|" + "---|" * len(recs[0])
    return "\n".join([head, *("| " + " | ".join(map(str, r.values())) + " |" for r in recs)])


def as_lines(rec: Record) -> str:
    return "\n".join(f"{k.capitalize()}: {v}" for k, v in rec.items())


def as_prose(rec: Record) -> str:
    text = "; ".join(f"the {k} is {v}" for k, v in rec.items())
    return f"T{text[1:]}."


_CORE = (
    "[convert|turn|change|transform|rewrite|translate|rework|put|bring] [this|it|the data|the following|these data|this data|the input|everything|the text][ in| over|] [to|into] {to}",
    "[write|give|show|print|format|output|express|return|render|list|reformat|present|represent|save|encode|export] [this|it|the data|the following|these data|the fields|the values|the same data|everything|the content] [as|in|using|in the form of] {to}",
    "[extract|take|pull|collect|read] [the data|the fields|the values|the information|everything|all fields] [as|into|and write {to}|in] {to}",
    "[make|create|build|generate|prepare] [a |some |valid |][{to}] [from|with|for] [this|it|the data|the following|these fields|the input]",
)
_I = (
    "{Core}[:|.]\n\n{src}",
    "{src}\n\n{Core}[.|, please.]",
    "[Can|Could|Would] you [please |]{core}?\n\n{src}",
    "{src}\n\n[Please|Now|Then|So] {core}.",
    "[Here is|This is|Take|Look at] [some|the|my] [data|text|input|information|{kind}][:|.]\n\n{src}\n\n{Core}.",
    "I [want|need|would like] you to {core}.\n\n{src}",
    "[Task|Your job|Request|What to do]: {core}.\n\n{src}",
    "{Core}: {src}",
)
TO_FORMAT = (*(frame.replace("{Core}", core[0].upper() + core[1:] if core[0] != "[" else "[Please |Now |]" + core).replace("{core}", core) for frame in _I for core in _CORE),
             "{to}, please:\n\n{src}", "{src}\n\n[In|As] {to}[, please|]?", "[How does this look|What is this|How would this look|Show me how this looks] [as|in] {to}?\n\n{src}", "Give me the following as {to}: {src}",
             "I [need|want|would like|have to have|require] [this|the following|these data|the data] [in|as] {to}[:|.]\n\n{src}", "{src}\n\n[I want|I would like|Give me|Show me|Please send|Let me have] [{to}|this as {to}|the {to} version|it in {to}].",
             "The [data|input|text|{kind}] [below|here] [must|has to|needs to|should] [be|become|be written as|be in] {to}[:|.]\n\n{src}", "[Format|Output|Target|Wanted]: {to}\n\n{src}")  # fmt: skip


KINDS = {
    "fields": ("fields", "list of fields", "record", "note", "text", "data"),
    "JSON": ("JSON", "JSON", "JSON object", "JSON text", "JSON data"),
    "YAML": ("YAML", "YAML", "YAML text", "YAML data", "YAML notation"),
    "CSV": ("CSV", "CSV", "CSV data", "CSV text", "comma-separated text"),
    "text": ("text", "sentence", "plain text", "prose", "data"),
    "a Markdown table": ("Markdown table", "Markdown table", "table", "Markdown"),
}
TARGETS = {
    "JSON": ("JSON", "JSON", "JSON", "valid JSON", "JSON format", "JSON notation"),
    "YAML": ("YAML", "YAML", "YAML", "YAML format", "YAML notation", "valid YAML"),
    "CSV": ("CSV", "CSV", "CSV", "CSV format", "CSV lines", "comma-separated values"),
    "a Markdown table": ("a Markdown table", "a Markdown table", "a table in Markdown",
                         "a table"),
}  # fmt: skip


def _ask_format(g: Gen, kind: str, to: str, source: str, unseen: tuple[str, ...]) -> str:
    if g.unseen or g.chance(0.25):
        name = kind.removeprefix("a ") if kind not in ("fields", "text") else "data"
        return g.say(TO_FORMAT, unseen).format(to=to, src=source, kind=name)
    return g.laid_out(
        wordings.REFORMAT, wordings.BODY_LAYOUTS, unseen,
        to=g.choice(TARGETS[to]), kind=g.choice(KINDS[kind]), body=source,
    )  # fmt: skip


def reformat(g: Gen) -> Turn:
    """One record, or several, from one notation to another."""
    if g.chance(0.5):
        rec = record(g)
        sources = {
            "fields": as_lines(rec),
            "JSON": json.dumps(rec),
            "YAML": as_yaml(rec),
            "text": as_prose(rec),
        }
        kind = g.choice(list(sources))
        to = g.choice([k for k in ("JSON", "YAML", "CSV") if k != kind])
        if kind == "fields":  # field names are written in lower case in the result
            rec = {k.lower(): v for k, v in rec.items()}
        out = {"JSON": json.dumps(rec, indent=2), "YAML": as_yaml(rec), "CSV": as_csv([rec])}[to]
        ask = _ask_format(
            g, kind, to, sources[kind],
            ("{src}\n\nI need that in {to}.", "Produce {to} from the following.\n\n{src}"),
        )  # fmt: skip
        keys = list(rec)
    else:
        keys = list(record(g, 2, 4))
        recs = [{k: _value(g, k) for k in keys} for _ in range(g.randint(2, 5))]
        listed = "\n".join("- " + as_yaml(r).replace("\n", "\n  ") for r in recs)
        forms = {
            "CSV": as_csv(recs),
            "JSON": json.dumps(recs, indent=2),
            "a Markdown table": as_table(recs),
            "YAML": listed,
        }
        kind, to = g.sample(list(forms), 2)
        out = forms[to]
        ask = _ask_format(
            g, kind, to, forms[kind],
            ("Make {to} out of this {kind}:\n\n{src}", "{src}\n\nThe data above should be {to}."),
        )  # fmt: skip
    lang = {"JSON": "json", "YAML": "yaml", "CSV": "csv"}.get(to)
    answer = fence(out, lang) if lang and g.chance(0.6) else out
    steps = (f"The fields are {join_and(keys)}.", f"I write them as {to}.")
    return Turn(
        ask,
        Thought(
            f"I copy the values into {to}.",
            steps,
            f"The user wants {to}.",
            "All values stay the same.",
        ),
        answer,
    )


def pairs(g: Gen, count: int) -> dict[str, str]:
    """Distinct keys of mixed kinds with their values."""
    found: dict[str, str] = {}
    while len(found) < count:
        key = g.choice([Gen.identifier, Gen.code, Gen.name, Gen.fake, Gen.noun])(g)
        found[key] = g.choice([g.code(), g.fake(), str(g.randint(1, 9999)), g.city(), g.noun()])
    return found


LOOKUPS = (
    "What is the [value|entry|content] of {}?", "Which [value|entry] [belongs to|is given for|is listed for|matches|has the key] {}?", "{}?",
    "[Find|Look for|Search for|Locate] {} and [tell me|give me|report|say] its [value|entry].", "[Look up|Find|Check|Get|Fetch|Return] [the value of |the entry for |]{}.",
    "What [does {} map to|is stored under {}|is {} set to|is listed for {}|does {} have|do you find for {}|is written for {}|belongs to {}]?",
    "[Give me|Tell me|Show me|Name|I want|I need] the [entry|value|content] [for|of|under|at|listed for] {}[.|, please.]", "[What about|And|How about|Now] {}?",
    "Tell me the value [stored under|listed for|given for|paired with] {}.", "[Can|Could|Would] you [find|look up|give me|read|tell me] [the value of |the entry of |]{}[ for me|]?",
    "{} [is|has] which value?", "[Only|Just] the value of {}[, please|].", "I am looking for {}. What [is its value|does it say]?",
    "Under {}, what [value|entry] [is there|do you see]?", "[Key|Lookup|Query]: {}", "To what is {} [mapped|assigned|set]?",
)  # fmt: skip
LOOKUPS_UNSEEN = ("I need the value that goes with {}.", "What stands next to {}?",
                  "Please read off the value for {}.")  # fmt: skip


def lookup(g: Gen, count: int | None = None) -> Turn:
    """Find the value of a key in a list."""
    n = count or g.choice([4, 6, 8, 12, 16, 24, 40])
    table = pairs(g, n)
    sep, joiner = g.choice([(": ", "\n"), (" = ", "\n"), (" -> ", "\n"), (": ", ", "), ("=", "; ")])
    body = joiner.join(f"{k}{sep}{v}" for k, v in table.items())
    key = g.choice(list(table))
    ask = g.say(LOOKUPS, LOOKUPS_UNSEEN).format(key)
    ask = g.say(
        ("{b}\n\n{a}", "Here is a list:\n\n{b}\n\n{a}", "{a}\n\n{b}"),
        ("These are my notes:\n\n{b}\n\n{a}",),
    ).format(a=ask, b=body)
    v = table[key]
    thought = Thought(
        f"{key} is {v}.",
        (f"I look for {key} in the list.", f"The entry says {v}."),
        f"There is a list with {n} entries.",
        "Only this entry has that key.",
    )
    return Turn(ask, thought, g.choice([v, v, f"The value of {key} is {v}."]))


def field_question(g: Gen) -> Turn:
    """Read one field of one row."""
    recs = [record(g, 3, 3)]
    keys = list(recs[0])
    recs += [{k: _value(g, k) for k in keys} for _ in range(g.randint(1, 6))]
    body = g.choice([json.dumps(recs, indent=1), json.dumps(recs), as_csv(recs), as_table(recs)])
    row = g.choice(recs)
    want = g.choice(keys[1:])
    ask = g.say(
        (
            "What is the {w} of the entry whose {k} is {v}?",
            "Which {w} goes with {k} {v}?",
            "Find the {w} where {k} is {v}.",
        ),
        ("For the row with {k} {v}, read me the {w}.",),
    ).format(w=want, k=keys[0], v=row[keys[0]])
    ask = f"{body}\n\n{ask}" if g.chance(0.7) else f"{ask}\n\n{body}"
    value = next(r for r in recs if r[keys[0]] == row[keys[0]])[want]
    steps = (f"I look for {keys[0]} {row[keys[0]]}.", f"Its {want} is {value}.")
    return Turn(
        ask,
        Thought(f"The {want} is {value}.", steps, "The data has several entries."),
        g.choice([str(value), f"The {want} is {value}."]),
    )
