"""Find, load and check libllama; route its log lines to Python logging.

The library comes from the installed llama-cpp-python, or from the path in `OUTRIDER_LIBLLAMA`
(a CUDA build, say). It is bound once a process.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import logging
import os
import sys
from collections import deque
from pathlib import Path
from typing import Any

import cffi

from outrider import native
from outrider.engine import _calls
from outrider.engine import declarations as decl
from outrider.errors import LibraryError

ffi: Any = cffi.FFI()
ffi.cdef(decl.CDEF)

_log = logging.getLogger("outrider.llama")
_log.addHandler(logging.NullHandler())
_LEVELS = {1: logging.DEBUG, 2: logging.INFO, 3: logging.WARNING, 4: logging.ERROR}
_GGML_CONTINUE = 5
_recent: deque[str] = deque(maxlen=8)


class Library:
    """The loaded libllama: `c` holds the C functions, `ext` those of `llama-ext.h`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.c: Any = ffi.dlopen(str(path))
        except OSError as error:
            raise LibraryError(
                f"cannot load the llama.cpp library {path}: {error}. Reinstall "
                f"{decl.BINDING}, or point OUTRIDER_LIBLLAMA at a libllama that loads."
            ) from None
        self._check()
        self.ext = {name: getattr(self.c, symbol) for name, symbol in decl.MANGLED.items()}
        self.calls = self._for_calls()
        self.c.llama_log_set(_on_log, ffi.NULL)
        self.c.llama_backend_init()
        self.c.ggml_backend_load_all()

    def _for_calls(self) -> Any:
        """The functions that calls.c works with (cffi `library_calls *`)."""
        calls = _calls.ffi.new("library_calls *")
        calls.argmax = _function(calls, "argmax", native.argmax_address())
        for name in decl.IN_CALLS:
            symbol = decl.MANGLED.get(name, f"llama_{name}")
            address = int(ffi.cast("intptr_t", getattr(self.c, symbol)))
            setattr(calls, name, _function(calls, name, address))
        return calls

    @property
    def build(self) -> str:
        """Version and CPU features: what a saved state depends on besides the model."""
        version = ffi.string(self.c.llama_version()).decode()
        system = ffi.string(self.c.llama_print_system_info()).decode()
        return f"llama {version}; ggml {decl.GGML_VERSION}; {system}"

    def devices(self) -> list[tuple[str, str]]:
        """Name and description of every compute device."""
        c = self.c
        found: list[tuple[str, str]] = []
        for i in range(c.ggml_backend_dev_count()):
            device = c.ggml_backend_dev_get(i)
            found.append(
                (
                    ffi.string(c.ggml_backend_dev_name(device)).decode(),
                    ffi.string(c.ggml_backend_dev_description(device)).decode(),
                )
            )
        return found

    def has_accelerator(self) -> bool:
        """Whether there is a compute device with memory of its own."""
        c = self.c
        devices = (c.ggml_backend_dev_get(i) for i in range(c.ggml_backend_dev_count()))
        return any(c.ggml_backend_dev_type(d) == decl.DEVICE_GPU for d in devices)

    def _check(self) -> None:
        """Refuse a library that the declarations were not written for.

        A struct that moved would be read as garbage, so besides the two version strings the
        default parameters are compared with what the declared layout must find there.
        """
        try:
            found = ffi.string(self.c.llama_version()).decode()
            ggml = ffi.string(self.c.ggml_version()).decode()
            for symbol in decl.MANGLED.values():
                getattr(self.c, symbol)
        except AttributeError as error:
            raise LibraryError(self._mismatch(f"it lacks a function ({error})")) from None
        if found.split("-")[0] != decl.LLAMA_VERSION or ggml.split("-")[0] != decl.GGML_VERSION:
            raise LibraryError(self._mismatch(f"it is llama.cpp {found} with ggml {ggml}"))
        p = self.c.llama_context_default_params()
        m = self.c.llama_model_default_params()
        layout = (p.n_ctx, p.n_batch, p.n_ubatch, p.n_outputs_max_per_seq, p.type_k, p.type_v)
        tail = (p.ctx_other == ffi.NULL, p.swa_full, p.offload_kqv, p.no_perf, p.kv_unified)
        model = (m.n_gpu_layers, m.split_mode, m.load_mode, m.use_extra_bufts, m.load_mtp)
        if (
            layout != (512, 2048, 512, 1, 1, 1)
            or tail != (True, True, True, True, False)
            or model != (-1, 1, -1, True, False)
        ):
            raise LibraryError(self._mismatch("its parameter structures are laid out differently"))

    def _mismatch(self, what: str) -> str:
        return (
            f"{self.path} does not match Outrider's declarations: {what}; expected llama.cpp "
            f"{decl.LLAMA_VERSION} with ggml {decl.GGML_VERSION}. Install {decl.BINDING} or build "
            "the library from its sdist."
        )


@functools.cache
def library() -> Library:
    """The process's libllama, loaded on first use. Raises LibraryError."""
    return Library(find_library())


def find_library() -> Path:
    """Path of libllama: `OUTRIDER_LIBLLAMA`, else inside the installed llama-cpp-python."""
    override = os.environ.get("OUTRIDER_LIBLLAMA")
    if override:
        path = Path(override).expanduser()
        if not path.is_file():
            raise LibraryError(f"OUTRIDER_LIBLLAMA names {path}, which is not a file")
        return path
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None or not spec.submodule_search_locations:
        raise LibraryError(f"llama.cpp is not installed; run: pip install '{_requirement()}'")
    names = {"darwin": "libllama.dylib", "win32": "llama.dll"}
    path = Path(spec.submodule_search_locations[0]) / "lib" / names.get(sys.platform, "libllama.so")
    if not path.is_file():
        version = importlib.metadata.version("llama-cpp-python")
        raise LibraryError(
            f"llama-cpp-python {version} is installed without its library ({path} is missing); "
            f"run: pip install --force-reinstall '{_requirement()}'"
        )
    return path


def recent_messages() -> str:
    """llama.cpp's last warnings and errors, for an exception's text; then forgotten."""
    text = "; ".join(_recent)
    _recent.clear()
    return text


def _function(calls: Any, name: str, address: int) -> Any:
    return _calls.ffi.cast(_calls.ffi.typeof(getattr(calls, name)), address)


def _requirement() -> str:
    return decl.BINDING.replace(" ", "==")


@ffi.callback("void(int, const char *, void *)")
def _on_log(level: int, text: Any, _data: Any) -> None:
    if level == _GGML_CONTINUE:
        return
    line = ffi.string(text).decode(errors="replace").strip()
    if not line or set(line) == {"."}:
        return
    number = _LEVELS.get(level, logging.DEBUG)
    if number >= logging.WARNING:
        _recent.append(line)
    _log.log(number, "%s", line)
