"""Tokens point back into the text, know what they are, and never exceed the limit."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import pytest
from sentence_transformers.base.modules import Transformer
from tokenizers import Tokenizer as Backend
from tokenizers import models

from conftest import save_tiny, tiny_tokenizer
from likewise.encoder import Encoder
from likewise.encoder.tokens import TokenizedText, Tokenizer, Vocabulary
from likewise.errors import DataError, ModelError

TEXTS = [
    "A man is playing a flute.",
    "Café crème à la carte, naïve coöperation",
    "Two 😀 emojis 👩‍👩‍👧 in a row",
    "שלום עולם and مرحبا بالعالم",
    "  spaces\t and\nlines  ",
    "e\u0301 combined, 北京 unspaced, don't!",
    "",
]
PROMPTS = ["", "query: ", "a question:", "Ünïcode 😀 "]


def bare(text: str) -> str:
    """Lower case without accents, as an uncased vocabulary has it."""
    return "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")


def check_offsets(found: TokenizedText, texts: tuple[str, ...], kept: set[int]) -> None:
    """Each token's span must hold the token's own characters, in order."""
    ends = [0] * len(texts)
    for place in sorted(kept):
        which = found.types[place]
        start, end = found.offsets[place]
        assert ends[which] <= start < end <= len(texts[which])
        ends[which] = end
        if found.tokens[place] != "[UNK]":
            assert found.tokens[place].removeprefix("##") == bare(texts[which][start:end])


def places(flags: tuple[bool, ...]) -> set[int]:
    return {place for place, flag in enumerate(flags) if flag}


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("text", TEXTS)
def test_offsets_point_back_into_the_text(minilm: Encoder, text: str, prompt: str) -> None:
    [found] = minilm.tokenize([text], prompt)
    own = set(range(len(found))) - places(found.special) - places(found.prompt)
    check_offsets(found, (text,), own)
    assert own or not text
    assert all(found.offsets[place] == (0, 0) for place in set(range(len(found))) - own)


@pytest.mark.parametrize("prompt", PROMPTS)
def test_offsets_of_pairs(minilm: Encoder, prompt: str) -> None:
    pairs = list(zip(TEXTS, reversed(TEXTS), strict=True))
    for pair, found in zip(pairs, minilm.tokenize(pairs, prompt), strict=True):
        own = set(range(len(found))) - places(found.special) - places(found.prompt)
        check_offsets(found, pair, own)
        assert all(found.types[place] == 0 for place in places(found.prompt))


def test_special_tokens_are_marked(minilm: Encoder) -> None:
    one, pair = minilm.tokenize(["two dogs", ("two dogs", "a cat")])
    assert one.tokens == ("[CLS]", "two", "dogs", "[SEP]")
    assert one.special == (True, False, False, True)
    assert pair.tokens == ("[CLS]", "two", "dogs", "[SEP]", "a", "cat", "[SEP]")
    assert places(pair.special) == {0, 3, 6}
    assert pair.types == (0, 0, 0, 0, 1, 1, 1)


def test_unknown_words_are_not_special(tiny: Encoder) -> None:
    [found] = tiny.tokenize(["日 dog"])
    assert found.tokens[1] == "[UNK]" and not found.special[1]


def test_prompt_tokens_are_marked(minilm: Encoder) -> None:
    [found] = minilm.tokenize(["two dogs"], "a query: ")
    assert found.tokens == ("[CLS]", "a", "query", ":", "two", "dogs", "[SEP]")
    assert places(found.prompt) == {1, 2, 3}
    assert found.offsets[4:6] == ((0, 3), (4, 8))
    assert not any(minilm.tokenize(["two dogs"])[0].prompt)


def test_a_token_across_the_end_of_the_prompt_belongs_to_the_text(minilm: Encoder) -> None:
    [found] = minilm.tokenize(["ball game"], "foot")
    assert found.tokens[1:3] == ("football", "game")
    assert not any(found.prompt)
    assert found.offsets[1:3] == ((0, 4), (5, 9))


def test_the_fast_and_the_full_way_agree(minilm: Encoder) -> None:
    ids, cut = minilm.tokenizer.ids(TEXTS)
    assert ids == [list(text.ids) for text in minilm.tokenize(TEXTS)]
    assert cut == 0


def test_the_limit(tiny: Encoder) -> None:
    limit = tiny.tokenizer.limit
    texts = ["a " * (limit - 2), "a " * (limit - 1), "a " * 1000]
    found = tiny.tokenize(texts)
    assert [len(text) for text in found] == [limit] * 3
    assert [text.truncated for text in found] == [False, True, True]
    assert all(text.tokens[-1] == "[SEP]" for text in found)
    ids, cut = tiny.tokenizer.ids(texts)
    assert cut == 2 and [len(row) for row in ids] == [limit] * 3


def test_pairs_are_cut_at_the_longer_text(tiny: Encoder) -> None:
    [found] = tiny.tokenize([("a b c", "d " * 100)])
    assert found.truncated and len(found) == tiny.tokenizer.limit
    assert found.tokens[:5] == ("[CLS]", "a", "b", "c", "[SEP]")


def test_the_limit_stays_within_the_positions(tiny_folder: Path) -> None:
    assert Tokenizer.within(Vocabulary.read(tiny_folder), None, 64).limit == 64
    assert Tokenizer.within(Vocabulary.read(tiny_folder), 1000, 64).limit == 64
    assert Tokenizer.within(Vocabulary.read(tiny_folder), 9, 64).limit == 9
    assert Tokenizer.within(Vocabulary.read(tiny_folder), None, 10_000).limit == 64, "the tokenizer's own limit"


def test_the_side_of_truncation_is_the_tokenizers_own() -> None:
    theirs = tiny_tokenizer()
    theirs.truncation_side = "left"
    ours = Tokenizer(Vocabulary.of(theirs), 6).ids(["a b c d e f g h"])[0][0]
    assert ours == theirs("a b c d e f g h", truncation=True, max_length=6)["input_ids"]


def test_the_users_tokenizer_stays_as_it_is() -> None:
    theirs = tiny_tokenizer()
    theirs("a", padding="max_length", truncation=True, max_length=5)
    before = theirs.backend_tokenizer.to_str()
    Tokenizer(Vocabulary.of(theirs), 9).ids(["a b c"])
    assert theirs.backend_tokenizer.to_str() == before


@pytest.mark.parametrize("text", ["a\0b", "\0", "dog \ud83d cat", "\ud83d\ude00", "\udfff", "a\ufeffb\u200d"])
def test_strange_characters(minilm: Encoder, text: str) -> None:
    [found] = minilm.tokenize([text])
    assert found.text == text
    assert all(0 <= start <= end <= len(text) for start, end in found.offsets)
    assert minilm.tokenizer.ids([text])[0] == [list(found.ids)]


def test_a_lone_surrogate_does_not_shift_the_offsets(minilm: Encoder) -> None:
    [found] = minilm.tokenize(["\ud83d dog"], "q\ud83d ")
    assert found.tokens[-2] == "dog" and found.offsets[-2] == (2, 5)


def test_lower_casing_does_not_shift_the_offsets(minilm: Encoder) -> None:
    tokenizer = Tokenizer(minilm.tokenizer.vocabulary, 32, lower=True)
    text = "İİ dog"  # each İ becomes two characters in lower case
    [found] = tokenizer.tokenize([text])
    start, end = found.offsets[found.tokens.index("dog")]
    assert text[start:end] == "dog"


@pytest.mark.parametrize("text", [3, None, b"bytes", 2.5])
def test_a_text_must_be_a_string(tiny: Encoder, text: Any) -> None:
    message = f"a text must be a string, got {type(text).__name__}"
    with pytest.raises(DataError, match=message):
        tiny.tokenizer.ids(["a", text])


@pytest.mark.parametrize("text", [3, None, b"bytes", ("a", 3), (None, "a")])
def test_a_text_to_tokenize_must_be_a_string_or_a_pair(tiny: Encoder, text: Any) -> None:
    with pytest.raises(DataError, match="a text must be a string"):
        tiny.tokenize(["a", text])


@pytest.mark.parametrize("text", [3, None, b"bytes"])
def test_a_text_to_encode_must_be_a_string(tiny: Encoder, text: Any) -> None:
    with pytest.raises(DataError, match=f"a text must be a string, got {type(text).__name__}"):
        tiny.encode(["a", text])


@pytest.mark.parametrize("prompt", ["query: ", "a question is", "a", "日本 ", "  ", "a " * 100])
def test_prompt_length_equals_sentence_transformers(tiny_folder: Path, tiny: Encoder, prompt: str) -> None:
    theirs = Transformer(str(tiny_folder), max_seq_length=32)._get_prompt_length(prompt)
    assert tiny.tokenizer.prompt_length(prompt) == theirs
    assert tiny.tokenizer.prompt_length("") == 0


def test_prompt_length_without_special_tokens() -> None:
    backend = tiny_tokenizer()
    backend.backend_tokenizer.post_processor = None
    assert Tokenizer(Vocabulary.of(backend), 32).prompt_length("a b c ") == 3


def test_a_folder_without_a_vocabulary_is_refused(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "model")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match="has no tokenizer"):
        Encoder.load(str(folder))


def test_one_string_is_one_text(tiny: Encoder) -> None:
    assert len(tiny.tokenize("ab")) == len(tiny.states("ab")) == 1


def test_a_vocabulary_without_a_token_for_unknown_words() -> None:
    """Known words are read; an unknown one is one line."""
    backend = Backend(models.WordPiece({"cat": 0}, unk_token="[UNK]"))
    tokenizer = Tokenizer(Vocabulary(backend), 8)
    assert tokenizer.ids(["cat"]) == ([[0]], 0)
    for read in (tokenizer.ids, tokenizer.tokenize, tokenizer.lengths):
        with pytest.raises(ModelError, match="the tokenizer cannot read a text"):
            read(["zebra"])
