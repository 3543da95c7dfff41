"""What every verifier, sampler and rollback must do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar

import attrs
import pytest

from outrider.errors import EngineError
from outrider.sequence import Request
from outrider.step import Draft
from outrider.target import ModelInfo
from outrider.testing.contracts.base import ComponentContract, requests
from outrider.testing.harness import decode_all, emitted, plain_tokens

_ECHO = {"use": "echo", "accuracy": [0.7]}
_RANDOM = {"use": "random", "max": 5}


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
    """It accepts a prefix, changes nothing until it commits, and drafts do not move it."""

    kind = "sampler"
    keys: ClassVar[Mapping[str, Any]] = {"engine": {"peak": 2.0}}
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

    @pytest.mark.parametrize("drafter", ["echo", "always-wrong"])
    def test_drafts_do_not_change_what_is_emitted(self, drafter: str) -> None:
        """Greedy: the same tokens. With a seed: the same distribution (chi-square, p > 1e-6)."""
        if not self.exact:
            pytest.skip("this sampler changes the distribution on purpose")
        counts: list[Counter[tuple[int, ...]]] = []
        seeded = bool(self._seeded(0))
        seeds: list[dict[str, int]] = [{"seed": n} for n in range(300)] if seeded else [{}]
        for name, k in (("none", 0), (drafter, 2)):
            with self.opened(
                drafter=name, draft_length={"use": "fixed", "k": k}, engine={"predictable": 0.0}
            ) as pipeline:
                prompt = requests(pipeline, 1)[0].prompt
                seen: Counter[tuple[int, ...]] = Counter()
                for sampling in seeds:
                    request = Request(prompt=prompt, max_tokens=3, sampling=sampling)
                    # buckets of the second and third token, which come from a step
                    tokens = emitted(decode_all(pipeline, [request])[0])[1:]
                    seen[tuple(t % 4 for t in tokens)] += 1
                counts.append(seen)
        plain, drafted = counts
        if not seeded:
            assert plain == drafted
            return
        cells = plain.keys() | drafted.keys()
        chi = sum((plain[c] - drafted[c]) ** 2 / (plain[c] + drafted[c]) for c in cells)
        assert chi < len(cells) + 5 * (2 * len(cells)) ** 0.5 + 12, (plain, drafted)

    def _seeded(self, seed: int) -> dict[str, int]:
        options = {f.name for f in attrs.fields(self.entry().cls.Config)}
        return {"seed": seed} if "seed" in options else {}


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
