"""The cross-encoder: name or path -> CrossEncoder; pairs of texts, each read as one sequence -> logits and scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from likewise.encoder import classification, weights
from likewise.encoder.classification import Head
from likewise.encoder.config import (
    CLASSIFIER,
    CONFIG,
    CROSS_ENCODER,
    holds_cross_encoder,
    modules_config_of,
    optional_json,
    read_config,
    read_modules_config,
    read_score_head,
)
from likewise.encoder.encoder import Encoder, Source
from likewise.encoder.forward import Batch, embed, exact_length_batches, windows
from likewise.encoder.model_view import ModelView
from likewise.encoder.pooling import HEAD_ACTIVATIONS, ModulesConfig, PoolingConfig
from likewise.encoder.similarity import paired_similarity
from likewise.encoder.tokens import TokenizedText, Tokenizer, Vocabulary, report_truncation
from likewise.encoder.weights import model_view
from likewise.errors import DataError, ModelError, UsageError
from likewise.progress import Progress, Ticker

if TYPE_CHECKING:
    from likewise.encoder.onnx_model import OnnxModel

BACKENDS = ("torch", "onnx")
SORTED_PAIRS = 16384  # Pairs that are tokenized and sorted together; bounds the memory of ids
CROSS = "cross-encoder"  # What tables have instead of a pooling
Numbers = NDArray[Any]  # float32, or float64 if the model is
Pair = Any  # Two texts as a tuple or a list, or an object with a left and a right text


@dataclass(frozen=True, eq=False, repr=False)
class CrossEncoder:
    """A reranker: it reads two texts as one sequence and gives a score, or one for each of several labels.

    The vectors of ``encoder`` are the logits of a sequence. It is None if ONNX Runtime runs the model.

    >>> reranker = CrossEncoder.load("models/reranker")  # doctest: +SKIP
    >>> reranker.score([("How high is Etna?", "Etna is 3403 m high."), ("How high is Etna?", "It rains.")]).round(2)
    ... # doctest: +SKIP
    array([0.99, 0.  ], dtype=float32)
    """

    name: str
    tokenizer: Tokenizer
    modules_config: ModulesConfig  # prompts and limits, and the layers of the head
    labels: tuple[str, ...]
    activation: str  # from logits to scores, by the name of torch's module
    encoder: Encoder | None = None
    onnx: OnnxModel | None = None
    label: str | None = None  # the label whose score counts; None if there is only one

    def __post_init__(self) -> None:
        if self.activation not in HEAD_ACTIVATIONS:
            known = ", ".join(HEAD_ACTIVATIONS)
            raise ModelError(f"{self.name}: scores by {self.activation} are not supported; supported are {known}")
        if self.label is not None and self.label not in self.labels:
            raise UsageError(f"{self.name} has no label {self.label!r}; choose from {', '.join(self.labels)}")

    def __repr__(self) -> str:
        labels = "" if len(self.labels) == 1 else f": labels {', '.join(self.labels)}"
        return f"<{type(self).__name__} {self.name}{labels}>"

    # Creating

    @classmethod
    def load(
        cls,
        name: Source,
        *,
        device: str = "auto",
        threads: int | None = None,
        dtype: str = "float32",
        backend: str = "torch",
        label: str | None = None,
    ) -> CrossEncoder:
        """Load a cross-encoder by folder or hub id; of sentence-transformers' CrossEncoder the weights are shared.

        With the backend onnx, the folder's own ONNX file runs as it is. ``label`` is the one whose score counts.
        """
        if not isinstance(name, (str, Path)):
            return replace(cls.from_sentence_transformers(name), label=label)
        if backend not in BACKENDS:
            raise UsageError(f"a cross-encoder runs with the backend torch or onnx, not {backend!r}; choose one")
        weights.set_threads(threads)
        folder = weights.locate(str(name))
        if backend == "onnx":
            return cls._of_onnx(str(name), folder, label)
        modules = read_modules_config(folder)
        own, last = folder / modules.transformer, read_score_head(folder)
        if last is None:
            head = classification.read_head(own, getattr(torch, dtype))
        else:
            head = Head.of(modules.pooling, (*modules.heads, last))
        model, views = weights.load_transformer(own, dtype)
        activation = classification.activation_of(folder, read_config(own), len(head.labels))
        encoder = _encoder(str(name), model, views, Vocabulary.read(own), _with_head(modules, head, views))
        version = weights.weights_version(model)
        encoder = replace(encoder, folder=folder, loaded_version=version).to(device)
        return cls(
            encoder.name, encoder.tokenizer, encoder.modules_config, head.labels, activation, encoder, None, label
        )

    @classmethod
    def from_sentence_transformers(cls, model: Any, name: str = "cross-encoder") -> CrossEncoder:
        """Wrap sentence-transformers' CrossEncoder in memory; its weights are shared, not copied."""
        module = getattr(model[0], "auto_model", None) or model[0].model
        modules = modules_config_of(model)
        if type(module).__name__.endswith(CLASSIFIER):
            head = classification.head_of(module.config.to_dict(), module.state_dict())
            module = getattr(module, module.base_model_prefix)
        else:
            head = Head.of(modules.pooling, modules.heads)
        views = model_view(module)
        encoder = _encoder(name, module, views, Vocabulary.of(model.tokenizer), _with_head(modules, head, views))
        activation = type(model.activation_fn).__name__
        return cls(name, encoder.tokenizer, encoder.modules_config, head.labels, activation, encoder)

    @classmethod
    def _of_onnx(cls, name: str, folder: Path, label: str | None) -> CrossEncoder:
        from likewise.encoder.onnx_model import OnnxModel

        onnx = OnnxModel.open(folder)
        modules, config = read_modules_config(folder), optional_json(folder / CONFIG)
        labels = classification.label_names(config, onnx.outputs)
        tokenizer = Tokenizer.within(Vocabulary.read(folder), modules.max_length, onnx.max_positions, modules.lower)
        activation = classification.activation_of(folder, config, len(labels))
        return cls(name, tokenizer, modules, labels, activation, None, onnx, label)

    def with_label(self, label: str | None) -> CrossEncoder:
        """The same model with the score of another label."""
        return replace(self, label=label)

    @property
    def hash(self) -> str:
        """The sha256 of the weights."""
        if self.onnx is not None:
            return self.onnx.hash
        assert self.encoder is not None
        return self.encoder.hash

    # Pairs -> scores

    @property
    def label_index(self) -> int:
        """The number of the label that counts."""
        if self.label is None and len(self.labels) > 1:
            raise UsageError(f"{self.name} has the labels {', '.join(self.labels)}; choose one by label (--label)")
        return 0 if self.label is None else self.labels.index(self.label)

    def tokenize(self, pairs: Sequence[tuple[str, str]], prompt: str | None = None) -> list[TokenizedText]:
        """The tokens of pairs, each as one sequence; a prompt precedes the first text."""
        found = self.tokenizer.tokenize(pairs, self.modules_config.prompt_for(None) if prompt is None else prompt)
        if "token_type_ids" in self.tokenizer.vocabulary.inputs:
            return found
        # The model was trained without types: transformers gives it none.
        return [replace(tokens, types=(0,) * len(tokens)) for tokens in found]

    def logits(self, pairs: Iterable[Pair], *, prompt: str | None = None, progress: Progress | None = None) -> Numbers:
        """The logits (n, L) of n pairs for L labels."""
        rows, cut = [two_texts(pair) for pair in pairs], 0
        prompt = self.modules_config.prompt_for(None) if prompt is None else prompt
        ticker = Ticker(progress, len(rows), "pairs")
        wide = self.encoder is not None and self.encoder.model_view.dtype == torch.float64
        found = np.zeros((len(rows), len(self.labels)), np.float64 if wide else np.float32)
        for start, window in enumerate(windows(rows, SORTED_PAIRS)):
            tokens = self.tokenize(window, prompt)
            cut += sum(each.truncated for each in tokens)
            for indices in exact_length_batches([len(each) for each in tokens]):
                batch = [tokens[index] for index in indices]
                found[np.array(indices) + start * SORTED_PAIRS] = self._run(batch, prompt)
                ticker.add(len(indices))
        ticker.close()
        report_truncation(cut, len(rows), self.tokenizer.limit)
        return found

    @torch.inference_mode()
    def _run(self, batch: Sequence[TokenizedText], prompt: str) -> Numbers:
        """The logits (B, L) of pairs of one length."""
        if self.onnx is not None:
            return self.onnx.logits(batch)
        assert self.encoder is not None
        rows = torch.tensor([(each.ids, each.types) for each in batch], dtype=torch.long, device=self.encoder.device)
        x = embed(self.encoder.model_view, Batch(rows[:, 0], rows[:, 1]))
        found = self.encoder.vectors_from(x, self.encoder.pooling_mask_of(rows[:, 0], prompt))
        array: Numbers = (found if found.dtype == torch.float64 else found.float()).cpu().numpy()
        return array

    def activated(self, logits: Numbers) -> Numbers:
        """Logits as scores."""
        scores: Numbers = HEAD_ACTIVATIONS[self.activation](torch.from_numpy(np.asarray(logits))).numpy()
        return scores

    def predict(self, pairs: Iterable[Pair], **options: Any) -> Numbers:
        """The scores of n pairs: (n,), or (n, L) for several labels."""
        found = self.activated(self.logits(pairs, **options))
        return found[:, 0] if len(self.labels) == 1 else found

    def score(self, pairs: Iterable[Pair], **options: Any) -> Numbers:
        """The score of each of n pairs for the label that counts: (n,)."""
        chosen = self.label_index
        return self.activated(self.logits(pairs, **options))[:, chosen]

    def rank(self, query: str, texts: Sequence[str], **options: Any) -> list[tuple[int, float]]:
        """The texts' indices and scores for a query, best first."""
        scores = self.score([(query, text) for text in texts], **options)
        return [(int(row), float(scores[row])) for row in np.argsort(-scores, kind="stable")]


