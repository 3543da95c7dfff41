"""Runs generated code in a process of its own: bounded time and memory, no files, no network.

Three fences: limits of the operating system (processor time, address space, size of files, number
of processes), a network namespace without devices where Linux allows one, and an audit hook that
refuses sockets, processes and foreign code. The hook alone would not hold a determined attacker;
this is meant for the accidents of a language model.
"""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable

import attrs

_NEW_USER, _NEW_NET = 0x10000000, 0x40000000

# what the child runs before the code; `{code}` is read from standard input
_PRELUDE = """
import sys
refused = ("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.spawn",
           "os.fork", "os.forkpty", "ctypes.", "os.kill", "os.remove", "os.rename", "os.rmdir",
           "shutil.", "ftplib.", "http.", "smtplib.", "urllib.", "webbrowser.")
def fence(event, arguments):
    if event.startswith(refused):
        raise PermissionError(f"generated code may not use {event}")
    if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        raise PermissionError("generated code may not write files")
source = sys.stdin.read()
sys.addaudithook(fence)
exec(compile(source, "generated.py", "exec"), {"__name__": "__main__"})
"""


@attrs.frozen
class Outcome:
    """How the code ended: `ok`, or not, and the last line it had to say."""

    ok: bool
    said: str


def run(code: str, *, seconds: float = 10.0, megabytes: int = 512) -> Outcome:
    """Run Python code to its end. Anything but a normal end is not `ok`."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-S", "-B", "-c", _PRELUDE],
                input=code,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=seconds + 2.0,
                cwd=folder,
                env={},
                preexec_fn=_limits(seconds, megabytes),
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Outcome(False, f"not done after {seconds:g} s")
    if done.returncode < 0:
        return Outcome(False, f"ended by signal {-done.returncode}")
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return Outcome(False, lines[-1][:300] if lines else f"exit status {done.returncode}")
    return Outcome(True, done.stdout[-300:])


def _limits(seconds: float, megabytes: int) -> Callable[[], None]:
    libc = ctypes.CDLL(None, use_errno=True)

    def apply() -> None:
        """In the child, before Python starts."""
        whole = max(1, int(seconds + 0.999))
        resource.setrlimit(resource.RLIMIT_CPU, (whole, whole + 1))
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
        os.setsid()
        if hasattr(libc, "unshare"):
            # refused in some containers; then the audit hook is the fence
            libc.unshare(_NEW_USER | _NEW_NET)

    return apply
