"""Edits of Python code, each with exactly one right result."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable

from attrs import frozen

from .gen import Function, Gen, join_and
from .snippets import snippet
from .types import Thought, Turn
from .wordings_code import APPENDS, EDITS
from .wordings_code import FRAMES as MORE_FRAMES

RESERVED = set(keyword.kwlist) | {
    "self",
    "cls",
    "print",
    "len",
    "range",
    "int",
    "str",
    "list",
    "set",
}
TYPES = ("int", "str", "float", "bool", "list[int]", "dict[str, int]", "bytes", "list[str]", "Path")


@frozen
class Edit:
    """A request without the code, the edited code, and what was done (past and base form)."""

    ask: str
    out: str
    done: str
    todo: str


Maker = Callable[[Gen, str, Function], Edit | None]


def fence(source: str, lang: str = "python") -> str:
    return f"```{lang}\n{source.rstrip()}\n```"


def rename(source: str, old: str, new: str) -> str:
    return re.sub(rf"\b{re.escape(old)}\b", new, source)


def _head(lines: list[str], name: str) -> int | None:
    """The line of the definition, if the whole signature stands on it."""
    pattern = re.compile(rf"\s*(def|class) {re.escape(name)}\b.*:$")
    return next((i for i, line in enumerate(lines) if pattern.match(line)), None)


def headed(make: Callable[[Gen, list[str], int, Function], Edit | None]) -> Maker:
    """An edit that needs the line of the target's definition; it gets all lines and that index."""

    def edit_at_head(g: Gen, source: str, target: Function) -> Edit | None:
        lines = source.split("\n")
        at = _head(lines, target.name)
        return None if at is None else make(g, lines, at, target)

    return edit_at_head


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _variables(source: str, name: str) -> list[str]:
    found = re.findall(r"\b[a-z_][a-z_0-9]{1,}\b", source)
    return list(dict.fromkeys(v for v in found if v not in RESERVED and v != name))


def _rename_variable(g: Gen, source: str, target: Function) -> Edit | None:
    names = _variables(target.source, target.name)
    if not names:
        return None
    if not g.unseen and g.chance(0.4):
        told = "\n".join(re.findall(r"#.*|\"[^\"\n]*\"|'[^'\n]*'", target.source))
        names = [n for n in names if re.search(rf"\b{n}\b", told)] or names
    old, new = g.choice(names), g.identifier()
    if re.search(rf"\b{new}\b", source) or keyword.iskeyword(new):
        return None
    ask = g.say(
        EDITS["variable"] + ('[Rename|Change|Switch|Update] [the |][variable |name |identifier |parameter |][{0}] [to|into] {1}', '[Use|Write|Put|Take] {1} [instead of|in place of|rather than|for] {0}[ as the name| everywhere|]', 'Replace [the name |the identifier |the variable |]{0} [with|by] {1}', 'Call [the variable |]{0} {1} [instead|now|from here on]', 'Give [the variable |]{0} [a different name|another name|a better name]: {1}', '[I want|I would like|I prefer|We need] {1} [as the name of|instead of|in place of|rather than] {0}', '{0} [should|must|has to|needs to|ought to] be [called|renamed to|named] {1}', '{0} is [a bad name|not a good name|too unclear]; [use|make it|call it|write] {1}', 'A better name for {0} [is|would be] {1}', 'Every {0} [should|must] [turn into|be replaced by|read|be] {1}', 'The [variable|identifier|parameter] {0} [should|must|needs to] [be|read|become|get the name] {1}', '[Rename|Replacement|New name]: {0} -> {1}', '{0} [becomes|is now called|turns into] {1}', '[Let|Make] {0} be {1}',),
        ("The name {} should become {}", "Give {} the new name {}"),
    ).format(old, new)  # fmt: skip
    return Edit(
        ask, rename(source, old, new), f"renamed `{old}` to `{new}`", f"rename {old} to {new}"
    )


