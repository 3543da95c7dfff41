"""Options of the `rejection` sampler, and which rows they need to see."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from typing import Any, Literal

import attrs
from outrider import native


def _number(low: float, high: float = math.inf, *, above: bool = False) -> Any:
    """An attrs validator: a finite number in [low, high], or (low, high] with `above`."""

    def check(_: Any, attribute: attrs.Attribute[Any], value: float) -> None:
        if not math.isfinite(value) or value < low or value > high or (above and value == low):
            bound = f"more than {low:.10g}" if above else f"at least {low:.10g}"
            wanted = f"a number, {bound}" if math.isfinite(low) else "a finite number"
            if math.isfinite(high):
                wanted += f" and at most {high:.10g}"
            raise ValueError(f"{attribute.name} is {value:.10g}; expected {wanted}")

    return check


_MOST = 2**31 - 1
"""What the kernels take for a number of tokens."""


def _temperature(_: Any, __: attrs.Attribute[Any], value: float) -> None:
    if not math.isfinite(value) or (value != 0 and value < 1e-3):
        raise ValueError(
            f"temperature is {value:g}; expected 0 (the most likely token) or at least 0.001"
        )


def _logit_bias(_: Any, __: attrs.Attribute[Any], value: Mapping[int, float]) -> None:
    for token, bias in value.items():
        if token < 0:
            raise ValueError(f"logit_bias names token {token}; token ids start at 0")
        if math.isnan(bias) or bias == math.inf:
            raise ValueError(f"logit_bias of token {token} is {bias}; expected a number or -inf")


def _top_log_probs(_: Any, __: attrs.Attribute[Any], value: int | None) -> None:
    if value is not None and not 0 <= value <= _MOST:
        raise ValueError(f"logprobs is {value}; expected how many top tokens to list, 0 or more")


def _seed(_: Any, __: attrs.Attribute[Any], value: int | None) -> None:
    if value is not None and not -(2**63) <= value < 2**64:
        raise ValueError(f"seed is {value}; expected a 64-bit number")


@attrs.frozen
class RejectionConfig:
    """Options of the `rejection` sampler; the defaults sample from the model as it is."""

    temperature: float = attrs.field(default=1.0, validator=_temperature)
    """0: the most likely token."""
    top_k: int = attrs.field(default=0, validator=_number(0, _MOST))
    """Keep the k most likely tokens; 0: all."""
    top_p: float = attrs.field(default=1.0, validator=_number(0, 1, above=True))
    """Keep the fewest tokens that together have this probability; 1: all."""
    min_p: float = attrs.field(default=0.0, validator=_number(0, 1))
    """Keep tokens at least this probable relative to the most likely one; 0: all."""
    repetition_penalty: float = attrs.field(default=1.0, validator=_number(0, above=True))
    """Divides the positive logits of tokens seen lately, and multiplies the negative ones."""
    presence_penalty: float = attrs.field(default=0.0, validator=_number(-math.inf))
    """Subtracted once from the logit of a token seen lately."""
    frequency_penalty: float = attrs.field(default=0.0, validator=_number(-math.inf))
    """Subtracted once for each time a token was seen lately."""
    penalty_last_n: int = attrs.field(default=64, validator=_number(-1, _MOST))
    """What "lately" means, in tokens, the prompt's included; -1: since the beginning."""
    logit_bias: Mapping[int, float] = attrs.field(factory=dict, validator=_logit_bias)
    """Added to the logits of these token ids before anything else; -.inf bans a token."""
    seed: int | None = attrs.field(default=None, validator=_seed)
    """Determines the draws of a request; by default every request draws its own."""
    logprobs: int | None = attrs.field(default=None, validator=_top_log_probs)
    """Record log-probabilities: of the emitted tokens and of this many most likely ones."""
    order: Literal["llama.cpp", "hf"] = "llama.cpp"
    """llama.cpp: truncate, then apply the temperature, its default chain. hf: temperature first."""
    device_top_k: Literal["auto", "on", "off"] = "auto"
    """Take the top_k on the device where nothing needs the whole row. auto: on accelerators."""

    @property
    def edits_logits(self) -> bool:
        """Whether logits are changed before they are ranked."""
        penalties = (self.repetition_penalty, self.presence_penalty, self.frequency_penalty)
        return penalties != (1, 0, 0) or bool(self.logit_bias)

    def for_kernels(self, *, top_k: int | None = None) -> native.SamplingOptions:
        """The options as the kernels take them, with another top_k if given."""
        return native.SamplingOptions(
            temperature=self.temperature,
            temperature_first=self.order == "hf",
            top_k=self.top_k if top_k is None else top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            penalty_last_n=self.penalty_last_n,
            logit_bias=self.logit_bias,
        )


class Rows(str, enum.Enum):
    """What is read of a verify row. All three give the same distribution."""

    LOGITS = "logits"
    DEVICE_TOP_K = "device_top_k"
    ARGMAX = "argmax"


def rows_needed(config: RejectionConfig, *, constrained: bool, accelerator: bool) -> Rows:
    """The least that serves these options."""
    if config.edits_logits or config.logprobs is not None or constrained:
        return Rows.LOGITS
    if config.temperature == 0:
        return Rows.ARGMAX
    wanted = config.device_top_k == "on" or (config.device_top_k == "auto" and accelerator)
    return Rows.DEVICE_TOP_K if wanted and config.top_k > 0 else Rows.LOGITS
