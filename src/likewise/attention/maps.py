"""Attention maps of pairs, each pair one sequence: on disk in half precision, or drawn at random."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likewise.attention.head_measures import MEASURES, HeadMeasures, averaged, even_measures, measures_of
from likewise.drafts import atomic_write
from likewise.encoder import Encoder
from likewise.encoder.tensors import StateBatch
from likewise.errors import DataError
from likewise.progress import Progress, Ticker

MAP_TOKENS = 1024
"""Tokens of a batch: maps grow with their square, so it is smaller than where vectors are made."""


class MapSource(Protocol):
    """Sequences of attention maps."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each sequence."""
        ...

    @property
    def heads(self) -> int:
        """Heads of a layer."""
        ...

    @property
    def layers(self) -> int:
        """Layers of a sequence."""
        ...

    def sequence(self, index: int) -> Tensor:
        """A sequence's maps as steps: (L, n * n, H), step i * n + j is how token i looks at token j."""
        ...


@dataclass(frozen=True, eq=False)
class AttentionMaps:
    """Maps in a folder: one file of half-precision numbers, sequence after sequence, which is memory-mapped.

    >>> import tempfile
    >>> maps = AttentionMaps(Path(tempfile.mkdtemp()), np.array([1, 2]), layers=1, heads=1)
    >>> np.array([1.0, 0.5, 0.5, 0.25, 0.75], np.float16).tofile(maps.folder / "maps.f16")
    >>> maps.map_of(1, layer=1).tolist()
    [[[0.5, 0.5], [0.25, 0.75]]]
    """

    folder: Path
    lengths: NDArray[np.int64]
    layers: int
    heads: int

    @cached_property
    def _numbers(self) -> NDArray[np.float16]:
        return np.memmap(self.folder / "maps.f16", np.float16, "r")

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return map_starts(self.lengths, self.layers, self.heads)

    def sequence(self, index: int) -> Tensor:
        """A sequence's maps as steps (L, n * n, H)."""
        shape = (self.layers, int(self.lengths[index]) ** 2, self.heads)
        flat = self._numbers[self._starts[index] : self._starts[index + 1]]
        return torch.from_numpy(flat.reshape(shape).astype(np.float32))

    def map_of(self, index: int, layer: int) -> NDArray[np.float32]:
        """The maps (H, n, n) of one layer, from 1 on, of a sequence."""
        n = int(self.lengths[index])
        steps: NDArray[np.float32] = self.sequence(index)[layer - 1].numpy()
        return steps.reshape(n, n, self.heads).transpose(2, 0, 1)

    def head_measures(self) -> HeadMeasures:
        """What was measured on each head while the maps were made, in full precision."""
        shape = (len(self.lengths), len(MEASURES), self.layers, self.heads)
        per_text = np.fromfile(self.folder / "heads.f32", np.float32).reshape(shape)
        return averaged(per_text, np.load(self.folder / "even.npy"))


@dataclass(frozen=True, eq=False)
class RandomMaps:
    """Content-free attention: every row of every map is drawn evenly from all ways to share out 1 (Dirichlet of ones).

    >>> maps = RandomMaps(np.array([3, 4]), layers=2, heads=5, seed=0)
    >>> maps.sequence(1).shape, bool(torch.allclose(maps.sequence(0).reshape(2, 3, 3, 5).sum(2), torch.ones(2, 3, 5)))
    (torch.Size([2, 16, 5]), True)
    """

    lengths: NDArray[np.int64]
    layers: int
    heads: int
    seed: int = 0

    def sequence(self, index: int) -> Tensor:
        """The same numbers whenever they are asked for: (L, n * n, H)."""
        n = int(self.lengths[index])
        rng = np.random.default_rng((self.seed, index))
        drawn = rng.standard_exponential((self.layers, n, n, self.heads), dtype=np.float32)
        drawn /= drawn.sum(2, keepdims=True)
        return torch.from_numpy(drawn.reshape(self.layers, n * n, self.heads))


def map_starts(lengths: NDArray[np.int64], layers: int, heads: int) -> NDArray[np.int64]:
    """Where each sequence's numbers begin in the file, and where the last ends: (n + 1,)."""
    return np.concatenate([[0], np.cumsum(lengths**2 * layers * heads)])


