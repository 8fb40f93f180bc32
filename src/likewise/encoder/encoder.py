"""The encoder: name or path -> Encoder; texts -> tokens, hidden states, attention maps, vectors."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from likewise.encoder import catalogue, similarity
from likewise.encoder.batches import TOKEN_BUDGET, exact_length_batches, windows
from likewise.encoder.device import choose_device, copied_to, set_threads
from likewise.encoder.families import config_of, model_view
from likewise.encoder.forward import Batch
from likewise.encoder.model_view import ModelView
from likewise.encoder.modules_config import ModulesConfig, modules_config_of, read_modules_config
from likewise.encoder.pooling import LEARNED, MODEL_POOLER, POOLERS, LearnedPooling, pooling_parts
from likewise.encoder.pooling_head import PoolingArguments, PoolingConfig
from likewise.encoder.postprocessing import PostProcessing
from likewise.encoder.tensors import TensorEncoder
from likewise.encoder.tensors import Vectors as Vectors
from likewise.encoder.tensors import report_truncation as report_truncation
from likewise.encoder.tokens import Tokenizer
from likewise.encoder.vocabulary import Vocabulary
from likewise.encoder.weights import load_transformer, tensors_hash, weights_hash, weights_version
from likewise.errors import ModelError, UsageError
from likewise.progress import Progress, Ticker, progress_bar

if TYPE_CHECKING:
    from likewise.encoder.onnx_backend import OnnxBackend


log = logging.getLogger("likewise")

SORTED_TEXTS = 16384
"""Texts that are tokenized and sorted together; bounds the memory of ids."""

CHANGED = -1
"""A version that no weights have."""

Source = Any
"""A model's folder or name, or a SentenceTransformer."""


