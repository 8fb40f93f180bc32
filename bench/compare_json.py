"""Claim: a change of the code changes no number that a command prints.

Runs every command with --json on the built-in sample, once from each of two source trees, and compares the documents:
the same keys, equal texts, and numbers equal to 1e-4 of their size (float32 differs in its last bits).

    python bench/compare_json.py OLD_TREE NEW_TREE [--only NAME ...] [--grammar FOLDER] [--keep FOLDER]

A tree is a checkout. With --keep the documents are kept there and not made again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LEFT, RIGHT = "Fire in hospital kills 38", "38 feared dead in hospital fire"
RENAMED = {"pos-relevance": "patterns", "synthetic": "nouns", "benchmark": "checkup", "--granularity": "--by",
           "integrated-jacobian": "jacobian"}  # fmt: skip
"""Commands, options and values, by the names that older trees know."""
UNKNOWN = ("No such command", "No such option", "unknown method")
"""What a tree says of a name that it does not know."""
VOLATILE = ("seconds", "time", "path", "folder", "out", "command", "versions", "began", "hash", "created", "speed")
"""Keys whose values differ from run to run."""
TRAINING = """\
model = "minilm"
out = "run"
seed = 1
epochs = 1

[[task]]
kind = "similarity"
train = "sample/pairs"
dev = "sample/pairs"
test = "sample/pairs"
"""
CASES: dict[str, list[str]] = {
    "explain": ["explain", LEFT, RIGHT],
    "explain-separate": ["explain", LEFT, RIGHT, "--bias", "separate", "--reference", "none",
                         "--granularity", "word"],
    "explain-top": ["explain", LEFT, RIGHT, "--top", "3"],
    "explain-shares": ["explain", LEFT, RIGHT, "--shares-only"],
    "explain-hxp": ["explain", LEFT, RIGHT, "--method", "hxp"],
    "explain-jacobian": ["explain", LEFT, RIGHT, "--method", "integrated-jacobian", "--steps", "4"],
    "explain-instead": ["explain", LEFT, RIGHT, "--against", "A dog barks."],
    "attribute": ["attribute", "sample/sentences", "--direction", "a volcano", "--limit", "5"],
    "explain-attention": ["explain-attention", LEFT, "fire", "hospital", "--layer", "2"],
    "similarity": ["similarity", LEFT, RIGHT, "My printer is broken"],
    "inspect": ["inspect", LEFT],
    "models": ["models"],
    "search": ["search", "sample/sentences", "volcano erupted", "-k", "3"],
    "search-explain": ["search", "sample/sentences", "volcano erupted", "-k", "3", "--explain"],
    "search-bm25": ["search", "sample/sentences", "volcano erupted", "-k", "3", "--ranker", "bm25"],
    "search-hybrid": ["search", "sample/sentences", "volcano erupted", "-k", "3", "--ranker", "hybrid"],
    "index": ["index", "sample/sentences", "--out", "OUT/index"],
    "encode": ["encode", "sample/sentences", "--out", "OUT/vectors"],
    "evaluate-sts": ["evaluate", "sts", "sample/pairs", "--pooling", "mean", "--pooling", "cls"],
    "evaluate-retrieval": ["evaluate", "retrieval", "sample/pairs", "--ranker", "bm25", "--ranker", "tfidf"],
    "layers": ["layers", "--example", "banks"],
    "layers-sentences": ["layers", "A cat sat.", "A dog ran.", "--sentences"],
    "geometry": ["geometry", "sample/pairs", "--min-contexts", "3"],
    "isotropy": ["isotropy", "sample/pairs"],
    "senses": ["senses", "sample/words"],
    "faithfulness": ["faithfulness", "sample/pairs", "--limit", "6", "--second-order", "--sentences", "4"],
    "pos-relevance": ["pos-relevance", "sample/pairs", "--grammar", "GRAMMAR", "--row", "3"],
    "lint": ["lint", "sample/pairs", "--grammar", "GRAMMAR"],
    "attention": ["attention", "sample/pairs", "--out", "OUT/attention", "--grammar", "GRAMMAR", "--epochs", "1",
                  "--clusters", "2-3", "--permutations", "130", "--control-pairs", "10"],
    "benchmark": ["benchmark", "minilm", "--pairs", "sample/pairs", "--grammar", "GRAMMAR",
                  "--parts", "sts,space,layers,skipped,classes,lint"],
    "synthetic": ["synthetic", "minilm", "--pairs", "sample/pairs", "--grammar", "GRAMMAR"],
    "train-list": ["train", "--list"],
    "train": ["train", "OUT/config.toml", "--allow-overlap"],
    "tune": ["tune", "OUT/config.toml", "--out", "OUT/tune", "--trials", "2", "--train-rows", "30", "--max-epochs", "1",
             "--allow-overlap"],
}  # fmt: skip


def run(tree: Path, arguments: list[str], work: Path) -> dict[str, Any]:
    """The JSON document that a tree's command prints, or what it says in place of one."""
    environment = os.environ | {"PYTHONPATH": str(tree / "src"), "LIKEWISE_CACHE": str(work / "cache")}
    command = [sys.executable, "-m", "likewise", *arguments, "--json"]
    done = subprocess.run(command, env=environment, cwd=work, capture_output=True, text=True, timeout=1800, check=False)
    try:
        return {"exit": done.returncode, "document": json.loads(done.stdout)}
    except json.JSONDecodeError:
        return {"exit": done.returncode, "said": done.stderr.strip().splitlines()[-1:]}


