"""The source of randomness of all families: words, names and wordings, seen or held back.

Words are split once, by a checksum of the word: one in eight is never used in training, and a
generator made with `unseen=True` uses only those. Wordings are split by hand: every request is
written as `say(seen, unseen)`, and training never draws from the second tuple.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from zlib import crc32

from attrs import frozen

from . import moods, wordings
from .pieces import pieces

HELD_OUT_SHARE = 8


def bare(wording: str) -> str:
    """A wording without case, punctuation and the names of its placeholders, for comparison."""
    return f" {' '.join(re.findall(r'[a-z0-9#]+', re.sub(r'{[^{}]*}', '#', wording.lower())))} "


def held_out(word: str) -> bool:
    """Whether a word belongs to the evaluation only."""
    return crc32(word.lower().encode()) % HELD_OUT_SHARE == 0


@frozen
class Function:
    """A real function of the corpus, without its docstring; `summary` is the docstring's start."""

    name: str
    source: str
    summary: str


@frozen
class Lexicon:
    """Word lists of one side of the split."""

    first: tuple[str, ...]
    last: tuple[str, ...]
    cities: tuple[str, ...]
    nouns: tuple[str, ...]
    adjectives: tuple[str, ...]
    verbs: tuple[str, ...]
    words: tuple[str, ...]
    functions: tuple[Function, ...]
    paragraphs: tuple[str, ...] = ()

    def side(self, unseen: bool) -> Lexicon:
        """Only the held-out words (and functions with held-out names), or only the others."""

        def keep(words: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(w for w in words if held_out(w) == unseen)

        functions = tuple(f for f in self.functions if held_out(f.name) == unseen)
        paragraphs = tuple(p for p in self.paragraphs if held_out(p) == unseen)
        lists = (self.first, self.last, self.cities, self.nouns, self.adjectives, self.verbs)
        return Lexicon(*map(keep, lists), keep(self.words), functions, paragraphs)


SYLLABLES = [
    "ba",
    "be",
    "bi",
    "bo",
    "bu",
    "ca",
    "co",
    "cu",
    "da",
    "de",
    "di",
    "do",
    "fa",
    "fe",
    "fi",
    "fo",
    "ga",
    "go",
    "ha",
    "he",
    "hi",
    "ho",
    "ja",
    "jo",
    "ka",
    "ke",
    "ki",
    "ko",
    "la",
    "le",
    "li",
    "lo",
    "lu",
    "ma",
    "me",
    "mi",
    "mo",
    "mu",
    "na",
    "ne",
    "ni",
    "no",
    "nu",
    "pa",
    "pe",
    "pi",
    "po",
    "ra",
    "re",
    "ri",
    "ro",
    "ru",
    "sa",
    "se",
    "si",
    "so",
    "su",
    "ta",
    "te",
    "ti",
    "to",
    "tu",
    "va",
    "ve",
    "vi",
    "vo",
    "wa",
    "we",
    "xa",
    "xe",
    "ya",
    "yo",
    "za",
    "ze",
    "zi",
    "zo",
    "bra",
    "cle",
    "dro",
    "fle",
    "gri",
    "kla",
    "mer",
    "nor",
    "pli",
    "qua",
    "ster",
    "tri",
    "ven",
    "wil",
]
COLORS = [
    "red",
    "blue",
    "green",
    "yellow",
    "orange",
    "purple",
    "black",
    "white",
    "gray",
    "brown",
    "pink",
    "silver",
    "gold",
    "teal",
]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
JOBS = [
    "engineer",
    "teacher",
    "nurse",
    "baker",
    "pilot",
    "farmer",
    "designer",
    "chef",
    "lawyer",
    "plumber",
    "writer",
    "analyst",
    "driver",
    "doctor",
    "artist",
    "carpenter",
    "gardener",
    "librarian",
    "mechanic",
    "painter",
]


class Gen(random.Random):
    """Seeded randomness with a lexicon. `unseen` selects the held-out wordings."""

    def __init__(self, seed: int, lexicon: Lexicon, unseen: bool = False) -> None:
        super().__init__(seed)
        self.lex = lexicon
        self.unseen = unseen

    def say(self, seen: Sequence[str], unseen: Sequence[str]) -> str:
        """A wording from the side this generator is on.

        Seen wordings are patterns (see `moods`); one that holds an unseen wording, whatever its
        case and punctuation, is drawn again. Unseen wordings are taken as they are.
        """
        if self.unseen:
            return self.choice(unseen)
        return self.fresh(lambda: self.spell(self.choice(seen)), unseen)

    def fresh(self, make: Callable[[], str], unseen: Sequence[str]) -> str:
        """What `make` gives, once it holds no unseen wording."""
        refused = [bare(wording) for wording in unseen]
        while True:
            made = make()
            plain = bare(made)
            if not any(r in plain for r in refused):
                return made

    def laid_out(
        self, asks: tuple[str, ...] | str, layouts: Sequence[str], unseen: Sequence[str],
        **slots: str,
    ) -> str:  # fmt: skip
        """A request in one of the layouts, with the slots (list, body, kind, ...) filled in.

        asks: patterns, or one request that is ready.
        """

        def make() -> str:
            text = self.spell(self.choice(layouts))
            if "{context}" in text:
                context = self.spell(self.choice(wordings.CONTEXTS)) if self.chance(0.7) else ""
                context = context.replace("{name}", self.first()) or self.sentence()
                text = text.replace("{context}", context)
            ask = self.spell(self.choice(asks)) if isinstance(asks, tuple) else asks
            if ask.endswith("?"):
                for mark in ".:;":
                    text = text.replace("{ask}" + mark, "{ask}")
            return text.replace("{ask}", ask)

        text = self.fresh(make, unseen)
        for key, value in slots.items():
            text = text.replace("{" + key + "}", value)
        return text

    def spell(self, pattern: str) -> str:
        """A sentence of a pattern."""
        if pattern.startswith("!"):
            made = moods.mood(self, moods.expand(self, pattern[1:]))
        else:
            made = moods.expand(self, pattern).lstrip()
        if not self.unseen and self.chance(0.1):
            made = self.disturbed(made)
        named = "_" in made.split(" ", 1)[0]
        return made if named or self.unseen or self.chance(0.15) else moods.capital(made)

    def disturbed(self, wording: str) -> str:
        """With a stray word between two words, or without the small words that carry little."""
        if self.chance(0.4):
            return re.sub(
                r"(?<=[a-z]) (the|a|an|this|that|is|be|my|it|should|must)(?= [a-z{])", "", wording
            )
        gaps = [m.start() for m in re.finditer(r"(?<=[a-z]) (?=[a-z])", wording)]
        if not gaps:
            return wording
        at = self.choice(gaps)
        return f"{wording[:at]} {self.word()}{wording[at:]}"

    def chance(self, share: float) -> bool:
        return self.random() < share

    def first(self) -> str:
        return self.choice(self.lex.first)

    def last(self) -> str:
        return self.choice(self.lex.last)

    def noun(self) -> str:
        return self.choice(self.lex.nouns)

    def adjective(self) -> str:
        return self.choice(self.lex.adjectives)

    def verb(self) -> str:
        return self.choice(self.lex.verbs)

    def word(self) -> str:
        """A common word of the corpus."""
        return self.choice(self.lex.words)

    def function(self) -> Function:
        return self.choice(self.lex.functions)

    def fake(self) -> str:
        """A made-up word, so that copying cannot be replaced by knowing the words."""
        return "".join(self.choice(SYLLABLES) for _ in range(self.randint(2, 4)))

    def letters(self) -> str:
        """A word of random letters, pronounceable or not."""
        pools = (
            ("bcdfghjklmnprstvwz", "aeiou") if self.chance(0.7) else ("abcdefghijklmnopqrstuvwxyz",)
        )
        return "".join(self.choice(pools[i % len(pools)]) for i in range(self.randint(3, 9)))

    def joined(self) -> str:
        """A made-up word of one to three pieces of the vocabulary, or of letters and a piece."""
        known = pieces()
        kind = self.random()
        if kind < 0.25:
            return self.choice(known) + self.letters()[:5]
        if kind < 0.45:
            return self.letters()[:5] + self.choice(known)
        return "".join(self.choice(known) for _ in range(2 if kind < 0.93 else 3))

    def rare(self) -> str:
        """A lower-case word that is in no list and was not held out."""
        kind = self.random()
        made = self.joined if kind < 0.6 else self.letters if kind < 0.75 else self.fake
        while held_out(word := made()):
            pass
        return word

    def any_word(self) -> str:
        """A lower-case word of any list, or a made-up one."""
        lex = self.lex
        pools = (lex.nouns, lex.nouns, lex.words, lex.words, lex.adjectives, lex.verbs)
        kind = self.random()
        if kind < 0.48:
            return self.choice(self.choice(pools))
        if kind < 0.58:
            return self.choice(self.choice((lex.first, lex.last, lex.cities))).lower()
        return self.rare()

    def city(self) -> str:
        if self.chance(0.85):
            return self.choice(self.lex.cities)
        return (self.fake() if self.unseen else self.rare()).capitalize()

    def name(self) -> str:
        return f"{self.first()} {self.last()}"

    def identifier(self) -> str:
        """A snake_case name of one or two words."""
        if not self.unseen and self.chance(0.4):
            made = self.rare()
            if self.chance(0.35):
                return made
            pair = (made, self.any_word())
            return "_".join(pair if self.chance(0.5) else reversed(pair))
        kind = self.random()
        if kind < 0.35:
            return self.noun()
        if kind < 0.55:
            return f"{self.word()}_{self.noun()}"
        if kind < 0.8:
            return f"{self.verb()}_{self.noun()}"
        return self.fake() if kind < 0.9 else f"{self.fake()}_{self.noun()}"

    def code(self) -> str:
        """An order number, a hash, a short id."""
        kind = self.randrange(4)
        if kind == 0:
            letters = "".join(
                self.choice("ABCDEFGHJKLMNPQRSTUVWXYZ") for _ in range(self.randint(2, 3))
            )
            return f"{letters}-{self.randint(100, 9999)}"
        if kind == 1:
            return "".join(self.choice("0123456789abcdef") for _ in range(self.choice([6, 8])))
        if kind == 2:
            return f"{self.fake()}{self.randint(1, 99)}"
        return str(self.randint(1000, 999999))

    def date(self) -> str:
        return f"{self.randint(2015, 2030)}-{self.randint(1, 12):02d}-{self.randint(1, 28):02d}"

    def clock(self) -> str:
        return f"{self.randint(0, 23):02d}:{self.choice(['00', '15', '30', '45', '05', '20'])}"

    def email(self) -> str:
        host = self.choice(["example.com", "example.org", "mail.test", f"{self.fake()}.io"])
        return f"{self.first().lower()}.{self.last().lower()}@{host}"

    def path(self) -> str:
        folder = self.choice(["src", "docs", "data", "lib", "tests", "config", self.noun()])
        suffix = self.choice(["py", "txt", "md", "json", "csv", "yaml", "toml", "log"])
        return f"{folder}/{self.identifier()}.{suffix}"

    def phrase(self, low: int = 2, high: int = 5) -> str:
        pools = (self.lex.nouns, self.lex.adjectives, self.lex.verbs, self.lex.words)
        odd, share = (self.fake, 0.08) if self.unseen else (self.rare, 0.22)
        return " ".join(
            odd() if self.chance(share) else self.choice(self.choice(pools))
            for _ in range(self.randint(low, high))
        )

    def sentence(self) -> str:
        """A grammatical English sentence without much meaning."""
        a, b, n, m = self.adjective(), self.adjective(), self.noun(), self.noun()
        p, k = self.first(), self.randint(2, 60)
        forms = (
            f"The {a} {n} stood near the {m} for most of the day.",
            f"{p} decided to {self.verb()} the {a} {n} before noon.",
            f"In {self.choice(MONTHS)}, the {n} in {self.city()} was {a} and {b}.",
            f"Every {self.choice(DAYS)}, {p} walks to the {n} with a {a} {m}.",
            f"The {n} needs a {a} {m} and at least {k} {plural(self.noun())}.",
            f"Nobody knew why the {n} was so {a}, but {p} had a theory.",
            f"A {a} {n} can {self.verb()} faster than a {b} {m}.",
            f"{p} and {self.first()} bought {k} {self.choice(COLORS)} {plural(n)} in {self.city()}.",
            f"After the {n} closed, {p} moved the {m} to {self.city()}.",
            f"If the {a} {n} breaks, ask {p} to {self.verb()} it.",
            f"{p} keeps {k} {plural(n)} behind the {b} {m}.",
            f"The report says that the {n} is {a}, while the {m} is {b}.",
            f"Please {self.verb()} the {n} and {self.verb()} the {m} by {self.choice(DAYS)}.",
            f"It took {p} {k} days to {self.verb()} a {a} {n}.",
        )
        return self.choice(forms)

    def text(self, low: int, high: int) -> str:
        return " ".join(self.sentence() for _ in range(self.randint(low, high)))


def plural(word: str) -> str:
    if word.endswith(("x", "s", "ch", "sh", "z")):
        return word + "es"
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def join_and(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
