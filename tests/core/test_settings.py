"""The pipeline file: keys, defaults, and every problem at once."""

import pytest
from outrider import ConfigError, Pipeline
from outrider.settings import read_config, read_document, registry_for
from outrider.yamlfile import parse_yaml


def problems(text, tmp_path):
    document = parse_yaml(text, "p.yaml", tmp_path)
    config = read_config(document, registry_for(document))
    assert (config is None) == bool(document.problems)
    return [str(p) for p in document.problems]


def config(text, tmp_path):
    document = parse_yaml(text, "p.yaml", tmp_path)
    found = read_config(document, registry_for(document))
    assert document.problems == []
    return found


def test_an_empty_file_is_plain_decoding_of_the_embedded_model(tmp_path):
    found = config("", tmp_path)
    assert found.model == "outrider-nano"
    assert found.max_sequences == 1
    used = {key: spec and spec.use for key, spec in found.components.items()}
    assert used == {
        "engine": "llama-cpp",
        "drafter": "none",
        "draft_length": "fixed",
        "verifier": "chain",
        "sampler": "greedy",
        "rollback": None,
        "cache": "none",
        "template": None,
    }


def test_without_a_file_the_default_pipeline_runs():
    document = read_document(None)
    found = read_config(document, registry_for(document))
    assert document.problems == []
    assert found.components["drafter"].use == "cascade"


@pytest.mark.parametrize("text", ["rollback: auto", "rollback: {use: auto}", "rollback:", "{}"])
def test_what_depends_on_the_model_may_be_automatic(tmp_path, text):
    assert config(text, tmp_path).components["rollback"] is None


def test_options_without_a_name_go_to_the_default_component(tmp_path):
    found = config("engine: {context: 64}\ndraft_length: {k: 5}", tmp_path)
    assert found.components["engine"].use == "llama-cpp"
    assert found.components["engine"].config.context == 64
    assert found.components["draft_length"].config.k == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("modle: x", "p.yaml:1: modle: unknown key; did you mean 'model'?"),
        ("model: 7", "p.yaml:1: model: expected a text, got 7"),
        ("model: [a]", "p.yaml:1: model: expected a text, got a list"),
        ("model:", "p.yaml:1: model: expected a text, got nothing"),
        ("max_sequences: 0", "p.yaml:1: max_sequences: expected at least 1, got 0"),
        ("max_sequences: true", "p.yaml:1: max_sequences: expected a whole number, got true"),
        ("max_sequences: 1.5", "p.yaml:1: max_sequences: expected a whole number, got 1.5"),
        ("drafter: auto", "p.yaml:1: drafter: `auto` is not possible here; name a component"),
        ("drafter:", "p.yaml:1: drafter: `auto` is not possible here; name a component"),
        ("drafter: 3", "p.yaml:1: drafter: expected {use: NAME, …} or a name, got 3"),
        ("drafter: sufix", "p.yaml:1: drafter.use: there is no drafter named 'sufix'; did you"),
        ("drafter: {use: 3}", "p.yaml:1: drafter: `use` is missing: which drafter? there are: "),
        ("observers: trace", "p.yaml:1: observers: expected a list of observers"),
        ("observers: [{use: trace}]", "observers[0]: the option 'path' is missing: a path"),
        ("plugins: here.py", "p.yaml:1: plugins: expected a list of paths of one-file plugins"),
        ("plugins: [gone.py]", "p.yaml:1: plugins[0]: plugin file not found: "),
        ("plugins: [7]", "p.yaml:1: plugins[0]: expected a path, got 7"),
    ],
)
def test_a_problem_is_told_with_file_line_key_and_what_was_expected(tmp_path, text, message):
    found = problems(text, tmp_path)
    assert any(message in p for p in found), found


def test_every_problem_of_a_file_is_found_at_once(tmp_path):
    text = """\
modle: x
max_sequences: none
drafter:
  use: cascade
  of:
    - {use: suffix, min_match: four}
    - {use: ntp}
draft_length: {use: fixed, k: -1}
engine: {threads: 1.5, flash_attention: maybe}
engine: {}
observers: [{use: trace}]
plugins: [./gone.py]
"""
    found = problems(text, tmp_path)
    starts = [
        "p.yaml:1: modle: ",
        "p.yaml:2: max_sequences: ",
        "p.yaml:6: drafter.of[0].min_match: ",
        "p.yaml:7: drafter.of[1].use: ",
        "p.yaml:8: draft_length.k: expected at least 0, got -1",
        "p.yaml:9: engine.threads: ",
        "p.yaml:9: engine.flash_attention: ",
        "p.yaml:10: engine: given twice",
        "p.yaml:11: observers[0]: ",
        "p.yaml:12: plugins[0]: ",
    ]
    for start in starts:
        assert any(p.startswith(start) for p in found), (start, found)
    assert len(found) == len(starts)


def test_a_problem_of_set_names_the_assignment():
    with pytest.raises(ConfigError, match=r"^--set drafter.min_mach=2: drafter.min_mach: unknown"):
        Pipeline.load(overrides=["drafter.use=suffix", "drafter.min_mach=2"])
    with pytest.raises(ConfigError, match=r"^--set engin.threads=2: engin: unknown key; did you"):
        Pipeline.load(overrides=["engin.threads=2"])


def test_a_model_is_found_next_to_the_pipeline_file(tmp_path):
    (tmp_path / "p.yaml").write_text("model: sub/none.gguf\n")
    with pytest.raises(ConfigError, match=r"p\.yaml:1: model: .*sub/none\.gguf.*outrider-nano"):
        Pipeline.load(tmp_path / "p.yaml")


def test_a_misspelt_packaged_model_gets_the_nearest_name():
    with pytest.raises(ConfigError, match="did you mean 'outrider-nano'"):
        Pipeline.load(overrides=["model=outrider-nan"])


def test_components_that_cannot_serve_the_model_are_all_named():
    overrides = ["model=scripted", "engine.use=scripted", "engine.head=[]"]
    with pytest.raises(ConfigError) as caught:
        Pipeline.load(overrides=[*overrides, "drafter=mtp", "rollback=kv-truncate"])
    lines = str(caught.value).splitlines()
    assert len(lines) == 2
    assert "drafter: mtp cannot be used: " in lines[0]
    assert "rollback: kv-truncate cannot be used: toy-hybrid has a recurrent state" in lines[1]
