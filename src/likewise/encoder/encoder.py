"""The ``Encoder`` class: texts -> tokens, hidden states, attention maps, embeddings."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import MISSING, dataclass, fields, replace
from functools import cached_property, wraps
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from likewise.encoder import forward, weights
from likewise.encoder.adapters import ADAPTER_CONFIG, load_adapted
from likewise.encoder.config import config_of, modules_config_of, read_modules_config
from likewise.encoder.forward import TOKEN_BUDGET, Batch, exact_length_batches, steady_memory, text_windows
from likewise.encoder.learned_pooling import LEARNED, LearnedPooling
from likewise.encoder.model_view import ModelView
from likewise.encoder.pooling import MODEL_POOLER, POOLERS, ModulesConfig, PoolingConfig, TensorEncoder, pooling_parts
from likewise.encoder.pooling import PoolingArguments as Arguments
from likewise.encoder.postprocessing import PostProcessing
from likewise.encoder.similarity import Vectors, similarity, unit
from likewise.encoder.static import load_static, static_parts
from likewise.encoder.tokens import Tokenizer, Vocabulary, report_truncation, text_input
from likewise.errors import ModelError, UsageError
from likewise.progress import Progress, Ticker, progress_bar

if TYPE_CHECKING:
    from likewise.encoder.onnx_backend import OnnxBackend


log = logging.getLogger("likewise")
CHANGED = -1  # A version that no weights have
Size = tuple[int, int | None]
R = TypeVar("R")
Source = Any  # A model's folder or name, or a SentenceTransformer


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
    model: nn.Module  # the weights by name: a `Transformer`, or a Hugging Face model
    model_view: ModelView
    tokenizer: Tokenizer
    modules_config: ModulesConfig
    pooling_config: PoolingConfig
    folder: Path | None = None  # where the weights were loaded from
    loaded_version: int = 0  # the version of the weights at that time; another version now means that they were trained
    postprocessing: PostProcessing | None = None
    backend: OnnxBackend | None = None  # runs the layers of `encode` instead of torch

    def __init__(self, name: Source = weights.BUNDLED, model: nn.Module | None = None, **parts: Any) -> None:
        """Load a model or wrap a SentenceTransformer; with ``model``, ``parts`` are the fields of this class."""
        unset = {field.name: field.default for field in fields(self) if field.default is not MISSING}
        given = unset | {"name": name, "model": model, **parts}
        for key, value in (vars(self.load(name, **parts)) if model is None else given).items():
            object.__setattr__(self, key, value)
        learned, width = self.modules_config.learned, self.model_view.output_size
        if learned is not None and learned.width != width:
            takes = f"the {learned.kind} pooling takes {learned.width} dimensions"
            raise ModelError(f"{takes}, but {self.name} has {width}; create one of that width")

    def __repr__(self) -> str:
        layers, pooling = self.model_view.layers, self.pooling_config.pooling
        return f"<{type(self).__name__} {self.name}: {layers} layers, {self.dimension} dimensions, {pooling} pooling>"

    # Creating

    @classmethod
    def load(
        cls,
        name: Source = weights.BUNDLED,
        *,
        device: str = "auto",
        threads: int | None = None,
        dtype: str = "float32",
        backend: str = "torch",
        adapter: str | None = None,
        **pooling_config: Unpack[Arguments],
    ) -> Encoder:
        """Load a model by folder, by ``minilm`` (bundled), by a short name or by a hub id.

        ``adapter`` is a PEFT folder with LoRA weights, or the name of one of the model's own; it is merged. The folder
        of an adapter loads too, with its base model. A SentenceTransformer keeps its own device, dtype and backend.
        """
        if not isinstance(name, (str, Path)):
            return cls.from_sentence_transformer(name).with_pooling(**pooling_config)
        if dtype not in ("float32", "float64", "float16", "bfloat16"):
            raise UsageError(f"unknown dtype {dtype!r}; choose from float32, float64, float16, bfloat16")
        weights.set_threads(threads)
        folder = weights.locate(str(name))
        modules = read_modules_config(folder)
        within, merges = folder / modules.transformer, adapter is not None or (folder / ADAPTER_CONFIG).is_file()
        if merges:
            parts = load_adapted(folder, adapter, dtype)
        elif modules.is_static:
            parts = *load_static(within, dtype), modules
        else:
            parts = *weights.load_transformer(within, dtype), Vocabulary.read(within), modules
        encoder = cls._assembled(str(name), *parts).to(device)
        # The files do not hold merged weights.
        version = CHANGED if merges else weights.weights_version(encoder.model)
        encoder = replace(encoder, folder=folder, loaded_version=version).with_pooling(**pooling_config)
        if encoder.modules_config.note:
            log.warning(encoder.modules_config.note)
        if backend == "torch":
            return encoder
        from likewise.encoder.onnx_backend import attach_backend

        return attach_backend(encoder, backend)

    @classmethod
    def from_sentence_transformer(cls, model: Any, name: str = "sentence-transformer") -> Encoder:
        """Wrap a SentenceTransformer in memory; its weights are shared, not copied."""
        if not hasattr(model, "encode"):
            raise UsageError(f"a {type(model).__name__} has no vectors of texts; use it as a likewise.CrossEncoder")
        modules = modules_config_of(model)
        if modules.is_static:
            return cls._assembled(name, *static_parts(model[0]), modules)
        transformer = getattr(model[0], "auto_model", None) or model[0].model
        # Of a model for texts and images, the part that reads texts.
        transformer = getattr(transformer, "language_model", transformer)
        views, vocabulary = weights.model_view(transformer), Vocabulary.of(model.tokenizer)
        return cls._assembled(name, transformer, views, vocabulary, modules)

    @classmethod
    def _assembled(
        cls, name: str, model: Any, views: ModelView, vocabulary: Vocabulary, modules: ModulesConfig
    ) -> Encoder:
        return cls(
            name, model, model_view=views,
            tokenizer=Tokenizer.within(vocabulary, modules.max_length, views.max_positions, modules.lower),
            pooling_config=PoolingConfig(pooling=modules.pooling, truncate_dim=modules.truncate_dim),
            modules_config=modules.to(views.device, views.dtype),
        )  # fmt: skip

    def with_pooling(self, **pooling_config: Unpack[Arguments]) -> Encoder:
        """The same weights with another pooling: ``encoder.with_pooling(pooling="cls", layer=3)``."""
        changed = replace(self.pooling_config, **pooling_config)
        changed.layers_of(self.model_view.layers)
        learned = self.modules_config.learned
        for part in pooling_parts(changed.pooling):
            lacks_pooler = part == MODEL_POOLER and self.model_view.pooler is None
            if lacks_pooler or (part in LEARNED and (learned is None or learned.kind != part)):
                what = "pooler" if lacks_pooler else f"learned {part} pooling"
                raise ModelError(f"{self.name} has no {what}; choose from {', '.join(POOLERS)}")
        return self._rebuilt(pooling_config=changed)

    def with_learned_pooling(self, module: LearnedPooling) -> Encoder:
        """The same weights with a learned pooling; the module is shared and moves to the model's device and dtype.

        >>> from likewise.encoder.learned_pooling import new_learned_pooling
        >>> encoder = Encoder.load("minilm", device="cpu").with_learned_pooling(new_learned_pooling("qkv", 384))
        >>> encoder.pooling_config.pooling
        'qkv'
        """
        modules_config = replace(self.modules_config, learned=module.to(self.device, self.model_view.dtype))
        pooling_config = replace(self.pooling_config, pooling=module.kind)
        return self._rebuilt(modules_config=modules_config, pooling_config=pooling_config)

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
        target = weights.choose_device(device)
        if torch.empty(0, device=target).device == self.device:
            return self
        if self.backend is not None:
            raise UsageError(f"backend {self.backend.kind} runs on the cpu; load the model without it")
        parts = self.model, self.model_view, self.modules_config
        tensors = [*self.model.parameters(), *self.model.buffers(), *self.modules_config.tensors().values()]
        model, views, modules_config = weights.copied_to(target, parts, tensors)
        version = weights.weights_version(model) if self._is_as_loaded() else CHANGED
        return replace(self, model=model, model_view=views, modules_config=modules_config, loaded_version=version)

    # What it is

    @cached_property
    def dimension(self) -> int:
        """The width of a vector."""
        if self.postprocessing is not None:
            return int(self.postprocessing.matrix.shape[1])
        with torch.inference_mode():
            one = torch.zeros(1, 1, self.state_size, dtype=self.model_view.dtype, device=self.device)
            return self.finish(self.pool(one, torch.ones(1, 1, device=self.device))).shape[1]

    @property
    def hash(self) -> str:
        """The sha256 of the present weights, which identifies the model in manifests."""
        if self.folder is not None and self._is_as_loaded():
            return weights.weights_hash(self.folder / self.modules_config.transformer)
        return weights.tensors_hash(self.model.state_dict())

    def _is_as_loaded(self) -> bool:
        return weights.weights_version(self.model) == self.loaded_version

    @property
    def config_hash(self) -> str:
        """The sha256 of the config keys that the forward pass depends on."""
        return hashlib.sha256(json.dumps(config_of(self.model), sort_keys=True, default=str).encode()).hexdigest()

    @property
    def heads_hash(self) -> str:
        """The sha256 of the dense heads and of a learned pooling."""
        return weights.tensors_hash(self.modules_config.tensors())

    # Texts -> vectors

    @overload
    def encode(self, texts: str | Sequence[str], *, convert_to_tensor: Literal[False] = ..., **options: Any) -> Vectors:
        """As an array."""

    @overload
    def encode(self, texts: str | Sequence[str], *, convert_to_tensor: Literal[True], **options: Any) -> Tensor:
        """As a tensor."""

    def encode(  # type: ignore[misc]
        self,
        texts: str | Sequence[str],
        *,
        prompt: str | None = None,
        batch_size: int | None = None,
        show_progress_bar: bool = False,
        convert_to_tensor: bool = False,
        progress: Progress | None = None,
        **pooling_config: Unpack[Arguments],
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
        **pooling_config: Unpack[Arguments],
    ) -> Encoded:
        """``encode`` with the number of truncated texts; ``budget`` is the largest number of tokens in a batch."""
        if batch_size is not None and batch_size < 1:
            raise UsageError(f"batch_size must be at least 1, got {batch_size}")
        encoder = self.with_pooling(**pooling_config) if pooling_config else self
        return _joined([encoder], texts, prompt, progress, (budget, batch_size))[0]

    def encoded_windows(
        self, variants: Sequence[Encoder], windows: Iterable[Sequence[str]], prompt: str, size: Size, ticker: Ticker
    ) -> Iterator[list[Encoded]]:
        """The vectors of each window's texts by each variant of this encoder, in order.

        ``size`` is the largest number of tokens and of texts in a batch.
        """
        stream = iter(windows)
        first = list(islice(stream, 2))
        with steady_memory() if len(first) > 1 else nullcontext():
            for window in chain(first, stream):
                yield encode_window(variants, window, prompt, size, ticker.part())

    def read(self, states: Tensor, pooling_mask: Tensor) -> Vectors:
        """States (B, T, D) and a pooling mask (B, T) -> the vectors (B, d) of ``encode``."""
        rows: Vectors = self.finish(self.pool(states, pooling_mask)).float().cpu().numpy()
        if self.postprocessing is not None:
            rows = self.postprocessing(rows)
        return unit(rows) if self.pooling_config.normalize else rows

    # Vectors -> scores

    def similarity(self, left: ArrayLike | str | Sequence[str], right: ArrayLike | str | Sequence[str]) -> Vectors:
        """Cosine of each left text (or vector) with each right one: (n, m)."""
        rows = self._vectors(left)
        return similarity(rows, rows if right is left else self._vectors(right))

    def _vectors(self, items: Any) -> Vectors:
        texts = [items] if isinstance(items, str) else items
        if len(texts) == 0 or isinstance(texts[0], str):
            return self.encode(list(texts))
        return np.asarray(texts, dtype=np.float32)


def as_encoder(source: Encoder | Source) -> Encoder:
    """The given encoder, or ``Encoder.load`` of a name, a folder or a SentenceTransformer.

    >>> as_encoder("minilm").name
    'minilm'
    """
    return source if isinstance(source, Encoder) else Encoder.load(source)


def takes_encoder(function: Callable[..., R]) -> Callable[..., R]:
    """Decorator: the first argument of the function may be anything that ``as_encoder`` takes.

    >>> takes_encoder(lambda encoder: encoder.dimension)("minilm")
    384
    """

    @wraps(function)
    def call(encoder: Encoder | Source, *arguments: Any, **options: Any) -> R:
        return function(as_encoder(encoder), *arguments, **options)

    return call


def encode_variants(
    encoder: Encoder,
    texts: Sequence[str],
    variants: Sequence[PoolingConfig | Arguments],
    *,
    prompt: str | None = None,
    progress: Progress | None = None,
) -> list[Encoded]:
    """``encoder.with_pooling(...).encode_with_stats(texts)`` of each variant, from a single forward pass.

    The pass ends at the deepest layer that is pooled. A backend other than torch takes a pass for each variant.

    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> both = encode_variants(encoder, ["A cat sat."], [{"pooling": "mean"}, {"pooling": "cls", "layer": 3}])
    >>> [each.vectors.shape for each in both]
    [(1, 384), (1, 384)]
    """
    options = [vars(each) if isinstance(each, PoolingConfig) else each for each in variants]
    encoders = [encoder.with_pooling(**each) for each in options]
    if encoder.backend is None and encoders:
        return _joined(encoders, texts, prompt, progress, (TOKEN_BUDGET, None))
    ticker = Ticker(progress, len(texts) * len(encoders), "texts")
    found = [one.encode_with_stats(texts, prompt=prompt, progress=ticker.part()) for one in encoders]
    ticker.close()
    return found


def _joined(
    variants: Sequence[Encoder], texts: Sequence[str], prompt: str | None, progress: Progress | None, size: Size
) -> list[Encoded]:
    """Encode texts with variants of an encoder, in the windows of a stream, so that their vectors are the same."""
    first, ticker = variants[0], Ticker(progress, len(texts), "texts")
    prompt = first.modules_config.prompt_for(None) if prompt is None else prompt
    windows = ([text for _, text in window] for window in text_windows(("", text_input(text)) for text in texts))
    vectors, truncated, done = [np.zeros((len(texts), one.dimension), np.float32) for one in variants], 0, 0
    for found in first.encoded_windows(variants, windows, prompt, size, ticker):
        end = done + len(found[0].vectors)
        for rows, each in zip(vectors, found, strict=True):
            rows[done:end] = each.vectors
        truncated, done = truncated + found[0].truncated, end
    ticker.close()
    return [Encoded(rows, truncated) for rows in vectors]


def encode_window(
    variants: Sequence[Encoder], texts: Sequence[str], prompt: str, size: Size, progress: Progress | None
) -> list[Encoded]:
    """The vectors of a window of texts, which are tokenized and sorted together."""
    first, ticker = variants[0], Ticker(progress, len(texts), "texts")
    # They stay for texts without any token, which occur if a tokenizer adds no special tokens.
    vectors = [np.zeros((len(texts), one.dimension), np.float32) + one.without_tokens() for one in variants]
    ids, truncated = first.tokenizer.ids([text_input(text, prompt) for text in texts])
    batches = (indices for indices in exact_length_batches([len(row) for row in ids], *size) if ids[indices[0]])
    for indices, found in _vector_batches(variants, ids, batches, prompt):
        for which, rows in found:
            vectors[which][np.array(indices)] = rows
        ticker.add(len(indices))
    ticker.close()
    return [Encoded(each, truncated) for each in vectors]


def _vector_batches(
    variants: Sequence[Encoder], ids: list[list[int]], batches: Iterable[list[int]], prompt: str
) -> Iterator[tuple[list[int], Iterable[tuple[int, Vectors]]]]:
    """The indices of the texts of each batch, and the index and vectors (B, d) of each variant."""
    first = variants[0]

    def rows(indices: Sequence[int]) -> Tensor:
        return torch.tensor([ids[index] for index in indices], dtype=torch.long, device=first.device)

    if first.backend is None:
        yield from ((indices, _read(variants, rows(indices), prompt)) for indices in batches)
    else:
        for indices, states in first.backend.states(first, ids, batches):
            yield indices, [(0, first.read(states, first.pooling_mask_of(rows(indices), prompt)))]


@torch.inference_mode()
def _read(variants: Sequence[Encoder], ids: Tensor, prompt: str) -> Iterator[tuple[int, Vectors]]:
    """One batch of ids (B, T): each variant's index and its vectors (B, d), as soon as its layers are computed."""
    views, totals = variants[0].model_view, dict[frozenset[int], Tensor]()
    waiting: dict[frozenset[int], list[int]] = {}
    for which, one in enumerate(variants):
        waiting.setdefault(frozenset(one.pooling_config.layers_of(views.layers)), []).append(which)
    for layer, step in enumerate(forward.layers(views, forward.embed(views, Batch(ids)))):
        for layers in [each for each in waiting if layer in each]:
            totals[layers] = totals[layers] + step.states if layers in totals else step.states
            if layer == max(layers):
                states = totals.pop(layers) / len(layers) if len(layers) > 1 else totals.pop(layers)
                for which in waiting.pop(layers):
                    one = variants[which]
                    yield which, one.read(one.projected(states), one.pooling_mask_of(ids, prompt))
        if not waiting:
            return
