"""The word lists, functions and paragraphs that fill the generated chats, in one file."""

from __future__ import annotations

import json
import lzma
import re
from collections import Counter
from pathlib import Path

from attrs import asdict

from . import corpus
from .synth.gen import Function, Lexicon

COMMON_WORDS = 12_000
UNWANTED = {"lesbian", "gay", "sex", "murder", "suicide", "slave", "rapist", "nazi", "terrorist"}
LOCALES_NAMES = ("en_US", "en_GB", "en_IN", "it_IT", "nl_NL", "fi_FI", "en_NG", "en_IE")
LOCALES_CITIES = ("de_DE", "it_IT", "nl_NL", "fi_FI", "da_DK", "en_IN", "pl_PL", "id_ID", "sk_SK")
MORE_CITIES = [
    "Paris",
    "London",
    "Berlin",
    "Madrid",
    "Rome",
    "Tokyo",
    "Kyoto",
    "Oslo",
    "Vienna",
    "Prague",
    "Lisbon",
    "Dublin",
    "Athens",
    "Cairo",
    "Lagos",
    "Nairobi",
    "Sydney",
    "Melbourne",
    "Toronto",
    "Vancouver",
    "Chicago",
    "Boston",
    "Seattle",
    "Denver",
    "Austin",
    "Dallas",
    "Miami",
    "Portland",
    "Lima",
    "Bogota",
    "Santiago",
    "Mumbai",
    "Delhi",
    "Seoul",
    "Beijing",
    "Shanghai",
    "Singapore",
    "Bangkok",
    "Hanoi",
    "Jakarta",
    "Istanbul",
    "Warsaw",
    "Budapest",
    "Zurich",
    "Geneva",
    "Munich",
    "Hamburg",
    "Lyon",
    "Milan",
    "Naples",
    "Porto",
    "Bergen",
    "Helsinki",
    "Stockholm",
    "Copenhagen",
    "Reykjavik",
]


def _plain(words: set[str], pattern: str = r"[A-Z][a-z]{2,11}") -> tuple[str, ...]:
    return tuple(sorted(w for w in words if re.fullmatch(pattern, w)))


def _names(method: str, locales: tuple[str, ...], draws: int) -> tuple[str, ...]:
    from faker import Faker  # only the machine that builds the lists needs it

    found: set[str] = set()
    for locale in locales:
        fake = Faker(locale)
        fake.seed_instance(1)
        found.update(getattr(fake, method)() for _ in range(draws))
    return _plain(found)


def build(docs: list[str], functions: int) -> Lexicon:
    """Word lists of wonderwords and faker (both MIT), and the common words of the corpus."""
    from wonderwords import RandomWord, is_profanity

    words = RandomWord()
    counts: Counter[str] = Counter()
    for doc in docs:
        counts.update(re.findall(r"\b[a-z]{3,11}\b", doc))

    def wanted(word: str) -> bool:
        return word not in UNWANTED and not is_profanity(word)

    def listed(kind: str) -> tuple[str, ...]:
        found = {w.lower() for w in words.parts_of_speech[kind]}
        return _plain({w for w in found if wanted(w) and counts[w] > 1}, r"[a-z]{3,11}")

    top = counts.most_common(COMMON_WORDS)
    common = tuple(sorted(w for w, _ in top if wanted(w)))
    cities = set(MORE_CITIES) | set(_names("city", LOCALES_CITIES, 4000))
    return Lexicon(
        first=_names("first_name", LOCALES_NAMES, 4000),
        last=_names("last_name", LOCALES_NAMES, 4000),
        cities=_plain(cities),
        nouns=listed("nouns"),
        adjectives=listed("adjectives"),
        verbs=listed("verbs"),
        words=common,
        functions=tuple(corpus.functions(docs, functions, 1)),
        paragraphs=tuple(corpus.paragraphs(docs, 20_000, 2)),
    )


def load(path: Path) -> Lexicon:
    """Read what `save` wrote."""
    data = json.loads(lzma.decompress(path.read_bytes()))
    functions = tuple(Function(**f) for f in data.pop("functions"))
    return Lexicon(**{k: tuple(v) for k, v in data.items()}, functions=functions)


def save(lexicon: Lexicon, path: Path) -> None:
    path.write_bytes(lzma.compress(json.dumps(asdict(lexicon)).encode()))
