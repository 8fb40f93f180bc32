"""Attention maps of pairs, each pair encoded as one sequence; random maps as a control; measures of each head."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likewise.encoder import Encoder, takes_encoder
from likewise.encoder.forward import StateBatch
from likewise.encoder.tokens import TokenizedText
from likewise.errors import DataError
from likewise.progress import Progress, Ticker
from likewise.storage import DAMAGED, write_text

MAP_TOKENS = 1024  # of a batch, fewer than for vectors, because maps grow with their square
MEASURES = {
    "entropy": "entropy of a token's attention as a share of log n, 1 for even attention",
    "first": "share of attention on the first special token, such as [CLS]",
    "separators": "share of attention on the other special tokens, such as [SEP]",
    "previous": "share of attention on the token before",
    "next": "share of attention on the token after",
    "between": "share of attention that tokens of one text give to tokens of the other",
}


@dataclass(frozen=True, eq=False)
class AttentionMaps:
    """Attention maps in a folder: one memory-mapped float16 file, sequence after sequence.

    >>> import tempfile
    >>> maps = AttentionMaps(Path(tempfile.mkdtemp()), np.array([1, 2]), layers=1, heads=1)
    >>> np.array([1.0, 0.5, 0.5, 0.25, 0.75], np.float16).tofile(maps.folder / "maps.f16")
    >>> maps.map_of(1, layer=1).tolist()
    [[[0.5, 0.5], [0.25, 0.75]]]
    """

    folder: Path
    lengths: NDArray[np.int64]  # tokens of each sequence
    layers: int
    heads: int

    @cached_property
    def _numbers(self) -> NDArray[np.float16]:
        return np.memmap(self.folder / "maps.f16", np.float16, "r")

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The start of each sequence's numbers in the file, and the end of the last: (n + 1,)."""
        return np.concatenate([[0], np.cumsum(self.lengths**2 * self.layers * self.heads)])

    def sequence(self, index: int) -> Tensor:
        """A sequence's maps as steps: (L, n * n, H), step i * n + j is the attention of token i to token j."""
        shape = (self.layers, int(self.lengths[index]) ** 2, self.heads)
        flat = self._numbers[self.starts[index] : self.starts[index + 1]]
        return torch.from_numpy(flat.reshape(shape).astype(np.float32))

    def map_of(self, index: int, layer: int) -> NDArray[np.float32]:
        """The maps (H, n, n) of one layer, from 1, of a sequence."""
        n = int(self.lengths[index])
        steps: NDArray[np.float32] = self.sequence(index)[layer - 1].numpy()
        return steps.reshape(n, n, self.heads).transpose(2, 0, 1)

    def head_measures(self) -> HeadMeasures:
        """The measures of each head, averaged over the texts that have them.

        They are taken in full precision while the maps are made.
        """
        shape = (len(self.lengths), len(MEASURES), self.layers, self.heads)
        per_text = np.fromfile(self.folder / "heads.f32", np.float32).reshape(shape)
        with warnings.catch_warnings():
            # NumPy warns if no text has a measure; it is nan then.
            warnings.simplefilter("ignore", RuntimeWarning)
            means = np.asarray(np.nanmean(per_text, axis=0, dtype=np.float64))
            even: list[float] = np.nanmean(np.load(self.folder / "even.npy"), axis=0).tolist()
        return HeadMeasures(dict(zip(MEASURES, means, strict=True)), dict(zip(MEASURES, even, strict=True)))


@dataclass(frozen=True, eq=False)
class RandomMaps:
    """Random attention maps: every row is drawn from a flat Dirichlet distribution.

    >>> maps = RandomMaps(np.array([3, 4]), layers=2, heads=5, seed=0)
    >>> maps.sequence(1).shape, bool(torch.allclose(maps.sequence(0).reshape(2, 3, 3, 5).sum(2), torch.ones(2, 3, 5)))
    (torch.Size([2, 16, 5]), True)
    """

    lengths: NDArray[np.int64]
    layers: int
    heads: int
    seed: int = 0

    def sequence(self, index: int) -> Tensor:
        """The same random numbers at each call: (L, n * n, H)."""
        n = int(self.lengths[index])
        rng = np.random.default_rng((self.seed, index))
        drawn = rng.standard_exponential((self.layers, n, n, self.heads), dtype=np.float32)
        drawn /= drawn.sum(2, keepdims=True)
        return torch.from_numpy(drawn.reshape(self.layers, n * n, self.heads))


