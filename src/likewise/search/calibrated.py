"""Thresholds and meanings from a calibration, for commands that compare the texts of a file without an index."""

from __future__ import annotations

from dataclasses import dataclass

from likewise.data import Dataset
from likewise.encoder import Encoder
from likewise.errors import UsageError
from likewise.search.calibration import Calibration
from likewise.search.index import IndexSettings
from likewise.search.indexed_files import cached_folder, fingerprint
from likewise.search.meanings import calibration_for
from likewise.search.stores.folder import CALIBRATION


@dataclass(frozen=True)
class CalibratedThreshold:
    """The score from which pairs have a precision, a probability of a match or a percentile of unrelated pairs."""

    calibration: Calibration
    kind: str = "precision"
    value: float = 0.9

    @property
    def score(self) -> float:
        """The threshold, which is a cosine."""
        return self.calibration.threshold(**{self.kind: self.value}).value

    @property
    def basis(self) -> str:
        """Where the threshold comes from."""
        return f"{self.kind} {self.value:g} by the calibration of {self.calibration.corpus}"


def own_calibration(encoder: Encoder, source: Dataset, prompt: str | None = None) -> Calibration | None:
    """The calibration of a file's own index in the user's cache; None if it was never calibrated."""
    path = cached_folder(fingerprint(source), encoder, IndexSettings()) / CALIBRATION
    return calibration_for(str(path), encoder, (prompt, prompt)) if path.exists() else None


def chosen_threshold(
    threshold: float | None, wanted: dict[str, float | None], calibration: Calibration | None, file: str
) -> float | CalibratedThreshold:
    """The given threshold, or the one that a calibration has for a wanted precision, probability or percentile."""
    given = {kind: value for kind, value in wanted.items() if value is not None}
    if threshold is not None:
        if given:
            raise UsageError(f"--threshold does not go with --{next(iter(given))}; leave one of them out")
        return threshold
    if len(given) > 1:
        raise UsageError(f"--{' does not go with --'.join(given)}; leave one of them out")
    if calibration is None:
        cure = f"give --threshold, such as 0.9, or calibrate first: likewise calibrate {file} --pairs FILE"
        raise UsageError(f"no threshold and no calibration of {file}; {cure}")
    return CalibratedThreshold(calibration, *next(iter(given.items()), ("precision", 0.9)))
