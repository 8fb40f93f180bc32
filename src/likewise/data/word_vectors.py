"""Word vectors: reads text files of GloVe, word2vec and fastText, with one word and its vector per line."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from likewise.data.rows import CURE, Location, foreign_byte, shown, text_lines
from likewise.errors import DataError
from likewise.progress import Progress, Ticker

VECTOR_FILE = "give the unpacked or gzipped text file of word vectors (GloVe's .txt, fastText's or word2vec's .vec)"
LINE_FORM = "each line must be a word and its numbers, with one blank between them"
HEADER = re.compile(r"(\d+) (\d+)")  # The first line of word2vec and fastText: words, and numbers of each


@dataclass(frozen=True, eq=False)
class WordVectors:
    """The rows of v words in a matrix (v, d)."""

    words: dict[str, int]
    matrix: NDArray[np.float32]

    def rows_of(self, words: Iterable[str]) -> list[int]:
        """The rows of the known words, each as written or else in lower case."""
        rows = (self.words.get(word, self.words.get(word.lower())) for word in words)
        return [row for row in rows if row is not None]

    def joined(self, other: WordVectors) -> WordVectors:
        """These words, then the words of another pass over the same file."""
        words = {word: row + len(self.matrix) for word, row in other.words.items()}
        return WordVectors(words | self.words, np.concatenate([self.matrix, other.matrix]))


def read_word_vectors(path: str | Path, wanted: Collection[str], *, progress: Progress | None = None) -> WordVectors:
    """Read the vectors of the wanted words, and of their lower-case forms, in one pass over a file.

    Only the numbers of wanted words are parsed; of other lines only their count is checked. Of a word that occurs
    twice the first vector is used, as in gensim.
    """
    file, needed = str(path), set(wanted) | {word.lower() for word in wanted}
    lines, dimension, promised = _opened(_lines(Path(path), file), file)
    ticker = Ticker(progress, promised, "word vectors")
    words: dict[str, int] = {}
    vectors: list[NDArray[np.float32]] = []
    for number, text in lines:
        word, numbers = _split(text, dimension, file, number)
        # The first line in any case: it shows whether these are word vectors at all.
        vector = _vector(numbers, Location(file, number)) if word in needed or ticker.done == 0 else None
        if vector is not None and word in needed and word not in words:
            words[word] = len(vectors)
            vectors.append(vector)
        ticker.add()
    ticker.close()
    if promised not in (None, ticker.done):
        raise DataError(
            f"{Location(file, 1)}: gives {promised} as the number of words, but {ticker.done} follow; download the "
            "file again, or delete its first line"
        )
    return WordVectors(words, np.array(vectors, np.float32).reshape(len(vectors), dimension))


Lines = Iterator[tuple[int, str]]  # Numbered lines without their line ends and without blank lines


def _lines(path: Path, file: str) -> Lines:
    try:
        for number, line in enumerate(text_lines(path, file), start=1):
            # fastText and word2vec write a blank after the last number.
            text = line.rstrip()
            if (byte := foreign_byte(text)) is not None:
                cure = "convert the file to UTF-8, or if it is binary, save it as text"
                raise Location(file, number).error(f"byte 0x{byte:02x} is not UTF-8; {cure}")
            if text:
                yield number, text
    except DataError as error:
        # The reader of lines names its own formats as the cure.
        raise type(error)(str(error).replace(CURE, VECTOR_FILE)) from None


def _opened(lines: Lines, file: str) -> tuple[Lines, int, int | None]:
    """The lines of vectors, how many numbers each has, and how many lines the header announces."""
    number, text = next(lines, (0, ""))
    header = HEADER.fullmatch(text)
    if header is not None and int(header[1]) and int(header[2]):
        return lines, int(header[2]), int(header[1])
    if header is not None or " " not in text:
        location = Location(file, number) if number else Location(file)
        raise location.error(f"no word with its vector, but {shown(text)}; {VECTOR_FILE}")
    return chain([(number, text)], lines), text.count(" "), None


def _split(text: str, dimension: int, file: str, number: int) -> tuple[str, str]:
    """A line's word and its numbers. Some of GloVe's words hold blanks: extra parts belong to the word."""
    blanks = text.count(" ")
    if blanks == dimension:
        word, _, numbers = text.partition(" ")
        return word, numbers
    parts = text.rsplit(" ", dimension)
    if blanks < dimension or _is_number(parts[0].rpartition(" ")[2]):
        count = "1 number" if blanks == 1 else f"{blanks} numbers"
        raise Location(file, number).error(f"{count} where {dimension} are due; {LINE_FORM}, and all equally many")
    return parts[0], " ".join(parts[1:])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _vector(numbers: str, location: Location) -> NDArray[np.float32]:
    """Written numbers -> (d,)."""
    written = numbers.split(" ")
    try:
        vector = np.array([float(number) for number in written])
    except ValueError:
        flawed = next(number for number in written if not _is_number(number))
        raise location.error(f"{shown(flawed)} is not a number; {LINE_FORM}") from None
    # In this form a NaN is rejected too.
    if not np.abs(vector).max() <= np.finfo(np.float32).max:
        raise location.error("a number that is not finite; remove the line or fix the file")
    return vector.astype(np.float32)
