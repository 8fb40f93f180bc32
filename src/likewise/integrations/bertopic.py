"""BERTopic: an embedding backend, and topics described by exact shares of words in the similarity to a centroid."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from likewise.encoder import Encoder, as_encoder
from likewise.encoder.encoder import Source
from likewise.encoder.similarity import unit
from likewise.errors import DataError, MissingExtra
from likewise.explain import Direction, attribute

try:
    from bertopic.backend import BaseEmbedder
    from bertopic.representation._base import BaseRepresentation
except ImportError as error:
    raise MissingExtra("bertopic", "bertopic") from error

Topics = dict[int, list[tuple[str, float]]]


class LikewiseBackend(BaseEmbedder):
    """The vectors of an encoder: ``BERTopic(embedding_model=LikewiseBackend("minilm"))``."""

    def __init__(self, model: Source = "minilm") -> None:
        self.encoder = as_encoder(model)
        super().__init__(embedding_model=self.encoder)

    def embed(self, documents: Sequence[str], verbose: bool = False) -> np.ndarray[Any, Any]:
        """The vectors (n, d) of documents or words."""
        return np.asarray(self.encoder.encode(list(documents), show_progress_bar=verbose))


@dataclass(frozen=True)
class TopicShares:
    """The mean cosine of texts with their centroid, as a sum: the share of each word, and the rest."""

    words: Mapping[str, float]
    rest: float  # biases, special tokens and punctuation
    cosine: float

    def strongest(self, count: int, left_out: frozenset[str] = frozenset()) -> list[tuple[str, float]]:
        """The words that add the most, largest share first."""
        kept = [(word, share) for word, share in self.words.items() if word not in left_out]
        return sorted(kept, key=lambda item: -item[1])[:count]


def topic_shares(encoder: Encoder | Source, texts: Sequence[str], most: int = 100) -> TopicShares:
    """Which words make texts similar to their centroid; of more than ``most`` texts, evenly spread ones are explained.

    The centroid is that of all texts. Words that differ in their letters' case only are one.
    """
    if not texts:
        raise DataError("a topic needs at least one text")
    model, rows = as_encoder(encoder), list(texts)
    mean = unit(model.encode(rows)).astype(np.float64).mean(0)
    chosen = rows if len(rows) <= most else [rows[i] for i in np.linspace(0, len(rows) - 1, most).astype(int)]
    found = attribute(model, chosen, Direction("centroid", mean / np.linalg.norm(mean)), similarity="cosine").texts
    words: dict[str, float] = defaultdict(float)
    for one in found:
        for part, share in zip(one.text.units, one.shares[0].tolist(), strict=True):
            if part.kind == "text" and any(map(str.isalnum, part.text)):
                words[part.text.lower()] += share / len(found)
    cosine = float(np.mean([one.scores[0] for one in found]))
    return TopicShares(dict(words), cosine - sum(words.values()), cosine)


class SharesRepresentation(BaseRepresentation):
    """Describes each topic by the words that add the most to the cosine of its documents with their centroid.

    Stop words of the topic model's vectorizer are left out of the description. ``topic_shares_`` holds the whole sum of
    each topic.
    """

    def __init__(self, model: Any = "minilm", top_n_words: int = 10, most_documents: int = 100) -> None:
        self.model, self.top_n_words, self.most_documents = model, top_n_words, most_documents

    def extract_topics(self, topic_model: Any, documents: Any, c_tf_idf: Any, topics: Mapping[int, Any]) -> Topics:  # noqa: ARG002
        """The description of each topic, as BERTopic asks for it."""
        encoder, texts = as_encoder(self.model), documents.groupby("Topic")["Document"].apply(list)
        stop_words = frozenset(topic_model.vectorizer_model.get_stop_words() or ())
        self.topic_shares_ = {topic: topic_shares(encoder, texts[topic], self.most_documents) for topic in topics}
        return {topic: one.strongest(self.top_n_words, stop_words) for topic, one in self.topic_shares_.items()}
