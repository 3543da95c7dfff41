#!/usr/bin/env python3
"""Build llama-server, the peer to measure against, from the source that llama-cpp-python vendors.

    scripts/build_llama_server.py [FOLDER=llama-server]

The program is `FOLDER/bin/llama-server`; nothing is done when it is there already. About five
minutes on two cores, once. Needs CMake, a C++ compiler, and pip's package index.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bootstrap import LLAMA, NO_AMX, amx_works, say

OFF = ("LLAMA_BUILD_TESTS", "LLAMA_BUILD_EXAMPLES", "LLAMA_BUILD_UI", "LLAMA_OPENSSL", "LLAMA_CURL")


def main() -> int:
    """Build; returns the exit status."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "llama-server").absolute()
    program = folder / "bin" / "llama-server"
    if program.is_file():
        say(f"{program.name} is there already")
        return 0
    cmake = shutil.which("cmake")
    if cmake is None:
        print("building llama-server needs CMake (for example: pip install cmake)")
        return 1
    with tempfile.TemporaryDirectory() as scratch:
        source = unpack(Path(scratch))
        flags = [f"-D{name}=OFF" for name in OFF]
        if not amx_works():
            flags += [f"-DCMAKE_C_FLAGS={NO_AMX}", f"-DCMAKE_CXX_FLAGS={NO_AMX}"]
        say("compiling llama-server for this CPU: about five minutes on two cores, only this once")
        configure = [cmake, "-S", str(source), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release"]
        build = [cmake, "--build", str(folder), "--target", "llama-server", "-j"]
        for command in ([*configure, *flags], [*build, str(os.cpu_count() or 1)]):
            with (Path(scratch) / "log").open("w+") as log:
                if subprocess.call(command, stdout=log, stderr=subprocess.STDOUT):
                    log.seek(0)
                    print("".join(log.readlines()[-25:]) + f"\n{command[1]} failed")
                    return 1
    return 0


def unpack(scratch: Path) -> Path:
    """Fetch the sdist and unpack the llama.cpp in it."""
    download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:"]
    subprocess.check_call([*download, "-d", str(scratch), LLAMA])
    archive = next(scratch.glob("llama_cpp_python-*.tar.gz"))
    with tarfile.open(archive) as packed:
        packed.extractall(scratch, filter="data")
    return next(scratch.glob("llama_cpp_python-*/vendor/llama.cpp"))


if __name__ == "__main__":
    sys.exit(main())
