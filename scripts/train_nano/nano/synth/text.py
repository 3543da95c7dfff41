"""Small talk, facts, reading, lists, text manipulation and short prose."""

from __future__ import annotations

from . import facts, wordings
from .gen import COLORS, DAYS, JOBS, MONTHS, Gen, held_out, plural
from .types import Thought, Turn


def greeting(g: Gen) -> Turn:
    asks, answers = g.choice(facts.GREETINGS)
    ask = g.choice(asks)
    return Turn(
        ask,
        Thought(
            "A short friendly answer is enough.",
            ("The user is making small talk.", "I will answer briefly."),
            f"The user said: {ask}",
        ),
        g.choice(answers),
    )


def fact(g: Gen) -> Turn:
    kind = g.random()
    if kind < 0.35:
        country, city = g.choice(facts.CAPITALS)
        ask = g.choice(
            [
                "What is the capital of {}?",
                "Which city is the capital of {}?",
                "capital of {}",
                "Tell me the capital of {}.",
            ]
        ).format(country)
        return Turn(
            ask,
            Thought(
                f"It is {city}.",
                (f"The user asks for the capital of {country}.", f"That is {city}."),
                "This is a geography question.",
            ),
            f"The capital of {country} is {city}.",
        )
    if kind < 0.75:
        term, answer = g.choice(facts.DEFINITIONS)
        ask = g.choice(
            [
                "What is {}?",
                "Explain {}.",
                "Define {}.",
                "Can you explain what {} is?",
                "Tell me about {}.",
                "Explain {} in one sentence.",
            ]
        ).format(term)
        return Turn(
            ask,
            Thought(
                f"I define {term}.",
                (f"The user wants to know what {term} is.", "One clear sentence is enough."),
                f"The topic is {term}.",
            ),
            answer,
        )
    ask, answer = g.choice(facts.MISC)
    return Turn(
        ask,
        Thought(
            "This is a simple fact.",
            (f"The question is: {ask}", answer),
            "This is a general knowledge question.",
        ),
        answer,
    )


def statements(g: Gen, count: int) -> list[tuple[str, str, str]]:
    """(sentence, question, answer) about distinct people."""
    found: list[tuple[str, str, str]] = []
    used: set[str] = set()
    while len(found) < count:
        p = g.name() if g.chance(0.7) else g.first()
        if p in used:
            continue
        used.add(p)
        c, j, i, n, d = g.city(), g.choice(JOBS), plural(g.noun()), g.randint(2, 90), g.choice(DAYS)
        color, year = g.choice(COLORS), g.randint(1900, 2015)
        found.append(g.choice([
            (f"{p} lives in {c}.", f"Where does {p} live?", f"{p} lives in {c}."),
            (f"{p} works as a {j} in {c}.", f"What is the job of {p}?", f"{p} works as a {j}."),
            (f"{p} works as a {j} in {c}.", f"In which city does {p} work?", f"{p} works in {c}."),
            (f"{p} bought {n} {i} on {d}.", f"How many {i} did {p} buy?", f"{p} bought {n} {i}."),
            (f"{p} bought {n} {i} on {d}.", f"When did {p} buy {i}?", f"{p} bought {i} on {d}."),
            (f"On {d}, {p} travelled to {c}.", f"Where did {p} travel?", f"{p} travelled to {c}."),
            (f"{p} is {n} years old and likes {i}.", f"How old is {p}?", f"{p} is {n} years old."),
            (f"{p} is {n} years old and likes {i}.", f"What does {p} like?", f"{p} likes {i}."),
            (f"The favorite color of {p} is {color}.", f"What is the favorite color of {p}?", f"The favorite color of {p} is {color}."),
            (f"{p} was born in {year} in {c}.", f"Where was {p} born?", f"{p} was born in {c}."),
            (f"{p} was born in {year} in {c}.", f"When was {p} born?", f"{p} was born in {year}."),
            (f"The office of {p} is on floor {n}.", f"On which floor is the office of {p}?", f"The office of {p} is on floor {n}."),
            (f"{p} owns a {color} {g.noun()}.", f"What does {p} own?", ""),
        ]))  # fmt: skip
    return found