Maps = AttentionMaps | RandomMaps


@takes_encoder
def write_maps(
    encoder: Encoder, pairs: Sequence[tuple[str, str]], folder: Path, prompt: str = "", progress: Progress | None = None
) -> AttentionMaps:
    """Encode each pair as one sequence and store all attention weights; an interrupted run resumes.

    The caller ensures that the folder belongs to the same model, pairs and prompt.

    >>> import tempfile
    >>> maps = write_maps(Encoder.load("minilm"), [("A cat.", "A dog.")], Path(tempfile.mkdtemp()))
    >>> maps.sequence(0).shape
    torch.Size([6, 81, 12])
    """
    tokens = encoder.tokenize(pairs, prompt)
    lengths = np.array([len(text) for text in tokens], dtype=np.int64)
    maps = AttentionMaps(folder, lengths, encoder.model_view.layers, encoder.model_view.heads)
    writer = _Writer(maps)
    if writer.batches == 0:
        writer.create_files()
        np.save(folder / "even.npy", even_measures(tokens))
    ticker = Ticker(progress, len(pairs), "attention maps")
    batches = encoder.state_batches(pairs, prompt=prompt, attention=True, budget=MAP_TOKENS, skip=writer.batches)
    ticker.add(writer.sequences)
    for batch in batches:
        writer.add(batch)
        ticker.add(len(batch.indices))
    ticker.close()
    return maps


class _Writer:
    """Writes batches in order, and records how many are on disk."""

    def __init__(self, maps: AttentionMaps) -> None:
        self.maps, self.note = maps, maps.folder / "progress.json"
        self.row_bytes = len(MEASURES) * maps.layers * maps.heads * 4
        self.sizes = {"maps.f16": int(maps.starts[-1]) * 2, "heads.f32": len(maps.lengths) * self.row_bytes}
        self.batches, self.sequences = self._finished()

    def _finished(self) -> tuple[int, int]:
        """The finished batches and sequences; none if a file is missing or damaged."""
        folder, total = self.maps.folder, len(self.maps.lengths)
        try:
            known = json.loads(self.note.read_text(encoding="utf-8"))
            batches, sequences = int(known["batches"]), int(known["sequences"])
            is_whole = self.sizes == {name: (folder / name).stat().st_size for name in self.sizes}
            is_whole = is_whole and len(np.load(folder / "even.npy")) == total
        except DAMAGED:
            return 0, 0
        return (batches, sequences) if is_whole and 0 < batches <= sequences <= total else (0, 0)

    def create_files(self) -> None:
        """Create files of their full size, if the disk has space."""
        folder = self.maps.folder
        folder.mkdir(parents=True, exist_ok=True)
        needed, free = self.sizes["maps.f16"], shutil.disk_usage(folder).free
        if needed > free:
            raise DataError(
                f"the maps need {needed / 1e9:.1f} GB and {folder} has {free / 1e9:.1f} GB; free some space, or take"
                " fewer pairs with --limit"
            )
        for name, size in self.sizes.items():
            with (folder / name).open("wb") as file:
                file.truncate(size)

    def add(self, batch: StateBatch) -> None:
        """Write a batch, then record it."""
        assert batch.attention is not None
        steps = batch.attention.permute(1, 0, 3, 4, 2).flatten(2, 3).half().cpu().numpy()
        measured = measures_of(batch.attention.float(), batch.tokens).float().cpu().numpy()
        with (self.maps.folder / "maps.f16").open("r+b") as maps, (self.maps.folder / "heads.f32").open("r+b") as heads:
            for row, index in enumerate(batch.indices):
                maps.seek(int(self.maps.starts[index]) * 2)
                maps.write(np.ascontiguousarray(steps[row]).tobytes())
                heads.seek(index * self.row_bytes)
                heads.write(measured[row].tobytes())
        self.batches, self.sequences = self.batches + 1, self.sequences + len(batch.indices)
        write_text(self.note, json.dumps({"batches": self.batches, "sequences": self.sequences}))


