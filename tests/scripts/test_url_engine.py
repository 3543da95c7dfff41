"""Servers that run already: told apart by what they answer, and measured by their own words."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from bench.client import Client
from bench.engines import MeasuredError, Sampling, UrlEngine
from bench.prompts import Prompt

PROMPT = Prompt("prose", "a", "Once", (5, 6))
SAMPLED = Sampling(temperature=0.7)


class Fake:
    """A server that answers given paths and keeps what it was asked."""

    def __init__(self, answers: dict[str, Any]) -> None:
        asked: list[tuple[str, Any]] = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                asked.append((self.path, json.loads(body)))
                self.answer()

            def answer(self) -> None:
                found = answers.get(self.path)
                if isinstance(found, list):  # a stream of events
                    lines = [f"data: {json.dumps(event)}\n\n" for event in found]
                    body = "".join([*lines, "data: [DONE]\n\n"]).encode()
                else:
                    body = json.dumps(found).encode()
                self.send_response(404 if found is None else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.asked = asked
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.client = Client(f"http://127.0.0.1:{self.server.server_port}")


@pytest.fixture
def fake() -> Iterator[Any]:
    started: list[Fake] = []

    def start(answers: dict[str, Any]) -> Fake:
        started.append(Fake(answers))
        return started[-1]

    yield start
    for one in started:
        one.server.shutdown()
        one.server.server_close()


def test_llama_server_gets_token_ids_and_gives_them(fake):
    timings = {
        "predicted_n": 3, "prompt_ms": 2.0, "predicted_ms": 10.0,
        "draft_n": 4, "draft_n_accepted": 1,
    }  # fmt: skip
    reply = {"tokens": [7, 8, 9], "content": " upon", "timings": timings}
    server = fake({"/props": {"build_info": "b1"}, "/completion": reply})
    with UrlEngine("peer", server.client) as engine:
        found = engine.generate(PROMPT, 3, SAMPLED, 11)
    assert engine.api == "llama-server"
    assert found.tokens == (7, 8, 9)
    assert found.rate == pytest.approx(200.0)  # two tokens after the first, in 10 ms
    assert (found.proposed, found.accepted) == (4, 1)
    path, body = server.asked[0]
    assert path == "/completion"
    assert body["prompt"] == [5, 6]
    assert body["cache_prompt"] is False
    assert (body["seed"], body["temperature"], body["top_k"], body["top_p"], body["min_p"]) == (
        11, 0.7, 20, 0.95, 0.0,
    )  # fmt: skip


def test_ollama_gets_the_raw_text(fake):
    reply = {
        "response": " upon", "eval_count": 5, "eval_duration": 2_000_000,
        "prompt_eval_duration": 1_000_000,
    }  # fmt: skip
    server = fake({"/api/version": {"version": "1"}, "/api/generate": reply})
    with UrlEngine("ollama", server.client, "nano") as engine:
        found = engine.generate(PROMPT, 5, Sampling(), 1)
    assert engine.api == "ollama"
    assert (found.count, found.decode_ms, found.prefill_ms) == (5, 2.0, 1.0)
    body = server.asked[0][1]
    assert body["raw"] is True
    assert body["prompt"] == "Once"
    assert body["options"]["num_predict"] == 5


def test_an_openai_server_is_timed_from_this_end(fake):
    events = [
        {"choices": [{"text": " upon"}]},
        {"choices": [{"text": " a"}]},
        {"choices": [], "usage": {"completion_tokens": 2}},
    ]
    server = fake({"/v1/models": {"data": [{"id": "nano"}]}, "/v1/completions": events})
    with UrlEngine("other", server.client) as engine:
        found = engine.generate(PROMPT, 2, Sampling(), 1)
    assert engine.api == "openai"
    assert (found.text, found.count, found.tokens) == (" upon a", 2, None)
    assert server.asked[0][1]["model"] == "nano"


def test_an_error_in_the_stream_is_told(fake):
    events = [{"error": "out of memory"}]
    server = fake({"/v1/models": {"data": [{"id": "nano"}]}, "/v1/completions": events})
    with (
        UrlEngine("other", server.client) as engine,
        pytest.raises(MeasuredError, match="out of memory"),
    ):
        engine.generate(PROMPT, 2, Sampling(), 1)


def test_what_answers_none_of_them_is_refused(fake):
    with pytest.raises(MeasuredError, match="answers neither"):
        UrlEngine("other", fake({}).client).__enter__()
