"""One answer: from a request body to deltas, a message and the reason it ended.

`ChatAnswer` does not care who steps the decode loop: `deltas()` steps it by itself, a server that
steps many sequences at once calls `start` and then `take` after each step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import attrs

from outrider.chat.body import read_json
from outrider.chat.fields import check_count, max_tokens, sampling_options, stop_texts
from outrider.chat.message import Delta, Message
from outrider.chat.parser import AnswerParser
from outrider.components import Constraint
from outrider.constraints import together
from outrider.errors import RequestError
from outrider.sequence import FinishReason, Request
from outrider.sequence import Sequence as Seq
from outrider.step import LogProb

if TYPE_CHECKING:
    from outrider.pipeline import Pipeline


@attrs.frozen
class Usage:
    """Tokens of a request. `reasoning_tokens` are part of `completion_tokens`."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    reasoning_tokens: int


@attrs.frozen
class ChatResult:
    """A finished answer. `finish_reason` is `stop`, `length`, `tool_calls` or `cancelled`."""

    message: Message
    finish_reason: str
    finish_detail: str
    usage: Usage
    stats: Mapping[str, Any]
    """Of everything the pipeline has decoded since its statistics were reset."""
    logprobs: tuple[LogProb, ...] = ()
    """One entry a token, the thinking's included, where the request asked for them."""

    @property
    def content(self) -> str:
        """The answer's text."""
        return self.message.content

    @property
    def reasoning_content(self) -> str:
        """The thinking."""
        return self.message.reasoning_content


class ChatAnswer:
    """An answer in the making. Raises RequestError for a request that cannot be served.

    `sampling` are options of the pipeline's sampler beyond those the body names.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        body: Mapping[str, Any] | bytes,
        sampling: Mapping[str, Any] | None = None,
    ) -> None:
        document: Any = read_json(body) if isinstance(body, bytes) else body
        if not isinstance(document, Mapping):
            raise RequestError("the request body must be a JSON object")
        self.body = cast("Mapping[str, Any]", document)
        check_count(self.body)
        template = pipeline.template
        if template is None:
            raise RequestError(
                f"{pipeline.model.name} has no chat template that an installed plugin can render"
            )
        self.prompt = template.render(self.body)
        self.parser: AnswerParser = template.parser(self.body, self.prompt)
        self.constraint: Constraint | None = together(
            [
                made
                for factory in pipeline.constraints
                if (made := factory.make(self.body, self.prompt)) is not None
            ]
        )
        history = self.prompt.text[: self.prompt.history]
        self.request = Request(
            prompt=pipeline.tokenize(self.prompt.text),
            max_tokens=max_tokens(self.body),
            stop=stop_texts(self.body),
            sampling={**sampling_options(self.body), **(sampling or {})},
            constraint=self.constraint,
            history=len(pipeline.tokenize(history)),
        )
        self.sequence: Seq | None = None
        self._pipeline = pipeline
        self._seen = 0
        self._forced = False
        self._ended = False
        self._reasoning_tokens = 0

    def start(self) -> Seq:
        """Prefill and emit the first token."""
        self.sequence = self._pipeline.start(self.request)
        return self.sequence

    def take(self) -> list[Delta]:
        """What became certain since the last call; the rest of the answer once it has ended."""
        sequence = self.sequence
        assert sequence is not None, "the answer was not started"
        assert sequence.stream is not None
        if self._ended:
            return []
        was_thinking = self.parser.thinking
        new = range(self._seen, sequence.generated)
        self._seen = sequence.generated
        if self.constraint is not None and was_thinking:
            self._forced = self._forced or any(map(self.constraint.was_forced, new))
        deltas = self.parser.feed(sequence.stream.take(), forced=self._forced)
        if was_thinking:
            self._reasoning_tokens += self._thought(new)
        if sequence.finish is not None:
            deltas += self.parser.finish()
            self._ended = True
        return deltas

    def deltas(self) -> Iterator[Delta]:
        """Decode the answer, handing out what becomes certain."""
        sequence = self.sequence or self.start()
        try:
            while True:
                yield from self.take()
                if sequence.finish is not None:
                    return
                self._pipeline.step((sequence,))
        finally:
            self._pipeline.decoder.abandon(sequence)

    def result(self) -> ChatResult:
        """The finished answer."""
        sequence = self.sequence
        if sequence is None or sequence.finish is None or not self._ended:
            raise RequestError("the answer has not finished")
        reason = sequence.finish.reason
        message = self.parser.message
        called = message.tool_calls and reason is FinishReason.STOP
        return ChatResult(
            message=message,
            finish_reason="tool_calls" if called else reason.value,
            finish_detail=sequence.finish.detail,
            usage=self.usage,
            stats=self._pipeline.summary(),
            logprobs=tuple(sequence.logprobs),
        )

    @property
    def usage(self) -> Usage:
        """Tokens so far."""
        sequence = self.sequence
        return Usage(
            prompt_tokens=len(self.request.prompt),
            cached_tokens=sequence.cached if sequence else 0,
            completion_tokens=sequence.generated if sequence else 0,
            reasoning_tokens=self._reasoning_tokens,
        )

    def _thought(self, new: range) -> int:
        """How many of the emitted tokens `new` belong to the thinking, its end included."""
        sequence = self.sequence
        assert sequence is not None
        vocabulary = self._pipeline.engine.vocabulary
        for count, index in enumerate(new):
            token = sequence.tokens[sequence.prompt_length + index]
            if token in vocabulary.eog:
                return count
            if b"</think>" in vocabulary.piece(token):
                return count + 1
        return len(new)
