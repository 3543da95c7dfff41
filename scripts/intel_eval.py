#!/usr/bin/env python3
"""Score pipelines and servers on problems that a program can judge, and compare their misses.

    scripts/intel_eval.py --suites nano --engines plain,mtp
    scripts/intel_eval.py --suites gsm8k,humaneval --gsm8k FILE --humaneval FILE \\
        --engines plain,server=http://127.0.0.1:8080 --model qwen.gguf

An engine is a pipeline (a name in `examples/pipelines`, a YAML file, `+KEY=VALUE` for overrides) or
`NAME=URL` of a server with `/v1/chat/completions`. Suites: `nano` (the embedded model can pass it),
`tools` (a tool protocol), `needle` (a sentence in a long text, 41,000 characters by default),
`gsm8k` and `humaneval` (files in their original form, by path; generated code runs in a process of
its own without network). Everything is decoded greedily.

The gate: a speculative pipeline must score what the first one scores, problem by problem, except
where its tokens first left those of the first at a near tie. Exit status 1 when it does not.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench import machine
from bench.client import Client, RefusalError, ServerError
from bench.engines import MeasuredError, OutriderEngine, RefusedError
from bench.machine import ROOT
from bench.statistics import divergence
from evals import suites
from evals.problem import Answer, Problem, Verdict

NEAR_TIE = 0.25


def main() -> int:
    """Evaluate; returns the exit status."""
    options = _options()
    try:
        problems = load(options)
        report = evaluate(problems, options)
    except (suites.DataError, MeasuredError, ServerError) as error:
        print(f"intel_eval: {error}", file=sys.stderr)
        return 2
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    print(markdown(report))
    return 0 if report["gate"]["passed"] else 1


def load(options: argparse.Namespace) -> list[Problem]:
    """The problems of the chosen suites. Raises DataError."""
    found: list[Problem] = []
    for suite in options.suites.split(","):
        if suite in ("gsm8k", "humaneval"):
            path: Path | None = getattr(options, suite)
            if path is None:
                raise suites.DataError(f"suite {suite} needs --{suite} FILE")
            problems = getattr(suites, suite)(path)
        elif suite == "needle":
            problems = suites.needle(options.characters)
        elif suite in ("nano", "tools"):
            problems = suites.from_file(suite)
        else:
            raise suites.DataError(
                f"there is no suite {suite!r}: nano, tools, needle, gsm8k or humaneval"
            )
        found += problems[: options.limit]
    return found


def evaluate(problems: Sequence[Problem], options: argparse.Namespace) -> dict[str, Any]:
    """Every engine on every problem."""
    names = [text for text in options.engines.split(",") if text]
    results: dict[str, dict[str, Any]] = {}
    with ExitStack() as stack:
        answerers = {text: _answerer(text, options, stack) for text in names}
        for problem in problems:
            for label, answerer in answerers.items():
                try:
                    answer = answerer(problem)
                    verdict = problem.judge(answer)
                except (RefusedError, RefusalError) as error:  # too long for the context, say
                    answer = Answer("", finish="refused")
                    verdict = Verdict(False, f"refused: {error}")
                results.setdefault(label, {})[problem.name] = {
                    "suite": problem.suite,
                    "right": verdict.right,
                    "reason": verdict.reason,
                    "answer": answer.content,
                    "calls": [list(call) for call in answer.calls],
                    "finish": answer.finish,
                    "tokens": answer.tokens,
                    "prompt_tokens": answer.prompt_tokens,
                }
                mark = "right" if verdict.right else f"wrong: {verdict.reason}"
                print(f"[{label}] {problem.name}: {mark}", file=sys.stderr, flush=True)
        gate = quality_gate(results, options, stack)
    for by_problem in results.values():
        for found in by_problem.values():
            del found["prompt_tokens"]
    return {
        "machine": machine.describe(),
        "settings": {"suites": options.suites, "engines": names, "model": options.model},
        "scores": {label: scores(by_problem) for label, by_problem in results.items()},
        "misses": misses(results),
        "gate": gate,
        "results": results,
    }


def scores(by_problem: Mapping[str, Mapping[str, Any]]) -> dict[str, list[int]]:
    """Right answers and problems, by suite."""
    found: dict[str, list[int]] = {}
    for result in by_problem.values():
        score = found.setdefault(result["suite"], [0, 0])
        score[0] += result["right"]
        score[1] += 1
    return found


def misses(results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Which problems every engine misses, and which only some do."""
    wrong = {
        label: {name for name, result in by_problem.items() if not result["right"]}
        for label, by_problem in results.items()
    }
    everyone = set.intersection(*wrong.values()) if wrong else set()
    return {
        "same": len(set(map(frozenset, wrong.values()))) <= 1,
        "by_all": sorted(everyone),
        "only": {label: sorted(names - everyone) for label, names in wrong.items()},
    }


