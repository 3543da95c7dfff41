"""Batched recurrent decoding with static shapes, captured in a CUDA graph where one exists."""

from __future__ import annotations

import torch
from torch import Tensor

from .delta import delta_step
from .layers import GatedAttention, GatedDeltaNet
from .target import Target


class Decoder:
    """Rows whose tokens are given where `forced` is set, and the model's own choices elsewhere."""

    def __init__(
        self, model: Target, batch: int, length: int, device: torch.device, fused: bool
    ) -> None:
        c = model.c
        self.model, self.batch, self.length = model, batch, length
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        self.tokens = torch.zeros(batch, length, dtype=torch.long, device=device)
        self.forced = torch.ones(batch, length, dtype=torch.bool, device=device)
        self.temperature = torch.zeros(batch, 1, device=device)
        self.pos = torch.zeros((), dtype=torch.long, device=device)
        self.cos, self.sin = model.rope(length, device)
        self.states: list[tuple[Tensor, Tensor]] = []
        for block in model.blocks:
            if isinstance(block.mixer, GatedDeltaNet):
                self.states.append(
                    (
                        torch.zeros(
                            batch, c.conv_kernel - 1, 3 * c.gdn_dim, device=device, dtype=dtype
                        ),
                        torch.zeros(batch, c.gdn_heads, c.gdn_state, c.gdn_state, device=device),
                    )
                )
            else:
                shape = (batch, length, c.n_head_kv, c.head_dim)
                self.states.append(
                    (
                        torch.zeros(shape, device=device, dtype=dtype),
                        torch.zeros(shape, device=device, dtype=dtype),
                    )
                )
        self.delta = torch.compile(delta_step, dynamic=False) if fused else delta_step
        self.graph: torch.cuda.CUDAGraph | None = None
        if device.type == "cuda":
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(3):
                    self._step()
            torch.cuda.current_stream().wait_stream(stream)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self._step()

    def _delta_net(self, m: GatedDeltaNet, h: Tensor, state: tuple[Tensor, Tensor]) -> Tensor:
        conv, memory = state
        mixed = m.qkv(h)
        window = torch.cat([conv, mixed[:, None].to(conv.dtype)], 1)
        conv.copy_(window[:, 1:])
        q, k, v = m.split_heads((window * m.conv.to(window.dtype).T).sum(1))
        g, beta = m.gates(h)
        new, o = self.delta(memory, q.float(), k.float(), v.float(), g.float(), beta.float())
        memory.copy_(new)
        return m.post(o.to(h.dtype), m.z(h))

    def _attention(self, m: GatedAttention, h: Tensor, state: tuple[Tensor, Tensor]) -> Tensor:
        keys, values = state
        at = self.pos.view(1)
        q, k, v, gate = m.project(h[:, None], self.cos[at], self.sin[at])
        keys.index_copy_(1, at, k.to(keys.dtype))
        values.index_copy_(1, at, v.to(values.dtype))
        seen = torch.arange(self.length, device=h.device) <= self.pos
        groups = q.shape[2] // keys.shape[2]
        qg = q[:, 0].unflatten(1, (keys.shape[2], groups)).to(keys.dtype)
        scores = torch.einsum("bhgd,bthd->bhgt", qg, keys).float() * q.shape[-1] ** -0.5
        probs = scores.masked_fill(~seen, float("-inf")).softmax(-1).to(values.dtype)
        o = torch.einsum("bhgt,bthd->bhgd", probs, values).flatten(1)
        return m.o(o.to(h.dtype) * torch.sigmoid(gate[:, 0]))

    def _step(self) -> None:
        model = self.model
        cuda = self.tokens.is_cuda
        with (
            torch.no_grad(),
            torch.autocast(
                "cuda" if cuda else "cpu", torch.bfloat16, enabled=cuda, cache_enabled=False
            ),
        ):
            tok = self.tokens.index_select(1, self.pos.view(1))[:, 0]
            x = model.embed_tokens(tok)
            for block, state in zip(model.blocks, self.states, strict=True):
                h = block.attn_norm(x)
                if isinstance(block.mixer, GatedDeltaNet):
                    x = x + self._delta_net(block.mixer, h, state)
                else:
                    x = x + self._attention(block.mixer, h, state)
                x = x + block.ffn(block.post_norm(x))
            logits = model.logits(model.norm(x)).float()
            noise = -torch.log(-torch.log(torch.rand_like(logits).clamp(1e-9, 1 - 1e-7)))
            choice = (logits + self.temperature * noise).argmax(-1)
            nxt = (self.pos + 1).clamp(max=self.length - 1).view(1)
            given = self.tokens.index_select(1, nxt)[:, 0]
            keep = self.forced.index_select(1, nxt)[:, 0]
            self.tokens.index_copy_(1, nxt, torch.where(keep, given, choice)[:, None])
            self.pos += 1

    def run(self, tokens: Tensor, forced: Tensor, temperature: Tensor) -> Tensor:
        """tokens, forced: [batch, length]; temperature: [batch], 0 for greedy rows."""
        self.tokens.copy_(tokens)
        self.forced.copy_(forced)
        self.temperature.copy_(temperature[:, None])
        self.pos.zero_()
        for first, second in self.states:
            first.zero_()
            second.zero_()
        for _ in range(self.length - 1):
            if self.graph is not None:
                self.graph.replay()
            else:
                self._step()
        return self.tokens.clone()
