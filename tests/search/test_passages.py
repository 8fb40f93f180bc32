"""Passages: offsets that cut the text at the right characters, whole coverage, no passage above the limit."""

from __future__ import annotations

import itertools
import time
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from likewise.encoder import Encoder
from likewise.encoder.tokens import Tokenizer, Vocabulary
from likewise.errors import UsageError
from likewise.grammar.spans import sentence_spans, sign_spans
from likewise.sample import sample_sentences
from likewise.search.passages import MOST_CHARACTERS, PassageCutter, PassageSettings, cut_passages

KINDS = ("wordpiece", "bytes", "unigram")
PIECES = (
    "word", "word ", "It rained. ", "Wait! ", "no ", "\r\n", "\n\n", " ", "\t", "3.14 ", "e\u0301", "a\u0308\u0323",
    "👩‍👩‍👧‍👦", "🇩🇪🇫🇷", "👍🏽", "日本語。", "文章です", "שלום עולם. ", "مرحبا؟ ", "ไทย", "longlonglongword" * 5,
    "\u200d", "\ud83d", "…", "'", '."', "ﷺ", "İ", "ß", "\x00", "\u2028", "!?!? ",
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=60).map("".join)


@cache
def tokenizer(kind: str, limit: int = 32) -> Tokenizer:
    """A tokenizer of each kind, trained on the sample: words, bytes without blanks of their own, and unigrams."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    backend = Backend({"wordpiece": models.WordPiece, "bytes": models.BPE, "unigram": models.Unigram}[kind]())
    if kind == "wordpiece":
        backend = Backend(models.WordPiece(unk_token="[UNK]"))  # type: ignore[call-arg]
        backend.normalizer, backend.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=400, special_tokens=special, show_progress=False)
    elif kind == "bytes":
        backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        options = {"vocab_size": 400, "special_tokens": special, "initial_alphabet": alphabet, "show_progress": False}
        trainer = trainers.BpeTrainer(**options)
    else:
        backend.normalizer, backend.pre_tokenizer = normalizers.NFKC(), pre_tokenizers.Metaspace()
        options = {"vocab_size": 400, "special_tokens": special, "unk_token": "[UNK]", "show_progress": False}
        trainer = trainers.UnigramTrainer(**options)
    backend.train_from_iterator(sample_sentences(), trainer)
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return Tokenizer(Vocabulary(backend, {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]"}), limit)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(text=TEXTS, overlap=st.integers(0, 3), tokens=st.integers(28, 32))
def test_offsets_coverage_and_limit(kind: str, text: str, overlap: int, tokens: int) -> None:
    used = tokenizer(kind)
    spans = PassageCutter(used, PassageSettings(tokens, overlap), "say: ").spans(text)
    covered = set()
    for start, end in spans:
        passage = text[start:end]
        assert passage == passage.strip() or spans == [(0, len(text))]
        assert used.lengths([passage], "say: ")[0] <= tokens
        assert not used.tokenize([passage], "say: ")[0].truncated
        covered |= set(range(start, end))
    assert all(letter.isspace() for index, letter in enumerate(text) if index not in covered)
    assert spans == sorted(spans) and all(first[1] < last[1] for first, last in itertools.pairwise(spans))
    if not overlap:
        assert all(first[1] <= last[0] for first, last in itertools.pairwise(spans))


def test_sentences_stay_whole_and_are_packed() -> None:
    used = tokenizer("wordpiece", 64)
    sentences = sample_sentences()[:60]
    text = " ".join(sentences)
    spans = PassageCutter(used, PassageSettings(overlap=0)).spans(text)
    edges = {start for start, _ in sentence_spans(text)}
    assert {start for start, _ in spans} <= edges and len(spans) > 5
    for (start, end), (after, _) in itertools.pairwise(spans):
        following = next(last for first, last in sentence_spans(text) if first == after)
        assert used.lengths([text[start:end]], "")[0] <= 64 < used.lengths([text[start:following]], "")[0]


def test_overlap_repeats_whole_sentences_up_to_half_a_passage() -> None:
    used, text = tokenizer("wordpiece", 32), "It rained. " * 60
    plain, once, thrice, many = (
        PassageCutter(used, PassageSettings(overlap=overlap)).spans(text) for overlap in (0, 1, 3, 50)
    )
    assert once[0] == plain[0] == thrice[0]
    assert once[1][0] == once[0][1] - len("It rained.")
    assert thrice[1][0] == thrice[0][1] - len("It rained. It rained. It rained.")
    assert len(many) < 2 * len(plain) + 2
    repeated = text[many[1][0] : many[0][1]]
    assert 0 < used.lengths([repeated])[0] <= 15 and repeated.startswith("It rained.")


def test_a_sign_is_cut_only_if_it_does_not_fit_alone() -> None:
    text = "e\u0301" * 300
    spans = PassageCutter(tokenizer("bytes"), PassageSettings(overlap=0)).spans(text)
    edges = {start for start, _ in sign_spans(text)}
    assert len(spans) > 5 and {start for start, _ in spans} <= edges
    marks = "a" + "\u0301" * 200  # a single sign
    cut = PassageCutter(tokenizer("bytes"), PassageSettings(overlap=0)).spans(marks)
    assert len(cut) > 5 and "".join(marks[start:end] for start, end in cut) == marks


@pytest.mark.slow
def test_characters_are_bounded_too() -> None:
    text = ("x" * 5000 + " ") * 40  # each word is one unknown token
    spans = PassageCutter(tokenizer("wordpiece", 512), PassageSettings(overlap=0)).spans(text)
    assert max(end - start for start, end in spans) <= MOST_CHARACTERS


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_a_blank_text_is_one_passage(text: str) -> None:
    assert PassageCutter(tokenizer("wordpiece"), PassageSettings()).spans(text) == [(0, len(text))]


def test_a_short_text_is_one_passage(tiny: Encoder) -> None:
    [only] = cut_passages(tiny, "  The cat sat.\n")
    assert (only.number, only.of, only.start, only.end) == (1, 1, 2, 14)


def test_the_prompt_counts(tiny: Encoder) -> None:
    text = "the cat sat on it. " * 20
    assert len(cut_passages(tiny, text, prompt="a b c d e f g: ")) > len(cut_passages(tiny, text, prompt=""))


@pytest.mark.parametrize(
    ("change", "flaw"),
    [
        ({"tokens": 0}, "at least 1 token"),
        ({"overlap": -1}, "0 sentences or more"),
        ({"tokens": 33}, "passages of 33 tokens exceed the model's limit of 32; lower it"),
        ({"tokens": 12}, "leaves no tokens for a text; give at least 16 more"),
    ],
)
def test_impossible_settings(change: dict[str, int], flaw: str) -> None:
    with pytest.raises(UsageError, match=flaw):
        PassageCutter(tokenizer("wordpiece"), PassageSettings(**change))


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["It rained all day. ", "word ", "日本語の文章", "x", ".", "e\u0301", " "])
def test_a_megabyte_takes_seconds(unit: str) -> None:
    text = unit * (300_000 // len(unit))
    cutter = PassageCutter(tokenizer("wordpiece", 256), PassageSettings())
    began = time.process_time()
    cutter.spans(text)
    assert time.process_time() - began < 10
