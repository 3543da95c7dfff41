#!/usr/bin/env python3
"""Measure outrider pipelines and other servers against each other, on the same prompt tokens.

    scripts/ab_bench.py --llama-server llama-server/bin/llama-server --out run.json
    scripts/ab_bench.py --pipelines plain,mtp,mtp+draft_length.k=1 --peers plain,draft-mtp:3
    scripts/ab_bench.py --pipelines plain --peers '' --url ollama=http://127.0.0.1:11434

A pipeline is a name in `examples/pipelines`, or a YAML file, with `+KEY=VALUE` for overrides. A
peer is a mode of llama-server, `plain`, `draft-mtp:K`, `draft-dflash:K` or `ngram-mod`, with
`+FLAG=VALUE` for flags of its own (`plain+flash-attn=off`); the script starts and stops it.
Everything runs greedily, and with `--sampled` also at temperature 0.7.

Writes raw JSON, a Markdown table and a plot. A run that broke off goes on where it stopped when the
same command is given with `--resume`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench import measure, prompts, report
from bench.client import Client
from bench.engines import (
    LlamaServerEngine,
    Measured,
    MeasuredError,
    OutriderEngine,
    Sampling,
    UrlEngine,
)
from bench.machine import ROOT

NANO = ROOT / "models" / "outrider-nano"
PIPELINES = "plain,suffix,mtp,dflash2,adaptive"
PEERS = "plain,draft-mtp:3,draft-dflash:7,ngram-mod"


def main() -> int:
    """Run the benchmark; returns the exit status."""
    options = _options()
    try:
        return _run(options)
    except MeasuredError as error:
        print(f"ab_bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"ab_bench: stopped; --resume goes on with {options.out}", file=sys.stderr)
        return 130


def _run(options: argparse.Namespace) -> int:
    samplings = [Sampling()]
    if options.sampled:
        samplings.append(Sampling(temperature=0.7))
    engines = [*pipelines(options), *peers(options), *urls(options)]
    if not engines:
        print("ab_bench: nothing to measure: no pipeline, peer or URL", file=sys.stderr)
        return 2
    settings = {
        "pipelines": ",".join(Path(name).name for name in options.pipelines.split(",")),
        "peers": options.peers,
        "urls": options.url,
        "model": Path(options.model).name,
        "drafter": Path(options.drafter).name if options.drafter else None,
        "threads": options.threads,
        "context": options.context,
        "runs": options.runs,
        "max_tokens": options.tokens,
        "families": options.families,
        "per_family": options.per_family,
        "samplings": [s.name for s in samplings],
        "synthetic": options.synthetic,
        "ignore_eog": options.ignore_eog,
        "set": options.set,
    }
    record = measure.Record.open(options.out, settings, options.resume)
    probe = OutriderEngine(
        "probe",
        _pipeline("plain"),
        overrides=[*_common(options), "sampler={use: rejection, temperature: 0, logprobs: 64}"],
        model=options.model,
    )
    with probe, tempfile.TemporaryDirectory() as cache:
        for engine in engines:
            if isinstance(engine, OutriderEngine):
                # draft lengths from costs that are measured now, not from those of another day
                engine.environment["XDG_CACHE_HOME"] = cache
        found = probe.prompts(options.families.split(","), options.per_family)
        measure.run(
            record,
            engines,
            found,
            probe.prompts(["warm-up"], 1)[0],
            samplings,
            runs=options.runs,
            max_tokens=options.tokens,
            restart=not options.keep_engines,
        )
        if options.synthetic is None:
            measure.find_divergences(record, engines[0].label, probe)
            record.save()
    table = report.markdown(record.as_dict())
    options.out.with_suffix(".md").write_text(table)
    try:
        report.plot(record.as_dict(), options.out.with_suffix(".png"))
    except ImportError:
        print("no plot: install the bench extra (matplotlib)", file=sys.stderr)
    print(table)
    return 0


def pipelines(options: argparse.Namespace) -> list[Measured]:
    """The engines that `--pipelines` names."""
    found: list[Measured] = []
    for text in filter(None, options.pipelines.split(",")):
        name, *own = text.split("+")
        overrides = [*_common(options), *own]
        if options.synthetic and name != "plain":
            overrides.insert(0, _synthetic(options))
        elif options.sampled:
            # greedy requests are temperature 0 of the same sampler: one pipeline serves both
            overrides.insert(0, "sampler={use: rejection, temperature: 0}")
        found.append(
            OutriderEngine(
                "outrider " + "+".join([Path(name).stem, *own]),
                _pipeline(name),
                overrides=overrides,
                model=options.model,
                ignore_eog=options.ignore_eog,
            )
        )
    return found


def _synthetic(options: argparse.Namespace) -> str:
    inner = "{use: rejection, temperature: 0}" if options.sampled else "greedy"
    return f"sampler={{use: synthetic, rates: [{options.synthetic}], of: {inner}}}"


def _pipeline(name: str) -> Path:
    path = Path(name) if name.endswith((".yaml", ".yml")) else _example(name)
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in _example("x").parent.glob("*.yaml")))
        raise SystemExit(f"there is no pipeline {name!r}: give a YAML file, or one of {known}")
    return path


def _example(name: str) -> Path:
    return ROOT / "examples" / "pipelines" / f"{name}.yaml"


def _common(options: argparse.Namespace) -> list[str]:
    return [
        f"engine.threads={options.threads}",
        f"engine.context={options.context}",
        *options.set,
    ]


def peers(options: argparse.Namespace) -> list[Measured]:
    """llama-server in the modes that `--peers` names."""
    modes = [mode for mode in options.peers.split(",") if mode]
    if not modes:
        return []
    if options.llama_server is None:
        raise SystemExit(
            "--llama-server PATH is needed for --peers; `make bench` builds one, and "
            "--peers '' measures without"
        )
    return [
        LlamaServerEngine(
            f"llama-server {mode}",
            options.llama_server,
            peer_flags(mode, options),
            ignore_eog=options.ignore_eog,
        )
        for mode in modes
    ]


def peer_flags(mode: str, options: argparse.Namespace) -> list[str]:
    """llama-server's command line for one mode."""
    flags = ["-m", str(options.model), "-c", str(options.context), "-np", "1"]
    flags += ["-t", str(options.threads), "-ngl", "99", *options.peer_flag]
    mode, *own = mode.split("+")
    for text in own:
        flag, separator, value = text.partition("=")
        flags += [f"--{flag}", *([value] if separator else [])]
    kind, _, count = mode.partition(":")
    if kind == "plain":
        return flags
    if kind not in ("draft-mtp", "draft-dflash", "ngram-mod"):
        raise SystemExit(f"unknown peer {mode!r}: plain, draft-mtp:K, draft-dflash:K or ngram-mod")
    flags += ["--spec-type", kind]
    if kind == "draft-dflash":
        flags += ["-md", str(options.drafter)]
    if count:
        flags += ["--spec-draft-n-max", count]
        if options.synthetic:
            rates = options.synthetic.split(",")[: int(count)]
            flags += ["--spec-synth-rates", ",".join(rates)]
    return flags


