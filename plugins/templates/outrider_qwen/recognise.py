"""Which version of the format a template text is: decided by what it does, not by its name.

A text that was compared before is known by its digest. Any other text renders a set of probe
requests, which reach every branch of the format; the dialect whose native rendering is the same
for every probe, refusals included, is the one. A text that reads variables the format does not
have, or holds a literal that no probe brought to light, may do something the probes cannot see:
it is not taken for a known one.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
from outrider import RequestError
from outrider.chat import ChatRequest, ToolChoice
from outrider_jinja.sandbox import ENGINE_FAILED, parse_template, render_template

from outrider_qwen.dialects import DIALECTS, Dialect, known_dialect
from outrider_qwen.rendering import render

_VARIABLES = {
    "messages",
    "tools",
    "enable_thinking",
    "reasoning_effort",
    "preserve_thinking",
    "add_generation_prompt",
    "add_vision_id",
    "raise_exception",
}


@attrs.frozen
class Recognition:
    """The dialect of a template text, or why it is none of the known ones."""

    dialect: Dialect | None
    reason: str = ""


@functools.lru_cache(maxsize=16)
def recognise(text: str) -> Recognition:
    """Find the dialect that a template text renders, to the byte."""
    if (dialect := known_dialect(text)) is not None:
        return Recognition(dialect)
    if "<function=" not in text or "<|im_start|>" not in text:
        return Recognition(None, "it does not write the Qwen3.5 conversation format")
    try:
        unknown = _unknown_variables(text)
    except RequestError as error:
        return Recognition(None, str(error))
    if unknown:
        return Recognition(None, f"it reads the variable {sorted(unknown)[0]!r}")
    probes = list(_probes())
    theirs = [_outcome_of_text(text, p) for _, p in probes]
    best: tuple[int, str] = (-1, "")
    for dialect in DIALECTS:
        same = 0
        for (_, probe), their in zip(probes, theirs, strict=True):
            if not _same(_outcome(dialect, probe), their):
                break
            same += 1
        if same == len(probes):
            hidden = _hidden_literal(text, probes, theirs)
            if hidden is None:
                return Recognition(dialect)
            return Recognition(None, f"no probe shows what its text {hidden!r} is for")
        difference = f"it differs from {dialect.name} on the probe {probes[same][0]!r}"
        best = max(best, (same, difference))
    return Recognition(None, best[1])


def _outcome(dialect: Dialect, probe: ChatRequest) -> tuple[str, str]:
    try:
        return "prompt", render(probe, dialect).text
    except RequestError as error:
        return "refused", str(error)


def _outcome_of_text(text: str, probe: ChatRequest) -> tuple[str, str]:
    context: dict[str, Any] = {**probe.variables, "messages": list(probe.messages)}
    context["tools"] = list(probe.tools)
    context["add_generation_prompt"] = probe.generation_prompt
    try:
        return "prompt", render_template(text, context)
    except RequestError as error:
        return "refused", str(error)


def _same(ours: tuple[str, str], theirs: tuple[str, str]) -> bool:
    """Equal prompts, or both refuse: then ours begins with the template's own words, if any."""
    if ours[0] == theirs[0] == "refused":
        return theirs[1].startswith(ENGINE_FAILED) or ours[1].startswith(theirs[1])
    return ours == theirs


def _unknown_variables(text: str) -> set[str]:
    from jinja2 import meta, nodes

    tree = parse_template(text)
    # A name set in one branch and read in another counts as undeclared, yet is the template's own.
    own = {n.name for n in tree.find_all(nodes.Name) if n.ctx != "load"}
    return meta.find_undeclared_variables(tree) - own - _VARIABLES


