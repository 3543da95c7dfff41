"""Tokens and text, through the model's own tokenizer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from outrider.engine.library import ffi, library
from outrider.errors import EngineError, RequestError


class LlamaVocabulary:
    """The vocabulary of a loaded model; see `outrider.target.Vocabulary`."""

    def __init__(self, model: Any) -> None:
        self._c = library().c
        self._vocab = self._c.llama_model_get_vocab(model)
        self.size: int = self._c.llama_vocab_n_tokens(self._vocab)
        self.eog = frozenset(
            t for t in range(self.size) if self._c.llama_vocab_is_eog(self._vocab, t)
        )
        self.bos: int = self._c.llama_vocab_bos(self._vocab)
        self.eos: int = self._c.llama_vocab_eos(self._vocab)
        self.mask: int = self._c.llama_vocab_mask(self._vocab)
        self.add_bos: bool = self._c.llama_vocab_get_add_bos(self._vocab)
        self._buffer = ffi.new("char[]", 256)
        self._pieces: dict[int, bytes] = {}
        self._control: dict[int, bool] = {}

    def tokenize(self, text: str, *, special: bool = True, bos: bool = False) -> list[int]:
        """Token ids of `text` (`llama_tokenize`).

        Raises RequestError for a text with half a surrogate pair, which is no Unicode.
        """
        try:
            data = text.encode()
        except UnicodeEncodeError as error:
            raise RequestError(
                f"the text is not Unicode: at character {error.start} it has half a surrogate pair "
                f"({text[error.start]!r}), as bytes that are not UTF-8 leave it"
            ) from None
        add_bos = bos and self.add_bos
        capacity = len(data) + 2
        tokens = ffi.new("llama_token[]", capacity)
        n = self._c.llama_tokenize(self._vocab, data, len(data), tokens, capacity, add_bos, special)
        if n < 0:
            raise EngineError(f"llama.cpp could not tokenise a text of {len(data)} bytes ({n})")
        return list(tokens[0:n])

    def piece(self, token: int) -> bytes:
        """The bytes of one token, control tokens spelt out (`llama_token_to_piece`)."""
        known = self._pieces.get(token)
        if known is not None:
            return known
        if not 0 <= token < self.size:
            raise EngineError(f"token {token} is outside the vocabulary of {self.size} tokens")
        n = self._c.llama_token_to_piece(
            self._vocab, token, self._buffer, len(self._buffer), 0, True
        )
        if n < 0:
            self._buffer = ffi.new("char[]", -n)
            n = self._c.llama_token_to_piece(self._vocab, token, self._buffer, -n, 0, True)
        piece = bytes(ffi.buffer(self._buffer, n))
        self._pieces[token] = piece
        return piece

    def is_control(self, token: int) -> bool:
        """Whether a token is a control token, such as a turn marker."""
        known = self._control.get(token)
        if known is None:
            known = self._control[token] = self._c.llama_vocab_is_control(self._vocab, token)
        return known

    def detokenize(self, tokens: Iterable[int]) -> bytes:
        """The bytes of a token list."""
        return b"".join(map(self.piece, tokens))
