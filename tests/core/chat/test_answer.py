"""What `Pipeline.chat` makes of a body, beyond what templates render."""

import pytest
from outrider import EngineError, RequestError

QUESTION = [{"role": "user", "content": "Write a function that adds two numbers."}]


def test_every_option_of_the_sampler_goes_by_its_own_name(open_pipeline):
    pipeline = open_pipeline("sampler={use: rejection, temperature: 0}", "drafter=none")
    tokenize = pipeline.decoder.engine.vocabulary.tokenize

    def first_token(**more):
        answer = pipeline.chat(QUESTION, max_tokens=12, **more)
        return tokenize(answer.reasoning_content or answer.content)[0]

    usual = first_token()
    assert first_token() == usual
    assert first_token(logit_bias={usual: -float("inf")}) != usual


def test_a_text_that_is_no_unicode_is_refused(open_pipeline):
    pipeline = open_pipeline("drafter=none")
    with pytest.raises(RequestError, match="at character 1 it has half a surrogate pair"):
        pipeline.generate("a\udc80b", max_tokens=2)


def test_rows_of_a_layer_that_nobody_asked_for_are_an_error(open_pipeline):
    pipeline = open_pipeline("drafter=none")
    pipeline.generate("a", max_tokens=2)
    with pytest.raises(EngineError, match="the inputs of layer 1 are not exported; name the layer"):
        pipeline.decoder.engine.target.layer_input(1, 0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"max_token": 5},
            "nothing reads the field 'max_token' of a request; did you mean 'max_to",
        ),
        ({"enable_thinking": False}, "it belongs under `chat_template_kwargs`"),
        ({"resonse_format": {"type": "json_object"}}, "did you mean 'response_format'"),
        ({"n": 2}, "n is 2; a request has one answer"),
        ({"logprobs": 3}, "logprobs must be true or false, got 3; top_logprobs says how many"),
        ({"logprobs": True, "top_logprobs": -1}, "top_logprobs must be a whole number"),
        ({"top_logprobs": 2}, "top_logprobs needs logprobs: true"),
        ({"logprobs": True}, "logprobs: the sampler 'greedy' always takes the most likely token"),
        ({"temperature": 0.5}, "temperature: the sampler 'greedy' always takes"),
    ],
)
def test_a_field_that_would_do_nothing_is_refused(open_pipeline, fields, message):
    pipeline = open_pipeline("drafter=none")
    pipeline.chat(QUESTION, max_tokens=3)
    before = pipeline.statistics.emitted
    with pytest.raises(RequestError, match=message):
        pipeline.chat(QUESTION, **{"max_tokens": 4, **fields})
    assert pipeline.statistics.emitted == before


def test_fields_that_say_nothing_else_are_taken(open_pipeline):
    pipeline = open_pipeline("drafter=none")
    usual = pipeline.chat(QUESTION, max_tokens=8)
    fields = {"n": 1, "temperature": 0, "logprobs": False, "reasoning": {"effort": "xhigh"}}
    assert pipeline.chat(QUESTION, max_tokens=8, **fields).message == usual.message


def test_log_probabilities_of_an_answer(open_pipeline):
    pipeline = open_pipeline("sampler={use: rejection, temperature: 0}", "drafter=mtp")
    answer = pipeline.chat(QUESTION, max_tokens=12, logprobs=True, top_logprobs=2)
    assert len(answer.logprobs) == answer.usage.completion_tokens == 12
    for entry in answer.logprobs:
        assert len(entry.top) == 2
        assert entry.top[0] == (entry.token, pytest.approx(entry.logprob))
    assert pipeline.chat(QUESTION, max_tokens=4, logprobs=True).logprobs[0].top == ()
    assert pipeline.chat(QUESTION, max_tokens=4).logprobs == ()


def test_a_request_that_is_refused_leaves_the_statistics_alone(scripted):
    scripted.generate([260, 261], max_tokens=6)
    before = scripted.statistics
    with pytest.raises(RequestError):
        scripted.generate([10**6], max_tokens=6)
    assert scripted.statistics is before
    scripted.generate([260, 261], max_tokens=3)
    assert scripted.statistics.emitted == 2
