"""Trajectories: the cosines of Hugging Face's own hidden states, layer by layer, and where a word is found."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch

from likewise.encoder import Encoder
from likewise.errors import DataError, UsageError
from likewise.geometry.trajectories import (
    PairTrajectory,
    Trajectories,
    WordLocation,
    sentence_trajectories,
    word_locations,
    word_trajectories,
)
from likewise.results import ResultSet
from tiny_models import NoDowncast, shared_tokenizer, tiny_encoder

# One token, several, a run of words, a mark; of one length twice, so that texts share a batch.
TEXTS = ["We saw a zebra by the sea.", "A quagga is no zebra, they say.", "The sea at New York rose again."]
WORDS = ["zebra", "quagga", "New York"]


def cosines_by_hand(encoder: Encoder, texts: list[str], words: list[str]) -> dict[tuple[int, int], list[float]]:
    """Each text through Hugging Face's model alone; the tokens between the word's letters averaged."""
    vectors = []
    for text, word in zip(texts, words, strict=True):
        start = text.index(word)
        given = shared_tokenizer()(text, return_tensors="pt", return_offsets_mapping=True)
        offsets = given["offset_mapping"][0].tolist()
        inside = [place for place, (a, b) in enumerate(offsets) if a >= start and start < b <= start + len(word)]
        with torch.no_grad(), NoDowncast():
            hidden = encoder.model(input_ids=given["input_ids"], output_hidden_states=True).hidden_states
        vectors.append([sum(states[0, place] for place in inside) / len(inside) for states in hidden])
    return {
        (i, j): [float(a @ b / (a @ a).sqrt() / (b @ b).sqrt()) for a, b in zip(vectors[i], vectors[j], strict=True)]
        for i, j in combinations(range(len(texts)), 2)
    }


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", ["bert", "roberta", "mpnet", "albert", "gpt_neo", "modernbert", "qwen3"])
def test_words_follow_hugging_face(name: str, seed: int) -> None:
    encoder = tiny_encoder(name, seed)
    found, expected = word_trajectories(encoder, TEXTS, WORDS), cosines_by_hand(encoder, TEXTS, WORDS)
    assert [(pair.left, pair.right) for pair in found.pairs] == list(expected)
    for pair in found.pairs:
        assert pair.words == (WORDS[pair.left], WORDS[pair.right])
        assert pair.cosine == pytest.approx(expected[pair.left, pair.right], abs=1e-10)
    assert found.layers == tuple(range(encoder.model_view.layers + 1))
    assert [len(places) for places in found.tokens] == [5, 6, 5]  # spelled out, but for "new"


def test_only_the_position_keeps_layer_0_from_1() -> None:
    same, moved = ["We saw a zebra.", "We saw a zebra again, at sea."], ["We saw a zebra.", "A zebra saw us."]
    encoder = tiny_encoder()
    [at_one_place], [elsewhere] = (word_trajectories(encoder, texts, "zebra").pairs for texts in (same, moved))
    assert at_one_place.cosine[0] == pytest.approx(1, abs=1e-12) and max(at_one_place.cosine) <= 1
    assert elsewhere.cosine[0] < 0.999 and at_one_place.cosine[1] < 0.999
    with torch.no_grad():
        encoder.model_view.embeddings.position.weight.zero_()
    assert word_trajectories(encoder, moved, "zebra").pairs[0].cosine[0] == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    "pooling_config", [{}, {"pooling": "cls"}, {"pooling": "max", "special_tokens": False}], ids=str
)
def test_sentences_are_read_as_encode_reads_them(pooling_config: Any, tiny: Encoder) -> None:
    encoder = tiny.with_pooling(**pooling_config)
    found = sentence_trajectories(encoder, TEXTS)
    for layer in found.layers:
        vectors = encoder.encode(TEXTS, layer=layer).astype(np.float64)
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        expected = [unit[pair.left] @ unit[pair.right] for pair in found.pairs]
        assert [pair.cosine[layer] for pair in found.pairs] == pytest.approx(expected, abs=1e-6)
    shown = encoder.similarity(TEXTS, TEXTS)
    assert [pair.cosine[-1] for pair in found.pairs] == pytest.approx(shown[np.triu_indices(3, 1)].tolist(), abs=1e-6)
    assert found.pooling == encoder.pooling_config.pooling and {pair.words for pair in found.pairs} == {None}


def test_one_pass_for_all_layers(tiny: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    from likewise.encoder import forward

    passes, embed = [], forward.embed
    monkeypatch.setattr(forward, "embed", lambda *given: passes.append(1) or embed(*given))
    sentence_trajectories(tiny, ["a b", "a c"])
    assert len(passes) == 1


def test_prompts_stand_before_the_texts(tiny: Encoder) -> None:
    text_inputs = replace(
        tiny, modules_config=replace(tiny.modules_config, prompts={"query": "zebra: "}, default_prompt="query")
    )
    [own], [none], [given] = (
        word_trajectories(encoder, TEXTS[:2], "zebra", prompt).pairs
        for encoder, prompt in ((text_inputs, None), (text_inputs, ""), (tiny, "zebra: "))
    )
    assert own == given != none and none == word_trajectories(tiny, TEXTS[:2], "zebra").pairs[0]
    whole = sentence_trajectories(text_inputs, TEXTS[:2]).pairs
    assert whole == sentence_trajectories(tiny, TEXTS[:2], "zebra: ").pairs
    assert whole != sentence_trajectories(text_inputs, TEXTS[:2], "").pairs


class TestWordLocations:
    @pytest.mark.parametrize(
        ("text", "query", "expected"),
        [
            ("We rob a bank!", "bank", WordLocation("bank", 4, 4)),
            ("We rob a bank!", "!", WordLocation("!", 5, 5)),
            ("Bankers rob a BANK.", "bank", WordLocation("BANK", 4, 4)),
            ("Bank of the bank", "bank", WordLocation("bank", 4, 4)),
            ("In New  York they bite the bullet.", "new york", WordLocation("New  York", 2, 3)),
            ("In New York they bite the bullet.", "bite the bullet", WordLocation("bite the bullet", 5, 7)),
            ("the bank by the bank", "bank:2", WordLocation("bank", 5, 5)),
            ("the bank by the Bank", "BANK:2", WordLocation("Bank", 5, 5)),
            ("the bank alone", "bank:1", WordLocation("bank", 2, 2)),
            ("At 10:30, or 10 past.", "10:30", WordLocation("10:30", 2, 4)),
            ("At 10:30 or at 10:30.", "10:30:2", WordLocation("10:30", 7, 9)),
            ("See bank:2, the bank", "bank:2", WordLocation("bank:2", 2, 4)),
            ("a cafe\u0301 there", "caf\u00e9", WordLocation("cafe\u0301", 2, 2)),
            ("don't stop", "don't", WordLocation("don't", 1, 1)),
            ("東京に行く", "東京", WordLocation("東京", 1, 2)),
        ],
    )
    def test_found(self, text: str, query: str, expected: WordLocation) -> None:
        assert word_locations([text, "x"], [query, "x"])[0] == expected

    @pytest.mark.parametrize(
        ("text", "query", "words"),
        [
            ("The river.", "bank", "sentence 2 has no 'bank'; choose from its words: 1 The 2 river 3 ."),
            ("The banks", "bank", "has no 'bank'"),
            ("New old York", "New York", "has no 'New York'"),
            ("bank", "bank:0", "has no 'bank:0'"),
            ("bank", " :2", "has no ' :2'"),
            ("river", "bank:2", "has no 'bank'; choose"),
            ("a bank, a bank", "bank", "has 'bank' 2 times, as words 2, 5; choose one: bank:1 or bank:2"),
            ("o o o o", "o", "has 'o' 4 times, as words 1, 2, 3, 4; choose one: o:1 or o:2 or o:4"),
            ("the bank", "bank:2", "has 'bank' once, as word 2; choose one: bank:1"),
            ("a bank, a bank", "bank:9", "has 'bank' 2 times, as words 2, 5; choose one: bank:1 or bank:2"),
            ("word " * 99, "bank", "40 word and 59 more"),
        ],
    )
    def test_refused(self, text: str, query: str, words: str) -> None:
        with pytest.raises(DataError) as error:
            word_locations(["x", text], ["x", query])
        assert words in str(error.value) and "\n" not in str(error.value)

    @pytest.mark.parametrize("words", [[], ["a", "b"], ["a"] * 4], ids=len)
    def test_as_many_words_as_texts(self, words: list[str]) -> None:
        with pytest.raises(UsageError, match=f"{len(words)} words for 3 sentences; give --word once for all or once"):
            word_locations(["a", "b", "c"], words)

    def test_empty_word(self) -> None:
        with pytest.raises(UsageError, match="word for sentence 1 is empty"):
            word_locations(["a", "b"], " ")


@pytest.mark.parametrize("follow", [sentence_trajectories, lambda *given: word_trajectories(*given, "a")])
@pytest.mark.parametrize(
    ("texts", "words"), [(["a"], "at least two"), ([], "at least two"), (["a", " "], "2 is empty")]
)
def test_texts_that_cannot_be_compared(follow: Any, texts: list[str], words: str, tiny: Encoder) -> None:
    with pytest.raises((UsageError, DataError), match=words):
        follow(tiny, texts)


def test_a_word_that_was_cut_off(tiny: Encoder) -> None:
    limit = tiny.tokenizer.limit
    near = "a " * (limit - 7) + "zebra"  # five letters and both special tokens just fit
    assert word_trajectories(tiny, [near, TEXTS[0]], "zebra").tokens[0][-1] == limit - 2
    for beyond in (f"a {near}", "a " * limit + "zebra"):
        with pytest.raises(DataError, match=f"'zebra' of sentence 1 lies beyond the model's limit of {limit} tokens"):
            word_trajectories(tiny, [beyond, TEXTS[0]], "zebra")
        assert word_trajectories(tiny, [f"b {beyond}", "c b"], "b").tokens == ((1,), (2,))


def test_a_word_without_a_token(tiny: Encoder) -> None:
    with pytest.raises(DataError, match="no token of its own"):
        word_trajectories(tiny, ["sea \u200b\u200b", "sea"], ["\u200b\u200b", "sea"])


def test_layers_need_torch(tiny: Encoder) -> None:
    other: Any = replace(tiny, backend=object())
    for follow in (lambda: word_trajectories(other, TEXTS[:2], "zebra"), lambda: sentence_trajectories(other, TEXTS)):
        with pytest.raises(UsageError, match="only the backend torch"):
            follow()


class TestShowing:
    PAIRS = (PairTrajectory(0, 1, ("a", "b"), (0.9, 0.2, 0.5)),)
    FOUND = Trajectories(
        "m", (0, 1, 2), PAIRS, ("a <x>", "b"), (WordLocation("a", 1, 1), WordLocation("b", 1, 1)), ((1,), (1,))
    )

    def test_names_tell_sentences_apart(self) -> None:
        def names(*words: str) -> tuple[str, ...]:
            locations = tuple(WordLocation(word, 1, 1) for word in words)
            return replace(self.FOUND, texts=("x",) * 3, locations=locations).names

        assert names("nice", "bad", "lovely") == ("nice", "bad", "lovely")
        assert names("bank", "bank", "bank") == names() == ("1", "2", "3")
        assert names("nice", "bad", "nice") == ("nice 1", "bad 2", "nice 3")

    def test_long_names_fit_a_panel(self) -> None:
        found = replace(
            self.FOUND, model="folder/" * 20 + "e5-small", locations=(WordLocation("word " * 20, 1, 20),) * 2
        )
        assert found.heading.startswith("…") and "/e5-small: word word" in found.heading
        assert len(found.heading) == 64 and self.FOUND.heading == "m: a, b"

    def test_lowest_layer_and_table(self) -> None:
        table = self.FOUND.tables()["cosines"]
        assert self.PAIRS[0].lowest == 1 and table.rows == [("m", "a / b", 0.9, 0.2, 0.5)]
        assert "<td>a / b</td><td class=number>0.900</td>" in self.FOUND._repr_html_()
        assert ResultSet((self.FOUND, self.FOUND)).tables()["cosines"].rows == [*table.rows, *table.rows]

    def test_json_is_json(self) -> None:
        found = json.loads(json.dumps(self.FOUND.to_dict()))
        assert found["pairs"] == [{"left": 0, "right": 1, "words": ["a", "b"], "cosine": [0.9, 0.2, 0.5]}]
        assert ResultSet((self.FOUND,)).to_dict() == self.FOUND.to_dict()

    def test_models_share_their_axes(self) -> None:
        deep = replace(
            self.FOUND, model="deep", layers=tuple(range(5)), pairs=(replace(self.PAIRS[0], cosine=(1.0,) * 5),)
        )
        both = ResultSet((self.FOUND, deep))
        axes = both.figures()["layers"].draw()
        panels = axes.figure.axes
        assert [panel.get_title() for panel in panels] == ["m: a, b", "deep: a, b"]
        assert panels[0].get_xlim() == panels[1].get_xlim() and panels[0].get_ylim() == panels[1].get_ylim()
        assert [len(panel.lines[0].get_xdata()) for panel in panels] == [3, 5]
        assert axes.figure.get_supxlabel() == "a: a <x>\nb: b"
        assert both.tables()["cosines"].texts()[0] == ["m", "a / b", "0.900", "0.200", "0.500", "", ""]

    def test_draws_into_the_given_axes(self) -> None:
        axes = self.FOUND.plot()
        assert self.FOUND.plot(axes) is axes and len(axes.lines) == 2