def trivial_loss(maps: Maps) -> float:
    """The mean squared error, averaged over sequences, of a decoder that always answers 1 / n."""
    lengths = maps.lengths.tolist()
    losses = [float((maps.sequence(index) - 1 / n).square().mean()) for index, n in enumerate(lengths)]
    return float(np.mean(losses))


@dataclass(frozen=True, eq=False)
class HeadMeasures:
    """The mean over sequences of each measure, for every layer and head, and its value for even attention."""

    values: dict[str, NDArray[np.float64]]  # by measure: (L, H)
    even: dict[str, float]  # by measure: its value if every token attends to all tokens equally

    def to_dict(self) -> dict[str, Any]:
        """Each measure's values by layer, and its value for even attention."""
        return {name: {"values": found.tolist(), "even": self.even[name]} for name, found in self.values.items()}


def measures_of(maps: Tensor, tokens: Sequence[TokenizedText]) -> Tensor:
    """All measures of maps (L, B, H, T, T) of texts of one length: (B, M, L, H), M as in ``MEASURES``.

    nan where a measure is undefined: a single token, or a pair with an empty text.
    """
    roles = torch.stack([_token_roles(text) for text in tokens]).to(maps)
    first, separators, left, right = roles.unbind(1)
    length = maps.shape[-1]
    entropy = torch.special.entr(maps).sum(-1).mean(-1)
    crossing = torch.einsum("lbhij,bi,bj->lbh", maps, left, right) + torch.einsum("lbhij,bi,bj->lbh", maps, right, left)
    both = (left.sum(1) > 0) & (right.sum(1) > 0)
    found = [
        entropy / np.log(length) if length > 1 else torch.full_like(entropy, torch.nan),
        *(torch.einsum("lbhij,bj->lbh", maps, chosen) / length for chosen in (first, separators)),
        maps.diagonal(-1, -2, -1).mean(-1),
        maps.diagonal(1, -2, -1).mean(-1),
        crossing / torch.where(both, (left + right).sum(1), torch.nan)[None, :, None],
    ]
    return torch.stack(found).permute(2, 0, 1, 3)


def _token_roles(text: TokenizedText) -> Tensor:
    """Masks (4, T) of the opening token, the separators, the first and the second text."""
    special = torch.tensor(text.special)
    sides = torch.tensor([-1 if side is None else side for side in text.sides])
    opens = torch.zeros_like(special)
    opens[0] = special[0]
    return torch.stack([opens, special & ~opens, sides == 0, sides == 1]).float()


def even_measures(tokens: Sequence[TokenizedText]) -> NDArray[np.float64]:
    """The measures of even attention for each text: (n, M)."""
    maps = [torch.full((1, 1, 1, len(text), len(text)), 1 / len(text)) for text in tokens]
    measured = [measures_of(even, [text])[0, :, 0, 0] for even, text in zip(maps, tokens, strict=True)]
    return torch.stack(measured).double().numpy()


def pair_maps(encoder: Encoder, left: str, right: str, layer: int) -> dict[str, Any]:
    """A pair's maps in a layer, from 1, as one sequence: each head's (T, T), their mean, and the tokens."""
    [batch] = encoder.state_batches([(left, right)], attention=True)
    assert batch.attention is not None
    if not 1 <= layer <= len(batch.attention):
        raise DataError(f"no layer {layer}; there are 1 to {len(batch.attention)}")
    heads = batch.attention[layer - 1, 0].float().cpu().numpy()
    shown = {"heads": heads.round(4).tolist(), "mean": heads.mean(0).round(4).tolist()}
    return {"tokens": list(batch.tokens[0].tokens), **shown}
