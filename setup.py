"""Everything is in pyproject.toml; only what is written in C needs code at build time."""

from setuptools import setup

setup(
    cffi_modules=[
        "core/outrider/native/build_kernels.py:ffibuilder",
        "core/outrider/engine/build_calls.py:ffibuilder",
    ]
)