def reading(g: Gen) -> Turn:
    """A question about a paragraph."""
    facts_ = statements(g, g.randint(2, 6))
    sentences = [f[0] for f in facts_] + [g.sentence() for _ in range(g.randint(0, 2))]
    if g.chance(0.5):
        g.shuffle(sentences)
    said, ask, answer = g.choice(facts_)
    body = " ".join(sentences)
    prompt = g.say(
        ("{t}\n\n{a}", "[Read|Take|Look at|Use] [the text|this text|this|these facts|the following] [and|, then] answer[ the question|]. \n\n{t}\n\n[Question: |]{a}", "{a}\n\n[Text|Facts|Notes|Story]: {t}", "[Context|Text|Notes|Facts|Information]: {t}\n\n{a}", "[Given|Known is|I know|We know|I read|I was told] [this|this text|the following]: {t}\n\n[So: |Question: |]{a}", "{t} {a}"),
        ("Here are some facts. {t}\n\nNow tell me: {a}",),
    ).format(t=body, a=ask)  # fmt: skip
    thought = Thought(
        f"The text says: {said}",
        ("I look for the sentence that answers this.", f"The text says: {said}"),
        f"The question is: {ask}",
        "No other sentence answers it.",
    )
    return Turn(prompt, thought, answer or said)


def _numbered(items: list[str]) -> str:
    return "\n".join(f"{k}. {i}" for k, i in enumerate(items, 1))


def _akin(g: Gen, word: str) -> str:
    """A word that begins with the same one to three letters."""
    start = word[: g.randint(1, 3)]
    lex = g.lex
    pool = g.choice((lex.nouns, lex.words, lex.adjectives, lex.verbs))
    if g.chance(0.6) and (found := [w for w in pool if w.startswith(start) and w != word]):
        return g.choice(found)
    while held_out(made := start + g.rare()):
        pass
    return made


def _words(g: Gen, count: int) -> list[str]:
    """Words of a list; long ones, and ones that begin alike, are harder to sort and to copy."""
    if g.chance(0.15):
        count = g.randint(9, 16)
    words = [g.any_word() for _ in range(count)]
    if g.chance(0.35):
        for at in range(1, count):
            if g.chance(0.5):
                words[at] = _akin(g, g.choice(words[:at]))
    return words


