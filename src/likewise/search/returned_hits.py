"""Hits that any system returned -> plain records: strings, tuples, mappings, objects, whole answers, and files."""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from likewise.data import GUESSED, Columns, locate
from likewise.data.rows import Location, rows, shown, suffix_of, text_lines
from likewise.errors import DataError
from likewise.search.documents import NO_METADATA

TEXTS = ("text", "page_content", "content", "document", "chunk", "passage", "body", "sentence", "abstract", "title")
SCORES = ("score", "similarity", "distance", "_score", "_distance", "@search.score", "relevance_score", "certainty")
IDS = ("id", "_id", "uuid", "pk", "doc_id", "document_id")
INSIDE = ("payload", "metadata", "meta", "entity", "_source", "properties", "fields", "node", "document")
"""What may hold the text and the metadata of a hit."""
LISTS = ("hits", "points", "matches", "results", "result", "objects", "data")
"""What may hold the hits of an answer."""
KNOWN = tuple(dict.fromkeys((*TEXTS, *SCORES, *IDS, *INSIDE, *LISTS, "_additional")))
DEPTH = 3  # Levels of a record in which its text is looked for
STDIN = "-"
PLAIN = (str, int, float, list, tuple, bytes, np.generic, type(None))  # What has no fields


class ReturnedHit(NamedTuple):
    """A text that a system returned; metadata are its texts, numbers, true and false.

    >>> ReturnedHit("7", "A cat sat.", 0.5).score
    0.5
    """

    id: str
    text: str
    score: float | None = None
    metadata: Mapping[str, Any] = NO_METADATA


def returned_hits(answer: Any, columns: Columns = GUESSED) -> list[ReturnedHit]:
    """The hits of an answer, in its order; ``columns`` names the fields of a text, a score and an id.

    >>> returned_hits({"result": [{"id": 7, "score": 0.5, "payload": {"text": "A cat sat.", "year": 2020}}]})
    [ReturnedHit(id='7', text='A cat sat.', score=0.5, metadata={'year': 2020})]
    >>> [hit.id for hit in returned_hits(["A cat sat.", ("A dog ran.", 0.4)])]
    ['1', '2']
    """
    return [_hit(item, number, columns) for number, item in enumerate(_items(answer), start=1)]


def _items(answer: Any) -> Sequence[Any]:
    """The list of hits in an answer; one list for each of several queries is refused."""
    fields = _fields(answer)
    if isinstance(fields.get("documents"), list):
        return _items(_columns_as_hits(fields))
    for name in LISTS:
        if fields.get(name) is not None:
            return _items(fields[name])
    if _text(fields, TEXTS, DEPTH) is not None:
        return [answer]  # a single hit
    if fields or isinstance(answer, str | bytes) or not hasattr(answer, "__iter__"):
        lists = f"a list, or an answer with {', '.join(LISTS)} or documents"
        raise DataError(f"the hits are {lists}, got {type(answer).__name__} {shown(answer)}; give such a list")
    found = list(answer)
    if any(_is_list(item) for item in found):
        if len(found) > 1:
            raise DataError(f"the answer holds hits of {len(found)} queries; give those of one, such as answer[0]")
        return _items(found[0])
    return found


def _is_list(item: Any) -> bool:
    """Whether an item is a list of hits, and not a hit (text, score)."""
    return isinstance(item, list) and not (len(item) == 2 and (item[1] is None or isinstance(item[1], int | float)))