def _rename_function(g: Gen, source: str, target: Function) -> Edit | None:
    new = g.identifier()
    if re.search(rf"\b{new}\b", source) or keyword.iskeyword(new):
        return None
    ask = g.say(
        EDITS["function"] + ('[Rename|Change|Switch] [the function |the method |the definition |][{0}] [to|into] {1}', 'The function {0} [should|must|has to|needs to] be [called|renamed to|named] {1}', '[Change|Replace] the [function name|name of the function|method name] {0} [to|with|by] {1}', '[Call|Name] the function {0} {1} [instead|now]', '{0} is [a bad name|not a good name] for [the|this] function; [use|call it|make it] {1}', '[Use|Take] {1} as the [function name|name of the function] [instead of|in place of] {0}', 'A better name for the function {0} [is|would be] {1}', '[I want|I would like] {0} to be [called|named] {1}', '{0} [becomes|is now called|turns into] {1}', 'Give [the function |]{0} [a different name|another name|a better name]: {1}', '[Rename|New name]: {0} -> {1}', '[Let|Make] the name of {0} be {1}',),
        ("Let {} be named {} from now on", "Give the function {} the name {}"),
    ).format(target.name, new)  # fmt: skip
    out = rename(source, target.name, new)
    return Edit(ask, out, f"renamed `{target.name}` to `{new}`", f"rename {target.name} to {new}")


@headed
def _docstring(g: Gen, lines: list[str], at: int, target: Function) -> Edit | None:
    text = g.phrase(2, 6).capitalize() + "."
    if target.summary and g.chance(0.5) and '"' not in target.summary:
        text = target.summary
    lines.insert(at + 1, f'{_indent(lines[at])}    """{text}"""')
    ask = g.say(
        EDITS["docstring"] + ('[Add|Insert|Write|Attach|Put] [the|a|this] docstring "{1}" [to|in|into|for] {0}', 'Give {0} the docstring "{1}"', '[Document|Describe] {0} with [the docstring |]"{1}"', '{0} [should|must|has to] [have|get|carry] the docstring "{1}"', '[Let|Make] the docstring of {0} [be|say|read] "{1}"', '[Add|Write|Insert] a docstring [to|for|in] {0}: "{1}"', '[I want|I would like] {0} to have the docstring "{1}"', 'The docstring of {0} [should be|is|must be|will be] "{1}"', '[Below|Under|After] the [signature|def line|header] of {0}, [add|write|put] the docstring "{1}"', '{0} has no docstring; [add|use|write] "{1}"', 'Docstring for {0}: "{1}"',),
        ('{0} needs a docstring that says "{1}"', 'Put "{1}" as the docstring of {0}'),
    ).format(target.name, text)  # fmt: skip
    return Edit(
        ask,
        "\n".join(lines),
        f"added the docstring to `{target.name}`",
        f"put the docstring below the line that defines {target.name}",
    )


@headed
def _comment(g: Gen, lines: list[str], at: int, target: Function) -> Edit | None:
    text = g.phrase(2, 5).capitalize()
    lines.insert(at, f"{_indent(lines[at])}# {text}")
    ask = g.say(
        EDITS["comment"] + ('[Add|Insert|Put|Write|Place] [the|a|this] comment "{1}" [above|before|on top of|right above|just before|on the line above] {0}', '[Comment|Annotate] {0} with "{1}" [above it|on the line before|on top]', '{0} [should|must|has to] [have|get] the comment "{1}" [above it|on top|before it]', '[Before|On top of|Right above|Just above] {0}, [add|write|put|insert] [the comment |a comment that says ]"{1}"', '[I want|I would like] the comment "{1}" [above|before] {0}', 'The comment "{1}" [goes|belongs] [above|before] {0}', 'Comment [above|before] {0}: "{1}"',),
        ('Above {0}, there should be the comment "{1}"', 'Place "{1}" as a comment over {0}'),
    ).format(target.name, text)  # fmt: skip
    return Edit(
        ask, "\n".join(lines), "added the comment", f"write the comment above {target.name}"
    )


