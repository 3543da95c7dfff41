"""What a measurement was made with: commit, libraries, processor, accelerator, model files."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def _output(*command: str) -> str:
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None  # the library came from OUTRIDER_LIBLLAMA


def commit() -> dict[str, Any]:
    """The commit that was measured, and whether files under version control had changed.

    A copy without version control is told by `OUTRIDER_COMMIT`, as `gpu_bench.py pack` writes it.
    """
    told = os.environ.get("OUTRIDER_COMMIT")
    if told:
        return {"commit": told.removesuffix("+"), "changed": told.endswith("+")}
    changed = _output("git", "status", "--porcelain", "--untracked-files=no", "core", "plugins")
    return {"commit": _output("git", "rev-parse", "HEAD") or None, "changed": bool(changed)}


def processor() -> dict[str, Any]:
    """Model name and usable cores."""
    name = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                name = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"model": name, "cores": usable}


def accelerators() -> list[dict[str, str]]:
    """Name, memory and driver of every NVIDIA device."""
    fields = "name,memory.total,driver_version"
    lines = _output("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader").splitlines()
    return [dict(zip(fields.split(","), line.split(", "), strict=False)) for line in lines]


def load_average() -> float:
    """Processes that wanted to run during the last minute; above 1 others were measured too."""
    return round(os.getloadavg()[0], 2)


def model_files(paths: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """Size and digest of model files, by file name (`file_fingerprint`: sampled when large)."""
    # the library is slow to import, and only workers need it
    from outrider.engine.fingerprint import file_fingerprint

    return {
        path.name: {"bytes": path.stat().st_size, "blake2b": file_fingerprint(path)}
        for path in sorted(set(paths))
    }


def describe() -> dict[str, Any]:
    """Everything about this machine and this checkout."""
    return {
        **commit(),
        "processor": processor(),
        "accelerators": accelerators(),
        "python": platform.python_version(),
        "llama_cpp_python": _version("llama-cpp-python"),
        "system": platform.system(),
    }
