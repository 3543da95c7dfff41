"""Discovery, registration, and what is said about plugins that are not right."""

import importlib.metadata
import textwrap
import types
from pathlib import Path
from types import SimpleNamespace

import attrs
import pytest
from outrider import (
    ChatTemplate,
    ConfigError,
    Draft,
    Drafter,
    ModelError,
    Pipeline,
    PluginError,
    StateRollback,
    hookimpl,
)
from outrider.plugins import KINDS, Registry, Source, contract_problem
from outrider.testing import module_offering
from outrider.yamlfile import nearest


class RepeatLast(Drafter):
    """Draft the anchor again and again."""

    def propose_one(self, sequence, limit):
        return Draft([sequence.anchor] * limit)


def source(name="mine", version="1.2"):
    return Source(name, f"outrider-{name}", version)


def offering(name, cls, kind="drafter"):
    return module_offering({kind: {name: cls}})


def write(path, text):
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


ONE_FILE = """
    from outrider import Draft, Drafter, hookimpl

    class Twice(Drafter):
        '''Drafts the anchor twice.'''
        def propose_one(self, sequence, limit):
            return Draft([sequence.anchor] * min(2, limit))

    @hookimpl
    def outrider_drafters():
        return {"twice": Twice}
"""


# --- names ---


def test_a_name_claimed_twice_names_both_classes_and_both_distributions():
    class Other(RepeatLast):
        pass

    registry = Registry()
    registry.add(offering("repeat", RepeatLast), source("one"))
    with pytest.raises(PluginError) as caught:
        registry.add(offering("repeat", Other), source("two"))
    message = str(caught.value)
    for part in ("'repeat'", "RepeatLast", "Other", "outrider-one 1.2", "outrider-two 1.2"):
        assert part in message


def test_the_same_name_may_serve_two_kinds():
    registry = Registry()
    registry.load_installed()
    assert registry.find("drafter", "none") is not None
    assert registry.find("cache", "none") is not None


def test_a_model_name_claimed_twice_names_both():
    def model_plugin(path):
        module = types.ModuleType("models")
        module.outrider_models = hookimpl(lambda: {"tiny": path})
        return module

    registry = Registry()
    registry.add(model_plugin("a.gguf"), source("one"))
    with pytest.raises(PluginError, match=r"'tiny'.*outrider-one.*outrider-two"):
        registry.add(model_plugin("b.gguf"), source("two"))


def test_a_model_name_that_two_installed_plugins_claim_belongs_to_neither(monkeypatch):
    def point(name, path):
        module = types.ModuleType(name)
        module.outrider_models = hookimpl(lambda: {"tiny": path, name: path})
        dist = SimpleNamespace(name=f"outrider-{name}", version="1")
        return SimpleNamespace(name=name, dist=dist, load=lambda: module)

    points = [point("one", "a.gguf"), point("two", "b.gguf")]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points)
    registry = Registry()
    registry.load_installed()
    assert registry.models().keys() == {"one", "two"}
    with pytest.raises(ModelError, match=r"claimed twice: by one .*and by two"):
        registry.model_path("tiny", Path())


def test_an_unknown_name_gets_the_nearest_one_or_all_there_are():
    assert nearest("sufix", ["mtp", "suffix"]) == "did you mean 'suffix'?"
    assert nearest("zzz", ["mtp", "suffix"]) == "there are: mtp, suffix"
    assert nearest("zzz", []) == "there are none"


def test_one_file_that_claims_an_installed_name_is_an_error_naming_both(tmp_path):
    plugin = write(tmp_path / "mine.py", ONE_FILE.replace('"twice"', '"suffix"'))
    pipeline = write(tmp_path / "p.yaml", f"plugins: [{plugin.name}]\ndrafter: suffix\n")
    with pytest.raises(PluginError) as caught:
        Pipeline.load(pipeline)
    assert "outrider_suffix" in str(caught.value) or "suffix (outrider " in str(caught.value)
    assert str(plugin) in str(caught.value)


# --- contracts, checked at registration ---


class NoPropose(Drafter):
    """Forgot the method."""


class WrongArguments(Drafter):
    """Takes one argument too few."""

    def propose_one(self, sequence):
        return Draft()


class PlainConfig(RepeatLast):
    """Its options are no attrs class."""

    class Config:
        k: int = 3


class NotADrafter:
    """No subclass of anything."""


class Misspelt(RepeatLast):
    """Overrides nothing by accident."""

    def commit(self, sequences, steps, extra):
        pass


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (NoPropose, "NoPropose must define `propose` or `propose_one`"),
        (WrongArguments, r"WrongArguments.propose_one must take \(self, sequence, limit\)"),
        (PlainConfig, "PlainConfig.Config must be an attrs class"),
        (NotADrafter, "expected a subclass of outrider.Drafter, got .*NotADrafter"),
        (Misspelt, r"Misspelt.commit must take \(self, sequences, steps\)"),
        (RepeatLast(None, types.SimpleNamespace(name="")), "expected a subclass of outrider"),
    ],
)
def test_a_broken_contract_is_found_when_the_plugin_registers(cls, message):
    with pytest.raises(PluginError, match=f"the drafter 'bad' of mine .*{message}"):
        Registry().add(offering("bad", cls), source())