def _number(g: Gen, source: str, _: Function) -> Edit | None:
    numbers = sorted(set(re.findall(r"(?<![\w.])\d+(?![\w.])", source)))
    if not numbers:
        return None
    old, new = g.choice(numbers), str(g.randint(2, 999))
    ask = g.say(
        EDITS["number"] + ('[Change|Replace|Switch|Turn|Set|Update] the [number|value|constant] {0} [to|into|with|by] {1}', 'Replace [every |each |]{0} [with|by] {1}', '[Use|Write|Put|Take] {1} [instead of|in place of|rather than|for] {0}', '[Set|Change|Turn|Update|Make] {0} [to|into] {1}', 'The [number|constant] {0} [should|must|has to|needs to|ought to] be {1}', '{0} [should|must|has to|needs to] [be|become|turn into|read] {1}', '{0} is [wrong|too small|too large|outdated|not right]; [use|make it|it must be|write] {1}', '[I want|I need|We need] {1} [instead of|where it says|in place of|rather than] {0}', '[Each|Every|The] {0} [becomes|is now|turns into|changes to] {1}', '[Number|Value|Constant]: {0} -> {1}',),
        ("Every {} should be {} now", "The value {} has to become {}"),
    ).format(old, new)  # fmt: skip
    out = re.sub(rf"(?<![\w.]){old}(?![\w.])", new, source)
    return Edit(ask, out, f"changed {old} to {new}", f"change {old} to {new}")


@headed
def _print(g: Gen, lines: list[str], at: int, target: Function) -> Edit | None:
    if lines[at].lstrip().startswith("class"):
        return None
    text = f"{target.name} called" if g.chance(0.5) else g.phrase(2, 4)
    lines.insert(at + 1, f'{_indent(lines[at])}    print("{text}")')
    ask = g.say(
        EDITS["print"] + ('Add a print statement [at the start|at the beginning|at the top|as the first line] of {0} that [says|prints|shows] "{1}"', '[Print|Output|Show] "{1}" [at the start|at the beginning|at the top|as the first thing|first thing] [of|in] {0}', '[Make|Let|Have] {0} print "{1}" [first|at the start|before anything else|right away|at its beginning]', '{0} [should|must|has to] [start|begin] [by printing|with printing|with a print of] "{1}"', '[At the start|At the beginning|On the first line|At the top|As the first line] of {0}, [print|add a print of|output] "{1}"', '[Start|Begin] {0} with [print|a print of|the print] "{1}"', 'The first [thing|line] {0} [does|has] [should be|must be|is] to print "{1}"', '[I want|I would like] {0} to print "{1}" [when it starts|first|at the start]',),
        ('When {0} begins, it should print "{1}"', 'Let the first line of {0} print "{1}"'),
    ).format(target.name, text)  # fmt: skip
    return Edit(
        ask,
        "\n".join(lines),
        f"added a print statement to `{target.name}`",
        f"print the text at the start of {target.name}",
    )


SWAPS = ((" + ", " - "), (" - ", " + "), (" == ", " != "), ("True", "False"), ("None", "0"),
         (" and ", " or "), (" * ", " + "), (" is not ", " is "), (" < ", " <= "), ("self.", "this."),
         (" in ", " not in "), ("return ", "yield "))  # fmt: skip


def _swap(g: Gen, source: str, _: Function) -> Edit | None:
    usable = [s for s in SWAPS if s[0] in source]
    if not usable:
        return None
    old, new = g.choice(usable)
    out = source.replace(old, new)
    old, new = old.strip(), new.strip()
    ask = g.say(
        EDITS["swap"]
        + (
            "Replace [every|each|all|any|the] {0} [with|by] {1}",
            "[Change|Turn|Switch|Convert] [each|every|all|any] {0} [to|into] {1}",
            "[Write|Use|Put] {1} [wherever there is|instead of every|in place of each|where there is|for every|instead of] {0}",
            "[Every|Each|All] {0} [should|must|has to] [be|become|turn into|be replaced by|read] {1}",
            "Wherever you [see|find] {0}, [write|use|put] {1}",
            "[I want|I would like|We need] {1} [instead of|in place of|for] [every|each|all] {0}",
            "[Substitute|Put] {1} for [every|each|all] {0}",
            "{0} [becomes|is now|turns into] {1} [everywhere|in all places|throughout]",
        ),
        ("Turn all occurrences of {} into {}", "Swap {} for {} everywhere"),
    ).format(old, new)
    return Edit(ask, out, f"replaced `{old}` with `{new}`", f"replace {old} with {new}")


