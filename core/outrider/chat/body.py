"""Reading JSON bodies strictly: what is refused, and in which words.

Python's `json` accepts more than JSON: NaN, numbers that overflow to infinity, lone surrogates
that no UTF-8 text can carry. A prompt made of such a body could not be sent to a model, so the
body is refused with the place and the reason instead.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from outrider.errors import RequestError


def read_json(data: bytes | bytearray | str, what: str = "the request body") -> Any:
    """The value of a JSON text. A byte-order mark is tolerated, the last of equal keys wins.

    Raises RequestError that says what is wrong and where.
    """
    if isinstance(data, (bytes, bytearray)):
        try:
            text = bytes(data).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise RequestError(
                f"{what} is not valid UTF-8: byte {error.start} cannot be decoded"
            ) from None
    else:
        text = data.removeprefix("\ufeff")
    if not text.strip():
        raise RequestError(f"{what} is empty; a JSON object was expected")
    try:
        value = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise RequestError(
            f"{what} is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except ValueError as error:
        raise RequestError(f"{what} is not valid JSON: {error}") from None
    except RecursionError:
        raise RequestError(f"{what} is nested too deeply") from None
    if "\\u" in text or not text.isascii():
        _refuse_surrogates(value, what)
    return value


def write_json(value: Any) -> str:
    """JSON as chat templates write it: `, ` and `: `, key order kept, non-ASCII kept.

    The same form as transformers' `tojson` (`json.dumps(…, ensure_ascii=False)`).
    """
    return json.dumps(value, ensure_ascii=False)


def has_surrogates(text: str) -> bool:
    """Whether a text holds a lone surrogate, which no UTF-8 can carry."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:40]} is out of range")
    return number


def _refuse_surrogates(value: Any, what: str) -> None:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            if has_surrogates(item):
                raise RequestError(f"{what} holds a lone surrogate escape (half a character)")
        elif isinstance(item, dict):
            pending.extend(item.keys())  # pyright: ignore[reportUnknownArgumentType]
            pending.extend(item.values())  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(item, list):
            pending.extend(item)  # pyright: ignore[reportUnknownArgumentType]
