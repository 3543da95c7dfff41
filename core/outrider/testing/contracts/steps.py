"""What every verifier, sampler and rollback must do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

import attrs
import pytest

from outrider.components import Sampler
from outrider.errors import EngineError
from outrider.pipeline import Pipeline
from outrider.sequence import Request
from outrider.step import Draft
from outrider.target import ModelInfo
from outrider.testing.contracts.base import ComponentContract, prompts, requests
from outrider.testing.contracts.chance import ALARM, same_law
from outrider.testing.doubles import EveryThird
from outrider.testing.harness import decode_all, emitted, plain_tokens

_ECHO = {"use": "echo", "accuracy": [0.7]}
_RANDOM = {"use": "random", "max": 5}

_FEW_WORDS = {"odds": [0.4, 0.25, 0.14, 0.09, 0.05], "predictable": 0.0}
"""A model with five likely words: what drafts do to them shows in few samples."""
_SAMPLES = 3000
"""Requests a side. A bias of an eighth in probability is found as good as always."""
_DRAFTS: Mapping[str, Mapping[str, Any]] = {
    "nothing": {"ranks": []},
    "point masses, the likeliest first": {"ranks": [0, 1]},
    "point masses, the second likeliest first": {"ranks": [1, 0]},
    "drawn tokens": {"ranks": [None, None]},
    "a drawn token and a point mass": {"ranks": [None, 1]},
    "tokens that it drew itself": {"ranks": [None, None], "by": "sampler"},
}


class VerifierContract(ComponentContract):
    """One target call for all sequences, and rows that mean what they should."""

    kind = "verifier"

    def test_rows_predict_what_follows_them(self) -> None:
        """Row i of a sequence is the model's answer after anchor and i drafts."""
        with self.opened(max_sequences=3, draft_length={"use": "fixed", "k": 4}) as pipeline:
            target: Any = pipeline.engine.target
            active = [pipeline.start(r) for r in requests(pipeline, 3)]
            words = pipeline.engine.vocabulary.size - 10
            drafts = [Draft([words - i, words]) if i else Draft() for i in range(3)]
            decodes = target.decodes
            rows = pipeline.verifier.verify(active, drafts)
            assert target.decodes == decodes + 1, "exactly one target call"
            assert len(rows) == 3
            for sequence, draft, row in zip(active, drafts, rows, strict=True):
                for i in range(len(draft) + 1):
                    seen = [*sequence.tokens, *draft.tokens[:i]]
                    assert [target.argmax(row + i)] == plain_tokens(
                        pipeline, seen, 1, ignore_eog=True
                    )

    def test_output_equals_plain_decoding(self) -> None:
        """In joint batches with another draft length for every sequence in every step."""
        with self.opened(drafter=_ECHO, draft_length=_RANDOM, max_sequences=3) as pipeline:
            asked = requests(pipeline, 5)
            for sequence, request in zip(decode_all(pipeline, asked), asked, strict=True):
                assert emitted(sequence) == plain_tokens(pipeline, request.prompt, 40)


