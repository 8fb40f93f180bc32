"""Inspection: tokens of texts, sizes of the model, output shapes; and cosines of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from likewise.encoder import forward
from likewise.encoder.cross_encoder import Scoring, pooling_of
from likewise.encoder.encoder import Encoder
from likewise.encoder.forward import Batch
from likewise.encoder.tokens import TokenizedText
from likewise.errors import DataError, UsageError
from likewise.metrics import ScoreMeaning
from likewise.plotting.heatmap import heatmap
from likewise.results import Column, Figure, Result, Table

PURPOSES = {
    "cls": "opens every sequence; its state can stand for the whole text",
    "bos": "opens every sequence",
    "sep": "closes a text and separates the two texts of a pair",
    "eos": "closes a text; in decoders its state has seen every token",
    "pad": "fills shorter texts of a batch up; the mask hides it",
    "mask": "stands for a hidden token, in training and in perturbation tests",
    "unk": "stands for what the vocabulary does not know",
}


@dataclass(frozen=True)
class ModelSummary:
    """The model in numbers."""

    name: str
    family: str
    vocabulary: int
    layers: int
    hidden_size: int
    feed_forward_size: int
    heads: int
    parameters: int
    max_tokens: int
    pooling: str
    dimension: int
    prompts: dict[str, str]


@dataclass(frozen=True)
class InspectedToken:
    """One token of a text: mask 0 is padding."""

    token: str
    id: int
    type: int
    mask: int
    special: bool
    span: tuple[int, int]


@dataclass(frozen=True)
class InspectedText:
    """One text as the model sees it."""

    text: str
    decoded: str
    tokens: tuple[InspectedToken, ...]
    truncated: bool


@dataclass(frozen=True)
class SpecialToken:
    """A special token and what it is for."""

    role: str
    token: str
    id: int
    purpose: str


@dataclass(frozen=True, repr=False)
class Inspection(Result):
    """A model, its special tokens, the texts as a padded batch, and the shapes of what comes out."""

    model: ModelSummary
    special_tokens: tuple[SpecialToken, ...]
    texts: tuple[InspectedText, ...]
    outputs: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts and lists."""
        return asdict(self)

    @property
    def title(self) -> str:
        """The heading of the page."""
        return f"What {self.model.name} makes of a text"

    def tables(self) -> dict[str, Table]:
        """The tokens of each text, the special tokens, the model, and the shapes of its outputs."""
        tables = {}
        header = ("#", "token", "id", "type", "mask", "special", "characters")
        for number, text in enumerate(self.texts, start=1):
            spans = ["" if one.span == (0, 0) else "{}-{}".format(*one.span) for one in text.tokens]
            rows = [
                (index, one.token, one.id, one.type, one.mask, "yes" if one.special else "", span)
                for index, (one, span) in enumerate(zip(text.tokens, spans, strict=True))
            ]
            cut = f" (cut at {self.model.max_tokens} tokens)" if text.truncated else ""
            title, note = text.text[:200] + cut, f"decoded: {text.decoded[:500]}"
            tables[f"tokens_{number}"] = Table.of(header, rows, title, note)
        special = [(one.token, one.id, one.role, one.purpose) for one in self.special_tokens]
        model = [(name.replace("_", " "), _shown(value)) for name, value in vars(self.model).items()]
        return tables | {
            "special_tokens": Table.of(("special token", "id", "role", "what it is for"), special),
            "model": Table.of(("model", Column("value", " ")), model),
            "outputs": Table.of(("output", "shape"), self.outputs.items()),
        }


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {text!r}" for name, text in value.items()) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


@dataclass(frozen=True, eq=False, repr=False)
class Similarities(Result):
    """Cosines (n, m) of n texts with m others, or a cross-encoder's scores of all these pairs."""

    model: str
    pooling: str
    left: Sequence[str]
    right: Sequence[str]
    scores: NDArray[np.float32]
    measure: str = "cosine"
    meanings: Sequence[Sequence[ScoreMeaning]] = ()  # of each score, by a calibration

    @property
    def title(self) -> str:
        """The heading of the page."""
        return f"{self.measure.capitalize()}s by {self.model}"

    def to_dict(self) -> dict[str, Any]:
        """The texts and their scores."""
        texts = {"left": list(self.left), "right": list(self.right), "similarity": self.scores.tolist()}
        meanings = {"meaning": [[one.to_dict() for one in row] for row in self.meanings]} if self.meanings else {}
        return {"model": self.model, "pooling": self.pooling} | texts | meanings

    def tables(self) -> dict[str, Table]:
        """A text with others, or every text with every other."""
        scores = self.scores.tolist()
        if self.meanings:
            rows = [
                (score, str(meaning), left, right)
                for left, scores, meanings in zip(self.left, self.scores.tolist(), self.meanings, strict=True)
                for right, score, meaning in zip(self.right, scores, meanings, strict=True)
            ]
            return {"similarity": Table.of((self.measure, "meaning", "left", "right"), rows)}
        if len(self.left) == 1:
            return {"similarity": Table.of((self.measure, self.left[0]), zip(scores[0], self.right, strict=True))}
        rows = [(f"{number} {text}", *row) for number, (text, row) in enumerate(zip(self.left, scores, strict=True), 1)]
        numbers = [str(number) for number in range(1, len(self.right) + 1)]
        return {"similarity": Table.of((Column("text", " "), *numbers), rows)}

    def figures(self) -> dict[str, Figure]:
        """The scores as a heat map."""
        return {"similarity": Figure(lambda: heatmap(self.scores, self.left, self.right, self.title), self.title)}


