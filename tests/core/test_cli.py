"""The command line: what it prints, and one clear message with exit code 2 for every mistake."""

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from outrider import Pipeline
from outrider.cli import cli, main

ROOT = Path(__file__).parents[2]
NANO = ROOT / "models" / "outrider-nano" / "outrider-nano-q8_0.gguf"
SCRIPTED = ("-m", "scripted", "--set", "engine=scripted")


def run(*arguments, stdin=None):
    return CliRunner().invoke(cli, [str(a) for a in arguments], input=stdin)


def mistake(*arguments, stdin=None):
    """The one message of a command that must fail as a user's mistake."""
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert result.stderr.startswith(("outrider: ", "Usage: "))
    return result.stderr


# --- generate ---


def test_generate_streams_text_to_stdout_and_the_rest_to_stderr():
    result = run("generate", "The horse", "-n", "20", *SCRIPTED)
    assert result.exit_code == 0
    assert "tokens/s" in result.stderr
    assert "drafter cascade" in result.stderr
    quiet = run("generate", "The horse", "-n", "20", "-q", *SCRIPTED)
    assert quiet.stderr == ""
    assert quiet.stdout == result.stdout


def test_generate_json_is_one_object_with_the_promised_keys():
    result = run("generate", "The horse", "-n", "20", "--json", *SCRIPTED)
    answer = json.loads(result.stdout)
    assert len(answer["token_ids"]) == 20
    assert answer["prompt_token_ids"]
    assert answer["finish_reason"] == "length"
    stats = answer["stats"]
    assert {
        "tokens_per_second",
        "steps",
        "mean_accepted_length",
        "acceptance_by_position",
        "drafters",
        "time",
    } <= stats.keys()
    assert {"draft_ms", "verify_ms", "sample_ms", "overhead_us_per_step"} <= stats["time"].keys()
    for drafter in stats["drafters"].values():
        assert drafter.keys() == {"proposed", "accepted"}


def test_generate_reads_stdin_and_files(tmp_path):
    (tmp_path / "prompt.txt").write_text("The horse")
    text = run("generate", "The horse", "-q", "-n", "9", *SCRIPTED).stdout
    assert run("generate", "-", "-q", "-n", "9", *SCRIPTED, stdin="The horse").stdout == text
    prompt = ("--prompt-file", tmp_path / "prompt.txt")
    assert run("generate", *prompt, "-q", "-n", "9", *SCRIPTED).stdout == text


def test_plain_decoding_says_the_same():
    keys = ("-q", "-n", "30", *SCRIPTED)
    plain = run("generate", "The horse", "--set", "drafter.use=none", *keys)
    assert plain.stdout == run("generate", "The horse", *keys).stdout


def test_a_trace_has_a_line_for_every_step(tmp_path):
    trace = tmp_path / "t.jsonl"
    result = run("generate", "The horse", "-n", "20", "--trace", trace, "--json", *SCRIPTED)
    lines = [json.loads(line) for line in trace.read_text().splitlines()]
    assert [line["event"] for line in lines] == [
        "start",
        *["step"] * json.loads(result.stdout)["stats"]["steps"],
        "finish",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no prompt: give a text, - for standard input, or --prompt-file"),
        (("",), "the prompt is empty"),
        (("", "--raw"), "the prompt is empty"),
        (("x", "--prompt-file", "y"), "either PROMPT or --prompt-file, not both"),
        (("--prompt-file", "/nowhere/p.txt"), "/nowhere/p.txt cannot be read: No such file"),
        (("x", "-p", "/nowhere/p.yaml"), "pipeline file not found: /nowhere/p.yaml"),
        (("x", "-m", "/nowhere/m.gguf"), "model file not found: /nowhere/m.gguf"),
        (("x", "-n", "0"), "0 is not in the range x>=1"),
        (("x", "--set", "modle=y"), "--set modle=y: modle: unknown key; did you mean 'model'?"),
        (("x", "--set", "model"), "--set model: expected key=value"),
        (("x", "--set", "drafter=sufix"), "no drafter named 'sufix'; did you mean 'suffix'?"),
        (("x", "--trace", "/nowhere/t.jsonl"), "/nowhere/t.jsonl needs a folder"),
        (("x", "--nonsense"), "No such option"),
        (("x", "--seed", "3"), "seed: the sampler 'greedy' always takes the most likely token"),
        (("x", "--seed", str(2**64), "--set", "sampler.use=rejection"), "expected a 64-bit number"),
    ],
)
def test_mistakes_are_told_before_anything_is_loaded(monkeypatch, arguments, message):
    monkeypatch.setattr(Pipeline, "open", lambda *a, **k: pytest.fail("weights were loaded"))
    assert message in mistake("generate", *arguments)


