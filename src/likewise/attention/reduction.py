"""Dimension reduction: attention maps -> points, by an LSTM autoencoder, PCA or UMAP."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d

from likewise.attention.maps import Maps
from likewise.attention.settings import AutoencoderSettings
from likewise.errors import DataError, MissingExtra
from likewise.progress import Progress, Ticker, tracked
from likewise.storage import DAMAGED, atomic_write

SIDE = 8  # a map is averaged to a grid of this many cells on each side
UMAP_COMPONENTS = 50  # principal components that UMAP starts from
DEFAULTS = AutoencoderSettings()
Numbers = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Reduction:
    """The points of maps."""

    points: NDArray[np.float64]  # (n, L, d), one space for all layers
    loss: float | None = None  # an autoencoder's mean squared error over all sequences
    curve: TrainingCurve | None = None


def reduced(
    maps: Maps,
    reducer: str,
    settings: AutoencoderSettings,
    seed: int = 0,
    checkpoint: Path | None = None,
    progress: Progress | None = None,
) -> Reduction:
    """Turn maps into points (n, L, latent) by ``lstm``, ``pca`` or ``umap``; all layers share the reducer.

    >>> from likewise.attention.maps import RandomMaps
    >>> maps = RandomMaps(np.array([5, 6, 7, 8]), layers=2, heads=3)
    >>> reduced(maps, "pca", AutoencoderSettings()).points.shape
    (4, 2, 2)
    """
    if reducer == "lstm":
        trained = train_autoencoder(maps, settings, seed, checkpoint, progress)
        points, loss = trained.points(maps, progress)
        return Reduction(points.astype(np.float64), loss, trained.curve)
    of_grids = {"pca": pca_points, "umap": umap_points}[reducer]
    return Reduction(of_grids(grids_of(maps, progress), settings.latent, seed).astype(np.float64))


def require_reducers(names: Iterable[str]) -> None:
    """Rejects a reducer whose package is missing, before long work."""
    if "umap" in names and find_spec("umap") is None:
        raise MissingExtra("umap-learn", "umap")


def plane_view(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """A view (n, L, 2) of points (n, L, d): the points, or each layer's first two principal components."""
    if points.shape[2] == 2:
        return points
    centred = points - points.mean(0)
    axes = np.linalg.svd(centred.transpose(1, 0, 2), full_matrices=False)[2][:, :2]
    view: NDArray[np.float64] = np.einsum("nld,lcd->nlc", centred, axes)
    return view


@dataclass(frozen=True)
class TrainingCurve:
    """Mean squared errors, each the mean over sequences."""

    train: tuple[float, ...]  # while training, by epoch
    held_out: tuple[float, ...]  # on held-out sequences; the training loss if none is held out

    @property
    def best(self) -> int:
        """The epoch, from 0, with the lowest held-out loss."""
        return min(range(len(self.held_out)), key=self.held_out.__getitem__)

    def over(self, epochs: int, patience: int) -> bool:
        """Whether training has ended."""
        done = len(self.held_out)
        return done >= epochs or (done > 0 and done - 1 - self.best >= patience)

    def can_resume(self, epochs: int, patience: int) -> bool:
        """Whether training with these limits passes through this state and can resume from it."""
        before = range(len(self.train))
        return not any(TrainingCurve(self.train[:n], self.held_out[:n]).over(epochs, patience) for n in before)

    def to_dict(self) -> dict[str, Any]:
        """The losses, and the best epoch, from 1."""
        return {"train": list(self.train), "held_out": list(self.held_out), "best_epoch": self.best + 1}


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
        """The encoder's final states as points: (B, T, H) -> (B, latent)."""
        _, (final, _) = self.reader(steps)
        points: Tensor = self.to_point(final.transpose(0, 1).flatten(1))
        return points

    def decoded(self, points: Tensor, length: int) -> Tensor:
        """Maps decoded from points, which the decoder sees at every step: (B, latent) -> (B, T, H)."""
        repeated = points[:, None].expand(-1, length, -1)
        steps: Tensor = self.to_steps(self.writer(repeated)[0])
        return steps

    def forward(self, steps: Tensor) -> Tensor:
        """Each map decoded from its own point: (B, T, H)."""
        return self.decoded(self.points(steps), steps.shape[1])

    def loss(self, steps: Tensor) -> Tensor:
        """The mean squared error of maps of one length."""
        return nn.functional.mse_loss(self(steps), steps)


@dataclass(frozen=True, eq=False)
class TrainedAutoencoder:
    """The weights of the best epoch, and the training curve."""

    model: LstmAutoencoder
    curve: TrainingCurve

    def points(self, maps: Maps, progress: Progress | None = None) -> tuple[NDArray[np.float32], float]:
        """The points (n, L, latent) of all sequences, and their mean loss."""
        points, losses, count = [], [], len(maps.lengths)
        with torch.inference_mode(), quick_recurrence():
            for steps in tracked(map(maps.sequence, range(count)), progress, count, "points"):
                found = self.model.points(steps)
                points.append(found.numpy())
                losses.append(float(nn.functional.mse_loss(self.model.decoded(found, steps.shape[1]), steps)))
        return np.stack(points), float(np.mean(losses))


