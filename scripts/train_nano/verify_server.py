"""Run the GGUF files in llama-server: outputs, speculative acceptance, speed, tool parsing.

python verify_server.py --server llama-server --target T.gguf --drafter D.gguf --show
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from nano.prompts import CHATS, COMPLETIONS
from nano.server import LlamaServer, verification_steps

MODES = ("plain", "mtp 1", "mtp 3", "dflash 3", "dflash 7")


def mode_args(mode: str, drafter: Path) -> list[str]:
    if mode == "plain":
        return []
    kind, n = mode.split()
    args = ["--spec-draft-n-max", n]
    return args + (
        ["--spec-type", "draft-mtp"]
        if kind == "mtp"
        else ["-md", str(drafter), "--spec-type", "draft-dflash"]
    )


def chat_body(spec: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {"messages": spec["messages"]}
    if "tools" in spec:
        body["tools"] = spec["tools"]
    if "effort" in spec:
        body["reasoning_effort"] = spec["effort"]
    if spec.get("think") is False:
        body["chat_template_kwargs"] = {"enable_thinking": False}
    return body


def run_all(server: LlamaServer, n_predict: int) -> dict[str, dict[str, Any]]:
    """Raw greedy completions of all prompts, chats rendered by the embedded template."""
    results: dict[str, dict[str, Any]] = {}
    for name, prompt in COMPLETIONS.items():
        results[name] = complete(server, prompt, n_predict)
    for name, spec in CHATS.items():
        prompt = server.post("/apply-template", chat_body(spec))["prompt"]
        results[name] = complete(server, prompt, n_predict)
    return results


def complete(server: LlamaServer, prompt: str, n_predict: int) -> dict[str, Any]:
    return server.post(
        "/completion",
        {
            "prompt": prompt,
            "n_predict": n_predict,
            "temperature": 0.0,
            "cache_prompt": False,
            "return_tokens": True,
        },
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--server", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--drafter", type=Path, required=True)
    parser.add_argument("--n-predict", type=int, default=192)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--show", action="store_true", help="print the generated texts")
    args = parser.parse_args()
    common = ["-m", str(args.target), "-c", "4096", "-t", str(args.threads), "--jinja"]
    table: dict[str, dict[str, dict[str, Any]]] = {}
    for mode in MODES:
        with LlamaServer(args.server, common + mode_args(mode, args.drafter)) as server:
            table[mode] = run_all(server, args.n_predict)
            if mode == "plain":
                for name in ("tool: weather", "tool: ticket"):
                    reply = server.post(
                        "/v1/chat/completions",
                        {**chat_body(CHATS[name]), "temperature": 0.0, "max_tokens": 200},
                    )
                    message = reply["choices"][0]["message"]
                    print(
                        name,
                        reply["choices"][0]["finish_reason"],
                        json.dumps(message.get("tool_calls")),
                    )
    if args.show:
        for name, r in table["plain"].items():
            print(f"--- {name} [{r['stop_type']}]\n{r['content']}")
    print(
        "| prompt | tokens | same | mtp 1 | mtp 3 | dflash 3 | dflash 7 "
        "| tok/s plain | mtp 1 | mtp 3 | dflash 3 | dflash 7 |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    sums = {m: [0.0, 0.0, 0.0, 0.0, 0.0] for m in MODES}
    for name, plain in table["plain"].items():
        n = len(plain["tokens"])
        same = "".join(
            "y" if table[m][name]["tokens"] == plain["tokens"] else "n" for m in MODES[1:]
        )
        cells, speeds = [], []
        for m in MODES:
            t = table[m][name]["timings"]
            drafted, accepted = t.get("draft_n", 0), t.get("draft_n_accepted", 0)
            steps = verification_steps(table[m][name])
            s = sums[m]
            s[0] += accepted
            s[1] += steps
            s[2] += drafted
            s[3] += t["predicted_n"]
            s[4] += t["predicted_ms"]
            speeds.append(f"{t['predicted_per_second']:.0f}")
            if m != "plain":
                cells.append(f"{accepted / steps:.2f} ({100 * accepted / max(1, drafted):.0f}%)")
        print(f"| {name} | {n} | {same} | " + " | ".join(cells + speeds) + " |")
    cells = [
        f"{s[0] / s[1]:.2f} ({100 * s[0] / s[2]:.0f}%)" for m, s in sums.items() if m != "plain"
    ]
    speeds = [f"{1000 * s[3] / s[4]:.0f}" for s in sums.values()]
    print("| all | | | " + " | ".join(cells + speeds) + " |")


if __name__ == "__main__":
    main()
