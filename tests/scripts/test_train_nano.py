"""The chat generator of scripts/train_nano: right sums, and wordings that stay held back."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts" / "train_nano"))

from nano.server import verification_steps
from nano.synth import arith, columns, data, edits, moods, problems, stories, text, tools
from nano.synth.gen import Function, Gen, Lexicon, bare, held_out

WORDS = ("apple", "river", "stone", "candle", "window", "garden", "silver", "bridge", "market",
         "basket", "ladder", "ticket")  # fmt: skip
LEXICON = Lexicon(
    first=("Ada", "Ben", "Cleo"), last=("Stone", "Reed"), cities=("Oslo", "Lima"), nouns=WORDS,
    adjectives=("old", "new"), verbs=("move", "mix"), words=WORDS,
    functions=(Function("f", "def f(x):\n    y = x\n    return y\n", "Copy."),),
)  # fmt: skip
SUM = re.compile(r"(\d+)([+×])(\d+)(?:\+(\d+))?=(\d+)")


@given(st.integers(0, 9999), st.integers(0, 9999))
def test_every_column_of_a_sum_is_right_and_so_is_its_end(a: int, b: int) -> None:
    brief, steps = columns.add(a, b)
    assert brief.endswith(str(a + b))
    assert steps[-1].endswith(f"= {a + b}")
    for x, _, y, carry, total in SUM.findall(brief):
        assert int(x) + int(y) + int(carry or 0) == int(total)


@given(st.integers(2, 99), st.integers(2, 40))
def test_products_end_with_the_product(a: int, b: int) -> None:
    brief, steps = columns.mul(a, b)
    assert re.findall(r"\d+", brief)[-1] == str(a * b)
    assert steps[-1].endswith(str(a * b))


@given(st.integers(1, 99), st.integers(2, 12))
def test_long_division_ends_with_the_quotient(q: int, b: int) -> None:
    brief, steps = columns.div(q * b, b)
    assert re.findall(r"\d+", brief)[-1] == str(q)
    assert steps[-1].endswith(f"= {q}")


@pytest.mark.parametrize("seed", range(3))
def test_a_held_back_wording_is_never_drawn_for_training(seed: int) -> None:
    gen = Gen(seed, LEXICON)
    patterns = ("[Order|Sort] {}", "[Sort|Order] {}")
    assert {gen.say(patterns, ("Order {}",)) for _ in range(200)} == {"Sort {}"}


def test_an_evaluation_draws_only_held_back_wordings() -> None:
    gen = Gen(1, LEXICON, unseen=True)
    assert {gen.say(("Sort {}",), ("Order {}",)) for _ in range(20)} == {"Order {}"}


def test_the_sides_of_the_split_share_no_word() -> None:
    seen, unseen = LEXICON.side(unseen=False), LEXICON.side(unseen=True)
    assert set(seen.nouns) | set(unseen.nouns) == set(WORDS)
    assert not any(map(held_out, seen.nouns))
    assert all(map(held_out, unseen.nouns))


def test_a_held_back_wording_is_refused_whatever_surrounds_it() -> None:
    gen = Gen(1, LEXICON)
    layouts = ("{ask}: {list}", "{context} {ask}, please: {list}")
    unseen = ("Turn {} around.",)
    made = {
        gen.laid_out(("!turn {list} around", "!flip <these>"), layouts, unseen, list="a, b")
        for _ in range(300)
    }
    assert not any("turn a, b around" in m.lower() for m in made)
    assert len(made) > 200


@pytest.mark.parametrize(
    ("verb", "expected"),
    [("sort", "sorting"), ("write", "writing"), ("put", "putting"), ("tie", "tying"),
     ("get", "getting"), ("show", "showing"), ("see", "seeing")],
)  # fmt: skip
def test_gerunds(verb: str, expected: str) -> None:
    assert moods.gerund(verb) == expected


def test_every_mood_keeps_what_the_instruction_speaks_of() -> None:
    gen = Gen(2, LEXICON)
    for _ in range(400):
        said = moods.mood(gen, "rename {0} to {1}")
        assert said.count("{0} to {1}") == 1
        assert "<" not in said
        assert "[" not in said


def test_case_and_punctuation_do_not_make_a_wording_new() -> None:
    assert bare("Order {0}, from A to Z!") == bare("order {} from a to z")


def test_a_name_of_the_code_keeps_its_case_in_the_request() -> None:
    for seed in range(600):
        turn = edits.edit(Gen(seed, LEXICON))
        request = re.sub(r"```.*?```", "", turn.user or "", flags=re.S)
        for name in re.findall(r"renamed `\w+` to `(\w+)`", turn.answer):
            assert name in request


@pytest.mark.parametrize(
    "make",
    [arith.direct, stories.story_problem, text.list_task, problems.word_problem, edits.edit,
     data.reformat, data.lookup],
)  # fmt: skip
def test_a_family_never_fails_and_repeats_itself_for_a_seed(make: object) -> None:
    assert callable(make)
    turns = [[make(Gen(seed, LEXICON)) for seed in range(400)] for _ in range(2)]
    assert turns[0] == turns[1]
    assert all(t.answer and t.thought.at("low") for t in turns[0])


def test_a_story_answers_with_what_its_own_columns_give() -> None:
    for seed in range(400):
        turn = stories.story_problem(Gen(seed, LEXICON))
        worked = re.findall(r"\d+", turn.thought.at("medium"))[-1]
        assert re.findall(r"\d+", turn.answer)[-1] == worked


def test_a_request_holds_every_argument_of_its_call() -> None:
    for seed in range(400):
        spec, args, ask = tools.request(Gen(seed, LEXICON))
        assert list(args) == [a.name for a in spec.args]
        assert all(tools.shown(v) in ask for v in args.values())


def test_a_rare_word_is_made_of_letters_and_is_never_held_out() -> None:
    gen = Gen(3, LEXICON)
    made = {gen.rare() for _ in range(2000)}
    assert len(made) > 1900
    assert all(re.fullmatch("[a-z]+", word) and not held_out(word) for word in made)


def test_an_evaluation_draws_no_joined_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gen, "rare", lambda _: pytest.fail("a training word in an evaluation"))
    for seed in range(200):
        gen = Gen(seed, LEXICON, unseen=True)
        for make in (edits.edit, text.list_task, data.reformat, tools.request):
            make(gen)


def test_spelling_gives_the_letters_of_the_word_in_the_request() -> None:
    for seed in range(300):
        turn = text.spelling(Gen(seed, LEXICON))
        word = turn.thought.brief.removeprefix("Its letters are ").rstrip(".").replace(" ", "")
        assert word in (turn.user or "")
        letters = re.sub("[^a-z]", "", turn.answer.lower().removeprefix("max_"))
        assert letters.removesuffix("error") == word.lower().removesuffix("error")


def test_a_told_function_speaks_of_itself_below_its_header() -> None:
    plain = Function("add", "def add(left):\n    total = left\n    return total\n", "")
    for seed in range(100):
        told = edits._told(Gen(seed, LEXICON), plain)
        lines = told.source.rstrip().split("\n")
        assert lines[:1] + lines[2:] == plain.source.rstrip().split("\n")
        assert lines[1].startswith("    ")


def test_stray_words_stand_only_behind_values_that_a_space_ends() -> None:
    gen = Gen(4, LEXICON)
    paths = {tools._ended(gen, "List {d} now", {"d": "docs/river"}) for _ in range(2000)}
    assert {"List {d} now", "List {d} move now", "List {d} apple now"} < paths
    assert all(re.fullmatch(r"List \{d\}( [a-z]+)? now", wording) for wording in paths)
    for value in ("river stone", "river", "a/b c", '"a/b"'):
        assert {tools._ended(gen, "List {d}", {"d": value}) for _ in range(100)} == {"List {d}"}


@pytest.mark.parametrize("seed", range(4))
def test_words_that_begin_alike_are_no_held_back_ones(seed: int) -> None:
    gen = Gen(seed, LEXICON)
    words = {text._akin(gen, "window") for _ in range(200)}
    assert all(word.startswith("w") for word in words)
    assert len(words) > 50
    assert not any(held_out(word) for word in words - set(WORDS))


def test_long_lists_are_drawn_too() -> None:
    gen = Gen(2, LEXICON)
    assert {len(text._words(gen, 4)) for _ in range(300)} == {4, *range(9, 17)}


@pytest.mark.parametrize(
    ("stop", "kept", "steps"),
    [("limit", [3, 0, 2], 3), ("limit", [], 1), ("eos", [3, 0], 3)],
)
def test_a_token_that_no_step_verified_counts_for_no_step(
    stop: str, kept: list[int], steps: int
) -> None:
    """The prefill gives a token, every step one beside its drafts; one ends with an end among them.

    The third answer: a step that keeps three drafts, one that keeps none, and one whose two drafts,
    the second of them the end, come without another token. No answer has none: it is a divisor.
    """
    tokens = 1 + sum(n + 1 for n in kept) + (2 if stop == "eos" else 0)
    accepted = sum(kept) + (2 if stop == "eos" else 0)
    timings = {"predicted_n": tokens, "draft_n_accepted": accepted}
    answer = {"stop_type": stop, "timings": timings}
    assert verification_steps(answer) == steps