def train_autoencoder(
    maps: Maps,
    settings: AutoencoderSettings = DEFAULTS,
    seed: int = 0,
    checkpoint: Path | None = None,
    progress: Progress | None = None,
) -> TrainedAutoencoder:
    """Train on all layers of one sequence at a time, without padding, with early stopping on held-out sequences.

    With a checkpoint file, training resumes after its last epoch, also with more epochs or patience, and reaches the
    same weights as an uninterrupted run.

    >>> from likewise.attention.maps import RandomMaps
    >>> maps = RandomMaps(np.array([3, 4, 5]), layers=2, heads=4)
    >>> trained = train_autoencoder(maps, AutoencoderSettings(hidden=4, epochs=1))
    >>> points, loss = trained.points(maps)
    >>> points.shape, len(trained.curve.train)
    ((3, 2, 2), 1)
    """
    training = _Training(maps, settings, seed)
    if checkpoint is not None and checkpoint.exists():
        training.resume(checkpoint)
    steps = len(training.seen)
    ticker = Ticker(progress, settings.epochs * steps, "maps learnt")
    ticker.add(len(training.curve.train) * steps)
    while not training.curve.over(settings.epochs, settings.patience):
        ticker.note = f"maps learnt, epoch {len(training.curve.train) + 1}"
        with quick_recurrence():
            training.run_epoch(ticker)
        if checkpoint is not None:
            training.save(checkpoint)
    ticker.close()
    training.model.load_state_dict(training.best)
    return TrainedAutoencoder(training.model.eval(), training.curve)


class _Training:
    """A training that can be saved after each epoch and resumed."""

    def __init__(self, maps: Maps, settings: AutoencoderSettings, seed: int) -> None:
        self.maps, self.settings, self.seed = maps, settings, seed
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.model = LstmAutoencoder(maps.heads, settings.hidden, settings.directions, settings.latent)
        self.optimizer = torch.optim.Adam(self.model.parameters(), settings.learning_rate)
        self.best: dict[str, Tensor] = {}  # weights of the best epoch so far
        self.curve = TrainingCurve((), ())
        count = len(maps.lengths)
        order = np.random.default_rng(seed).permutation(count).tolist()
        held = min(round(settings.held_out * count), count - 1)
        self.seen, self.held = order[held:], order[:held]

    def run_epoch(self, ticker: Ticker) -> None:
        epoch = len(self.curve.train)
        order = np.random.default_rng((self.seed, epoch)).permutation(np.asarray(self.seen))
        train = float(np.mean([self._step(self.maps.sequence(int(index)), ticker) for index in order]))
        with torch.inference_mode():
            held_losses = [float(self.model.loss(self.maps.sequence(index))) for index in self.held]
        held_out = float(np.mean(held_losses)) if held_losses else train
        if not math.isfinite(train + held_out):
            raise DataError("the autoencoder's loss is not finite; lower --learning-rate")
        self.curve = TrainingCurve((*self.curve.train, train), (*self.curve.held_out, held_out))
        if self.curve.best == epoch:
            self.best = {name: weight.clone() for name, weight in self.model.state_dict().items()}

    def _step(self, steps: Tensor, ticker: Ticker) -> float:
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

    def resume(self, path: Path) -> None:
        """Take the state of a checkpoint, if it is readable and this training passes through it."""
        try:
            state = torch.load(path, weights_only=True)
            curve = TrainingCurve(tuple(state["curve"]["train"]), tuple(state["curve"]["held_out"]))
        except (UnpicklingError, RuntimeError, *DAMAGED):
            return
        if curve.can_resume(self.settings.epochs, self.settings.patience):
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.best, self.curve = state["best"], curve


@contextmanager
def quick_recurrence() -> Iterator[None]:
    """Run LSTMs on one thread, with denormals flushed to zero.

    Over hundreds of steps gradients become denormal, and a backward pass takes three times as long; they are far below
    rounding. The setting belongs to one thread, so the work must stay on it; small batches are fastest there anyway.
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


def grids_of(maps: Maps, progress: Progress | None = None) -> Numbers:
    """Every map as a grid of averages, in multiples of even attention: (n, L, H * SIDE * SIDE).

    Even attention gives 1 everywhere at any length, so that the size of the numbers does not reveal the length.
    """
    lengths = tracked(enumerate(maps.lengths.tolist()), progress, len(maps.lengths), "maps summarised")
    return np.stack([grid_of(maps.sequence(index), n).numpy() for index, n in lengths])


def grid_of(steps: Tensor, n: int) -> Tensor:
    """The grids of maps (L, n * n, H): (L, H * SIDE * SIDE)."""
    squares = steps.transpose(1, 2).reshape(len(steps), -1, n, n)
    return adaptive_avg_pool2d(squares, SIDE).flatten(1) * n


def pca_points(grids: Numbers, latent: int, seed: int = 0) -> Numbers:
    """The first principal components of all layers' grids (n, L, S): (n, L, latent)."""
    from sklearn.decomposition import PCA

    rows = grids.reshape(-1, grids.shape[-1])
    kept = min(latent, *rows.shape)
    # Components beyond the rank are zeros, so that all points have the same size.
    points = np.zeros((len(rows), latent), np.float32)
    points[:, :kept] = PCA(kept, random_state=seed).fit_transform(rows)
    return points.reshape(*grids.shape[:2], latent)


def umap_points(grids: Numbers, latent: int, seed: int = 0) -> Numbers:
    """UMAP of all layers' grids (n, L, S): (n, L, latent)."""
    try:
        from umap import UMAP
    except ImportError as error:
        raise MissingExtra("umap-learn", "umap") from error
    start = pca_points(grids, min(UMAP_COMPONENTS, grids.shape[-1]), seed)
    rows = start.reshape(-1, start.shape[-1])
    with warnings.catch_warnings():
        # UMAP warns that a seed disables parallelism, and about few points.
        warnings.simplefilter("ignore")
        points = UMAP(n_components=latent, random_state=seed).fit_transform(rows)
    return np.asarray(points, np.float32).reshape(*grids.shape[:2], latent)
