"""A toy language model: pure functions of a small recurrent state and a window of tokens.

What it says is chosen, not learnt: how often a token is followed by the same next one, how often
it ends, how well a multi-token-prediction head guesses. Every token depends on all tokens before
it, through a folded state as in a recurrent model, and on the last few by position, as in an
attention cache; a state that is one rollback off continues differently within a few tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

_MASK = (1 << 64) - 1
WINDOW = 4
"""How many tokens of its cache the attention looks at."""
_NOISE_ROWS = 61

_TEXT = (
    " the", " a", " rider", " horse", " carriage", " road", " runs", " ahead", " of", " and",
    " night", " rain", " lamp", " wheel", " gate", " mile", ",", ".", "\n", " é", " Wörter",
    " 馬", " 車", " 🐎",
)  # fmt: skip
_CONTROL = ("<|end|>", "<|go|>", "<|never|>")


class ToyVocabulary:
    """Tokens 0-255 are bytes, then some words, then control tokens.

    `<|end|>` ends a generation, `<|go|>` starts a script, and `<|never|>` is never said. Words
    with characters of several bytes may also be said byte by byte, so half characters occur.
    """

    def __init__(self) -> None:
        pieces = [bytes([b]) for b in range(256)] + [word.encode() for word in _TEXT]
        self.words = range(256, len(pieces))
        self.end, self.go, self.never = range(len(pieces), len(pieces) + len(_CONTROL))
        self._pieces = pieces + [name.encode() for name in _CONTROL]
        self._ids = {piece: i for i, piece in enumerate(self._pieces)}
        self._longest = max(map(len, self._pieces))
        self.size = len(self._pieces)
        self.eog = frozenset({self.end})

    def tokenize(self, text: str, *, special: bool = True, bos: bool = False) -> list[int]:
        """The longest piece at each place; control tokens only when `special`."""
        del bos  # the toy has none
        data = text.encode()
        tokens: list[int] = []
        i = 0
        while i < len(data):
            for n in range(min(self._longest, len(data) - i), 0, -1):
                token = self._ids.get(data[i : i + n])
                if token is not None and (special or not self.is_control(token)):
                    tokens.append(token)
                    i += n
                    break
        return tokens

    def piece(self, token: int) -> bytes:
        """The bytes of one token."""
        return self._pieces[token]

    def is_control(self, token: int) -> bool:
        """Whether a token is a control token."""
        return token >= self.end

    def detokenize(self, tokens: Iterable[int]) -> bytes:
        """The bytes of a token list."""
        return b"".join(map(self.piece, tokens))


@attrs.frozen
class State:
    """What the recurrent layers remember of all tokens so far."""

    folded: int = 0
    """A 64-bit hash of the tokens."""
    since_go: int = -1
    """Tokens since the last `<|go|>`; -1 without one."""


EMPTY = State()


@attrs.frozen
class ToyModel:
    """Chosen statistics; see the module's docstring.

    With probability `predictable` a token is followed by its habitual successor, else by any
    word (one in eight times by a lone byte); with probability `eog` by `<|end|>`. `script` is
    what follows a `<|go|>`, then `<|end|>`.
    """

    vocabulary: ToyVocabulary
    seed: int = 0
    predictable: float = 0.7
    eog: float = 0.0
    peak: float = 8.0
    """Logit of the most likely token; the others' lie between 0 and 1."""
    odds: tuple[float, ...] = ()
    """Probabilities of the most likely tokens, instead of `peak`; all others share the rest."""
    script: tuple[int, ...] = ()
    noise: NDArray[np.float32] = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        draw = np.random.default_rng(self.seed).random((_NOISE_ROWS, self.vocabulary.size))
        draw[:, self.vocabulary.never] = -1.0
        if self.odds:
            rest = max(1.0 - sum(self.odds), 1e-6)
            draw += np.log(rest / np.exp(draw).sum(axis=1, keepdims=True))
        object.__setattr__(self, "noise", draw.astype(np.float32))

    def fold(self, state: State, token: int) -> State:
        """The state after one more token."""
        folded = _mix(state.folded ^ (token + 1) * 0x9E3779B97F4A7C15)
        if token == self.vocabulary.go:
            return State(folded, 0)
        return State(folded, state.since_go + 1 if state.since_go >= 0 else -1)

    def folded(self, tokens: Iterable[int], state: State = EMPTY) -> State:
        """The state after many tokens."""
        for token in tokens:
            state = self.fold(state, token)
        return state

    def key(self, state: State, tokens: Sequence[int]) -> int:
        """A 64-bit hash of everything the next token depends on.

        `tokens` are those in the attention cache, in order of position; the last `WINDOW` count.
        """
        key = state.folded ^ self.seed
        for token in tokens[-WINDOW:]:
            key = _mix(key ^ token << 20)
        return key

    def next(self, state: State, tokens: Sequence[int]) -> int:
        """The most likely next token."""
        if self.script and state.since_go >= 0:
            done = state.since_go
            return self.script[done] if done < len(self.script) else self.vocabulary.end
        key = self.key(state, tokens)
        chance = unit(key)
        if chance < self.eog:
            return self.vocabulary.end
        words = self.vocabulary.words
        if unit(_mix(key ^ 1)) < self.predictable and tokens:
            return words[_mix(tokens[-1] ^ self.seed) % len(words)]
        pick = _mix(key ^ 2)
        if pick % 8 == 0:
            return pick // 8 % 256
        return words[pick // 8 % len(words)]

    def logits(self, state: State, tokens: Sequence[int]) -> NDArray[np.float32]:
        """Logits [n_vocab] whose maximum is at `next`."""
        row = self.noise[self.key(state, tokens) % _NOISE_ROWS].copy()
        if self.odds:
            row[self.likeliest(state, tokens)] = np.log(self.odds)
        else:
            row[self.next(state, tokens)] = self.peak
        return row

    def likeliest(self, state: State, tokens: Sequence[int]) -> list[int]:
        """The tokens that have the `odds`, in their order; `next` is the first."""
        first, words = self.next(state, tokens), self.vocabulary.words
        at = _mix(self.key(state, tokens) ^ 5) % len(words)
        others = [t for i in range(len(words)) if (t := words[(at + i) % len(words)]) != first]
        return [first, *others[: len(self.odds) - 1]]

    def continuation(self, tokens: Sequence[int], count: int) -> list[int]:
        """The `count` most likely tokens that follow `tokens`, one after the other."""
        known = list(tokens)
        state = self.folded(known)
        for _ in range(count):
            known.append(self.next(state, known))
            state = self.fold(state, known[-1])
        return known[len(tokens) :]

    def guess(self, state: State, tokens: Sequence[int], chance: float) -> int:
        """`next` with this probability, else some other word."""
        token = self.next(state, tokens)
        if unit(_mix(self.key(state, tokens) ^ 3)) < chance:
            return token
        words = self.vocabulary.words
        other = words[_mix(state.folded ^ 4) % len(words)]
        return other if other != token else words[(words.index(other) + 1) % len(words)]


def unit(key: int) -> float:
    """A hash as a number in [0, 1)."""
    return (key >> 11) / (1 << 53)


def _mix(x: int) -> int:
    """A 64-bit finaliser (splitmix64, Steele, Lea and Flood 2014)."""
    x &= _MASK
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & _MASK
    return x ^ x >> 31
