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
