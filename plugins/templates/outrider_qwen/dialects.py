"""The versions of the Qwen conversation format, as the differences between them."""

from __future__ import annotations

import hashlib
from enum import Enum

import attrs
from outrider.chat import QWEN_EFFORTS


class History(Enum):
    """When earlier assistant turns keep their thinking."""

    DROPPED = "only turns after the last question keep it"
    ON_REQUEST = "kept when preserve_thinking is true"
    KEPT = "kept unless preserve_thinking says otherwise"


@attrs.frozen
class Dialect:
    """One version of the format."""

    name: str
    history: History = History.KEPT
    efforts: tuple[str, ...] = ()
    """Reasoning efforts it knows, the default first; empty: it has none."""
    json_scalars: bool = True
    """Numbers, booleans and null in call arguments as JSON (False: in Python spelling)."""
    splits_inline_thinking: bool = False
    """`…</think>` inside an assistant's content is taken for its thinking."""
    empty_system_block: bool = False
    """A blank system message still produces a system block (without tools)."""
    merges_systems: bool = False
    """Several leading system or developer messages become one."""
    needs_question: bool = True
    """A conversation without a user's question is an error."""
    explains_arguments: bool = False
    """Arguments that are not an object: the error names the function."""
    thinks_by_default: bool = True
    """False: the generation prompt opens a thinking block only when asked to."""


_BEFORE_38 = {"splits_inline_thinking": True, "empty_system_block": True}

QWEN35 = Dialect("qwen3.5", History.DROPPED, json_scalars=False, **_BEFORE_38)
QWEN35_NOTHINK = attrs.evolve(QWEN35, name="qwen3.5-nothink", thinks_by_default=False)
QWEN36 = Dialect("qwen3.6", History.ON_REQUEST, **_BEFORE_38)
QWEN38 = Dialect("qwen3.8", efforts=QWEN_EFFORTS)
QWEN38_UNSLOTH = Dialect(
    "qwen3.8-unsloth",
    efforts=QWEN_EFFORTS,
    merges_systems=True,
    needs_question=False,
    explains_arguments=True,
)

DIALECTS = (QWEN38, QWEN38_UNSLOTH, QWEN36, QWEN35, QWEN35_NOTHINK)

# SHA-256 of template texts that were compared in full. A known text needs no probing; an unknown
# one is judged by what it does (see `recognise`).
_KNOWN = {
    "c3cf9e34abf4f9e36c2d72165aa9c132d3e2a725b6c2586aaa3a8af9d7a81041": QWEN38,
    "12827f24b742ea4e80cdc12dbcf9622227056b9f797252a3149263d4f9aaadce": QWEN38_UNSLOTH,
    "e84f32a23fdda27689f868aa4a1a5621f41133e51a48d7f3efcbea2839574259": QWEN36,
    "a4aee8afcf2e0711942cf848899be66016f8d14a889ff9ede07bca099c28f715": QWEN35,
}


def known_dialect(template: str) -> Dialect | None:
    """The dialect of a template text that was compared byte for byte before."""
    # Jinja drops up to two line ends after the last tag: one of the file, one of the block.
    for _ in range(2):
        template = template.removesuffix("\n")
    return _KNOWN.get(hashlib.sha256(template.encode()).hexdigest())
