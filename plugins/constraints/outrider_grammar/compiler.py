"""Grammars in llguidance's Lark dialect, compiled for a model's vocabulary."""

from __future__ import annotations

from typing import Any

import llguidance
from outrider import RequestError, Vocabulary


class _Tokenizer:
    """A vocabulary as llguidance wants it. Control tokens are no text and never match any."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        everything = range(vocabulary.size)
        self.eos_token_id = min(vocabulary.eog, default=0)
        self.bos_token_id = None
        self.tokens = [vocabulary.piece(t) for t in everything]
        self.special_token_ids = [t for t in everything if vocabulary.is_control(t)]
        self._tokenize = vocabulary.tokenize

    def __call__(self, text: str | bytes) -> list[int]:
        if isinstance(text, bytes):
            text = text.decode()
        return self._tokenize(text, special=False)


class GrammarCompiler:
    """Compiles grammars; keeps the vocabulary's tables."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        wrapper: Any = llguidance.TokenizerWrapper(_Tokenizer(vocabulary))
        self._tokenizer = llguidance.LLTokenizer(wrapper, eos_token=sorted(vocabulary.eog))

    def compile(self, lark: str, what: str) -> llguidance.LLMatcher:
        """A matcher at its start. Raises RequestError when the grammar cannot be enforced."""
        grammar = llguidance.LLMatcher.grammar_from_lark(lark)
        failed, messages = llguidance.LLMatcher.validate_grammar_with_warnings(
            grammar, self._tokenizer
        )
        if failed:
            reason = next((m.strip().partition("\n")[0] for m in messages if m.strip()), "?")
            raise RequestError(f"{what} cannot be enforced: {reason}")
        matcher = llguidance.LLMatcher(self._tokenizer, grammar, log_level=0)
        if matcher.is_error():
            reason = matcher.get_error().strip().partition("\n")[0]
            raise RequestError(f"{what} cannot be enforced: {reason}")
        return matcher
