"""Every hook works, is documented with its exact signature, and has a test here."""

import re
import sys
import types
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from outrider import (
    Accepted,
    ChatTemplate,
    Component,
    ConstraintFactory,
    Draft,
    Drafter,
    DraftLength,
    Observer,
    Pipeline,
    PrefixCache,
    Prompt,
    Sampler,
    StateRollback,
    Verifier,
    hookimpl,
)
from outrider.plugins import KINDS, Registry, Source, installed
from outrider.testing import registry_offering

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import plugin_reference  # noqa: E402

HOOKS = plugin_reference.hooks()
DOCUMENT = (ROOT / "docs" / "writing-plugins.md").read_text(encoding="utf-8")


def offered(kind, cls):
    """The entry of a class that a plugin offers through its kind's hook."""
    entry = registry_offering({kind: {"mine": cls}}).find(kind, "mine")
    assert entry.cls is cls
    assert entry.source.plugin == "under test"
    return entry


# --- one test for every hook ---


def test_outrider_drafters(scripted_pipeline):
    class Mine(Drafter):
        def propose_one(self, sequence, limit):
            return Draft([sequence.anchor])

    pipeline = scripted_pipeline({"drafter": "mine"}, offers={"drafter": {"mine": Mine}})
    assert pipeline.generate("a", max_tokens=9).stats["drafters"]["mine"]["proposed"] > 0


def test_outrider_draft_lengths(scripted_pipeline):
    class Mine(DraftLength):
        max = 2

        def choose(self, sequences):
            return [2 for _ in sequences]

    keys = {"drafter": "echo", "draft_length": "mine"}
    pipeline = scripted_pipeline(keys, offers={"draft_length": {"mine": Mine}})
    assert set(pipeline.generate("a", max_tokens=31).stats["draft_lengths"]) == {"2"}


def test_outrider_verifiers(scripted_pipeline):
    calls = []

    class Mine(Verifier):
        def open(self, runtime):
            self.target = runtime.engine.target

        def verify(self, sequences, drafts):
            calls.append(len(sequences))
            batch = self.target.batch
            batch.clear()
            rows = [
                batch.extend([s.anchor, *d.tokens], s.slot.length, s.id, True)
                for s, d in zip(sequences, drafts, strict=True)
            ]
            self.target.decode()
            return rows

    pipeline = scripted_pipeline({"verifier": "mine"}, offers={"verifier": {"mine": Mine}})
    pipeline.generate("a", max_tokens=5)
    assert calls == [1] * 4


def test_outrider_samplers(scripted_pipeline):
    class Mine(Sampler):
        def accept(self, sequences, drafts, rows):
            return [Accepted(0, 260) for _ in rows]

    pipeline = scripted_pipeline({"sampler": "mine"}, offers={"sampler": {"mine": Mine}})
    assert pipeline.generate("a", max_tokens=3).token_ids == (260, 260, 260)


def test_outrider_rollbacks(scripted_pipeline):
    rewound = []

    class Mine(StateRollback):
        def open(self, runtime):
            self.target = runtime.engine.target

        def ring_depth(self, max_draft):
            return max_draft

        def reach(self, slot):
            return slot.ring_reach(self.target.ring_depth)

        def rewind(self, sequences, counts):
            for sequence, count in zip(sequences, counts, strict=True):
                if count:
                    rewound.append(count)
                    assert self.target.truncate(sequence.id, sequence.slot.length - count)
                    sequence.slot.cut(count)

    keys = {"rollback": "mine", "drafter": "always-wrong"}
    pipeline = scripted_pipeline(keys, offers={"rollback": {"mine": Mine}})
    pipeline.generate("a", max_tokens=9)
    assert rewound
    assert all(count == 3 for count in rewound[:-3])


def test_outrider_caches(scripted_pipeline):
    asked = []

    class Mine(PrefixCache):
        def prepare(self, request, slots, states):
            asked.append(len(request.prompt))
            return super().prepare(request, slots, states)

    pipeline = scripted_pipeline({"cache": "mine"}, offers={"cache": {"mine": Mine}})
    pipeline.generate([1, 2, 3], max_tokens=2)
    assert asked == [3]


def test_outrider_templates(scripted_pipeline):
    class Mine(ChatTemplate):
        def render(self, request):
            return Prompt("text", 4)

        def parser(self, request, prompt):
            raise NotImplementedError

    pipeline = scripted_pipeline({"template": "mine"}, offers={"template": {"mine": Mine}})
    assert pipeline.template.render({}).text == "text"


def test_outrider_constraints(scripted_pipeline):
    class Mine(ConstraintFactory):
        def make(self, request, prompt):
            return None

    pipeline = scripted_pipeline({"constraints": ["mine"]}, offers={"constraint": {"mine": Mine}})
    assert [c.name for c in pipeline.constraints] == ["mine"]


