"""Long inputs: needles in long notes, and conversations that come back to earlier turns."""

from __future__ import annotations

from .data import pairs
from .edits import fence
from .gen import Gen
from .text import statements
from .types import Thought, Turn


def needle(g: Gen) -> Turn:
    """One fact in a long text of sentences, functions or entries."""
    kind = g.randrange(3)
    if kind == 0:
        found = statements(g, g.randint(4, 8))
        lines = [f[0] for f in found] + [g.sentence() for _ in range(g.randint(20, 120))]
        g.shuffle(lines)
        body = "\n".join(lines) if g.chance(0.3) else " ".join(lines)
        said, ask, answer = g.choice(found)
        thought = Thought(
            f"The text says: {said}", ("I look for the sentence.", f"The text says: {said}")
        )
        return Turn(f"{body}\n\n{ask}", thought, answer or said)
    if kind == 1:
        table = pairs(g, g.randint(60, 160))
        key = g.choice(list(table))
        body = "\n".join(f"{k}: {v}" for k, v in table.items())
        thought = Thought(f"{key} is {table[key]}.", (f"The entry of {key} says {table[key]}.",))
        return Turn(f"{body}\n\nWhat is the value of {key}?", thought, table[key])
    functions = list({f.name: f for f in (g.function() for _ in range(g.randint(6, 16)))}.values())
    target = g.choice(functions)
    body = fence("\n\n\n".join(f.source.rstrip() for f in functions))
    ask = g.choice(
        [
            "Show me only the function {}.",
            "Copy the function {} out of this file.",
            "What does {} look like?",
        ]
    )
    thought = Thought(f"I copy {target.name}.", (f"I look for {target.name}.", "I copy it."))
    return Turn(f"{body}\n\n{ask.format(target.name)}", thought, fence(target.source))


def recall(g: Gen) -> list[Turn]:
    """Several turns that hand over notes one by one; later ones ask for earlier ones."""
    turns: list[Turn] = []
    known: list[tuple[str, str, str]] = []
    for _ in range(g.randint(6, 20)):
        if known and g.chance(0.45):
            said, ask, answer = g.choice(known)
            thought = Thought(f"Earlier: {said}", (f"The user told me: {said}",), "I look back.")
            turns.append(Turn(ask, thought, answer or said))
        else:
            said, ask, answer = statements(g, 1)[0]
            known.append((said, ask, answer))
            note = g.choice(["Remember this: {}", "Note: {}", "{}", "Keep in mind: {}"]).format(
                said
            )
            thought = Thought(
                "I take a note.", (f"The user tells me: {said}", "I will remember it.")
            )
            turns.append(
                Turn(note, thought, g.choice(["Noted.", "Got it.", "I will remember that."]))
            )
    return turns
