"""The examples for plugin authors install, run, and pass their own tests."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import jsonschema
import pytest
import yaml
from outrider import Pipeline
from outrider.plugins import KINDS, installed, registry_with
from outrider.schema import pipeline_schema

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_one_file_drafter_runs_and_the_output_is_plain_decodings():
    keys = ["model=scripted", "engine=scripted"]
    with Pipeline.load(EXAMPLES / "repeat_last.yaml", overrides=keys).open() as pipeline:
        drafted = pipeline.generate("a a", max_tokens=40)
    with Pipeline.load(overrides=[*keys, "drafter=none"]).open() as pipeline:
        plain = pipeline.generate("a a", max_tokens=40)
    assert drafted.token_ids == plain.token_ids
    assert drafted.stats["drafters"]["repeat-last"]["proposed"] > 0


def test_the_drafter_that_draws_is_exact_under_both_samplers():
    file, keys = EXAMPLES / "bigram.yaml", ["model=scripted", "engine=scripted"]
    found = []
    for more in (["sampler=greedy"], ["sampler=greedy", "drafter=none"]):
        with Pipeline.load(file, overrides=[*keys, *more]).open() as pipeline:
            found.append(pipeline.generate("a b a c a", max_tokens=60).token_ids)
    assert found[0] == found[1]
    counts, proposed = [], 0
    for more in ([], ["drafter=none"]):
        with Pipeline.load(file, overrides=[*keys, "sampler.top_k=2", *more]).open() as pipeline:
            counts.append(Counter())
            for seed in range(600):
                drawn = pipeline.generate("ababab", max_tokens=16, seed=seed + len(more) * 10**6)
                counts[-1].update(enumerate(drawn.token_ids[:6]))
                proposed += sum(pipeline.statistics.proposed)
    assert proposed > 600
    for place in counts[0].keys() | counts[1].keys():
        one, other = counts[0][place], counts[1][place]
        assert abs(one - other) < 5.5 * (one + other + 1) ** 0.5, place


def test_its_pipeline_validates_with_its_plugin_and_only_then():
    data = yaml.safe_load((EXAMPLES / "repeat_last.yaml").read_text())
    registry = registry_with([EXAMPLES / "repeat_last.py"])
    jsonschema.validate(data, pipeline_schema(registry, KINDS))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, pipeline_schema(installed(), KINDS))


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The example distribution, installed beside this environment; the variables to see it."""
    root = tmp_path_factory.mktemp("distribution")
    source, site = root / "source", root / "site"
    shutil.copytree(EXAMPLES / "plugin-distribution", source)
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--target", site, source], check=True, cwd=root)
    return source, {**os.environ, "PYTHONPATH": str(site)}


def run(environment, *arguments):
    source, variables = environment
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, env=variables, cwd=source, capture_output=True, text=True)


def test_the_distribution_installs_and_is_found(environment):
    _, variables = environment
    code = "from outrider.cli import cli; cli(['plugins', '--json'])"
    done = subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True
    )
    found = [c for c in json.loads(done.stdout)["components"] if c["name"] == "lookback"]
    assert [(c["kind"], c["distribution"], c["version"]) for c in found] == [
        ("drafter", "outrider-lookback", "0.1.0")
    ]


def test_the_distributions_own_tests_pass(environment):
    done = run(environment, "pytest", "-q", "-p", "no:cacheprovider", "tests")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
