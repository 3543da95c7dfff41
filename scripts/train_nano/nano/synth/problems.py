"""Word problems: a situation, a chain of operations, and the columns that work them out.

A kind is (make numbers, chain of operations, seen wordings, unseen wordings, final sentence). The
chain refers to the numbers by letter and to the result of step i by its number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen

from . import columns
from .gen import Gen, plural
from .types import Thought, Turn
from .wordings_problems import PROBLEMS

Numbers = dict[str, int]
Step = tuple[str, str | int, str | int, str]  # what it is, left, right, operation


@frozen
class Kind:
    """One situation. Wordings use {p} {q} people, {it} a plural thing, and the numbers."""

    make: Callable[[Gen], Numbers]
    chain: tuple[Step, ...]
    seen: tuple[str, ...]
    unseen: tuple[str, ...]
    final: str
    unit: str = ""


def _three(g: Gen) -> Numbers:
    a, b = g.randint(5, 90), g.randint(2, 60)
    return {"a": a, "b": b, "c": g.randint(1, min(30, a + b))}


def _less(g: Gen) -> Numbers:
    a = g.randint(12, 300)
    return {"a": a, "b": g.randint(2, a)}


def _change(g: Gen) -> Numbers:
    a, b = g.randint(2, 9), g.randint(1, 9)
    return {"a": a, "b": b, "c": g.choice([50, 100, 100, 100]) if a * b <= 50 else 100}


def _share(g: Gen) -> Numbers:
    b, q = g.randint(2, 12), g.randint(2, 15)
    return {"a": b * q, "b": b}


def _sum_share(g: Gen) -> Numbers:
    c, q = g.randint(2, 9), g.randint(3, 20)
    a = g.randint(1, c * q - 1)
    return {"a": a, "b": c * q - a, "c": c}


def _seats(g: Gen) -> Numbers:
    return {"a": g.randint(3, 12), "b": g.randint(4, 12), "c": g.randint(1, 11)}


def _span(low: int, high: int, *more: tuple[int, int]) -> Callable[[Gen], Numbers]:
    spans = ((low, high), *more)
    return lambda g: {k: g.randint(*s) for k, s in zip("abcd", spans, strict=False)}


def _half(g: Gen) -> Numbers:
    return {"a": 2 * g.randint(3, 60), "two": 2}


KINDS: tuple[Kind, ...] = (
    Kind(_three, (("after getting more", "a", "b", "+"), ("after losing some", 0, "c", "-")),
         ("{p} has {a} {it}. {q} gives {p} {b} more {it}, and then {p} loses {c}. How many {it} does {p} have now?",
          "{p} has {a} {it}. {p} buys {b} more and gives {c} away. How many {it} are left?",
          "There were {a} {it} in a box. {p} put in {b} more and {q} took {c} out. How many {it} are in the box?",
          "{p} collected {a} {it} and found {b} others, but {c} of them broke. How many {it} remain?",
          "A shelf holds {a} {it}. {b} {it} are added and {c} are removed. How many {it} are on the shelf?",
          "{p} starts the day with {a} {it}, gets {b} from {q}, and sells {c}. How many {it} does {p} have at the end?"),
         ("{p} owned {a} {it}. A friend brought {b} extra {it}, after which {c} went missing. What is the number of {it} now?",
          "In the morning {p} counts {a} {it}. By noon {b} more arrive, and in the evening {c} are used up. How many {it} does {p} still have?"),
         "{p} has {r} {it} now."),
    Kind(_less, (("what is left", "a", "b", "-"),),
         ("{p} has {a} {it} and gives {b} of them to {q}. How many {it} does {p} have left?",
          "There are {a} {it} in the store. {b} of them are sold. How many {it} remain?",
          "{p} had {a} {it} but lost {b}. How many {it} are left?",
          "Out of {a} {it}, {b} are broken. How many {it} still work?",
          "{p} needs {a} {it} and already has {b}. How many more {it} does {p} need?",
          "A farm has {a} {it}. {p} takes {b} away. How many {it} stay?"),
         ("From a pile of {a} {it}, {q} removes {b}. How many {it} stay in the pile?",
          "{p} wants {a} {it} in total and has {b} so far. How many {it} are missing?"),
         "The number of {it} left is {r}."),
    Kind(_span(2, 25, (2, 12)), (("the total price", "a", "b", "×"),),
         ("One box of {it} costs {a} dollars. How much do {b} boxes cost?",
          "A ticket costs {a} dollars. How much do {b} tickets cost?",
          "{p} buys {b} bags of {it} at {a} dollars each. How much does {p} pay?",
          "Each of the {b} {it} costs {a} dollars. What is the total price?",
          "{p} earns {a} dollars an hour and works {b} hours. How much does {p} earn?",
          "There are {b} boxes with {a} {it} each. How many {it} are there in all?"),
         ("The price of a single crate of {it} is {a} dollars. What must {p} pay for {b} crates?",
          "{p} packs {a} {it} into every bag and fills {b} bags. How many {it} does {p} pack?"),
         "The total is {r}."),
    Kind(_share, (("the share of each", "a", "b", "/"),),
         ("{p} shares {a} {it} equally among {b} friends. How many {it} does each friend get?",
          "{a} {it} are packed into {b} boxes with the same number in each. How many {it} are in one box?",
          "{p} splits {a} dollars evenly between {b} people. How much does each person get?",
          "{b} children divide {a} {it} equally. How many {it} does every child get?",
          "A rope of {a} meters is cut into {b} equal pieces. How long is each piece in meters?",
          "{p} reads {a} pages in {b} days, the same number each day. How many pages is that per day?"),
         ("{a} {it} go to {b} tables, equally many to every table. How many {it} stand on one table?",
          "{p} hands out {a} {it} so that {b} guests receive the same amount. How many {it} does a guest receive?"),
         "Each gets {r}."),
    Kind(_span(3, 90, (2, 9)), (("the distance", "a", "b", "×"),),
         ("A train travels at {a} km per hour for {b} hours. How far does it go?",
          "{p} drives {a} km per hour for {b} hours. How many km does {p} drive?",
          "A machine makes {a} {it} per hour. How many {it} does it make in {b} hours?",
          "{p} walks {a} steps per minute. How many steps is that in {b} minutes?",
          "A pump moves {a} liters per minute. How many liters does it move in {b} minutes?"),
         ("A bus keeps a speed of {a} km per hour. What distance does it cover in {b} hours?",
          "Every hour {p} finishes {a} {it}. How many {it} are finished after {b} hours?"),
         "The answer is {r}."),
    Kind(_change, (("the cost", "a", "b", "×"), ("the change", "c", 0, "-")),
         ("{p} buys {a} {it} at {b} dollars each and pays with a {c} dollar bill. How much change does {p} get?",
          "{a} {it} cost {b} dollars each. {p} pays {c} dollars. How much money does {p} get back?",
          "{p} has {c} dollars and buys {a} {it} for {b} dollars each. How much money is left?",
          "At {b} dollars apiece, {p} takes {a} {it} and hands over {c} dollars. What is the change?",
          "A cup of tea costs {b} dollars. {p} buys {a} cups with {c} dollars. How many dollars remain?"),
         ("{p} gives the shop {c} dollars for {a} {it} that cost {b} dollars per piece. How many dollars come back?",
          "With {c} dollars in the wallet, {p} buys {a} {it}, each for {b} dollars. What remains in the wallet?"),
         "{p} gets {r} dollars back."),
    Kind(_span(10, 80, (2, 40)), (("the sum", "a", "b", "+"),),
         ("{p} is {a} years old. {q} is {b} years older than {p}. How old is {q}?",
          "{p} has {a} {it} and {q} has {b} {it}. How many {it} do they have together?",
          "A bus carries {a} people, and {b} more get on. How many people are on the bus?",
          "{p} ran {a} km last week and {b} km this week. How many km is that in total?",
          "There are {a} red {it} and {b} blue {it}. How many {it} are there?",
          "{q} scored {b} points more than {p}, who scored {a}. How many points did {q} score?"),
         ("{p} picked {a} {it} while {q} picked {b}. What is their combined number of {it}?",
          "A tree was {a} cm tall and grew by {b} cm. How tall is it now in cm?"),
         "The answer is {r}."),
    Kind(_span(2, 30, (2, 12)), (("the area", "a", "b", "×"),),
         ("A rectangle is {a} meters wide and {b} meters long. What is its area?",
          "A field measures {a} by {b} meters. What is its area in square meters?",
          "A wall has {b} rows of {a} tiles. How many tiles does it have?",
          "{p} plants {b} rows with {a} {it} in each row. How many {it} does {p} plant?"),
         ("What area does a floor of {a} meters by {b} meters have?",
          "{q} lays out {it} in {b} lines of {a}. How many {it} are laid out?"),
         "The answer is {r}."),
    Kind(lambda g: {"a": g.randint(2, 40), "b": g.randint(2, 30), "two": 2},
         (("half of the way around", "a", "b", "+"), ("the whole way around", 0, "two", "×")),
         ("A garden is {a} meters by {b} meters. How long is the fence around it?",
          "What is the perimeter of a rectangle with sides {a} and {b}?",
          "{p} walks once around a field that is {a} meters long and {b} meters wide. How many meters is that?",
          "A picture is {a} cm wide and {b} cm high. How long is its frame in cm?"),
         ("How many meters of rope go around a yard of {a} by {b} meters?",
          "A rectangular pool has sides of {a} and {b} meters. What is the length of its border?"),
         "The length is {r}."),
    Kind(_span(2, 60, (2, 60), (2, 60)), (("the first two", "a", "b", "+"), ("all three", 0, "c", "+")),
         ("A shop sold {a} {it} on Monday, {b} on Tuesday and {c} on Wednesday. How many {it} did it sell in total?",
          "{p} has {a} {it}, {q} has {b}, and a friend has {c}. How many {it} do they have in all?",
          "Three boxes hold {a}, {b} and {c} {it}. How many {it} are in the three boxes?",
          "{p} read {a} pages, then {b} pages, then {c} pages. How many pages did {p} read?",
          "{p} spends {a} dollars on food, {b} on books and {c} on the bus. How much does {p} spend?"),
         ("On three days {p} caught {a}, {b} and {c} {it}. What is the sum of all {it}?",
          "{a} {it} come from {p}, {b} from {q} and another {c} from the store. How many {it} are there altogether?"),
         "The total is {r}."),
    Kind(_seats, (("all of them", "a", "b", "×"), ("without the empty ones", 0, "c", "-")),
         ("A hall has {a} rows with {b} seats each. {c} seats are empty. How many seats are taken?",
          "{p} has {a} boxes with {b} {it} each and gives away {c} {it}. How many {it} are left?",
          "A class makes {a} plates of {b} {it}. The children eat {c} {it}. How many {it} remain?",
          "{p} buys {a} packs of {b} {it} and loses {c}. How many {it} does {p} have?",
          "There are {a} shelves with {b} {it} each, but {c} {it} are broken. How many {it} are fine?"),
         ("{q} fills {a} trays with {b} {it} per tray, then drops {c} of them. How many {it} are still good?",
          "A parking lot has {a} lanes of {b} spots. {c} spots are free. How many are used?"),
         "The answer is {r}."),
    Kind(_span(2, 12, (2, 9), (2, 60)), (("those in the packs", "a", "b", "×"), ("with the others", 0, "c", "+")),
         ("{p} has {a} bags with {b} {it} each and {c} more {it} on the table. How many {it} does {p} have?",
          "{p} saves {a} dollars a week for {b} weeks and already had {c} dollars. How much does {p} have now?",
          "A hotel has {a} floors with {b} rooms each and {c} rooms in the garden. How many rooms does it have?",
          "{p} carries {a} boxes of {b} {it} plus {c} single {it}. How many {it} is that?",
          "{a} teams of {b} people and {c} guests come to a party. How many people come?"),
         ("{q} owns {c} {it} and receives {a} packets with {b} {it} inside. How many {it} does {q} own then?",
          "A truck loads {a} crates of {b} {it} and another {c} loose {it}. How many {it} are on the truck?"),
         "The total is {r}."),
    Kind(_sum_share, (("all together", "a", "b", "+"), ("the share of each", 0, "c", "/")),
         ("{p} has {a} {it} and {q} has {b}. They share all of them equally among {c} friends. How many {it} does each friend get?",
          "{a} red and {b} green {it} are packed into {c} equal boxes. How many {it} are in each box?",
          "{p} earns {a} dollars and {q} earns {b} dollars. {c} people split the money evenly. How much does each get?"),
         ("{p} brings {a} {it}, {q} brings {b}, and {c} people divide them evenly. How many {it} does a person get?",),
         "Each gets {r}."),
    Kind(_half, (("half of it", "a", "two", "/"),),
         ("{p} has {a} {it} and gives half of them to {q}. How many {it} does {p} keep?",
          "A bottle holds {a} liters and is half full. How many liters are in it?",
          "Half of the {a} {it} are blue. How many {it} are blue?",
          "{q} has half as many {it} as {p}, who has {a}. How many {it} does {q} have?"),
         ("Exactly half of {a} {it} were sold. How many {it} were sold?",
          "{p} cuts a rope of {a} meters in the middle. How many meters is one part?"),
         "The answer is {r}."),
    Kind(lambda g: {"a": g.randint(3, 60), "b": g.choice([2, 3, 4, 5])}, (("that many times", "a", "b", "×"), ),
         ("{p} has {a} {it}. {q} has {b} times as many. How many {it} does {q} have?",
          "A small tank holds {a} liters. A big tank holds {b} times as much. How many liters does the big tank hold?",
          "{q} is {b} times as old as {p}, who is {a}. How old is {q}?"),
         ("{q} sold {b} times the number of {it} that {p} sold. {p} sold {a}. How many {it} did {q} sell?",),
         "The answer is {r}."),
    Kind(lambda g: {"a": g.randint(3, 60), "b": g.choice([2, 3, 4])},
         (("the larger number", "a", "b", "×"), ("both together", 0, "a", "+")),
         ("{p} has {a} {it}. {q} has {b} times as many. How many {it} do they have together?",
          "{p} ran {a} km and {q} ran {b} times as far. How many km did they run in total?"),
         ("{p} picked {a} {it}, and {q} picked {b} times that number. How many {it} did both pick?",),
         "Together it is {r}."),
)  # fmt: skip
OPENINGS = (
    "[Here is|This is|Listen to|Read|Solve|I have] [a|this|the next|one] [problem|riddle|puzzle|exercise|story|task][.|:]", "[A|One|Next] [riddle|question|problem|exercise][:|.]", "[Think|Calculate|Be careful|Help me|Hello|Try this][.|:|!]",
    "My [teacher|son|daughter|friend|homework] [asks|asks me|wants to know|says][:|] ", "[Tom|Everybody|The class] [was asked|could not solve][ this|][:|]",
)  # fmt: skip
PREFIXES = ("", "", "", "Solve this: ", "Word problem: ", "Please help. ", "Here is a question. ")
SUFFIXES = ("", "", "", " Show your work.", " Explain step by step.", " Give only the answer.")


def _solve(kind: Kind, numbers: Numbers) -> tuple[list[str], list[str], int]:
    """Brief pieces, named steps, and the result."""
    brief: list[str] = []
    steps: list[str] = []
    results: list[int] = []
    for what, left, right, op in kind.chain:
        a, b = (results[v] if isinstance(v, int) else numbers[v] for v in (left, right))
        short, lines = columns.work(a, b, op)
        r = columns.result(a, b, op)
        brief.append(short)
        body = lines if len(lines) > 1 else [lines[0]]
        steps += [
            f"First {what}:" if len(kind.chain) > 1 and not results else f"Now {what}:",
            *body,
        ]
        results.append(r)
    return brief, steps, results[-1]


def word_problem(g: Gen) -> Turn:
    """A word problem with people, things and one or two operations."""
    index = g.randrange(len(KINDS))
    kind = KINDS[index]
    numbers = kind.make(g)
    brief, steps, r = _solve(kind, numbers)
    p = g.first()
    q = next(n for n in iter(g.first, "") if n != p)
    thing = plural(g.noun()) if g.chance(0.93) else plural(g.fake())
    values: dict[str, Any] = {"p": p, "q": q, "it": thing, "r": r, **numbers}
    if not g.unseen:
        values |= {"pl": g.noun(), "r1": g.first()}
    told = kind.seen if g.unseen or g.chance(0.25) else PROBLEMS[index]
    question = g.say(told, kind.unseen).format(**values)
    if not g.unseen and g.chance(0.1):
        question = f"{g.spell(g.choice(OPENINGS))} {question}"
    final = kind.final.format(**values)
    suffix = g.choice(SUFFIXES)
    if suffix == " Give only the answer.":
        answer = str(r)
    elif suffix or g.chance(0.1):
        lines = [f"{i}. {s}" for i, s in enumerate(brief, 1)]
        answer = "\n".join([*lines, "", f"**Answer:** {final}"])
    else:
        answer = final
    thought = Thought(
        "; ".join(brief), tuple(steps), f"The numbers are {', '.join(map(str, numbers.values()))}."
        .replace(", 2.", ".") if "two" in numbers else
        f"The numbers are {', '.join(map(str, numbers.values()))}.",
        f"So the answer is {r}.",
    )  # fmt: skip
    return Turn(g.choice(PREFIXES) + question + suffix, thought, answer)