@dataclass(frozen=True)
class Encoded:
    """Vectors (n, d) of n texts, and how many texts were truncated.

    >>> Encoded(np.zeros((1, 2), np.float32), truncated=1).truncated
    1
    """

    vectors: Vectors
    truncated: int


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Encoder(TensorEncoder):
    """A text encoder: a transformer with its tokenizer, its modules and its pooling.

    ``Encoder("minilm")`` is ``Encoder.load("minilm")``; of a SentenceTransformer the weights are shared.

    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> encoder
    <Encoder minilm: 6 layers, 384 dimensions, mean pooling>
    >>> encoder.encode(["A cat sat.", "A dog ran."]).shape
    (2, 384)
    """

    name: str
    model: nn.Module = field(repr=False)
    """the weights by name: a ``Transformer``, or a Hugging Face model"""
    model_view: ModelView = field(repr=False)
    tokenizer: Tokenizer = field(repr=False)
    modules_config: ModulesConfig = field(repr=False)
    pooling_config: PoolingConfig
    folder: Path | None = None
    """where the weights were loaded from"""
    loaded_version: int = field(default=0, repr=False)
    """the version of the weights at that time; another version now means that they were trained"""
    postprocessing: PostProcessing | None = None
    backend: OnnxBackend | None = None
    """runs the layers of ``encode`` instead of torch"""

    def __init__(self, name: Source = catalogue.BUNDLED, model: nn.Module | None = None, **parts: Any) -> None:
        """Load a model or wrap a SentenceTransformer; with ``model``, ``parts`` are the fields of this class."""
        unset = {field.name: field.default for field in fields(self) if field.default is not MISSING}
        given = unset | {"name": name, "model": model, **parts}
        for key, value in (vars(self.load(name, **parts)) if model is None else given).items():
            object.__setattr__(self, key, value)
        self._check_learned_pooling()

    def __repr__(self) -> str:
        layers, pooling = self.model_view.layers, self.pooling_config.pooling
        return f"<{type(self).__name__} {self.name}: {layers} layers, {self.dimension} dimensions, {pooling} pooling>"

    def _check_learned_pooling(self) -> None:
        learned, width = self.modules_config.learned, self.model_view.hidden_size
        if learned is not None and learned.width != width:
            raise ModelError(
                f"the {learned.kind} pooling takes {learned.width} dimensions, but {self.name} has {width};"
                " create one of that width"
            )

    # Creating

    @classmethod
    def load(
        cls,
        name: Source = catalogue.BUNDLED,
        *,
        device: str = "auto",
        threads: int | None = None,
        dtype: str = "float32",
        backend: str = "torch",
        **pooling_config: Unpack[PoolingArguments],
    ) -> Encoder:
        """Load a model by folder, by ``minilm`` (bundled), by a short name or by a hub id.

        A SentenceTransformer keeps its own device, dtype and backend.
        """
        if not isinstance(name, (str, Path)):
            return cls.from_sentence_transformer(name).with_pooling(**pooling_config)
        if dtype not in ("float32", "float64", "float16", "bfloat16"):
            raise UsageError(f"unknown dtype {dtype!r}; choose from float32, float64, float16, bfloat16")
        set_threads(threads)
        folder = catalogue.locate(str(name))
        modules_config = read_modules_config(folder)
        model, views = load_transformer(folder / modules_config.transformer, dtype)
        words = Vocabulary.read(folder / modules_config.transformer)
        tokenizer = Tokenizer.within(words, modules_config.max_length, views.max_positions, modules_config.lower)
        encoder = cls._assembled(str(name), model, views, tokenizer, modules_config).to(device)
        encoder = replace(encoder, folder=folder, loaded_version=weights_version(encoder.model))
        encoder = encoder.with_pooling(**pooling_config)
        if modules_config.note:
            log.warning(modules_config.note)
        if backend == "torch":
            return encoder
        from likewise.encoder.onnx_backend import attach_backend

        return attach_backend(encoder, backend)

    @classmethod
    def from_sentence_transformer(cls, model: Any, name: str = "sentence-transformer") -> Encoder:
        """Wrap a SentenceTransformer in memory; its weights are shared, not copied."""
        transformer = getattr(model[0], "auto_model", None) or model[0].model
        views, modules_config = model_view(transformer), modules_config_of(model)
        words = Tokenizer.within(
            Vocabulary.of(model.tokenizer), modules_config.max_length, views.max_positions, modules_config.lower
        )
        return cls._assembled(name, transformer, views, words, modules_config)

    @classmethod
    def _assembled(
        cls, name: str, model: Any, views: ModelView, tokenizer: Tokenizer, modules_config: ModulesConfig
    ) -> Encoder:
        pooling_config = PoolingConfig(pooling=modules_config.pooling, truncate_dim=modules_config.truncate_dim)
        return cls(
            name, model, model_view=views, tokenizer=tokenizer, pooling_config=pooling_config,
            modules_config=modules_config.to(views.device, views.dtype),
        )  # fmt: skip

    def with_pooling(self, **pooling_config: Unpack[PoolingArguments]) -> Encoder:
        """The same weights with another pooling: ``encoder.with_pooling(pooling="cls", layer=3)``."""
        changed = replace(self.pooling_config, **pooling_config)
        changed.layers_of(self.model_view.layers)
        for part in pooling_parts(changed.pooling):
            if part == MODEL_POOLER and self.model_view.pooler is None:
                raise ModelError(f"{self.name} has no pooler; choose from {', '.join(POOLERS)}")
            if part in LEARNED and (self.modules_config.learned is None or self.modules_config.learned.kind != part):
                raise ModelError(f"{self.name} has no learned {part} pooling; choose from {', '.join(POOLERS)}")
        return self._rebuilt(pooling_config=changed)

    def with_learned_pooling(self, module: LearnedPooling) -> Encoder:
        """The same weights with a learned pooling; the module is shared and moves to the model's device and dtype.

        >>> from likewise.encoder.pooling import new_learned_pooling
        >>> encoder = Encoder.load("minilm", device="cpu").with_learned_pooling(new_learned_pooling("qkv", 384))
        >>> encoder.pooling_config.pooling
        'qkv'
        """
        modules_config = replace(self.modules_config, learned=module.to(self.device, self.model_view.dtype))
        return self._rebuilt(
            modules_config=modules_config, pooling_config=replace(self.pooling_config, pooling=module.kind)
        )

    def without_layer(self, layer: int) -> Encoder:
        """The same encoder without one layer, counted from 1; the weights are shared."""
        if not 1 <= layer <= self.model_view.layers or self.model_view.layers < 2:
            raise UsageError(f"no layer {layer} to leave out; {self.name} has layers 1 to {self.model_view.layers}")
        blocks = self.model_view.blocks[: layer - 1] + self.model_view.blocks[layer:]
        return replace(self, model_view=replace(self.model_view, blocks=blocks))

    def with_postprocessing(self, postprocessing: PostProcessing | None) -> Encoder:
        """The same encoder with a fitted post-processing as its last step."""
        return self._rebuilt(postprocessing=postprocessing)

    def _rebuilt(self, **changes: Any) -> Encoder:
        """Changed, and checked again if a backend needs a check."""
        encoder = replace(self, **changes)
        return encoder if self.backend is None else self.backend.attached(encoder)

    def to(self, device: str) -> Encoder:
        """An encoder whose weights, heads and learned pooling are all on a device: this one if it is there already.

        Otherwise it is a copy. This encoder, and every model that shares its weights, stays on its own device.
        """
        target = choose_device(device)
        if torch.empty(0, device=target).device == self.device:
            return self
        if self.backend is not None:
            raise UsageError(f"backend {self.backend.kind} runs on the cpu; load the model without it")
        parts = self.model, self.model_view, self.modules_config
        tensors = [*self.model.parameters(), *self.model.buffers(), *self.modules_config.tensors().values()]
        model, views, modules_config = copied_to(target, parts, tensors)
        version = weights_version(model) if self._is_as_loaded() else CHANGED
        return replace(self, model=model, model_view=views, modules_config=modules_config, loaded_version=version)

    # What it is

    @cached_property
    def dimension(self) -> int:
        """The width of a vector."""
        if self.postprocessing is not None:
            return int(self.postprocessing.matrix.shape[1])
        with torch.inference_mode():
            one = torch.zeros(1, 1, self.model_view.hidden_size, dtype=self.model_view.dtype, device=self.device)
            return self.finish(self.pool(one, torch.ones(1, 1, device=self.device))).shape[1]

    @property
    def hash(self) -> str:
        """The sha256 of the present weights, which identifies the model in manifests."""
        if self.folder is not None and self._is_as_loaded():
            return weights_hash(self.folder / self.modules_config.transformer)
        return tensors_hash(self.model.state_dict())

    def _is_as_loaded(self) -> bool:
        return weights_version(self.model) == self.loaded_version

    @property
    def config_hash(self) -> str:
        """The sha256 of the config keys that the forward pass depends on."""
        return hashlib.sha256(json.dumps(config_of(self.model), sort_keys=True, default=str).encode()).hexdigest()

    @property
    def heads_hash(self) -> str:
        """The sha256 of the dense heads and of a learned pooling."""
        return tensors_hash(self.modules_config.tensors())

    # Texts -> vectors

    @overload
    def encode(
        self, texts: str | Sequence[str], *, prompt: str | None = ..., batch_size: int | None = ...,
        show_progress_bar: bool = ..., convert_to_tensor: Literal[False] = ..., progress: Progress | None = ...,
        **pooling_config: Unpack[PoolingArguments],
    ) -> Vectors:  # fmt: skip
        """As an array."""

    @overload
    def encode(
        self, texts: str | Sequence[str], *, prompt: str | None = ..., batch_size: int | None = ...,
        show_progress_bar: bool = ..., convert_to_tensor: Literal[True], progress: Progress | None = ...,
        **pooling_config: Unpack[PoolingArguments],
    ) -> Tensor:  # fmt: skip
        """As a tensor."""

    def encode(
        self,
        texts: str | Sequence[str],
        *,
        prompt: str | None = None,
        batch_size: int | None = None,
        show_progress_bar: bool = False,
        convert_to_tensor: bool = False,
        progress: Progress | None = None,
        **pooling_config: Unpack[PoolingArguments],
    ) -> Vectors | Tensor:
        """Vectors (n, d) of n texts, or (d,) of one string: a float32 array, or a tensor on the model's device.

        ``prompt`` precedes each text; None is the model's default prompt, "" none. ``batch_size`` is the largest number
        of texts in a batch; None fills batches up to a number of tokens, which is faster. It changes vectors only by
        rounding.

        >>> encoder = Encoder.load("minilm", device="cpu")
        >>> encoder.encode(["A cat sat.", "A dog ran."], batch_size=1, convert_to_tensor=True).shape
        torch.Size([2, 384])
        """
        rows = [texts] if isinstance(texts, str) else texts
        with progress_bar() if show_progress_bar and progress is None else nullcontext(progress) as report:
            encoded = self.encode_with_stats(
                rows, prompt=prompt, progress=report, batch_size=batch_size, **pooling_config
            )
        report_truncation(encoded.truncated, len(rows), self.tokenizer.limit)
        vectors = encoded.vectors[0] if isinstance(texts, str) else encoded.vectors
        return torch.from_numpy(vectors).to(self.device) if convert_to_tensor else vectors

    def encode_query(self, texts: str | Sequence[str], **options: Any) -> Vectors:
        """``encode`` with the model's own prompt for queries."""
        found: Vectors = self.encode(texts, prompt=self.modules_config.prompt_for("query"), **options)
        return found

    def encode_document(self, texts: str | Sequence[str], **options: Any) -> Vectors:
        """``encode`` with the model's own prompt for documents."""
        found: Vectors = self.encode(texts, prompt=self.modules_config.prompt_for("document"), **options)
        return found

    def encode_with_stats(
        self,
        texts: Sequence[str],
        *,
        prompt: str | None = None,
        progress: Progress | None = None,
        budget: int = TOKEN_BUDGET,
        batch_size: int | None = None,
        **pooling_config: Unpack[PoolingArguments],
    ) -> Encoded:
        """``encode`` with the number of truncated texts; ``budget`` is the largest number of tokens in a batch."""
        if batch_size is not None and batch_size < 1:
            raise UsageError(f"batch_size must be at least 1, got {batch_size}")
        encoder = self.with_pooling(**pooling_config) if pooling_config else self
        prompt = self.modules_config.prompt_for(None) if prompt is None else prompt
        ticker = Ticker(progress, len(texts), "texts")
        parts, truncated = [], 0
        for window in windows(texts, SORTED_TEXTS):
            part = encoder._encode_window(window, prompt, (budget, batch_size), ticker)
            parts.append(part.vectors)
            truncated += part.truncated
        ticker.close()
        vectors = np.concatenate(parts) if parts else np.empty((0, encoder.dimension), np.float32)
        return Encoded(vectors, truncated)

    def _encode_window(
        self, texts: Sequence[str], prompt: str, size: tuple[int, int | None], ticker: Ticker
    ) -> Encoded:
        ids, truncated = self.tokenizer.ids([self.tokenizer.text_inputs(text, prompt) for text in texts])
        vectors: Vectors | None = None
        for indices, states in self._layer_batches(ids, size):
            with torch.inference_mode():
                rows = self.read(states, self.pooling_mask_of(self._id_rows(ids, indices), prompt))
            if vectors is None:
                vectors = np.zeros((len(texts), rows.shape[1]), dtype=np.float32)
            vectors[indices] = rows
            ticker.add(len(indices))
        # Only texts without any token stay zero; they occur if a tokenizer adds no special tokens.
        if vectors is None:
            vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        return Encoded(vectors, truncated)

    def _layer_batches(self, ids: list[list[int]], size: tuple[int, int | None]) -> Iterator[tuple[list[int], Tensor]]:
        """Exact-length batches of texts: their indices and the states (B, T, D) that are pooled."""
        batches = (indices for indices in exact_length_batches([len(row) for row in ids], *size) if ids[indices[0]])
        if self.backend is not None:
            yield from self.backend.states(self, ids, batches)
            return
        for indices in batches:
            with torch.inference_mode():
                states = self.layer_states(Batch(self._id_rows(ids, indices)))
            yield indices, states

    def _id_rows(self, ids: list[list[int]], indices: Sequence[int]) -> Tensor:
        return torch.tensor([ids[index] for index in indices], dtype=torch.long, device=self.device)

    # Vectors -> scores

    def similarity(self, left: ArrayLike | str | Sequence[str], right: ArrayLike | str | Sequence[str]) -> Vectors:
        """Cosine of each left text (or vector) with each right one: (n, m)."""
        rows = self._vectors(left)
        return similarity.similarity(rows, rows if right is left else self._vectors(right))

    def _vectors(self, items: Any) -> Vectors:
        texts = [items] if isinstance(items, str) else items
        if len(texts) == 0 or isinstance(texts[0], str):
            return self.encode(list(texts))
        return np.asarray(texts, dtype=np.float32)


