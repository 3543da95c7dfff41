"""Builds `outrider.engine._calls` from calls.c; setup.py calls it. It links to nothing."""

from __future__ import annotations

import sys
from pathlib import Path

from cffi import FFI

HERE = Path("core/outrider/engine")
FLAGS = ["/O2", "/std:c11"] if sys.platform == "win32" else ["-O3", "-std=gnu11"]

ffibuilder = FFI()
ffibuilder.cdef((HERE / "calls.h").read_text())
ffibuilder.set_source(
    "outrider.engine._calls",
    '#include <stdbool.h>\n#include <stdint.h>\n#include "calls.h"',
    sources=[str(HERE / "calls.c")],
    include_dirs=[str(HERE)],
    depends=[str(HERE / "calls.h")],
    extra_compile_args=FLAGS,
)
