"""What holds for a component of any kind."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import attrs
import numpy as np
import pytest

from outrider.errors import ConfigError
from outrider.pipeline import Pipeline
from outrider.plugins import KINDS, Entry, contract_problem
from outrider.sequence import Request
from outrider.settings import LISTS
from outrider.step import Draft
from outrider.testing.harness import Offers, decode_all, make_pipeline, opened, registry_offering


class ComponentContract:
    """Base of the contracts; a subclass for a component sets the attributes below.

    `use` is needed, `offers` where the class is not installed, `keys` where the component needs
    other company than the defaults. Contracts of some kinds read more attributes; each says so.
    """

    kind: ClassVar[str] = ""
    use: ClassVar[str | Mapping[str, Any]] = ""
    """The component as it is written in a pipeline file: its name, or name and options."""
    offers: ClassVar[Offers] = {}
    """Component classes that are not installed, by kind and name."""
    keys: ClassVar[Mapping[str, Any]] = {}
    """Further keys of the pipeline file, for example options of the engine.

    A test that depends on another value (a draft length, say) overrides it; options of the
    engine are merged.
    """

    @property
    def component_name(self) -> str:
        """The name under which the component is offered."""
        return self.use if isinstance(self.use, str) else str(self.use["use"])

    def pipeline_keys(self, **more: Any) -> dict[str, Any]:
        """The keys of a pipeline with the component in it."""
        merged: dict[str, Any] = {**self.keys, **more}
        engine = {**dict(self.keys.get("engine", {})), **dict(more.get("engine", {}))}
        if engine:
            merged["engine"] = engine
        lists = {kind: key for key, kind in LISTS.items()}
        if self.kind in lists:
            merged[lists[self.kind]] = [self.use]
        else:
            merged[self.kind] = self.use
        return merged

    def opened(self, **more: Any) -> AbstractContextManager[Pipeline]:
        """An open pipeline on the scripted engine with the component in it."""
        return opened(self.pipeline_keys(**more), offers=self.offers)

    def entry(self) -> Entry:
        """The component as the registry knows it."""
        found = registry_offering(self.offers).find(self.kind, self.component_name)
        assert found is not None, f"no installed plugin offers the {self.kind} {self.use!r}"
        return found

    # --- the contract -------------------------------------------------------------------------

    def test_its_class_keeps_the_protocol(self) -> None:
        """The checks of registration: base class, required methods, signatures, options."""
        assert contract_problem(KINDS[self.kind], self.entry().cls) is None

    def test_it_says_what_it_is(self) -> None:
        """`outrider plugins` shows the first line of the docstring."""
        cls = self.entry().cls
        base = KINDS[self.kind].base
        assert cls is base or (cls.__doc__ and cls.__doc__ != base.__doc__), "no docstring"

    def test_an_unknown_option_is_an_error(self) -> None:
        """Options are the fields of `Config`, and nothing else."""
        spec: dict[str, Any] = {"use": self.use} if isinstance(self.use, str) else dict(self.use)
        keys = self.pipeline_keys()
        for key, value in keys.items():
            if value == self.use:
                keys[key] = {**spec, "no_such_option": 1}
            elif value == [self.use]:
                keys[key] = [{**spec, "no_such_option": 1}]
        with pytest.raises(ConfigError, match="no_such_option: unknown option"):
            make_pipeline(keys, offers=self.offers)

    def test_it_opens_and_closes(self) -> None:
        """Closing twice, or without having been opened, is harmless."""
        make_pipeline(self.pipeline_keys(), offers=self.offers).close()
        with self.opened() as pipeline:
            pass
        pipeline.close()

    def test_its_statistics_can_be_printed(self) -> None:
        """`--json` writes them: before anything was decoded, and afterwards."""
        with self.opened() as pipeline:
            for asked in ([], requests(pipeline, 2)):
                decode_all(pipeline, asked)
                numbers = pipeline.summary().get("components", {})
                check_json(numbers, f"the statistics of the {self.kind}")


def check_json(numbers: Any, what: str) -> None:
    """Fail with a sentence where `json.dumps` would fail, or would write what is no JSON."""
    try:
        json.dumps(numbers, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise AssertionError(f"{what} cannot be written as JSON: {error}") from None


def prompts(pipeline: Pipeline, count: int, seed: int = 0) -> list[list[int]]:
    """Prompts of 1 to 40 tokens, some of them repetitive."""
    draw = random.Random(seed)
    words = list(getattr(pipeline.engine.vocabulary, "words", range(pipeline.model.n_vocab)))
    made: list[list[int]] = []
    for i in range(count):
        part = [draw.choice(words) for _ in range(draw.randint(1, 10))]
        made.append(part * draw.randint(1, 4) if i % 2 else part)
    return made


def requests(
    pipeline: Pipeline, count: int, *, max_tokens: int = 40, seed: int = 0
) -> list[Request]:
    """Requests for so many tokens."""
    return [Request(prompt=p, max_tokens=max_tokens) for p in prompts(pipeline, count, seed)]


@attrs.define
class Recorded:
    """Every proposal of a drafter: slot, position, how many tokens were asked for, which came."""

    calls: list[tuple[int, int, int, tuple[int, ...]]] = attrs.field(
        factory=list[tuple[int, int, int, tuple[int, ...]]]
    )

    def by_position(self) -> dict[int, tuple[int, tuple[int, ...]]]:
        """Limit and tokens by position, where only one sequence was decoded."""
        return {position: (limit, tokens) for _, position, limit, tokens in self.calls}


def check_q(draft: Draft, size: int) -> None:
    """Fail where the distributions of a draft are none, or are not those of its tokens."""
    if draft.q is None:
        return
    assert len(draft.q) == len(draft.tokens), "one q a token"
    for token, law in zip(draft.tokens, draft.q, strict=True):
        if law is None:
            continue
        ids, probs = law.ids, law.probs
        assert ids.dtype == np.int32, f"the ids of q are {ids.dtype}; expected int32"
        assert probs.dtype == np.float64, f"the probs of q are {probs.dtype}; expected float64"
        assert ids.shape == probs.shape == (ids.size,), "one probability an id of q"
        assert len(np.unique(ids)) == len(ids), "q names a token twice"
        assert ((ids >= 0) & (ids < size)).all(), "q names tokens that do not exist"
        assert (probs >= 0).all(), "q has probabilities below 0"
        total = float(probs.sum())
        assert abs(total - 1) < 1e-4, f"the probabilities of q sum to {total:.6f}"
        assert probs[ids == token].sum() > 0, f"token {token} cannot have been drawn from its q"


def record_proposals(pipeline: Pipeline) -> Recorded:
    """Record what the pipeline's drafter proposes from now on, and check it."""
    recorded = Recorded()
    drafter = pipeline.drafter
    propose = drafter.propose
    vocabulary = range(pipeline.engine.vocabulary.size)

    def checked(sequences: Sequence[Any], limits: Sequence[int]) -> Sequence[Any]:
        before = [list(s.tokens) for s in sequences]
        drafts = propose(sequences, limits)
        assert len(drafts) == len(sequences), "one draft a sequence"
        assert [s.tokens for s in sequences] == before, "proposing must change no sequence"
        for sequence, limit, draft in zip(sequences, limits, drafts, strict=True):
            assert len(draft.tokens) <= limit, f"{len(draft.tokens)} tokens; asked for {limit}"
            assert all(t in vocabulary for t in draft.tokens), f"no tokens: {draft.tokens}"
            check_q(draft, len(vocabulary))
            if limit:
                call = (sequence.id, len(sequence.tokens), limit, tuple(map(int, draft.tokens)))
                recorded.calls.append(call)
        return drafts

    drafter.propose = checked  # pyright: ignore[reportAttributeAccessIssue]
    return recorded
