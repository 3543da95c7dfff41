"""YAML with places: where every value stands, and what `--set` may change."""

import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from outrider import ConfigError
from outrider.yamlfile import dotted, home_expanded, parse_yaml, read_yaml


def parse(text):
    from pathlib import Path

    return parse_yaml(text, "p.yaml", Path("/base"))


NESTED = """\
model: tiny
max_sequences: 2
drafter:
  use: cascade
  of:
    - {use: suffix, min_match: 4}
    - use: mtp
      max_draft: 3
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("model",), 1),
        (("drafter",), 3),
        (("drafter", "use"), 4),
        (("drafter", "of"), 5),
        (("drafter", "of", 0), 6),
        (("drafter", "of", 0, "min_match"), 6),
        (("drafter", "of", 1), 7),
        (("drafter", "of", 1, "max_draft"), 8),
        (("drafter", "of", 1, "not there"), 7),
        (("drafter", "of", 9, "x"), 5),
        (("not there",), 1),
    ],
)
def test_every_value_knows_its_line_or_that_of_what_is_around_it(path, line):
    assert parse(NESTED).place(path) == f"p.yaml:{line}"


def is_a_number_in_yaml_1_2(text):
    return re.fullmatch(r"[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+", text) is not None


# PyYAML writes the text 0E0 without quotes, as it is no number in YAML 1.1
texts = st.text().filter(lambda text: not is_a_number_in_yaml_1_2(text))
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(texts, plain, max_size=5))
def test_data_are_what_yaml_says(data):
    text = yaml.safe_dump(data)
    document = parse(text)
    assert document.data == yaml.safe_load(text) == data
    assert document.problems == []


@pytest.mark.parametrize("number", ["0E0", "1e-3", "+2.e1", ".5E+2", "1e5"])
def test_an_exponent_makes_a_number_and_quotes_make_a_text(number):
    assert parse(f"x: {number}\ny: '{number}'\n").data == {"x": float(number), "y": number}


def test_an_empty_file_has_no_keys():
    assert parse("").data == {}
    assert parse("# only a comment\n").data == {}


def test_a_key_given_twice_is_a_problem_with_both_lines():
    document = parse("model: a\ndrafter:\n  use: x\n  use: y\nmodel: b\n")
    assert [str(p) for p in document.problems] == [
        "p.yaml:4: drafter.use: given twice (first on p.yaml:3)",
        "p.yaml:5: model: given twice (first on p.yaml:1)",
    ]
    assert document.data == {"model": "a", "drafter": {"use": "x"}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1, 2", r"p\.yaml:1: not valid YAML: "),
        ("a: 1\n  b: 2\n", r"p\.yaml:2: not valid YAML: "),
        ("a: 1\n\tb: 2\n", r"p\.yaml:2: not valid YAML: "),
        ("- a\n- b\n", r"p\.yaml: expected a mapping of keys"),
        ("just text", r"p\.yaml: expected a mapping of keys"),
        ("a: *nowhere\n", r"p\.yaml:1: not valid YAML: .*nowhere"),
        ("a: !!python/object:os.system x\n", r"p\.yaml:1: not valid YAML: "),
        ("a: 1\n---\nb: 2\n", r"p\.yaml:2: not valid YAML: "),
        ("? [a, b]\n: 1\n", r"p\.yaml:1: a key must be a text"),
        ("a: \x00\n", r"p\.yaml.*not valid YAML: "),
    ],
)
def test_what_is_not_yaml_is_one_error_with_file_and_line(text, message):
    with pytest.raises(ConfigError, match=message):
        parse(text)


def test_anchors_aliases_and_merges_mean_what_yaml_says():
    text = "base: &b {k: 1, m: 2}\nother: {<<: *b, m: 3}\nsame: *b\n"
    document = parse(text)
    assert document.data == yaml.safe_load(text)


def test_an_alias_that_contains_itself_is_an_error_not_a_crash():
    with pytest.raises(ConfigError, match="contains itself"):
        parse("a: &x [1, *x]\n")


@pytest.mark.parametrize("key", ["1", "1.5", "true", "null", "2020-01-01", "on"])
def test_a_key_that_is_no_text_is_read_as_it_is_written(key):
    assert parse(f"{key}: x\n").data == {key: "x"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("-2E5", -2e5),
        ("1.5e3", 1500.0),
        ("1e", "1e"),
        ("2020-01-01", "2020-01-01"),
        ("2020-99-99", "2020-99-99"),
    ],
)
def test_numbers_with_an_exponent_are_numbers_and_dates_are_texts(text, value):
    assert parse(f"x: {text}\n").data == {"x": value}


# --- reading files ---


def test_a_missing_file_a_folder_and_bytes_that_are_no_text(tmp_path):
    with pytest.raises(ConfigError, match=r"pipeline file not found: .*nowhere\.yaml"):
        read_yaml(tmp_path / "nowhere.yaml")
    with pytest.raises(ConfigError, match="is a folder; expected a YAML file"):
        read_yaml(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"model: caf\xe9\n")
    with pytest.raises(ConfigError, match=r"latin\.yaml is not UTF-8 text \(byte 10\)"):
        read_yaml(tmp_path / "latin.yaml")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_yaml(tmp_path / "latin.yaml" / "below")


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path):
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbfmodel: tiny\n")
    assert read_yaml(tmp_path / "bom.yaml").data == {"model": "tiny"}


# --- key=value ---


@pytest.mark.parametrize(
    ("assignment", "path", "value"),
    [
        ("model=other", ("model",), "other"),
        ("max_sequences=4", ("max_sequences",), 4),
        ("engine.threads=1", ("engine", "threads"), 1),
        ("drafter.of[0].min_match=7", ("drafter", "of", 0, "min_match"), 7),
        ("drafter.of[1]={use: suffix}", ("drafter", "of", 1), {"use": "suffix"}),
        ("sampler.stop=[a, b]", ("sampler", "stop"), ["a", "b"]),
        ("model=", ("model",), None),
        ("model='1'", ("model",), "1"),
        ("a=b=c", ("a",), "b=c"),
        (" model = x ", ("model",), "x"),
        ("sampler.temperature=1e-1", ("sampler", "temperature"), 0.1),
    ],
)
def test_set_changes_one_value(assignment, path, value):
    document = parse(NESTED)
    document.set(assignment)
    found = document.data
    for step in path:
        found = found[step]
    assert found == value
    assert document.place(path) == f"--set {assignment}"


def test_naming_another_component_drops_the_options_of_the_old_one():
    document = parse(NESTED)
    document.set("drafter.use=none")
    assert document.data["drafter"] == {"use": "none"}


def test_a_top_level_use_is_just_an_unknown_key():
    document = parse(NESTED)
    document.set("use=none")
    assert document.data["model"] == "tiny"


def test_naming_the_same_component_keeps_its_options():
    document = parse(NESTED)
    document.set("drafter.use=cascade")
    assert len(document.data["drafter"]["of"]) == 2


def test_options_can_follow_the_name():
    document = parse(NESTED)
    for assignment in ("drafter.use=suffix", "drafter.min_match=2"):
        document.set(assignment)
    assert document.data["drafter"] == {"use": "suffix", "min_match": 2}


def test_an_option_of_a_component_given_as_a_bare_name():
    document = parse("drafter: suffix\n")
    document.set("drafter.min_match=2")
    assert document.data["drafter"] == {"use": "suffix", "min_match": 2}


def test_another_name_for_a_component_given_as_a_bare_name():
    document = parse("drafter: suffix\n")
    document.set("drafter.use=none")
    assert document.data["drafter"] == {"use": "none"}


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("drafter", "expected key=value, for example drafter.use=none"),
        ("=3", "expected key=value"),
        ("a..b=1", "'a..b' is not a key such as"),
        ("a[x]=1", "is not a key such as"),
        ("[0]=1", "is not a key such as"),
        ("drafter.of[5]={use: x}", r"drafter.of\[5\] does not exist"),
        ("drafter.of[5].min_match=1", r"drafter.of\[5\] does not exist"),
        ("drafter.of.use=x", "drafter.of is a list"),
        ("drafter[0]=x", "drafter is not a list"),
        ("max_sequences.x=1", "max_sequences is not something with keys"),
        ("model=[1", "the value is not YAML"),
    ],
)
def test_a_bad_assignment_is_one_sentence_that_repeats_it(assignment, message):
    with pytest.raises(ConfigError, match=message) as caught:
        parse(NESTED).set(assignment)
    assert str(caught.value).startswith(f"--set {assignment}: ")
    assert "\n" not in str(caught.value)


def test_paths_are_written_as_they_are_given():
    assert dotted(("drafter", "of", 1, "min_match")) == "drafter.of[1].min_match"


@pytest.mark.parametrize(
    "scalar", ["!!int abc", "0x_", "!!float abc", "!!bool maybe", "!!timestamp 2020-13-45"]
)
def test_a_scalar_that_is_not_what_its_tag_says_names_its_place(scalar):
    with pytest.raises(ConfigError, match=r"p\.yaml:2.*drafter\.k.* is no "):
        parse(f"drafter:\n  k: {scalar}\n")
    document = parse("drafter: {use: none}")
    with pytest.raises(ConfigError, match="the value is not YAML"):
        document.set(f"drafter.k={scalar}")


def test_a_text_that_is_nested_without_end_is_refused():
    with pytest.raises(ConfigError, match="nested too deeply"):
        parse("a: " + "[" * 3000 + "]" * 3000)


def test_a_home_that_nobody_has_is_named():
    with pytest.raises(ConfigError, match=r"~nosuchuser/x: there is no such user"):
        home_expanded("~nosuchuser/x")
