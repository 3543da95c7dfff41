"""Builds `outrider.native._kernels` from kernels.c; called by setup.py when the package is built.

No `-march=native`: a wheel built on one machine must run on another. kernels.c asks for several
instruction sets itself where the compiler can choose between them at load time.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cffi import FFI

HERE = Path("core/outrider/native")

ffibuilder = FFI()
ffibuilder.cdef((HERE / "kernels.h").read_text())
ffibuilder.set_source(
    "outrider.native._kernels",
    '#include <stdint.h>\n#include "kernels.h"',
    sources=[str(HERE / "kernels.c")],
    include_dirs=[str(HERE)],
    depends=[str(HERE / "kernels.h")],
    extra_compile_args=["/O2"] if sys.platform == "win32" else ["-O3", "-std=c11"],
)
