"""Annotated files: queries with their relevant texts, and words with their senses.

Judgements are read from a folder in BEIR's layout (corpus.jsonl, queries.jsonl, qrels/test.tsv), from three files, or
from a column of relevant ids in the query file. TREC's qrels (four columns, no header) are read too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from likewise.data.columns import GUESSED, USUAL_NAMES, Columns, Record, RoleFinder, read_examples, usual_column
from likewise.data.dataset import Text
from likewise.data.rows import FORMATS, Location, OnBad, Row, locate, rows, shown, suffix_of, text_lines
from likewise.errors import DataError

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


class UsualRoles(RoleFinder):
    """Gives rows their roles by usual names, for files whose columns are not those of texts and pairs.

    >>> finder = UsualRoles(Path("a.csv"), "a.csv", {"text": ("text",), "word": ("word", "lemma")}, ("text", "word"))
    >>> finder.record(Row({"lemma": "bank", "text": "a bank"}, 2, 1)).text("word")
    'bank'
    """

    def __init__(self, path: Path, file: str, names: Mapping[str, Sequence[str]], needed: Sequence[str]) -> None:
        super().__init__(path, file, needed, GUESSED)
        self.names = names

    def _assigned(self, present: Sequence[str], location: Location) -> dict[str, str]:
        found: dict[str, str] = {}
        for role, usual in self.names.items():
            column = usual_column(usual, present, found.values())
            if column is not None:
                found[role] = column
            elif role in self.wanted:
                listed = ", ".join(map(shown, present))
                raise location.error(f"no column {' or '.join(usual[:3])}; its columns are {listed}; rename one")
        return found


@dataclass(frozen=True, slots=True)
class Query:
    """A query and, if its file has them, the ids of the texts that answer it.

    >>> Query("volcano erupted", "1", ("s084",)).relevant
    ('s084',)
    """

    text: str
    id: str
    relevant: tuple[str, ...] = ()
    location: Location = field(default=Location(""), compare=False, repr=False)  # its line, for errors


@dataclass(frozen=True, slots=True)
class Judgement:
    """The relevance of a text to a query, both by id; a gain of 0 or less means not relevant.

    >>> Judgement("q1", "d7", 2.0).gain
    2.0
    """

    query: str
    text: str
    gain: float
    location: Location = field(default=Location(""), compare=False, repr=False)  # its line, for errors


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

    Given queries and qrels replace the folder's own. Of several qrels, those of the test split are used.

    >>> beir_files("sample/pairs") is None
    True
    """
    try:
        folder = Path(source) if Path(source).is_dir() else locate(f"{source}/corpus.jsonl", data_dir).parent
    except DataError:
        return None
    corpus, location = _packed(folder / "corpus.jsonl"), Location(str(source))
    if corpus is None:
        return None
    queries = queries or _packed(folder / "queries.jsonl")
    if queries is None:
        raise location.error("has a corpus.jsonl but no queries.jsonl; add it, or give --queries")
    splits = sorted(folder.glob("qrels/*.tsv*"))
    chosen = [qrels] if qrels else [path for path in splits if path.name.startswith("test.")] or splits
    if not chosen:
        raise location.error("has no qrels/test.tsv; add it, or give --qrels")
    if len(chosen) > 1:
        raise location.error(f"has several qrels; name one of {', '.join(map(str, chosen))} with --qrels")
    return JudgedFiles(corpus, queries, chosen[0])


def _packed(path: Path) -> Path | None:
    """The file or its gzipped form, if one exists."""
    return next((each for each in (path, path.with_name(f"{path.name}.gz")) if each.is_file()), None)


def read_documents(
    source: str | Path, *, columns: Columns = GUESSED, data_dir: Path | None = None, on_bad: OnBad | None = None
) -> Iterator[Text]:
    """Yield the texts of a corpus; a title, if there is one, is put before its text (as in BEIR).

    A text column that the user named is read alone, without the title.

    >>> next(read_documents("sample/sentences")).id
    's001'
    """
    path, file = locate(source, data_dir), str(source)

    def build(record: Record) -> Text:
        title = "" if columns.text is not None else record.meta.get("title", "").strip()
        written = record.row.values.get(record.roles["text"])
        if title and isinstance(written, str) and not written.strip():
            return Text(title, record.id, record.meta)
        text = record.text("text")
        return Text(f"{title} {text}" if title else text, record.id, record.meta)

    return read_examples(path, RoleFinder(path, file, ("text",), columns), build, on_bad)


