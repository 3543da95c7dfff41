"""Plain data into typed options: what is accepted, and what is said about the rest."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import attrs
import pytest
from attrs import validators
from hypothesis import given
from hypothesis import strategies as st
from outrider import ByteSize, DrafterSpec, RequestError, SamplerSpec
from outrider.config import describe, option_fields, override, structure
from outrider.plugins import Registry, installed
from outrider.yamlfile import parse_yaml


@attrs.frozen
class Inner:
    """Nested options."""

    path: Path
    limit: ByteSize = attrs.field(default=ByteSize(0))


@attrs.frozen
class Options:
    """One option of every kind."""

    count: int = attrs.field(default=3, validator=validators.ge(0))
    share: float = 0.5
    name: str = "x"
    on: bool = False
    maybe: int | None = None
    mode: Literal["auto", "on", "off"] = "auto"
    shares: tuple[float, ...] = ()
    words: list[str] = attrs.field(factory=list)
    table: Mapping[str, int] = attrs.field(factory=dict)
    bias: dict[int, float] = attrs.field(factory=dict)
    inner: Inner | None = None
    inners: tuple[Inner, ...] = ()
    size: ByteSize = attrs.field(default=ByteSize(1))
    either: int | str = 0
    anything: Any = None


def read(text, cls=Options, registry=None):
    """(options or None, problems) of a YAML text."""
    document = parse_yaml(text, "o.yaml", Path("/base"))
    value = structure(cls, document.data, (), document, registry or Registry())
    return value, [str(p) for p in document.problems]


def good(text, cls=Options):
    value, problems = read(text, cls)
    assert problems == []
    return value


def bad(text, cls=Options):
    value, problems = read(text, cls)
    assert value is None
    return problems


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("count: 7", "count", 7),
        ("share: 1", "share", 1.0),
        ("share: 1e-2", "share", 0.01),
        ("name: '7'", "name", "7"),
        ("on: true", "on", True),
        ("maybe: null", "maybe", None),
        ("maybe: 4", "maybe", 4),
        ("mode: 'on'", "mode", "on"),
        ("mode: on", "mode", "on"),
        ("mode: off", "mode", "off"),
        ("shares: [1, 0.5]", "shares", (1.0, 0.5)),
        ("words: [a, b]", "words", ["a", "b"]),
        ("table: {a: 1}", "table", {"a": 1}),
        ("bias: {12: -1.5}", "bias", {12: -1.5}),
        ("inner: {path: /x, limit: 2GiB}", "inner", Inner(Path("/x"), ByteSize(2 << 30))),
        ("inners: [{path: /x}]", "inners", (Inner(Path("/x")),)),
        ("size: 512 MiB", "size", ByteSize(512 << 20)),
        ("either: a", "either", "a"),
        ("either: 3", "either", 3),
        ("anything: {a: [1]}", "anything", {"a": [1]}),
    ],
)
def test_values_become_what_the_option_says(text, field, value):
    found = getattr(good(text), field)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("count: '7'", "o.yaml:1: count: expected a whole number, got the text '7'"),
        ("count: 7.0", "o.yaml:1: count: expected a whole number, got 7.0"),
        ("count: true", "o.yaml:1: count: expected a whole number, got true"),
        ("count: null", "o.yaml:1: count: expected a whole number, got nothing"),
        ("count: [1]", "o.yaml:1: count: expected a whole number, got a list"),
        ("share: x", "o.yaml:1: share: expected a number, got the text 'x'"),
        ("share: true", "o.yaml:1: share: expected a number, got true"),
        ("name: 7", "o.yaml:1: name: expected a text, got 7"),
        ("on: 1", "o.yaml:1: on: expected true or false, got 1"),
        ("on: 'yes'", "o.yaml:1: on: expected true or false, got the text 'yes'"),
        ("maybe: x", "o.yaml:1: maybe: expected a whole number or null, got the text 'x'"),
        (
            "mode: maybe",
            "o.yaml:1: mode: expected one of 'auto', 'on', 'off', got the text 'maybe'",
        ),
        ("shares: 1", "o.yaml:1: shares: expected a list of numbers, got 1"),
        ("shares: [x]", "o.yaml:1: shares[0]: expected a number, got the text 'x'"),
        ("words:\n- a\n- 3", "o.yaml:3: words[1]: expected a text, got 3"),
        ("table: {a: x}", "o.yaml:1: table.a: expected a whole number, got the text 'x'"),
        (
            "table: [1]",
            "o.yaml:1: table: expected a mapping from texts to whole numbers, got a list",
        ),
        ("bias: {x: 1}", "o.yaml:1: bias.x: the key must be a whole number"),
        ("inner: 3", "o.yaml:1: inner: expected a mapping of options, got 3"),
        ("inner: {}", "o.yaml:1: inner: the option 'path' is missing: a path"),
        ("inner:\n  path: 3", "o.yaml:2: inner.path: expected a path, got 3"),
        ("inners: [{path: /x}, {pth: /y}]", "inners[1].pth: unknown option; did you mean 'path'?"),
        ("size: 3 elephants", "size: expected a size such as 2GiB, got the text '3 elephants'"),
        ("size: -1", "size: expected a size such as 2GiB, got -1"),
        ("either: [1]", "either: expected a whole number or a text, got a list"),
        ("cuont: 3", "o.yaml:1: cuont: unknown option; did you mean 'count'?"),
        ("zzzz: 3", "o.yaml:1: zzzz: unknown option; there are: anything, bias, count, "),
    ],
)
def test_a_wrong_value_says_where_what_was_expected_and_what_was_given(text, message):
    problems = bad(text)
    assert any(message in p for p in problems), problems


def test_all_problems_are_found_at_once():
    assert len(bad("count: x\nshare: y\nnome: z\ninner: {limit: q}\nwords: [1, 2]\n")) == 7


def test_a_validator_speaks_with_place_and_reason():
    [problem] = bad("name: a\ncount: -1\n")
    assert problem.startswith("o.yaml:2: count: expected at least 0, got -1")


@attrs.frozen
class Validated:
    """What validators say, in words."""

    low: int = attrs.field(default=1, validator=validators.ge(1))
    high: float = attrs.field(default=1, validator=validators.le(2))
    above: float = attrs.field(default=1, validator=validators.gt(0))
    below: float = attrs.field(default=0, validator=validators.lt(1))
    both: float = attrs.field(default=0.5, validator=[validators.ge(0), validators.le(1)])
    some: tuple[int, ...] = attrs.field(default=(1,), validator=validators.min_len(1))
    own: int = attrs.field(default=1)

    @own.validator
    def _odd(self, _, value):
        if value % 2 == 0:
            raise ValueError(f"own must be odd, got {value}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("low: 0", "o.yaml:1: low: expected at least 1, got 0"),
        ("high: 3", "o.yaml:1: high: expected at most 2, got 3"),
        ("above: 0", "o.yaml:1: above: expected more than 0, got 0"),
        ("below: 1", "o.yaml:1: below: expected less than 1, got 1"),
        ("both: -1", "o.yaml:1: both: expected at least 0, got -1"),
        ("both: 2", "o.yaml:1: both: expected at most 1, got 2"),
        ("some: []", "o.yaml:1: some: expected at least 1"),
        ("own: 4", "own must be odd, got 4"),
    ],
)
def test_validators_speak_plainly(text, message):
    [problem] = bad(text, Validated)
    assert message in problem


def test_an_empty_mapping_or_nothing_means_the_defaults():
    assert good("{}") == good("") == Options()


# --- nested components ---


@attrs.frozen
class Nesting:
    """Options that hold components."""

    drafter: DrafterSpec | None = None
    of: tuple[DrafterSpec, ...] = ()
    sampler: SamplerSpec | None = None


def test_nested_components_are_checked_like_top_level_ones():
    text = """
