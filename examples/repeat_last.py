"""A drafter in one file: it guesses that the last token comes again.

outrider generate "Count the sheep:" --pipeline examples/repeat_last.yaml
"""

from outrider import Draft, Drafter, hookimpl


class RepeatLast(Drafter):
    """Drafts the anchor again and again."""

    def propose_one(self, sequence, limit):
        """The last committed token, `limit` times."""
        return Draft([sequence.anchor] * limit)


@hookimpl
def outrider_drafters():
    """Offer `repeat-last`."""
    return {"repeat-last": RepeatLast}