def read_queries(
    source: str | Path, *, columns: Columns = GUESSED, data_dir: Path | None = None, on_bad: OnBad | None = None
) -> Iterator[Query]:
    """Yield queries, with the relevant ids of a column ``relevant``, separated by blanks, if there is one.

    A text or id column that the user named is used if the file has it.

    >>> next(read_queries("sample/queries")).relevant
    ('s084', 's118', 's146', 's151')
    """
    path = locate(source, data_dir)
    given = {role: (name, *QUERY_NAMES[role]) for role in ("text", "id") if (name := columns.of(role)) is not None}

    def build(record: Record) -> Query:
        value = record.row.values.get(record.roles.get("relevant", "")) or ""
        relevant = value if isinstance(value, list) else str(value).split()
        return Query(record.text("text"), record.id, tuple(map(str, relevant)), record.location)

    return read_examples(path, UsualRoles(path, str(source), QUERY_NAMES | given, ("text",)), build, on_bad)


def read_qrels(source: str | Path, *, data_dir: Path | None = None, on_bad: OnBad | None = None) -> Iterator[Judgement]:
    """Yield judgements of a file with a header (query-id, corpus-id, score), or of TREC's four columns without one.

    >>> list(read_qrels("qrels/test.tsv"))  # doctest: +SKIP
    [Judgement(query='1', text='31715818', gain=1.0)]
    """
    path, file = locate(source, data_dir), str(source)

    def build(record: Record) -> Judgement:
        return Judgement(record.label("query"), record.label("text"), record.number("gain"), record.location)

    read = _trec_rows if _is_trec(path, file) else rows
    return read_examples(path, UsualRoles(path, file, QREL_NAMES, tuple(QREL_NAMES)), build, on_bad, read)


def _is_trec(path: Path, file: str) -> bool:
    """Whether the first line has four columns and ends in a number; files of other formats have no header either."""
    headed = suffix_of(path) in FORMATS and suffix_of(path) != ".txt"
    first = next((line for line in text_lines(path, file) if line.strip()), "").split()
    return not headed or (len(first) == 4 and first[3].lstrip("-").isdigit())


def _trec_rows(path: Path, file: str, report: OnBad) -> Iterator[Row]:
    for line, text in enumerate(text_lines(path, file), start=1):
        fields = text.split()
        if len(fields) == 4:
            yield Row({"query": fields[0], "text": fields[2], "gain": fields[3]}, line, line)
        elif fields:
            cure = "write query id, 0, text id, gain, or add a header line"
            report(Location(file, line).error(f"not four columns; {cure}"))


SENSE_NAMES = {
    "word": ("word", "lemma", "target", "target_word"),
    "index": ("word_index", "token_index", "target_index", "index", "position"),
    "sense": ("sense", "sense_label", "label", "synset", "sense_id"),
    "text": USUAL_NAMES["text"],
    "id": USUAL_NAMES["id"],
}


@dataclass(frozen=True, slots=True)
class SenseExample:
    """A word in a text, and the sense that it has there.

    >>> one = SenseExample("Two banks of the river", "bank", 4, 9, "bank_shore", "1")
    >>> one.written, one.is_form
    ('banks', True)
    """

    text: str
    word: str
    start: int  # where the word begins in the text
    end: int  # where it ends
    sense: str
    id: str

    @property
    def written(self) -> str:
        """The word as the text has it."""
        return self.text[self.start : self.end]

    @property
    def is_form(self) -> bool:
        """Whether the text there begins like the word."""
        # Three characters are enough for plurals and most other forms.
        written, word = (each.casefold()[:3] for each in (self.written, self.word))
        return written == word


def read_senses(
    source: str | Path, *, columns: Columns = GUESSED, data_dir: Path | None = None, on_bad: OnBad | None = None
) -> Iterator[SenseExample]:
    """Yield words in context; the index counts the words of the text, separated by blanks, from 0.

    >>> next(read_senses("coarsewsd20/test")).sense  # doctest: +SKIP
    'apple_apple_inc.'
    """
    path, file = locate(source, data_dir), str(source)
    if suffix_of(path) == ".txt":
        raise Location(file).error("plain text has no columns for words and senses; use .csv, .tsv or .jsonl")
    given = {role: (name,) for role in ("text", "id") if (name := columns.of(role)) is not None}

    def build(record: Record) -> SenseExample:
        text = record.text("text")
        index, spans = record.number("index"), [found.span() for found in re.finditer(r"\S+", text)]
        if index not in range(len(spans)):
            words = f"the text has words 0 to {len(spans) - 1}, not {shown(index)}"
            raise record.error("index", f"{words}; count them by its blanks")
        return SenseExample(text, record.text("word"), *spans[int(index)], record.label("sense"), record.id)

    needed = ("word", "index", "sense", "text", *given)
    return read_examples(path, UsualRoles(path, file, {**SENSE_NAMES, **given}, needed), build, on_bad)