def test_a_seed_for_a_sampler_without_one_names_the_one_that_has_it():
    message = mistake("generate", "x", "-q", "--seed", "3", *SCRIPTED)
    assert "seed: the sampler 'greedy' always takes the most likely token" in message
    assert "--set sampler.use=rejection" in message
    sampling = ("--set", "sampler.use=rejection", "--seed", "3")
    assert run("generate", "x", "-q", *sampling, *SCRIPTED).exit_code == 0


def test_an_empty_prompt_on_stdin_and_in_a_file(tmp_path):
    (tmp_path / "empty.txt").write_text("")
    assert "the prompt is empty" in mistake("generate", "-", stdin="")
    prompt = ("--prompt-file", tmp_path / "empty.txt")
    assert "the prompt is empty" in mistake("generate", *prompt)


def test_a_prompt_that_is_not_utf8_says_which_byte(tmp_path):
    (tmp_path / "latin.txt").write_bytes("caf\xe9 au lait".encode("latin-1"))
    message = mistake("generate", "--prompt-file", tmp_path / "latin.txt")
    assert re.search(r"latin\.txt is not UTF-8 text: byte 3 is 0xe9", message)
    assert "standard input is not UTF-8 text: byte 0" in mistake("generate", "-", stdin=b"\xff")
    assert "the prompt is not UTF-8 text" in mistake("generate", os.fsdecode(b"caf\xe9"))


def test_a_prompt_file_that_is_a_folder(tmp_path):
    assert "is a directory" in mistake("generate", "--prompt-file", tmp_path)


def test_a_prompt_longer_than_the_context():
    message = mistake("generate", "a " * 60, *SCRIPTED, "--set", "engine.context=32", "-q")
    assert re.search(r"the prompt has \d+ tokens.*context of 32.*raise engine\.context", message)


def test_a_trace_where_nothing_can_be_written(tmp_path):
    assert "is a folder" in mistake("generate", "x", "--trace", tmp_path, *SCRIPTED)
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(stat.S_IRUSR | stat.S_IXUSR)
    trace = "/proc/trace.jsonl" if os.access(locked, os.W_OK) else locked / "t.jsonl"
    message = mistake("generate", "x", "--trace", trace, *SCRIPTED)
    assert f"the trace file {trace} cannot be written: " in message


