"""What every prefix cache, constraint, template and observer must do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import attrs
import pytest

from outrider.chat.fields import BODY_FIELDS
from outrider.chat.message import ContentDelta, Message
from outrider.components import Assembly, Constraint, Observer, PrefixCache, Prompt, Reuse
from outrider.errors import RequestError
from outrider.sequence import Request
from outrider.sequence import Sequence as Seq
from outrider.step import Step
from outrider.testing.contracts.base import ComponentContract, check_json, requests
from outrider.testing.harness import decode_all, emitted, make_pipeline, plain_tokens

_ECHO = {"use": "echo", "accuracy": [0.7]}
_RANDOM = {"use": "random", "max": 5}
_BROKEN = (
    "<think>first\n<tool_call>\n</think>second <function=third>\n<parameter=</think>\n</tool_call>"
    "fourth\n<think>\n{fifth}\n</function></tool_call>\n<tool_call>\n<function=sixth>\n"
)
"""An answer in which nothing is closed that was opened."""
_WORDS = ("first", "second", "third", "fourth", "fifth", "sixth")
"""What nobody may lose of it."""


class CacheContract(ComponentContract):
    """Reuse never changes an answer, and what is reused is exact."""

    kind = "cache"

    def test_answers_do_not_depend_on_what_was_asked_before(self) -> None:
        """Growing, diverging, shortened, repeated and unrelated prompts, on two slots."""
        with self.opened(
            drafter={"use": "cascade", "of": ["suffix", "mtp"]},
            draft_length=_RANDOM,
            max_sequences=2,
        ) as pipeline:
            self._check_reuse(pipeline.cache, pipeline.engine.target)
            first, second = (list(r.prompt) for r in requests(pipeline, 2, seed=9))
            history = list(first)
            asked: list[list[int]] = [first, second, first]
            for turn in range(4):
                history += [*plain_tokens(pipeline, history, 12), 256 + turn, 260]
                asked += [list(history), history[: len(history) // 2], second]
            asked += [history[:-3], [*history[:-9], 270], history[:1], history]
            for prompt in asked:
                [sequence] = decode_all(pipeline, [Request(prompt=prompt, max_tokens=12)])
                assert emitted(sequence) == plain_tokens(pipeline, prompt, 12)

    def test_joint_requests_do_not_mix(self) -> None:
        """Two at a time, sharing prefixes."""
        with self.opened(drafter=_ECHO, draft_length=_RANDOM, max_sequences=2) as pipeline:
            self._check_reuse(pipeline.cache, pipeline.engine.target)
            base = list(requests(pipeline, 1, seed=4)[0].prompt) * 3
            prompts = [[*base[:n], 256 + n % 20] for n in (3, 9, 9, 20, 5, 21, 3)]
            asked = [Request(prompt=p, max_tokens=15) for p in prompts]
            for sequence, prompt in zip(decode_all(pipeline, asked), prompts, strict=True):
                assert emitted(sequence) == plain_tokens(pipeline, prompt, 15)

    def _check_reuse(self, cache: PrefixCache, target: Any) -> None:
        prepare = cache.prepare

        def checked(request: Request, slots: Any, states: Any) -> Reuse:
            reuse = prepare(request, slots, states)
            assert reuse.slot in slots, "only a free slot may be chosen"
            assert reuse.length == reuse.slot.length == target.length(reuse.slot.id)
            assert reuse.length <= len(request.prompt) - 1, "the last token must be decoded"
            assert target.tokens(reuse.slot.id) == list(request.prompt[: reuse.length])
            assert target.exact(reuse.slot.id), f"reused from {reuse.source}, but not exact"
            assert (reuse.source == "none") == (reuse.length == 0)
            return reuse

        cache.prepare = checked  # pyright: ignore[reportAttributeAccessIssue]


class ConstraintContract(ComponentContract):
    """Queries change nothing and agree with each other; drafts do not change the answer.

    Reads `requests`, which must be set, and `prompt`.
    """

    kind = "constraint"
    requests: ClassVar[Sequence[Mapping[str, Any]]] = ()
    """Bodies of requests that ask for the constraint; at least one."""
    prompt: ClassVar[Prompt | None] = None
    """What a template rendered from them, if the constraint looks at it; the same for all."""

    def made(self, pipeline: Any, body: Mapping[str, Any]) -> Constraint:
        """The constraint that a request asks for."""
        constraint = pipeline.constraints[0].make(body, self.prompt)
        assert constraint is not None, "the request was to ask for the constraint"
        return constraint

    def asking(self) -> Sequence[Mapping[str, Any]]:
        """`requests`; without any of them nothing would be tested."""
        assert self.requests, (
            f"{type(self).__name__}.requests is empty; set it to bodies of requests that ask for "
            "the constraint, for example [{'response_format': {'type': 'json_object'}}]"
        )
        return self.requests

    def test_an_empty_request_asks_for_nothing(self) -> None:
        """A request that does not mention it is not constrained."""
        with self.opened() as pipeline:
            assert pipeline.constraints[0].make({"messages": []}, self.prompt) is None

    def test_fields_are_declared(self) -> None:
        """What its requests hold beyond usual bodies is in `fields`, or `chat` refuses it."""
        with self.opened() as pipeline:
            known = BODY_FIELDS | pipeline.constraints[0].fields
            for body in self.asking():
                undeclared = body.keys() - known
                assert not undeclared, f"`fields` must name {', '.join(sorted(undeclared))}"

    def test_queries_agree_and_change_nothing(self) -> None:
        """`mask`, `allows` and `legal_prefix` say the same of every token, again and again."""
        with self.opened() as pipeline:
            size = pipeline.engine.vocabulary.size
            for body in self.asking():
                constraint = self.made(pipeline, body)
                for _ in range(12):
                    mask = constraint.mask(())
                    allowed = [t for t in range(size) if constraint.allows((), t)]
                    assert allowed, "there must be a way on"
                    for token in range(size):
                        legal = mask is None or bool(mask[token // 32] >> token % 32 & 1)
                        assert legal == constraint.allows((), token)
                        assert legal == (constraint.legal_prefix([token]) == 1)
                    forced = constraint.forced(())
                    assert constraint.legal_prefix(forced) == len(forced)
                    constraint.commit([forced[0] if forced else allowed[len(allowed) // 2]])

    def test_drafts_do_not_change_the_answer(self) -> None:
        """Plain and drafted greedy decoding emit the same constrained tokens, all legal."""
        for body in self.asking():
            said: list[list[int]] = []
            for drafter in ("none", "echo", "always-wrong"):
                with self.opened(drafter=drafter, draft_length=_RANDOM) as pipeline:
                    asked = Request(
                        prompt=requests(pipeline, 1)[0].prompt,
                        max_tokens=30,
                        constraint=self.made(pipeline, body),
                    )
                    [sequence] = decode_all(pipeline, [asked])
                    said.append(emitted(sequence))
                    fresh = self.made(pipeline, body)
                    for token in said[-1]:
                        assert fresh.allows((), token)
                        fresh.commit([token])
            assert said[0] == said[1] == said[2]


class TemplateContract(ComponentContract):
    """It renders a conversation, or refuses it with a reason, and reads answers to the end.

    Reads `bodies`, `chat_template` and `answers`.
    """

    kind = "template"
    bodies: ClassVar[Sequence[Mapping[str, Any]]] = (
        {"messages": [{"role": "user", "content": "Hello"}]},
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Hello 馬"},
                {"role": "assistant", "content": "Hi."},
                {"role": "user", "content": "Bye"},
            ]
        },
    )
    """Requests that must render."""
    chat_template: ClassVar[str | None] = None
    """The template text in the header of a model that it serves."""
    answers: ClassVar[Sequence[str]] = (
        "Yes.",
        "Two lines:\n\n1. a horse\n2. a 馬 and a 🐎",
        "Tags that are none: a < b, </p>, <tool, <|go|>.",
        "It ends in what may become a tag: <tool_",
    )
    """Texts that a model may answer with and that are content from end to end."""

    def test_history_is_a_prefix_that_the_next_turn_keeps(self) -> None:
        """`text[:history]` is the conversation without the generation prompt."""
        template = self._template()
        for body in self.bodies:
            prompt = template.render(body)
            assert 0 < prompt.history <= len(prompt.text)
            for message in body["messages"]:
                assert message["content"] in prompt.text[: prompt.history]

    def test_a_malformed_request_is_refused_with_a_reason(self) -> None:
        """Never another exception than RequestError."""
        template = self._template()
        malformed: list[Any] = [None, "text", [], [{}], [{"role": "nobody", "content": "x"}], [1]]
        for messages in malformed:
            with pytest.raises(RequestError):
                template.render({"messages": messages})

    @pytest.mark.parametrize("size", [1, 3, 1000])
    def test_its_parser_loses_nothing(self, size: int) -> None:
        """An answer fed in pieces comes out whole, as deltas and in `message`."""
        template = self._template()
        for body in self.bodies:
            for answer in self.answers:
                parser, given = self._parser(template, body)
                deltas = [d for piece in _pieces(given + answer, size) for d in parser.feed(piece)]
                deltas += parser.finish()
                streamed = "".join(d.text for d in deltas if isinstance(d, ContentDelta))
                assert streamed == answer, f"{answer!r} came out of the parser as {streamed!r}"
                assert parser.message.content == answer

    @pytest.mark.parametrize("size", [1, 7])
    def test_its_parser_reads_whatever_a_model_writes(self, size: int) -> None:
        """Broken thinking and broken calls are read to the end, wherever the answer stops."""
        template = self._template()
        for body in self.bodies:
            for cut in range(0, len(_BROKEN) + 1, 5):
                parser, _ = self._parser(template, body)
                for piece in _pieces(_BROKEN[:cut], size):
                    parser.feed(piece)
                parser.finish()
                for word in _WORDS:
                    if word in _BROKEN[:cut]:
                        assert word in _everything(parser.message), f"{word!r} got lost"

    def _parser(self, template: Any, body: Mapping[str, Any]) -> tuple[Any, str]:
        """A reader, and what must come before the answer's content."""
        prompt = template.render(body)
        return template.parser(body, prompt), "</think>\n\n" if prompt.thinking else ""

    def test_its_statistics_can_be_printed(self) -> None:
        """Checked without a pipeline, like all of a template."""
        check_json(dict(self._template().statistics()), "the statistics of the template")

    def _template(self) -> Any:
        pipeline = make_pipeline(offers=self.offers)
        entry = self.entry()
        options = {} if isinstance(self.use, str) else dict(self.use)
        options.pop("use", None)
        template = entry.cls(entry.cls.Config(**options), Assembly(pipeline, self.component_name))
        model = attrs.evolve(pipeline.model, chat_template=self.chat_template)
        assert template.unsupported_reason(model) is None
        return template

    def test_an_unknown_option_is_an_error(self) -> None:
        """Checked without a pipeline: the scripted model has no template to match."""
        with pytest.raises(TypeError):
            self.entry().cls.Config(no_such_option=1)

    def test_it_opens_and_closes(self) -> None:
        """Closing without having been opened is harmless."""
        template = self._template()
        template.close()
        template.close()


