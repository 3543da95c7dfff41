"""Child processes: started, waited for no longer than asked, and stopped."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from bench.client import Client, ServerError
from bench.engines import MeasuredError, OutriderEngine, Sampling
from bench.process import Server, free_port
from bench.prompts import Prompt

HEALTHY = """
import http.server, json, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"status": "ok"}).encode()
        self.send_response(200 if self.path == "/health" else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args): pass
port = int(sys.argv[sys.argv.index("--port") + 1])
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


def alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_server_lives_as_long_as_its_block():
    with Server([sys.executable, "-c", HEALTHY], patience=60) as server:
        process_id = server.process_id
        assert server.client.get("/health") == {"status": "ok"}
        assert server.cpu_ms() is None or server.cpu_ms() > 0
    assert not alive(process_id)


def test_a_server_that_dies_shows_what_it_said():
    dying = [sys.executable, "-c", "import sys; sys.exit('no such model')"]
    with pytest.raises(ServerError, match=r"(?s)status 1.*no such model"), Server(dying):
        pass


def test_a_server_that_never_answers_is_given_up():
    start = time.monotonic()
    sleeping = [sys.executable, "-c", "import time; time.sleep(600)"]
    with (
        pytest.raises(ServerError, match=r"not ready after 0\.5 s"),
        Server(sleeping, patience=0.5),
    ):
        pass
    assert time.monotonic() - start < 60


def test_a_missing_program_is_named():
    with pytest.raises(ServerError, match="cannot start /nowhere/llama-server"):
        Server(["/nowhere/llama-server"]).__enter__()


def test_errors_of_a_server_name_the_address_and_the_status():
    healthy = Server([sys.executable, "-c", HEALTHY], patience=60)
    with healthy as server, pytest.raises(ServerError, match="/nothing answered 404"):
        server.client.get("/nothing")
    with pytest.raises(ServerError, match="cannot be reached"):
        Client(f"http://127.0.0.1:{free_port()}").get("/health")


def test_a_base_url_may_end_in_v1():
    assert Client("http://host:1/v1")._join("/v1/models") == "http://host:1/v1/models"
    assert Client("http://host:1/api/v1/")._join("/health") == "http://host:1/api/health"


def test_a_pipeline_that_cannot_be_opened_says_why(tmp_path: Path):
    file = tmp_path / "broken.yaml"
    file.write_text("model: outrider-nano\ndrafter: no-such-drafter\n")
    with pytest.raises(MeasuredError, match="no-such-drafter"), OutriderEngine("broken", file):
        pass


def test_a_worker_refuses_a_request_and_lives_on(root: Path):
    pipeline = root / "examples" / "pipelines" / "plain.yaml"
    empty, good = Prompt("", "", "", ()), Prompt("", "", "", (100, 101, 102))
    with OutriderEngine("plain", pipeline, overrides=["engine.threads=1"]) as engine:
        with pytest.raises(MeasuredError, match="the prompt is empty"):
            engine.generate(empty, 4, Sampling(), 1)
        found = engine.generate(good, 4, Sampling(), 1)
    assert found.count == len(found.tokens) == 4
    assert found.decode_ms > 0
    assert found.cpu_ms > 0
