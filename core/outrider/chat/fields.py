"""The fields of a request body that are the same for every template, and what they come to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from outrider.errors import RequestError
from outrider.yamlfile import nearest

SAMPLING_OPTIONS = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
)
"""Fields of a request body that are options of the sampler."""

BODY_FIELDS = frozenset(
    {
        "messages",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "reasoning_effort",
        "chat_template_kwargs",
        "add_generation_prompt",
        "continue_final_message",
        "max_completion_tokens",
        "max_tokens",
        "stop",
        "n",
        "logprobs",
        "top_logprobs",
        *SAMPLING_OPTIONS,
    }
)
"""Fields that are read whatever template and constraints there are."""

_ELSEWHERE = dict.fromkeys(("enable_thinking", "preserve_thinking"), "`chat_template_kwargs`") | {
    "budget": "`reasoning`"
}


def check_known(given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse a field that nobody reads, which is a misspelt one. Raises RequestError."""
    names = set(known)
    for name in given:
        if name not in names:
            place = _ELSEWHERE.get(name)
            hint = f"it belongs under {place}" if place else nearest(name, names)
            raise RequestError(f"nothing reads the field {name!r} of a request; {hint}")


def max_tokens(body: Mapping[str, Any]) -> int | None:
    """The most tokens to generate."""
    for name in ("max_completion_tokens", "max_tokens"):
        value = body.get(name)
        if value is not None:
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise RequestError(f"{name} must be a whole number of at least 1, got {value!r}")
            return value
    return None


def stop_texts(body: Mapping[str, Any]) -> tuple[str, ...]:
    """The texts that end the answer."""
    stop = body.get("stop")
    if stop is None:
        return ()
    texts = [stop] if isinstance(stop, str) else stop
    if not isinstance(texts, list) or not all(isinstance(s, str) for s in cast("list[Any]", texts)):
        raise RequestError("stop must be a string or an array of strings")
    return tuple(cast("list[str]", texts))


def sampling_options(body: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the sampler; `logprobs` and `top_logprobs` are one of them."""
    options = {name: body[name] for name in SAMPLING_OPTIONS if body.get(name) is not None}
    wanted, top = body.get("logprobs"), body.get("top_logprobs")
    if wanted is not None and not isinstance(wanted, bool):
        raise RequestError(
            f"logprobs must be true or false, got {wanted!r}; top_logprobs says how many"
        )
    if top is not None and (isinstance(top, bool) or not isinstance(top, int) or top < 0):
        raise RequestError(f"top_logprobs must be a whole number of tokens, got {top!r}")
    if top and not wanted:
        raise RequestError("top_logprobs needs logprobs: true")
    if wanted:
        options["logprobs"] = top or 0
    return options


def check_count(body: Mapping[str, Any]) -> None:
    """A request has one answer. Raises RequestError where it asks for more."""
    count = body.get("n")
    if isinstance(count, bool) or count not in (None, 1):
        raise RequestError(f"n is {count!r}; a request has one answer, so send it n times")