def _pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def _everything(message: Message) -> str:
    """All that was read of an answer, wherever it went."""
    calls = [*message.tool_calls, *([message.unfinished] if message.unfinished else [])]
    return "".join([message.reasoning_content, message.content, *(c.raw for c in calls)])


class ObserverContract(ComponentContract):
    """It sees everything and disturbs nothing."""

    kind = "observer"

    def test_it_does_not_disturb(self) -> None:
        """The output is plain decoding's, and every event arrives in order.

        For each sequence: `started` with the first token, steps with the tokens that follow,
        `finished`. Some end before any step; one is abandoned between two.
        """
        with self.opened(drafter=_ECHO, draft_length=_RANDOM, max_sequences=2) as pipeline:
            seen = _watch(pipeline.observers[0])
            asked = requests(pipeline, 4)
            asked += [attrs.evolve(r, max_tokens=n) for n, r in enumerate(asked, 1)]
            done = decode_all(pipeline, asked)
            for sequence, request in zip(done, asked, strict=True):
                expected = plain_tokens(pipeline, request.prompt, request.max_tokens or 0)
                assert emitted(sequence) == expected
            left = pipeline.start(asked[0])
            pipeline.step([left])
            pipeline.decoder.abandon(left)
            for sequence in [*done, left]:
                events = seen.pop(id(sequence), [])
                names = [name for name, _ in events]
                steps = ["step"] * (len(names) - 2)
                assert names == ["started", *steps, "finished"], f"out of order: {names}"
                assert [t for _, tokens in events for t in tokens] == emitted(sequence)
            assert not seen, "an event of a sequence that nobody asked for"


