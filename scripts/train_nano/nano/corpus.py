"""Permissively licensed Python source and documentation, from pip archives or installed ones."""

from __future__ import annotations

import ast
import hashlib
import random
import re
import sysconfig
import tarfile
import textwrap
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import HeaderParser
from importlib import metadata
from pathlib import Path
from zlib import crc32

from attrs import frozen

from .synth.gen import Function

SUFFIXES = (".py", ".md", ".rst", ".txt")
REFUSED = re.compile(r"\b(A|L)?GPL|MPL|Mozilla|proprietary|non-?commercial", re.I)
# The unseen code of the evaluation comes from llama.cpp; wonderwords holds word lists only.
NEVER = ("gguf", "llama_cpp_python", "llama-cpp-python", "wonderwords")
INSTALLED = [
    "torch",
    "jax",
    "sympy",
    "scipy",
    "numpy",
    "pandas",
    "networkx",
    "matplotlib",
    "scikit-learn",
    "transformers",
    "seaborn",
    "statsmodels",
    "scikit-image",
    "xarray",
    "flax",
    "optax",
    "numba",
    "botorch",
    "gpytorch",
    "lightning",
    "accelerate",
    "peft",
    "timm",
    "torchvision",
    "torchaudio",
    "torch-geometric",
    "numpyro",
    "equinox",
    "diffrax",
    "einops",
    "rich",
    "click",
    "Jinja2",
    "Werkzeug",
    "requests",
    "httpx",
    "httpcore",
    "aiohttp",
    "tensorboard",
    "huggingface-hub",
    "sentence-transformers",
    "torchmetrics",
    "Pygments",
    "typer",
    "attrs",
    "fsspec",
    "packaging",
    "setuptools",
    "pip",
    "mpmath",
    "opt-einsum",
    "toolz",
    "sacrebleu",
    "onnx",
    "onnxscript",
    "pyparsing",
    "python-dateutil",
    "cloudpickle",
    "joblib",
    "patsy",
    "imageio",
    "tifffile",
    "lineax",
    "e3nn",
    "chex",
    "etils",
    "Markdown",
    "msgpack",
    "PyYAML",
    "wrapt",
    "absl-py",
    "cupy-cuda13x",
    "mypy",
    "pytest",
    "narwhals",
    "formulaic",
]

# Numerical and model code: as much of these as `limit` allows, a third of it of the others.
NEAR = (
    "accelerate", "flax", "huggingface-hub", "jax", "lightning", "numpy", "onnx", "onnxscript",
    "pandas", "peft", "scikit-learn", "scipy", "sentence-transformers", "timm", "torch",
    "torch-geometric", "torchvision", "transformers",
)  # fmt: skip


@frozen
class Source:
    """One package whose text is in the corpus."""

    name: str
    version: str
    licence: str
    chars: int


def licence_of(info: Message) -> str:
    """The licence a package's metadata states, in one line."""
    stated = info.get("License-Expression") or ""
    if not stated:
        rows = [c for c in info.get_all("Classifier") or [] if c.startswith("License")]
        stated = "; ".join(c.rsplit("::", 1)[-1].strip() for c in rows)
    return stated or (info.get("License") or "").strip().split("\n")[0][:60] or "see package"


def usable(text: str) -> bool:
    """Plain, human-written text: no data tables, no minified lines, English letters."""
    if not 400 <= len(text) <= 160_000:
        return False
    lines = text.splitlines()
    if max(map(len, lines)) > 1000 or len(text) / len(lines) > 90:
        return False
    head = text[:20_000]
    digits = sum(ch.isdigit() for ch in head) / len(head)
    return digits < 0.1 and sum(ch < "\x80" for ch in head) / len(head) > 0.98


class Filter:
    """Refuses repeated documents, and documents whose lines were mostly seen before."""

    def __init__(self) -> None:
        self._docs: set[bytes] = set()
        self._lines: set[int] = set()

    def fresh(self, text: str) -> bool:
        key = hashlib.blake2b(text[:4000].encode(), digest_size=12).digest()
        if key in self._docs:
            return False
        self._docs.add(key)
        marks = [crc32(x.encode()) for line in text.split("\n") if len(x := line.strip()) > 24]
        new = sum(m not in self._lines for m in marks)
        self._lines.update(marks)
        return not marks or new / len(marks) > 0.6


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of the text files of a wheel or source archive."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            for name in sorted(archive.namelist()):
                if name.endswith((*SUFFIXES, "/METADATA")):
                    yield name, archive.read(name)
        return
    with tarfile.open(path) as archive:
        for member in archive:
            wanted = member.name.endswith((*SUFFIXES, "/PKG-INFO"))
            if member.isfile() and wanted and (file := archive.extractfile(member)):
                yield member.name, file.read()


def _select(
    files: list[tuple[str, bytes]], limit: int, seen: Filter, rng: random.Random
) -> list[str]:
    rng.shuffle(files)
    docs: list[str] = []
    total = 0
    for _, raw in files:
        try:
            text = raw.decode().replace("\r\n", "\n").strip()
        except UnicodeDecodeError:
            continue
        if total < limit and usable(text) and seen.fresh(text):
            docs.append(text + "\n")
            total += len(text)
    return docs


