"""Drafters that know too much or nothing: doubles for tests of everything around a drafter."""

from __future__ import annotations

import random
from typing import Any, Literal

import attrs
import numpy as np
from attrs import validators

from outrider.components import Assembly, Drafter, Runtime
from outrider.errors import ConfigError
from outrider.sequence import Sequence
from outrider.step import Distribution, Draft


@attrs.frozen
class EchoConfig:
    """Options of the `echo` drafter."""

    accuracy: tuple[float, ...] = (1.0,)
    """Chance that draft i is right if those before it are; the last value counts for the rest."""
    seed: int = 0


class EchoDrafter(Drafter):
    """Says what the scripted model is about to say, as often as it is told to be right."""

    Config = EchoConfig

    def __init__(self, config: EchoConfig, assembly: Assembly) -> None:
        super().__init__(config, assembly)
        self.config: EchoConfig = config

    def open(self, runtime: Runtime) -> None:
        """Only an engine that can be foreseen will do."""
        foresee = getattr(runtime.engine, "continuation", None)
        if foresee is None:
            raise ConfigError(
                f"drafter {self.name!r} needs an engine whose words are known in advance; "
                "set `engine: scripted`"
            )
        self._foresee = foresee
        self._vocabulary = runtime.engine.vocabulary

    def propose_one(self, sequence: Sequence, limit: int) -> Draft:
        """The tokens that will follow, some of them replaced."""
        chances = self.config.accuracy
        right: list[int] = self._foresee(sequence.tokens, limit)
        # a function of seed and position, so that a run repeats whatever else is decoded
        draw = random.Random(f"{self.config.seed}:{len(sequence.tokens)}:{sequence.anchor}").random
        tokens: list[int] = []
        for i, token in enumerate(right):
            if draw() >= chances[min(i, len(chances) - 1)]:
                tokens.append((token + 1) % self._vocabulary.size)
                break
            tokens.append(token)
        # after a wrong token nothing is known any more; what follows is as wrong
        tokens.extend([tokens[-1]] * (limit - len(tokens)))
        return Draft(tokens)


@attrs.frozen
class WrongConfig:
    """Options of the `always-wrong` drafter."""

    token: int | None = attrs.field(default=None, validator=validators.optional(validators.ge(0)))
    """What it drafts, again and again; null: the last token of the vocabulary, which the
    scripted model never says."""


class WrongDrafter(Drafter):
    """Proposes a token that is never right, as often as it may."""

    Config = WrongConfig

    def open(self, runtime: Runtime) -> None:
        """Choose the token."""
        wanted = self.config.token
        self._token = runtime.engine.target.n_vocab - 1 if wanted is None else wanted

    def propose_one(self, sequence: Sequence, limit: int) -> Draft:
        """The wrong token, `limit` times."""
        return Draft([self._token] * limit)


@attrs.frozen
class RankedConfig:
    """Options of the `ranked` drafter."""

    ranks: tuple[int | None, ...] = (0,)
    """Which of the most likely tokens draft i is, 0 the first, as a point mass; null: a token
    drawn from `q`. No more tokens than ranks are drafted."""
    q: tuple[float, ...] = (0.1, 0.15, 0.35, 0.4)
    """Probabilities that a drawn token has, by rank; another order than the target's."""
    by: Literal["itself", "sampler"] = "itself"
    """Who draws: the drafter, with random numbers of its own, or the pipeline's sampler, from
    logits that have the target's order turned round."""
    seed: int = 0


class RankedDrafter(Drafter):
    """Point masses and drawn tokens of a chosen place in the order of the scripted model's `odds`.

    For tests of samplers: every kind of draft, as far from the target's distribution as wanted.
    """

    Config = RankedConfig

    def __init__(self, config: RankedConfig, assembly: Assembly) -> None:
        super().__init__(config, assembly)
        self.config: RankedConfig = config
        self._random = random.Random(config.seed)

    def open(self, runtime: Runtime) -> None:
        """Only an engine that has an order of tokens will do."""
        self._model: Any = getattr(runtime.engine, "model", None)
        if not getattr(self._model, "odds", ()):
            raise ConfigError(
                f"drafter {self.name!r} needs a model whose likely tokens are known in advance; "
                "set `engine: {use: scripted, odds: […]}`"
            )
        self._sampler = runtime.sampler

    def propose_one(self, sequence: Sequence, limit: int) -> Draft:
        """Tokens of the configured ranks."""
        tokens: list[int] = []
        q: list[Distribution | None] = []
        for rank in self.config.ranks[:limit]:
            seen = [*sequence.tokens, *tokens]
            state = self._model.folded(seen)
            likeliest: list[int] = self._model.likeliest(state, seen)
            if rank is not None:
                token, law = likeliest[rank], None
            elif self.config.by == "sampler":
                logits = self._model.logits(state, seen)
                logits[likeliest] = logits[likeliest[::-1]]
                token, law = self._sampler.draw(sequence, tokens, logits)
            else:
                chances = np.array(self.config.q)
                ids = np.array(likeliest[: len(chances)], np.int32)
                law = Distribution(ids, chances / chances.sum())
                token = self._random.choices(ids.tolist(), self.config.q)[0]
            tokens.append(token)
            q.append(law)
        return Draft(tokens, q if any(law is not None for law in q) else None)
