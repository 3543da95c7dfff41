"""Word problems put together from events, in many wordings: more ways to say a thing than lists hold."""

from __future__ import annotations

from . import columns
from .gen import Gen, plural
from .types import Thought, Turn

# Patterns for `Gen.spell`; {p} {q} people, {it} things, {n} {m} numbers, {pl} a place.
START = (
    "{p} <has> {n} {it}[ in a <box>| in the {pl}| for sale|].",
    "[Inside|Near|Behind|Under|Next to] the {pl} [there are|there were|we find|lie|are] {n} {it}.",
    "{p} [has|owns|keeps|holds|carries|starts with|begins with|finds|counts|had|owned|possesses|collected|made|baked|bought|gathered] {n} {it}[ in the morning| at home| at first| in a bag| on the table|].",
    "[There are|There were|We see|Somebody left|You can count] {n} {it} [in|on|at|near|behind|inside] the {pl}.",
    "[A|The|One] {pl} [has|holds|contains|stores|had|held|contained] {n} {it}.",
    "[At first|In the beginning|On Monday|Yesterday|Last week|In the morning|Today], [{p} has|{p} had|there are|there were] {n} {it}[ in the {pl}|].",
    "{n} {it} [stand|lie|are|wait|were] [in|on|at] the {pl}.",
    "[From|Out of] the {pl}, {p} [takes|got|picks] {n} {it}.",
)
GAIN = (
    "<when>[,|] {n} <more> [{it} |ones |][arrive|come|are added|are delivered|show up|join|turn up|follow|are brought by {q}|are found].",
    "{p} <gets> {n}[ more| others| further ones| extra| {it} more].",
    "{n}[ more| further| new|] {it} [are added to them|come on top|are put beside them|join the others|arrive from the {pl}].",
    "{q} [gives|hands|sends|brings|sells|lends|offers] {p} {n} [more|extra|other|additional|new|further|] {it}.",
    "[Then|Later|After that|Next|In the evening|The next day|By noon|Afterwards|Soon], {n} [more|extra|other|additional|new|further] [{it} |ones |][arrive|come|are added|are delivered|are put there|show up|join].",
    "{p} [buys|finds|gets|receives|wins|makes|adds|collects|picks|earns|is given|takes|brings|orders|discovers] {n} [more|others|extra|additional ones|further ones|more of them|new ones|more {it}].",
    "{n} [more|further|extra|additional] {it} [are|get|were] [added|put in|bought|brought|delivered].",
    "[Another|An extra|A further] {n} [{it} |][come from|are a present from|are brought by|belong to] {q}.",
    "{q} [puts in|adds|brings along|contributes|throws in] {n}[ more| {it}| others|].",
)
LOSS = (
    "{p} <drops> {n}[ of them| {it}| of the {it}|].",
    "<when>[,|] {n} [{it} |of them |][are lost|disappear|are sold|go missing|are eaten|are used up|are removed|are thrown out|are handed out|run away|are given to {q}|vanish].",
    "[But|Alas,|However,|Unfortunately,] {n} [{it} |of them |][break|are lost|disappear|are used up|are gone|get spoiled|leave].",
    "{p} [gives|sells|sends|lends|hands|loses|donates|mails] {n} [of them |{it} |][to {q}|away to {q}|over to {q}].",
    "{p} [loses|breaks|eats|uses|drops|throws away|gives away|sells|forgets|wastes|burns|spends|returns|uses up|hides|misses] {n}[ of them| {it}|].",
    "[Then|Later|After that|Next|In the evening|The next day|By noon|Afterwards|Sadly], {n} [{it} |of them |][break|are lost|disappear|are sold|are taken away|go missing|are eaten|are used|are removed|are stolen|get broken|fall down|leave].",
    "{q} [takes|takes away|takes out|borrows|steals|removes|eats|buys|picks up|carries off] {n}[ of them| {it}|].",
    "{n} [of the {it}|of them|{it}] [are|were|get|got] [sold|lost|broken|eaten|taken|used up|removed|given away|damaged|thrown away|spoiled].",
)
GROUPS = (
    "[There are|{p} has|{p} buys|{q} brings|We see] {n} <boxes> [with|of|holding|that contain] {m} {it} [each|in each|apiece].",
    "{n} <people> [each|] [have|bring|get|carry] {m} {it}[ each|].",
    "{p} [has|buys|packs|fills|carries|owns|brings|finds|orders|prepares|stacks] {n} [boxes|bags|packs|baskets|crates|shelves|trays|sacks|jars|piles|rows|cases|drawers] [with|of|that hold|holding|containing] {m} {it} [each|in each|in every one|apiece|per piece].",
    "[There are|There were|We see] {n} [boxes|bags|rows|tables|shelves|rooms|teams|groups|lines|floors|houses|cars] [with|of|that have] {m} {it} [each|in each|in every one|apiece].",
    "[Each|Every] [box|bag|shelf|row|day|hour|week|table|child|page|room] [has|holds|gets|takes|brings|contains|needs|gives] {m} {it}[.|, and] [there are|{p} has|there were|we have] {n} of [them|these].",
    "[One|A single|A] [box|bag|ticket|pack|bottle|{one}] [costs|is sold for|has a price of|goes for] {m} dollars. {p} [buys|takes|needs|orders|wants|pays for] {n}[ of them|].",
    "{p} [makes|sells|reads|collects|plants|paints|counts|writes|washes|carries|earns|needs] {m} {it} [a|per|each|every] [day|hour|week|minute|month] [for|during|over] {n} [days|hours|weeks|minutes|months].",
    "{n} [people|children|friends|workers|guests|players] [each |][have|bring|buy|get|make|own|carry] {m} {it} [each|apiece|per person].",
)
SHARE = (
    "{n} <people> [share|split|divide] [them|all of them|everything] <evenly>.",
    "[Everything|All of it|All {it}] [goes|is given|is handed out] <evenly> to {n} <people>.",
    "{p} [shares|divides|splits|distributes|spreads] [them|all of them|everything|all {it}] [equally|evenly|fairly] [among|between|over|to] {n} [friends|people|children|boxes|bags|groups|neighbors|teams].",
    "[They|All of them|The {it}|All {it}] are [packed|put|divided|split|sorted|placed] [equally|evenly] [into|in|over|among] {n} [boxes|bags|rows|groups|baskets|shelves].",
    "{n} [friends|people|children|teams|boxes|guests] [get|receive|hold|take] [the same number|an equal share|equally many|the same amount][ of them|].",
    "[Everyone|Each] of {n} [friends|people|children|guests] [gets|receives|takes] [the same number|an equal share|the same amount].",
)
TIMES = (
    "{q} [has|owns|sells|makes|buys|collects|counts|reads|needs|finds] {n} times as [many|many {it}|many as {p}].",
    "{q} [has|gets|finds|makes] {n} times [that|that number|this number|the number of {p}|as many as that].",
)
MORE_THAN = (
    "{q} [has|owns|sells|makes|buys|collects|counts|needs|finds|gets] {n} [more|more {it}|{it} more] than [{p}|that|{p} does].",
)
FEWER = (
    "{q} [has|owns|sells|makes|buys|collects|counts|needs|finds|gets] {n} [fewer|fewer {it}|less|{it} less] than [{p}|that|{p} does].",
)
ASK_LEFT = (
    "How many {it} [are left|remain|are there now|are there|does {p} have now|does {p} have|does {p} still have|does {p} own now|does {p} keep|are there in the end|stay|are still there]?",
    "[What is|Find|Give|Tell me|Work out|Say] the [number|final number|number left|amount] of {it}[ now| in the end| at the end|][?|.]",
    "How many [does {p} have|are left|remain|is that|are there][ now| in the end| at the end|]?",
    "With how many {it} does {p} end?",
)
ASK_TOTAL = (
    "How many {it} [are there|is that|are there in all|are there in total|are there altogether|does {p} have|does that make|is it in total|are that together]?",
    "[What is|Find|Give|Tell me|Work out] the [total|total number|sum|whole number|number of {it}][?|.]",
    "How many [is that|in total|altogether|in all|does that make|are that]?",
    "How [much|many] [is that|is it|does that make] [in total|altogether|in all|together]?",
)
ASK_SHARE = (
    "{n} <people> [share|split|divide] [them|all of them|everything] <evenly>.",
    "[Everything|All of it|All {it}] [goes|is given|is handed out] <evenly> to {n} <people>.",
    "How many {it} [does each get|are in each|does one get|go to each|is that for each|are there in one|does everyone get|does every one hold]?",
    "[What is|Find|Tell me] the share of [each|one][?|.]",
    "How many [for each|each|does one get|is that apiece|per person|in each]?",
)
ASK_OTHER = (
    "How many {it} [does {q} have|are that|has {q}|belong to {q}|is that for {q}]?",
    "[What is|Find|Tell me] the number of {q}[?|.]",
    "How many [does {q} have|is that|has {q}]?",
)
ASK_BOTH = (
    "How many {it} [do they have|are there|is that] [together|in total|in all|altogether]?",
    "[What is|Find|Tell me] the [sum|total|number of both][?|.]",
    "How many do [both|they|{p} and {q}] have [together|in total|altogether]?",
)
FINALS = ("The answer is {r}.",)
Operation = tuple[str, int, int, str]


