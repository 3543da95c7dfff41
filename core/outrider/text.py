"""Tokens to text as it is emitted: never half a character, never part of a stop string."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from outrider.target import Vocabulary

_decoder = codecs.getincrementaldecoder("utf-8")


class TextStream:
    """The text of one sequence.

    Bytes of an unfinished character wait for the rest; bytes that are no UTF-8 become U+FFFD.
    Text that could be the start of a stop string is held back until it is clear whether it is.
    Control tokens are not part of the text.
    """

    def __init__(self, vocabulary: Vocabulary, stop: Sequence[str] = ()) -> None:
        self._vocabulary = vocabulary
        self._decode = _decoder(errors="replace").decode
        self._stop = tuple(s for s in stop if s)
        self._waiting: list[int] = []
        self._held = ""
        self._stopped = False
        self._ready: list[str] = []
        self._taken: list[str] = []

    def push(self, tokens: Sequence[int]) -> int | None:
        """Append tokens. A number: so many of them completed a stop string.

        The text then ends before the stop string, and nothing may follow. Without stop strings
        the tokens wait, and become text when somebody asks for it.
        """
        if not self._stop:
            self._waiting.extend(tokens)
            return None
        for count, token in enumerate(tokens, 1):
            if self._append(self._decode(self._bytes((token,)))):
                return count
        return None

    def take(self) -> str:
        """The text that became certain since the last call."""
        self._settle()
        if not self._ready:
            return ""
        text = "".join(self._ready)
        self._ready.clear()
        self._taken.append(text)
        return text

    def close(self) -> None:
        """Nothing follows: release what was held back, and a cut character as U+FFFD."""
        self._settle()
        if not self._stopped and not self._append(self._decode(b"", True)):
            self._ready.append(self._held)
            self._held = ""

    @property
    def text(self) -> str:
        """All certain text so far."""
        self._settle()
        return "".join(self._taken) + "".join(self._ready)

    def _bytes(self, tokens: Sequence[int]) -> bytes:
        vocabulary = self._vocabulary
        return b"".join(vocabulary.piece(t) for t in tokens if not vocabulary.is_control(t))

    def _settle(self) -> None:
        """Make text of the tokens that wait."""
        if self._waiting:
            self._append(self._decode(self._bytes(self._waiting)))
            self._waiting.clear()

    def _append(self, text: str) -> bool:
        if not text:
            return False
        if not self._stop:
            self._ready.append(text)
            return False
        self._held += text
        found = [i for i in (self._held.find(s) for s in self._stop) if i >= 0]
        if found:
            self._ready.append(self._held[: min(found)])
            self._held = ""
            self._stopped = True
            return True
        keep = self._partial_stop()
        if keep < len(self._held):
            cut = len(self._held) - keep
            self._ready.append(self._held[:cut])
            self._held = self._held[cut:]
        return False

    def _partial_stop(self) -> int:
        """Length of the longest end of the held text that begins a stop string."""
        held = self._held
        for n in range(min(len(held), max(map(len, self._stop)) - 1), 0, -1):
            tail = held[-n:]
            if any(s.startswith(tail) for s in self._stop):
                return n
        return 0
