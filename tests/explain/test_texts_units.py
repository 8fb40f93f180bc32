"""Units: words and sentences of odd strings, spans, prompts, and texts at the edges of what can be explained."""

from __future__ import annotations

import copy
import logging
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import processors
from transformers import PreTrainedTokenizerFast

from likewise.encoder import Encoder
from likewise.encoder.modes import RULES
from likewise.errors import DataError, UsageError
from likewise.explain import contributions, explain
from likewise.explain.linear_map import METHODS
from likewise.explain.texts import Contributions, units_of
from likewise.grammar.spans import sentence_spans, word_spans
from tiny_models import shared_tokenizer, tiny_encoder

TEXT = "The man's flute, 1,000 notes. It rains!"
LETTERS = "ab1 .,'’!?\n\t_-日カ。é\u0301\u200d\ufe0f👨👩🏽…\"”)\ud800א"
ODD = st.text(st.sampled_from(LETTERS), max_size=30) | st.text(max_size=30)
ODD_TEXTS = {
    "empty": "",
    "one letter": "a",
    "blank": " ",
    "no known word": "日本語",
    "right to left": "שלום עולם.",
    "joined emoji": "👨\u200d👩\u200d👧\u200d👦 ok",
    "lone surrogates": "a \ud800\udfff b",
    "nothing": "\x00",
    "too long": "the " * 300,
    "two accents": "e\u0301\u0301",
    "joiner alone": "\u200d",
}


@cache
def bert() -> Encoder:
    return tiny_encoder("bert")


def one(encoder: Encoder, text: str, **options: Any) -> Contributions:
    return contributions(encoder, [text], **options)[0]


def words(text: str) -> list[str]:
    return [text[start:end] for start, end in word_spans(text)]


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


class TestSpansOfTexts:
    @settings(max_examples=300, deadline=None, derandomize=True)
    @given(ODD)
    def test_words_are_sorted_disjoint_and_cover_all_letters(self, text: str) -> None:
        spans = word_spans(text)
        assert all(start < end for start, end in spans)
        assert all(first[1] <= second[0] for first, second in pairwise(spans))
        covered = [place for start, end in spans for place in range(start, end)]
        assert covered == [place for place, letter in enumerate(text) if not letter.isspace()]

    @settings(max_examples=300, deadline=None, derandomize=True)
    @given(ODD)
    def test_sentences_are_sorted_disjoint_and_cover_all_letters(self, text: str) -> None:
        spans = sentence_spans(text)
        assert all(start < end and text[start:end].strip() for start, end in spans)
        assert all(first[1] <= second[0] for first, second in pairwise(spans))
        covered = {place for start, end in spans for place in range(start, end)}
        assert all(place in covered for place, letter in enumerate(text) if not letter.isspace())

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("It's 1,000.", ["It's", "1,000", "."]),
            ("3.14, 2.", ["3.14", ",", "2", "."]),
            ("well-known 'quoted'", ["well", "-", "known", "'", "quoted", "'"]),
            ("dogs' o’clock", ["dogs", "'", "o’clock"]),
            ("snake_case a.b", ["snake_case", "a", ".", "b"]),
            ("日本語 is", ["日", "本", "語", "is"]),
            ("cafe\u0301!", ["cafe\u0301", "!"]),
            ("שלום עולם", ["שלום", "עולם"]),
            ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),
            ("❤\ufe0f ok", ["❤\ufe0f", "ok"]),
            ("...", [".", ".", "."]),
            ("", []),
            (" \t\n", []),
            ("\u0301a", ["\u0301a"]),
        ],
    )
    def test_words(self, text: str, found: list[str]) -> None:
        assert words(text) == found

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("It rains. Stay in!", ["It rains. ", "Stay in!"]),
            ('He said "No." Then left.', ['He said "No." ', "Then left."]),
            ("3.14 is pi. Yes", ["3.14 is pi. ", "Yes"]),
            ("a\nb\n\n c", ["a\n", "b\n\n ", "c"]),
            ("雨。行く！", ["雨。", "行く！"]),
            ("Really?! Yes… no", ["Really?! ", "Yes… ", "no"]),
            ("no end", ["no end"]),
            ("", []),
            (" \n ", []),
        ],
    )
    def test_sentences(self, text: str, found: list[str]) -> None:
        assert sentences(text) == found


