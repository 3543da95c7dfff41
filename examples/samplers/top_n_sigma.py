"""Top-n-sigma sampling as a one-file plugin.

Keep the tokens whose logit is at most n standard deviations below the largest one (Tang and others,
"Top-nσ: eliminating noise in logit space for robust token sampling of LLM", 2024), then apply the
temperature. A fixed distance below the largest logit is what min-p is, with p = exp(-n σ); so the
kernels that serve min-p serve this too, and speculation stays exact.

    outrider generate -p examples/samplers/top_n_sigma.yaml "Tell me a story."
"""

from __future__ import annotations

import math
import secrets

import attrs
import numpy as np
from outrider import Accepted, Sampler, hookimpl
from outrider.native import RowSampler, SamplingOptions


@attrs.frozen
class TopNSigmaConfig:
    """Options of the `top-n-sigma` sampler."""

    n: float = attrs.field(default=1.0, validator=attrs.validators.gt(0))
    """How many standard deviations below the largest logit a token may be."""
    temperature: float = attrs.field(default=1.0, validator=attrs.validators.gt(0))
    seed: int | None = None
    """Determines the draws; by default every request draws its own."""


class TopNSigmaSampler(Sampler):
    """Draws from the tokens within n standard deviations of the best, and compares drafts."""

    Config = TopNSigmaConfig

    def open(self, runtime):
        """Allocate the buffers."""
        self._target = runtime.engine.target
        self._kernel = RowSampler(self._target.n_vocab)

    def settings(self, overrides):
        """The options of one request, with a seed."""
        config = super().settings(overrides)
        return attrs.evolve(config, seed=secrets.randbits(63)) if config.seed is None else config

    def accept(self, sequences, drafts, rows):
        """Draw from every row in turn; a draft holds if it is the token drawn."""
        steps = zip(sequences, drafts, rows, strict=True)
        return [self._accept(sequence, draft.tokens, row) for sequence, draft, row in steps]

    def _accept(self, sequence, drafted, row):
        token = self._draw(sequence, (), row)
        count = 0
        while count < len(drafted) and token == drafted[count]:
            count += 1
            token = self._draw(sequence, drafted[:count], row + count)
        return Accepted(count, token)

    def _draw(self, sequence, prefix, row):
        config, position = sequence.settings, len(sequence.tokens) + len(prefix)
        logits = self._target.logits(row)
        sigma = float(np.std(logits, where=np.isfinite(logits)))
        options = SamplingOptions(temperature=config.temperature, min_p=math.exp(-config.n * sigma))
        token = self._kernel.sample(logits, options, seed=config.seed, position=position)
        constraint = sequence.constraint
        if constraint is None or constraint.allows(prefix, token):
            return token
        mask = constraint.mask(prefix)
        return self._kernel.sample_legal(logits, options, mask, seed=config.seed, position=position)


@hookimpl
def outrider_samplers():
    """Offer `top-n-sigma`."""
    return {"top-n-sigma": TopNSigmaSampler}
