"""The `synthetic` sampler: FOR BENCHMARKS ONLY, what it emits is not what the model says.

It accepts drafts at random with given probabilities, so that a speculative pipeline can be timed at
a size for which no trained drafter is at hand. The meaning is that of llama-server's
`--spec-synth-rates` (`server_sample_and_accept_synth` in llama.cpp's
`tools/server/server-context.cpp`): rate i is the probability that draft i *and all before it* hold;
every row is sampled as usual before its draft is accepted or not; a drafted end-of-generation token
is never accepted. The random numbers are those of llama-server, too: with one seed both accept the
same drafts.

It belongs to the `bench` extra, and refuses a pipeline where that is not installed.
"""

from __future__ import annotations

import importlib.util
import logging
import math
from collections.abc import Mapping
from collections.abc import Sequence as ListOf
from typing import Any

import attrs
import numpy as np
from outrider import (
    NO_DRAFT,
    Accepted,
    Assembly,
    ComponentSpec,
    ConfigError,
    Distribution,
    Draft,
    ModelInfo,
    Pipeline,
    RequestError,
    Runtime,
    Sampler,
    SamplerSpec,
    Sequence,
    Step,
    hookimpl,
)

_log = logging.getLogger("outrider.synthetic")
_UNSEEDED = 0xFFFFFFFF
_EXTRA = "matplotlib"
"""What the `bench` extra installs."""


def _rates(_: Any, __: attrs.Attribute[Any], rates: tuple[float, ...]) -> None:
    if not rates:
        raise ValueError("rates is empty; expected one acceptance rate for each drafted position")
    if not all(math.isfinite(rate) and 0 <= rate <= 1 for rate in rates):
        raise ValueError(f"rates is {list(rates)}; expected numbers between 0 and 1")
    if list(rates) != sorted(rates, reverse=True):
        raise ValueError(
            f"rates is {list(rates)}; expected numbers that do not rise: each is the probability "
            "that this draft and all before it are accepted"
        )


@attrs.frozen
class SyntheticConfig:
    """Options of the `synthetic` sampler."""

    rates: tuple[float, ...] = attrs.field(validator=_rates)
    """Probability that the first i drafts are all accepted, for i = 1, 2, …"""
    of: SamplerSpec | None = None
    """The sampler whose work is done for every row; by default `greedy`."""
    seed: int = attrs.field(default=_UNSEEDED)
    """Of the accept decisions; the default takes another one for every request."""


def conditional(rates: ListOf[float]) -> list[float]:
    """The probability of each draft given that all before it were accepted."""
    before = [1.0, *rates[:-1]]
    return [rate / last if last > 0 else 0.0 for rate, last in zip(rates, before, strict=True)]


class Uniform:
    """Numbers in [0, 1) as `std::uniform_real_distribution<double>` draws them in libstdc++.

    Two 32-bit outputs of `std::mt19937` make one number, the low half first.
    """

    def __init__(self, seed: int) -> None:
        self._twister = np.random.RandomState(seed)
        self._drawn: list[float] = []

    def next(self) -> float:
        """The next number."""
        if not self._drawn:
            raw = self._twister.randint(2**32, size=(256, 2), dtype=np.uint32).astype(np.float64)
            numbers = (raw[:, 0] + raw[:, 1] * 2.0**32) / 2.0**64
            self._drawn = np.minimum(numbers, np.nextafter(1.0, 0.0)).tolist()[::-1]
        return self._drawn.pop()


