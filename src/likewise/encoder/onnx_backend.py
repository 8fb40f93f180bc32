"""The ONNX Runtime backend: it runs the layers, exported from our own forward pass; pooling stays in torch.

Exports are cached by the hash of the weights and the layers that are pooled. Each call runs on one thread and several
calls run in parallel, which is faster than several threads in one call.
"""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import tempfile
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from likewise.encoder.forward import Batch
from likewise.errors import MissingExtra, ModelError, UsageError, first_line
from likewise.sample import sample_sentences
from likewise.storage import FileCache, content_key, sync, user_cache

if TYPE_CHECKING:
    from likewise.encoder.encoder import Encoder

log = logging.getLogger("likewise")
BACKENDS = ("torch", "onnx", "onnx-int8")
EXPORT_VERSION = 1
MIN_COSINE, MIN_OVERLAP, TOP = 0.98, 0.85, 10


@dataclass(frozen=True)
class Int8Check:
    """How close 8-bit vectors are to float32's on the sample corpus."""

    mean_cosine: float
    top10_overlap: float

    def require(self, name: str) -> None:
        """Reject a model that 8 bits distort."""
        if self.mean_cosine < MIN_COSINE or self.top10_overlap < MIN_OVERLAP:
            raise ModelError(
                f"{name} in 8 bits has mean cosine {self.mean_cosine:.3f} with float32 and top-{TOP} overlap"
                f" {self.top10_overlap:.2f} (needed: {MIN_COSINE} and {MIN_OVERLAP}); use --backend onnx"
            )


@dataclass(frozen=True)
class OnnxBackend:
    """Runs an encoder's layers in ONNX Runtime; ``kind`` is onnx or onnx-int8."""

    kind: str

    def attached(self, encoder: Encoder) -> Encoder:
        """The encoder on this backend; an 8-bit one is checked against float32 first."""
        attached = replace(encoder, backend=self)
        if self.kind == "onnx-int8":
            int8_check(attached).require(encoder.name)
        return attached

    def states(
        self, encoder: Encoder, ids: list[list[int]], batches: Iterable[list[int]]
    ) -> Iterator[tuple[list[int], Tensor]]:
        """Batches of indices -> indices and states (B, T, D), in order, computed a few batches ahead."""
        session = _open_session(exported(encoder, self.kind))
        workers = torch.get_num_threads()

        def run(indices: list[int]) -> Tensor:
            rows = np.array([ids[index] for index in indices], dtype=np.int64)
            # 8 bits: one text a call, since the scale of the activations depends on the whole batch.
            pieces = np.split(rows, len(rows)) if self.kind == "onnx-int8" else [rows]
            return torch.from_numpy(np.concatenate([session.run(None, {"ids": piece})[0] for piece in pieces]))

        with ThreadPoolExecutor(workers) as pool:
            waiting: deque[tuple[list[int], Future[Tensor]]] = deque()
            for indices in batches:
                waiting.append((indices, pool.submit(run, indices)))
                if len(waiting) > 2 * workers:
                    done, future = waiting.popleft()
                    yield done, future.result()
            for done, future in waiting:
                yield done, future.result()


def attach_backend(encoder: Encoder, kind: str) -> Encoder:
    """The encoder with its layers run by ``kind``, one of ``BACKENDS``."""
    if kind not in BACKENDS:
        raise UsageError(f"unknown backend {kind!r}; choose from {', '.join(BACKENDS)}")
    if kind == "torch":
        return replace(encoder, backend=None)
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise MissingExtra(str(error.name), "onnx") from error
    if not encoder.model_view.blocks:
        raise UsageError(f"backend {kind} runs layers, and {encoder.name} has none; use --backend torch")
    if encoder.device.type != "cpu":
        raise UsageError(f"backend {kind} runs on the cpu; add --device cpu")
    if encoder.model_view.dtype != torch.float32:
        raise UsageError(f"backend {kind} runs in float32; drop --dtype")
    return OnnxBackend(kind).attached(encoder)


