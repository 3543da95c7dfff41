"""Judging answers, fencing generated code, and comparing the misses of engines."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import intel_eval
import pytest
from evals import sandbox, suites
from evals.problem import (
    Answer,
    calls_are,
    code_is,
    contains,
    fenced,
    json_is,
    last_number,
    number_is,
)


def right(judge, content: str = "", **more) -> bool:
    return judge(Answer(content, **more)).right


# --- judges ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("it is 12,345.50 dollars", 12345.5),
        ("3 and then -4", -4.0),
        ("about 70.", 70.0),
        ("none", None),
    ],
)
def test_the_last_number_of_a_text(text, number):
    assert last_number(text) == number


def test_a_marked_number_counts_before_later_ones():
    judge = number_is(18)
    assert right(judge, "#### 18 (after 3 days)")
    assert right(judge, "The answer is **18**.")
    assert not right(judge, "18 eggs, so 19")
    assert not right(judge, "no idea")


def test_words_are_found_whole():
    assert right(contains("baker"), "Peter is a Baker.")
    assert not right(contains("9054"), "the code is 19054")


def test_code_is_compared_line_by_line():
    judge = code_is("def f():\n    return 1\n")
    assert right(judge, "Done:\n```python\ndef f():   \n    return 1\n```\nI did it.")
    assert not right(judge, "```python\ndef f():\n    return 2\n```")
    assert not right(judge, "```python\ndef f():\n```")
    assert fenced("```python\nx = 1") == "x = 1"


def test_json_values_count_not_their_layout():
    judge = json_is({"name": "Ada", "age": 41})
    assert right(judge, '```json\n{"age": "41", "Name": "Ada"}\n```')
    assert not right(judge, '{"name": "Ada"}')
    assert not right(judge, "name: Ada")


def test_calls_are_compared_in_any_order_with_typed_arguments():
    judge = calls_are(("f", {"x": 1}), ("g", {}))
    assert right(judge, calls=[("g", {}), ("f", {"x": 1})])
    assert not right(judge, calls=[("f", {"x": "1"}), ("g", {})])
    assert not right(judge, calls=[("f", {"x": 1})])
    assert right(calls_are(), calls=[])


# --- generated code -------------------------------------------------------------------------------


def test_code_that_ends_well_is_fine():
    assert sandbox.run("print(sum(range(4)))") == sandbox.Outcome(True, "6\n")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("assert 1 == 2, 'no'", "AssertionError: no"),
        ("raise SystemExit(3)", "exit status 3"),
        ("x = [0] * (1 << 30)", "MemoryError"),
        ("import socket; socket.create_connection(('127.0.0.1', 9))", "PermissionError"),
        ("import os; os.system('true')", "PermissionError"),
        ("import subprocess; subprocess.run(['true'])", "PermissionError"),
        ("import ctypes; ctypes.CDLL(None)", "PermissionError"),
        ("open('out.txt', 'w')", "PermissionError"),
    ],
)
def test_what_generated_code_may_not_do(code, said):
    outcome = sandbox.run(code)
    assert not outcome.ok
    assert said in outcome.said


@pytest.mark.parametrize("code", ["while True: pass", "import time; time.sleep(60)"])
def test_code_that_does_not_end_is_ended(code):
    assert not sandbox.run(code, seconds=1.0).ok


def test_generated_code_does_not_reach_a_server_of_this_machine():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"import _socket; _socket.socket().connect(('127.0.0.1', {port}))"
        assert not sandbox.run(code).ok


# --- suites ---------------------------------------------------------------------------------------


def test_gsm8k_records_are_judged_by_their_own_answers(root: Path):
    problems = suites.gsm8k(root / "tests" / "data" / "eval" / "gsm8k-3.jsonl")
    records = suites.records(root / "tests" / "data" / "eval" / "gsm8k-3.jsonl")
    for problem, record in zip(problems, records, strict=True):
        assert right(problem.judge, record["answer"])
        assert not right(problem.judge, "#### 123456")


def test_humaneval_solutions_pass_and_wrong_ones_do_not(root: Path):
    path = root / "tests" / "data" / "eval" / "humaneval-3.jsonl"
    for problem, record in zip(suites.humaneval(path), suites.records(path), strict=True):
        whole = record["prompt"] + record["canonical_solution"]
        assert right(problem.judge, f"```python\n{whole}```"), problem.name
        assert right(problem.judge, f"```python\n{record['canonical_solution']}```")
        assert not right(problem.judge, f"```python\n{record['prompt']}    return None\n```")


def test_a_needle_is_hidden_once_in_a_text_of_the_asked_length():
    for problem in suites.needle():
        text = problem.request["messages"][0]["content"]
        assert abs(len(text) - suites.NEEDLE_CHARACTERS) < 300
        sentence, question = "The access code of the ", "What is the access code of the "
        assert text.count(sentence) == 1
        assert text.count(question) == 1
        code = text.split(sentence)[1].split(" is ")[1][:4]
        assert right(problem.judge, f"It is {code}.")
        assert not right(problem.judge, "It is 0.")


@pytest.mark.parametrize("suite", ["nano", "tools"])
def test_written_down_problems_have_names_and_a_judge_each(suite):
    problems = suites.from_file(suite)
    assert len({p.name for p in problems}) == len(problems) >= 8
    assert all(not p.judge(Answer("I do not know.", [("x", {})])).right for p in problems)


@pytest.mark.parametrize(
    ("line", "message"),
    [("{", "line 2: not JSON"), ('{"question": "?"}', "line 2: answer missing")],
)
def test_a_broken_data_file_is_named_with_its_line(tmp_path: Path, line: str, message: str):
    file = tmp_path / "data.jsonl"
    file.write_text('{"question": "?", "answer": "#### 1"}\n' + line + "\n")
    with pytest.raises(suites.DataError, match=message):
        suites.gsm8k(file)


# --- the report -----------------------------------------------------------------------------------


def results(*rights: bool) -> dict:
    return {f"p{i}": {"suite": "s", "right": r} for i, r in enumerate(rights)}


def test_scores_and_misses():
    both = {"a": results(True, False, False), "b": results(True, False, True)}
    assert intel_eval.scores(both["a"]) == {"s": [1, 3]}
    found = intel_eval.misses(both)
    assert not found["same"]
    assert found["by_all"] == ["p1"]
    assert found["only"] == {"a": ["p2"], "b": []}
    assert intel_eval.misses({"a": both["a"], "c": both["a"]})["same"]


def evaluate(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "scripts" / "intel_eval.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=220)


def test_two_pipelines_pass_the_gate(root: Path, tmp_path: Path):
    out = tmp_path / "eval.json"
    done = evaluate(
        root, "--suites", "nano", "--engines", "plain,mtp", "--limit", "6", "--out", str(out)
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(out.read_text())
    assert report["gate"]["passed"]
    assert set(report["scores"]) == {"plain", "mtp"}
    assert report["scores"]["plain"]["nano"][1] == 6
    assert "Quality gate: passed." in done.stdout


def test_a_pipeline_that_answers_something_else_fails_the_gate(root: Path, tmp_path: Path):
    plugin = tmp_path / "wrong.py"
    plugin.write_text(
        "from outrider import Accepted, Sampler, hookimpl\n"
        "class Wrong(Sampler):\n"
        "    def accept(self, sequences, drafts, rows):\n"
        "        return [Accepted(0, 500) for _ in sequences]\n"
        "@hookimpl\n"
        "def outrider_samplers():\n"
        "    return {'wrong': Wrong}\n"
    )
    broken = tmp_path / "broken.yaml"
    broken.write_text(f"model: outrider-nano\ndrafter: none\nplugins: [{plugin}]\nsampler: wrong\n")
    done = evaluate(root, "--suites", "nano", "--engines", f"plain,{broken}", "--limit", "1")
    assert done.returncode == 1, done.stderr
    assert "Quality gate: FAILED." in done.stdout


def test_a_problem_that_does_not_fit_is_a_miss_and_not_the_end(root: Path, tmp_path: Path):
    out = tmp_path / "eval.json"
    done = evaluate(
        root, "--suites", "needle", "--limit", "2", "--engines", "plain,mtp", "--out", str(out)
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(out.read_text())
    assert report["scores"]["mtp"]["needle"] == [0, 2]
    reason = report["results"]["plain"]["needle/0.05"]["reason"]
    assert reason.startswith("refused: ")
    assert "context of 4096" in reason


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--suites", "riddles"], "there is no suite 'riddles'"),
        (["--suites", "gsm8k"], "needs --gsm8k FILE"),
        (["--suites", "gsm8k", "--gsm8k", "/nowhere"], "/nowhere cannot be read"),
        (["--engines", "nothing"], "there is no pipeline 'nothing'"),
    ],
)
def test_mistakes_are_named(root: Path, arguments: list[str], message: str):
    done = evaluate(root, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