def _with_head(modules: ModulesConfig, head: Head, views: ModelView) -> ModulesConfig:
    """The modules with a head as their last layers."""
    changed = replace(modules, pooling=head.pooling, heads=head.layers, normalizes=False, learned=None, note="")
    return changed.to(views.device, views.dtype)


def _encoder(name: str, model: Any, views: ModelView, vocabulary: Vocabulary, modules: ModulesConfig) -> Encoder:
    """The encoder whose vectors are logits."""
    tokenizer = Tokenizer.within(vocabulary, modules.max_length, views.max_positions, modules.lower)
    made = Encoder(
        name, model, model_view=views, tokenizer=tokenizer, modules_config=modules, pooling_config=PoolingConfig()
    )
    return made.with_pooling(pooling=modules.pooling)


def two_texts(pair: Pair) -> tuple[str, str]:
    """The two texts of a pair."""
    both = tuple(pair) if isinstance(pair, (tuple, list)) else (pair.left, pair.right)
    if len(both) != 2:
        raise DataError(f"a pair is two texts, got {len(both)}")
    return both[0], both[1]


Scoring = Encoder | CrossEncoder


def load_scoring(name: Source, label: str | None = None, **options: Any) -> Scoring:
    """A name, a folder or an object of sentence-transformers -> its cross-encoder, or else its encoder.

    >>> load_scoring("minilm", device="cpu")
    <Encoder minilm: 6 layers, 384 dimensions, mean pooling>
    """
    if isinstance(name, (Encoder, CrossEncoder)):
        return name
    if is_cross_encoder(name):
        return CrossEncoder.load(name, label=label, **options)
    if label is not None:
        raise UsageError(f"{name} has no labels: it is no cross-encoder; leave label out")
    return Encoder.load(name, **options)


