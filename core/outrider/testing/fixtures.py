"""Fixtures for plugins' tests; pytest finds them through the `pytest11` entry point.

Nothing heavy is imported until a fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from outrider.pipeline import Pipeline

# the contracts are test code: show what was compared when one fails
pytest.register_assert_rewrite("outrider.testing.contracts")

OpenScripted = Callable[..., "Pipeline"]


@pytest.fixture
def scripted_pipeline() -> Iterator[OpenScripted]:
    """Opens pipelines on the scripted engine and closes them after the test.

    `scripted_pipeline({"drafter": "mine"}, offers={"drafter": {"mine": MyDrafter}})` takes the keys
    of a pipeline file, and component classes that are not installed; see
    `outrider.testing.make_pipeline`.
    """
    from outrider.testing.harness import opened

    with ExitStack() as stack:

        def open_one(
            keys: Mapping[str, Any] | None = None,
            *,
            offers: Mapping[str, Mapping[str, type[Any]]] | None = None,
        ) -> Pipeline:
            return stack.enter_context(opened(keys, offers=offers))

        yield open_one


@pytest.fixture
def scripted(scripted_pipeline: OpenScripted) -> Pipeline:
    """An open pipeline on the scripted engine that decodes plainly."""
    return scripted_pipeline()
