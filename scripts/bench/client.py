"""A small JSON client for servers on this machine, with bounded waits."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import attrs


class ServerError(RuntimeError):
    """A server that cannot be reached or started, or that refuses."""


class RefusalError(ServerError):
    """A server that answered, but with an error."""


@attrs.frozen
class Client:
    """Speaks to one base URL. Every call ends within `timeout` seconds of silence."""

    url: str
    timeout: float = 600.0
    key: str | None = None

    def get(self, path: str, timeout: float | None = None) -> Any:
        """The JSON answer of a GET."""
        with self._open(path, None, timeout) as reply:
            return json.loads(reply.read())

    def post(self, path: str, body: dict[str, Any], timeout: float | None = None) -> Any:
        """The JSON answer of a POST."""
        with self._open(path, body, timeout) as reply:
            return json.loads(reply.read())

    def text(self, path: str) -> str:
        """The text answer of a GET (`/metrics`)."""
        with self._open(path, None, None) as reply:
            return reply.read().decode()

    def lines(self, path: str, body: dict[str, Any]) -> Iterator[Any]:
        """Each JSON line of a streamed POST, server-sent events included."""
        with self._open(path, body, None) as reply:
            for line in reply:
                text = line.decode().strip().removeprefix("data:").strip()
                if text == "[DONE]":
                    return
                if text.startswith("{"):
                    yield json.loads(text)

    def _open(self, path: str, body: dict[str, Any] | None, timeout: float | None) -> Any:
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._join(path), data, headers)
        try:
            return urllib.request.urlopen(request, timeout=timeout or self.timeout)
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace")[:500]
            raise RefusalError(f"{self.url}{path} answered {error.code}: {said}") from None
        except (urllib.error.URLError, OSError) as error:
            raise ServerError(f"{self.url}{path} cannot be reached: {error}") from None

    def _join(self, path: str) -> str:
        """`path` below the base URL; a base that already ends in `/v1` is understood."""
        parts = urlsplit(self.url)
        base = parts.path.rstrip("/").removesuffix("/v1")
        return urlunsplit((parts.scheme or "http", parts.netloc, base + path, "", ""))
