"""Single operations, unit conversion, comparison and sorting of numbers."""

from __future__ import annotations

from . import columns
from .gen import Gen
from .types import Thought, Turn

ASKS = (
    "What is {}?", "{}", "{} = ?", "{} =", "[Calculate|Compute|Evaluate|Solve|Find|Do|Answer|Work out] {}[.|, please.|]",
    "[How much|What] is {}?", "[Can|Could|Would|Will] you [please |][tell me|calculate|compute|work out|find|solve|give me|say] {}?",
    "What does {} [equal|give|make|come to|add up to|result in]?", "[hey|hi|hello|ok|so|now], what's {}?", "{} [makes|gives|is|equals] what?",
    "I [need|want|have to find|am looking for|must know|wonder about] [the result of|the value of|the answer to|] {}.",
    "[Work out|Find out|Compute|Calculate] {} for me[, please|].", "Give me [the value of|the result of|the answer to|] {}.",
    "What [do I get|do we get|results|will I have|is the answer] [for|from|when I compute|if I take] {}?", "[Do you know|Any idea what is|Who knows] {}?",
    "[Answer this|Task|Question|Exercise|Sum|Math|Please solve]: {}", "Tell me [what {} is|the answer to {}|{}].", "My [homework|teacher|friend|exercise] asks [for|about] {}.",
    "[Quick|Please|Next|One more], {}!", "[Next question|Another one|Here is a sum|A little math]: [what is |]{}[?|]",
    "[I wonder|I want to know|I have to know|Let me know|Please say] what {} is.", "The [exercise|problem|task|question] [is|says|reads] {}.",
    "Use [arithmetic|your head|columns] [to find|for] {}.", "If you [compute|calculate|work out] {}, what [is the result|do you get|comes next]?",
)  # fmt: skip
ASKS_UNSEEN = (
    "I would like to know {}.", "Determine {}, please.", "What comes out of {}?",
    "Let's do some arithmetic: {}", "Mind computing {} for me?", "Figure out {}.",
)  # fmt: skip
SIGNS = {"×": ("*", "×", "x", "times"), "/": ("/", "÷", "divided by"), "+": ("+", "+", "plus"),
         "-": ("-", "-", "minus")}  # fmt: skip


def operands(g: Gen, op: str) -> tuple[int, int]:
    """The task's numbers; sizes up to four digits, smaller ones often."""
    if op == "+":
        top = g.choice([20, 100, 1000, 1000, 10000] if not g.unseen else [20, 100, 1000, 1000])
        return g.randint(0, top), g.randint(0, top)
    if op == "-":
        a = g.randint(1, g.choice([20, 100, 1000, 1000, 9999] if not g.unseen else [20, 100, 1000]))
        return a, g.randint(0, a)
    if op == "×":
        return g.randint(2, g.choice([12, 12, 99])), g.randint(2, g.choice([12, 12, 40]))
    b, q = g.randint(2, 12), g.randint(1, g.choice([20, 20, 20, 99] if not g.unseen else [20]))
    return b * q, b


def direct(g: Gen) -> Turn:
    """One operation on two numbers."""
    op = g.choice("+-×/")
    a, b = operands(g, op)
    r = columns.result(a, b, op)
    ask = g.say(ASKS, ASKS_UNSEEN).format(f"{a} {g.choice(SIGNS[op])} {b}")
    brief, steps = columns.work(a, b, op)
    check = {
        "+": f"Check: {r} - {b} = {a}.",
        "-": f"Check: {r} + {b} = {a}.",
        "×": f"Check: {r} / {b} = {a}.",
        "/": f"Check: {b} × {r} = {a}.",
    }[op]
    shown = f"{a} {op} {b}"
    answer = g.choice(
        [f"{shown} = {r}", f"{shown} = {r}", f"The answer is {r}.", f"{r}", f"{shown} equals {r}."]
    )
    return Turn(ask, Thought(brief, tuple(steps), f"I need to compute {shown}.", check), answer)


UNITS = (
    ("kilometers", "meters", 1000), ("meters", "centimeters", 100), ("hours", "minutes", 60),
    ("centimeters", "millimeters", 10), ("kilograms", "grams", 1000), ("minutes", "seconds", 60),
    ("days", "hours", 24), ("weeks", "days", 7), ("liters", "milliliters", 1000),
    ("feet", "inches", 12), ("yards", "feet", 3), ("dozens", "pieces", 12), ("years", "months", 12),
)  # fmt: skip


def convert(g: Gen) -> Turn:
    """Unit conversion in either direction."""
    big, small, factor = g.choice(UNITS)
    n = g.randint(1, 40)
    m = n * factor
    down = g.chance(0.6)
    have, unit, other = (n, big, small) if down else (m, small, big)
    ask = g.say(
        ("Convert {n} {a} to {b}.", "How many {b} are in {n} {a}?", "What is {n} {a} in {b}?",
         "{n} {a} in {b}?", "Express {n} {a} in {b}.", "Change {n} {a} into {b}."),
        ("I have {n} {a}. How many {b} is that?", "Give {n} {a} as {b}."),
    ).format(n=have, a=unit, b=other)  # fmt: skip
    if factor in (10, 100, 1000):
        line = f"{n} × {factor} = {m}" if down else f"{m} / {factor} = {n}"
        brief, steps = line, [line]
    else:
        brief, steps = columns.mul(n, factor) if down else columns.div(m, factor)
    fact = f"There are {factor} {small} in one of the {big}."
    answer = f"{have} {unit} = {m if down else n} {other}"
    return Turn(ask, Thought(brief, (fact, *steps), f"I convert {unit} to {other}."), answer)


def compare(g: Gen) -> Turn:
    """The largest, the smallest, or the order of some numbers."""
    nums = g.sample(range(1, 1000), g.randint(2, 6))
    listed = ", ".join(map(str, nums))
    up = sorted(nums)
    order = ", ".join(map(str, up))
    ask, answer = g.choice(
        [
            (
                g.choice(["Which number is the largest: {}?", "What is the biggest of {}?"]),
                str(up[-1]),
            ),
            (
                g.choice(["Which number is the smallest: {}?", "Find the minimum of {}."]),
                str(up[0]),
            ),
            (
                g.choice(
                    ["Sort these numbers in ascending order: {}", "Order from low to high: {}"]
                ),
                order,
            ),
            ("Sort these numbers in descending order: {}", ", ".join(map(str, up[::-1]))),
        ]
    )
    steps = (f"The numbers are {listed}.", f"In order they are {order}.")
    return Turn(
        ask.format(listed), Thought(f"In order: {order}.", steps, "I compare the numbers."), answer
    )
