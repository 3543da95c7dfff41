"""What storing rows once saves, on a conversation that grows turn by turn."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

from outrider import Pipeline, Request
from outrider_snapshots.directory import Directory

from soak.histories import TEXTS


def run(turns: int, overrides: list[str]) -> dict[str, Any]:
    """Bytes of the states of all snapshots, and bytes they take in RAM and on the disk."""
    rng = random.Random(5)
    with tempfile.TemporaryDirectory(prefix="outrider-sharing-") as name:
        cache = f"cache={{use: snapshots, ram: 8GiB, disk: {{path: {name}, limit: 64GiB}}}}"
        pipeline = Pipeline.load(overrides=[*overrides, cache]).open()
        opening = pipeline.tokenize("<|im_start|>assistant\n")
        tokens: list[int] = []
        for _ in range(turns):
            text = "".join(rng.choices(TEXTS, k=6))
            end = "<|im_end|>\n" if tokens else ""
            tokens += pipeline.tokenize(f"{end}<|im_start|>user\n{text}<|im_end|>\n")
            request = Request(
                prompt=[*tokens, *opening], history=len(tokens), max_tokens=40, ignore_eog=True
            )
            sequence = pipeline.start(request)
            while not sequence.done:
                pipeline.step([sequence])
            tokens = list(sequence.tokens)
        pipeline.cache.store.flush()
        ram = pipeline.cache.store.memory
        directory = Directory(Path(name))
        states = [directory.summary(e.name).state_bytes for e in directory.entries()]
        result = {
            "held": directory.size() < sum(states),
            "turns": turns,
            "tokens": len(tokens),
            "snapshots": len(states),
            "state_bytes": sum(states),
            "largest_state_bytes": max(states),
            "recurrent_bytes": len(pipeline.engine.target.save(0, partial=True)),
            "ram_bytes": ram.size,
            "disk_bytes": directory.size(),
            "block_bytes": sum(directory.block_sizes().values()),
        }
        pipeline.close()
    return result