of:
  - suffix
  - {use: suffix, min_match: 2}
  - use: sufix
  - {use: suffix, min_mach: 2}
  - {min_match: 2}
  - 7
  - {use: cascade, of: [{use: mtp, max_draft: x}]}
"""
    value, problems = read(text, Nesting, installed())
    assert value is None
    assert problems == [
        "o.yaml:5: of[2].use: there is no drafter named 'sufix'; did you mean 'suffix'?",
        "o.yaml:6: of[3].min_mach: unknown option; did you mean 'min_match'?",
        problems[2],
        "o.yaml:8: of[5]: expected {use: NAME, …} or a name, got 7",
        "o.yaml:9: of[6].of[0].max_draft: expected a whole number, got the text 'x'",
    ]
    assert problems[2].startswith("o.yaml:7: of[4]: `use` is missing: which drafter? there are: ")


def test_nested_components_know_their_place():
    value, problems = read("of: [suffix]\nsampler: greedy\n", Nesting, installed())
    assert problems == []
    assert (value.of[0].use, value.of[0].path) == ("suffix", "of[0]")
    assert type(value.of[0]) is DrafterSpec
    assert (value.sampler.use, type(value.sampler)) == ("greedy", SamplerSpec)


# --- overrides of a request ---


def test_overrides_replace_single_options():
    changed = override(Options(), {"count": 9, "maybe": 1}, where="option")
    assert changed == attrs.evolve(Options(), count=9, maybe=1)
    assert override(Options(), {}, where="option") == Options()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"cuont": 1}, "sampling option: unknown option 'cuont'; did you mean 'count'?"),
        ({"count": "x"}, "sampling option: count: expected a whole number, got the text 'x'"),
        ({"count": -1}, "sampling option: count: expected at least 0, got -1"),
        ({"share": float("nan")}, "sampling option: share: expected a number, got nan"),
    ],
)
def test_a_bad_override_is_the_requests_fault(values, message):
    with pytest.raises(RequestError) as caught:
        override(Options(), values, where="sampling option")
    assert message in str(caught.value)


def test_not_a_number_is_no_number():
    assert bad("share: .nan") == ["o.yaml:1: share: expected a number, got nan"]
    assert good("share: -.inf").share == float("-inf")


# --- sizes ---


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (0, 0),
        (17, 17),
        ("17", 17),
        ("2GiB", 2 << 30),
        ("2 GiB", 2 << 30),
        ("1.5GB", 1_500_000_000),
        ("512k", 512_000),
        ("512 KiB", 512 << 10),
        ("3B", 3),
        ("1TiB", 1 << 40),
    ],
)
def test_sizes(text, size):
    assert ByteSize.parse(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1", "1.2.3", "2 gigs", "1e9", None, True, 1.5, -3])
def test_what_is_no_size(text):
    with pytest.raises(ValueError, match="not a size"):
        ByteSize.parse(text)


@given(st.integers(0, 2**62))
def test_a_number_of_bytes_is_itself(n):
    assert ByteSize.parse(n) == ByteSize.parse(str(n)) == n


# --- descriptions ---


@pytest.mark.parametrize("name", option_fields(Options))
def test_every_kind_of_option_is_described_in_words(name):
    text = describe(option_fields(Options)[name].type)
    assert "typing" not in text
    assert "<class" not in text
    assert "." not in text
