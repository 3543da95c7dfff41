"""The `greedy` sampler: always the most likely token."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as ListOf
from typing import Any

from outrider import Accepted, Draft, RequestError, Runtime, Sampler, Sequence, hookimpl
from outrider.native import RowSampler, SamplingOptions

MOST_LIKELY = SamplingOptions(temperature=0)


class GreedySampler(Sampler):
    """Accepts drafts while they are the most likely token.

    Reads one token id a row from the device; only sequences with a constraint read logits,
    and only where the most likely token is not allowed.
    """

    greedy = True

    def open(self, runtime: Runtime) -> None:
        """Remember the target."""
        self._target = runtime.engine.target
        self._kernel = RowSampler(self._target.n_vocab)

    def settings(self, overrides: Mapping[str, Any]) -> Any:
        """There is nothing to set: of all options only a temperature of 0 says the same."""
        wishes = [k for k, v in overrides.items() if k != "temperature" or v != 0]
        if wishes:
            raise RequestError(
                f"{', '.join(wishes)}: the sampler {self.name!r} always takes the most likely "
                "token and has no options; one that draws is `rejection` (in the pipeline file "
                "`sampler: rejection`, on the command line `--set sampler.use=rejection`)"
            )
        return self.config

    def accept(
        self, sequences: ListOf[Sequence], drafts: ListOf[Draft], rows: ListOf[int]
    ) -> ListOf[Accepted]:
        """The longest prefix of most likely tokens, and the next one."""
        answers: list[Accepted] = []
        for sequence, draft, row in zip(sequences, drafts, rows, strict=True):
            if sequence.request.constraint is None:
                found = self._target.match(row, draft.tokens, len(sequence.tokens))
                answers.append(Accepted(*found))
            else:
                answers.append(self._accept_constrained(sequence, draft, row))
        return answers

    def _accept_constrained(self, sequence: Sequence, draft: Draft, row: int) -> Accepted:
        constraint = sequence.request.constraint
        assert constraint is not None
        prefix: list[int] = []
        while True:
            token = self._target.argmax(row + len(prefix))
            if not constraint.allows(prefix, token):
                mask = constraint.mask(prefix)
                assert mask is not None, "a constraint that refuses a token must have a mask"
                legal, _ = self._kernel.distribution(
                    self._target.logits(row + len(prefix)),
                    MOST_LIKELY,
                    mask=mask,
                    position=len(sequence.tokens) + len(prefix),
                )
                token = int(legal[0])
            if len(prefix) == len(draft.tokens) or draft.tokens[len(prefix)] != token:
                return Accepted(len(prefix), token)
            prefix.append(token)


@hookimpl
def outrider_samplers():
    """Offer `greedy`."""
    return {"greedy": GreedySampler}