def from_archives(folder: Path, limit: int, seed: int = 0) -> tuple[list[str], list[Source]]:
    """Documents of all archives below a folder, at most `limit` characters from each."""
    rng = random.Random(seed)
    seen = Filter()
    docs: list[str] = []
    sources: list[Source] = []
    installed = {n.lower().replace("-", "_") for n in INSTALLED}
    for path in sorted([*folder.rglob("*.whl"), *folder.rglob("*.tar.gz")]):
        members = list(_members(path))
        heads = [raw for name, raw in members if name.endswith(("/METADATA", "/PKG-INFO"))]
        info = HeaderParser().parsestr(heads[0].decode()) if heads else Message()
        name, licence = (info.get("Name") or path.stem).lower(), licence_of(info)
        if REFUSED.search(licence) or name in NEVER:
            continue
        files = [(n, raw) for n, raw in members if n.endswith(SUFFIXES) and "_vendor" not in n]
        if name.replace("-", "_") in installed and path.suffix == ".whl":
            continue
        found = _select(files, limit, seen, rng)
        if found:
            sources.append(Source(name, info.get("Version") or "", licence, sum(map(len, found))))
        docs += found
    rng.shuffle(docs)
    return docs, sources


def from_installed(limit: int, seed: int = 0) -> tuple[list[str], list[Source]]:
    """Documents of the packages of INSTALLED that this Python has, and of its standard library."""
    rng = random.Random(seed)
    seen = Filter()
    docs: list[str] = []
    sources: list[Source] = []
    for name in sorted(INSTALLED):
        try:
            dist = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        paths = [Path(dist.locate_file(f)) for f in dist.files or []]
        licence = licence_of(dist.metadata)
        if REFUSED.search(licence):
            continue
        share = limit if name in NEAR else limit // 3
        _take(paths, name, dist.version, licence, share, seen, rng, docs, sources)
    stdlib = Path(sysconfig.get_paths()["stdlib"])
    paths = [p for p in stdlib.rglob("*.py") if "site-packages" not in p.parts]
    _take(paths, "python-stdlib", "", "PSF-2.0", limit // 3, seen, rng, docs, sources)
    rng.shuffle(docs)
    return docs, sources


def _take(
    paths: list[Path], name: str, version: str, licence: str, limit: int, seen: Filter,
    rng: random.Random, docs: list[str], sources: list[Source],
) -> None:  # fmt: skip
    chosen = sorted(p for p in paths if p.suffix in SUFFIXES and "_vendor" not in p.parts)
    rng.shuffle(chosen)
    files: list[tuple[str, bytes]] = []
    size = 0
    for path in chosen:
        if size > 1.5 * limit:
            break
        try:
            files.append((str(path), path.read_bytes()))
            size += len(files[-1][1])
        except OSError:
            continue
    found = _select(files, limit, seen, rng)
    if found:
        sources.append(Source(name, version, licence, sum(map(len, found))))
    docs += found


def functions(docs: list[str], count: int, seed: int) -> list[Function]:
    """Short functions of the documents, dedented and without docstrings; distinct names mostly."""
    rng = random.Random(seed)
    found: dict[str, Function] = {}
    for doc in rng.sample(docs, len(docs)):
        if "def " not in doc:
            continue
        try:
            tree = ast.parse(doc)
        except (SyntaxError, ValueError, RecursionError):
            continue
        lines = doc.split("\n")
        nodes = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
        for node in rng.sample(nodes, min(8, len(nodes))):
            if (made := _function(lines, node)) and made.source not in found:
                found[made.source] = made
        if len(found) >= count:
            break
    return list(found.values())[:count]


def _function(lines: list[str], node: ast.FunctionDef) -> Function | None:
    summary = ""
    body = lines[node.lineno - 1 : node.end_lineno]
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        text = first.value.value
        if not isinstance(text, str) or len(node.body) == 1:
            return None
        paragraph = text.strip().split("\n\n")[0]
        summary = re.split(r"(?<=\.)\s", " ".join(paragraph.split()))[0]
        start = first.lineno - node.lineno
        del body[start : start + (first.end_lineno or first.lineno) - first.lineno + 1]
    source = textwrap.dedent("\n".join(body)).strip() + "\n"
    fits = 3 <= source.count("\n") <= 18 and 60 <= len(source) <= 620
    if not fits or not source.startswith("def ") or "```" in source or not source.isascii():
        return None
    good = (
        12 <= len(summary) <= 110
        and summary.isascii()
        and summary[0].isupper()
        and "\\" not in summary
    )
    return Function(node.name, source, summary if good else "")


def paragraphs(docs: list[str], count: int, seed: int) -> list[str]:
    """Paragraphs of running English from the documents that are no code."""
    rng = random.Random(seed)
    found: list[str] = []
    for doc in rng.sample(docs, len(docs)):
        if len(re.findall(r"^ *(?:import|from|def|class) ", doc, re.M)) > 12:
            continue
        for block in doc.split("\n\n"):
            text = " ".join(block.split())
            letters = sum(c.isalpha() or c == " " for c in text)
            if (
                220 <= len(text) <= 700
                and letters / len(text) > 0.91
                and text[0].isupper()
                and text.endswith(".")
            ):
                found.append(text)
    rng.shuffle(found)
    return found[:count]