def is_cross_encoder(name: Source) -> bool:
    """Whether a name, a folder or an object of sentence-transformers is a cross-encoder."""
    if isinstance(name, (str, Path)):
        return holds_cross_encoder(weights.locate(str(name)))
    return type(name).__name__ == CROSS_ENCODER


def pooling_of(scoring: Scoring) -> str:
    """What tables name as the pooling of a model."""
    return CROSS if isinstance(scoring, CrossEncoder) else scoring.pooling_config.pooling


def pair_scores(scoring: Scoring, pairs: Iterable[Pair], progress: Progress | None = None) -> Numbers:
    """The score of each of n pairs, (n,): a cross-encoder's, or the cosine of an encoder's two vectors.

    >>> pair_scores(Encoder.load("minilm", device="cpu"), [("A cat sat.", "A cat slept.")]).shape
    (1,)
    """
    if isinstance(scoring, CrossEncoder):
        return scoring.score(pairs, progress=progress)
    rows = [two_texts(pair) for pair in pairs]
    texts = list(dict.fromkeys(text for row in rows for text in row))
    place = {text: index for index, text in enumerate(texts)}
    vectors = scoring.encode(texts, progress=progress)
    left, right = ([place[row[side]] for row in rows] for side in (0, 1))
    return paired_similarity(vectors[left], vectors[right])