def _string(g: Gen, source: str, _: Function) -> Edit | None:
    found = sorted(set(re.findall(r"\"([a-zA-Z][\w -]{1,24})\"", source)))
    if not found:
        return None
    old, new = g.choice(found), g.phrase(1, 3)
    ask = g.say(
        EDITS["string"]
        + (
            '[Change|Turn|Switch|Update|Set] the [string|text|literal] "{0}" [to|into] "{1}"',
            'Replace [the string |the text |]"{0}" [with|by] "{1}"',
            '[Use|Write|Put] "{1}" [in place of|instead of|rather than|for] "{0}"',
            'The [string|literal] "{0}" [should|must|has to|needs to] [be|become|say] "{1}"',
            '[Make|Let] "{0}" [say|be|read] "{1}"',
            '"{0}" [should|must|has to] be "{1}"',
            '"{0}" is [wrong|outdated|not right]; [use|write|it should be] "{1}"',
            '[I want|I need] "{1}" [instead of|where it says|in place of] "{0}"',
            '"{0}" [becomes|turns into] "{1}"',
        ),
        ('The text "{}" must read "{}"', 'Write "{1}" where it says "{0}"'),
    ).format(old, new)
    return Edit(
        ask, source.replace(f'"{old}"', f'"{new}"'), "changed the string", f"change {old} to {new}"
    )


@headed
def _parameter(g: Gen, lines: list[str], at: int, target: Function) -> Edit | None:
    match = re.match(r"(\s*def \w+\()([^()]*)(\).*)$", lines[at])
    if not match or "*" in match[2]:
        return None
    extra = f"{g.identifier()}={g.choice(['None', 'True', 'False', '0', '1', '10', '100'])}"
    inner = f"{match[2]}, {extra}" if match[2].strip() else extra
    lines[at] = match[1] + inner + match[3]
    ask = g.say(
        EDITS["parameter"]
        + (
            "[Add|Append|Introduce|Insert|Put] the [parameter|argument|keyword|keyword argument] {1} [to|in|for] {0}",
            "Give {0} [one more|another|an extra|a new|an additional] [parameter|argument][,|:] {1}",
            "[Add|Append|Put] {1} as the last [parameter|argument] of {0}",
            "[Add|Append] {1} to the [parameters|arguments|signature|argument list|parameter list] of {0}",
            "{0} [should|must|has to|needs to] [have|accept|get|receive] [the parameter|an argument|the argument|the extra parameter|] {1}",
            "[Let|Make] {0} [accept|take|have|receive] {1}[ too| as well| at the end|]",
            "The [signature|parameter list|argument list] of {0} [should|must|has to] end with {1}",
            "[I want|I would like|We need] {0} to [accept|take|have] {1}",
            "{0} [needs|lacks|misses] the [parameter|argument] {1}",
            "New [parameter|argument] [for|of] {0}: {1}",
        ),
        ("{0} should also take {1}", "Extend the signature of {0} with {1}"),
    ).format(target.name, extra)
    return Edit(
        ask,
        "\n".join(lines),
        f"added the parameter to `{target.name}`",
        f"append {extra} to the parameters of {target.name}",
    )