def list_task(g: Gen) -> Turn:
    """One operation on a list of words."""
    count = g.randint(3, 8)
    if g.unseen:
        items = list(dict.fromkeys(g.fake() if g.chance(0.2) else g.noun() for _ in range(count)))
    else:
        items = list(dict.fromkeys(_words(g, count)))
    listed = ", ".join(items)
    k = g.randint(1, len(items))
    last, pick = items[-1], items[k - 1]
    forms = (
        (("[Sort|Order|Arrange|Put|Bring] [these|the following|the|my|all] [words|items|entries|terms|names] [alphabetically|in alphabetical order|in ABC order|by the alphabet|by their letters|in dictionary order]: {}", "[Sort|Alphabetize|Order alphabetically|Sorted|Alphabetical order]: {}", "[Can|Could] you [sort|order|alphabetize|arrange] [these|this list|these words|the following][ alphabetically| by the alphabet|]? {}", "{}\n\n[Sort|Order|Alphabetize|Arrange] [these|them|the words|this list][ from A to Z| alphabetically|].", "What is the alphabetical order of {}?", "I [need|want] [these|this list|the words] [sorted|in alphabetical order|alphabetized]: {}"), ("Order the following words from a to z: {}",), ", ".join(sorted(items))),
        (("[Reverse|Flip|Invert|Turn around] [the order of |][this list|these words|these items|the list|the following|these]: {}", "[Write|List|Give|Print|Say|Show|Put] [this list|these|the words|the items|these items] [backwards|in reverse|in reverse order|from last to first|from the end to the start|the other way round|in the opposite direction|starting with the last]: {}", "{}\n\n[Reverse|Flip|Turn around] [this|it|the list|the order].", "[Can|Could] you [reverse|flip] [this|this list|the order of these]? {}", "[Reversed|Backwards|Reverse|Opposite direction]: {}", "I [want|need] [these|this list|the words] [backwards|in reverse|in reversed order]: {}"), ("Give me these in the opposite order: {}",), ", ".join(items[::-1])),
        (("How many [items|words|entries|things|elements|terms] [are|do you see|can you find|are there] [in this list|here|in the list|in the following|below]: {}?", "[Count|Count up] [the items|the words|these|these words|the entries|how many there are]: {}", "How many [words|items|entries] are [there|these|listed]: {}?", "What is the [length|size] of this list: {}?", "[Tell me|Say|Give me] [how many items there are|the number of items|the number of words|the count|how long this list is]: {}", "{}\n\nHow many [items|words|entries] [is that|are these|are there|do I have]?", "The [number|count] of [items|words] [in|of] {} is what?"), ("What is the number of entries here: {}?",), f"There are {len(items)} items in the list."),
        (("[Turn|Make|Change|Convert|Format|Put|Rewrite] [this|these|the list|the following|these words|the items] [into|as|to] [a bulleted list|bullets|a bullet list|bullet points|a list with dashes|dashed lines]: {}", "[Write|List|Give|Print|Format] [these |this |them |][as|with|using] [bullets|bullet points|a bullet list|dashes]: {}", "Make [a bullet list|bullets|bullet points|a bulleted list] [of|from|out of|with] {}", "{}\n\n[Bullets|As bullets|Bullet points|As a bullet list], please.", "I [want|need] [a bullet list|bullets|bullet points] [of|for] {}", "[Can|Could] you [list|write|put] [these|this] [as|in|with] [bullets|bullet points]? {}"), ("Show these as bullet points: {}",), "\n".join(f"- {i}" for i in items)),
        (("[Number|Enumerate|Count off] [these|these items|the items|the words|this list|the following]: {}", "[Make|Write|Create|Give me|I want|I need] a numbered list [of|from|with|for] {}", "[Write|Format|Show|List|Print] [these |this |them |][as a numbered list|with numbers|with a number before each|numbered|as an enumeration]: {}", "[Add|Write] [a number|numbers] [before|to] [each item|each word|each of these|the items]: {}", "{}\n\n[Number them|Add numbers|As a numbered list|Enumerate this].", "[Can|Could] you number [these|the items|this list]? {}"), ("Put numbers in front of these: {}",), _numbered(items)),
        (("[Write|Print|Say|Type|Put|Spell] [these|these words|the list|this|the following|all words] in [upper case|capital letters|capitals|uppercase|all caps|big letters]: {}", "[Convert|Change|Turn|Transform|Switch] [this |these |the words |everything |][to|into] [upper case|capitals|uppercase|capital letters]: {}", "[Capital letters|Upper case|All caps|Capitals|Uppercase], please: {}", "[Capitalize|Uppercase] [every letter of |all of |all letters: |][these|this list|the words][ fully|]: {}", "{}\n\n[In capitals|In upper case|All caps|Make it upper case], please.", "I [want|need] [these|this list] in [capitals|upper case]: {}"), ("Give me all of these in capital letters: {}",), ", ".join(i.upper() for i in items)),
        (("What is the first [item|word|entry|element|one] [of|in|on] [this list|the list|these|the following]: {}?", "Which [word|item|entry|one] [comes|is|stands] first[ here| in this list|]: {}?", "[Name|Give me|Tell me|Return|Show|Say] the [first|very first] [item|word|entry|element][ of this list| here| only|]: {}", "{}\n\n[What|Which one] is [the first|at the beginning|first]?", "What does this list [start|begin] with: {}?"), ("Name the item at the start of this list: {}",), f"The first item is {items[0]}."),
        (("What is the [last|final] [item|word|entry|element|one] [of|in|on] [this list|the list|these|the following]: {}?", "Which [word|item|entry|one] [comes|is|stands] last[ here| in this list|]: {}?", "[Name|Give me|Tell me|Return|Show|Say] the [last|very last|final] [item|word|entry|element][ of this list| here| only|]: {}", "{}\n\n[What|Which one] is [the last|at the very end|last|the final one]?", "What does this list [end|finish|close] with: {}?"), ("Name the item at the end of this list: {}",), f"The last item is {last}."),
        ((f"What is [item|word|entry|element|number] {k} [of|in] [this list|the list|these]: {{}}?", f"Which [word|item|entry] is [number|at place|at index|in place] {k}[ here|]: {{}}?", f"[Give me|Tell me|Return|Show|Say|Find|Pick] [item|word|entry|number|element] {k}[ of this list|]: {{}}", f"[Give me|Tell me|Which is|What is|Find] the [item|word|entry|one] [in place|at number|with number|in position|on place] {k}: {{}}", f"{{}}\n\nWhat is [item|number|word] {k}?"), (f"Name the word at position {k}: {{}}",), f"Item {k} is {pick}."),
        ((f"[Remove|Delete|Drop|Take out|Erase|Omit|Strike|Cut|Take away] {pick}[ from this list| from the list| here| from these|]: {{}}", f"[Write|Give|Repeat|Print|Show] [this list|the list|these words|the others|these] without {pick}: {{}}", f"{{}}\n\n[Remove|Delete|Drop|Take out|Omit] {pick}.", f"[I do not want|No longer wanted|Get rid of|Skip|Everything except|Everything but|All words except] {pick}: {{}}", f"[Can|Could] you [remove|delete|drop] {pick}? {{}}", f"The list should not [have|hold|contain|include] {pick}: {{}}"), (f"Leave out {pick}: {{}}",), ", ".join(i for i in items if i != pick)),
        (("[Write|Put|Print|List|Show|Place] [each|every] [word|item|entry|one] [on|in] [its own|a new|a separate|an extra] line: {}", "[One word per line|One per line|Line by line|Each on a new line|One item in each line]: {}", "[Split|Divide|Cut|Separate] [this|this list|the list|these|the words] [into|over|across] [lines|separate lines|single lines|several lines]: {}", "{}\n\n[One per line|Each on its own line|On separate lines], please.", "Use [one line|a new line] [for each|per|for every] [word|item|entry]: {}"), ("Break this list into lines: {}",), "\n".join(items)),
    )  # fmt: skip
    weights = [1] * len(forms) if g.unseen else [7, 3, 1, 1, 1, 6, 1, 1, 2, 2, 4]
    index = g.choices(range(len(forms)), weights)[0]
    seen, unseen, answer = forms[index]
    steps = _numbered(items)
    if answer == ", ".join(sorted(items)):
        thought = Thought(
            f"Sorted: {answer}",
            (f"The words are {listed}.", f"In order: {answer}"),
            "This is a list task.",
            f"I keep all {len(items)} words.",
        )
    else:
        thought = Thought(
            f"The list has {len(items)} items.",
            (steps, "I apply what the user asked for."),
            "This is a list task.",
        )
    if g.unseen or g.chance(0.25):
        return Turn(g.say(seen, unseen).format(listed), thought, answer)
    patterns = tuple(wordings.LISTS.values())[index]
    for value, slot in ((pick, "{pick}"), (str(k), "{k}")):
        unseen = tuple(f"{u} ".replace(f" {value}", f" {slot}") for u in unseen)
    ask = g.laid_out(patterns, wordings.LIST_LAYOUTS, unseen, k=str(k), pick=pick, list=listed)
    return Turn(ask, thought, answer)


