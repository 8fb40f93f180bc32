"""Files of texts -> indexes: built, added to, or made in passing and kept for the next search."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from likewise.data import SkippedRows, locate
from likewise.encoder import Encoder
from likewise.encoder.stream import TextSource
from likewise.errors import DamagedIndex, DataError, UsageError
from likewise.paths import user_cache
from likewise.progress import Progress, tracked
from likewise.search.baselines import baseline
from likewise.search.corpus import Corpus
from likewise.search.hits import Hits
from likewise.search.hybrid import Hybrid
from likewise.search.index import Index, IndexSettings, check_search, open_store
from likewise.search.manifest import FORMAT, MANIFEST, IndexManifest
from likewise.search.milvus import is_milvus
from likewise.search.ranker import Ranker, ranked
from likewise.search.segments import key_of
from likewise.search.store import Hit, corpus_of

MOST_CACHED_BYTES = 2**33
"""What the indexes of searched files may take in the user's cache, beside the one in use."""


@dataclass(frozen=True)
class IndexedFile:
    """A file's index, how many bad rows were passed over, and whether it was there already."""

    index: Index
    skipped: SkippedRows
    kept: bool = False


def index_file(
    encoder: Encoder,
    source: TextSource,
    where: str | Path,
    settings: IndexSettings,
    *,
    replace: bool = False,
    progress: Progress | None = None,
) -> IndexedFile:
    """Build the index of a file; the same call again goes on where it stopped, or finds it done.

    The file is read through once before, so that a bad row is told before hours of work and not after.
    """
    name = fingerprint(source)
    if not is_milvus(str(where)) and not replace:
        present = IndexManifest.read(Path(where))
        if present is not None and _is_same(present, encoder, settings, name):
            skipped = checked(source, progress)[0] if source.skip_bad else SkippedRows()
            return IndexedFile(Index.open(where, encoder), skipped, kept=True)
        if present is not None:
            raise UsageError(
                f"{where} already holds an index of other texts or settings; use --add, --replace or another --out"
            )
    skipped, total = checked(source, progress)
    index = Index.build(
        encoder, source.read(), where, settings, source=name, replace=replace, total=total, progress=progress
    )
    return IndexedFile(index, skipped)


def _is_same(present: IndexManifest, encoder: Encoder, settings: IndexSettings, source: str) -> bool:
    """Whether an index is the one that would be built."""
    made = (present.source, present.settings, present.engine_kind, present.bits)
    return made == (source, settings.stored(encoder), settings.engine, settings.bits)


def add_file(index: Index, source: TextSource, prefix: str = "", progress: Progress | None = None) -> SkippedRows:
    """Add a file's texts to an index, all of them or none; the same call again goes on where it stopped."""
    skipped, _ = checked(source, progress)
    items = ((prefix + name, text) for name, text in source.read())
    index.add(items, source=f"{prefix} {fingerprint(source)}", progress=progress)
    return skipped


def cached_index(
    encoder: Encoder, source: TextSource, settings: IndexSettings, progress: Progress | None = None
) -> IndexedFile:
    """The index of a file, made at the first search and found again by the file's content and all settings."""
    metadata = json.dumps([FORMAT, fingerprint(source), settings.stored(encoder), asdict(settings)], sort_keys=True)
    folder = user_cache() / "indexes" / hashlib.sha256(metadata.encode()).hexdigest()[:32]
    try:
        done = index_file(encoder, source, folder, settings, progress=progress)
    except DamagedIndex:
        # Nobody but the cache knows of it, so nobody else can build it again.
        done = index_file(encoder, source, folder, settings, replace=True, progress=progress)
    with suppress(OSError):  # another process may be clearing away too
        (folder / MANIFEST).touch()
        _prune(folder)
    return done


def _prune(latest: Path) -> None:
    """Keep the cached indexes in their bounds: those used longest ago go first, the latest stays."""
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


def checked(source: TextSource, progress: Progress | None = None) -> tuple[SkippedRows, int]:
    """Read a file through: the bad rows that are passed over, and the number of good ones."""
    skipped, total = SkippedRows(), 0
    text_of: dict[int, int] = {}
    for name, text in tracked(source.read(skipped), progress, note="rows checked"):
        total += 1
        if text_of.setdefault(key_of(name), key_of(text)) != key_of(text):
            raise DataError(f"{source.file}: the id {name!r} names two texts; give each text an id of its own")
    return skipped, total


def fingerprint(source: TextSource) -> str:
    """A hash of a file's bytes and of how they are read."""
    path = locate(source.file, source.data_dir)
    with path.open("rb") as stream:
        content = hashlib.file_digest(stream, "sha256").hexdigest()
    # The ending is part of it: the same bytes are other texts in a .csv than in a .txt.
    metadata = json.dumps([content, path.suffixes, asdict(source.columns), source.skip_bad])
    return hashlib.sha256(metadata.encode()).hexdigest()


def stored_corpus(where: str | Path) -> Corpus:
    """The texts of an index, without loading its model."""
    with closing(open_store(where)) as store:
        return corpus_of(store)


def text_corpus(source: TextSource) -> tuple[Corpus, SkippedRows]:
    """The texts of a file, and the bad rows that were passed over."""
    skipped = SkippedRows()
    return Corpus.of(source.read(skipped)), skipped


def baseline_hits(
    name: str,
    corpus: Corpus,
    queries: Sequence[str],
    k: int,
    given: tuple[Encoder | None, Path | None] = (None, None),
    progress: Progress | None = None,
) -> list[Hits]:
    """The k best texts for each query by a baseline; ``given`` are the encoder or the vectors that some need."""
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
        # A text that has nothing in common with the query is no hit.
        pairs = [(row, score) for row, score in zip(rows, scores, strict=True) if score > ranker.floor]
        hits = tuple(Hit(corpus.ids[row], corpus.texts[row], score) for row, score in pairs)
        results.append(Hits(query, hits, ranker.name))
    return results
