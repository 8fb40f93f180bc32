"""Files of texts -> indexes: built, added to, or cached for the next search; and hits by any ranker."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from likewise.data import Dataset, SkippedRows, locate, read_texts
from likewise.encoder import Encoder, as_encoder
from likewise.encoder.encoder import Source
from likewise.errors import DamagedIndex, DataError, UsageError
from likewise.progress import Progress, tracked
from likewise.search.baselines import Hybrid, baseline
from likewise.search.folder import FORMAT, MANIFEST, IndexManifest
from likewise.search.hits import Hit, Hits, check_search
from likewise.search.index import Index, IndexSettings, corpus_of, open_store
from likewise.search.milvus_address import is_milvus
from likewise.search.ranker import Corpus, Ranker, ranked
from likewise.search.segments import key_of
from likewise.storage import file_hash, user_cache

MOST_CACHED_BYTES = 2**33
"""The size of all cached indexes of files, without the one in use."""


@dataclass(frozen=True)
class IndexedFile:
    """A file's index, its skipped bad rows, and whether the index was there already."""

    index: Index
    skipped: SkippedRows
    cached: bool = False


def index_file(
    encoder: Encoder | Source, source: Dataset, where: str | Path, settings: IndexSettings, *, replace: bool = False,
    progress: Progress | None = None,
) -> IndexedFile:  # fmt: skip
    """Build the index of a file; the same call again continues where it stopped, or finds it done.

    The file is read through once before, so that a bad row is an error before hours of work and not after.
    """
    encoder, name = as_encoder(encoder), fingerprint(source)
    if not is_milvus(str(where)) and not replace:
        present = IndexManifest.read(Path(where))
        if present is not None and _is_same(present, encoder, settings, name):
            skipped = checked(source, progress)[0] if source.skip_bad else SkippedRows()
            return IndexedFile(Index.open(where, encoder), skipped, cached=True)
        if present is not None:
            raise UsageError(
                f"{where} already holds an index of other texts or settings; use --add, --replace or another --out"
            )
    skipped, total = checked(source, progress)
    how: dict[str, Any] = {"source": name, "replace": replace, "total": total, "progress": progress}
    return IndexedFile(Index.build(encoder, source.stream(read_texts), where, settings, **how), skipped)


def _is_same(present: IndexManifest, encoder: Encoder, settings: IndexSettings, source: str) -> bool:
    """Whether an index is the one that would be built."""
    made = (present.source, present.settings, present.engine_kind, present.bits)
    return made == (source, settings.stored(encoder), settings.engine, settings.bits)


def add_file(index: Index, source: Dataset, prefix: str = "", progress: Progress | None = None) -> SkippedRows:
    """Add a file's texts to an index, all of them or none; the same call again continues where it stopped."""
    skipped, _ = checked(source, progress)
    items = ((prefix + row.id, row.text) for row in source.stream(read_texts))
    index.add(items, source=f"{prefix} {fingerprint(source)}", progress=progress)
    return skipped


def cached_index(
    encoder: Encoder | Source, source: Dataset, settings: IndexSettings, progress: Progress | None = None
) -> IndexedFile:
    """The index of a file, built at the first search; its key is the file's content and all settings."""
    encoder = as_encoder(encoder)
    made_of = json.dumps([FORMAT, fingerprint(source), settings.stored(encoder), asdict(settings)], sort_keys=True)
    folder = user_cache() / "indexes" / hashlib.sha256(made_of.encode()).hexdigest()[:32]
    try:
        done = index_file(encoder, source, folder, settings, progress=progress)
    except DamagedIndex:
        # The user does not know of this index and cannot build it again.
        done = index_file(encoder, source, folder, settings, replace=True, progress=progress)
    with suppress(OSError):  # another process may be pruning too
        (folder / MANIFEST).touch()
        _prune(folder)
    return done


def _prune(latest: Path) -> None:
    """Remove the least recently used indexes beyond the limit; the latest stays."""
    others = []
    for folder in latest.parent.iterdir():
        files = [path.stat() for path in folder.iterdir()]
        if folder != latest and files:
            others.append((max(file.st_mtime for file in files), sum(file.st_size for file in files), folder))
    excess = sum(size for _, size, _ in others) - MOST_CACHED_BYTES
    for _, size, folder in sorted(others):
        if excess > 0:
            shutil.rmtree(folder, ignore_errors=True)
            excess -= size


def checked(source: Dataset, progress: Progress | None = None) -> tuple[SkippedRows, int]:
    """Read a file through: the bad rows that are skipped, and the number of good ones."""
    skipped, total = SkippedRows(), 0
    text_of: dict[int, int] = {}
    for row in tracked(source.stream(read_texts, skipped), progress, note="rows checked"):
        total += 1
        if text_of.setdefault(key_of(row.id), key_of(row.text)) != key_of(row.text):
            raise DataError(f"{source.name}: the id {row.id!r} names two texts; give each text an id of its own")
    return skipped, total


def fingerprint(source: Dataset) -> str:
    """A hash of a file's bytes and of how they are read."""
    path = locate(source.name, source.data_dir)
    # With the suffixes: the same bytes are other texts in a .csv than in a .txt.
    how = [file_hash(path), path.suffixes, asdict(source.columns), source.skip_bad]
    if source.limit is not None:
        how.append(source.limit)
    return hashlib.sha256(json.dumps(how).encode()).hexdigest()


def stored_corpus(where: str | Path) -> Corpus:
    """The texts of an index, without loading its model."""
    with closing(open_store(where)) as store:
        return corpus_of(store)


def text_corpus(source: Dataset) -> tuple[Corpus, SkippedRows]:
    """The texts of a file, and the bad rows that were skipped."""
    skipped = SkippedRows()
    return Corpus.of((row.id, row.text) for row in source.stream(read_texts, skipped)), skipped


def baseline_hits(
    name: str, corpus: Corpus, queries: Sequence[str], k: int, given: tuple[Encoder | None, Path | None] = (None, None),
    progress: Progress | None = None,
) -> list[Hits]:  # fmt: skip
    """The k best texts for each query by a baseline; ``given`` are the encoder and the vectors that some need."""
    ranker = baseline(name, corpus.texts, encoder=given[0], vectors=given[1])
    return ranked_hits(ranker, corpus, queries, k, progress)


def hybrid_hits(index: Index, queries: Sequence[str], k: int, progress: Progress | None = None) -> list[Hits]:
    """The k best texts for each query by BM25 and the model together."""
    corpus = index.corpus()
    return ranked_hits(Hybrid([baseline("bm25", corpus.texts), index]), corpus, queries, k, progress)


def ranked_hits(
    ranker: Ranker, corpus: Corpus, queries: Sequence[str], k: int, progress: Progress | None = None
) -> list[Hits]:
    """The k best texts for each query by any ranker of a corpus."""
    check_search(queries, k)
    found = ranked(ranker, queries, k, progress)
    results = []
    for query, rows, scores in zip(queries, found.rows.tolist(), found.scores.tolist(), strict=True):
        # A text that has nothing in common with the query is not a hit.
        pairs = [(row, score) for row, score in zip(rows, scores, strict=True) if score > ranker.floor]
        hits = tuple(Hit(corpus.ids[row], corpus.texts[row], score) for row, score in pairs)
        results.append(Hits(query, hits, ranker.name))
    return results