def _values(g: Gen, thing: str, one: str, p: str, q: str, n: int, m: int = 0) -> dict[str, object]:
    return {"p": p, "q": q, "it": thing, "one": one, "pl": g.noun(), "n": n, "m": m}


def story_problem(g: Gen) -> Turn:
    """One to three events and a question, with the chain of operations worked out."""
    p = g.first()
    q = next(x for x in iter(g.first, "") if x != p)
    one = g.noun() if g.chance(0.9) else g.fake()
    thing = plural(one)

    def tell(patterns: tuple[str, ...], n: int = 0, m: int = 0) -> str:
        return g.spell(g.choice(patterns)).format(**_values(g, thing, one, p, q, n, m))

    chain: list[Operation] = []
    ask = ASK_LEFT
    if g.chance(0.45):
        n, m = g.randint(2, 12), g.randint(2, g.choice([12, 12, 30, 90]))
        lines, now = [tell(GROUPS, n, m)], n * m
        chain.append(("all of them", m, n, "×"))
        ask = ASK_TOTAL
    else:
        now = g.randint(2, g.choice([30, 90, 90, 300]))
        lines = [tell(START, now)]
    for _ in range(g.choice([0, 1]) if chain else g.choice([1, 1, 2])):
        kind = g.random()
        if kind < 0.38:
            n = g.randint(2, g.choice([20, 60, 90]))
            lines.append(tell(GAIN, n))
            chain.append(("after getting more", now, n, "+"))
            now, ask = now + n, (ASK_LEFT if ask is ASK_LEFT else ASK_TOTAL)
        elif kind < 0.78 and now:
            n = g.randint(1, now)
            lines.append(tell(LOSS, n))
            chain.append(("after losing some", now, n, "-"))
            now, ask = now - n, ASK_LEFT
        else:
            divisors = (
                []
                if now == 0
                else [d for d in range(2, 13) if now % d == 0 and 1 <= now // d <= 99]
            )
            if divisors:
                n = g.choice(divisors)
                lines.append(tell(SHARE, n))
                chain.append(("the share of each", now, n, "/"))
                now, ask = now // n, ASK_SHARE
                break
    if not chain or (len(chain) == 1 and chain[0][3] != "×" and g.chance(0.25) and not lines[2:]):
        base = chain[0][1] if chain else now
        lines = [tell((START[0],), base)]
        n = g.randint(2, 5)
        kind = g.randrange(3)
        more = g.randint(1, max(1, min(40, base)))
        patterns, op, amount = ((TIMES, "×", n), (MORE_THAN, "+", more), (FEWER, "-", more))[kind]
        lines.append(tell(patterns, amount))
        chain = [(f"the number of {q}", base, amount, op)]
        now, ask = columns.result(base, amount, op), ASK_OTHER
        if g.chance(0.4):
            chain.append(("both together", now, base, "+"))
            now, ask = now + base, ASK_BOTH
    question = " ".join([*lines, tell(ask)])
    brief, steps = [], []
    for i, (what, a, b, op) in enumerate(chain):
        short, work = columns.work(a, b, op)
        brief.append(short)
        steps += [f"First {what}:" if i == 0 and len(chain) > 1 else f"Now {what}:", *work]
    numbers = ", ".join(str(x) for c in chain for x in c[1:3])
    thought = Thought(
        "; ".join(brief), tuple(steps), f"The numbers are {numbers}.", f"So the answer is {now}."
    )
    prefix = g.choice(
        ("", "", "", "", "Solve this: ", "Word problem: ", "Please help. ", "Here is a question. ")
    )
    suffix = g.choice(("", "", "", "", " Give only the answer.", " Explain step by step."))
    if suffix == " Explain step by step.":
        answer = "\n".join(
            [
                *(f"{i}. {s}" for i, s in enumerate(brief, 1)),
                "",
                f"**Answer:** The answer is {now}.",
            ]
        )
    else:
        answer = str(now) if suffix else f"The answer is {now}."
    return Turn(prefix + question + suffix, thought, answer)