def document(tree: Path, name: str, grammar: Path, keep: Path | None) -> dict[str, Any]:
    """The document of a case, from ``keep`` where it is there."""
    kept = None if keep is None else keep / f"{name}.json"
    if kept is not None and kept.exists():
        found: dict[str, Any] = json.loads(kept.read_text())
        return found
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "config.toml").write_text(TRAINING)
        arguments = [part.replace("OUT/", "").replace("GRAMMAR", str(grammar)) for part in CASES[name]]
        found = run(tree, arguments, work)
        if any(words in str(found) for words in UNKNOWN):
            found = run(tree, [RENAMED.get(part, part) for part in arguments], work)
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(found))
    return found


def differences(old: Any, new: Any, where: str = "") -> Iterator[str]:
    """Where two documents differ; keys that only the new one has are no loss."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old:
            if key not in new:
                yield f"{where}.{key} is gone"
            elif not any(word in key for word in VOLATILE):
                yield from differences(old[key], new[key], f"{where}.{key}")
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{where} has {len(new)} items, not {len(old)}"
        for place, (one, other) in enumerate(zip(old, new, strict=False)):
            yield from differences(one, other, f"{where}[{place}]")
    elif isinstance(old, (int, float)) and isinstance(new, (int, float)):
        if not math.isclose(old, new, rel_tol=1e-4, abs_tol=1e-5):
            yield f"{where} is {new}, not {old}"
    elif old != new and RENAMED.get(str(new)) != old:
        yield f"{where} is {str(new)[:80]!r}, not {str(old)[:80]!r}"


def main() -> bool:
    """Compare all cases, or those that were asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--only", action="append", choices=list(CASES))
    parser.add_argument("--grammar", type=Path, default=Path("../shared/models/en_ud"))
    parser.add_argument("--keep", type=Path, help="A folder for the old tree's documents.")
    options = parser.parse_args()
    same = True
    for name in options.only or CASES:
        old = document(options.old.resolve(), name, options.grammar.resolve(), options.keep)
        new = document(options.new.resolve(), name, options.grammar.resolve(), None)
        found = list(differences(old, new))
        same &= not found
        print(
            f"{name}: {'same' if not found else f'{len(found)} differences'}"
            + (f" {old['said']}" if "said" in old else ""),
            flush=True,
        )
        for line in found[:10]:
            print(f"    {line}")
    return same


if __name__ == "__main__":
    sys.exit(not main())
