"""Where the calibration of an index is, whether it still fits, and how it gives hits their meaning.

Next to an index in a folder, in the user's cache for a server, and in the object for an index in memory. It fits as
long as everything is the same that a score and the corpus depend on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from likewise.errors import DataError, UsageError
from likewise.search.calibration import Calibration, CalibrationSettings, calibrate
from likewise.search.hits import Hits, ScoreMeaning
from likewise.search.stores.folder import CALIBRATION, has_scheme
from likewise.storage import content_key, user_cache

if TYPE_CHECKING:
    from likewise.data import ScoredPair
    from likewise.encoder import Encoder
    from likewise.progress import Progress
    from likewise.search.stores import Store

FREE = ("model", "corpus", "dimension", "texts", "metadata")
"""Settings that may differ: names of the model, sizes that others imply; the corpus is compared by itself."""
NAMES = {"model_sha256": "model"}


@dataclass(frozen=True)
class CurrentCalibration:
    """The calibration of an index as it is now, or why there is none."""

    calibration: Calibration | None = None
    flaw: str = ""  # one line, empty without any calibration

    def required(self, address: str) -> Calibration:
        """The calibration, or a UsageError that says how to make one."""
        if self.calibration is None:
            raise UsageError(self.flaw or f"{address} has no calibration; calibrate first: {_command(address)}")
        return self.calibration


def _command(address: str) -> str:
    return "index.calibrate()" if address == "memory" else f"likewise calibrate {address}"


def calibration_path(store: Store) -> Path | None:
    """The file of a store's calibration, which may not exist; None for an index in memory."""
    if has_scheme(store.address):
        settings = {name: value for name, value in store.settings.items() if name != "model"}
        return user_cache() / "calibrations" / f"{content_key(store.address, settings)[:32]}.json"
    return None if store.address == "memory" else Path(store.address) / CALIBRATION


def stored_calibration(store: Store) -> CurrentCalibration:
    """The calibration of a store, without its index."""
    path = calibration_path(store)
    return CurrentCalibration() if path is None else checked_calibration(_read(path), store)


def checked_calibration(found: CurrentCalibration, store: Store) -> CurrentCalibration:
    """A calibration if it fits a store; else why not."""
    if found.calibration is None:
        return found
    changed = changed_setting(found.calibration, store.settings)
    if not changed and found.calibration.depends.get("corpus") != store.state:
        changed = "corpus"
    if changed:
        cure = f"calibrate again: {_command(store.address)}"
        return CurrentCalibration(flaw=f"the calibration of {store.address} was made for another {changed}; {cure}")
    return found


def changed_setting(found: Calibration, settings: Mapping[str, Any]) -> str:
    """The first setting in which a calibration differs from these; empty if it fits them."""
    for name in sorted((found.depends.keys() | settings.keys()) - set(FREE)):
        # As JSON, because a stored tuple comes back as a list; a missing setting is None.
        one, other = (json.dumps(each.get(name), default=str) for each in (found.depends, settings))
        if one != other:
            return NAMES.get(name, name.replace("_", " "))
    return ""


@dataclass(frozen=True)
class Least:
    """What hits must have at least: a percentile, a probability of a match; None does not count.

    >>> Least(percentile=0.99).leaves(ScoreMeaning(0.992))
    True
    """

    percentile: float | None = None
    probability: float | None = None

    def __post_init__(self) -> None:
        for kind, value in vars(self).items():
            if value is not None and not 0 <= value <= 1:
                raise UsageError(f"a {kind} is between 0 and 1, such as 0.99, got {value:g}")

    def leaves(self, meaning: ScoreMeaning | None) -> bool:
        """Whether a score is high enough."""
        known: dict[str, Any] = {} if meaning is None else vars(meaning)
        wanted = {kind: value for kind, value in vars(self).items() if value is not None}
        return all(known.get(kind) is not None and known[kind] >= value for kind, value in wanted.items())

    def of(self, hits: Hits) -> Hits:
        """Only the hits that are high enough."""
        return hits if self == ANY else replace(hits, hits=tuple(hit for hit in hits if self.leaves(hit.meaning)))


ANY = Least()


class Calibrated:
    """What an index knows about its calibration; a base class of ``Index``."""

    encoder: Encoder
    store: Store
    _held: tuple[object, CurrentCalibration] = None, CurrentCalibration()  # when the file was written, and its content

    def calibrate(
        self, pairs: Sequence[ScoredPair] | None = None, settings: CalibrationSettings | None = None, *,
        queries: Sequence[str] | None = None, name: str = "", progress: Progress | None = None,
    ) -> Calibration:  # fmt: skip
        """Measure what scores mean in this index, and keep that with it: from then on hits have a meaning.

        ``pairs`` and ``queries`` are those of the function ``calibrate``; ``name`` is the corpus's name for people.
        """
        found = calibrate(self, None, pairs, settings, queries=queries, progress=progress)
        found = replace(found, corpus=name or found.corpus)
        if (path := calibration_path(self.store)) is not None:
            found.save(path)
        self._held = self._written(path), CurrentCalibration(found)
        return found

    @property
    def calibration(self) -> Calibration | None:
        """What scores mean here; None if it was not measured, or if the corpus or the model has changed since."""
        return self.current_calibration().calibration

    def current_calibration(self) -> CurrentCalibration:
        """The calibration that fits the present texts and settings, or why there is none."""
        path = calibration_path(self.store)
        written = self._written(path)
        if path is not None and written != self._held[0]:
            self._held = written, _read(path)
        return checked_calibration(self._held[1], self.store)

    @staticmethod
    def _written(path: Path | None) -> object:
        try:
            return None if path is None else ((state := path.stat()).st_mtime_ns, state.st_size)
        except OSError:
            return None

    def with_meaning(self, found: Sequence[Hits]) -> list[Hits]:
        """Hits that say what their scores mean, if that is known."""
        calibration = self.calibration
        return list(found) if calibration is None else [_meant(hits, calibration) for hits in found]

    def check_least(self, least: Least, name: str = "") -> None:
        """Rejects a least percentile or probability that the calibration cannot tell; ``name`` is the user's own."""
        if least != ANY:
            found = self.current_calibration().required(name or self.store.address)
            if least.probability is not None:
                found.required_match()


def _meant(hits: Hits, calibration: Calibration) -> Hits:
    meanings = calibration.meanings([hit.score for hit in hits])
    return replace(hits, hits=tuple(replace(hit, meaning=one) for hit, one in zip(hits, meanings, strict=True)))


def _read(path: Path) -> CurrentCalibration:
    if not path.is_file():
        return CurrentCalibration()
    try:
        return CurrentCalibration(Calibration.load(path))
    except DataError as error:
        return CurrentCalibration(flaw=str(error))
