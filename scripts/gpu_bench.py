#!/usr/bin/env python3
"""The whole comparison at a size for which no trained drafter is at hand, on one accelerator.

    scripts/gpu_bench.py pack                   with a network: source and wheels, build/gpu-pack
    scripts/gpu_bench.py all --out DIR          on the CUDA machine: everything, as JSON in DIR
    scripts/gpu_bench.py all --out DIR --size tiny --cpu --llama-server PATH     a rehearsal

Steps of `all`, each skipped when its result is there, so that a run that broke off goes on. A
measurement that fails does not keep the others from being made. With `--limit SECONDS` what is
under way when they are over is stopped, with what it has found so far, and the rest left out:

    install   Outrider and what it needs, from the wheels, into build/gpu/site
    build     libllama and llama-server with CUDA: an earlier build that was packed as cuda.tar.xz
              if it still loads, else from the source (scripts/cuda/build.sh), four minutes on
              16 cores
    models    random weights with the 27B geometry, target and DFlash2 drafter
    check     one generation; names the way out if loading the library breaks Python
    ab        outrider against llama-server: MTP k=3, DFlash2 k=7, with 9 rows as well, and k=3,
              plain; synthetic acceptance, greedy and at temperature 0.7
    costs     c(r), d(k), rollback, snapshot on the device, copy to the host
    ttft      second turns at 16k and 1.1k tokens
    lengths   drafts as many as pay against fixed numbers of them, and llama-server with these

A single step may be named instead of `all`. Only build/gpu-pack has to travel with the checkout;
only the standard library is needed to start.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import site
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "scripts"
RATES = "0.9,0.8,0.7,0.62,0.55,0.5,0.45"
# pipeline, overrides of each variant of it, modes of llama-server, most tokens they draft
COMPARISONS = {
    "mtp-k3": ("mtp", ("draft_length.k=3",), "draft-mtp:3", 3),
    "dflash2-k7": (
        "dflash2",
        ("draft_length.k=7", "draft_length.k=7+draft_length.rows=9"),
        "draft-dflash:7",
        7,
    ),
    "dflash2-k3": ("dflash2", ("draft_length.k=3",), "draft-dflash:3", 3),
    "plain": ("plain", ("",), "plain", 0),
}
ADAPTIVE = "draft_length={use: adaptive}+draft_length.max=7+draft_length.padding=1"
LENGTHS = {
    "lengths-mtp": (
        "mtp",
        (ADAPTIVE, "draft_length.k=2", "draft_length.k=3"),
        "draft-mtp:2,draft-mtp:3",
        3,
    ),
    "lengths-dflash2": (
        "dflash2",
        (ADAPTIVE, "draft_length.k=3", "draft_length.k=7+draft_length.rows=9"),
        "draft-dflash:3,draft-dflash:7",
        7,
    ),
}
MEASUREMENTS = ("ab", "costs", "ttft", "lengths")
# packages that a machine with PyTorch has already; the others travel as wheels
THERE = {
    *("attrs", "click", "jinja2", "markdown-it-py", "markupsafe", "mdurl", "numpy", "packaging"),
    *("pluggy", "pygments", "pyyaml", "rich", "setuptools", "tqdm", "typing-extensions", "xxhash"),
}
# what no benchmark needs: only constraints compile grammars
UNUSED = {"llguidance"}
STANDARD_CXX = "libstdc++.so.6"
LEAST = 15.0
"""Seconds that must be left for a measurement to be begun."""
RESERVE = 30.0
"""Seconds in which a measurement of second turns that is under way ends of its own."""
PATIENCE = 20.0
"""Seconds that loading a library may take."""
MANY = 4000
"""Prompt tokens above which only the paths of second turns that a server has too are timed."""


class StepError(RuntimeError):
    """A step that failed; the message says which."""


class TimeOverError(StepError):
    """The time limit was reached."""


class Bench:
    """Paths and settings of one run."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.deadline = time.monotonic() + (options.limit or float("inf"))
        self.work: Path = options.work.absolute()
        self.packed: Path = options.packed.absolute()
        self.out: Path = options.out.absolute()
        self.results = self.work / f"results-{options.size}"
        self.site = self.work / "site"
        self.build = self.work / "cuda"
        self.environment = dict(os.environ)
        commit = self.packed / "commit"
        if commit.is_file():
            self.environment["OUTRIDER_COMMIT"] = commit.read_text().strip()
        if not options.cpu:
            paths = [self.site, self.build / "src" / "gguf-py"]
            known = filter(None, [self.environment.get("PYTHONPATH")])
            self.environment["PYTHONPATH"] = os.pathsep.join([*map(str, paths), *known])
            self.environment["OUTRIDER_LIBLLAMA"] = str(self.build / "bin" / "libllama.so")
            libraries = [self.build / "bin", *runtime_folders()]
            known = filter(None, [self.environment.get("LD_LIBRARY_PATH")])
            self.environment["LD_LIBRARY_PATH"] = os.pathsep.join([*map(str, libraries), *known])

    # --- steps --------------------------------------------------------------------------------

    def pack(self) -> None:
        """Source archive and wheels, where there is a network."""
        self.packed.mkdir(parents=True, exist_ok=True)
        (self.packed / "commit").write_text(f"{commit()}\n")
        archive = self.packed / "llama-source.tar.xz"
        if not archive.is_file():
            self.run(["bash", str(SCRIPTS / "cuda" / "pack_source.sh"), str(archive)])
        wheels = self.packed / "wheels"
        platforms = [f"manylinux_2_{n}_x86_64" for n in (28, 27, 26, 24, 17, 12, 5)]
        platforms += ["manylinux2014_x86_64", "manylinux1_x86_64"]
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(wheels)]
        command += ["--only-binary=:all:", "--implementation", "cp"]
        command += ["--python-version", self.options.python]
        for platform in platforms:
            command += ["--platform", platform]
        there = THERE | UNUSED | {"llama-cpp-python"}
        self.run([*command, *sorted(set(requirements("outrider")) - there)])

    def install(self) -> None:
        """Outrider itself, with its plugins, into a folder of its own."""
        if (self.site / "outrider").is_dir():
            return
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps"]
        pip += ["--no-compile", "--target", str(self.site)]
        wheels = sorted(str(p) for p in (self.packed / "wheels").glob("*.whl"))
        if not wheels:
            raise StepError(f"no wheels in {self.packed / 'wheels'}: run `gpu_bench.py pack` first")
        self.run([*pip, *wheels])
        self.run([*pip, "--upgrade", "--no-build-isolation", str(ROOT)])

    def build_library(self) -> None:
        """libllama and llama-server with CUDA."""
        archive, ready = self.packed / "llama-source.tar.xz", self.packed / "cuda.tar.xz"
        if not archive.is_file():
            raise StepError(f"{archive} is missing: run `gpu_bench.py pack` first")
        source = self.build / "src"
        if not source.is_dir():
            source.mkdir(parents=True)
            self.run(["tar", "xJf", str(archive), "-C", str(source)])
        if ready.is_file() and not self.server.is_file():
            self.run(["tar", "xJf", str(ready), "-C", str(self.build)])
            if self._loads():
                (self.build / ".linked").touch()
            else:
                shutil.rmtree(self.build / "bin")
        self.run(["bash", str(SCRIPTS / "cuda" / "build.sh"), str(archive), str(self.build)])

    def _loads(self) -> bool:
        """Whether the unpacked libraries load here, in a server and in Python."""
        library = self.environment["OUTRIDER_LIBLLAMA"]
        code = f"import ctypes; ctypes.CDLL({library!r}).llama_backend_init()"
        try:
            for command in ([str(self.server), "--version"], [sys.executable, "-c", code]):
                self.run(command, limit=PATIENCE)
        except StepError as error:
            print(f"gpu_bench: the packed build is of no use here: {error}", flush=True)
            return False
        return True

    def models(self) -> None:
        """Target and drafter of the chosen geometry."""

        def write(kind: str, path: Path) -> None:
            if path.is_file():
                return
            scratch = path.with_suffix(".part")
            command = [sys.executable, str(SCRIPTS / "synth_gguf.py"), kind, str(scratch)]
            command += ["--size", self.options.size, "--vocab", str(self.vocabulary)]
            if kind == "dflash":
                command += ["--layers", str(self.options.layers)]
            self.run(command)
            scratch.rename(path)

        with ThreadPoolExecutor() as both:
            list(both.map(write, ("target", "dflash"), (self.target, self.drafter)))

    def check(self) -> None:
        """One generation. If Python dies in the library, try again with one libstdc++ for all."""
        command = self.command("outrider", "generate", "Hello", "-q", "--raw", "-n", "8")
        command += ["-p", str(self.pipeline("plain")), "-m", str(self.target)]
        command += [*self.sets("engine.threads=2")]
        try:
            self.run(command)
        except StepError as error:
            library = shared_libstdcxx()
            if self.options.cpu or library is None:
                raise
            print(f"gpu_bench: {error}\ngpu_bench: trying again with {library} preloaded")
            self.environment["LD_PRELOAD"] = library
            self.run(command)
            print("gpu_bench: it works with the preloaded library, so the build is not clean yet")

    def ab(self) -> None:
        """Outrider against llama-server, one comparison after the other."""
        self.every(self.compare, COMPARISONS)

    def lengths(self) -> None:
        """Draft lengths against each other and llama-server."""
        self.every(self.compare, LENGTHS)

    def compare(self, name: str) -> None:
        """One comparison."""
        pipeline, variants, peer, k = {**COMPARISONS, **LENGTHS}[name]
        result = self.results / f"{name}.json"
        if finished(result):
            return
        text = str(self.pipeline(pipeline))
        label = ",".join(text + "+" * bool(variant) + variant for variant in variants)
        command = [sys.executable, str(SCRIPTS / "ab_bench.py"), "--resume", "--sampled"]
        command += ["--pipelines", label, "--peers", peer, "--keep-engines", "--ignore-eog"]
        command += ["--model", str(self.target), "--drafter", str(self.drafter)]
        command += ["--llama-server", str(self.server), "--out", str(result)]
        command += ["--families", "code-completion,prose", "--per-family", "1"]
        command += ["--runs", str(self.options.runs), "--tokens", str(self.options.tokens)]
        command += ["--threads", str(self.options.threads)]
        if k:
            command += ["--synthetic", RATES]
        self.run(command)

    def costs(self) -> None:
        """What verify rows, drafts and ways to undo them cost, with either drafter."""
        self.every(self.cost, ("mtp", "dflash2"))

    def cost(self, name: str) -> None:
        """Costs with one drafter."""
        result = self.results / f"costs-{name}.json"
        if result.is_file():
            return
        command = [sys.executable, str(SCRIPTS / "engine_costs.py"), "--out", str(result)]
        command += ["--pipeline", str(self.pipeline(name)), "--model", str(self.target)]
        command += ["--length", str(self.options.length)]
        command += ["--rows", "16" if name == "mtp" else "8"]
        command += ["--repeats", str(self.options.repeats)]
        self.run([*command, *self.sets(f"engine.threads={self.options.threads}")])

    def ttft(self) -> None:
        """Second turns: outrider with its snapshots, llama-server with its cache."""
        engines = {"llama-server": self.peer_ttft, "outrider": self.own_ttft}
        names = [f"{engine} {tokens}" for tokens in self.options.ttft for engine in engines]

        def measure(name: str) -> None:
            result = self.results / "ttft.json"
            found = json.loads(result.read_text()) if result.is_file() else {}
            if name in found:
                return
            engine, tokens = name.split()
            found[name] = engines[engine](int(tokens))
            self.results.mkdir(parents=True, exist_ok=True)
            result.write_text(json.dumps(found, indent=1) + "\n")

        self.every(measure, names)

    def own_ttft(self, tokens: int) -> Any:
        """Outrider's, with prompts of `tokens` tokens."""
        command = [sys.executable, str(SCRIPTS / "ttft_bench.py"), "--json"]
        command += ["--pipeline", str(self.pipeline("plain")), "--model", str(self.target)]
        command += ["--tokens", str(tokens), "--repeats", str(self.options.ttft_repeats)]
        if tokens > MANY:
            command += ["--paths", "live,ram"]
        if self.options.limit:
            # what it has by then is worth more than a run that is stopped
            command += ["--limit", f"{max(0.0, self.left() - RESERVE):.0f}"]
        sets = f"engine.threads={self.options.threads}", f"engine.context={tokens + 512}"
        return json.loads(self.run([*command, *self.sets(*sets)], quiet=True).splitlines()[-1])

    def peer_ttft(self, tokens: int) -> Any:
        """llama-server's."""
        scratch = self.work / "peer-ttft.json"
        command = [sys.executable, str(SCRIPTS / "peer_ttft.py"), "--out", str(scratch)]
        command += ["--llama-server", str(self.server), "--model", str(self.target)]
        command += ["--context", str(tokens + 512), "--threads", str(self.options.threads)]
        command += ["--repeats", str(self.options.ttft_repeats), "--tokens", str(tokens)]
        self.run(command)
        return json.loads(scratch.read_text())[str(tokens)]

    def every(self, measure: Callable[[str], None], names: Iterable[str]) -> None:
        """Make each measurement, also when one before it failed; raises StepError for those."""
        failed: list[str] = []
        for name in names:
            start = time.monotonic()
            if self.left() < LEAST:
                print(f"gpu_bench: {name} left out: the time is over", flush=True)
                continue
            try:
                measure(name)
            except TimeOverError as error:
                print(f"gpu_bench: {name} is not complete: {error}", flush=True)
            except StepError as error:
                failed.append(f"{name}: {error}")
                print(f"gpu_bench: {failed[-1]}", file=sys.stderr, flush=True)
            self.collect()
            print(f"gpu_bench: {name} took {time.monotonic() - start:.0f} s", flush=True)
        if failed:
            raise StepError(f"{len(failed)} of its measurements failed, see above")

    def left(self) -> float:
        """Seconds until the time limit."""
        return self.deadline - time.monotonic()

    def collect(self) -> None:
        """Copy the raw JSON that is there so far to `--out`, without tables and plots."""
        self.out.mkdir(parents=True, exist_ok=True)
        for path in self.results.glob("*.json"):
            shutil.copy(path, self.out)

    # --- paths and processes ------------------------------------------------------------------

    @property
    def target(self) -> Path:
        """The target's GGUF."""
        return self.work / f"synthetic-{self.options.size}.gguf"

    @property
    def drafter(self) -> Path:
        """The DFlash2 drafter's GGUF."""
        return self.work / f"synthetic-{self.options.size}-dflash2.gguf"

    @property
    def vocabulary(self) -> Path:
        """A GGUF with the vocabulary."""
        given: Path | None = self.options.vocab
        return given or self.build / "src" / "models" / "ggml-vocab-qwen35.gguf"

    @property
    def server(self) -> Path:
        """llama-server."""
        given: Path | None = self.options.llama_server
        return given or self.build / "bin" / "llama-server"

    def pipeline(self, name: str) -> Path:
        """A pipeline file of this run; DFlash2's names the synthetic drafter."""
        path = self.work / f"{name}.yaml"
        text = (ROOT / "examples" / "pipelines" / f"{name}.yaml").read_text()
        text = text.replace("model: outrider-nano-dflash2", f"model: {self.drafter}")
        path.write_text(text.replace("model: outrider-nano\n", f"model: {self.target}\n"))
        return path

    def command(self, module: str, *arguments: str) -> list[str]:
        """Outrider's command line, without relying on an installed script."""
        return [sys.executable, "-c", f"from {module}.cli import main; main()", *arguments]

    def sets(self, *assignments: str) -> list[str]:
        """`--set` for each assignment."""
        return [part for text in assignments for part in ("--set", text)]

    def run(self, command: list[str], quiet: bool = False, limit: float | None = None) -> str:
        """Run a command to its end; its standard output.

        Raises StepError, TimeOverError after `limit` seconds or when the run's time is over; the
        command and what it started are ended then.
        """
        limit = self.left() if limit is None else min(limit, self.left())
        child = subprocess.Popen(
            command,
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        name = Path(command[1] if command[0] in (sys.executable, "bash") else command[0]).name
        try:
            output, _ = child.communicate(timeout=None if limit == float("inf") else limit)
        except BaseException as error:
            end_group(child)
            if isinstance(error, subprocess.TimeoutExpired):
                raise TimeOverError(f"{name} was stopped after {limit:.0f} s") from None
            raise
        if not quiet:
            print(output[-3000:], end="", flush=True)
        if child.returncode:
            raise StepError(f"{name} ended with status {child.returncode}: {' '.join(command)}")
        return output


def end_group(child: subprocess.Popen[str]) -> None:
    """End a command that was started as a session of its own, and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.communicate()


def commit() -> str:
    """The commit that is packed; a `+` behind it: files had changed."""
    git = ["git", "-C", str(ROOT)]
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    clean = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "core", "plugins"], check=False)
    return head.stdout.strip() + "+" * (clean.returncode != 0)


def finished(path: Path) -> bool:
    """Whether a comparison is complete: its table is written last."""
    return path.is_file() and path.with_suffix(".md").is_file()


def requirements(distribution: str) -> Iterable[str]:
    """Names of everything a distribution needs, without extras, however deep."""
    import importlib.metadata as metadata

    seen: set[str] = set()
    waiting = [distribution]
    while waiting:
        for line in metadata.requires(waiting.pop()) or ():
            name, marker = re.match(r"([\w.-]+)(.*)", line).groups()  # type: ignore[union-attr]
            name = name.lower().replace("_", "-")
            if "extra ==" in marker or name in seen:
                continue
            try:
                metadata.version(name)
            except metadata.PackageNotFoundError:
                continue  # for another platform or an older Python
            seen.add(name)
            waiting.append(name)
    return seen


def runtime_folders() -> list[Path]:
    """Where Python packages keep CUDA's runtime, cuBLAS and NCCL: a toolkit may lack them."""
    folders = (f for root in site.getsitepackages() for f in Path(root).glob("nvidia/*/lib"))
    names = "libcudart.so.*", "libcublas.so.*", "libnccl.so.*"
    return [f for f in folders if any(True for name in names for _ in f.glob(name))]


def shared_libstdcxx() -> str | None:
    """The path of the system's C++ library."""
    try:
        listed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    found = re.search(rf"{re.escape(STANDARD_CXX)} .*x86-64.*=> (\S+)", listed.stdout)
    return found[1] if found else None


def main() -> int:
    """Run the chosen steps; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "step",
        choices=["pack", "all", "install", "build", "models", "check", *MEASUREMENTS],
    )
    add("--out", type=Path, default=ROOT / "build" / "gpu" / "json", help="where raw JSON goes")
    add("--work", type=Path, default=ROOT / "build" / "gpu", help="builds, models, tables")
    add("--packed", type=Path, default=ROOT / "build" / "gpu-pack", help="what travels")
    add("--size", default="27b", help="geometry: 27b, 4b, 0.8b, tiny")
    add("--layers", type=int, default=5, help="layers of the DFlash2 drafter")
    add("--runs", type=int, default=3)
    add("--tokens", type=int, default=256)
    add("--threads", type=int, default=4)
    add("--repeats", type=int, default=20, help="of each timed call")
    add("--length", type=int, default=1500, help="tokens in memory where calls are timed")
    add("--ttft-repeats", type=int, default=3, help="conversations a path and prompt length")
    add("--ttft", type=int, nargs="+", default=[16000, 1100], help="prompt lengths")
    add("--limit", type=float, help="all: seconds after which to stop")
    add("--python", default="3.12", help="pack: the other machine's Python")
    add("--cpu", action="store_true", help="no CUDA: use this environment's library")
    add("--vocab", type=Path, help="GGUF with the vocabulary (default: from the source)")
    add("--llama-server", type=Path, help="an llama-server that is there already")
    options = parser.parse_args()
    bench = Bench(options)
    steps: dict[str, Callable[[], None]] = {
        "install": bench.install,
        "build": bench.build_library,
        "models": bench.models,
        "check": bench.check,
        "ab": bench.ab,
        "costs": bench.costs,
        "ttft": bench.ttft,
        "lengths": bench.lengths,
    }
    if options.cpu:
        del steps["install"], steps["build"]
    chosen = [*steps] if options.step == "all" else [options.step]
    bench.work.mkdir(parents=True, exist_ok=True)
    status = 0
    for name in chosen:
        start = time.monotonic()
        print(f"gpu_bench: {name}", flush=True)
        try:
            (bench.pack if name == "pack" else steps[name])()
        except StepError as error:
            print(f"gpu_bench: {name}: {error}", file=sys.stderr, flush=True)
            status = 1
            if name not in MEASUREMENTS:
                break
        print(f"gpu_bench: {name} took {time.monotonic() - start:.0f} s", flush=True)
    bench.collect()
    return status


if __name__ == "__main__":
    sys.exit(main())