def write_maps(
    encoder: Encoder,
    pairs: Sequence[tuple[str, str]],
    folder: Path,
    prompt: str = "",
    progress: Progress | None = None,
) -> AttentionMaps:
    """Run pairs as one sequence each and keep every attention weight; an interrupted run goes on where it stopped.

    What is in the folder must be of the same model, pairs and prompt; who calls this sees to it.

    >>> import tempfile
    >>> maps = write_maps(Encoder.load("minilm"), [("A cat.", "A dog.")], Path(tempfile.mkdtemp()))
    >>> maps.sequence(0).shape
    torch.Size([6, 81, 12])
    """
    tokens = encoder.tokenize(pairs, prompt)
    lengths = np.array([len(text) for text in tokens], dtype=np.int64)
    maps = AttentionMaps(folder, lengths, encoder.model_view.layers, encoder.model_view.heads)
    written = _Writer(maps)
    if written.done == 0:
        written.begin()
        np.save(folder / "even.npy", even_measures(tokens))
    ticker = Ticker(progress, len(pairs), "attention maps")
    batches = encoder.state_batches(pairs, prompt=prompt, attention=True, budget=MAP_TOKENS, skip=written.done)
    ticker.add(written.sequences_done)
    for batch in batches:
        written.add(batch)
        ticker.add(len(batch.indices))
    ticker.close()
    return maps


class _Writer:
    """Writes batch after batch in their own order, and notes how many are safely on the disk."""

    def __init__(self, maps: AttentionMaps) -> None:
        self.maps, self.note = maps, maps.folder / "progress.json"
        self.starts = map_starts(maps.lengths, maps.layers, maps.heads)
        self.done, self.sequences_done = self._noted() if self._whole() else (0, 0)

    def _noted(self) -> tuple[int, int]:
        """The batches and sequences that are done; none where the note is missing or says nothing of the kind."""
        try:
            said = json.loads(self.note.read_text(encoding="utf-8"))
            batches, sequences = int(said["batches"]), int(said["sequences"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0, 0
        return (batches, sequences) if 0 < batches <= sequences <= len(self.maps.lengths) else (0, 0)

    def _whole(self) -> bool:
        """Whether the files are there in their full size."""
        folder, even = self.maps.folder, self.maps.folder / "even.npy"
        try:
            sizes = {name: (folder / name).stat().st_size for name in self.sizes}
            return sizes == self.sizes and len(np.load(even)) == len(self.maps.lengths)
        except (OSError, ValueError, EOFError):
            return False

    @property
    def sizes(self) -> dict[str, int]:
        """The bytes of each file."""
        return {"maps.f16": int(self.starts[-1]) * 2, "heads.f32": len(self.maps.lengths) * self._row_bytes}

    def begin(self) -> None:
        """Files of their full size, on a disk that has the room."""
        folder = self.maps.folder
        folder.mkdir(parents=True, exist_ok=True)
        needed, free = self.sizes["maps.f16"], shutil.disk_usage(folder).free
        if needed > free:
            raise DataError(
                f"the maps need {needed / 1e9:.1f} GB and {folder} has {free / 1e9:.1f} GB; make room, or take fewer"
                " pairs with --limit"
            )
        for name, size in self.sizes.items():
            with (folder / name).open("wb") as file:
                file.truncate(size)

    @property
    def _row_bytes(self) -> int:
        return len(MEASURES) * self.maps.layers * self.maps.heads * 4

    def add(self, batch: StateBatch) -> None:
        """Write a batch, then the note that it is there."""
        assert batch.attention is not None
        steps = batch.attention.permute(1, 0, 3, 4, 2).flatten(2, 3).half().cpu().numpy()
        measured = measures_of(batch.attention.float(), batch.tokens).float().cpu().numpy()
        with (self.maps.folder / "maps.f16").open("r+b") as maps, (self.maps.folder / "heads.f32").open("r+b") as heads:
            for row, index in enumerate(batch.indices):
                maps.seek(int(self.starts[index]) * 2)
                maps.write(np.ascontiguousarray(steps[row]).tobytes())
                heads.seek(index * self._row_bytes)
                heads.write(measured[row].tobytes())
        self.done, self.sequences_done = self.done + 1, self.sequences_done + len(batch.indices)
        said = json.dumps({"batches": self.done, "sequences": self.sequences_done})
        atomic_write(self.note, lambda draft: draft.write_text(said))


def trivial_loss(maps: MapSource) -> float:
    """The mean squared error, averaged over sequences, of a decoder that answers 1 / n everywhere."""
    lengths = maps.lengths.tolist()
    losses = [float((maps.sequence(index) - 1 / n).square().mean()) for index, n in enumerate(lengths)]
    return float(np.mean(losses))