def test_more_arguments_with_defaults_are_fine():
    class Fine(Drafter):
        def propose_one(self, sequence, limit, *, temperature=1.0):
            return Draft()

    assert contract_problem(KINDS["drafter"], Fine) is None


def test_other_names_for_arguments_are_fine():
    class Fine(Drafter):
        def propose_one(self, s, n):
            return Draft()

    assert contract_problem(KINDS["drafter"], Fine) is None


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_every_kind_refuses_what_is_no_component(kind):
    assert "expected a subclass" in contract_problem(kind, object)


@pytest.mark.parametrize("kind", [k for k in KINDS.values() if k.required], ids=lambda k: k.name)
def test_every_kind_names_what_a_bare_subclass_lacks(kind):
    bare = type("Bare", (kind.base,), {})
    assert "Bare must define `" in contract_problem(kind, bare)


def test_every_installed_component_keeps_its_contract():
    registry = Registry()
    registry.load_installed()
    assert registry.failures == []
    for entry in registry.entries():
        assert contract_problem(KINDS[entry.kind], entry.cls) is None, entry


def test_a_hook_that_does_not_exist_is_refused_by_name():
    module = types.ModuleType("typo")
    module.outrider_drafterz = hookimpl(lambda: {"mine": RepeatLast})
    with pytest.raises(PluginError, match=r"mine \(outrider-mine 1.2\).*outrider_drafterz"):
        Registry().add(module, source())


def test_a_hook_with_arguments_it_does_not_have_is_refused():
    module = types.ModuleType("arguments")
    module.outrider_drafters = hookimpl(lambda config: {})
    with pytest.raises(PluginError, match="config"):
        Registry().add(module, source())


@pytest.mark.parametrize("value", [None, ["suffix"], RepeatLast])
def test_a_hook_that_returns_no_mapping_is_refused(value):
    module = types.ModuleType("wrong")
    module.outrider_drafters = hookimpl(lambda: value)
    with pytest.raises(PluginError, match=r"outrider_drafters of mine .* expected a mapping"):
        Registry().add(module, source())


def test_a_hook_that_raises_is_reported_with_plugin_and_error():
    module = types.ModuleType("raising")

    @hookimpl
    def outrider_drafters():
        raise ZeroDivisionError("oops")

    module.outrider_drafters = outrider_drafters
    with pytest.raises(PluginError, match=r"outrider_drafters of mine .*ZeroDivisionError: oops"):
        Registry().add(module, source())


# --- installed plugins ---


class Point:
    """An entry point of a distribution that is not really installed."""

    def __init__(self, name, load):
        self.name = name
        self.dist = types.SimpleNamespace(name=f"outrider-{name}", version="0.3")
        self._load = load

    def load(self):
        return self._load()


def broken():
    raise ModuleNotFoundError("No module named 'torch'")


@pytest.fixture
def installed(monkeypatch):
    """Replaces the installed plugins by these, besides the built-in ones."""
    real = list(importlib.metadata.entry_points(group="outrider"))

    def install(**loads):
        from outrider.plugins import installed as registry

        points = [*real, *(Point(name, load) for name, load in loads.items())]
        monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points)
        registry.cache_clear()
        return registry()

    yield install
    from outrider.plugins import installed as registry

    monkeypatch.undo()
    registry.cache_clear()


def test_a_failing_import_is_reported_by_distribution_version_and_error(installed):
    registry = installed(broken=broken)
    [failure] = registry.failures
    assert str(failure.source) == "broken (outrider-broken 0.3)"
    assert failure.reason == "ModuleNotFoundError: No module named 'torch'"


def test_a_failing_import_takes_nobody_down(installed):
    installed(broken=broken)
    pipeline = Pipeline.load(overrides=["model=scripted", "engine=scripted", "drafter=suffix"])
    assert pipeline.drafter.name == "suffix"


def test_a_pipeline_that_needs_what_failed_says_why_it_is_missing(installed):
    installed(broken=broken)
    with pytest.raises(ConfigError) as caught:
        Pipeline.load(overrides=["drafter=eagle"])
    message = str(caught.value)
    assert "there is no drafter named 'eagle'" in message
    assert "broken (outrider-broken 0.3): ModuleNotFoundError: No module named 'torch'" in message