def as_encoder(source: Encoder | Source) -> Encoder:
    """The encoder itself, or the one that ``Encoder.load`` makes of a name, a folder or a SentenceTransformer.

    >>> as_encoder("minilm").name
    'minilm'
    """
    return source if isinstance(source, Encoder) else Encoder.load(source)


def identity(encoder: Encoder) -> dict[str, Any]:
    """All that a vector depends on besides its text, as JSON: written to manifests, compared before vectors are mixed.

    >>> identity(Encoder.load("minilm", device="cpu"))["pooling"]
    'mean'
    """
    metadata = {
        "model": encoder.name,
        "model_sha256": encoder.hash,
        "backend": "torch" if encoder.backend is None else encoder.backend.kind,
        "dtype": str(encoder.model_view.dtype).removeprefix("torch."),
        "config_sha256": encoder.config_hash,
        "tokenizer_sha256": hashlib.sha256(encoder.tokenizer.backend.to_str().encode()).hexdigest(),
        "dense_sha256": encoder.heads_hash,
        **asdict(encoder.pooling_config),
        "max_tokens": encoder.tokenizer.limit,
        "normalizes": encoder.modules_config.normalizes,
        "include_prompt": encoder.modules_config.include_prompt,
        "postprocessing": None if encoder.postprocessing is None else encoder.postprocessing.name,
    }
    return dict(json.loads(json.dumps(metadata)))  # as JSON gives it back: tuples become lists


def model_key(encoder: Encoder) -> str:
    """The sha256 of all that vectors depend on, except the model's name.

    >>> len(model_key(Encoder.load("minilm", device="cpu")))
    64
    """
    metadata = {name: value for name, value in identity(encoder).items() if name != "model"}
    return hashlib.sha256(json.dumps(metadata, sort_keys=True).encode()).hexdigest()
