"""How many planes of the snapshot ring a decode call writes.

llama.cpp copies one convolution state a layer into *every* plane of the ring in every decode call,
also into planes that a batch has no rows for (`llm_build_delta_net_base::build_conv_state` loops
over `n_rs_seq + 1`). Planes beyond the rows of a batch are worthless, since a rollback never
reaches them, but they cost plain decoding of the embedded model up to a seventh of its speed.

The graph takes that number from the context's parameters, the memory has its own copy. There is
no function that sets it, so it is set in place: the six numbers that the public getters report
stand next to each other (`llama_cparams`). The place is accepted only if they are found exactly
once and `llama_n_rs_seq` follows a trial write; otherwise every plane is written, as before.
"""

from __future__ import annotations

from typing import Any

from outrider.engine.library import ffi

_SEARCHED = 64
"""uint32 words of the context that are searched; the object is far larger."""


def written_planes(c: Any, ctx: Any) -> Any:
    """A pointer to the context's `n_rs_seq` (cffi `uint32_t *`); NULL if it was not found.

    `decode` in calls.c sets it to what a batch fills.
    """
    depth: int = c.llama_n_rs_seq(ctx)
    if not depth:
        return ffi.NULL
    pattern = [
        c.llama_n_ctx(ctx),
        c.llama_n_ctx_seq(ctx),
        c.llama_n_batch(ctx),
        c.llama_n_ubatch(ctx),
        c.llama_n_seq_max(ctx),
        depth,
    ]
    start: Any = ffi.cast("uint32_t *", ctx)
    words: list[int] = list(start[0:_SEARCHED])
    n = len(pattern)
    found = [i for i in range(_SEARCHED - n) if words[i : i + n] == pattern]
    if len(found) != 1:
        return ffi.NULL
    word: Any = start + found[0] + n - 1
    word[0] = depth - 1
    followed = c.llama_n_rs_seq(ctx) == depth - 1
    word[0] = depth
    return word if followed and c.llama_n_rs_seq(ctx) == depth else ffi.NULL