def test_an_automatic_choice_is_doubted_aloud_where_a_plugin_failed(installed, tmp_path, caplog):
    """It may have been the template that fits; taking another one silently would be a fallback."""
    installed(broken=broken)
    named = "template: {use: jinja}\nrollback: {use: snapshot-ring}\n"
    Pipeline.load(write(tmp_path / "p.yaml", named))
    assert not caplog.records
    Pipeline.load(write(tmp_path / "q.yaml", "drafter: none\n"))
    [record] = caplog.records
    said = record.getMessage()
    assert "q.yaml: chosen automatically: template qwen, rollback snapshot-ring. " in said
    assert "broken (outrider-broken 0.3): ModuleNotFoundError: No module named 'torch'. " in said
    caplog.clear()
    Pipeline.load(write(tmp_path / "r.yaml", "template: {use: jinja}\n"))
    assert "chosen automatically: rollback snapshot-ring. " in caplog.records[0].getMessage()


def test_a_plugin_that_breaks_a_contract_takes_nobody_down(installed):
    registry = installed(bad=lambda: offering("bad", NoPropose))
    [failure] = registry.failures
    assert "NoPropose must define" in failure.reason
    assert registry.find("drafter", "suffix") is not None
    assert registry.find("drafter", "bad") is None


def test_of_two_installed_plugins_that_claim_one_name_neither_wins_silently(installed):
    """Only a pipeline that uses the name is stopped, and the message names both."""
    registry = installed(copy=lambda: offering("suffix", RepeatLast))
    assert "suffix (outrider " in registry.failures[0].reason
    assert "copy (outrider-copy 0.3)" in registry.failures[0].reason
    keys = ["model=scripted", "engine=scripted"]
    assert Pipeline.load(overrides=[*keys, "drafter=mtp"]).drafter.name == "mtp"
    with pytest.raises(ConfigError, match=r"claimed twice.*outrider-copy 0\.3.*suffix \(outrider "):
        Pipeline.load(overrides=[*keys, "drafter=suffix"])


def test_the_allow_list_limits_what_is_loaded(monkeypatch):
    monkeypatch.setenv("OUTRIDER_PLUGINS", "suffix, greedy")
    registry = Registry()
    registry.load_installed()
    assert {(e.kind, e.name) for e in registry.entries()} == {
        ("drafter", "suffix"),
        ("sampler", "greedy"),
    }


def test_a_name_in_the_allow_list_that_is_not_installed_is_reported(monkeypatch):
    monkeypatch.setenv("OUTRIDER_PLUGINS", "suffix,sufix2")
    registry = Registry()
    registry.load_installed()
    assert [f.source.plugin for f in registry.failures] == ["sufix2"]
    assert "OUTRIDER_PLUGINS" in registry.failures[0].reason


def test_an_unknown_component_under_an_allow_list_says_so(monkeypatch):
    monkeypatch.setenv("OUTRIDER_PLUGINS", "suffix")
    registry = Registry()
    registry.load_installed()
    assert "OUTRIDER_PLUGINS" in registry.unknown("drafter", "mtp")


def test_hook_calls_can_be_traced(monkeypatch, capsys):
    monkeypatch.setenv("OUTRIDER_TRACE_PLUGINS", "1")
    Registry().add(offering("mine", RepeatLast), source())
    assert "outrider_drafters -> mine" in capsys.readouterr().err


def test_importing_the_built_in_plugins_is_cheap():
    """Nothing heavy at import: no model library, no server framework, no template engine."""
    import subprocess
    import sys

    code = (
        "import sys; from outrider.plugins import installed; installed();"
        "heavy = {'llama_cpp', 'fastapi', 'jinja2', 'jsonschema', 'torch', 'matplotlib'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- one-file plugins ---


def test_a_one_file_plugin_is_named_in_the_pipeline_file(tmp_path):
    write(tmp_path / "twice.py", ONE_FILE)
    pipeline = write(
        tmp_path / "p.yaml",
        """
        model: scripted
        engine: scripted
        plugins: [./twice.py]
        drafter: twice
        """,
    )
    with Pipeline.load(pipeline).open() as opened:
        stats = opened.generate("a b", max_tokens=20).stats
    assert stats["drafters"]["twice"]["proposed"] > 0


def test_a_missing_plugin_file_is_named_with_its_line(tmp_path):
    pipeline = write(tmp_path / "p.yaml", "drafter: none\nplugins:\n  - ./nowhere.py\n")
    with pytest.raises(ConfigError, match=r"p\.yaml:3: plugins\[0\]: plugin file not found:"):
        Pipeline.load(pipeline)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nothing_like_this\n", r"\(line 1\): ModuleNotFoundError: .*nothing_like_this"),
        ("x = 1\ny = x +\n", r"\(line 2\): SyntaxError"),
        ("\n\n1 / 0\n", r"\(line 3\): ZeroDivisionError"),
        ("def helper():\n    1 / 0\n\nhelper()\n", r"\(line 2\): ZeroDivisionError"),
    ],
)
def test_a_one_file_plugin_that_fails_says_where(tmp_path, text, message):
    plugin = write(tmp_path / "bad.py", text)
    pipeline = write(tmp_path / "p.yaml", "plugins: [bad.py]\n")
    with pytest.raises(PluginError, match=f"the plugin {plugin} cannot be imported {message}"):
        Pipeline.load(pipeline)