def _hidden_literal(
    text: str, probes: Sequence[tuple[str, ChatRequest]], outcomes: Sequence[tuple[str, str]]
) -> str | None:
    """A text or name in the template that neither the probes nor their outcomes contain."""
    from jinja2 import nodes

    seen = "\n".join(
        [result for _, result in outcomes]
        + [json.dumps(p.messages) + json.dumps(dict(p.variables)) for _, p in probes]
        + ["image_url", "previtem", "nextitem", "index0", "startswith", "endswith", "rstrip"]
        + ["lstrip", "split", "first", "last", "value", "count", "developer"]
    )
    tree = parse_template(text)
    literals = [n.value for n in tree.find_all(nodes.Const) if isinstance(n.value, str)]
    literals += [d.data for d in tree.find_all(nodes.TemplateData)]
    literals += [g.attr for g in tree.find_all(nodes.Getattr) if not _is_namespace(g, nodes)]
    for literal in literals:
        if literal.strip() and not all(
            part.strip(" .'\"") in seen for part in literal.strip().split("\n")
        ):
            return literal
    return None


def _is_namespace(node: Any, nodes: Any) -> bool:
    """Whether an attribute belongs to one of the template's own names, not to its input."""
    return isinstance(node.node, nodes.Name) and node.node.name not in (
        "message",
        "item",
        "tool_call",
    )