def quality_gate(
    results: Mapping[str, Mapping[str, Any]], options: argparse.Namespace, stack: ExitStack
) -> dict[str, Any]:
    """Compare each engine that tells its tokens with the first; see the module's docstring."""
    labels = [label for label in results if any(r["tokens"] for r in results[label].values())]
    probe: OutriderEngine | None = None
    differences: list[dict[str, Any]] = []
    passed = True
    for label in labels[1:]:
        for name, base in results[labels[0]].items():
            other = results[label][name]
            index = divergence(other["tokens"] or (), base["tokens"] or ())
            if index is None and other["right"] == base["right"]:
                continue
            gap = None
            if index is not None:
                if probe is None:
                    text = "sampler={use: rejection, temperature: 0, logprobs: 64}"
                    probe = stack.enter_context(_pipeline(f"plain+{text}", options))
                prefix = [*base["prompt_tokens"], *base["tokens"][:index]]
                gap = probe.gap(prefix, base["tokens"][index], other["tokens"][index])
            tie = gap is not None and abs(gap) <= options.near_tie
            passed &= tie or other["right"] == base["right"]
            differences.append(
                {
                    "engine": label,
                    "problem": name,
                    "index": index,
                    "gap": gap,
                    "near_tie": tie,
                    "right": other["right"],
                    "reference_right": base["right"],
                }
            )
    return {
        "passed": passed,
        "reference": labels[0] if labels else None,
        "near_tie": options.near_tie,
        "differences": differences,
    }


def markdown(report: Mapping[str, Any]) -> str:
    """Scores by suite, the misses, and what the gate says."""
    table: Mapping[str, Mapping[str, list[int]]] = report["scores"]
    names = list(next(iter(table.values())))
    lines = ["| engine | " + " | ".join(names) + " |", "| --- |" + " ---: |" * len(names)]
    for label, by_suite in table.items():
        cells = [f"{right}/{count}" for right, count in by_suite.values()]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    lines.append("")
    found = report["misses"]
    if len(table) > 1:
        same = "the same problems" if found["same"] else "not the same problems"
        lines.append(f"The engines miss {same}; {len(found['by_all'])} are missed by all.")
        lines += [
            f"Only {label}: {', '.join(only)}." for label, only in found["only"].items() if only
        ]
    gate = report["gate"]
    if gate["differences"]:
        ties = sum(d["near_tie"] for d in gate["differences"])
        lines.append(
            f"{len(gate['differences'])} answers are not those of {gate['reference']}; {ties} of "
            f"them first differ at a near tie (logit gap up to {gate['near_tie']})."
        )
    if gate["reference"] and len(table) > 1:
        lines.append(f"Quality gate: {'passed' if gate['passed'] else 'FAILED'}.")
    return "\n".join(lines)


def _answerer(text: str, options: argparse.Namespace, stack: ExitStack) -> Any:
    if "=http://" in text or "=https://" in text:
        return _server(Client(text.split("=", 1)[1]), options.model_name)
    engine = stack.enter_context(_pipeline(text, options))

    def answer(problem: Problem) -> Answer:
        # the pipeline's own sampler decides; the examples' is greedy
        body = {**problem.request, "max_tokens": problem.max_tokens}
        found = engine.ask(do="chat", request=body)
        found["calls"] = [(name, arguments) for name, arguments in found["calls"]]
        return Answer(**found)

    return answer


def _pipeline(text: str, options: argparse.Namespace) -> OutriderEngine:
    name, *overrides = text.split("+")
    path = Path(name)
    if not name.endswith((".yaml", ".yml")):
        path = ROOT / "examples" / "pipelines" / f"{name}.yaml"
    if not path.is_file():
        raise MeasuredError(f"there is no pipeline {name!r}")
    common = [f"engine.threads={options.threads}", f"engine.context={options.context}"]
    return OutriderEngine(text, path, overrides=[*common, *overrides], model=options.model)


def _server(client: Client, model: str) -> Any:
    def answer(problem: Problem) -> Answer:
        body = {**problem.request, "max_tokens": problem.max_tokens, "temperature": 0}
        reply = client.post("/v1/chat/completions", {"model": model, **body})
        choice = reply["choices"][0]
        message = choice["message"]
        calls: list[tuple[str, Mapping[str, Any]]] = []
        for call in message.get("tool_calls") or ():
            function = call["function"]
            try:
                arguments = json.loads(function["arguments"] or "{}")
            except ValueError:
                arguments = {"": function["arguments"]}
            calls.append((function["name"], arguments))
        return Answer(
            content=message.get("content") or "",
            calls=calls,
            reasoning=message.get("reasoning_content") or "",
            finish=choice["finish_reason"],
        )

    return answer


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--suites", default="nano")
    add("--engines", default="plain,mtp", help="pipelines and NAME=URL, separated by commas")
    add("--model", help="target GGUF of the pipelines (default: the pipeline's)")
    add("--model-name", default="default", help="the model field of requests to servers")
    add("--gsm8k", type=Path, metavar="FILE")
    add("--humaneval", type=Path, metavar="FILE")
    add("--characters", type=int, default=suites.NEEDLE_CHARACTERS, help="of the needle's text")
    add("--limit", type=int, help="only the first N problems of each suite")
    add("--threads", type=int, default=1)
    add("--context", type=int, default=4096)
    add("--near-tie", type=float, default=NEAR_TIE, help="logit gap that excuses a difference")
    add("--out", type=Path, help="raw JSON")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
