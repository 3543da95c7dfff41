"""Acceptance by position, learnt from what verification said."""

from __future__ import annotations

from collections.abc import Sequence as ListOf
from math import exp
from typing import Protocol

UNKNOWN = (0.7,)
"""Believed acceptance of a drafter that nothing is known about."""


class Prior(Protocol):
    """What is believed before there is evidence."""

    @property
    def known(self) -> int:
        """Positions that something is known about."""
        ...

    def estimate(self, limit: int) -> list[float]:
        """Conditional acceptance of the first `limit` positions."""
        ...


class Given:
    """Rates from elsewhere; the last one counts for deeper positions."""

    def __init__(self, rates: ListOf[float]) -> None:
        self._rates = list(rates)
        self.known = len(rates)

    def estimate(self, limit: int) -> list[float]:
        """The first `limit` rates."""
        rates = self._rates[:limit]
        return rates + rates[-1:] * (limit - len(rates))


_FURTHEST = 4.0
"""Logarithm of the odds by which a text may differ. Many unlikely drafts that hold at once tell so
little of its size that a step of Newton's method goes far too far."""


class Lean:
    """By how much the drafts of one text hold better or worse than drafts of their kind do.

    The odds of every kind of draft are scaled by one factor. Its logarithm is taken to be normal
    among texts, around 0 with a deviation of `spread`, and here it is about the likeliest one (a
    Rasch model, in which a text is what a person is elsewhere; one step of Newton's method a
    draft, and old drafts as they looked when they were new).
    What was to be expected therefore says little, good as it may be: that drafts hold which hold
    nine times of ten is no sign that worse ones will. Old drafts fade by `keep` with every new
    one.
    """

    def __init__(self, spread: float, keep: float) -> None:
        self._precision = 1.0 / (spread * spread)
        self._keep = keep
        self._sum = 0.0
        self._information = 0.0

    @property
    def factor(self) -> float:
        """Odds here by odds in general, more than 0."""
        return exp(self._sum / (self._precision + self._information))

    def observe(self, usual: ListOf[float], accepted: int, known: int = 0) -> None:
        """Of a draft whose positions usually hold so often, the first `accepted` ones held.

        `usual`: rates in 0 … 1 of the positions that were judged, the rejected one included;
        `known`: leading positions that were counted before.
        """
        shift = self._sum / (self._precision + self._information)
        factor, keep = exp(shift), self._keep
        total, information = 0.0, 0.0
        for i in range(known, len(usual)):
            odds = factor * _odds(usual[i])
            rate = odds / (1.0 + odds)
            total += (i < accepted) - rate
            information += rate * (1.0 - rate)
        self._information = keep * self._information + information
        most = _FURTHEST * (self._precision + self._information)
        self._sum = max(-most, min(most, keep * self._sum + total + information * shift))

    def relax(self, keep: float) -> None:
        """Trust everything remembered a little less."""
        self._sum *= keep
        self._information *= keep


class Leaning:
    """A prior that leans the way a text does."""

    def __init__(self, prior: Prior, lean: Lean) -> None:
        self._prior = prior
        self._lean = lean

    @property
    def known(self) -> int:
        """Positions that something is known about."""
        return self._prior.known

    def estimate(self, limit: int) -> list[float]:
        """Conditional acceptance of the first `limit` positions."""
        factor = self._lean.factor
        leaning = [factor * _odds(rate) for rate in self._prior.estimate(limit)]
        return [odds / (1.0 + odds) for odds in leaning]


def _odds(rate: float) -> float:
    # min and max would be two calls for every position of every step
    rate = 1e-3 if rate < 1e-3 else 1.0 - 1e-3 if rate > 1.0 - 1e-3 else rate
    return rate / (1.0 - rate)


class Acceptance:
    """Conditional acceptance rates with a fading memory and a prior.

    A position's estimate is (hits + weight × prior) / (trials + weight). Old outcomes fade by
    `keep` with every new one of their position; `relax` lets all of them fade a little, so that
    what has not been tried for long returns to the prior and gets another chance. A position
    that nobody has tried is believed to be as good as the one before it: the next deeper one is
    tried when that would pay.
    """

    def __init__(self, prior: Prior, *, weight: float, keep: float) -> None:
        self._prior = prior
        self._weight = weight
        self._keep = keep
        self._hits: list[float] = []
        self._trials: list[float] = []

    @property
    def tried(self) -> int:
        """Positions that were tried here."""
        return len(self._trials)

    @property
    def known(self) -> int:
        """Positions that were tried, here or where the prior comes from."""
        return max(len(self._trials), self._prior.known)

    def estimate(self, limit: int) -> list[float]:
        """Conditional acceptance of the first `limit` positions."""
        weight, tried, informed = self._weight, len(self._trials), self._prior.known
        prior = self._prior.estimate(max(1, min(limit, informed)))
        rates: list[float] = []
        rate = prior[0]
        for i in range(limit):
            if i < informed:
                rate = prior[i]
            if i < tried:
                rate = (self._hits[i] + weight * rate) / (self._trials[i] + weight)
            rates.append(rate)
        return rates

    def news(self, tried: int) -> list[float]:
        """How much an outcome says to others at each of the first positions: 1, where none was seen
        here before, to 0."""
        weight = self._weight
        seen = self._trials[:tried]
        return [weight / (t + weight) for t in seen] + [1.0] * (tried - len(seen))

    def observe(self, accepted: int, rejected: bool, shares: ListOf[float] = ()) -> None:
        """The first `accepted` drafts held; `rejected`: the next one was tried and did not.

        `shares`: how much of a whole outcome each position's counts for, where that is not 1.
        """
        tried = accepted + rejected
        hits, trials = self._hits, self._trials
        while len(trials) < tried:
            hits.append(0.0)
            trials.append(0.0)
        for i in range(tried):
            share = shares[i] if shares else 1.0
            keep = 1.0 - (1.0 - self._keep) * share
            hits[i] = keep * hits[i] + share * (i < accepted)
            trials[i] = keep * trials[i] + share

    def relax(self, keep: float) -> None:
        """Trust everything remembered a little less."""
        self._hits = [keep * h for h in self._hits]
        self._trials = [keep * t for t in self._trials]


def outcome(proposed: int, accepted: int, emitted: int) -> tuple[int, bool]:
    """Accepted drafts that count, and whether the one after them was rejected.

    When a stop condition cut the step inside its accepted drafts (an end-of-generation token,
    say), what the drafter proposed beyond was not judged by anyone.
    """
    if emitted <= accepted:
        return emitted, False
    return accepted, accepted < proposed
