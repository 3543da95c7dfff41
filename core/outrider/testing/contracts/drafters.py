"""What every drafter and every draft length must do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from collections.abc import Sequence as ListOf
from typing import ClassVar

import numpy as np
import pytest

from outrider.sequence import Request, Sequence
from outrider.step import Draft
from outrider.testing.contracts.base import (
    ComponentContract,
    check_q,
    prompts,
    record_proposals,
    requests,
)
from outrider.testing.contracts.chance import ALARM, follows
from outrider.testing.doubles import ReplayCache
from outrider.testing.harness import decode_all, emitted, plain_tokens

_RANDOM = {"use": "random", "max": 5}
_FEW_WORDS = {"odds": [0.4, 0.25, 0.14, 0.09, 0.05], "predictable": 0.0, "head": [0.6, 0.5]}
_SAMPLES = 4000
_RANKS = 12
"""Tokens of q that are counted by their rank; less likely ones are counted together."""


class DrafterContract(ComponentContract):
    """Whatever it proposes, the output is plain decoding's; its own state follows the target's.

    A drafter that lets the sampler draw needs one that can, at temperature 0, since most of this
    is about greedy output: `keys = {"sampler": {"use": "rejection", "temperature": 0}}`. Reads
    `independent`.
    """

    kind = "drafter"
    independent: ClassVar[bool] = True
    """Whether a sequence's drafts do not depend on other sequences and earlier requests."""

    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.parametrize("slots", [1, 3])
    def test_greedy_output_equals_plain_decoding(self, seed: int, slots: int) -> None:
        """With another draft length for every sequence in every step, 0 included."""
        with self.opened(
            engine={"seed": seed}, max_sequences=slots, draft_length=_RANDOM
        ) as pipeline:
            record_proposals(pipeline)
            asked = requests(pipeline, 6, seed=seed)
            for sequence, request in zip(decode_all(pipeline, asked), asked, strict=True):
                assert emitted(sequence) == plain_tokens(pipeline, request.prompt, 40)

    @pytest.mark.parametrize("k", [1, 2, 7])
    def test_it_proposes_at_most_what_is_asked_for(self, k: int) -> None:
        """Near the end of a request and of the context less is asked for."""
        with self.opened(engine={"context": 64}, draft_length={"use": "fixed", "k": k}) as pipeline:
            record_proposals(pipeline)
            for max_tokens in (2, 5, 64):
                decode_all(pipeline, requests(pipeline, 2, max_tokens=max_tokens))

    def test_zero_asks_for_nothing(self) -> None:
        """A limit of 0 yields an empty draft, among sequences that get one."""
        with self.opened(max_sequences=2) as pipeline:
            record_proposals(pipeline)
            active = [pipeline.start(r) for r in requests(pipeline, 2)]
            for limits in ([0, 3], [3, 0], [0, 0]):
                drafts = pipeline.drafter.propose(active, limits)
                assert all(len(d.tokens) <= n for d, n in zip(drafts, limits, strict=True))

    def test_its_prospects_are_what_it_proposes(self) -> None:
        """Where it names a grade beforehand, its proposal has that one, or is empty; 0 is empty."""
        with self.opened(draft_length=_RANDOM) as pipeline:
            drafter = pipeline.drafter
            propose = drafter.propose

            def checked(sequences: ListOf[Sequence], limits: ListOf[int]) -> ListOf[Draft]:
                prospects = [drafter.prospect(s) for s in sequences]
                drafts = propose(sequences, limits)
                for prospect, draft in zip(prospects, drafts, strict=True):
                    if draft.tokens and prospect is not None:
                        assert prospect == draft.evidence != 0
                return drafts

            drafter.propose = checked
            decode_all(pipeline, requests(pipeline, 3))

    def test_what_it_draws_follows_q(self) -> None:
        """The first token of many drafts has the law that the drafter says it was drawn from.

        The sampler draws and has a temperature here, whatever `keys` say. Counted are the ranks
        of the drafted tokens in their own q, since every draft may have another one. A drafter
        that drops what it drew when it does not like it fails, too.
        """
        seen: Counter[Hashable] = Counter()
        expected: Counter[Hashable] = Counter()
        with self.opened(
            engine=_FEW_WORDS,
            sampler={"use": "rejection", "temperature": 1.0},
            draft_length={"use": "fixed", "k": 2},
        ) as pipeline:
            asked = prompts(pipeline, 16)
            for n in range(_SAMPLES):
                if n == 100 and not seen:
                    pytest.skip("this drafter proposes point masses")
                prompt = asked[n % len(asked)]
                request = Request(prompt=prompt, max_tokens=5, sampling={"seed": n})
                sequence = pipeline.start(request)
                [draft] = pipeline.drafter.propose([sequence], [2])
                pipeline.decoder.abandon(sequence)
                check_q(draft, pipeline.engine.vocabulary.size)
                law = draft.q[0] if draft.q else None
                if law is not None:
                    order = np.argsort(-law.probs, kind="stable")
                    found = int(np.flatnonzero(law.ids[order] == draft.tokens[0])[0])
                    seen[min(found, _RANKS)] += 1
                    for rank, chance in enumerate(law.probs[order].tolist()):
                        expected[min(rank, _RANKS)] += chance
        chance = follows(seen, expected)
        ranks = range(_RANKS + 1)
        assert chance > ALARM, (
            "the drafted tokens do not follow q. How often the likeliest of q was drafted, the "
            f"second likeliest, …: {[seen[r] for r in ranks]}; expected "
            f"{[round(expected[r]) for r in ranks]}. By chance: {chance:.0e}"
        )

    def test_it_serves_every_memory(self) -> None:
        """Rollback by truncation and by checkpoint, besides the snapshot ring."""
        for memory in ({"recurrent": False}, {"ring": False}):
            with self.opened(engine=memory, draft_length=_RANDOM) as pipeline:
                [request] = requests(pipeline, 1)
                [sequence] = decode_all(pipeline, [request])
                assert emitted(sequence) == plain_tokens(pipeline, request.prompt, 40)

    def test_sequences_do_not_mix(self) -> None:
        """Drafts in a joint batch are those of a lone run."""
        if not self.independent:
            pytest.skip("this drafter learns from other sequences")
        with self.opened(draft_length=_RANDOM) as pipeline:
            lone = record_proposals(pipeline)
            asked = requests(pipeline, 3)
            for request in asked:
                decode_all(pipeline, [request])
        with self.opened(draft_length=_RANDOM, max_sequences=3) as pipeline:
            joint = record_proposals(pipeline)
            decode_all(pipeline, requests(pipeline, 3))
        assert sorted(c[1:] for c in joint.calls) == sorted(c[1:] for c in lone.calls)

    def test_a_snapshot_continues_exactly(self) -> None:
        """Restored under other content, it proposes what it would have proposed."""
        keys = {"draft_length": {"use": "fixed", "k": 4}, "cache": "replay", "max_sequences": 2}
        with self.opened(**keys) as pipeline:
            request, other = requests(pipeline, 2, seed=5)
            sequence = pipeline.start(request)
            for _ in range(3):
                pipeline.step([sequence])
            tokens = list(sequence.tokens)
            snapshot = pipeline.decoder.states.snapshot(sequence.slot)
            uninterrupted = record_proposals(pipeline)
            while not sequence.done:
                pipeline.step([sequence])
            first = uninterrupted.by_position()
            decode_all(pipeline, [other])
            cache = pipeline.cache
            assert isinstance(cache, ReplayCache)
            cache.snapshot = snapshot
            resumed = record_proposals(pipeline)
            count = 40 - (len(tokens) - len(request.prompt))
            [again] = decode_all(pipeline, [Request(prompt=tokens, max_tokens=count)])
            assert again.cached == len(tokens) - 1
            assert again.tokens == sequence.tokens
        if self.independent:
            second = resumed.by_position()
            for position in first.keys() & second.keys():
                n = min(first[position][0], second[position][0])
                assert first[position][1][:n] == second[position][1][:n], f"at {position}"

    def test_it_survives_a_rewind(self) -> None:
        """The memory is cut to any shared prefix; what follows equals plain decoding."""
        with self.opened(
            engine={"recurrent": False}, cache="replay", draft_length=_RANDOM
        ) as pipeline:
            [request] = requests(pipeline, 1)
            [sequence] = decode_all(pipeline, [request])
            for cut in (len(sequence.tokens) - 2, len(request.prompt) + 9, 1):
                prompt = [*sequence.tokens[:cut], pipeline.engine.vocabulary.size - 2]
                [again] = decode_all(pipeline, [Request(prompt=prompt, max_tokens=30)])
                assert emitted(again) == plain_tokens(pipeline, prompt, 30)
                sequence = again

    def test_a_slot_forgets_the_request_before(self) -> None:
        """Requests one after the other on one slot, long and short, related or not."""
        with self.opened(cache="replay", draft_length=_RANDOM) as pipeline:
            record_proposals(pipeline)
            asked = requests(pipeline, 4, seed=3)
            asked += [Request(prompt=asked[0].prompt[:1], max_tokens=40), *asked[::-1]]
            for request in asked:
                [sequence] = decode_all(pipeline, [request])
                assert emitted(sequence) == plain_tokens(pipeline, request.prompt, 40)


