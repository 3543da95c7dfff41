"""Every recorded request renders to the recorded bytes, or is refused with the reason."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from outrider import RequestError
from outrider_jinja.rendering import JinjaRenderer
from outrider_qwen.recognise import recognise
from outrider_qwen.rendering import NativeRenderer

from tests.plugins.templates.vectors import (
    MAPPED_EFFORTS,
    body_of,
    has_images,
    is_mapped,
    read_records,
    template_text,
    wanted_prompt,
)

RECORDS = read_records("template-parity")
NATIVE = ("qwen3.5", "qwen3.6", "qwen3.8", "qwen3.8-unsloth")
FOREIGN = ("qwen3-0.6b", "qwen3-coder")


def native(template: str) -> NativeRenderer:
    dialect = recognise(template_text(template)).dialect
    assert dialect is not None
    return NativeRenderer(dialect)


def outcome(renderer: Any, record: dict[str, Any]) -> str | None:
    try:
        chat = renderer.read(body_of(record), images=has_images(record))
        return renderer.render(chat).text
    except RequestError:
        return None


def records_of(template: str) -> list[dict[str, Any]]:
    return [r for r in RECORDS if r["template"] == template and not is_mapped(r)]


def test_all_788_records_are_here() -> None:
    assert len(RECORDS) == 788
    assert {r["template"] for r in RECORDS} == {*NATIVE, *FOREIGN}


@pytest.mark.parametrize("template", NATIVE)
def test_native_rendering_is_the_recorded_one(template: str) -> None:
    renderer = native(template)
    wrong = [r["id"] for r in records_of(template) if outcome(renderer, r) != wanted_prompt(r)]
    assert wrong == []


@pytest.mark.parametrize("template", [*NATIVE, *FOREIGN])
def test_jinja_rendering_is_the_recorded_one(template: str) -> None:
    renderer = JinjaRenderer(template_text(template))
    wrong = [r["id"] for r in records_of(template) if outcome(renderer, r) != wanted_prompt(r)]
    assert wrong == []


@pytest.mark.parametrize("record", [r for r in RECORDS if is_mapped(r)], ids=lambda r: r["id"])
def test_a_foreign_effort_renders_as_the_level_it_is_mapped_to(record: dict[str, Any]) -> None:
    renderer = native(record["template"])
    request = copy.deepcopy(record["request"])
    where = request if "reasoning_effort" in request else request["chat_template_kwargs"]
    where["reasoning_effort"] = MAPPED_EFFORTS[where["reasoning_effort"]]
    expected = renderer.render(renderer.read(request)).text
    assert outcome(renderer, record) == expected


@pytest.mark.parametrize(
    "record",
    [r for r in RECORDS if r.get("raise") and not is_mapped(r) and r["template"] in NATIVE],
    ids=lambda r: r["id"],
)
def test_a_refusal_says_what_the_template_says_or_more(record: dict[str, Any]) -> None:
    renderer = native(record["template"])
    with pytest.raises(RequestError) as refusal:
        renderer.render(renderer.read(body_of(record), images=has_images(record)))
    ours = {
        "No messages provided.": "continue_final_message needs an assistant message",
        "Unexpected item type in content.": "content parts of type 'audio' are not supported",
    }
    said = str(refusal.value)
    assert record["raise"] in said or ours.get(record["raise"], "-") in said


def test_the_two_renderers_agree_where_the_text_ends_and_the_answer_begins() -> None:
    for template in NATIVE:
        ours, theirs = native(template), JinjaRenderer(template_text(template))
        for record in records_of(template):
            if wanted_prompt(record) is None:
                continue
            body, images = body_of(record), has_images(record)
            a = ours.render(ours.read(body, images=images))
            b = theirs.render(theirs.read(body, images=images))
            assert (a.history, a.thinking) == (b.history, b.thinking), record["id"]
