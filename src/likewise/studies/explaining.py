"""Explaining a whole file of pairs, one line of JSON each; an interrupted run goes on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from likewise.data import GUESSED, Columns, Pair, read_pairs
from likewise.encoder import Encoder
from likewise.errors import DataError, UsageError
from likewise.explain import explain_many
from likewise.progress import Progress


@dataclass(frozen=True)
class PairReader:
    """How a file of pairs is read."""

    columns: Columns = GUESSED
    data_dir: Path | None = None
    skip_bad: bool = False

    def read(self, source: str) -> list[Pair]:
        """The pairs of a file or a name."""
        bad: list[DataError] = []
        on_bad = bad.append if self.skip_bad else None
        return list(read_pairs(source, columns=self.columns, data_dir=self.data_dir, on_bad=on_bad))


def explain_file(
    encoder: Encoder,
    source: str,
    out: Path,
    options: Mapping[str, Any],
    reader: PairReader | None = None,
    progress: Progress | None = None,
) -> int:
    """Write an explanation of each pair to ``out`` as JSON lines; returns their number.

    The settings go to a file beside it that ends in ``.run.json``. Lines go to ``out`` with ``.part`` added, which is
    renamed in the end; a run with the same settings goes on behind the last whole line that it finds there.
    """
    if out.suffix.lower() not in (".jsonl", ".ndjson"):
        raise UsageError(f"explanations are written as JSON lines; end {out.name!r} with .jsonl")
    pairs = (reader or PairReader()).read(source)
    if not pairs:
        raise DataError(f"{source}: no pairs to explain")
    out.parent.mkdir(parents=True, exist_ok=True)
    settings = {"source": source, "pairs": len(pairs), "model": encoder.name, "model_hash": encoder.hash}
    settings |= {"reading": vars(encoder.reading), "options": dict(options)}
    part = out.with_name(out.name + ".part")
    done = _lines_done(part, out.with_suffix(".run.json"), json.dumps(settings, indent=2, default=str))
    with part.open("a", encoding="utf-8") as file:
        found = explain_many(encoder, pairs[done:], progress=progress, **options)
        for pair, explanation in zip(pairs[done:], found, strict=True):
            row = {"id": pair.id, **explanation.to_json()}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    part.replace(out)
    return len(pairs)


def _lines_done(part: Path, run: Path, settings: str) -> int:
    """Cut a broken last line off an earlier run's file and count its explanations; another run's is begun anew."""
    if not part.exists() or not run.exists() or run.read_text(encoding="utf-8") != settings:
        part.write_bytes(b"")
        run.write_text(settings, encoding="utf-8")
        return 0
    whole = part.read_bytes().rpartition(b"\n")[0]
    part.write_bytes(whole + b"\n" if whole else b"")
    return whole.count(b"\n") + 1 if whole else 0
