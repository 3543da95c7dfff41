"""Child processes of a benchmark: started here, stopped here, and never waited for for ever."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from bench.client import Client, ServerError


def free_port() -> int:
    """A TCP port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def stop(process: subprocess.Popen[str], patience: float = 20.0) -> None:
    """End one child process: ask, wait, then insist."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(patience)


class Server:
    """A server on the loopback interface that lives as long as a `with` block.

    `command` gets `--host` and `--port` appended. Raises ServerError with the end of the
    server's log when it does not answer `/health` within `patience` seconds.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        patience: float = 600.0,
    ) -> None:
        self.command = [*command]
        self._environment = None if environment is None else dict(environment)
        self._patience = patience
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Server:
        port = free_port()
        command = [*self.command, "--host", "127.0.0.1", "--port", str(port)]
        self._log = tempfile.NamedTemporaryFile("w+", suffix=".log", delete=False)
        self.client = Client(f"http://127.0.0.1:{port}")
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                text=True,
                env=self._environment,
            )
        except OSError as error:
            raise ServerError(f"cannot start {command[0]}: {error.strerror}") from None
        try:
            self._wait()
        except BaseException:
            self.close()
            raise
        return self

    @property
    def process_id(self) -> int:
        """The server's process id."""
        assert self._process is not None
        return self._process.pid

    def cpu_ms(self) -> float | None:
        """Processor time of all the server's threads so far; None where Linux does not tell."""
        try:
            tasks = Path(f"/proc/{self.process_id}/task").glob("*/schedstat")
            return sum(int(task.read_text().split()[0]) for task in tasks) / 1e6
        except (OSError, ValueError, IndexError):
            return None

    def log(self, size: int = 2000) -> str:
        """The last `size` characters of what the server printed."""
        return Path(self._log.name).read_text(errors="replace")[-size:]

    def _wait(self) -> None:
        assert self._process is not None
        end = time.monotonic() + self._patience
        while time.monotonic() < end:
            status = self._process.poll()
            if status is not None:
                raise ServerError(
                    f"{' '.join(self.command)} ended with status {status}:\n{self.log()}"
                )
            try:
                self.client.get("/health", timeout=5.0)
                return
            except ServerError:
                time.sleep(0.1)
        raise ServerError(
            f"{self.command[0]} was not ready after {self._patience:g} s:\n{self.log()}"
        )

    def close(self) -> None:
        """Stop the server and remove its log."""
        if self._process is not None:
            stop(self._process)
            self._process = None
        self._log.close()
        Path(self._log.name).unlink(missing_ok=True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
