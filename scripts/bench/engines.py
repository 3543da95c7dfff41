"""What is measured: outrider pipelines, llama-server in its modes, and any server by its URL."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import attrs

from bench.client import Client, ServerError
from bench.process import Server, stop
from bench.prompts import Prompt

SCRIPTS = Path(__file__).resolve().parents[1]


@attrs.frozen
class Sampling:
    """How tokens are chosen, the same for every engine. Temperature 0: the most likely one."""

    temperature: float = 0.0
    top_k: int = 20
    top_p: float = 0.95

    @property
    def name(self) -> str:
        """`greedy`, or the options."""
        if self.temperature == 0:
            return "greedy"
        return f"t{self.temperature:g}-k{self.top_k}-p{self.top_p:g}"


@attrs.frozen
class Generation:
    """One measured generation. The first token is in `prefill_ms`, the others in `decode_ms`."""

    tokens: tuple[int, ...] | None
    """Token ids; None where a server does not tell them."""
    count: int
    """Tokens generated."""
    text: str
    prefill_ms: float
    decode_ms: float
    proposed: int = 0
    accepted: int = 0
    cpu_ms: float | None = None
    """Processor time of the whole request, prefill included, where it can be told."""
    details: Mapping[str, Any] = attrs.field(factory=dict)

    @property
    def rate(self) -> float:
        """Tokens a second while decoding; the first token is not counted, as in llama-server."""
        return 1e3 * (self.count - 1) / self.decode_ms if self.decode_ms > 0 else 0.0


class MeasuredError(RuntimeError):
    """An engine that cannot be started, or that died or refused."""


class RefusedError(MeasuredError):
    """A request that an engine refused; it goes on serving others."""


class Measured(Protocol):
    """An engine that lives as long as a `with` block."""

    label: str

    def __enter__(self) -> Measured: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def generate(
        self, prompt: Prompt, max_tokens: int, sampling: Sampling, seed: int
    ) -> Generation:
        """Continue a prompt by at most `max_tokens` tokens, without reuse of earlier prompts."""
        ...

    def describe(self) -> dict[str, Any]:
        """Flags and builds: what is needed to repeat the measurement."""
        ...


class OutriderEngine:
    """A pipeline in a worker process; see `bench.worker`."""

    def __init__(
        self,
        label: str,
        pipeline: Path,
        *,
        overrides: Sequence[str] = (),
        model: str | None = None,
        ignore_eog: bool = False,
        environment: Mapping[str, str] | None = None,
        patience: float = 600.0,
    ) -> None:
        self.label = label
        self.pipeline = pipeline
        self.overrides = [*overrides]
        self.model = model
        self.ignore_eog = ignore_eog
        self.environment = dict(environment or {})
        """Variables of the worker's environment, besides those of this process."""
        self._patience = patience
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> OutriderEngine:
        command = [sys.executable, "-m", "bench.worker", str(self.pipeline)]
        if self.model:
            command += ["--model", self.model]
        for override in self.overrides:
            command += ["--set", override]
        environment = {**os.environ, **self.environment}
        environment["PYTHONPATH"] = os.pathsep.join(
            [str(SCRIPTS), *filter(None, [environment.get("PYTHONPATH")])]
        )
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment,
        )
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()
        try:
            self._answer()
        except BaseException:
            self.close()
            raise
        return self

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._answers.put(line)
        self._answers.put(None)

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send one request to the worker and wait for its answer."""
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the answer says why
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=self._patience)
        except queue.Empty:
            raise MeasuredError(f"{self.label}: no answer for {self._patience:g} s") from None
        if line is None:
            assert self._process is not None
            status = self._process.wait(10)
            self._errors.seek(0)
            said = self._errors.read()[-1500:]
            raise MeasuredError(f"{self.label}: the worker ended with status {status}\n{said}")
        body = json.loads(line)
        if "error" in body:
            raise RefusedError(f"{self.label}: {body['error']}")
        return body

    def prompts(self, families: Sequence[str], per_family: int | None) -> list[Prompt]:
        """The fixed prompts, tokenised with this pipeline's model."""
        found = self.ask(do="prompts", families=list(families), per_family=per_family)["prompts"]
        return [Prompt(**{**entry, "tokens": tuple(entry["tokens"])}) for entry in found]

    def generate(
        self, prompt: Prompt, max_tokens: int, sampling: Sampling, seed: int
    ) -> Generation:
        """See `Measured`."""
        options: dict[str, Any] = {}
        if sampling.temperature > 0:
            options = {**attrs.asdict(sampling), "seed": seed}
        elif any("use: synthetic" in text for text in self.overrides):
            options = {"seed": seed}
        body = self.ask(
            do="generate",
            tokens=list(prompt.tokens),
            max_tokens=max_tokens,
            sampling=options,
            ignore_eog=self.ignore_eog,
        )
        stats = body["stats"]
        drafters = stats["drafters"].values()
        return Generation(
            tokens=tuple(body["tokens"]),
            count=len(body["tokens"]),
            text=body["text"],
            prefill_ms=body["prefill_ms"],
            decode_ms=body["decode_ms"],
            proposed=sum(d["proposed"] for d in drafters),
            accepted=sum(d["accepted"] for d in drafters),
            cpu_ms=body["cpu_ms"],
            details={
                key: stats[key]
                for key in ("steps", "acceptance_by_position", "draft_lengths", "time", "drafters")
            },
        )

    def gap(self, tokens: Sequence[int], a: int, b: int) -> float | None:
        """Logit of token `a` minus that of `b` after `tokens`; needs the `rejection` sampler."""
        return self.ask(do="gap", tokens=list(tokens), a=a, b=b)["gap"]

    def describe(self) -> dict[str, Any]:
        """See `Measured`."""
        return {
            "kind": "outrider",
            "pipeline": self.pipeline.name,
            "overrides": self.overrides,
            **self.ask(do="describe"),
        }

    def close(self) -> None:
        """End the worker."""
        if self._process is not None:
            assert self._process.stdin is not None
            try:
                self._process.stdin.close()
                self._process.wait(20)
            except (OSError, subprocess.TimeoutExpired):
                pass
            stop(self._process)
            self._process = None
            self._errors.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class LlamaServerEngine:
    """llama-server, started with the flags of one speculative mode."""

    def __init__(
        self,
        label: str,
        binary: Path,
        flags: Sequence[str],
        *,
        ignore_eog: bool = False,
        environment: Mapping[str, str] | None = None,
        patience: float = 600.0,
    ) -> None:
        self.label = label
        self.flags = [*flags]
        self.ignore_eog = ignore_eog
        merged = {**os.environ, **environment} if environment else None
        self._server = Server([str(binary), *self.flags], environment=merged, patience=patience)

    def __enter__(self) -> LlamaServerEngine:
        try:
            self._server.__enter__()
        except ServerError as error:
            raise MeasuredError(f"{self.label}: {error}") from None
        return self

    def generate(
        self, prompt: Prompt, max_tokens: int, sampling: Sampling, seed: int
    ) -> Generation:
        """See `Measured`; times are the server's own, without the way through HTTP."""
        before = self._server.cpu_ms()
        found = llama_completion(
            self._server.client, self.label, prompt, max_tokens, sampling, seed, self.ignore_eog
        )
        after = self._server.cpu_ms()
        return (
            found if before is None or after is None else attrs.evolve(found, cpu_ms=after - before)
        )

    def describe(self) -> dict[str, Any]:
        """See `Measured`."""
        properties = self._server.client.get("/props")
        return {
            "kind": "llama-server",
            "flags": [Path(flag).name if "/" in flag else flag for flag in self.flags],
            "build": properties.get("build_info"),
        }

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()


