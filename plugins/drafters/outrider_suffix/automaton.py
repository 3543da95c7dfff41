"""An online suffix automaton over tokens that counts what follows.

Blumer et al., "The smallest automaton recognizing the subwords of a text" (1985). A state stands
for a set of substrings that end at the same places. After each token, the suffix link of the
state of the whole text is the longest suffix that occurred before: exactly the context whose
continuations are worth proposing. Appending a token is amortised constant time, proposing k
tokens takes about k steps, whatever the length of the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_ROOT = 0
_NONE = -1
_VOTERS = 8
"""How many suffixes of the present context count a token that followed them before; shorter
ones see it too often to matter. States above it count too little, never too much."""


class SuffixAutomaton:
    """Grows token by token; `continuation` walks the likeliest path after the present context.

    The likeliest edge of a state (the most frequent token, of equally frequent ones the latest)
    stands in arrays, `_token`, `_target` and `_count`. The few states with more than one edge
    keep the others in `_others`: by token, the target and the count. `_total` counts all edges.
    """

    def __init__(self, min_match: int, voters: int = _VOTERS) -> None:
        self._min_match = min_match
        self._voters = voters
        self._text: list[int] = []
        self._last = _ROOT
        self._link: list[int] = [_NONE]
        self._length: list[int] = [0]
        self._token: list[int] = [_NONE]
        self._target: list[int] = [_NONE]
        self._count: list[int] = [0]
        self._total: list[int] = [0]
        self._others: dict[int, dict[int, tuple[int, int]]] = {}

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

    @property
    def contested(self) -> bool:
        """Whether different tokens followed the longest repeated context."""
        state = self._link[self._last]
        while state > _ROOT and self._token[state] < 0:
            state = self._link[state]
        return state > _ROOT and self._count[state] < self._total[state]

    def extend(self, tokens: Iterable[int]) -> None:
        """Append tokens."""
        # bound once: this loop indexes whole prompts
        link, length = self._link, self._length
        likeliest, target, count, total = self._token, self._target, self._count, self._total
        others, text = self._others, self._text
        last, minimum = self._last, self._min_match
        for token in tokens:
            text.append(token)
            new = len(link)
            link.append(_ROOT)
            length.append(length[last] + 1)
            likeliest.append(_NONE)
            target.append(_NONE)
            count.append(0)
            total.append(0)
            state, last = last, new
            reached = _NONE
            while state >= 0:
                first = likeliest[state]
                if first == token:
                    reached = target[state]
                    break
                if first < 0:
                    likeliest[state] = token
                    target[state] = new
                    count[state] = 1
                else:
                    edges = others.get(state)
                    if edges is None:
                        edges = others[state] = {}
                    elif token in edges:
                        reached = edges[token][0]
                        break
                    # contexts shorter than the minimum are never proposed from
                    if count[state] > 1 or length[state] < minimum:
                        edges[token] = (new, 1)
                    else:
                        edges[first] = (target[state], 1)
                        likeliest[state] = token
                        target[state] = new
                total[state] += 1
                state = link[state]
            if state < 0:
                continue
            if length[reached] != length[state] + 1:
                reached = self._split(state, token, reached)
            link[new] = reached
            self._vote(state, token)
        self._last = last

    def continuation(self, limit: int, min_share: float = 0.0) -> list[int]:
        """Up to `limit` tokens that most often followed the longest repeated context.

        Of equally frequent ones the latest wins. Where the text itself ends, it goes on as its
        own longest repeated context did. Empty when the context is shorter than `min_match`;
        stops where the winner's share of what followed falls below `min_share`.
        """
        link, length, likeliest = self._link, self._length, self._token
        state = link[self._last]
        tokens: list[int] = []
        while len(tokens) < limit and state > _ROOT and length[state] >= self._min_match:
            token = likeliest[state]
            if token < 0:
                state = link[state]
                continue
            if self._count[state] < min_share * self._total[state]:
                break
            tokens.append(token)
            state = self._target[state]
        return tokens

    def _vote(self, state: int, token: int) -> None:
        """`token` followed `state`, and so its suffixes, once more: count it for some of them."""
        for _ in range(self._voters):
            if state <= _ROOT or self._length[state] < self._min_match:
                return
            self._total[state] += 1
            if self._token[state] == token:
                self._count[state] += 1
            else:
                edges = self._others[state]
                reached, count = edges[token]
                if count + 1 < self._count[state]:
                    edges[token] = (reached, count + 1)
                else:
                    del edges[token]
                    edges[self._token[state]] = (self._target[state], self._count[state])
                    self._token[state] = token
                    self._target[state] = reached
                    self._count[state] = count + 1
            state = self._link[state]

    def _split(self, state: int, token: int, reached: int) -> int:
        """A copy of `reached` for the shorter strings that come to it through `state`."""
        copy = len(self._link)
        self._link.append(self._link[reached])
        self._length.append(self._length[state] + 1)
        self._token.append(self._token[reached])
        self._target.append(self._target[reached])
        self._count.append(self._count[reached])
        self._total.append(self._total[reached])
        if reached in self._others:
            self._others[copy] = dict(self._others[reached])
        self._link[reached] = copy
        while state >= 0:
            if self._token[state] == token:
                if self._target[state] != reached:
                    break
                self._target[state] = copy
            else:
                edges = self._others[state]
                goal, count = edges[token]
                if goal != reached:
                    break
                edges[token] = (copy, count)
            state = self._link[state]
        return copy