def _watch(observer: Observer) -> dict[int, list[tuple[str, tuple[int, ...]]]]:
    """Note what an observer is told, by sequence, and check that it leaves sequences alone."""
    seen: dict[int, list[tuple[str, tuple[int, ...]]]] = {}
    started, step, finished = observer.started, observer.step, observer.finished

    def note(name: str, sequence: Seq, tokens: Sequence[int]) -> None:
        seen.setdefault(id(sequence), []).append((name, tuple(tokens)))

    def told(call: Callable[[], None], sequences: Sequence[Seq]) -> None:
        before = [_visible(s) for s in sequences]
        call()
        assert [_visible(s) for s in sequences] == before, "an observer must change no sequence"

    def on_started(sequence: Seq) -> None:
        note("started", sequence, emitted(sequence))
        told(lambda: started(sequence), [sequence])

    def on_step(sequences: Sequence[Seq], steps: Sequence[Step]) -> None:
        for sequence, done in zip(sequences, steps, strict=True):
            note("step", sequence, done.tokens)
        told(lambda: step(sequences, steps), sequences)

    def on_finished(sequence: Seq) -> None:
        note("finished", sequence, ())
        told(lambda: finished(sequence), [sequence])

    observer.started, observer.step, observer.finished = on_started, on_step, on_finished
    return seen


def _visible(sequence: Seq) -> tuple[Any, ...]:
    """What decoding goes by; what an observer notes in `scratch` under its name is its own."""
    return list(sequence.tokens), sequence.finish, sequence.cancelled, list(sequence.logprobs)