def llama_completion(
    client: Client,
    label: str,
    prompt: Prompt,
    max_tokens: int,
    sampling: Sampling,
    seed: int,
    ignore_eog: bool,
) -> Generation:
    """A generation through llama-server's own `/completion`, token ids in and out."""
    body: dict[str, Any] = {
        "prompt": list(prompt.tokens),
        "n_predict": max_tokens,
        "temperature": sampling.temperature,
        "seed": seed,
        "cache_prompt": False,
        "return_tokens": True,
        "ignore_eos": ignore_eog,
    }
    if sampling.temperature > 0:
        body |= {"top_k": sampling.top_k, "top_p": sampling.top_p, "min_p": 0.0}
    try:
        reply = client.post("/completion", body)
    except ServerError as error:
        raise MeasuredError(f"{label}: {error}") from None
    timings = reply["timings"]
    return Generation(
        tokens=tuple(reply["tokens"]),
        count=timings["predicted_n"],
        text=reply["content"],
        prefill_ms=timings["prompt_ms"],
        decode_ms=timings["predicted_ms"],
        proposed=timings.get("draft_n", 0),
        accepted=timings.get("draft_n_accepted", 0),
    )


class UrlEngine:
    """A server that runs already: llama-server's API, ollama's raw one, or OpenAI completions."""

    def __init__(self, label: str, client: Client, model: str | None = None) -> None:
        self.label = label
        self.client = client
        self.model = model
        self.api = ""

    def __enter__(self) -> UrlEngine:
        self.api = self._detect()
        return self

    def _detect(self) -> str:
        for api, path, key in (
            ("llama-server", "/props", "build_info"),
            ("ollama", "/api/version", "version"),
            ("openai", "/v1/models", "data"),
        ):
            try:
                found = self.client.get(path, timeout=10.0)
            except (ServerError, ValueError):
                continue
            if not isinstance(found, dict) or key not in found:
                continue
            if api == "openai" and self.model is None and found["data"]:
                self.model = found["data"][0]["id"]
            return api
        raise MeasuredError(
            f"{self.label}: {self.client.url} answers neither llama-server's /props, nor ollama's "
            "/api/version, nor /v1/models"
        )

    def generate(
        self, prompt: Prompt, max_tokens: int, sampling: Sampling, seed: int
    ) -> Generation:
        """See `Measured`. Servers without times of their own are timed at this end."""
        if self.api == "llama-server":
            return llama_completion(
                self.client, self.label, prompt, max_tokens, sampling, seed, False
            )
        if self.api == "ollama":
            return self._ollama(prompt, max_tokens, sampling, seed)
        return self._openai(prompt, max_tokens, sampling, seed)

    def _ollama(self, prompt: Prompt, max_tokens: int, sampling: Sampling, seed: int) -> Generation:
        options: dict[str, Any] = {
            "num_predict": max_tokens,
            "temperature": sampling.temperature,
            "seed": seed,
        }
        if sampling.temperature > 0:
            options |= {"top_k": sampling.top_k, "top_p": sampling.top_p, "min_p": 0.0}
        reply = self.client.post(
            "/api/generate",
            {
                "model": self.model,
                "prompt": prompt.text,
                "raw": True,
                "stream": False,
                "options": options,
            },
        )
        return Generation(
            tokens=None,
            count=reply["eval_count"],
            text=reply["response"],
            prefill_ms=reply.get("prompt_eval_duration", 0) / 1e6,
            decode_ms=reply["eval_duration"] / 1e6,
        )

    def _openai(self, prompt: Prompt, max_tokens: int, sampling: Sampling, seed: int) -> Generation:
        body: dict[str, Any] = {
            "model": self.model,
            "prompt": list(prompt.tokens),
            "max_tokens": max_tokens,
            "temperature": sampling.temperature,
            "seed": seed,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if sampling.temperature > 0:
            body |= {"top_p": sampling.top_p, "top_k": sampling.top_k}
        start = time.perf_counter()
        first = 0.0
        pieces: list[str] = []
        count = 0
        for event in self.client.lines("/v1/completions", body):
            if "error" in event:
                raise MeasuredError(f"{self.label}: {event['error']}")
            for choice in event.get("choices", ()):
                if choice.get("text"):
                    first = first or time.perf_counter()
                    pieces.append(choice["text"])
            usage = event.get("usage")
            if usage:
                count = usage["completion_tokens"]
        end = time.perf_counter()
        return Generation(
            tokens=None,
            count=count or len(pieces),
            text="".join(pieces),
            prefill_ms=1e3 * ((first or end) - start),
            decode_ms=1e3 * (end - (first or end)),
        )

    def describe(self) -> dict[str, Any]:
        """See `Measured`."""
        return {"kind": "url", "api": self.api, "model": self.model}

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing was started, so nothing is stopped."""
