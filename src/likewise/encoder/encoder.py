"""The encoder: name or path -> Encoder; texts -> tokens, hidden states, attention maps, vectors."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import MISSING, dataclass, fields, replace
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from likewise.encoder import forward, weights
from likewise.encoder.config import modules_config_of, read_modules_config
from likewise.encoder.families import config_of, model_view
from likewise.encoder.forward import TOKEN_BUDGET, Batch, exact_length_batches, windows
from likewise.encoder.learned_pooling import LEARNED, LearnedPooling
from likewise.encoder.model_view import ModelView
from likewise.encoder.pooling import MODEL_POOLER, POOLERS, ModulesConfig, PoolingConfig, TensorEncoder, pooling_parts
from likewise.encoder.pooling import PoolingArguments as Arguments
from likewise.encoder.postprocessing import PostProcessing
from likewise.encoder.tokens import Tokenizer, Vocabulary, report_truncation, text_input
from likewise.errors import DataError, ModelError, UsageError
from likewise.progress import Progress, Ticker, progress_bar

if TYPE_CHECKING:
    from likewise.encoder.onnx_backend import OnnxBackend


log = logging.getLogger("likewise")
SORTED_TEXTS = 16384  # Texts that are tokenized and sorted together; bounds the memory of ids
BLOCK_BYTES = 2**26  # The largest size of a block of scores, and of a block of normed vectors
MEASURES = ("cosine", "dot")
CHANGED = -1  # A version that no weights have
Vectors = NDArray[np.float32]
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
        learned, width = self.modules_config.learned, self.model_view.hidden_size
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
        **pooling_config: Unpack[Arguments],
    ) -> Encoder:
        """Load a model by folder, by ``minilm`` (bundled), by a short name or by a hub id.

        A SentenceTransformer keeps its own device, dtype and backend.
        """
        if not isinstance(name, (str, Path)):
            return cls.from_sentence_transformer(name).with_pooling(**pooling_config)
        if dtype not in ("float32", "float64", "float16", "bfloat16"):
            raise UsageError(f"unknown dtype {dtype!r}; choose from float32, float64, float16, bfloat16")
        weights.set_threads(threads)
        folder = weights.locate(str(name))
        modules_config = read_modules_config(folder)
        model, views = weights.load_transformer(folder / modules_config.transformer, dtype)
        vocabulary = Vocabulary.read(folder / modules_config.transformer)
        encoder = cls._assembled(str(name), model, views, vocabulary, modules_config).to(device)
        encoder = replace(encoder, folder=folder, loaded_version=weights.weights_version(encoder.model))
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
        if not hasattr(model, "encode"):
            raise UsageError(f"a {type(model).__name__} has no vectors of texts; use it as a likewise.CrossEncoder")
        transformer = getattr(model[0], "auto_model", None) or model[0].model
        parts = model_view(transformer), Vocabulary.of(model.tokenizer), modules_config_of(model)
        return cls._assembled(name, transformer, *parts)

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
            one = torch.zeros(1, 1, self.model_view.hidden_size, dtype=self.model_view.dtype, device=self.device)
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
        return _encoded([encoder], texts, prompt, progress, (budget, batch_size))[0]

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
    """The encoder itself, or the one that ``Encoder.load`` makes of a name, a folder or a SentenceTransformer.

    >>> as_encoder("minilm").name
    'minilm'
    """
    return source if isinstance(source, Encoder) else Encoder.load(source)


def takes_encoder(function: Callable[..., R]) -> Callable[..., R]:
    """Let the first argument of a function be anything that ``as_encoder`` takes.

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
        return _encoded(encoders, texts, prompt, progress, (TOKEN_BUDGET, None))
    ticker = Ticker(progress, len(texts) * len(encoders), "texts")
    found = [one.encode_with_stats(texts, prompt=prompt, progress=ticker.part()) for one in encoders]
    ticker.close()
    return found


