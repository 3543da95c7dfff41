"""Typical acceptance as a one-file plugin: faster than exact sampling, and not exact.

A draft holds when the target finds it probable enough, given how uncertain the target is: when
p(draft) > min(epsilon, delta · exp(-H(p))) (Cai and others, "Medusa: simple LLM inference
acceleration framework with multiple decoding heads", 2024, section 3.3.1). The text is biased
towards what the drafter likes; the statistics say so, and count the drafts an exact sampler would
have taken too.

    outrider generate -p examples/samplers/typical.yaml "Tell me a story."
    outrider compare examples/samplers/typical.yaml examples/samplers/exact.yaml --seeds 200
"""

from __future__ import annotations

import secrets

import attrs
import numpy as np
from outrider import Accepted, Sampler, hookimpl
from outrider.native import RowSampler, SamplingOptions


@attrs.frozen
class TypicalConfig:
    """Options of the `typical` sampler; epsilon and delta as in Medusa's released code."""

    temperature: float = attrs.field(default=0.7, validator=attrs.validators.gt(0))
    epsilon: float = attrs.field(default=0.09, validator=attrs.validators.gt(0))
    """Probability that is always enough."""
    delta: float = attrs.field(default=0.3, validator=attrs.validators.gt(0))
    """Share of exp(-entropy) that is enough where the target is uncertain."""
    seed: int | None = None
    """Determines the draws; by default every request draws its own."""


class TypicalSampler(Sampler):
    """Takes drafts that are probable enough. LOSSY: not the model's distribution."""

    Config = TypicalConfig

    def __init__(self, config, assembly):
        super().__init__(config, assembly)
        self._verified = self._held = self._exact = 0

    def open(self, runtime):
        """Allocate the buffers."""
        self._target = runtime.engine.target
        self._kernel = RowSampler(self._target.n_vocab)

    def settings(self, overrides):
        """The options of one request, with a seed."""
        config = super().settings(overrides)
        return attrs.evolve(config, seed=secrets.randbits(63)) if config.seed is None else config

    def accept(self, sequences, drafts, rows):
        """Drafts up to the first that is not typical, then a draw."""
        steps = zip(sequences, drafts, rows, strict=True)
        return [self._accept(sequence, draft.tokens, row) for sequence, draft, row in steps]

    def _accept(self, sequence, drafted, row):
        config = sequence.settings
        options = SamplingOptions(temperature=config.temperature)

        def draw(count):
            logits, position = self._target.logits(row + count), len(sequence.tokens) + count
            token = self._kernel.sample(logits, options, seed=config.seed, position=position)
            constraint, prefix = sequence.constraint, drafted[:count]
            if constraint is None or constraint.allows(prefix, token):
                return token
            mask = constraint.mask(prefix)
            return self._kernel.sample_legal(
                logits, options, mask, seed=config.seed, position=position
            )

        for count, token in enumerate(drafted):
            self._verified += 1
            if not self._typical(token, row + count, config, options):
                return Accepted(count, draw(count))
            self._held += 1
            self._exact += draw(count) == token
        return Accepted(len(drafted), draw(len(drafted)))

    def _typical(self, token, row, config, options):
        _, p = self._kernel.distribution(self._target.logits(row), options)  # in the order of ids
        entropy = -float(np.sum(p * np.log(np.maximum(p, 1e-300))))
        return p[token] > min(config.epsilon, config.delta * np.exp(-entropy))

    def statistics(self):
        """Says that the output is not exact, and by how much acceptance profits."""
        return {
            "lossy": "typical acceptance: the text does not follow the model's distribution",
            "verified": self._verified,
            "held": self._held,
            "held_by_an_exact_sampler_too": self._exact,
        }


@hookimpl
def outrider_samplers():
    """Offer `typical`."""
    return {"typical": TypicalSampler}