def spelling(g: Gen) -> Turn:
    """The letters of a word, or the word in another case or form."""
    word = g.any_word()
    shown = g.choice([word, word, f'"{word}"', word.capitalize()])
    plain = shown.strip('"')
    ask, answer = g.choice([
        ("[Spell|Spell out|Write the letters of|Say letter by letter] {}", "-".join(plain)),
        ("[Spell|Take apart|Split] {} [into|as] [single letters|letters]", " ".join(plain)),
        ("[What are|List|Name] the letters [of|in] {}", ", ".join(plain)),
        ("[Shout|Uppercase|Capitals for|Big letters:] {}", plain.upper()),
        ("[What|How] is {} in [capital|upper-case|big] letters", plain.upper()),
        ("[Start|Begin] {} with a [capital|big letter]", plain.capitalize()),
        ("[Make|Give me] a constant [name |]for {}", f"MAX_{plain.upper()}"),
        ("[Make|Give me] a class [name |]for {}", f"{plain.capitalize()}Error"),
    ])  # fmt: skip
    ask = g.spell(ask).replace("{}", shown) + g.choice(["", ".", "?", ", please."])
    steps = (f"The word is {plain}.", f"Its letters are {' '.join(plain)}.")
    return Turn(ask, Thought(steps[1], steps, "This is about the letters of a word."), answer)