def _encoded(
    variants: Sequence[Encoder], texts: Sequence[str], prompt: str | None, progress: Progress | None, size: Size
) -> list[Encoded]:
    """Encode texts with variants of an encoder; ``size`` is the largest number of tokens and of texts in a batch."""
    first, truncated, ticker = variants[0], 0, Ticker(progress, len(texts), "texts")
    prompt = first.modules_config.prompt_for(None) if prompt is None else prompt
    # Texts without any token stay zero; they occur if a tokenizer adds no special tokens.
    vectors = [np.zeros((len(texts), one.dimension), np.float32) for one in variants]
    for start, window in enumerate(windows(texts, SORTED_TEXTS)):
        ids, cut = first.tokenizer.ids([text_input(text, prompt) for text in window])
        truncated += cut
        batches = (indices for indices in exact_length_batches([len(row) for row in ids], *size) if ids[indices[0]])
        for indices, found in _vector_batches(variants, ids, batches, prompt):
            for which, rows in found:
                vectors[which][np.array(indices) + start * SORTED_TEXTS] = rows
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
                    yield which, one.read(states, one.pooling_mask_of(ids, prompt))
        if not waiting:
            return


def similarity(left: ArrayLike, right: ArrayLike, measure: str = "cosine") -> Vectors:
    """Every left vector with every right one: (d,) or (n, d), and (m, d) -> (n, m); a zero vector gives 0.

    >>> similarity([[1.0, 0.0]], [[1.0, 1.0], [0.0, 0.0]]).round(3)
    array([[0.707, 0.   ]], dtype=float32)
    """
    a, b = _rows(left), _rows(right)
    result = np.empty((len(a), len(b)), dtype=np.float32)
    for start, block in similarity_blocks(a, b, measure):
        result[start : start + len(block)] = block
    return result


def similarity_blocks(
    left: ArrayLike, right: ArrayLike, measure: str = "cosine", block_bytes: int = BLOCK_BYTES
) -> Iterator[tuple[int, Vectors]]:
    """The same in pieces: the first left row of a block, and the block (rows, m) of at most ``block_bytes``."""
    prepare, a, b = _scaling(measure), _rows(left), _rows(right)
    if a.shape[1] != b.shape[1]:
        raise DataError(f"vectors of {a.shape[1]} and of {b.shape[1]} dimensions; were they made by the same model?")
    rows = max(1, block_bytes // (4 * max(1, len(b))))
    width = max(1, block_bytes // (4 * max(1, b.shape[1])))
    for start in range(0, len(a), rows):
        some = prepare(a[start : start + rows])
        block = np.empty((len(some), len(b)), dtype=np.float32)
        # The right side in blocks too: it may be memory-mapped and larger than the memory.
        for column in range(0, len(b), width):
            block[:, column : column + width] = some @ prepare(b[column : column + width]).T
        yield start, block


def paired_similarity(left: ArrayLike, right: ArrayLike, measure: str = "cosine") -> Vectors:
    """Row by row: (n, d) and (n, d) -> (n,).

    >>> paired_similarity([[3.0, 4.0]], [[3.0, 4.0]], "dot")
    array([25.], dtype=float32)
    """
    a, b = _rows(left), _rows(right)
    if a.shape != b.shape:
        raise DataError(f"{len(a)} left and {len(b)} right vectors of widths {a.shape[1]} and {b.shape[1]}")
    scale = _scaling(measure)
    scores: Vectors = np.einsum("nd,nd->n", scale(a), scale(b))
    return scores


def _scaling(measure: str) -> Callable[[Vectors], Vectors]:
    if measure not in MEASURES:
        raise UsageError(f"unknown similarity {measure!r}; choose from {', '.join(MEASURES)}")
    return unit if measure == "cosine" else np.asarray


def unit(vectors: Vectors) -> Vectors:
    """Scale each row (n, d) to length 1; zero rows stay zero."""
    # In float64: the square of a small float32 is 0, that of a large one infinite.
    lengths = np.sqrt(np.einsum("...d,...d->...", vectors, vectors, dtype=np.float64))[..., None]
    scale: Vectors = np.where(lengths > 0, lengths, 1).astype(np.float32)
    return vectors / scale


def _rows(vectors: ArrayLike) -> Vectors:
    rows = np.asarray(vectors, dtype=np.float32)
    if rows.ndim not in (1, 2):
        raise DataError(f"vectors must be (d,) or (n, d), got {rows.ndim} dimensions")
    return np.atleast_2d(rows)