class SamplerContract(ComponentContract):
    """It accepts a prefix, changes nothing until it commits, and drafts do not move it.

    A sampler that draws needs an option `seed`, if the same request is to repeat. Its
    distributions with and without drafts are compared by chi-square over thousands of requests,
    with one false alarm in a million runs. Reads `exact`.
    """

    kind = "sampler"
    keys: ClassVar[Mapping[str, Any]] = {"engine": {"peak": 2.0}}
    """`peak` is the logit of the most likely token; the others' lie between 0 and 1. A low one
    lets a sampler with a temperature say almost anything. Tests of the distribution use the
    engine's `odds` instead, a few likely tokens of known probability."""
    exact: ClassVar[bool] = True
    """Whether the emitted distribution must not depend on drafts (false for benchmark aids)."""

    def test_it_accepts_prefixes_and_asking_changes_nothing(self) -> None:
        """`accept` twice gives the same answers; counts and tokens are within bounds."""
        with self.opened(drafter=_ECHO, draft_length=_RANDOM, max_sequences=2) as pipeline:
            accept = pipeline.sampler.accept
            size = pipeline.engine.vocabulary.size

            def checked(sequences: Any, drafts: Any, rows: Any) -> Any:
                answers = accept(sequences, drafts, rows)
                assert list(accept(sequences, drafts, rows)) == list(answers)
                for draft, answer in zip(drafts, answers, strict=True):
                    assert 0 <= answer.count <= len(draft.tokens)
                    assert 0 <= answer.token < size
                return answers

            pipeline.sampler.accept = checked  # pyright: ignore[reportAttributeAccessIssue]
            decode_all(pipeline, requests(pipeline, 4))

    def test_a_request_repeats_with_its_seed(self) -> None:
        """Alone or with others, the same options give the same tokens."""
        sampling = self._seeded(11)
        runs: list[list[int]] = []
        for slots in (1, 1, 3):
            with self.opened(
                drafter=_ECHO, draft_length={"use": "fixed", "k": 3}, max_sequences=slots
            ) as pipeline:
                asked = [
                    Request(prompt=r.prompt, max_tokens=30, sampling=sampling)
                    for r in requests(pipeline, 3)
                ]
                runs.append(emitted(decode_all(pipeline, asked)[0]))
        assert runs[0] == runs[1] == runs[2]

    def test_drafts_do_not_change_what_is_emitted(self) -> None:
        """The tokens of the first step have the law of plain decoding, whatever is drafted.

        Drafts are point masses of likely tokens, and tokens drawn from a q that is far from the
        model's distribution: by the drafter, and by the sampler where it draws. Compared is
        which of the model's likeliest tokens were emitted, so that requests with other prompts
        and other first tokens count as one sample.
        """
        if not self.exact:
            pytest.skip("this sampler changes the distribution on purpose")
        self._check_law(constrained=False)

    def test_drafts_do_not_change_what_is_emitted_under_a_constraint(self) -> None:
        """The same, where only a third of the tokens is legal."""
        if not self.exact:
            pytest.skip("this sampler changes the distribution on purpose")
        self._check_law(constrained=True)

    def test_it_holds_the_constraint(self) -> None:
        """Whatever is drafted, every token is one that the constraint allows."""
        sampling = self._seeded(5)
        for name in self._kinds_of_drafts():
            with self._sampling(name, k=2) as pipeline:
                size = pipeline.engine.vocabulary.size
                for request in requests(pipeline, 12):
                    asked = attrs.evolve(request, sampling=sampling, constraint=EveryThird(size))
                    fresh = EveryThird(size)
                    for token in emitted(decode_all(pipeline, [asked])[0]):
                        assert fresh.allows((), token), (
                            f"token {token} is forbidden by `sequence.constraint` (drafts: {name})"
                        )
                        fresh.commit([token])

    def _check_law(self, *, constrained: bool) -> None:
        plain, plain_pairs = self._ranks("nothing", constrained=constrained)
        for name in self._kinds_of_drafts():
            if name != "nothing":
                drafted, pairs = self._ranks(name, constrained=constrained)
                chance = min(same_law(plain, drafted), same_law(plain_pairs, pairs))
                assert chance > ALARM, (
                    f"with drafts ({name}) other tokens are emitted than without: how often the "
                    f"likeliest was, the second likeliest, …: {_shares(drafted)}; without drafts "
                    f"{_shares(plain)}. By chance: {chance:.0e}"
                )

    def _ranks(
        self, name: str, *, constrained: bool
    ) -> tuple[Counter[Hashable], Counter[Hashable]]:
        """The rank of the first token of a step, and that of the first two, of many requests."""
        first: Counter[Hashable] = Counter()
        both: Counter[Hashable] = Counter()
        side, seeded = list(_DRAFTS).index(name), bool(self._seeded(0))
        with self._sampling(name, k=2) as pipeline:
            count = 64 if pipeline.sampler.greedy else _SAMPLES
            size = pipeline.engine.vocabulary.size
            asked = prompts(pipeline, 16)
            for n in range(count):
                request = Request(
                    prompt=asked[n % len(asked)][:4],
                    max_tokens=4,
                    # other seeds on every side: the samples are independent
                    sampling={"seed": side * count + n} if seeded else {},
                    constraint=EveryThird(size) if constrained else None,
                )
                ranks = _first_ranks(pipeline, request)
                first[ranks[0]] += 1
                both[ranks] += 1
        return first, both

    def _sampling(self, name: str, *, k: int) -> Any:
        """A pipeline on a model of few words, with one kind of drafts."""
        return self.opened(
            engine=_FEW_WORDS,
            drafter={"use": "ranked", **_DRAFTS[name]},
            draft_length={"use": "fixed", "k": k},
        )

    def _kinds_of_drafts(self) -> list[str]:
        """All of them; drafts of its own only from a sampler that draws."""
        draws = self.entry().cls.draw is not Sampler.draw
        return [name for name, how in _DRAFTS.items() if draws or "by" not in how]

    def _seeded(self, seed: int) -> dict[str, int]:
        options = {f.name for f in attrs.fields(self.entry().cls.Config)}
        return {"seed": seed} if "seed" in options else {}