class DraftLengthContract(ComponentContract):
    """It chooses from 0 to `max`, for any list of sequences, whatever happens."""

    kind = "draft_length"

    def test_it_chooses_within_its_bounds(self) -> None:
        """For joint batches whose sequences come and go; the output is plain decoding's."""
        for accuracy in ([1.0], [0.6], [0.0]):
            with self.opened(
                drafter={"use": "echo", "accuracy": accuracy}, max_sequences=3
            ) as pipeline:
                policy = pipeline.draft_length
                most = policy.max
                choose = policy.choose

                def checked(sequences, choose=choose, most=most):  # pyright: ignore
                    chosen = choose(sequences)  # pyright: ignore
                    assert len(chosen) == len(sequences)  # pyright: ignore
                    assert all(0 <= k <= most for k in chosen), chosen  # pyright: ignore
                    return chosen  # pyright: ignore

                trim = policy.trim

                def leading(sequences, drafts, trim=trim):  # pyright: ignore
                    kept = trim(sequences, drafts)  # pyright: ignore
                    for part, draft in zip(kept, drafts, strict=True):  # pyright: ignore
                        assert list(part.tokens) == list(draft.tokens)[: len(part.tokens)]  # pyright: ignore
                    return kept  # pyright: ignore

                policy.choose = checked  # pyright: ignore
                pipeline.decoder._trim = leading  # pyright: ignore
                asked = [
                    Request(prompt=r.prompt, max_tokens=10 + 15 * i)
                    for i, r in enumerate(requests(pipeline, 5))
                ]
                for sequence, request in zip(decode_all(pipeline, asked), asked, strict=True):
                    count = request.max_tokens or 0
                    assert emitted(sequence) == plain_tokens(pipeline, request.prompt, count)
                assert policy.max == most, "`max` sizes the ring: it must not change"
