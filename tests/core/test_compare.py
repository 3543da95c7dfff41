"""`outrider compare`: two pipelines on the same tokens."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from outrider import Pipeline, RequestError
from outrider.cli import Group
from outrider.compare import command, outrider_commands, read_prompts
from outrider.comparison import count_continuations, tv_distance


@pytest.fixture
def invoke():
    """Run `compare` and hand back what it printed."""
    group = Group()
    outrider_commands(group)

    def run(*arguments: object) -> tuple[int, str, str]:
        words = ["compare", *map(str, arguments), "--set", "engine.threads=1"]
        result = CliRunner().invoke(group, words)
        return result.exit_code, result.stdout, result.stderr

    return run


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Pipeline files by name."""
    bodies = {
        "plain": "drafter: none",
        "suffix": "drafter: suffix\ndraft_length: {use: fixed, k: 4}",
        "warm": "drafter: none\nsampler: {use: rejection, top_k: 4, temperature: 0.3}",
        "hot": "drafter: none\nsampler: {use: rejection, top_k: 4, temperature: 5.0}",
    }
    made = {}
    for name, body in bodies.items():
        made[name] = tmp_path / f"{name}.yaml"
        made[name].write_text(f"model: outrider-nano\n{body}\n")
    return made


def test_the_distance_is_that_of_the_shares() -> None:
    a, b = Counter({(1, 2): 3, (2, 2): 1}), Counter({(1, 2): 1, (3, 3): 1})
    assert tv_distance(a, a) == 0
    assert tv_distance(a, Counter({(9, 9): 5})) == 1
    assert tv_distance(a, b) == tv_distance(b, a) == pytest.approx(0.5)


def test_greedy_pipelines_are_compared_token_by_token(invoke, files: dict[str, Path]) -> None:
    code, out, err = invoke(files["plain"], files["suffix"], "--json", "--repeats", 2, "-n", 40)
    assert code == 0, err
    found = json.loads(out)
    assert found["distance"] is None
    same = found["divergences"]
    assert same["prompts"] == 4
    assert same["identical"] + len(same["found"]) == 4
    assert all(entry["near_tie"] for entry in same["found"])
    plain, suffix = found["pipelines"]
    assert plain["mean_accepted_length"] == 1
    assert suffix["mean_accepted_length"] > 1
    assert len(plain["tokens_per_second"]) == 2
    ratio = suffix["median_tokens_per_second"] / plain["median_tokens_per_second"]
    assert found["speed_ratio"] == pytest.approx(ratio, abs=1e-3)


@pytest.fixture
def distance(invoke, files: dict[str, Path], tmp_path: Path):
    """What `compare` says of the distributions of two pipelines on a prompt of three lines."""
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("x = x + 1\ny = y + 1\nz =")

    def found(a: str, b: str, seeds: int) -> dict[str, float]:
        common = ["--json", "--prompts", prompts, "--seeds", seeds, "--repeats", 1, "-n", 4]
        code, out, err = invoke(files[a], files[b], *common)
        assert code == 0, err
        result = json.loads(out)
        assert result["divergences"] is None
        return result["distance"]

    return found


def test_another_distribution_is_seen(distance) -> None:
    found = distance("warm", "hot", 60)
    assert found["between"] > 2 * found["noise_floor"]


def test_a_greedy_pipeline_and_a_sampling_one_are_compared(distance) -> None:
    found = distance("plain", "hot", 20)
    assert found["noise_floor"] == 0
    assert found["between"] > 0.5


def test_the_table_says_what_was_found(invoke, files: dict[str, Path]) -> None:
    code, out, _ = invoke(files["plain"], files["suffix"], "--repeats", 1, "-n", 12)
    assert code == 0
    for word in ("plain", "suffix", "tokens/s, median", "acceptance", "outputs are the same"):
        assert word in out


def test_continuations_are_a_function_of_the_seeds(open_pipeline) -> None:
    pipeline: Pipeline = open_pipeline("drafter=none", "sampler.use=rejection")
    prompt = tuple(pipeline.tokenize("def f(x):"))
    once = count_continuations(pipeline, prompt, range(5))
    assert once.total() == 5
    assert once == count_continuations(pipeline, prompt, range(5))
    assert once != count_continuations(pipeline, prompt, range(5, 10))
    assert {len(tokens) for tokens in once} == {2}


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("empty.txt", "\n \n", "holds no prompt"),
        ("bad.jsonl", '{"text": "x"}\n', 'an object with "prompt", got the line'),
        ("missing.txt", None, "cannot be read"),
    ],
)
def test_a_bad_prompts_file_is_named(
    tmp_path: Path, name: str, text: str | None, reason: str
) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    with pytest.raises(RequestError, match=reason):
        read_prompts(path)


def test_prompts_are_lines_or_json(tmp_path: Path) -> None:
    lines, jsonl = tmp_path / "p.txt", tmp_path / "p.jsonl"
    lines.write_text("one\n\ntwo\n")
    jsonl.write_text('"a\\nb"\n{"prompt": "c"}\n')
    assert read_prompts(lines) == ["one", "two"]
    assert read_prompts(jsonl) == ["a\nb", "c"]


def test_a_missing_pipeline_file_is_an_error_without_traceback(
    invoke, files: dict[str, Path]
) -> None:
    code, _, err = invoke(files["plain"], "nowhere.yaml")
    assert code == 2
    assert "nowhere.yaml" in err
    assert "Traceback" not in err


def test_a_plot_is_written_or_the_missing_library_named(
    invoke, files: dict[str, Path], tmp_path: Path
) -> None:
    plot = tmp_path / "plot.png"
    code, _, err = invoke(files["plain"], files["suffix"], "--repeats", 1, "-n", 8, "--plot", plot)
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        assert code == 2
        assert "outrider[bench]" in err
        assert not plot.exists()
    else:
        assert code == 0, err
        assert plot.read_bytes().startswith(b"\x89PNG")


def test_the_command_is_installed() -> None:
    assert command.name == "compare"
