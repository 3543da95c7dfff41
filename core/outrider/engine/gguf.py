"""Read a GGUF header (through ggml's own reader), before any weight is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from outrider.engine.library import ffi, library, recent_messages
from outrider.errors import ModelError
from outrider.target import ModelInfo

_MAGIC = b"GGUF"
_SCALARS = {
    0: "uint8_t", 1: "int8_t", 2: "uint16_t", 3: "int16_t", 4: "uint32_t", 5: "int32_t",
    6: "float", 7: "bool", 10: "uint64_t", 11: "int64_t", 12: "double",
}  # fmt: skip
_STRING, _ARRAY = 8, 9
_LONGEST_ARRAY = 64
_RECURRENT = ("rwkv6", "rwkv7", "mamba", "mamba2", "arwkv7", "rwkv6qwen2")


def read_model_info(path: Path) -> ModelInfo:
    """What the header of `path` says. Raises ModelError for anything that is not a whole GGUF."""
    _check_readable(path)
    size = path.stat().st_size
    lib = library()
    params = ffi.new("struct gguf_init_params *", {"no_alloc": True, "ctx": ffi.NULL})
    recent_messages()
    header = lib.c.gguf_init_from_file(str(path).encode(), params[0])
    if header == ffi.NULL:
        said = recent_messages()
        raise ModelError(
            f"{path}: the GGUF header cannot be read, the file is truncated or damaged"
            + (f" ({said})" if said else "")
            + f"; it has {size:,} bytes. Download or copy it again."
        )
    try:
        metadata, vocabulary = _metadata(header)
        tensors = _tensors(path, header, size)
    finally:
        lib.c.gguf_free(header)
    architecture = str(metadata.get("general.architecture", ""))
    if not architecture:
        raise ModelError(f"{path}: the GGUF header names no architecture; it is no model file")

    def number(key: str, default: int = 0) -> int:
        return as_number(metadata.get(f"{architecture}.{key}", default))

    nextn = number("nextn_predict_layers")
    return ModelInfo(
        path=path,
        architecture=architecture,
        name=str(metadata.get("general.name", path.stem)),
        n_layer=number("block_count") - nextn,
        n_layer_nextn=nextn,
        n_embd=number("embedding_length"),
        n_vocab=vocabulary or number("vocab_size"),
        n_ctx_train=number("context_length"),
        recurrent=f"{architecture}.ssm.state_size" in metadata or architecture in _RECURRENT,
        chat_template=metadata.get("tokenizer.chat_template"),
        size=size,
        metadata=metadata,
        tensors=tensors,
    )


def as_number(value: int | tuple[int, ...]) -> int:
    """A metadata value that may be given once or for each layer: the largest counts."""
    return max(value) if isinstance(value, tuple) else int(value)


def _check_readable(path: Path) -> None:
    if path.is_dir():
        raise ModelError(f"{path} is a folder; expected a GGUF file")
    try:
        with path.open("rb") as file:
            start = file.read(4)
    except FileNotFoundError:
        raise ModelError(f"model file not found: {path}") from None
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from None
    if start != _MAGIC:
        raise ModelError(
            f"{path} is not a GGUF file: it starts with {start!r}, expected {_MAGIC!r}"
        )


def _metadata(header: Any) -> tuple[dict[str, Any], int]:
    """Scalar and short numeric-array values by key, and the vocabulary's size."""
    c = library().c
    found: dict[str, Any] = {}
    vocabulary = 0
    for i in range(c.gguf_get_n_kv(header)):
        key = ffi.string(c.gguf_get_key(header, i)).decode(errors="replace")
        kind = c.gguf_get_kv_type(header, i)
        if kind == _STRING:
            found[key] = ffi.string(c.gguf_get_val_str(header, i)).decode(errors="replace")
        elif kind == _ARRAY:
            count = c.gguf_get_arr_n(header, i)
            if key == "tokenizer.ggml.tokens":
                vocabulary = count
            element = _SCALARS.get(c.gguf_get_arr_type(header, i))
            if element and count <= _LONGEST_ARRAY:
                data = ffi.cast(f"{element} *", c.gguf_get_arr_data(header, i))
                found[key] = tuple(data[j] for j in range(count))
        elif kind in _SCALARS:
            found[key] = ffi.cast(f"{_SCALARS[kind]} *", c.gguf_get_val_data(header, i))[0]
    return found, vocabulary


def _tensors(path: Path, header: Any, size: int) -> frozenset[str]:
    c = library().c
    start = c.gguf_get_data_offset(header)
    names: set[str] = set()
    end = start
    for i in range(c.gguf_get_n_tensors(header)):
        names.add(ffi.string(c.gguf_get_tensor_name(header, i)).decode(errors="replace"))
        last = start + c.gguf_get_tensor_offset(header, i) + c.gguf_get_tensor_size(header, i)
        end = max(end, last)
    if end > size:
        raise ModelError(
            f"{path} is truncated: its tensors need {end:,} bytes, the file has {size:,}. "
            "Download or copy it again."
        )
    return frozenset(names)