class TestGrouping:
    def test_words_carry_the_text_as_written(self) -> None:
        (tokens,) = bert().tokenize([TEXT])
        units = units_of(tokens, "word")
        assert [unit.text for unit in units if unit.kind == "text"] == words(TEXT)
        assert all(TEXT[unit.start : unit.end] == unit.text for unit in units if unit.kind == "text")
        assert [unit.text for unit in units if unit.kind == "special"] == ["[CLS]", "[SEP]"]
        assert sorted(place for unit in units for place in unit.tokens) == list(range(len(tokens)))

    def test_sentences(self) -> None:
        (tokens,) = bert().tokenize([TEXT])
        units = units_of(tokens, "sentence", fold_special=True)
        assert [unit.text for unit in units] == ["[CLS] [SEP]", "The man's flute, 1,000 notes.", "It rains!"]

    def test_spans_and_what_they_leave_over(self) -> None:
        (tokens,) = bert().tokenize([TEXT])
        units = units_of(tokens, [(33, 38), (0, 9)], fold_special=True)
        found = [unit.text for unit in units if unit.kind == "text"]
        assert found == ["The man's", "flute", ",", "1,000", "notes", ".", "It", "rains", "!"]

    def test_a_span_that_begins_within_a_token(self) -> None:
        encoder = bert()
        text = "the man"
        (tokens,) = encoder.tokenize([text])
        assert "the" in tokens.tokens
        units = units_of(tokens, [(1, 7)])
        assert [unit.text for unit in units if unit.kind == "text"] == ["the man"], "a token is never cut"

    def test_spans_of_both_texts(self) -> None:
        found = explain(bert(), "the man is out", "a dog ran", granularity=([(0, 7)], [(2, 9)]))
        assert found.left.labels == ["[CLS]", "the man", "is", "out", "[SEP]"]
        assert found.right.labels == ["[CLS]", "a", "dog ran", "[SEP]"]
        assert found.metadata.granularity == "span"
        assert abs(found.gap) < 1e-9

    @pytest.mark.parametrize("span", [(0, 0), (3, 2), (-1, 3), (0, 15), (20, 22)])
    def test_spans_outside_are_refused(self, span: tuple[int, int]) -> None:
        with pytest.raises(DataError, match=rf"span {span[0]}:{span[1]} does not lie in a text of 14 characters"):
            explain(bert(), "the man is out", "a", granularity=([span], []))

    def test_overlapping_spans_are_refused(self) -> None:
        with pytest.raises(DataError, match="overlap"):
            one(bert(), "the man is out", granularity=[(4, 8), (0, 5)])
        assert len(one(bert(), "the man is out", granularity=[(4, 8), (0, 4)]).units) == 6, (
            "touching is not overlapping"
        )

    def test_prompts_are_units_of_their_own(self) -> None:
        (tokens,) = bert().tokenize(["the man"], "a question, is ")
        by_word = units_of(tokens, "word")
        assert [unit.kind for unit in by_word] == ["special", "prompt", "text", "text", "special"]
        assert by_word[2].text == "the" and by_word[2].start == 0
        by_token = units_of(tokens, "token")
        assert sum(unit.kind == "prompt" for unit in by_token) == sum(tokens.prompt) > 1
        assert all(len(unit.tokens) == 1 for unit in by_token)

    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(ODD, st.sampled_from(["token", "word", "sentence"]), st.booleans(), st.sampled_from(["", "a is: "]))
    def test_every_token_belongs_to_one_unit(self, text: str, granularity: str, fold: bool, prompt: str) -> None:
        (tokens,) = bert().tokenize([text], prompt)
        units = units_of(tokens, granularity, fold)
        assert sorted(place for unit in units for place in unit.tokens) == list(range(len(tokens)))
        assert all(unit.text for unit in units)
        for unit in units:
            assert len({tokens.special[place] for place in unit.tokens}) == 1
            assert len({tokens.prompt[place] for place in unit.tokens}) == 1


