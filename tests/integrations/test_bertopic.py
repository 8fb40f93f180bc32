"""BERTopic: a topic model on our vectors, and topics whose words sum exactly to the mean cosine with the centroid."""

from __future__ import annotations

import numpy as np
import pytest

from likewise.encoder import Encoder
from likewise.encoder.similarity import unit
from likewise.errors import DataError

pytest.importorskip("bertopic", reason="BERTopic is not installed (extra: bertopic)")

from bertopic import BERTopic
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import CountVectorizer

from likewise.integrations.bertopic import LikewiseBackend, SharesRepresentation, topic_shares

pytestmark = pytest.mark.nightly

WEATHER = ["The storm closed the bridge.", "Heavy rain flooded the town.", "Snow fell for days.", "A storm is coming.",
           "The rain did not stop.", "Snow covered the streets."]  # fmt: skip
MONEY = ["The bank cut interest rates.", "Shares fell at the bank.", "Prices rose again.", "The bank lent money.",
         "Interest on loans rose.", "Money is short this year."]  # fmt: skip


def test_a_topic_is_an_exact_sum(minilm: Encoder) -> None:
    found = topic_shares(minilm, WEATHER)
    vectors = unit(minilm.encode(WEATHER)).astype(np.float64)
    mean = float((vectors @ unit(vectors.mean(0))).mean())
    assert found.cosine == pytest.approx(mean, abs=1e-5)
    assert sum(found.words.values()) + found.rest == pytest.approx(found.cosine, abs=1e-9)
    assert {"storm", "rain", "snow"} <= {word for word, _ in found.strongest(6, frozenset({"the", "a", "is"}))}


def test_of_many_texts_evenly_spread_ones_are_explained(minilm: Encoder) -> None:
    assert "interest" not in topic_shares(minilm, WEATHER + MONEY, most=1).words
    with pytest.raises(DataError, match="at least one text"):
        topic_shares(minilm, [])


def test_a_topic_model_with_our_vectors_and_words(minilm: Encoder) -> None:
    words = SharesRepresentation(minilm, top_n_words=4)
    model = BERTopic(
        embedding_model=LikewiseBackend(minilm), representation_model=words, umap_model=PCA(2, random_state=0),
        hdbscan_model=KMeans(2, n_init=10, random_state=0), vectorizer_model=CountVectorizer(stop_words="english"),
    )  # fmt: skip
    topics, _ = model.fit_transform(WEATHER + MONEY)
    weather, money = topics[0], topics[6]
    assert topics == [weather] * 6 + [money] * 6 and weather != money
    assert {"storm", "rain", "snow"} <= {word for word, _ in model.get_topic(weather)}
    assert {"bank", "money"} <= {word for word, _ in model.get_topic(money)}
    whole = words.topic_shares_[money]
    assert dict(model.get_topic(money)).items() <= dict(whole.words).items() and "the" in whole.words
    assert sum(whole.words.values()) + whole.rest == pytest.approx(whole.cosine, abs=1e-9)
    found, _ = model.find_topics("thunder and hail", top_n=1)
    assert found == [weather]
