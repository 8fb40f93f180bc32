"""The grammar of a language: a spaCy pipeline that turns texts into words."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from likewise.errors import DataError
from likewise.grammar.documents import parsed_text, readable
from likewise.grammar.pipelines import TRIAL, chosen, pipeline
from likewise.grammar.words import ParsedText
from likewise.progress import Progress, Ticker

if TYPE_CHECKING:
    from spacy.language import Language

# Some tenths of a second of work, so that progress is told in time.
BATCH_TEXTS, BATCH_CHARACTERS = 64, 20_000


@dataclass(frozen=True, slots=True)
class Grammar:
    """Words, parts of speech and dependency labels of texts.

    >>> grammar = Grammar.load("en_core_web_sm")  # doctest: +SKIP
    >>> [word.pos for word in grammar.parse("Dogs bark.")[0].words]  # doctest: +SKIP
    ['NOUN', 'VERB', 'PUNCT']
    >>> Grammar.load("./pipeline")
    Traceback (most recent call last):
        ...
    likewise.errors.ModelError: no folder './pipeline'; run: python -m spacy download en_core_web_sm, \
or give a folder with --grammar or $LIKEWISE_GRAMMAR
    """

    name: str
    """The installed pipeline's name, or that of its folder."""
    nlp: Language = field(repr=False, compare=False)
    """The spaCy pipeline."""

    @classmethod
    def load(cls, name: str | Path | None = None) -> Grammar:
        """Load a pipeline from a folder or by its installed name.

        Without a name: ``$LIKEWISE_GRAMMAR``, else the first pipeline that is installed.
        """
        found = chosen(name)
        nlp = pipeline(found)
        return cls(Path(os.path.expanduser(found)).resolve().name, nlp)

    @property
    def language(self) -> str:
        """The language's code, such as en."""
        return str(self.nlp.lang)

    @property
    def has_lemmas(self) -> bool:
        """Whether the pipeline knows lemmas; where not, a word's lemma is its lower-cased text."""
        return bool(self.nlp(TRIAL).has_annotation("LEMMA"))

    @property
    def stop_words(self) -> frozenset[str]:
        """The language's stop list, lower-cased."""
        return frozenset(word.lower() for word in self.nlp.Defaults.stop_words)

    def parse(self, texts: str | Sequence[str], progress: Progress | None = None) -> list[ParsedText]:
        """The words of each text; a text that occurs again is not parsed again."""
        texts = [texts] if isinstance(texts, str) else texts
        self._check_lengths(texts)
        counts, ticker = Counter(texts), Ticker(progress, len(texts), "texts")
        parsed: dict[str, ParsedText] = {}
        for batch in _batches(counts):
            forms = [readable(text) for text in batch]
            docs = self.nlp.pipe([plain for plain, _ in forms], batch_size=len(batch))
            for text, (_, indices), doc in zip(batch, forms, docs, strict=True):
                parsed[text] = parsed_text(text, doc, indices)
                ticker.add(counts[text])
        ticker.close()
        return [parsed[text] for text in texts]

    def _check_lengths(self, texts: Sequence[str]) -> None:
        for index, text in enumerate(texts, start=1):
            if len(text) > self.nlp.max_length:
                raise DataError(
                    f"text {index} has {len(text):,} characters and the grammar {self.name} takes "
                    f"{self.nlp.max_length:,}; split it into shorter texts"
                )


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    for text in texts:
        if batch and (len(batch) == BATCH_TEXTS or sum(map(len, batch)) + len(text) > BATCH_CHARACTERS):
            yield batch
            batch = []
        batch.append(text)
    if batch:
        yield batch
