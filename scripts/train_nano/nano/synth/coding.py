"""Writing and explaining code."""

from __future__ import annotations

from .edits import fence
from .gen import Gen
from .snippets import snippet
from .types import Thought, Turn


def write(g: Gen) -> Turn:
    """Write a function from a description; unnamed requests get the plain names."""
    named = g.chance(0.5)
    made = snippet(g, plain=not named)
    fn, kind, task = made.function, made.kind, made.task
    if named:
        ask = g.say(
            ("Write a Python {k} called {n} that {t}.", "Implement {n} in Python. It {t}.",
             "Give me a {k} {n} which {t}.", "Can you write code that {t}? Call it {n}."),
            ("I am looking for a {k} named {n}; it {t}.",),
        )  # fmt: skip
    else:
        ask = g.say(
            ("Write a Python {k} that {t}.", "I need a {k} that {t}.", "Code a {k} that {t}.",
             "How do I write a {k} that {t} in Python?", "Write a {k} that {t}."),
            ("Please program a {k} that {t}.",),
        )  # fmt: skip
    source = fn.source
    if kind == "function" and g.chance(0.2):
        head, _, rest = source.partition(":\n")
        ask = ask.rstrip() + g.choice([" Include a docstring.", " Add a docstring."])
        source = f'{head}:\n    """{fn.summary}"""\n{rest}'
    ask = ask.format(k=kind, n=fn.name, t=task)
    body = fence(source)
    answer = g.choice(
        [body, body, f"Here is the {kind}:\n\n{body}", f"{body}\n\nThe {kind} `{fn.name}` {task}."]
    )
    thought = Thought(
        f"A short {kind} {fn.name} is enough.",
        (f"The user wants a {kind} that {task}.", f"I will call it {fn.name}."),
        "This is a small programming task.",
        "It must be valid Python.",
    )
    return Turn(ask, thought, answer)


def explain(g: Gen) -> Turn:
    """Say what generated code does."""
    made = snippet(g)
    fn, kind, task = made.function, made.kind, made.task
    ask = g.say(
        (
            "What does this code do?",
            "Explain this code.",
            "What is this for?",
            "Describe this code.",
        ),
        ("Tell me the purpose of this code.",),
    )
    code = fence(fn.source)
    ask = f"{ask}\n\n{code}" if g.chance(0.7) else f"{code}\n\n{ask}"
    answer = g.choice([f"The {kind} `{fn.name}` {task}.", f"It {task}."])
    steps = (f"The code defines {fn.name}.", f"It {task}.")
    return Turn(ask, Thought(f"The code {task}.", steps, "I read the code first."), answer)


def describe_real(g: Gen) -> Turn:
    """Real functions: the docstring's first sentence for the code, or the code for the sentence."""
    fn = g.function()
    while not fn.summary:
        fn = g.function()
    code = fence(fn.source)
    if g.chance(0.6):
        ask = g.choice(["Summarize this function in one sentence.", "Write a docstring for this function.",
                        "What does this function do?"])  # fmt: skip
        thought = Thought(
            f"It is about {fn.name}.", (f"The function is called {fn.name}.", "I say what it does.")
        )
        return Turn(f"{ask}\n\n{code}", thought, fn.summary)
    ask = g.choice(
        [f"Write the Python function {fn.name}. {fn.summary}", f"Implement {fn.name}: {fn.summary}"]
    )
    thought = Thought(
        f"I write {fn.name}.", (f"The user wants {fn.name}.", "I write it in Python.")
    )
    return Turn(ask, thought, code)