class SyntheticSampler(Sampler):
    """For benchmarks only: accepts drafts at random, so that what it says is no text."""

    Config = SyntheticConfig

    def __init__(self, config: SyntheticConfig, assembly: Assembly) -> None:
        super().__init__(config, assembly)
        self.config: SyntheticConfig = config
        spec = config.of or ComponentSpec("greedy", Sampler.Config(), "sampler.of")
        self._inner = assembly.sampler(spec)
        self.greedy = self._inner.greedy
        self._probabilities = conditional(config.rates)

    def unsupported_reason(self, model: ModelInfo) -> str | None:
        """It is for benchmarks, so it comes with what they need."""
        if importlib.util.find_spec(_EXTRA):
            return self._inner.unsupported_reason(model)
        return (
            "it accepts drafts at random, for benchmarks only, and belongs to the bench extra: "
            "pip install 'outrider[bench]'"
        )

    def open(self, runtime: Runtime) -> None:
        """Check that there is a rate for every draft, and say loudly what this is."""
        if runtime.max_draft > len(self._probabilities):
            raise ConfigError(
                f"sampler.rates has {len(self._probabilities)} values, but up to "
                f"{runtime.max_draft} tokens are drafted; give one rate for each"
            )
        _log.warning("drafts are accepted at random for a benchmark: the output is not valid")
        self._inner.open(runtime)
        self._eog = runtime.engine.vocabulary.eog

    def ready(self, pipeline: Pipeline) -> None:
        """Tell the nested sampler."""
        self._inner.ready(pipeline)

    def close(self) -> None:
        """Close the nested sampler."""
        self._inner.close()

    def settings(self, overrides: Mapping[str, Any]) -> Any:
        """The nested sampler's options for one request; `seed` also seeds the decisions."""
        overrides = dict(overrides)
        if "seed" in overrides and not hasattr(self._inner.config, "seed"):
            seed = overrides.pop("seed")
            if not isinstance(seed, int):
                raise RequestError(f"seed must be a whole number, got {seed!r}")
        return self._inner.settings(overrides)

    def needs_logits(self, sequence: Sequence) -> bool:
        """What the nested sampler needs."""
        return self._inner.needs_logits(sequence)

    def begin(self, sequence: Sequence) -> None:
        """Seed the decisions of this request."""
        self._inner.begin(sequence)
        seed = int(sequence.request.sampling.get("seed", self.config.seed)) % 2**32
        if seed == _UNSEEDED:
            seed = int(np.random.SeedSequence().generate_state(1)[0])
        sequence.scratch[self.name] = Uniform(seed)

    def accept(
        self, sequences: ListOf[Sequence], drafts: ListOf[Draft], rows: ListOf[int]
    ) -> ListOf[Accepted]:
        """Accept at random, and take the token that follows from the nested sampler."""
        return [
            self._accept_one(sequence, draft.tokens, row)
            for sequence, draft, row in zip(sequences, drafts, rows, strict=True)
        ]

    def _accept_one(self, sequence: Sequence, tokens: ListOf[int], row: int) -> Accepted:
        uniform: Uniform = sequence.scratch[self.name]
        for i, drafted in enumerate(tokens):
            token = self._sample(sequence, row + i)
            if i == len(self._probabilities):
                return Accepted(i, token)  # a measurement of costs verifies more than is drafted
            if not uniform.next() < self._probabilities[i] or drafted in self._eog:
                return Accepted(i, token)
        return Accepted(len(tokens), self._sample(sequence, row + len(tokens)))

    def _sample(self, sequence: Sequence, row: int) -> int:
        return self._inner.accept((sequence,), (NO_DRAFT,), (row,))[0].token

    def draw(
        self, sequence: Sequence, prefix: ListOf[int], logits: Any
    ) -> tuple[int, Distribution]:
        """As the nested sampler draws."""
        return self._inner.draw(sequence, prefix, logits)

    def commit(self, sequences: ListOf[Sequence], steps: ListOf[Step]) -> None:
        """Tell the nested sampler."""
        self._inner.commit(sequences, steps)

    def statistics(self) -> Mapping[str, Any]:
        """The nested sampler's numbers."""
        return self._inner.statistics()


@hookimpl
def outrider_samplers():
    """Offer `synthetic`."""
    return {"synthetic": SyntheticSampler}