@headed
def _annotate(g: Gen, lines: list[str], at: int, target: Function) -> Edit | None:
    match = re.match(r"(\s*def \w+\()([^()]*)\):$", lines[at])
    if not match:
        return None
    kind = g.choice(TYPES)
    names = [
        p.strip() for p in match[2].split(",") if p.strip().isidentifier() and p.strip() != "self"
    ]
    if names and g.chance(0.6):
        name = g.choice(names)
        lines[at] = match[1] + re.sub(rf"\b{name}\b", f"{name}: {kind}", match[2], count=1) + "):"
        ask = g.say(
            EDITS["annotate"] + ('[Annotate|Type|Type-annotate|Declare] the [parameter|argument] {0} of {2} [as|with] {1}', '[Add|Give|Write|Attach] the type {1} [to|for|at] the [parameter|argument] {0} [of|in] {2}', 'In {2}, [give|assign] {0} the type {1}', 'The [parameter|argument] {0} of {2} [is|should be|must be|has to be] [of type |]{1}[; annotate it|; add the type|]', '[Make|Let] {0} [have the type|be of type|be] {1} in {2}', 'In {2}, [annotate|type|declare] {0} [as|with] {1}', '{0} in {2} [should|must|has to] be [annotated as|typed as|of type] {1}', '[Add|Write] [a|the] type hint [for {0} in {2}|to {0} of {2}]: {1}',),
            ("Type-hint {0} in {2} as {1}", "The argument {0} of {2} is of type {1}; write that down"),
        ).format(name, kind, target.name)  # fmt: skip
        return Edit(
            ask,
            "\n".join(lines),
            f"annotated `{name}` as `{kind}`",
            f"write the type {kind} after {name}",
        )
    lines[at] = f"{match[1]}{match[2]}) -> {kind}:"
    ask = g.say(
        EDITS["returns"]
        + (
            "[Add|Write|Give|Put|Insert] the return type {1} [to|for|at] {0}",
            "[Annotate|Type|Declare] {0} [so that it returns|as returning|to return|with the return type] {1}",
            "{0} [should|must|has to] [be annotated to return|have the return type|return] {1}[ in the signature|]",
            "The return type of {0} [is|should be|must be] {1}[; add it|; write it|]",
            "[Let|Make] the signature of {0} [say|show] that it returns {1}",
            "[Add|Write] [a|the] return annotation {1} to {0}",
            "Return [type|annotation] for {0}: {1}",
        ),
        ("{0} returns {1}; add that annotation", "Note in the signature that {0} gives back {1}"),
    ).format(target.name, kind)
    return Edit(
        ask, "\n".join(lines), f"added the return type `{kind}`", f"add -> {kind} to {target.name}"
    )


def _single_lines(lines: list[str]) -> list[str]:
    """Indented lines that stand there once and end what they begin."""
    return [
        x
        for x in lines
        if x.startswith("    ")
        and lines.count(x) == 1
        and not x.rstrip().endswith((":", "(", ",", "["))
    ]


def _delete(g: Gen, source: str, _: Function) -> Edit | None:
    lines = source.split("\n")
    once = _single_lines(lines)
    if len(once) < 3:
        return None
    gone = g.choice(once)
    lines.remove(gone)
    ask = g.say(
        EDITS["delete"]
        + (
            "[Delete|Remove|Erase|Take out|Cut|Strike|Get rid of] the line `{}`",
            "[Delete|Remove|Take out|Erase|Cut] `{}`",
            "The line `{}` [should|must|has to|can] be [deleted|removed|taken out|cut]",
            "[I do not want|I no longer need|We do not need] the line `{}`[ any more|]",
            "[Remove|Delete|Leave out] the line [that says|with|containing] `{}`",
            "[Without|No more|Not needed]: `{}`",
            "`{}` [should|must|can] [be removed|disappear|be deleted|not be there]",
        ),
        ("Drop the line that reads `{}`", "The line `{}` has to go"),
    ).format(gone.strip())
    return Edit(ask, "\n".join(lines), "removed the line", "leave out that one line")