def int8_check(encoder: Encoder) -> Int8Check:
    """Compare an 8-bit encoder with float32 on the sample corpus; the result is cached next to the export."""
    checks = FileCache(exported(encoder, "onnx-int8").parent, ".json")
    key = f"check-{_pooling_key(encoder)}"
    check = checks.read(key, lambda path: Int8Check(**json.loads(path.read_text(encoding="utf-8"))))
    if check is None:
        texts = sample_sentences()
        ours, theirs = (_unit(one.encode(texts)) for one in (replace(encoder, backend=None), encoder))
        check = Int8Check(float((ours * theirs).sum(1).mean()), top_overlap(ours, theirs))
        document = json.dumps(vars(check))
        checks.write(key, lambda draft: draft.write_text(document, encoding="utf-8"))
    return check


def _unit(vectors: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return nn.functional.normalize(torch.as_tensor(vectors, dtype=torch.float32)).numpy()


def _pooling_key(encoder: Encoder) -> str:
    """A short hash of all that shapes a vector after the layers."""
    post = None if encoder.postprocessing is None else encoder.postprocessing.name
    return content_key(encoder.pooling_config, post, encoder.heads_hash)[:16]


def top_overlap(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any], top: int = TOP) -> float:
    """Mean share of common texts among each text's nearest ``top``: two sets of vectors (n, d) of the same texts."""
    shares, (left, right) = [], (_unit(left), _unit(right))
    for scores, others in zip(left @ left.T, right @ right.T, strict=True):
        # One more than wanted: each text is its own nearest.
        near, also = (set(np.argsort(-row)[: top + 1]) for row in (scores, others))
        shares.append((len(near & also) - 1) / top)
    return float(np.mean(shares))


def exported(encoder: Encoder, kind: str) -> Path:
    """The exported file for an encoder's weights and layers; written on first use, whole or not at all."""
    layers = "-".join(map(str, encoder.pooling_config.layers_of(encoder.model_view.layers)))
    # The same weights with another activation, or without a projection of the last states, are another model.
    weights = content_key(encoder.hash, encoder.config_hash, encoder.state_size)[:24]
    folder = user_cache() / "onnx" / f"{weights}-{layers}-v{EXPORT_VERSION}"
    path = folder / ("int8.onnx" if kind == "onnx-int8" else "float32.onnx")
    if path.exists():
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder))
    except OSError as error:
        raise ModelError(f"the export cannot be written to {folder} ({error.strerror}); set LIKEWISE_CACHE") from error
    log.warning("exporting %s of %s, once", path.name, encoder.name)
    try:
        with _quiet_export():
            if kind == "onnx-int8":
                _quantise(exported(encoder, "onnx"), draft / path.name)
            else:
                _export(encoder, draft / path.name)
        # A large model has its weights in a second file, which must exist before the first does.
        for made in sorted(draft.iterdir(), key=lambda made: made.name == path.name):
            sync(made)
            made.replace(folder / made.name)
        sync(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return path


class _Layers(nn.Module):
    """Our forward pass as the module that the exporter takes."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.model, self.encoder = encoder.model, encoder

    def forward(self, ids: Tensor) -> Tensor:
        return self.encoder.layer_states(Batch(ids))


def _export(encoder: Encoder, path: Path) -> None:
    batch = torch.export.Dim("batch", min=1, max=65536)
    tokens = torch.export.Dim("tokens", min=1, max=encoder.tokenizer.limit)
    with torch.no_grad():
        program = torch.onnx.export(
            _Layers(encoder), (torch.ones(2, min(7, encoder.tokenizer.limit), dtype=torch.long),), dynamo=True,
            input_names=["ids"], output_names=["states"], dynamic_shapes=({0: batch, 1: tokens},), verbose=False,
        )  # fmt: skip
    assert program is not None
    program.save(str(path))


def _quantise(source: Path, path: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    # Unsigned or per-tensor weights and the full range fail the check above.
    quantize_dynamic(str(source), str(path), weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)


@cache
def _open_session(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime's errors have no common base class
        raise ModelError(f"{path} is damaged ({first_line(error)}); remove it to export again") from error


@contextlib.contextmanager
def _quiet_export() -> Iterator[None]:
    """Silences the exporter and the quantiser, whose logs are for their developers."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(None):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