def _first_ranks(pipeline: Pipeline, request: Request) -> tuple[int, int]:
    """Which of the likeliest tokens came second and third; the first one comes from no step."""
    sequence = pipeline.start(request)
    while sequence.generated < 3 and not sequence.done:
        pipeline.step([sequence])
    pipeline.decoder.abandon(sequence)
    model: Any = getattr(pipeline.engine, "model", None)
    start = sequence.prompt_length + 1
    return _rank(model, sequence.tokens[: start + 1]), _rank(model, sequence.tokens[: start + 2])


def _rank(model: Any, tokens: list[int]) -> int:
    before = tokens[:-1]
    likeliest: list[int] = model.likeliest(model.folded(before), before)
    return likeliest.index(tokens[-1]) if tokens[-1] in likeliest else len(likeliest)


def _shares(counts: Counter[Hashable]) -> str:
    total = sum(counts.values())
    return " ".join(f"{counts[rank] / total:.3f}" for rank in range(6))


class RollbackContract(ComponentContract):
    """After a rewind the memory is what a fresh prefill of the kept tokens would leave."""

    kind = "rollback"

    @pytest.mark.parametrize("seed", range(3))
    def test_rejected_rows_leave_no_trace(self, seed: int) -> None:
        """Random drafts, random acceptance, joint batches."""
        with self.opened(
            engine={"seed": seed},
            drafter={"use": "echo", "accuracy": [0.6], "seed": seed},
            draft_length=_RANDOM,
            max_sequences=3,
        ) as pipeline:
            target: Any = pipeline.engine.target
            active = [pipeline.start(r) for r in requests(pipeline, 3)]
            while active:
                pipeline.step(active)
                for sequence in active:
                    assert target.tokens(sequence.id) == sequence.tokens[:-1]
                    assert target.exact(sequence.id)
                    assert sequence.slot.length == len(sequence.tokens) - 1
                active = [s for s in active if not s.done]

    def test_what_it_says_it_reaches_is_exact(self) -> None:
        """After any number of steps a free slot can be cut that far, and no further."""
        for steps in range(1, 9):
            with self.opened(drafter=_ECHO, draft_length=_RANDOM) as pipeline:
                states, target = pipeline.decoder.states, pipeline.engine.target
                exact: Any = getattr(target, "exact", None)
                sequence = pipeline.start(requests(pipeline, 1, seed=steps)[0])
                for _ in range(steps):
                    pipeline.step([sequence])
                pipeline.decoder.abandon(sequence)
                slot = sequence.slot
                reach = states.reach(slot)
                if reach < slot.length:
                    with pytest.raises(EngineError, match="cannot be rewound"):
                        states.rewind(slot, slot.length - reach - 1)
                    assert exact(slot.id), "a refusal changes nothing"
                if reach:
                    length = slot.length - reach
                    states.rewind(slot, length)
                    assert (target.length(slot.id), slot.length) == (length, length)
                    assert exact(slot.id)

    def test_it_serves_a_model_or_says_why_not(self) -> None:
        """`unsupported_reason` is None or a sentence, for dense and for recurrent models."""
        from outrider.testing.harness import make_pipeline

        pipeline = make_pipeline(self.pipeline_keys(), offers=self.offers)
        rollback = pipeline.rollbacks[0]
        for recurrent in (True, False):
            model: ModelInfo = make_pipeline({"engine": {"recurrent": recurrent}}).model
            reason = rollback.unsupported_reason(model)
            assert reason is None or len(reason.split()) >= 4
