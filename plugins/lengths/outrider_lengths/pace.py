"""How fast this machine is at the moment, apart for single rows and for batches."""

from __future__ import annotations

from math import exp, log

_NOISE = 0.08**2
"""Variance of the time of one step, in logarithms like all of these."""
_UNKNOWN = 0.25**2
"""Variance of what a table from another hour says."""
_DRIFT = 0.007**2
"""How much the pace of everything may change in one step."""
_BATCH_DRIFT = 0.02**2
"""How much the pace of batches may change beside that. It is the larger one, so that a stretch of
nothing but batches that become slower is blamed on them: then plain steps come
sooner, and show what is true."""
_RETURN = 0.004
"""Share by which the pace of batches returns in a step to what it usually is: where they seem too
dear there are none to see, and one bad observation must not be the last word."""
_USUAL = 0.02
"""Weight of what a batch shows in what is usual."""
_OUTLIER = 3.0
"""Standard deviations beyond which an observation counts only if the one of its kind before it
agrees."""


class Pace:
    """Two factors on measured costs: one on all of them, one more on batches of several rows.

    A single row shows the first, a batch the product of both. Which of them has changed when
    batches become slower is not to be seen while there are nothing but batches; what single rows
    show later then counts for both. So this is a Kalman filter (Kalman, "A new approach to linear
    filtering and prediction problems", 1960) of two random walks, in logarithms; the second one
    tends back to its own average.
    """

    def __init__(self) -> None:
        self._all = self._more = self._usual = 0.0
        self._var_all, self._var_more, self._shared = _UNKNOWN, _UNKNOWN, 0.0
        self._odd = [0.0, 0.0]
        self.pace = 1.0
        """Observed cost by expected cost, single rows."""
        self.batches = 1.0
        """How much more of it batches have than single rows."""

    def observe(self, ratio: float, batch: bool, passed: int = 1, noise: float = 1.0) -> None:
        """A step cost `ratio` times what the table says.

        `passed`: steps since the observation before; `noise`: its variance, by that of a step.
        """
        var_all = self._var_all = self._var_all + passed * _DRIFT
        left = (1.0 - _RETURN) ** passed
        self._more = self._usual + left * (self._more - self._usual)
        var_more = self._var_more = left * left * self._var_more + passed * _BATCH_DRIFT
        shared = self._shared = left * self._shared
        off = log(ratio) - self._all
        seen_all, seen_more = var_all, shared
        if batch:
            off -= self._more
            seen_all += shared
            seen_more += var_more
        total = seen_all + noise * _NOISE + (seen_more if batch else 0.0)
        odd = off if off * off > _OUTLIER * _OUTLIER * total else 0.0
        agrees = odd * self._odd[batch] > 0.0
        self._odd[batch] = odd
        if odd and not agrees:
            self.batches = exp(self._more)
            return
        gain_all, gain_more = seen_all / total, seen_more / total
        self._all += gain_all * off
        self._more += gain_more * off
        self._var_all -= gain_all * seen_all
        self._var_more -= gain_more * seen_more
        self._shared -= gain_all * seen_more
        if batch:
            self._usual += _USUAL * (self._more - self._usual)
        self.pace, self.batches = exp(self._all), exp(self._more)
