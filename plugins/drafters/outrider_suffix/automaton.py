"""An online suffix automaton over tokens, with votes for what follows.

Blumer et al., "The smallest automaton recognizing the subwords of a text" (1985). A state stands
for a set of substrings that end at the same places. After each token, the suffix link of the
state of the whole text is the longest suffix that occurred before: exactly the context whose
continuations are worth proposing. Appending a token is amortised constant time, proposing k
tokens takes k steps, whatever the length of the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_ROOT = 0
_DEEPEST_VOTES = 8
"""How many of the present context's suffixes get a vote for the token that follows."""


class SuffixAutomaton:
    """Grows token by token; `continuation` walks the likeliest path after the present context."""

    def __init__(self, min_match: int) -> None:
        self._min_match = min_match
        self._text: list[int] = []
        self._next: list[dict[int, int]] = [{}]
        self._link: list[int] = [-1]
        self._length: list[int] = [0]
        self._votes: dict[int, dict[int, int]] = {}
        self._best: dict[int, int] = {}
        self._last = _ROOT

    def __len__(self) -> int:
        return len(self._text)

    def is_prefix_of(self, tokens: Sequence[int]) -> bool:
        """Whether the text so far is a prefix of `tokens`."""
        n = len(self._text)
        return n <= len(tokens) and self._text == list(tokens[:n])

    @property
    def match_length(self) -> int:
        """Length of the longest suffix of the text that occurred before."""
        link = self._link[self._last]
        return self._length[link] if link > _ROOT else 0

    def extend(self, tokens: Iterable[int]) -> None:
        """Append tokens."""
        for token in tokens:
            self._vote(token)
            self._append(token)

    def continuation(self, limit: int, min_share: float = 0.0) -> list[int]:
        """Up to `limit` tokens that most often followed the longest repeated context.

        Of equally frequent ones the latest wins. Empty when the context is shorter than
        `min_match`; stops where the winner's share of the votes falls below `min_share`.
        """
        state = self._link[self._last]
        if state <= _ROOT or self._length[state] < self._min_match:
            return []
        tokens: list[int] = []
        while len(tokens) < limit:
            following = self._next[state]
            if not following:
                break
            token = self._best.get(state)
            if token is None:
                # seen once only, or a state split off just now: its latest transition
                token = next(reversed(following))
            elif min_share > 0.0:
                votes = self._votes[state]
                if votes[token] < min_share * sum(votes.values()):
                    break
            tokens.append(token)
            state = following[token]
        return tokens

    def _vote(self, token: int) -> None:
        """`token` follows the present context: count it for the context's longest suffixes."""
        state = self._link[self._last]
        lengths, links, minimum = self._length, self._link, self._min_match
        for _ in range(_DEEPEST_VOTES):
            if state <= _ROOT or lengths[state] < minimum:
                return
            votes = self._votes.get(state)
            if votes is None:
                votes = self._votes[state] = dict.fromkeys(self._next[state], 1)
            count = votes.get(token, 0) + 1
            votes[token] = count
            best = self._best.get(state)
            if best is None or count >= votes[best]:
                self._best[state] = (
                    token if count >= max(votes.values()) else max(votes, key=votes.__getitem__)
                )
            state = links[state]

    def _append(self, token: int) -> None:
        following, links, lengths = self._next, self._link, self._length
        self._text.append(token)
        new = len(following)
        following.append({})
        lengths.append(lengths[self._last] + 1)
        links.append(_ROOT)
        state = self._last
        while state >= 0 and token not in following[state]:
            following[state][token] = new
            state = links[state]
        if state >= 0:
            target = following[state][token]
            if lengths[state] + 1 == lengths[target]:
                links[new] = target
            else:
                links[new] = links_target = self._split(state, token, target)
                links[target] = links_target
        self._last = new

    def _split(self, state: int, token: int, target: int) -> int:
        """A copy of `target` for the shorter strings that reach it through `state`."""
        following, links, lengths = self._next, self._link, self._length
        copy = len(following)
        following.append(dict(following[target]))
        lengths.append(lengths[state] + 1)
        links.append(links[target])
        if target in self._votes:
            self._votes[copy] = dict(self._votes[target])
            self._best[copy] = self._best[target]
        while state >= 0 and following[state].get(token) == target:
            following[state][token] = copy
            state = links[state]
        return copy
