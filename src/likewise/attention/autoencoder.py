"""The autoencoder: an LSTM that reads a map step by step, keeps a few numbers of it and writes it again from these."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from likewise.attention.maps import MapSource
from likewise.attention.settings import AutoencoderSettings
from likewise.attention.training_curve import TrainingCurve
from likewise.drafts import atomic_write
from likewise.errors import DataError
from likewise.progress import Progress, Ticker

USUAL = AutoencoderSettings()


class LstmAutoencoder(nn.Module):
    """Maps as steps (B, T, H) -> points (B, latent) -> steps (B, T, H).

    >>> model = LstmAutoencoder(heads=3, hidden=4)
    >>> steps = torch.rand(2, 9, 3)
    >>> model.points(steps).shape, model(steps).shape
    (torch.Size([2, 2]), torch.Size([2, 9, 3]))
    """

    def __init__(self, heads: int, hidden: int = 32, directions: int = 2, latent: int = 2) -> None:
        super().__init__()
        both = directions == 2
        self.reader = nn.LSTM(heads, hidden, batch_first=True, bidirectional=both)
        self.to_point = nn.Linear(directions * hidden, latent)
        self.writer = nn.LSTM(latent, hidden, batch_first=True, bidirectional=both)
        self.to_steps = nn.Linear(directions * hidden, heads)

    def points(self, steps: Tensor) -> Tensor:
        """The final states of the reader as a few numbers: (B, T, H) -> (B, latent)."""
        _, (final, _) = self.reader(steps)
        points: Tensor = self.to_point(final.transpose(0, 1).flatten(1))
        return points

    def written(self, points: Tensor, length: int) -> Tensor:
        """Maps written from points, which the writer sees at every step: (B, latent) -> (B, T, H)."""
        repeated = points[:, None].expand(-1, length, -1)
        steps: Tensor = self.to_steps(self.writer(repeated)[0])
        return steps

    def forward(self, steps: Tensor) -> Tensor:
        """Each map written again from its own point: (B, T, H)."""
        return self.written(self.points(steps), steps.shape[1])

    def loss(self, steps: Tensor) -> Tensor:
        """The mean squared error of maps of one length."""
        return nn.functional.mse_loss(self(steps), steps)


@dataclass(frozen=True, eq=False)
class TrainedAutoencoder:
    """The weights of the best epoch, and how training went."""

    model: LstmAutoencoder
    curve: TrainingCurve

    def points(self, maps: MapSource, progress: Progress | None = None) -> tuple[NDArray[np.float32], float]:
        """The points (n, L, latent) of all sequences, and the mean of their losses."""
        points, losses = [], []
        ticker = Ticker(progress, len(maps.lengths), "points")
        with torch.inference_mode(), quick_recurrence():
            for index in range(len(maps.lengths)):
                steps = maps.sequence(index)
                found = self.model.points(steps)
                points.append(found.numpy())
                losses.append(float(nn.functional.mse_loss(self.model.written(found, steps.shape[1]), steps)))
                ticker.add()
        ticker.close()
        return np.stack(points), float(np.mean(losses))


def train_autoencoder(
    maps: MapSource,
    settings: AutoencoderSettings = USUAL,
    seed: int = 0,
    checkpoint: Path | None = None,
    progress: Progress | None = None,
) -> TrainedAutoencoder:
    """Train on all layers of one sequence at a time, without padding; stop early by the loss on held-out sequences.

    With a checkpoint file every epoch is kept, and training goes on after the last one that is there, to the same
    weights as without a break; also with more epochs or patience than before.

    >>> from likewise.attention.maps import RandomMaps
    >>> maps = RandomMaps(np.array([3, 4, 5]), layers=2, heads=4)
    >>> trained = train_autoencoder(maps, AutoencoderSettings(hidden=4, epochs=1))
    >>> points, loss = trained.points(maps)
    >>> points.shape, len(trained.curve.train)
    ((3, 2, 2), 1)
    """
    state = _Training.begun(maps, settings, seed)
    if checkpoint is not None and checkpoint.exists():
        state = state.resumed(checkpoint, settings)
    seen, held = _divided(len(maps.lengths), settings.held_out, seed)
    ticker = Ticker(progress, settings.epochs * len(seen), "maps learnt")
    ticker.add(len(state.curve.train) * len(seen))
    while not state.curve.over(settings.epochs, settings.patience):
        ticker.note = f"maps learnt, epoch {len(state.curve.train) + 1}"
        with quick_recurrence():
            state = state.after_epoch(maps, seen, held, seed, ticker)
        if checkpoint is not None:
            state.save(checkpoint)
    ticker.close()
    state.model.load_state_dict(state.best)
    return TrainedAutoencoder(state.model.eval(), state.curve)


@dataclass(frozen=True, eq=False)
class _Training:
    """Everything that the next epoch needs."""

    model: LstmAutoencoder
    optimizer: torch.optim.Adam
    best: dict[str, Tensor]
    """the weights of the best epoch so far"""
    curve: TrainingCurve

    @classmethod
    def begun(cls, maps: MapSource, settings: AutoencoderSettings, seed: int) -> _Training:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = LstmAutoencoder(maps.heads, settings.hidden, settings.directions, settings.latent)
        optimizer = torch.optim.Adam(model.parameters(), settings.learning_rate)
        return cls(model, optimizer, {}, TrainingCurve((), ()))

    def after_epoch(
        self, maps: MapSource, seen: Sequence[int], held: Sequence[int], seed: int, ticker: Ticker
    ) -> _Training:
        epoch = len(self.curve.train)
        order = np.random.default_rng((seed, epoch)).permutation(np.asarray(seen))
        train = float(np.mean([self._learnt(maps.sequence(int(index)), ticker) for index in order]))
        with torch.inference_mode():
            held_losses = [float(self.model.loss(maps.sequence(index))) for index in held]
        held_out = float(np.mean(held_losses)) if held_losses else train
        if not math.isfinite(train + held_out):
            raise DataError("the autoencoder's loss is no number; lower --learning-rate")
        curve = TrainingCurve((*self.curve.train, train), (*self.curve.held_out, held_out))
        better = curve.best == epoch
        best = {name: weight.clone() for name, weight in self.model.state_dict().items()} if better else self.best
        return replace(self, best=best, curve=curve)

    def _learnt(self, steps: Tensor, ticker: Ticker) -> float:
        self.optimizer.zero_grad()
        loss = self.model.loss(steps)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        ticker.add()
        return float(loss.detach())

    def save(self, path: Path) -> None:
        state: dict[str, Any] = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        state |= {"best": self.best, "curve": asdict(self.curve)}
        atomic_write(path, lambda draft: torch.save(state, draft))

    def resumed(self, path: Path, settings: AutoencoderSettings) -> _Training:
        """The kept state, where this training would come by it; else the beginning."""
        try:
            state = torch.load(path, weights_only=True)
            curve = TrainingCurve(tuple(state["curve"]["train"]), tuple(state["curve"]["held_out"]))
        except (UnpicklingError, EOFError, RuntimeError, KeyError, TypeError, ValueError, OSError):
            return self  # a damaged file: what it held is learnt again
        if not curve.is_on_the_way(settings.epochs, settings.patience):
            return self
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        return replace(self, best=state["best"], curve=curve)


def _divided(count: int, held_out: float, seed: int) -> tuple[list[int], list[int]]:
    """The sequences to learn from, at least one, and those held out."""
    order = np.random.default_rng(seed).permutation(count).tolist()
    held = min(round(held_out * count), count - 1)
    return order[held:], order[:held]


@contextmanager
def quick_recurrence() -> Iterator[None]:
    """Run LSTMs on one thread, with numbers next to nothing taken as nothing.

    Over hundreds of steps a gradient fades into numbers so small that processors handle them far slower than others:
    a backward pass takes three times as long. They are far below the rounding of what they are added to. The setting
    belongs to a thread, so the work must stay on this one, which small batches like best anyway.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    flushed = torch.set_flush_denormal(True)
    try:
        yield
    finally:
        if flushed:
            torch.set_flush_denormal(False)
        torch.set_num_threads(threads)
