#!/usr/bin/env python3
"""Create the virtual environment: compile llama.cpp for this CPU, install Outrider and tools.

    python3 scripts/bootstrap.py [VENV]

Needs Python ≥ 3.10 and a C/C++ compiler. Compiling takes some minutes, once; the rest is quick.
Only the standard library is used here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LLAMA = "llama-cpp-python==0.3.36"
NO_AMX = "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"

# GCC 12's _tile_loadconfig tells the optimiser that it reads 8 bytes instead of 64, so that the
# rest of the tile configuration is dropped and loading it faults. This is llama.cpp's use of it.
AMX_PROBE = r"""
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <sys/syscall.h>
#if !defined(__AMX_INT8__)
#error no AMX on this CPU
#endif
typedef struct {
    uint8_t palette, start, reserved[14];
    uint16_t colsb[16];
    uint8_t rows[16];
} tiles;
__attribute__((noinline)) static void dirty(void) {
    volatile char stack[4096];
    for (int i = 0; i < 4096; i++) stack[i] = (char) 0xff;
}
__attribute__((noinline)) static void load(void) {
    _Alignas(64) tiles t = {0};
    t.palette = 1;
    for (int i = 0; i < 8; i++) { t.rows[i] = i < 2 ? 8 : 16; t.colsb[i] = 64; }
    _tile_loadconfig(&t);
}
__attribute__((noinline)) static int check(void) {
    tiles t;
    memset(&t, 0, sizeof t);
    _tile_storeconfig(&t);
    return t.rows[7] == 16 && t.colsb[7] == 64 ? 0 : 1;
}
int main(void) {
    if (syscall(SYS_arch_prctl, 0x1023, 18)) return 2;
    dirty();
    load();
    return check();
}
"""


def main() -> int:
    """Set everything up; returns the exit status."""
    if sys.version_info < (3, 10):
        print(f"Outrider needs Python 3.10 or newer; this is {sys.version.split()[0]}")
        return 1
    home = Path(sys.argv[1] if len(sys.argv) > 1 else ".venv").absolute()
    python = home / "bin" / "python"
    if not python.exists():
        say(f"creating {home.name}")
        venv.create(home, with_pip=True)
    if not installed(python):
        compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
        if compiler is None:
            print("Outrider compiles llama.cpp and needs a C/C++ compiler (for example g++)")
            return 1
        status = compile_llama(python)
        if status:
            return status
    say("installing Outrider with its development tools")
    command = [str(python), "-m", "pip", "install", "-q", "-e", f"{ROOT}[dev,bench]"]
    status = subprocess.call(command, cwd=ROOT)
    if status == 0:
        (home / ".ready").touch()
    return status


def installed(python: Path) -> bool:
    """Whether the right llama-cpp-python is there, library included."""
    code = (
        "import importlib.metadata as m, importlib.util as u, pathlib, sys;"
        f"assert m.version('llama-cpp-python') == '{LLAMA.split('==')[1]}';"
        "p = pathlib.Path(u.find_spec('llama_cpp').submodule_search_locations[0], 'lib');"
        "assert any(p.glob('libllama.*')), p"
    )
    return subprocess.call([str(python), "-c", code], stderr=subprocess.DEVNULL) == 0


def compile_llama(python: Path) -> int:
    """Build llama-cpp-python from its sdist for the native CPU, showing how far it is."""
    environment = dict(os.environ)
    environment.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 1))
    if not amx_works():
        say("this compiler breaks AMX code: building without AMX")
        for name in ("CFLAGS", "CXXFLAGS"):
            environment[name] = f"{environment.get(name, '')} {NO_AMX}".strip()
    say("compiling llama.cpp for this CPU: about four minutes on two cores, only this once")
    command = [str(python), "-m", "pip", "install", "-v", "--no-binary", "llama-cpp-python", LLAMA]
    log = Path(tempfile.gettempdir()) / f"outrider-build-{os.getpid()}.log"
    started = time.monotonic()
    shown = -1.0
    with log.open("w") as file:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment,
        )
        assert process.stdout is not None
        for line in process.stdout:
            file.write(line)
            step = re.match(r"\s*\[(\d+)/(\d+)\]", line)
            if step is None:
                continue
            done, total = int(step[1]), int(step[2])
            elapsed = time.monotonic() - started
            if sys.stdout.isatty():
                bar = "#" * (40 * done // total)
                print(f"\r  [{bar:<40}] {done}/{total} files, {elapsed:.0f} s", end="", flush=True)
            elif done / total - shown >= 0.1 or done == total:
                shown = done / total
                print(f"  {done}/{total} files, {elapsed:.0f} s", flush=True)
    if sys.stdout.isatty():
        print()
    status = process.wait()
    if status:
        tail = "".join(log.read_text().splitlines(keepends=True)[-25:])
        print(f"{tail}\ncompiling llama.cpp failed; the whole log is in {log}")
    else:
        log.unlink()
    return status


def amx_works() -> bool:
    """False when the compiler would build AMX code that faults (see AMX_PROBE)."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return True
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "amx.c"), Path(folder, "amx")
        source.write_text(AMX_PROBE)
        build = [*compiler.split(), "-O3", "-march=native", "-o", str(program), str(source)]
        if subprocess.call(build, stderr=subprocess.DEVNULL):
            return True  # no AMX here, nothing to switch off
        return subprocess.call([str(program)], stderr=subprocess.DEVNULL) in (0, 2)


def say(text: str) -> None:
    """One line about what happens now."""
    print(f"outrider: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