def _insert(g: Gen, source: str, _: Function) -> Edit | None:
    lines = source.split("\n")
    once = _single_lines(lines)
    if not once:
        return None
    after = g.choice(once)
    new = g.choice(
        [
            f"{g.identifier()} = {g.randint(0, 99)}",
            f'print("{g.phrase(1, 3)}")',
            f"{g.identifier()}({g.noun()})",
            "pass",
        ]
    )
    lines.insert(lines.index(after) + 1, _indent(after) + new)
    ask = g.say(
        EDITS["insert"]
        + (
            "[Insert|Add|Put|Write|Place] [the line |]`{1}` [after|below|under|right after|just below|beneath] `{0}`",
            "[After|Below|Under|Right after|Beneath] [the line |]`{0}`, [add|insert|write|put] [the line |]`{1}`",
            "[Add|Insert|Put] [the|a] line `{1}` [below|after|under] `{0}`",
            "`{1}` [should|must|has to] [come|stand|be] [after|below|right after] `{0}`",
            "The line [after|below] `{0}` [should|must|has to] be `{1}`",
            "[I want|I need] `{1}` [after|below] `{0}`",
            "[Let|Make] `{0}` be followed by `{1}`",
        ),
        ("Put `{1}` on a new line following `{0}`", "Behind the line `{0}` there should be `{1}`"),
    ).format(after.strip(), new)
    return Edit(
        ask, "\n".join(lines), "inserted the line", "insert the new line after the given one"
    )


def _append(g: Gen, source: str, _: Function) -> Edit | None:
    extra = g.function() if g.chance(0.5) else snippet(g).function
    if len(extra.source) > 300:
        return None
    ask = (
        g.say(
            (
                *APPENDS,
                "[Add|Append|Put|Attach] this [function|code|definition] [at the end|to the end|at the very end|after the rest]:\n\n{}\n\n[to the code|in the code|of the code]",
                "[Append|Add] this [to the code|to the file|to the program|at the end]:\n\n{}\n\n",
                "The code [should|must] end with this [function|definition]:\n\n{}\n\n",
                "[At the end|After everything else|At the very end], [add|append|put]:\n\n{}\n\n",
            ),
            ("The following belongs at the bottom:\n\n{}\n\nof the code",),
        )
        .format(fence(extra.source))
        .rstrip()
    )
    return Edit(
        ask,
        source.rstrip() + "\n\n\n" + extra.source.rstrip(),
        f"added `{extra.name}`",
        f"put {extra.name} at the end",
    )


def _nothing(g: Gen, source: str, _: Function) -> Edit | None:
    ask = g.say(EDITS["nothing"] + ('[Repeat|Copy|Print|Write|Give back|Output] this code [without any change|exactly|again|unchanged|as it stands|word for word]', '[Change nothing|Do not change anything|No changes|Keep it all] [here|in this code|please]', '[I need|I want] [an exact copy of this code|this code unchanged|the same code again]',),
                ("Return the code just as it is", "Show me the same code once more"))  # fmt: skip
    return Edit(ask, source, "kept the code as it is", "keep the code as it is")