def repeat(g: Gen) -> Turn:
    """Copy, replace, split or change the case of a text."""
    body = g.text(1, 4)
    kind = g.randrange(6)
    if kind <= 1:
        ask = g.choice(
            [
                "Repeat this text exactly: {}",
                "Copy the following text:\n\n{}",
                "Say this again, word for word: {}",
                "Echo: {}",
            ]
        ).format(body)
        answer, note = body, "I copy the text without any change."
    elif kind == 2:
        old = g.choice([x.strip(".,") for x in body.split() if len(x) > 3])
        new = g.fake() if g.chance(0.5) else g.noun()
        ask = g.choice(
            ['Replace the word "{}" with "{}" in this text: {}', 'Change "{}" to "{}": {}']
        ).format(old, new, body)
        answer = " ".join(
            x.replace(old, new) if x.strip(".,") == old else x for x in body.split(" ")
        )
        note = f"I replace {old} with {new} and keep the rest."
    elif kind == 3:
        line = body.split(". ")[0].rstrip(".")
        ask, answer, note = (
            f"Write this in upper case: {line}",
            line.upper(),
            "I write the letters in upper case.",
        )
    elif kind == 4:
        ask, answer, note = (
            f"Write this in lower case: {body}",
            body.lower(),
            "I write the letters in lower case.",
        )
    else:
        ask, answer, note = (
            f"Split this text into one sentence per line:\n\n{body}",
            body.replace(". ", ".\n"),
            "Each sentence goes on its own line.",
        )
    return Turn(
        ask,
        Thought(
            note,
            ("The user gave me a text to work with.", note),
            "This is a text task.",
            "I must not drop any words.",
        ),
        answer,
    )


def summarize(g: Gen) -> Turn:
    p, c, n, m = g.name(), g.city(), g.noun(), g.choice(MONTHS)
    job, a = g.choice(JOBS), g.adjective()
    first = f"{p}, a {job} from {c}, opened a {a} {n} in {m}."
    body = f"{first} {g.sentence()} Many people came to see it, and {p.split()[0]} was happy with the result. The {n} will stay open until {g.choice(MONTHS)}."
    ask = g.choice(
        [
            "Summarize this text in one sentence:\n\n{}",
            "{}\n\nGive me a short summary.",
            "What is this text about?\n\n{}",
        ]
    ).format(body)
    steps = (
        f"The text is about {p}, a {job} from {c}.",
        f"The main event is that a {a} {n} opened in {m}.",
    )
    return Turn(
        ask,
        Thought(
            f"It is about {p} and a {n}.", steps, "I need a summary.", "One sentence is enough."
        ),
        first,
    )


def classify(g: Gen) -> Turn:
    good = (
        "great",
        "wonderful",
        "excellent",
        "fantastic",
        "perfect",
        "lovely",
        "brilliant",
        "superb",
    )
    bad = ("terrible", "awful", "broken", "disappointing", "bad", "useless", "horrible", "poor")
    label = g.choice(["positive", "negative"])
    word, it = g.choice(good if label == "positive" else bad), g.noun()
    review = g.choice(
        [
            f"The {it} is {word}.",
            f"I bought this {it} last week and it is {word}.",
            f"What a {word} {it}!",
            f"My {it} was {word}. {g.sentence()}",
        ]
    )
    ask = g.choice(
        [
            "Is this review positive or negative? {}",
            "Classify the sentiment: {}",
            'Sentiment of "{}"?',
        ]
    ).format(review)
    return Turn(
        ask,
        Thought(
            f"The word {word} is {label}.",
            (f"The review uses the word {word}.", f"That is {label}."),
            "This is a sentiment question.",
        ),
        g.choice([label.capitalize(), f"The sentiment is {label}."]),
    )


OPENINGS = ("Once there was a person called {h} who lived in {c}.", "{h} lived in a small house in {c}.", "One morning, {h} woke up early in {c}.", "It was {d}, and {h} had nothing to do.",
            "{h} had always wanted to see {c}.", "Nobody in {c} knew {h} very well.", "When {h} came to {c}, it was raining.")  # fmt: skip