def test_outrider_observers(scripted_pipeline):
    seen = []

    class Mine(Observer):
        def started(self, sequence):
            seen.append("started")

        def step(self, sequences, steps):
            seen.append("step")

        def finished(self, sequence):
            seen.append("finished")

    pipeline = scripted_pipeline({"observers": ["mine"]}, offers={"observer": {"mine": Mine}})
    pipeline.generate("a", max_tokens=3)
    assert seen == ["started", "step", "step", "finished"]


def test_outrider_engines():
    class Mine(Component):
        kind = "engine"

        def inspect(self, path):
            raise NotImplementedError

        def load(self, plan, progress=None):
            raise NotImplementedError

        fingerprint = "none"

        def clock_ns(self):
            return 0

        def busy_ns(self):
            return 0

        def memory(self):
            return {}

        def close(self):
            pass

    offered("engine", Mine)


def test_outrider_models(tmp_path):
    (tmp_path / "tiny.gguf").write_bytes(b"GGUF")
    module = types.ModuleType("models")
    module.outrider_models = hookimpl(lambda: {"tiny": tmp_path / "tiny.gguf"})
    registry = Registry()
    registry.add(module, Source("mine", "", ""))
    assert registry.model_path("tiny", Path("/elsewhere")) == tmp_path / "tiny.gguf"


def test_outrider_commands():
    module = types.ModuleType("commands")

    @hookimpl
    def outrider_commands(group):
        @group.command()
        def hello():
            click.echo("hello")

    module.outrider_commands = outrider_commands
    registry = Registry()
    registry.add(module, Source("mine", "", ""))
    group = click.Group()
    registry.add_commands(group)
    assert CliRunner().invoke(group, ["hello"]).output == "hello\n"


# --- about the hooks ---


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_has_a_test_here(hook):
    assert callable(globals().get(f"test_{hook}")), f"write test_{hook}"


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_is_documented_with_its_exact_signature(hook):
    assert f"    {plugin_reference.signature(HOOKS[hook])}\n" in DOCUMENT


def test_every_kind_has_a_hook_and_the_other_way_round():
    of_kinds = {kind.hook for kind in KINDS.values()}
    assert set(HOOKS) - of_kinds == {"outrider_models", "outrider_commands"}
    assert of_kinds <= set(HOOKS)


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda k: k.name)
def test_every_hook_names_what_is_built_in(kind):
    built_in = [
        e.name
        for e in installed().entries(kind.name)
        if e.source.distribution == "outrider"
        and (e.source.plugin != "testing" or kind.name == "engine")
    ]
    said = " ".join(HOOKS[kind.hook].__doc__.split())
    assert f"Built in: {', '.join(built_in)}." in said


@pytest.mark.parametrize("cls", plugin_reference.COMPONENTS, ids=lambda c: c.__name__)
def test_every_component_is_documented_with_every_method(cls):
    section = DOCUMENT.partition(f"### `{cls.__name__}`\n")[2].partition("\n### ")[0]
    for entry in plugin_reference.members(cls):
        assert f"- {entry}" in section, "run python scripts/plugin_reference.py"


def test_every_kind_of_component_is_in_the_reference():
    documented = set(plugin_reference.COMPONENTS) | {Component}
    assert {kind.base for kind in KINDS.values()} <= documented


# --- the tutorial is true ---


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", DOCUMENT, re.DOTALL)


def test_the_tutorials_drafter_runs_from_its_yaml(tmp_path):
    drafter, *_ = blocks("python")
    pipeline, *_ = blocks("yaml")
    (tmp_path / "repeat_last.py").write_text(drafter)
    (tmp_path / "pipeline.yaml").write_text(pipeline)
    keys = ["model=scripted", "engine=scripted"]
    with Pipeline.load(tmp_path / "pipeline.yaml", overrides=keys).open() as opened:
        stats = opened.generate("a b c", max_tokens=30).stats
    assert stats["drafters"]["repeat-last"]["proposed"] > 0


def test_the_tutorials_drafter_with_options_takes_them(tmp_path):
    first, with_options, *_ = blocks("python")
    imports, _, rest = first.partition("\n\n\n")
    hook = rest.partition("@hookimpl")[2]
    (tmp_path / "repeat_last.py").write_text(f"{imports}\n{with_options}\n@hookimpl{hook}")
    (tmp_path / "p.yaml").write_text(
        "model: scripted\nengine: scripted\nplugins: [repeat_last.py]\n"
        "drafter: {use: repeat-last, most: 1}\n"
    )
    with Pipeline.load(tmp_path / "p.yaml").open() as opened:
        assert set(opened.generate("a", max_tokens=30).stats["draft_lengths"]) <= {"0", "1"}


def test_the_tutorials_test_module_passes(tmp_path, monkeypatch):
    first, _, test, *_ = blocks("python")
    (tmp_path / "repeat_last.py").write_text(first)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "repeat_last", raising=False)
    module = {}
    exec(test, module)
    suite = module["TestRepeatLast"]()
    suite.test_an_unknown_option_is_an_error()
    suite.test_sequences_do_not_mix()
    suite.test_greedy_output_equals_plain_decoding(0, 3)
