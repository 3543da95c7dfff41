"""Why a prompt was not found in the cache: every miss has a name."""

from __future__ import annotations

import enum

from outrider import OutriderError


class Miss(str, enum.Enum):
    """Reasons, as statistics and logs show them."""

    NONE = "none"
    """Nothing that is stored or live begins like this prompt."""
    DIVERGED = "diverged"
    """Something begins like it, but no state was kept at or before the point of difference."""
    SHORT = "short"
    """The prompt is shorter than `min_tokens`."""
    BUDGET = "budget"
    """There was a snapshot; it was given up, or never kept, to stay within the byte budget."""
    FINGERPRINT = "fingerprint"
    """There is one, of another model, build, context, drafter or number of sequences."""
    VERSION = "version"
    """There is one, in another file format."""
    CORRUPT = "corrupt"
    """There was one, and it was damaged."""
    GONE = "gone"
    """Another process gave it up while it was being read."""
    UNREADABLE = "unreadable"
    """The operating system refused to read it."""
    REFUSED = "refused"
    """It was sound, but the engine or the drafter did not take it."""


HINTS = {
    Miss.NONE: "no prompt began like an earlier one",
    Miss.DIVERGED: "prompts differ from earlier ones before the first snapshot; a smaller "
    "`every`, or clients that send the conversation back unchanged (thinking included), help",
    Miss.SHORT: "the prompts are shorter than `min_tokens`",
    Miss.BUDGET: "the byte budget holds no useful number of snapshots; raise `ram` or `disk.limit`",
    Miss.FINGERPRINT: "what is stored belongs to another model, build or configuration",
}
"""What to say to someone whose cache never hits."""


class UnusableError(OutriderError):
    """A stored snapshot that cannot be used; `reason` says why in one word."""

    def __init__(self, reason: Miss, message: str) -> None:
        super().__init__(message)
        self.reason = reason