MIDDLES = ("Near the house stood a {a} {n} that nobody used.", "Every day, {h} walked past a {a} {n}.", "On the way to the market, {h} saw a {a} {n}.", "There was a {a} {n} behind the station.",
           "An old map showed a {a} {n} not far away.", "The {n} was {a}, and it smelled of rain.")  # fmt: skip
FINDS = (
    "Inside it, {h} found a {i}.",
    "There, {h} found a {i} that somebody had lost.",
    "Next to it lay a {i}.",
    "{h} looked closer and saw a {i}.",
    "A {b} {i} was hidden under it.",
)
FRIENDS = ("{f} came by and asked what it was for.", "{h} showed it to {f}, who smiled.", "{f} said that it belonged to the {n}.", '"Leave it there," said {f}, but {h} did not listen.',
           "{f} had seen such a {i} once before, in {e}.")  # fmt: skip
ENDS = ("Together they repaired the {n} and put the {i} back.", "They decided to keep the {i} and to open the {n} for everyone.", "In the end, they gave the {i} back and went home happy.",
        "The {i} still stands on the table of {f}.", "From that day on, {h} and {f} met at the {n} every {d}.", "By evening, the {n} was as good as new.")  # fmt: skip


def story(g: Gen) -> Turn:
    """A short story of four to six sentences."""
    v = {
        "h": g.first(),
        "f": g.first(),
        "n": g.noun(),
        "i": g.noun(),
        "a": g.adjective(),
        "b": g.adjective(),
        "c": g.city(),
        "e": g.city(),
        "d": g.choice(DAYS),
    }
    ask = g.choice(
        [
            "Write a short story about {h} and a {n}.",
            "Tell me a story about a {n} in {c}. The hero is {h}.",
            "Write a few sentences about {h}, who finds a {i}.",
            "I want to read about {h} and {f}.",
        ]
    ).format(**v)
    parts = [OPENINGS, MIDDLES, FINDS, FRIENDS, ENDS]
    lines = [g.choice(p).format(**v) for p in parts]
    if g.chance(0.3):
        lines.insert(3, g.sentence())
    steps = (f"The story needs {v['h']} and a {v['n']}.", f"I can add {v['f']} and a {v['i']}.")
    return Turn(
        ask,
        Thought(
            f"A short story about {v['h']}.",
            steps,
            "The user wants a story.",
            "Five sentences are enough.",
        ),
        " ".join(lines),
    )


def letter(g: Gen) -> Turn:
    """A short message to somebody."""
    to, me, n, a, d, c = g.first(), g.first(), g.noun(), g.adjective(), g.choice(DAYS), g.city()
    why = g.choice(
        [
            f"the {n} is {a}",
            f"the meeting moves to {d}",
            f"we go to {c} on {d}",
            f"I need the {n} by {d}",
        ]
    )
    ask = g.choice(
        [
            "Write a short message to {t} that says that {w}. Sign it as {m}.",
            "Write to {t}: {w}. From {m}.",
            "Draft an email from {m} to {t}. Topic: {w}.",
        ]
    ).format(t=to, w=why, m=me)
    lines = [
        f"Dear {to},",
        f"I want to let you know that {why}.",
        g.choice(
            [
                "Please tell me if this works for you.",
                "Let me know if you have questions.",
                "I hope that is fine with you.",
            ]
        ),
        g.choice(["Best regards,", "Kind regards,"]) + f"\n{me}",
    ]
    return Turn(
        ask,
        Thought(
            f"A message from {me} to {to}.",
            (f"{to} has to know that {why}.", "I keep it short."),
            "The user wants a message.",
        ),
        "\n\n".join(lines),
    )


def continue_prose(g: Gen) -> Turn:
    """Continue a real paragraph of documentation."""
    body = g.choice(g.lex.paragraphs)
    words = body.split(" ")
    cut = g.randint(len(words) // 3, max(len(words) // 3, len(words) - 8))
    ask = g.choice(
        ["Continue this text: {}", "Finish the paragraph: {}", "What comes next? {}"]
    ).format(" ".join(words[:cut]))
    return Turn(
        ask,
        Thought(
            "I continue in the same style.",
            ("The text breaks off.", "I continue in the same style."),
        ),
        " ".join(words[cut:]),
    )
