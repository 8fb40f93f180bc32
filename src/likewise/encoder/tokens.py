"""Tokens: text -> ids, with the offsets and the kind of each token."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tokenizers import Tokenizer as Backend
from tokenizers import normalizers

from likewise.encoder.vocabulary import Vocabulary
from likewise.errors import DataError

TextOrPair = str | tuple[str, str]


@dataclass(frozen=True)
class TokenizedText:
    """One text (or pair as one sequence) as tokens; all tuples have one entry per token."""

    text: TextOrPair
    ids: tuple[int, ...]
    types: tuple[int, ...]
    tokens: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...]
    """character span in the text without the prompt; (0, 0) for special tokens"""
    special: tuple[bool, ...]
    prompt: tuple[bool, ...]
    """whether a token belongs to the prompt in front of the text"""
    sides: tuple[int | None, ...]
    """0 for tokens of the text, or of a pair's first one, 1 for the second's; None for special tokens"""
    truncated: bool

    def __len__(self) -> int:
        return len(self.ids)

    def spans_of(self, spans: Sequence[tuple[int, int]]) -> list[int | None]:
        """For each token its index among sorted character spans: the span of its first character, else the first span
        that begins within it; None for special tokens, tokens of a prompt, and tokens outside of all spans.
        """
        starts = [start for start, _ in spans]
        outside = zip(self.special, self.prompt, strict=True)
        return [
            None if any(out) else _covering(spans, starts, *offset)
            for out, offset in zip(outside, self.offsets, strict=True)
        ]


def _covering(spans: Sequence[tuple[int, int]], starts: Sequence[int], start: int, end: int) -> int | None:
    index = bisect_right(starts, start) - 1
    if index >= 0 and start < spans[index][1]:
        return index
    later = index + 1
    return later if later < len(spans) and spans[later][0] < end else None


class Tokenizer:
    """A model's tokenizer; ``limit`` replaces any stored truncation and padding."""

    def __init__(self, vocabulary: Vocabulary, limit: int, lower: bool = False) -> None:
        self.vocabulary, self.limit = vocabulary, limit
        # A copy: the vocabulary must not change.
        self.backend = Backend.from_str(vocabulary.backend.to_str())
        self.backend.encode_special_tokens = vocabulary.backend.encode_special_tokens
        self.backend.no_padding()
        self.backend.enable_truncation(limit, strategy="longest_first", direction=vocabulary.truncation_side)
        if lower:
            # In the normalizer, which keeps offsets right: some characters become two in lower case.
            known = [] if self.backend.normalizer is None else [self.backend.normalizer]
            self.backend.normalizer = normalizers.Sequence([normalizers.Lowercase(), *known])

    @classmethod
    def within(cls, vocabulary: Vocabulary, limit: int | None, max_positions: int, lower: bool = False) -> Tokenizer:
        """A model's tokenizer; the limit is the given one or the vocabulary's, at most the number of positions."""
        return cls(vocabulary, min(limit or vocabulary.max_length, max_positions), lower)

    def ids(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
        """The ids of each text and how many texts were truncated; faster than ``tokenize``."""
        encodings = self.backend.encode_batch_fast([self.text_inputs(text) for text in texts])
        return [encoding.ids for encoding in encodings], sum(bool(encoding.overflowing) for encoding in encodings)

    def tokenize(self, texts: Sequence[TextOrPair], prompt: str = "") -> list[TokenizedText]:
        """All about each token. A prompt precedes a text, or the first text of a pair."""
        texts = [texts] if isinstance(texts, str) else texts
        full = [self._with_prompt(text, prompt) for text in texts]
        encodings = self.backend.encode_batch(full)
        return [self._described(*item, prompt) for item in zip(texts, encodings, strict=True)]

    @cached_property
    def folds_case(self) -> bool:
        """Whether the tokenizer ignores case."""
        large, small = (self.backend.encode(text, add_special_tokens=False).ids for text in ("A BANK", "a bank"))
        return bool(large == small)

    def prompt_length(self, prompt: str) -> int:
        """The number of leading tokens of a prompt, including opening special tokens."""
        if not prompt:
            return 0
        encoding = self.backend.encode(self.text_inputs(prompt))
        special = encoding.special_tokens_mask
        return len(special) - 1 if special and special[-1] else len(special)

    def special_ids(self) -> list[int]:
        """The ids of special tokens, except the one for unknown words, which stands for a word of the text."""
        known = {self.vocabulary.id_of(role) for role in ("bos", "eos", "cls", "sep", "pad", "mask")}
        return sorted(self.vocabulary.special_ids - ({self.vocabulary.id_of("unk")} - known))

    def role_id(self, *roles: str) -> int | None:
        """The id of the first of these roles that the tokenizer has, such as pad or mask."""
        found = (self.vocabulary.id_of(role) for role in roles)
        return next((each for each in found if each is not None), None)

    def filler_id(self, *roles: str) -> int:
        """The id of the first of these roles that the tokenizer has, else of a blank, else of another role."""
        if (known := self.role_id(*roles)) is not None:
            return known
        blank = self.backend.encode(" ", add_special_tokens=False).ids
        return int(blank[0]) if blank else self.role_id("pad", "unk", "eos", "bos") or 0

    def _with_prompt(self, text: TextOrPair, prompt: str) -> TextOrPair:
        if isinstance(text, (tuple, list)) and len(text) == 2:
            return self.text_inputs(text[0], prompt), self.text_inputs(text[1])
        return self.text_inputs(text, prompt)

    def text_inputs(self, text: str, prompt: str = "") -> str:
        """A prompt and a text as one input of the tokenizer; rejects everything but strings."""
        if not isinstance(text, str):
            raise DataError(f"a text must be a string, got {type(text).__name__}")
        # The tokenizer rejects lone surrogates (from a broken decode).
        text = prompt + text
        return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")

    def _described(self, text: TextOrPair, encoding: Any, prompt: str) -> TokenizedText:
        special = tuple(bool(mark) for mark in encoding.special_tokens_mask)
        starts = len(prompt)
        in_first = [sequence == 0 for sequence in encoding.sequence_ids]
        in_prompt = tuple(
            first and end <= starts and starts > 0 for first, (_, end) in zip(in_first, encoding.offsets, strict=True)
        )
        offsets = tuple(
            (max(0, start - starts), max(0, end - starts)) if first else (start, end)
            for first, (start, end) in zip(in_first, encoding.offsets, strict=True)
        )
        return TokenizedText(
            text, tuple(encoding.ids), tuple(encoding.type_ids), tuple(encoding.tokens), offsets, special,
            in_prompt, tuple(encoding.sequence_ids), bool(encoding.overflowing),
        )  # fmt: skip