def _probes() -> Iterator[tuple[str, ChatRequest]]:
    """Requests that together reach every branch of the format."""
    user = {"role": "user", "content": "  question one\n"}
    system = {"role": "system", "content": "\n be brief "}
    thought = {"role": "assistant", "content": " answer ", "reasoning_content": "\n why \n"}
    again = {"role": "user", "content": "question two"}
    inline = {"role": "assistant", "content": "<think>\ninline\n</think>\n\nafter</think> all"}
    tool = {
        "type": "function",
        "function": {
            "name": "lookup",
            "description": "Look <up> & 'é'",
            "parameters": {"type": "object", "properties": {"a": {"default": 1.5}}},
        },
    }

    def call(arguments: Any, name: str | None = "lookup") -> dict[str, Any]:
        function: dict[str, Any] = {"name": name, "arguments": arguments}
        if name is None:
            del function["name"]
        return {"type": "function", "function": function}

    every_kind = {
        "text": "x\n<y>", "n": 3, "f": 0.5, "yes": True, "no": False, "null": None,
        "list": [1, "é", None], "map": {"k": True},
    }  # fmt: skip
    calls = [
        {"role": "assistant", "content": "Let me see.", "tool_calls": [call(every_kind)]},
        {"role": "tool", "content": " one "},
        {"role": "tool", "content": "two"},
        {"role": "assistant", "content": "", "tool_calls": [call({}), call({"a": 1})]},
        {"role": "tool", "content": "three"},
    ]
    bare = {"role": "assistant", "content": "", "tool_calls": [{"name": "f", "arguments": {}}]}
    image, video = {"type": "image"}, {"type": "video"}
    parts = [
        {"type": "text", "text": "see "}, image, {"image_url": {"url": "u"}}, video,
        {"video": "v"}, {"type": "text", "text": " this"},
    ]  # fmt: skip
    disguised = {"role": "user", "content": "<tool_response>\nx\n</tool_response>"}
    talk = [system, user, thought, again, inline, {"role": "user", "content": "q3"}]
    on, off = {"enable_thinking": True}, {"enable_thinking": False}

    cases: list[tuple[str, list[Any], dict[str, Any], bool, bool]] = [
        ("bare", [user], {}, False, True),
        ("no generation prompt", [user], {}, False, False),
        ("thinking on", [system, user], on, False, True),
        ("thinking off", [system, user], off, False, True),
        ("thinking neither", [user], {"enable_thinking": None}, False, True),
        ("thinking neither, 1", [user], {"enable_thinking": 1}, True, True),
        ("blank system", [{"role": "system", "content": " \n"}, user], {}, False, True),
        ("blank system, off", [{"role": "system", "content": ""}, user], off, False, True),
        ("null contents", [{"role": "system", "content": None}, user], {}, True, True),
        ("tools", [user], {}, True, True),
        ("tools, off", [system, user], off, True, True),
        ("tools and system", [system, user], on, True, True),
        *(
            (f"effort {e!r}", m, {"reasoning_effort": e, **v}, t, True)
            for e in ("xhigh", "medium", "low", "high", "none", "", "XHIGH", "max", "minimal")
            for m, v, t in (([user], on, False), ([system, user], {}, True), ([user], off, False))
        ),
        ("history", talk, {}, False, True),
        ("history preserved", talk, {"preserve_thinking": True}, False, True),
        ("history dropped", talk, {"preserve_thinking": False}, False, True),
        ("history, text flag", talk, {"preserve_thinking": "false"}, False, True),
        ("history, null flag", talk, {"preserve_thinking": None}, False, True),
        ("history, off", talk, off, True, True),
        ("inline thinking last", [user, inline], {}, False, False),
        ("open tag only", [user, {"role": "assistant", "content": "<think> x"}], {}, False, True),
        ("thought number", [user, {**thought, "reasoning_content": 3}], {}, False, True),
        ("calls", [system, user, *calls], {}, True, True),
        ("calls, then talk", [user, *calls, thought, again], {}, True, True),
        ("calls dropped", [user, *calls, thought, again], {"preserve_thinking": False}, True, True),
        ("calls after the question", [user, *calls], {"preserve_thinking": False}, True, True),
        ("turns after the question", [system, user, thought, again, *calls, inline],
         {"preserve_thinking": False}, True, True),
        ("calls with thinking", [user, {**calls[0], "reasoning_content": "t"}], on, True, True),
        ("call without wrapper", [user, bare], {}, True, True),
        *(
            (f"arguments {a!r}", [user, {**bare, "tool_calls": [call(a)]}], {}, True, True)
            for a in ([1], 5, "text", " ")
        ),
        ("no name", [user, {**bare, "tool_calls": [call({}, None)]}], {}, True, True),
        ("result first", [{"role": "tool", "content": "r"}, user], {}, False, True),
        ("result after system", [system, {"role": "tool", "content": "r"}, user], {}, False, True),
        ("result, system, end", [user, {"role": "tool", "content": "r"}], {}, False, False),
        ("disguised", [user, thought, disguised], {}, False, True),
        ("disguised only", [disguised], {}, False, True),
        ("system only", [system], {}, False, True),
        ("assistant only", [thought], {}, False, True),
        ("nothing", [], {}, False, True),
        ("two systems", [system, system, user], {}, False, True),
        ("two systems, tools", [system, {"role": "system", "content": "b"}, user], {}, True, True),
        ("late system", [user, system], {}, False, True),
        ("developer", [{"role": "developer", "content": "d"}, user], {}, False, True),
        ("late developer", [user, {"role": "developer", "content": "d"}], {}, False, True),
        ("unknown role", [user, {"role": "narrator", "content": "n"}], {}, False, True),
        ("parts", [{"role": "user", "content": parts}, thought], {}, False, True),
        ("labels", [{"role": "user", "content": parts}] * 2, {"add_vision_id": True}, False, True),
        ("system image", [{"role": "system", "content": [image]}, user], {}, False, True),
        ("system video", [{"role": "system", "content": [video]}, user], {}, False, True),
        ("unknown part", [{"role": "user", "content": [{"type": "audio"}]}], {}, False, True),
        ("number content", [{"role": "user", "content": 7}], {}, False, True),
        ("unicode space", [{"role": "user", "content": "\u00a0x\u3000"}], {}, False, True),
    ]  # fmt: skip
    for name, messages, variables, with_tools, generate in cases:
        yield (
            name,
            ChatRequest(
                messages=tuple(messages),
                tools=(tool,) if with_tools else (),
                variables=variables,
                generation_prompt=generate,
                continuation=None,
                tool_choice=ToolChoice(),
                parallel_tool_calls=True,
                notes=(),
            ),
        )
