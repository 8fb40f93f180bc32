"""Grammar: loads a spaCy pipeline by name or folder, and parses texts into words."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from likewise.errors import DataError, MissingExtra, ModelError, first_line
from likewise.grammar.words import NEGATION_LABELS, VALUES, ParsedText, Word, is_negation, number_value, with_compounds
from likewise.progress import Progress, Ticker

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc, Token

# A fraction of a second of work, so that progress is reported often.
BATCH_TEXTS, BATCH_CHARACTERS = 64, 20_000
VARIABLE = "LIKEWISE_GRAMMAR"
DOWNLOAD = "run: python -m spacy download en_core_web_sm"
GIVE = f"give a folder with --grammar or ${VARIABLE}"
TRIAL = "The dog has seen the old man."
ANNOTATIONS = {"POS": "parts of speech", "DEP": "dependency labels"}  # What every pipeline must set, by spaCy's name


@dataclass(frozen=True, slots=True)
class Grammar:
    """Words, parts of speech and dependency labels of texts.

    >>> grammar = Grammar.load("en_core_web_sm")  # doctest: +SKIP
    >>> [word.pos for word in grammar.parse("Dogs bark.")[0].words]  # doctest: +SKIP
    ['NOUN', 'VERB', 'PUNCT']
    """

    name: str  # The installed pipeline's name, or that of its folder
    nlp: Language = field(repr=False, compare=False)  # The spaCy pipeline

    @classmethod
    def load(cls, name: str | Path | None = None) -> Grammar:
        """Load a pipeline from a folder or by its installed name.

        Without a name: ``$LIKEWISE_GRAMMAR``, else the first pipeline that is installed.
        """
        found = chosen(name)
        nlp = pipeline(found)  # first, because a path cannot hold every wrong name
        return cls(Path(os.path.expanduser(found)).resolve().name, nlp)

    @property
    def language(self) -> str:
        """The language's code, such as en."""
        return str(self.nlp.lang)

    @property
    def has_lemmas(self) -> bool:
        """Whether the pipeline has lemmas; if not, a word's lemma is its lower-cased text."""
        return bool(self.nlp(TRIAL).has_annotation("LEMMA"))

    @property
    def stop_words(self) -> frozenset[str]:
        """The language's stop list, lower-cased."""
        return frozenset(word.lower() for word in self.nlp.Defaults.stop_words)

    def parse(self, texts: str | Sequence[str], progress: Progress | None = None) -> list[ParsedText]:
        """The words of each text; repeated texts are parsed once."""
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


_LONE_SURROGATES = re.compile("[\ud800-\udfff]")


def readable(text: str) -> tuple[str, list[int]]:
    """A text without runs of white space, which parsers take for words, and the original index of each character.

    A lone surrogate becomes U+FFFD, because spaCy raises on it.
    """
    indices = [
        index
        for index, character in enumerate(text)
        if not character.isspace() or (index > 0 and not text[index - 1].isspace())
    ]
    plain = "".join(" " if text[index].isspace() else text[index] for index in indices)
    return _LONE_SURROGATES.sub("\ufffd", plain), indices


def parsed_text(text: str, doc: Doc, indices: list[int]) -> ParsedText:
    """A text's words, from spaCy's document of its readable form."""
    kept = [token for token in doc if not token.is_space]
    number = {token.i: index for index, token in enumerate(kept)}
    words = (_word(text, token, number[_visible_head(token).i], indices) for token in kept)
    return ParsedText(text, with_compounds(tuple(words)))


def _visible_head(token: Token) -> Token:
    """The nearest head that is not white space, or the token itself."""
    head = token.head
    while head.is_space and head.head.i != head.i:
        head = head.head
    return token if head.is_space else head


def _word(text: str, token: Token, head: int, indices: list[int]) -> Word:
    start, end = indices[token.idx], indices[token.idx + len(token) - 1] + 1
    lemma, dep, language = token.lemma_ or token.lower_, token.dep_.lower(), token.vocab.lang
    denies = is_negation(token.text, language, lemma) or "Polarity=Neg" in str(token.morph)
    return Word(
        text=text[start:end],
        start=start,
        end=end,
        pos=token.pos_,
        dep=dep,
        head=head,
        lemma=lemma,
        is_stop=token.vocab[token.lower_].is_stop,
        is_punct=token.is_punct,
        negates=denies or dep in NEGATION_LABELS,
        number=number_value(token.text, language) if _is_number(token) else None,
    )


def _is_number(token: Token) -> bool:
    """Whether a token is a number by its form or tag; pronouns and articles ("the one", "ein Hund") are not."""
    looks_so = token.like_num or token.lower_ in VALUES.get(token.vocab.lang, {})
    counts = token.pos_ == "NUM" or (looks_so and token.pos_ not in ("PRON", "DET"))
    return counts and any(character.isalnum() for character in token.text)


def chosen(name: str | Path | None) -> str:
    """The given name, else ``$LIKEWISE_GRAMMAR``, else the first pipeline that is installed."""
    given = os.environ.get(VARIABLE) if name is None else str(name)
    if given or name is not None:
        return given or ""
    for found in installed():
        return found
    raise ModelError(f"no spaCy pipeline found; {DOWNLOAD}, or {GIVE}")


def installed() -> list[str]:
    """The names of the installed pipelines."""
    return sorted(_spacy().util.get_installed_models())


def pipeline(name: str) -> Language:
    """Loads a pipeline from a folder or by its installed name, and checks that it tags and parses."""
    require(name)
    folder, spacy = os.path.expanduser(name), _spacy()
    try:
        nlp: Language = spacy.load(Path(folder) if os.path.isdir(folder) else name)
    except Exception as error:  # a broken folder raises many kinds of errors
        raise ModelError(
            f"cannot load the spaCy pipeline {_shown(name)} ({first_line(error)}); {DOWNLOAD}, or {GIVE}"
        ) from error
    try:
        doc = nlp(TRIAL)
    except Exception as error:  # an untrained component, or one without its data
        raise ModelError(
            f"the spaCy pipeline {_shown(name)} fails on a sentence ({first_line(error)}); {DOWNLOAD}, or {GIVE}"
        ) from error
    # Without tagger or parser, empty labels would make every count silently wrong.
    lacking = [meaning for key, meaning in ANNOTATIONS.items() if not doc.has_annotation(key)]
    if lacking:
        cure = "use one with a tagger and a parser, such as en_core_web_sm"
        raise ModelError(f"the spaCy pipeline {_shown(name)} sets no {' and no '.join(lacking)}; {cure}")
    return nlp


def require(name: str) -> None:
    """Rejects names that are neither a folder nor an installed pipeline, without loading anything.

    spaCy itself would import any package of that name.
    """
    folder = os.path.expanduser(name)
    # os.path returns False where pathlib raises: too long a name, an unknown user.
    if os.path.isdir(folder):
        return
    if os.path.isfile(folder):
        raise ModelError(f"{_shown(name)} is a file; give the folder of a spaCy pipeline")
    is_path = Path(name).name != name or name.startswith(("~", "."))
    here = [] if is_path else installed()
    if name not in here:
        kind = "folder" if is_path else "spaCy pipeline"
        offer = f"installed: {', '.join(here)}; " if here else ""
        raise ModelError(f"no {kind} {_shown(name)}; {offer}{DOWNLOAD}, or {GIVE}")


def _shown(name: str) -> str:
    """A name for error messages: short and on one line."""
    return repr(name[:80]) + ("..." if len(name) > 80 else "")


def _spacy() -> ModuleType:
    try:
        import spacy
    except ImportError as error:
        raise MissingExtra("spacy", "grammar") from error
    return spacy