KINDS: tuple[tuple[Maker, int], ...] = (
    (_rename_variable, 4), (_rename_function, 3), (_docstring, 2), (_comment, 1), (_number, 2),
    (_print, 1), (_swap, 2), (_string, 1), (_parameter, 2), (_annotate, 2), (_delete, 2),
    (_insert, 2), (_append, 1), (_nothing, 1),
)  # fmt: skip
FRAMES = (
    "{ask}:\n\n{code}", "{ask} in [this|the following|my|the] [code|file|snippet|function|program|module]:\n\n{code}", "{code}\n\n{ask}.", "{code}\n\n[Please do this|Task|Change|Do this|Edit|Request|To do|One thing]: {ask}.",
    "[Here is|This is|Below is|Look at|Take|I have] [my|some|this|the] [code|file|snippet|program|function|module][:|.]\n\n{code}\n\n{ask}[, please|. Thanks|. Return everything|. Keep the rest|]." ,
    "{ask}.\n\n{code}", "[Please |Now |][edit|change|update|modify|adapt] [the following|this|my] [code|file|function|snippet][:|.] {ask}.\n\n{code}",
    "{ask}[. Return the whole code|. Show the full code|. Change nothing else|. Keep everything else as it is|. Do not touch the rest|. Nothing else changes|. Give me all of it back|, that is all| and nothing more|. The rest stays|, please|. Thank you].\n\n{code}",
    "[Edit|Change|Update|Fix|Improve] this:\n\n{code}\n\n{ask}.", "I have [this function|this code|this file]:\n\n{code}\n\n[Can|Could|Will|Would] you do this[ for me|]? {ask}.",
    "[Make|Apply|Do|Carry out|Perform] [one|this|the following|a small|a single] [edit|change|modification|update][:|.] {ask}.\n\n{code}", "[Your job|The task|What to do|Task|Request|Edit|Change|Instruction|Goal|Todo|Job for you]: {ask}[. Code:|. Here is the code:|. The file:|.]\n\n{code}",
    "[In|For] [this|the following|the given] [code|snippet|file], [one|a small|a single] [edit|thing|change] is [to be made|wanted|missing|required|left to do][:|.] {ask}.\n\n{code}", "[See|Take|Given|Read] [this code|the code below|the following code][:|.]\n\n{code}\n\n[A|One|The] [change|edit|thing] [I want|to make|that is missing|I ask for|I need][:|.] {ask}.",
)  # fmt: skip
FRAMES_UNSEEN = (
    "Consider this code:\n\n{code}\n\nOne change is needed. {ask}.",
    "{ask}, and leave everything else alone.\n\n{code}",
    "My task for you: {ask}. The code:\n\n{code}",
)


def _told(g: Gen, made: Function) -> Function:
    """With its docstring, or with a comment or a string that speaks of one of its names."""
    lines = made.source.rstrip().split("\n")
    at = _head(lines, made.name)
    names = _variables(made.source, made.name)
    if at is None or not names:
        return made
    inner = f"{_indent(lines[at])}    "
    words = g.phrase(2, 5).split()
    words.insert(g.randint(0, len(words)), g.choice(names))
    said = " ".join(words)
    line = g.choice([f"# {said}", f"# {said}", f'print("{said}")', f"'{said}'", f'"""{said.capitalize()}."""'])  # fmt: skip
    if made.summary and '"' not in made.summary and g.chance(0.3):
        line = f'"""{made.summary}"""'
    lines.insert(at + 1, inner + line)
    return Function(made.name, "\n".join(lines) + "\n", made.summary)


def edit(g: Gen) -> Turn:
    """One edit of one to three functions, real ones or generated ones."""
    real = g.chance(0.65)
    parts = [g.function() if real else snippet(g).function]
    while g.chance(0.2 if real else 0.35) and len(parts) < 3:
        parts.append(g.function() if real else snippet(g).function)
    if not g.unseen and g.chance(0.25):
        parts = [_told(g, p) for p in parts]
    source = "\n\n\n".join(p.source.rstrip() for p in parts)
    target = g.choice(parts)
    makers, weights = zip(*KINDS, strict=True)
    made = g.choices(makers, weights)[0](g, source, target)
    if made is None or "```" in source:
        return edit(g)
    if g.unseen or g.chance(0.25):
        ask = g.say(FRAMES, FRAMES_UNSEEN).format(ask=made.ask, code=fence(source))
    else:
        ask = g.laid_out(made.ask, MORE_FRAMES, FRAMES_UNSEEN, code=fence(source))
    body = fence(made.out)
    answer = g.choice(
        [body, body, body, f"Here is the updated code:\n\n{body}", f"{body}\n\nI {made.done}."]
    )
    thought = Thought(
        f"I {made.todo}.",
        (f"The user wants one change: I {made.todo}.", "Everything else stays the same."),
        f"The code defines {join_and([p.name for p in parts])}.",
        "The rest of the code must be copied exactly.",
    )
    return Turn(ask, thought, answer)
