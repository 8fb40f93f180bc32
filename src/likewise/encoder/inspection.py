"""Inspection: the tokens of texts, the special tokens, the sizes of a model and the shapes of its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from likewise.encoder import forward
from likewise.encoder.encoder import Encoder
from likewise.encoder.forward import Batch
from likewise.encoder.tokens import TokenizedText
from likewise.errors import DataError
from likewise.results import Column, Result, Table

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
class ModelInfo:
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
class TokenInfo:
    """One token of a text: mask 0 is padding."""

    token: str
    id: int
    type: int
    mask: int
    special: bool
    span: tuple[int, int]


@dataclass(frozen=True)
class TextInfo:
    """One text as its tokens."""

    text: str
    decoded: str
    tokens: tuple[TokenInfo, ...]
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
    """A model, its special tokens, the texts as a padded batch, and the shapes of the outputs."""

    model: ModelInfo
    special_tokens: tuple[SpecialToken, ...]
    texts: tuple[TextInfo, ...]
    outputs: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts and lists."""
        return asdict(self)

    @property
    def title(self) -> str:
        """The heading of the page."""
        return f"{self.model.name}: tokens, special tokens, sizes and outputs"

    def tables(self) -> dict[str, Table]:
        """The tokens of each text, the special tokens, the model's sizes and the shapes of its outputs."""
        tokens = {f"tokens_{number}": self._tokens(text) for number, text in enumerate(self.texts, start=1)}
        special = [(token.token, token.id, token.role, token.purpose) for token in self.special_tokens]
        model = [(name.replace("_", " "), _shown(value)) for name, value in vars(self.model).items()]
        return tokens | {
            "special_tokens": Table.of(("special token", "id", "role", "what it is for"), special),
            "model": Table.of(("model", Column("value", " ")), model),
            "outputs": Table.of(("output", "shape"), list(self.outputs.items())),
        }

    def _tokens(self, text: TextInfo) -> Table:
        rows = [
            (index, token.token, token.id, token.type, token.mask, "yes" if token.special else "", _span(token.span))
            for index, token in enumerate(text.tokens)
        ]
        cut = f" (cut at {self.model.max_tokens} tokens)" if text.truncated else ""
        header = (Column("index", "#"), "token", "id", "type", "mask", "special", "characters")
        return Table.of(header, rows, text.text[:200] + cut, f"decoded: {text.decoded[:500]}")


def inspect(encoder: Encoder, texts: Sequence[str], prompt: str | None = None) -> Inspection:
    """What an encoder makes of texts.

    >>> inspection = inspect(Encoder.load("minilm", device="cpu"), ["Hello there"])
    >>> [token.token for token in inspection.texts[0].tokens]
    ['[CLS]', 'hello', 'there', '[SEP]']
    """
    if not texts:
        raise DataError("no text to inspect; give at least one")
    tokens = encoder.tokenize(texts, prompt)
    width = max(1, *(len(text) for text in tokens))
    shown = tuple(_text_info(encoder, text, width) for text in tokens)
    return Inspection(_model_info(encoder), special_tokens(encoder), shown, _outputs(encoder, shown))


def _span(span: tuple[int, int]) -> str:
    return "" if span == (0, 0) else f"{span[0]}-{span[1]}"


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {text!r}" for name, text in value.items()) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


def special_tokens(encoder: Encoder) -> tuple[SpecialToken, ...]:
    """The tokenizer's special tokens, in a fixed order of roles."""
    vocabulary = encoder.tokenizer.vocabulary
    return tuple(
        SpecialToken(role, vocabulary.roles[role], number, purpose)
        for role, purpose in PURPOSES.items()
        if (number := vocabulary.id_of(role)) is not None
    )


def _model_info(encoder: Encoder) -> ModelInfo:
    model_view = encoder.model_view
    block = model_view.blocks[0]
    return ModelInfo(
        name=encoder.name, family=model_view.family, vocabulary=model_view.embeddings.word.weight.shape[0],
        layers=model_view.layers, hidden_size=model_view.hidden_size,
        feed_forward_size=block.feed_forward.up.weight.shape[0], heads=block.attention.heads,
        parameters=sum(weight.numel() for weight in encoder.model.parameters()), max_tokens=encoder.tokenizer.limit,
        pooling=encoder.pooling_config.pooling, dimension=encoder.dimension,
        prompts=dict(encoder.modules_config.prompts),
    )  # fmt: skip


def _text_info(encoder: Encoder, text: TokenizedText, width: int) -> TextInfo:
    vocabulary = encoder.tokenizer.vocabulary
    rows = [
        TokenInfo(token, number, kind, 1, special, span)
        for token, number, kind, special, span in zip(
            text.tokens, text.ids, text.types, text.special, text.offsets, strict=True
        )
    ]
    pad, name = vocabulary.id_of("pad") or 0, vocabulary.roles.get("pad", "(padding)")
    rows += [TokenInfo(name, pad, 0, 0, True, (0, 0))] * (width - len(rows))
    decoded = vocabulary.backend.decode(list(text.ids), skip_special_tokens=False)
    return TextInfo(str(text.text), decoded, tuple(rows), text.truncated)


def _outputs(encoder: Encoder, texts: tuple[TextInfo, ...]) -> dict[str, str]:
    """The shapes of the outputs of the padded batch."""

    def tensor(field: str) -> torch.Tensor:
        rows = [[getattr(token, field) for token in text.tokens] for text in texts]
        return torch.tensor(rows, dtype=torch.long, device=encoder.device)

    batch = Batch(tensor("id"), tensor("type"), tensor("mask"))
    with torch.inference_mode():
        x = forward.embed(encoder.model_view, batch)
        steps = list(forward.layers(encoder.model_view, x, batch.mask, maps=True))
        assert steps[1].maps is not None
    shapes = {
        "embeddings": str(tuple(x.shape)),
        "hidden_states": f"{len(steps)} x {tuple(steps[0].states.shape)}",
        "attentions": f"{len(steps) - 1} x {tuple(steps[1].maps.shape)}",
        "last_hidden_state": str(tuple(steps[-1].states.shape)),
    }
    if encoder.model_view.pooler is not None:
        shapes["pooler_output"] = str((len(texts), encoder.model_view.hidden_size))
    return shapes | {"sentence_vectors": str((len(texts), encoder.dimension))}
