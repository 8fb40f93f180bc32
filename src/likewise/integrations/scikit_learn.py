"""scikit-learn: an encoder as a transformer of texts, for pipelines, searches over settings and column transformers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from likewise.encoder import Encoder
from likewise.explain import Attribution, attribute
from likewise.integrations.texts import text_list


class TextVectorizer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Turns texts into the vectors of an encoder.

    ``model`` is a name, a folder, an ``Encoder`` or a ``SentenceTransformer``; a name is best where scikit-learn copies
    the transformer, since an object is copied with its weights. ``pooling`` and ``layer`` are those of
    ``Encoder.load``; None is the model's own. Nothing is learned: ``fit`` loads the model.

    >>> TextVectorizer("minilm").fit_transform(["A cat sat.", "A dog ran."]).shape
    (2, 384)
    """

    def __init__(
        self, model: Any = "minilm", *, prompt: str | None = None, pooling: str | None = None,
        layer: int | None = None, batch_size: int | None = None,
    ) -> None:  # fmt: skip
        self.model, self.prompt, self.pooling = model, prompt, pooling
        self.layer, self.batch_size = layer, batch_size

    def fit(self, X: Any, y: Any = None) -> TextVectorizer:  # noqa: ARG002
        """Load the model; the texts are only checked."""
        text_list(X)
        chosen: dict[str, Any] = {"pooling": self.pooling, "layer": self.layer}
        given = {name: value for name, value in chosen.items() if value is not None}
        encoder = self.model if isinstance(self.model, Encoder) else Encoder.load(self.model)
        self.encoder_ = encoder.with_pooling(**given) if given else encoder
        self._n_features_out = self.encoder_.dimension
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Texts (n,), or one column (n, 1) -> vectors (n, d)."""
        check_is_fitted(self)
        vectors: NDArray[np.float32] = self.encoder_.encode(
            text_list(X), prompt=self.prompt, batch_size=self.batch_size
        )
        return vectors

    def attribute(self, X: Any, directions: Any, **options: Any) -> Attribution:
        """What each word adds along directions, such as a classifier that was fitted on these vectors.

        See :func:`likewise.explain.attribute`, which takes the same directions and options.
        """
        check_is_fitted(self)
        found: Attribution = attribute(self.encoder_, text_list(X), directions, prompt=self.prompt, **options)
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        return tags
