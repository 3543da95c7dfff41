"""A llama-server child process and a minimal JSON client."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any


def verification_steps(answer: dict[str, Any]) -> int:
    """Steps that verified drafts in an answer of /completion.

    Each emits one token beside the drafts that it accepts, and the first token comes from the
    prefill. Where the text ended by itself, its end was probably a draft, beside which no token
    came.
    """
    timings = answer["timings"]
    ended_itself = answer["stop_type"] != "limit"
    first = 0 if ended_itself else 1
    return max(1, timings["predicted_n"] - timings.get("draft_n_accepted", 0) - first)


class LlamaServer:
    def __init__(self, binary: Path, args: list[str], log: Path | None = None) -> None:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.log = log.open("w") if log else subprocess.DEVNULL
        command = [str(binary), "--host", "127.0.0.1", "--port", str(self.port), "-np", "1", *args]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT)
        for _ in range(600):
            if self.process.poll() is not None:
                raise RuntimeError(
                    f"llama-server exited with {self.process.returncode}: {' '.join(command)}"
                )
            try:
                if self.get("/health").get("status") == "ok":
                    return
            except (urllib.error.URLError, ConnectionError):
                pass
            time.sleep(0.1)
        raise RuntimeError("llama-server did not become ready")

    def get(self, path: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as reply:
            return json.loads(reply.read())

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=600) as reply:
            return json.loads(reply.read())

    def __enter__(self) -> LlamaServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(20)
