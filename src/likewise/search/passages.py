"""Passages: a document cut at sentence boundaries into pieces that fit the model, with offsets into its text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from likewise.encoder import Encoder, as_encoder
from likewise.encoder.encoder import Source
from likewise.encoder.forward import windows
from likewise.encoder.tokens import Tokenizer
from likewise.errors import UsageError
from likewise.grammar.spans import Span, sentence_spans, sign_spans, word_spans
from likewise.search.hits import Passage

USUAL_TOKENS = 128  # The vector of a longer passage blurs what it says (bench/passages.py)
LEAST_BUDGET = 16  # Tokens for the text itself; every character fits
MOST_CHARACTERS = 16_000  # Of a passage; even at four bytes each they fit into a text of Milvus
TOKEN_CHARACTERS = 16  # A piece with more characters than this for each token is cut without counting its tokens
WINDOW = 4096


@dataclass(frozen=True)
class PassageSettings:
    """How documents are cut into passages.

    >>> PassageSettings(tokens=128, overlap=2).overlap
    2
    """

    tokens: int | None = None  # the most of a passage, with prompt and special tokens; None: 128, or the model's limit
    overlap: int = 1  # the last sentences of a passage, at most half of it, are the first of the next

    def __post_init__(self) -> None:
        if self.tokens is not None and self.tokens < 1:
            raise UsageError(f"a passage has at least 1 token, got {self.tokens}")
        if self.overlap < 0:
            raise UsageError(f"passages overlap by 0 sentences or more, got {self.overlap}")

    def within(self, tokenizer: Tokenizer) -> PassageSettings:
        """The same with the number of tokens that this tokenizer's model takes."""
        if self.tokens is not None and self.tokens > tokenizer.limit:
            raise UsageError(
                f"passages of {self.tokens} tokens exceed the model's limit of {tokenizer.limit}; lower it"
            )
        return PassageSettings(self.tokens or min(tokenizer.limit, USUAL_TOKENS), self.overlap)


@dataclass(frozen=True)
class Piece:
    """A sentence, or a part of a long one: its characters and its number of tokens."""

    start: int
    end: int
    tokens: int
    opens: bool  # whether a sentence begins here


def cut_passages(
    encoder: Encoder | Source, text: str, settings: PassageSettings | None = None, prompt: str | None = None
) -> list[Passage]:
    """The passages of a document, in order; together they hold every character that is not blank.

    A sentence that is too long is cut between words, and a word that is too long between characters. ``prompt`` is
    what precedes each passage when it is encoded; None is the model's own.

    >>> text = "A cat sat on the mat. " * 4
    >>> [(one.start, one.end) for one in cut_passages("minilm", text, PassageSettings(tokens=20, overlap=0))]
    [(0, 43), (44, 87)]
    """
    encoder = as_encoder(encoder)
    given = encoder.modules_config.prompt_for("document") if prompt is None else prompt
    spans = PassageCutter(encoder.tokenizer, settings or PassageSettings(), given).spans(text)
    return [Passage(number, len(spans), *span) for number, span in enumerate(spans, start=1)]


class PassageCutter:
    """Cuts documents for one tokenizer and one prompt. Each sentence is tokenized once, and each passage once."""

    def __init__(self, tokenizer: Tokenizer, settings: PassageSettings, prompt: str = "") -> None:
        used = settings.within(tokenizer)
        assert used.tokens is not None
        self.tokenizer, self.prompt, self.tokens, self.overlap = tokenizer, prompt, used.tokens, used.overlap
        self.budget = self.tokens - tokenizer.lengths([""], prompt)[0]
        if self.budget < LEAST_BUDGET:
            most = f"{self.tokens} tokens with {self.tokens - self.budget} for prompt and special tokens"
            raise UsageError(f"a passage of {most} leaves no tokens for a text; give at least {LEAST_BUDGET} more")

    def spans(self, text: str) -> list[Span]:
        """The start and end of each passage, without blanks at its ends; a blank text is one passage."""
        budget = self.budget
        while budget >= LEAST_BUDGET // 2:
            found = [_trimmed(text, *span) for span in self._packed(self._pieces(text, budget), budget)]
            # Sentences next to each other may have other tokens than alone, so the passages themselves are counted.
            excess = max(self._lengths([text[slice(*span)] for span in found], self.prompt), default=0) - self.tokens
            if excess <= 0:
                return found or [(0, len(text))]
            budget -= excess
        raise UsageError(f"passages of {self.tokens} tokens are too short for this text; raise the number")

    def _pieces(self, text: str, budget: int) -> list[Piece]:
        spans = sentence_spans(text)
        opened = {start for start, _ in spans}
        pieces = self._fitting(text, spans, budget, (word_spans, sign_spans, _characters))
        return [Piece(start, end, tokens, start in opened) for start, end, tokens in pieces]

    def _fitting(
        self, text: str, spans: Sequence[Span], budget: int, finer: tuple[Callable[[str], list[Span]], ...]
    ) -> Iterator[tuple[int, int, int]]:
        """Each span with its tokens; one that is too long is cut into finer ones."""
        most = min(MOST_CHARACTERS, TOKEN_CHARACTERS * budget)
        short = [span for span in spans if span[1] - span[0] <= most]
        tokens = dict(zip(short, self._lengths([text[start:end] for start, end in short]), strict=True))
        for start, end in spans:
            if tokens.get((start, end), budget + 1) <= budget or not finer:
                yield start, end, tokens[start, end]
            else:
                inner = [(start + first, start + last) for first, last in finer[0](text[start:end])]
                yield from self._fitting(text, inner, budget, finer[1:])

    def _lengths(self, texts: Sequence[str], prompt: str | None = None) -> list[int]:
        return [count for some in windows(texts, WINDOW) for count in self.tokenizer.lengths(some, prompt)]

    def _packed(self, pieces: Sequence[Piece], budget: int) -> Iterator[Span]:
        """As many pieces in each passage as fit."""
        before = [0, *accumulate(piece.tokens for piece in pieces)]

        def fits(first: int, last: int, most: int = budget) -> bool:
            """Whether the pieces from first to last, which is included, fit."""
            characters = pieces[last].end - pieces[first].start
            return before[last + 1] - before[first] <= most and characters <= MOST_CHARACTERS

        first = last = 0
        while last < len(pieces):
            last += 1  # at least one new piece
            while last < len(pieces) and fits(first, last):
                last += 1
            yield pieces[first].start, pieces[last - 1].end
            openings = [i for i in range(last - 1, first, -1) if pieces[i].opens and fits(i, last - 1, budget // 2)]
            repeated = openings[: self.overlap]
            while repeated and last < len(pieces) and not fits(repeated[-1], last):
                repeated.pop()
            first = repeated[-1] if repeated else last


def _characters(text: str) -> list[Span]:
    return [(index, index + 1) for index in range(len(text))]


def _trimmed(text: str, start: int, end: int) -> Span:
    """A span without the blanks at its ends."""
    inner = text[start:end]
    return start + len(inner) - len(inner.lstrip()), start + len(inner.rstrip())
