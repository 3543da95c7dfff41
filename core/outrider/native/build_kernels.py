"""Builds `outrider.native._kernels` from the C files here; setup.py calls it.

No `-march=native`: a wheel built on one machine must run on another. internal.h asks for several
instruction sets itself where the compiler can choose between them at load time.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cffi import FFI

HERE = Path("core/outrider/native")
# OpenMP's simd pragmas only (they let a float sum be taken in lanes); its threads are not used.
FLAGS = ["/O2", "/std:c11"] if sys.platform == "win32" else ["-O3", "-std=c11", "-fopenmp-simd"]

ffibuilder = FFI()
ffibuilder.cdef((HERE / "kernels.h").read_text())
ffibuilder.set_source(
    "outrider.native._kernels",
    '#include <stdint.h>\n#include "kernels.h"',
    sources=[str(HERE / name) for name in ("scan.c", "queue.c", "philox.c", "sampling.c")],
    include_dirs=[str(HERE)],
    depends=[str(HERE / "kernels.h"), str(HERE / "internal.h")],
    extra_compile_args=FLAGS,
    libraries=[] if sys.platform == "win32" else ["m"],
)