def urls(options: argparse.Namespace) -> list[Measured]:
    """Servers that run already."""
    found: list[Measured] = []
    for text in options.url:
        label, separator, url = text.partition("=")
        if not separator or "://" not in url:
            raise SystemExit(f"--url {text!r}: expected NAME=http://…")
        label, _, model = label.partition("@")
        found.append(UrlEngine(label, Client(url), model or None))
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--pipelines", default=PIPELINES, help=f"default: {PIPELINES}")
    add("--peers", default=PEERS, help=f"default: {PEERS}; '' for none")
    add("--url", action="append", default=[], metavar="NAME[@MODEL]=URL")
    add("--llama-server", type=Path, help="the llama-server program")
    add("--model", default=str(NANO / "outrider-nano-q8_0.gguf"), help="target GGUF")
    add("--drafter", default=str(NANO / "outrider-nano-dflash2-q8_0.gguf"), help="DFlash2 GGUF")
    add("--runs", type=int, default=3, help="runs of each prompt; medians are reported")
    add("--tokens", type=int, default=256, help="most tokens to generate")
    add("--families", default=",".join(prompts.FAMILIES), help="prompt families")
    add("--per-family", type=int, help="only the first N prompts of each family")
    add("--sampled", action="store_true", help="also temperature 0.7, top-k 20, top-p 0.95")
    add("--synthetic", metavar="P1,P2,…", help="accept drafts at random with these rates")
    add("--ignore-eog", action="store_true", help="go on after end-of-generation tokens")
    add("--threads", type=int, default=1, help="CPU threads of every engine")
    add("--context", type=int, default=4096, help="context of every engine")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="for every pipeline")
    add("--peer-flag", action="append", default=[], metavar="FLAG", help="for llama-server")
    add("--keep-engines", action="store_true", help="do not start engines anew for every run")
    add("--out", type=Path, default=Path("ab_bench.json"), help="raw JSON")
    add("--resume", action="store_true", help="go on with an unfinished --out")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