@pytest.mark.parametrize(
    ("target", "encoding", "code", "said"),
    [
        ("/dev/full", "utf-8", 1, "No space left on device"),
        ("/dev/null", "ascii", 0, ""),
    ],
)
def test_an_output_that_takes_no_more_or_not_all_characters(target, encoding, code, said):
    command = [sys.executable, "-c", "from outrider.cli import main; main()", "generate", "-q"]
    environment = os.environ | {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    with Path(target).open("w") as out:
        words = ["--raw", "馬 车", "-n", "40", *SCRIPTED]
        done = subprocess.run(
            [*command, *words], stdout=out, stderr=subprocess.PIPE, text=True, env=environment,
            check=False,
        )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert done.returncode == code, done.stderr
    assert said in done.stderr


def test_a_real_process_prints_one_message_and_no_traceback():
    command = [sys.executable, "-m", "outrider.cli", "generate", "x", "--set", "modle=y"]
    code = "import sys; sys.argv[0] = 'outrider'; from outrider.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *command[3:]], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == ("outrider: --set modle=y: modle: unknown key; did you mean 'model'?\n")


# --- model files ---


@pytest.fixture(scope="module")
def dense(tmp_path_factory):
    """A tiny dense model, valid to the last tensor, without a recurrent state or a head."""
    gguf = pytest.importorskip("gguf")
    path = tmp_path_factory.mktemp("dense") / "dense.gguf"
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("tiny-dense")
    writer.add_block_count(1)
    writer.add_context_length(128)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(32)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(64)
    draw = np.random.default_rng(0)

    def tensor(name, *shape):
        writer.add_tensor(name, draw.normal(0, 0.1, shape).astype(np.float32))

    tensor("token_embd.weight", 64, 32)
    tensor("output_norm.weight", 32)
    for name in ("attn_norm", "ffn_norm"):
        tensor(f"blk.0.{name}.weight", 32)
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        tensor(f"blk.0.{name}.weight", 32, 32)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_dense_model_with_the_mtp_drafter(dense):
    message = mistake("generate", "x", "-m", dense, "--set", "drafter=mtp")
    assert "mtp cannot be used: dense.gguf (llama) has no multi-token-prediction head" in message


def test_a_model_without_a_head_goes_without_the_default_drafter_that_needs_it(dense, caplog):
    pipeline = Pipeline.load(model=str(dense))
    assert [drafter.name for drafter in pipeline.drafter.parts] == ["suffix"]
    assert not pipeline.drafter.needs.nextn
    assert "left out of the cascade: mtp: dense.gguf (llama) has no multi-token" in caplog.text
    refused = ("--set", "drafter.skip_unsupported=false")
    assert "mtp: dense.gguf (llama) has no" in mistake("generate", "x", "-m", dense, *refused)
    lone = ("--set", "drafter={use: cascade, skip_unsupported: true, of: [mtp]}")
    assert "mtp: dense.gguf (llama) has no" in mistake("generate", "x", "-m", dense, *lone)


def test_a_dense_model_is_told_apart_by_its_header(dense, tmp_path):
    (tmp_path / "p.yaml").write_text(f"model: {dense}\ndrafter: suffix\n")
    result = run("check", tmp_path / "p.yaml")
    assert result.exit_code == 0, result.output
    assert "rollback kv-truncate" in result.output


def test_a_dense_model_refuses_the_ring(dense):
    arguments = ("-m", dense, "--set", "drafter=suffix", "--set", "rollback=snapshot-ring")
    message = mistake("generate", "x", *arguments)
    assert "snapshot-ring cannot be used: llama has no recurrent state" in message


def test_a_truncated_model(tmp_path):
    for size in (100, 4096, NANO.stat().st_size - 1):
        path = tmp_path / f"cut-{size}.gguf"
        path.write_bytes(NANO.read_bytes()[:size])
        message = mistake("generate", "x", "-m", path)
        assert "truncated" in message
        assert str(path) in message


def test_a_file_that_is_no_model(tmp_path):
    for name, data in (("zip.gguf", b"PK\x03\x04 zip"), ("empty.gguf", b"")):
        (tmp_path / name).write_bytes(data)
        assert "is not a GGUF file" in mistake("generate", "x", "-m", tmp_path / name)


def test_a_folder_as_model(tmp_path):
    assert "is a folder; expected a GGUF file" in mistake("generate", "x", "-m", tmp_path)


def test_a_ring_that_is_shallower_than_k(monkeypatch):
    """Architectures may get fewer snapshots than asked for; what they got is read back."""
    from outrider.testing.engine import ScriptedEngine

    load = ScriptedEngine.load

    def load_with_less(self, plan, progress=None):
        load(self, plan, progress)
        self.target.ring_depth = 2

    monkeypatch.setattr(ScriptedEngine, "load", load_with_less)
    arguments = ("--set", "rollback=snapshot-ring", "--set", "draft_length.k=5")
    message = mistake("generate", "x", *SCRIPTED, *arguments)
    assert "the snapshot ring holds 2 states, but up to 5 drafts can be rejected" in message


# --- check ---


@pytest.mark.parametrize("path", sorted((ROOT / "examples/pipelines").glob("*.yaml")), ids=str)
def test_every_example_passes_the_check(path):
    result = run("check", path)
    assert result.exit_code == 0, result.output
    assert "fine" in result.output


def test_check_prints_every_problem_with_its_line(tmp_path):
    (tmp_path / "bad.yaml").write_text("modle: x\ndrafter: {use: sufix}\nengine: {threads: x}\n")
    message = mistake("check", tmp_path / "bad.yaml")
    for line in (":1: modle: ", ":2: drafter.use: ", ":3: engine.threads: "):
        assert line in message


@pytest.mark.parametrize("data", [b"a: [1", b"- 1", b"\xff\xfe", b"a: &x [*x]"])
def test_check_of_what_is_no_pipeline(tmp_path, data):
    (tmp_path / "bad.yaml").write_bytes(data)
    assert "bad.yaml" in mistake("check", tmp_path / "bad.yaml")


def test_check_of_a_missing_file_and_a_folder(tmp_path):
    assert "pipeline file not found" in mistake("check", tmp_path / "none.yaml")
    assert "is a folder" in mistake("check", tmp_path)


# --- plugins, schema ---


def test_plugins_lists_kinds_names_and_origins():
    result = run("plugins", "--json")
    listed = json.loads(result.stdout)
    names = {(c["kind"], c["name"]): c for c in listed["components"]}
    assert names["drafter", "suffix"]["distribution"] == "outrider"
    assert names["drafter", "suffix"]["plugin"] == "suffix"
    assert "outrider-nano" in listed["models"]
    assert listed["failures"] == []
    table = run("plugins").stdout
    for _, name in names:
        assert name in table


def test_descriptions_with_brackets_are_shown_whole():
    assert "[anchor," in re.sub(r"\s+", " ", run("plugins").stdout)


def test_schema_prints_the_schema_with_the_plugins_of_a_pipeline(tmp_path):
    schema = json.loads(run("schema").stdout)
    assert schema["properties"]["drafter"]
    (tmp_path / "mine.py").write_text(
        "from outrider import Draft, Drafter, hookimpl\n"
        "class Mine(Drafter):\n"
        "    '''Mine.'''\n"
        "    def propose_one(self, sequence, limit): return Draft()\n"
        "@hookimpl\n"
        "def outrider_drafters(): return {'mine': Mine}\n"
    )
    (tmp_path / "p.yaml").write_text(yaml.safe_dump({"plugins": ["mine.py"]}))
    with_mine = json.loads(run("schema", "-p", tmp_path / "p.yaml").stdout)
    assert "mine" in json.dumps(with_mine["$defs"]["drafter"])
    assert "mine" not in json.dumps(schema["$defs"]["drafter"])


def test_a_plugin_whose_commands_fail_takes_nobody_down(monkeypatch, capsys):
    import types

    from outrider import hookimpl
    from outrider.plugins import Registry, Source

    module = types.ModuleType("commands")

    @hookimpl
    def outrider_commands(group):
        raise ZeroDivisionError("oops")

    module.outrider_commands = outrider_commands
    registry = Registry()
    registry.add(module, Source("commands", "", ""))
    registry.add_commands(cli)
    assert registry.failures[0].reason == "outrider_commands failed: ZeroDivisionError: oops"


def test_the_script_shows_its_version(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["outrider", "--version"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 0
    assert "outrider, version" in capsys.readouterr().out