class TestEdges:
    @pytest.mark.parametrize("granularity", ["token", "word", "sentence"])
    @pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS)
    def test_odd_texts_have_ledgers(self, text: str, granularity: str) -> None:
        for method in ("bilrp", "hxp"):
            found = explain(bert(), text, "the man", method, granularity)
            assert method == "hxp" or abs(found.gap) < 1e-9
            assert found.left.text == text
            assert found.relevance.shape == (len(found.left.units), len(found.right.units))
            assert np.isfinite(found.relevance).all()
        again = explain(bert(), text, text, granularity=granularity)
        assert again.similarity == pytest.approx(1)
        assert np.allclose(again.relevance, again.relevance.T)

    @pytest.mark.slow
    def test_bundled_model_with_odd_texts(self, minilm: Encoder) -> None:
        for text in (
            "",
            "한국어 텍스트",
            "مرحبا بالعالم",
            "👩🏽\u200d🚀 in space",
            "x" * 300,
            "\ud83d",
            "ﬁ ½ ｆｕｌｌ",
        ):
            for granularity in ("token", "word"):
                found = explain(minilm, text, "A man sleeps.", granularity=granularity)
                assert abs(found.gap) < 1e-5
                assert found.similarity == pytest.approx(
                    float(minilm.similarity(text, "A man sleeps.")[0, 0]), abs=1e-5
                )

    def test_unknown_words(self) -> None:
        found = one(bert(), "日 a")
        assert [unit.text for unit in found.units] == ["[CLS]", "日", "a", "[SEP]"]
        assert found.ids[1] == 1
        assert found.units[1].kind == "text", "[UNK] stands for a word of the text"

    def test_long_texts_are_cut_and_say_so(self, caplog: pytest.LogCaptureFixture) -> None:
        encoder = bert()
        long = "the man " * 40
        with caplog.at_level(logging.WARNING, "likewise"):
            found = explain(encoder, long, "a", granularity="word")
        assert found.left.truncated and not found.right.truncated
        assert found.to_dict()["left"]["truncated"] is True
        assert "cut at the model's limit of 40 tokens: 1 of 2 texts" in caplog.text
        assert sum(len(unit.tokens) for unit in found.left.units) == 40
        assert abs(found.gap) < 1e-9
        assert np.allclose(one(encoder, long).vector, encoder.encode(long), atol=1e-5)

    def test_spans_beyond_the_cut_have_no_unit(self) -> None:
        long = "the man " * 40
        found = one(bert(), long, granularity=[(0, 7), (300, 319)])
        assert found.units[1].text == "the man"
        assert max(unit.end for unit in found.units) < 300

    def test_zero_vectors_have_no_similarity(self) -> None:
        encoder = bert().with_pooling(special_tokens=False)
        for normalize in (True, None):
            for pooling in ("mean", "max", "cls"):
                found = explain(encoder.with_pooling(normalize=normalize, pooling=pooling), "", "the man")
                assert found.similarity == 0
                assert found.gap == 0

    def test_no_token_at_all_is_refused(self) -> None:
        backend = copy.deepcopy(shared_tokenizer().backend_tokenizer)
        backend.post_processor = processors.TemplateProcessing(single="$A", special_tokens=[])
        bare = PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="[PAD]", unk_token="[UNK]")
        encoder = tiny_encoder(tokenizer=bare)
        with pytest.raises(DataError, match=r"without a single token.*at least one word"):
            explain(encoder, "", "a")
        assert abs(explain(encoder, "a", "the man").gap) < 1e-9

    def test_more_than_512_tokens(self) -> None:
        encoder = tiny_encoder(config={"max_position_embeddings": 530, "hidden_size": 16})
        long = "the man is out. " * 90
        assert len(encoder.tokenize([long])[0]) > 512
        for granularity in ("token", "word", "sentence"):
            found = explain(encoder, long, "a", granularity=granularity)
            assert abs(found.gap) < 1e-9
        assert abs(explain(encoder, long, "a", granularity="sentence", memory=1e-9).gap - found.gap) < 1e-9
        with pytest.raises(UsageError, match=r"biases cannot be shared: 530 tokens .* at most 512 can"):
            explain(encoder, long, "a", bias="shared")

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"method": "lime"}, f"unknown method 'lime'; choose from {', '.join(METHODS)}"),
            ({"granularity": "letter"}, "cannot explain by 'letter'; choose from token, word, sentence, or give spans"),
            ({"similarity": "euclid"}, "unknown similarity 'euclid'; choose from cosine, dot"),
            ({"rules": ("norms",)}, f"unknown rule 'norms'; choose from {', '.join(RULES)}"),
            ({"bias": "mine"}, "unknown bias 'mine'; choose from separate, local, traced, shared"),
        ],
    )
    def test_unknown_choices(self, options: dict[str, Any], words: str) -> None:
        with pytest.raises(UsageError) as caught:
            explain(bert(), "a", "b", **options)
        assert str(caught.value) == words

    def test_only_torch_looks_inside(self, tiny: Encoder) -> None:
        with pytest.raises(UsageError, match="backend torch"):
            explain(replace(tiny, backend=object()), "a", "b")

    def test_what_is_no_text_is_refused(self) -> None:
        with pytest.raises(DataError, match="must be a string, got NoneType"):
            explain(bert(), None, "a")  # type: ignore[arg-type]
