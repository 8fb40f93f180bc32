"""Explaining a whole file of pairs, one line of JSON each; an interrupted run goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from likewise.data import Pair, ScoredPair
from likewise.encoder import Encoder
from likewise.errors import UsageError
from likewise.explain import explain_many
from likewise.progress import Progress
from likewise.studies.pair_files import PairFile


def explain_file(
    encoder: Encoder,
    source: str | PairFile,
    out: Path,
    options: Mapping[str, Any],
    progress: Progress | None = None,
) -> int:
    """Write an explanation of each pair to ``out`` as JSON lines; returns their number.

    Lines go to ``out`` with ``.part`` added, which is renamed in the end; a run with the same settings goes on behind
    the last whole line that it finds there. The settings go to a file of the same name with ``.run.json`` added.
    """
    if out.suffix.lower() not in (".jsonl", ".ndjson"):
        raise UsageError(f"explanations are written as JSON lines; end {out.name!r} with .jsonl")
    file = PairFile(source) if isinstance(source, str) else source
    pairs = file.read_told()
    out.parent.mkdir(parents=True, exist_ok=True)
    part, run = out.with_name(out.name + ".part"), out.with_name(out.name + ".part.run.json")
    settings = json.dumps(_settings(encoder, file, pairs, options), indent=2, default=str)
    # Before the file of an earlier run is touched: an unknown option must not cost it.
    explain_many(encoder, [], **options)
    done = _lines_done(part, run, settings)
    with part.open("a", encoding="utf-8") as lines:
        found = explain_many(encoder, pairs[done:], progress=progress, **options)
        for pair, explanation in zip(pairs[done:], found, strict=True):
            row = {"id": pair.id, **explanation.to_json()}
            lines.write(json.dumps(row, ensure_ascii=False) + "\n")
    part.replace(out)
    run.replace(out.with_name(out.name + ".run.json"))
    return len(pairs)


def _settings(
    encoder: Encoder, file: PairFile, pairs: Sequence[Pair | ScoredPair], options: Mapping[str, Any]
) -> dict[str, Any]:
    """All that shapes the explanations, so that two runs can be told apart."""
    content = hashlib.sha256(json.dumps([(pair.id, pair.left, pair.right) for pair in pairs]).encode())
    post = None if encoder.postprocessing is None else encoder.postprocessing.name
    facts = {"source": file.file, "pairs": len(pairs), "content": content.hexdigest()}
    model = {"model": encoder.name, "model_hash": encoder.hash, "heads_hash": encoder.heads_hash, "post": post}
    how = {"dtype": str(encoder.anatomy.dtype), "reading": vars(encoder.reading), "options": dict(options)}
    return facts | model | how


def _lines_done(part: Path, run: Path, settings: str) -> int:
    """Cut a broken last line off an earlier run's file and count its explanations; another run's is begun anew."""
    if not part.exists() or not run.exists() or run.read_text(encoding="utf-8") != settings:
        part.write_bytes(b"")
        run.write_text(settings, encoding="utf-8")
        return 0
    whole = part.read_bytes().rpartition(b"\n")[0]
    part.write_bytes(whole + b"\n" if whole else b"")
    return whole.count(b"\n") + 1 if whole else 0