def text_similarities(scoring: Scoring, texts: Sequence[str], matrix: bool = False) -> Similarities:
    """The first text with each other one; or, as a matrix, every text with every other.

    >>> text_similarities(Encoder.load("minilm", device="cpu"), ["a cat", "a dog"]).scores.shape
    (1, 1)
    """
    if len(texts) < 2:
        raise UsageError("give at least two texts to compare")
    left, right = (texts, texts) if matrix else (texts[:1], texts[1:])
    if isinstance(scoring, Encoder):
        return Similarities(scoring.name, pooling_of(scoring), left, right, scoring.similarity(left, right))
    scores = scoring.score([(one, other) for one in left for other in right]).reshape(len(left), len(right))
    return Similarities(scoring.name, pooling_of(scoring), left, right, scores, "score")


def inspect(encoder: Encoder, texts: Sequence[str], prompt: str | None = None) -> Inspection:
    """Look at texts through an encoder.

    >>> inspection = inspect(Encoder.load("minilm", device="cpu"), ["Hello there"])
    >>> [token.token for token in inspection.texts[0].tokens]
    ['[CLS]', 'hello', 'there', '[SEP]']
    """
    if not texts:
        raise DataError("no text to inspect; give at least one")
    tokens = encoder.tokenize(texts, prompt)
    width = max(1, *(len(text) for text in tokens))
    inspected = tuple(_inspected_text(encoder, text, width) for text in tokens)
    return Inspection(_model_summary(encoder), special_tokens(encoder), inspected, _outputs(encoder, inspected))


def special_tokens(encoder: Encoder) -> tuple[SpecialToken, ...]:
    """The special tokens that the tokenizer has, in a fixed order of roles."""
    vocabulary = encoder.tokenizer.vocabulary
    return tuple(
        SpecialToken(role, vocabulary.roles[role], number, purpose)
        for role, purpose in PURPOSES.items()
        if (number := vocabulary.id_of(role)) is not None
    )


def _model_summary(encoder: Encoder) -> ModelSummary:
    model_view = encoder.model_view
    return ModelSummary(
        name=encoder.name,
        family=model_view.family,
        vocabulary=model_view.embeddings.word.weight.shape[0],
        layers=model_view.layers,
        hidden_size=model_view.hidden_size,
        feed_forward_size=model_view.feed_forward_size,
        heads=model_view.heads,
        parameters=sum(weight.numel() for weight in encoder.model.parameters()),
        max_tokens=encoder.tokenizer.limit,
        pooling=encoder.pooling_config.pooling,
        dimension=encoder.dimension,
        prompts=dict(encoder.modules_config.prompts),
    )


def _inspected_text(encoder: Encoder, text: TokenizedText, width: int) -> InspectedText:
    vocabulary = encoder.tokenizer.vocabulary
    columns = zip(text.tokens, text.ids, text.types, [1] * len(text), text.special, text.offsets, strict=True)
    rows = [InspectedToken(*row) for row in columns]
    pad, name = vocabulary.id_of("pad") or 0, vocabulary.roles.get("pad", "(padding)")
    rows += [InspectedToken(name, pad, 0, 0, True, (0, 0))] * (width - len(rows))
    decoded = vocabulary.backend.decode(list(text.ids), skip_special_tokens=False)
    return InspectedText(str(text.text), decoded, tuple(rows), text.truncated)


def _outputs(encoder: Encoder, texts: tuple[InspectedText, ...]) -> dict[str, str]:
    """Run the padded batch and write down the shapes that really come out."""

    def tensor(field: str) -> torch.Tensor:
        rows = [[getattr(token, field) for token in text.tokens] for text in texts]
        return torch.tensor(rows, dtype=torch.long, device=encoder.device)

    batch = Batch(tensor("id"), tensor("type"), tensor("mask"))
    with torch.inference_mode():
        x = forward.embed(encoder.model_view, batch)
        steps = list(forward.layers(encoder.model_view, x, batch.mask, maps=True))
        maps = [step.maps for step in steps if step.maps is not None]
        shapes = {
            "embeddings": str(tuple(x.shape)),
            "hidden_states": f"{len(steps)} x {tuple(steps[0].states.shape)}",
            **({"attentions": f"{len(maps)} x {tuple(maps[0].shape)}"} if maps else {}),
            "last_hidden_state": str(tuple(steps[-1].states.shape)),
        }
    if encoder.model_view.pooler is not None:
        shapes["pooler_output"] = str((len(texts), encoder.model_view.hidden_size))
    return shapes | {"sentence_vectors": str((len(texts), encoder.dimension))}