def _columns_as_hits(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Hits from an answer in columns, as Chroma's: ids, documents, distances and metadatas."""
    columns = {"id": "ids", "text": "documents", "score": "distances", "metadata": "metadatas"}
    found = {name: answer.get(key) for name, key in columns.items()}
    if found["text"] and isinstance(found["text"][0], list):
        if len(found["text"]) > 1:
            raise DataError(f"the answer holds hits of {len(found['text'])} queries; ask about one at a time")
        found = {name: column[0] if column else None for name, column in found.items()}
    known = [repeat(None) if column is None else column for column in found.values()]
    sizes = {len(column) for column in found.values() if column is not None}
    if len(sizes) > 1:
        raise DataError(f"the columns of the answer have {' and '.join(map(str, sorted(sizes)))} entries; repair it")
    return [dict(zip(found, row, strict=False)) for row in zip(*known, strict=False)]


def _fields(value: Any) -> dict[str, Any]:
    """The entries of a mapping, or the known attributes of an object."""
    if isinstance(value, Mapping):
        return {str(name): one for name, one in value.items()}
    if isinstance(value, PLAIN):
        return {}
    found = {name: getattr(value, name, None) for name in (*KNOWN, "documents", "ids", "distances", "metadatas")}
    return {name: one for name, one in found.items() if one is not None and not callable(one)}


def _hit(item: Any, number: int, columns: Columns) -> ReturnedHit:
    """One item of any form as a hit; without an id it has its number."""
    if isinstance(item, ReturnedHit):
        return item
    score = None
    if isinstance(item, tuple | list) and len(item) == 2:
        item, score = item
    fields = {"text": item} if isinstance(item, str) else _fields(item)
    text = _text(fields, [columns.text] if columns.text else TEXTS, DEPTH)
    if text is None or not text.strip():
        flaw = "an empty text" if text is not None else f"no text in {shown(item)}"
        raise DataError(f"hit {number} has {flaw}; give a string, (text, score), or {columns.text or 'text'}: ...")
    score = _score(fields, columns) if score is None else score
    name = next((fields[key] for key in ([columns.id] if columns.id else IDS) if fields.get(key) is not None), number)
    return ReturnedHit(str(name), text, _number(score, number), _metadata(fields, text, columns))


def _text(fields: Mapping[str, Any], names: Sequence[str], depth: int) -> str | None:
    """The text of a record, or of what it holds."""
    found = next((fields[name] for name in names if isinstance(fields.get(name), str)), None)
    if found is not None or not depth:
        return found
    inner = (_text(_fields(fields[name]), names, depth - 1) for name in INSIDE if name in fields)
    return next((text for text in inner if text is not None), None)


def _score(fields: Mapping[str, Any], columns: Columns) -> Any:
    """The score of a record; not that of its metadata, which may be a review's."""
    metadata = fields.get("metadata")
    holders = [fields, _fields(fields.get("_additional")), {} if isinstance(metadata, Mapping) else _fields(metadata)]
    names = [columns.score] if columns.score else SCORES
    return next((one[name] for one in holders for name in names if one.get(name) is not None), None)


def _number(score: Any, number: int) -> float | None:
    if score is None or (isinstance(score, str) and not score.strip()):
        return None
    try:
        found = float("nan") if isinstance(score, bool) else float(score)
    except (TypeError, ValueError):
        found = float("nan")
    if not math.isfinite(found):
        raise DataError(f"the score of hit {number} is {shown(score)}; give a finite number, or none")
    return found


def _metadata(fields: Mapping[str, Any], text: str, columns: Columns) -> dict[str, Any]:
    """The texts, finite numbers, true and false of a record and of what it holds, without text, score, rank, id."""
    taken = {*SCORES, *IDS, "rank", columns.text, columns.score, columns.id}
    found = {name: value for name, value in fields.items() if name not in taken}
    for name in INSIDE:
        if isinstance(fields.get(name), Mapping):
            found |= fields[name]
    values = ((name, one.item() if isinstance(one, np.generic) else one) for name, one in found.items())
    return {
        str(name): one
        for name, one in values
        if one != text and (isinstance(one, str) or (isinstance(one, int | float) and math.isfinite(one)))
    }


def read_hits(source: str, columns: Columns = GUESSED) -> list[ReturnedHit]:
    """The hits of a file: .jsonl, .csv, .tsv or .txt with one on each line, .json with an answer; ``-`` is stdin."""
    with _file(source) as path:
        name = "stdin" if source == STDIN else source
        try:
            return returned_hits(_content(path, name), columns)
        except DataError as error:
            raise error if str(error).startswith(name) else DataError(f"{name}: {error}") from None


def _content(path: Path, name: str) -> Any:
    if suffix_of(path) != ".json":
        return [row.values for row in rows(path, name, _raise)]
    try:
        return json.loads("".join(text_lines(path, name)))
    except ValueError as error:
        raise Location(name).error(f"is not JSON ({error}); one object on each line is .jsonl") from None


def _raise(error: DataError) -> None:
    raise error


@contextmanager
def _file(source: str) -> Iterator[Path]:
    """The file of a name, or one with what stdin holds: JSON, JSON lines, or a table with commas."""
    if source != STDIN:
        path = Path(source) if suffix_of(Path(source)) == ".json" else locate(source)
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        data = sys.stdin.buffer.read()
        path = Path(folder) / f"hits{_suffix(data)}"
        path.write_bytes(data)
        yield path


def _suffix(data: bytes) -> str:
    """The format of what begins like this."""
    first = data.lstrip().partition(b"\n")[0]
    if first.startswith((b"{", b"[")):
        return ".json" if _is_json(data) else ".jsonl"
    # A table may begin with a name in quotes.
    return ".jsonl" if first.startswith(b'"') and _is_json(first) else ".csv"


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True
