"""Everything is in pyproject.toml; only the C kernels need code at build time."""

from setuptools import setup

setup(cffi_modules=["core/outrider/native/build_kernels.py:ffibuilder"])
