"""Drafters that know too much or nothing: doubles for tests of everything around a drafter."""

from __future__ import annotations

import random

import attrs
from attrs import validators

from outrider.components import Assembly, Drafter, Runtime
from outrider.errors import ConfigError
from outrider.sequence import Sequence
from outrider.step import Draft


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
