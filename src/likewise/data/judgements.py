"""Judgements: which texts of a corpus answer which queries.

They are a folder in BEIR's layout (corpus.jsonl, queries.jsonl, qrels/test.tsv), three files, or a corpus and queries
with a column of relevant ids. TREC's qrels (four columns, no header) are read too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from pathlib import Path

from likewise.data.bad_rows import Location
from likewise.data.catalogue import locate
from likewise.data.columns import (
    GUESSED,
    USUAL_NAMES,
    Columns,
    Record,
    RoleFinder,
    UsualRoles,
    built_examples,
    has_own_names,
)
from likewise.data.readers import Text
from likewise.data.rows import FORMATS, Report, Row, rows, suffix_of, text_lines
from likewise.errors import DataError

TITLE = "title"

QUERY_NAMES = {
    "text": ("query", "question", *USUAL_NAMES["text"]),
    "id": ("query-id", "qid", "topic", *USUAL_NAMES["id"]),
    "relevant": ("relevant", "relevant_ids", "relevant_texts", "relevant_docs", "positive_ids"),
}
QREL_NAMES = {
    "query": ("query-id", "qid", "query", "topic"),
    "text": ("corpus-id", "doc-id", "document-id", "docno", "pid", "passage-id", "text-id", "doc", "document", "text"),
    "gain": ("score", "relevance", "gain", "rel", "grade", "label"),
}

TREC_COLUMNS = ("query id", "0", "text id", "gain")


@dataclass(frozen=True, slots=True)
class Query:
    """A query and, if its file has them, the ids of the texts that answer it.

    >>> Query("volcano erupted", "1", ("s084",)).relevant
    ('s084',)
    """

    text: str
    id: str
    relevant: tuple[str, ...] = ()
    location: Location = field(default=Location(""), compare=False, repr=False)
    """its line, for errors"""


@dataclass(frozen=True, slots=True)
class Judgement:
    """How well a text answers a query, both by id; with a gain of 0 or less it does not.

    >>> Judgement("q1", "d7", 2.0).gain
    2.0
    """

    query: str
    text: str
    gain: float
    location: Location = field(default=Location(""), compare=False, repr=False)
    """its line, for errors"""


@dataclass(frozen=True, slots=True)
class JudgedFiles:
    """The files of a corpus, its queries and its judgements; without qrels the queries hold their relevant ids.

    >>> JudgedFiles("sample/sentences", "sample/queries").qrels is None
    True
    """

    corpus: str | Path
    queries: str | Path
    qrels: str | Path | None = None


def beir_files(
    source: str | Path, data_dir: Path | None = None, queries: str | Path | None = None, qrels: str | Path | None = None
) -> JudgedFiles | None:
    """The files of a folder in BEIR's layout; None if the source is not a folder with a corpus.jsonl.

    Given queries and qrels replace the folder's own. Of several qrels, test is used.

    >>> beir_files("sample/pairs") is None
    True
    """
    folder = _corpus_folder(source, data_dir)
    corpus = None if folder is None else _packed(folder / "corpus.jsonl")
    if folder is None or corpus is None:
        return None
    queries = queries or _packed(folder / "queries.jsonl")
    if queries is None:
        raise Location(str(source)).error("has a corpus.jsonl but no queries.jsonl; add it, or give --queries")
    return JudgedFiles(corpus, queries, qrels or _split(folder, str(source)))


def _split(folder: Path, file: str) -> Path:
    """The judgements of the test split, or the only ones in the folder."""
    splits = sorted(folder.glob("qrels/*.tsv*"))
    chosen = [path for path in splits if path.name.startswith("test.")] or splits
    if not chosen:
        raise Location(file).error("has no qrels/test.tsv; add it, or give --qrels")
    if len(chosen) > 1:
        raise Location(file).error(f"has several qrels; name one of {', '.join(map(str, chosen))} with --qrels")
    return chosen[0]


def _corpus_folder(source: str | Path, data_dir: Path | None) -> Path | None:
    if Path(source).is_dir():
        return Path(source)
    try:
        return locate(f"{source}/corpus.jsonl", data_dir).parent
    except DataError:
        return None


def _packed(path: Path) -> Path | None:
    """The file or its gzipped form, if one exists."""
    return next((each for each in (path, path.with_name(f"{path.name}.gz")) if each.is_file()), None)


def read_documents(
    source: str | Path, *, columns: Columns = GUESSED, data_dir: Path | None = None, on_bad: Report | None = None
) -> Iterator[Text]:
    """Yield the texts of a corpus, each after its title and a blank if it has one (as BEIR is used).

    A text column that the user named is read alone, without the title.

    >>> next(read_documents("sample/sentences")).id
    's001'
    """
    path, file = locate(source, data_dir), str(source)
    finder = RoleFinder(file, ("text",), columns, has_own_names(path))

    def build(row: Row) -> Text:
        record = finder.record(row)
        title = "" if columns.text is not None else record.meta.get(TITLE, "").strip()
        written = row.values.get(record.roles["text"])
        if title and isinstance(written, str) and not written.strip():
            return Text(title, record.id, record.meta)
        text = record.text("text")
        return Text(f"{title} {text}" if title else text, record.id, record.meta)

    return built_examples(partial(rows, path, file), build, file, on_bad)


def read_queries(
    source: str | Path, *, columns: Columns = GUESSED, data_dir: Path | None = None, on_bad: Report | None = None
) -> Iterator[Query]:
    """Yield queries, with the relevant ids of a column ``relevant``, separated by blanks, if there is one.

    A text or id column that the user named is used if the file has it.

    >>> next(read_queries("sample/queries")).relevant
    ('s084', 's118', 's146', 's151')
    """
    path, file = locate(source, data_dir), str(source)
    names = dict(QUERY_NAMES)
    for role in ("text", "id"):
        given = columns.of(role)
        names[role] = names[role] if given is None else (given, *names[role])

    finder = UsualRoles(path, file, names, ("text",))

    def build(row: Row) -> Query:
        record = finder.record(row)
        return Query(record.text("text"), record.id, _ids(record), record.location)

    return built_examples(partial(rows, path, file), build, file, on_bad)


def _ids(record: Record) -> tuple[str, ...]:
    """The relevant ids of a query: separated by blanks, or a list in JSON."""
    value = record.row.values.get(record.roles.get("relevant", "")) or ""
    if isinstance(value, list):
        return tuple(str(each) for each in value)
    return tuple(str(value).split())


def read_qrels(
    source: str | Path, *, data_dir: Path | None = None, on_bad: Report | None = None
) -> Iterator[Judgement]:
    """Yield judgements of a file with a header (query-id, corpus-id, score), or of TREC's four columns without one.

    >>> list(read_qrels("qrels/test.tsv"))  # doctest: +SKIP
    [Judgement(query='1', text='31715818', gain=1.0)]
    """
    path, file = locate(source, data_dir), str(source)
    if _is_trec(path, file):
        return built_examples(
            lambda _: _trec_rows(path, file), lambda row: _judgement(_trec_record(row, file)), file, on_bad
        )
    finder = UsualRoles(path, file, QREL_NAMES, tuple(QREL_NAMES))
    return built_examples(partial(rows, path, file), lambda row: _judgement(finder.record(row)), file, on_bad)


def _judgement(record: Record) -> Judgement:
    return Judgement(record.label("query"), record.label("text"), record.number("gain"), record.location)


def _is_trec(path: Path, file: str) -> bool:
    """Whether the first line has four columns and ends in a number; files of other formats have no header either."""
    headed = suffix_of(path) in FORMATS and suffix_of(path) != ".txt"
    first = next((line for line in text_lines(path, file) if line.strip()), "").split()
    return not headed or (len(first) == 4 and first[3].lstrip("-").isdigit())


def _trec_rows(path: Path, file: str) -> Iterator[Row]:
    lines = ((line, text) for line, text in enumerate(text_lines(path, file), start=1) if text.strip())
    for number, (line, text) in enumerate(lines, start=1):
        yield Row(dict(zip_longest(TREC_COLUMNS, text.split())), line, number)


def _trec_record(row: Row, file: str) -> Record:
    location = Location(file, row.line)
    if tuple(row.values) != TREC_COLUMNS or None in row.values.values():
        raise location.error(f"not four columns; write {', '.join(TREC_COLUMNS)}, or add a header line")
    return Record(row, {"query": "query id", "text": "text id", "gain": "gain"}, location)
