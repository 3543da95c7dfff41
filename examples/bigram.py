"""A drafter that draws: what followed the last token before, as often as it did.

A drawn draft comes with the distribution it was drawn from, and an exact sampler then accepts it
with probability min(1, p/q): more of them hold at a temperature than of the likeliest token alone.

    outrider generate -p examples/bigram.yaml "1 2 3 1 2 4 1 2"
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from outrider import Distribution, Draft, Drafter, hookimpl
from outrider.native import Purpose, uniform


class BigramDrafter(Drafter):
    """Draws from the tokens that followed the last one in this text."""

    def propose_one(self, sequence, limit):
        """At most `limit` tokens, and a distribution for each."""
        tokens, drafts, q = sequence.tokens, [], []
        # greedy samplers have no seed, and take the likeliest token whatever was drafted
        seed = getattr(sequence.settings, "seed", None)
        while len(drafts) < limit:
            last = drafts[-1] if drafts else sequence.anchor
            followed = [after for token, after in pairwise(tokens) if token == last]
            if not followed:
                break
            ids, counts = np.unique(np.array(followed, np.int32), return_counts=True)
            probs = counts / counts.sum()
            if seed is None:
                drafts.append(int(ids[counts.argmax()]))
                continue
            # a purpose of its own: other draws at this position must not know the number
            number = uniform(seed, len(tokens) + len(drafts), Purpose.DRAFT)
            drawn = np.searchsorted(np.cumsum(probs), number, side="right")
            drafts.append(int(ids[min(drawn, len(ids) - 1)]))
            q.append(Distribution(ids, probs))
        return Draft(drafts, q or None)


@hookimpl
def outrider_drafters():
    """Offer `bigram`."""
    return {"bigram": BigramDrafter}
