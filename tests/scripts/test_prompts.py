"""The fixed prompts: five families, and the same tokens for every engine."""

from __future__ import annotations

import pytest
from bench import prompts


@pytest.mark.parametrize("family", prompts.FAMILIES)
def test_a_family_has_at_least_eight_prompts_with_names_of_their_own(family):
    names = [entry["name"] for entry in prompts.read(family)]
    assert len(names) >= 8
    assert len(set(names)) == len(names)


def test_an_unknown_family_is_answered_with_the_known_ones():
    with pytest.raises(SystemExit, match=r"no prompt family 'poetry'.*prose"):
        prompts.read("poetry")


def test_prompts_become_tokens_that_spell_their_text(plain):
    found = prompts.load(plain)
    assert {p.family for p in found} == set(prompts.FAMILIES)
    for prompt in found:
        spelt = plain.engine.vocabulary.detokenize(prompt.tokens).decode()
        assert spelt == prompt.text, prompt.name
        assert 10 < len(prompt.tokens) < 2000


def test_a_raw_prompt_ends_where_the_typing_stopped(plain):
    found = {p.name: p.text for p in prompts.load(plain, ["code-completion"])}
    assert found["stack-class"].endswith("def peek(self):")


def test_tools_are_in_the_rendered_prompt(plain):
    found = {p.name: p.text for p in prompts.load(plain, ["structured"], 1)}
    assert "get_current_weather" in found["tool-weather"]
    assert found["tool-weather"].count("<|im_start|>assistant") == 1
