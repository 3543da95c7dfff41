"""`outrider calibrate` measures, shows, and keeps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from outrider.cli import cli
from outrider.plugins import installed


@pytest.fixture(scope="module", autouse=True)
def commands():
    if "calibrate" not in cli.commands:
        installed().add_commands(cli)


@pytest.fixture
def pipeline_file(tmp_path):
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        "model: scripted\n"
        "engine: {use: scripted, cost_ms: [1, 2, 3, 4, 5, 6, 7, 8.5, 8]}\n"
        "drafter: mtp\n"
        f"draft_length: {{use: adaptive, max: 3, folder: {tmp_path / 'costs'}}}\n"
    )
    return path


def run(*arguments):
    return CliRunner().invoke(cli, ["calibrate", *map(str, arguments)], catch_exceptions=False)


def test_json_has_sixteen_rows_and_every_drafter(pipeline_file, tmp_path):
    result = run("-p", pipeline_file, "--json")
    assert result.exit_code == 0, result.output
    numbers = json.loads(result.stdout)
    assert numbers["rows_us"][:9] == [1000, 2000, 3000, 4000, 5000, 6000, 7000, 8500, 8000]
    assert len(numbers["rows_us"]) == 16
    assert numbers["drafting_us"]["mtp"][:3] == [0, 200, 400]
    assert [str(p) for p in (tmp_path / "costs").iterdir()] == [numbers["file"]]


def test_the_pipeline_uses_what_calibrate_kept(pipeline_file, tmp_path):
    from outrider import Pipeline

    path = json.loads(run("-p", pipeline_file, "--json").stdout)["file"]
    before = Path(path).read_text()
    with Pipeline.load(pipeline_file).open() as pipeline:
        rows = pipeline.draft_length.statistics()["rows_us"]
    assert rows[:9] == [1000, 2000, 3000, 4000, 5000, 6000, 7000, 8500, 8000]
    assert Path(path).read_text() == before, "nothing was measured again"


@pytest.mark.parametrize("wished", ["max: 18", "max: 14, padding: 4"])
def test_as_many_rows_are_measured_as_the_pipeline_may_verify(pipeline_file, wished):
    from outrider import Pipeline

    pipeline_file.write_text(pipeline_file.read_text().replace("max: 3", wished))
    numbers = json.loads(run("-p", pipeline_file, "--json").stdout)
    assert len(numbers["rows_us"]) == 19
    before = Path(numbers["file"]).read_text()
    with Pipeline.load(pipeline_file).open():
        assert Path(numbers["file"]).read_text() == before, "nothing was measured again"


def test_the_table_shows_rows_drafters_and_the_cliff(pipeline_file):
    text = run("-p", pipeline_file).stdout
    assert "mtp ms" in text
    assert "8.50" in text
    assert "█" in text


def test_a_picture_is_drawn(pipeline_file, tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "costs.png"
    assert run("-p", pipeline_file, "--png", picture).exit_code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
