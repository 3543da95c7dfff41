"""The JSON Schema of pipeline files says what the checks say."""

from pathlib import Path

import jsonschema
import pytest
import yaml
from outrider.plugins import KINDS, installed
from outrider.schema import pipeline_schema
from outrider.settings import read_config, registry_for
from outrider.testing import registry_offering
from outrider.yamlfile import parse_yaml

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples" / "pipelines").glob("*.yaml"))


@pytest.fixture(scope="module")
def validator():
    schema = pipeline_schema(installed(), KINDS)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def checked(text):
    document = parse_yaml(text, "p.yaml", ROOT)
    read_config(document, registry_for(document))
    return not document.problems


def test_there_are_examples():
    assert {p.stem for p in EXAMPLES} >= {"plain", "suffix", "mtp", "cascade"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_every_example_validates(validator, path):
    validator.validate(yaml.safe_load(path.read_text()))


GOOD = [
    "{}",
    "model: x",
    "drafter: suffix",
    "drafter: {use: suffix}",
    "drafter: {use: suffix, min_match: 2}",
    "drafter: {use: cascade, of: [suffix, {use: mtp, max_draft: 2}]}",
    "drafter: {use: cascade, of: [{use: cascade, of: [mtp]}]}",
    "engine: {context: 128}",
    "engine: {use: llama-cpp, threads: null}",
    "engine: {tensor_split: [0.5, 0.5], devices: []}",
    "rollback: auto",
    "rollback: null",
    "sampler: {use: rejection, temperature: 0.7}",
    "observers: [{use: trace, path: x.jsonl}]",
    "plugins: [a.py]",
]
BROKEN = [
    "modle: x",
    "model: 3",
    "max_sequences: 0",
    "max_sequences: x",
    "drafter: sufix",
    "drafter: {use: sufix}",
    "drafter: {min_match: 2}",
    "drafter: {use: suffix, min_mach: 2}",
    "drafter: {use: suffix, min_match: two}",
    "drafter: {use: suffix, min_match: 0}",
    "drafter: {use: suffix, min_share: 1.5}",
    "drafter: cascade",
    "drafter: {use: cascade}",
    "drafter: {use: cascade, of: []}",
    "drafter: {use: cascade, of: [sufix]}",
    "drafter: auto",
    "engine: {threads: 1.5}",
    "engine: {flash_attention: maybe}",
    "engine: {no_such: 1}",
    "draft_length: {use: fixed, k: -1}",
    "observers: [trace]",
    "observers: trace",
    "plugins: a.py",
]


@pytest.mark.parametrize("text", GOOD)
def test_what_passes_the_checks_validates(validator, text):
    assert "plugins" in text or checked(text)
    validator.validate(yaml.safe_load(text))


@pytest.mark.parametrize("text", BROKEN)
def test_what_fails_the_checks_does_not_validate(validator, text):
    assert not checked(text)
    assert not validator.is_valid(yaml.safe_load(text)), text


def test_options_are_described_and_have_defaults(validator):
    schema = validator.schema
    suffix = next(
        option
        for option in schema["$defs"]["drafter"]["anyOf"]
        if option.get("properties", {}).get("use") == {"const": "suffix"}
    )
    assert suffix["description"]
    assert suffix["properties"]["min_match"]["default"] == 4
    assert suffix["properties"]["min_match"]["minimum"] == 1
    assert "Shortest context" in suffix["properties"]["min_match"]["description"]


def test_plugins_add_their_options():
    import attrs
    from outrider import Draft, Drafter

    @attrs.frozen
    class Config:
        strength: int

    class Mine(Drafter):
        """Mine."""

        def propose_one(self, sequence, limit):
            return Draft()

    Mine.Config = Config
    schema = pipeline_schema(registry_offering({"drafter": {"mine": Mine}}), KINDS)
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid({"drafter": {"use": "mine", "strength": 3}})
    assert not validator.is_valid({"drafter": "mine"})
    assert not validator.is_valid({"drafter": {"use": "mine"}})
