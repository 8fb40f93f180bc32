"""Explains a file of pairs or texts, with one line of JSON for each; an interrupted run resumes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from likewise.data import Dataset
from likewise.encoder import Encoder
from likewise.encoder.cross_encoder import CrossEncoder, Scoring
from likewise.errors import UsageError
from likewise.explain.attribution import WINDOW_TEXTS, as_directions, attribute_many
from likewise.explain.cross_encoder import explain_cross_encoder_many
from likewise.explain.pairs import explain_many, window_start
from likewise.progress import Progress


def explain_file(
    scoring: Scoring, source: str | Dataset, out: Path, options: Mapping[str, Any], progress: Progress | None = None
) -> int:
    """Write an explanation of each pair to ``out`` as JSON lines; returns their number."""
    explain_all: Any = explain_cross_encoder_many if isinstance(scoring, CrossEncoder) else explain_many
    _check_ending(out)
    dataset = Dataset(source) if isinstance(source, str) else source
    pairs = dataset.pairs()
    # Before the file of an earlier run is touched: an unknown option must not cost it.
    explain_all(scoring, [], **options)
    rows = [(pair.id, pair.left, pair.right) for pair in pairs]

    def found(done: int) -> Iterator[dict[str, Any]]:
        # From the window's first pair: its explanations are made together, and their last bits depend on that.
        start = window_start(pairs, done)
        explained = zip(pairs[start:], explain_all(scoring, pairs[start:], progress=progress, **options), strict=True)
        for pair, explanation in islice(explained, done - start, None):
            yield {"id": pair.id, **explanation.to_dict()}

    encoder = scoring.encoder if isinstance(scoring, CrossEncoder) else scoring
    assert encoder is not None
    return _write_lines(out, _settings(encoder, dataset.name, "pairs", rows, options), len(rows), found)


def attribute_file(
    encoder: Encoder,
    texts: Sequence[tuple[str, str]],
    directions: Any,
    out: Path,
    options: Mapping[str, Any],
    progress: Progress | None = None,
) -> int:
    """Write the attribution of each text, given with its id, to ``out`` as JSON lines; returns their number."""
    _check_ending(out)
    chosen = as_directions(encoder, directions)
    # Before the file of an earlier run is touched, as above.
    attribute_many(encoder, [], chosen, options)
    names = [[one.name, hashlib.sha256(one.vector.tobytes()).hexdigest()] for one in chosen]

    def found(done: int) -> Iterator[dict[str, Any]]:
        start = done - done % WINDOW_TEXTS  # as above
        plain = [text for _, text in texts[start:]]
        rows = zip(texts[start:], attribute_many(encoder, plain, chosen, options, progress), strict=True)
        for (name, _), one in islice(rows, done - start, None):
            yield {"id": name, "directions": [each.name for each in chosen], **one.to_dict()}

    settings = _settings(encoder, "", "texts", texts, {**options, "directions": names})
    return _write_lines(out, settings, len(texts), found)


def _write_lines(
    out: Path, settings: dict[str, Any], count: int, found: Callable[[int], Iterator[dict[str, Any]]]
) -> int:
    """Write ``count`` rows as lines of JSON; ``found`` gives them from a number on. Returns the number of lines.

    Lines go to ``out`` with ``.part`` added, which is renamed in the end; a run with the same settings goes on behind
    the last whole line that it finds there. The settings go to a file of the same name with ``.run.json`` added.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    part, run = out.with_name(out.name + ".part"), out.with_name(out.name + ".part.run.json")
    done = _lines_done(part, run, json.dumps(settings, indent=2, default=str))
    with part.open("a", encoding="utf-8") as lines:
        for row in found(done) if done < count else ():
            lines.write(json.dumps(row, ensure_ascii=False) + "\n")
            done += 1
    part.replace(out)
    run.replace(out.with_name(out.name + ".run.json"))
    return done


def is_lines(out: Path) -> bool:
    """Whether a path names a file of JSON lines."""
    return out.suffix.lower() in (".jsonl", ".ndjson")


def _check_ending(out: Path) -> None:
    if not is_lines(out):
        raise UsageError(f"explanations are written as JSON lines; end {out.name!r} with .jsonl")


def _settings(
    encoder: Encoder, source: str, kind: str, rows: Sequence[tuple[str, ...]], options: Mapping[str, Any]
) -> dict[str, Any]:
    """All that shapes the explanations: a run with other settings starts anew."""
    content = hashlib.sha256(json.dumps(rows).encode())
    post = None if encoder.postprocessing is None else encoder.postprocessing.name
    about = {"source": source, kind: len(rows), "content": content.hexdigest()}
    model = {"model": encoder.name, "model_hash": encoder.hash, "heads_hash": encoder.heads_hash, "post": post}
    how = {"dtype": str(encoder.model_view.dtype), "reading": vars(encoder.pooling_config), "options": dict(options)}
    return about | model | how


def _lines_done(part: Path, run: Path, settings: str) -> int:
    """Cut a broken last line off an earlier run's file and count its explanations; another run's is begun anew."""
    if not part.exists() or not run.exists() or run.read_text(encoding="utf-8") != settings:
        part.write_bytes(b"")
        run.write_text(settings, encoding="utf-8")
        return 0
    whole = part.read_bytes().rpartition(b"\n")[0]
    part.write_bytes(whole + b"\n" if whole else b"")
    return whole.count(b"\n") + 1 if whole else 0