def test_the_line_is_found_for_relative_paths_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "bad.py", "\n\n1 / 0\n")
    write(tmp_path / "p.yaml", "plugins: [bad.py]\n")
    with pytest.raises(PluginError, match=r"bad\.py cannot be imported \(line 3\)"):
        Pipeline.load("p.yaml")


def test_a_plugin_that_exits_is_reported_like_any_other_failure(installed, tmp_path):
    def leave():
        raise SystemExit(3)

    assert installed(leaving=leave).failures[0].reason == "SystemExit: 3"
    write(tmp_path / "bad.py", "import sys\nsys.exit(3)\n")
    pipeline = write(tmp_path / "p.yaml", "plugins: [bad.py]\n")
    with pytest.raises(PluginError, match=r"\(line 2\): SystemExit: 3"):
        Pipeline.load(pipeline)


def test_a_refused_plugin_leaves_nothing_behind():
    registry = Registry()
    module = module_offering({"drafter": {"good": RepeatLast, "bad": NoPropose}})
    with pytest.raises(PluginError):
        registry.add(module, source())
    assert registry.entries() == []
    registry.add(offering("good", RepeatLast), source())
    assert registry.find("drafter", "good").cls is RepeatLast


def test_a_file_that_is_not_python_is_refused(tmp_path):
    write(tmp_path / "notes.txt", "hello")
    pipeline = write(tmp_path / "p.yaml", "plugins: [notes.txt]\n")
    with pytest.raises(PluginError, match=r"notes\.txt is not a Python file"):
        Pipeline.load(pipeline)


def test_a_one_file_plugin_without_hooks_is_refused(tmp_path):
    """A forgotten @hookimpl would otherwise do nothing, silently."""
    write(tmp_path / "idle.py", ONE_FILE.replace("@hookimpl", ""))
    pipeline = write(tmp_path / "p.yaml", "plugins: [idle.py]\n")
    with pytest.raises(PluginError, match=r"idle\.py implements no hook.*@hookimpl"):
        Pipeline.load(pipeline)


def test_two_one_file_plugins_of_one_name_do_not_clash(tmp_path):
    for folder, name in (("a", "one"), ("b", "two")):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / "same.py", ONE_FILE.replace('"twice"', f'"{name}"'))
    pipeline = write(
        tmp_path / "p.yaml",
        """
        model: scripted
        engine: scripted
        plugins: [a/same.py, b/same.py]
        drafter: {use: cascade, of: [one, two]}
        """,
    )
    assert [d.name for d in Pipeline.load(pipeline).drafter.drafters] == ["one", "two"]


def test_one_file_plugins_stay_with_their_pipeline(tmp_path):
    write(tmp_path / "twice.py", ONE_FILE)
    pipeline = write(
        tmp_path / "p.yaml", "model: scripted\nengine: scripted\nplugins: [twice.py]\n"
    )
    Pipeline.load(pipeline, overrides=["drafter=twice"])
    with pytest.raises(ConfigError, match="no drafter named 'twice'"):
        Pipeline.load(overrides=["drafter=twice"])


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ({"tiny": 7}, "offers 'tiny': 7; expected a path"),
        ({"good": "a.gguf", "tiny": None}, "offers 'tiny': None; expected a path"),
        ({7: "a.gguf"}, "offers the name 7; expected a text"),
    ],
)
def test_models_of_wrong_types_are_refused_with_all_of_the_plugin(models, message):
    module = offering("mine", RepeatLast)
    module.outrider_models = hookimpl(lambda: models)
    registry = Registry()
    with pytest.raises(PluginError, match=message):
        registry.add(module, source("one"))
    assert registry.find("drafter", "mine") is None
    assert not registry.models()


@pytest.mark.parametrize(
    ("kind", "base"), [("template", ChatTemplate), ("rollback", StateRollback)]
)
def test_what_cannot_be_used_without_an_option_is_not_chosen_automatically(
    scripted_pipeline, kind, base
):
    @attrs.frozen
    class Config:
        path: str

    required = {
        name: lambda self, *arguments: None
        for alternatives in KINDS[kind].required
        for name in alternatives
    }
    mine = type("Mine", (base,), {**required, "Config": Config, "cost": -1})
    pipeline = scripted_pipeline({"drafter": "suffix"}, offers={kind: {"mine": mine}})
    assert pipeline.generate([260, 261], max_tokens=3).token_ids
    assert "mine" not in pipeline.plan().values()
