"""The tables of options: whole, and those of the installed plugins."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import generated
import option_reference
import pytest
from outrider.config import option_fields, option_texts
from outrider.plugins import KINDS
from outrider.settings import raise_problems, read_config, registry_for
from outrider.yamlfile import parse_yaml

DOCUMENT = option_reference.DOCUMENT.read_text(encoding="utf-8")
ENTRIES = [e for kind in KINDS for e in option_reference.entries(kind)]


def test_the_document_is_up_to_date() -> None:
    text = option_reference.reference()
    wanted = generated.document(DOCUMENT, option_reference.START, text)
    assert wanted == DOCUMENT, "run python scripts/option_reference.py"


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: f"{e.kind} {e.name}")
def test_every_option_says_what_it_does(entry) -> None:
    assert entry.cls.__doc__
    assert option_texts(entry.cls.Config).keys() == option_fields(entry.cls.Config).keys()


def test_no_folder_of_the_machine_is_named() -> None:
    assert str(Path.home()) not in DOCUMENT.replace("~", "")


def test_defaults_and_required_options() -> None:
    @attrs.frozen
    class Options:
        given: int
        path: Path = attrs.field(factory=lambda: Path.home() / "x")
        off: bool = False
        texts: tuple[str, ...] = ()

    fields = option_fields(Options)
    said = [option_reference.default(field) for field in fields.values()]
    assert said == ["to be given", "`~/x`", "false", "empty"]


def test_the_example_is_a_pipeline() -> None:
    [example] = re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)
    document = parse_yaml(example, "(example)", Path.cwd())
    assert read_config(document, registry_for(document)) is not None
    raise_problems(document.problems)
