"""A disk cache of contributions: each text is computed once, and found by a hash of the text, model and settings."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from likewise.encoder import Encoder
from likewise.encoder.weights import identity
from likewise.errors import UsageError
from likewise.explain.settings import Settings
from likewise.explain.texts import Contributions, TextInput, Unit, contribution_stream
from likewise.progress import Progress, Ticker
from likewise.storage import FileCache, content_key

FORMAT = 1
MOST_BYTES = 2**28  # What the folder may take; beyond, the files used longest ago go first
IRRELEVANT = ("memory", "seed")  # Settings that contributions by bilrp do not depend on


@dataclass(frozen=True)
class ContributionCache:
    """Contributions by bilrp in a folder, one file a text."""

    encoder: Encoder
    settings: Settings
    folder: Path
    most_bytes: int = MOST_BYTES

    def __post_init__(self) -> None:
        if self.settings.split:
            raise UsageError("split shares are not cached; call contributions for them")

    def of(self, texts: Sequence[TextInput], progress: Progress | None = None) -> list[Contributions]:
        """The contributions of each text; those not in the cache are computed together."""
        unique = list(dict.fromkeys(texts))
        found = {text: one for text in unique if (one := self._read(text)) is not None}
        new = [text for text in unique if text not in found]
        ticker = Ticker(progress, len(new), "explained texts")
        for index, one in contribution_stream(self.encoder, new, "bilrp", self.settings):
            found[new[index]] = one
            self._files.write(self._key(new[index]), partial(_save, one))
            ticker.add()
        ticker.close()
        if new:
            self._files.prune()
        return [found[text] for text in texts]

    @cached_property
    def _files(self) -> FileCache:
        return FileCache(self.folder, ".npz", self.most_bytes)

    @cached_property
    def _identity(self) -> dict[str, Any]:
        chosen = {name: value for name, value in asdict(self.settings).items() if name not in IRRELEVANT}
        return {"format": FORMAT, "settings": chosen} | identity(self.encoder)

    def _key(self, text: TextInput) -> str:
        prompt = self.encoder.modules_config.prompt_for(None) if text.prompt is None else text.prompt
        return content_key(self._identity, asdict(replace(text, prompt=prompt)))

    def _read(self, text: TextInput) -> Contributions | None:
        return self._files.read(self._key(text), _load)


def _save(one: Contributions, path: Path) -> None:
    units = [(unit.text, unit.start, unit.end, unit.tokens, unit.kind) for unit in one.units]
    metadata = {"text": one.text, "units": units, "truncated": one.truncated, "ids": one.ids}
    data = np.frombuffer(json.dumps(metadata).encode(), np.uint8)
    with path.open("wb") as stream:
        np.savez(stream, values=one.values, bias=one.bias, vector=one.vector, metadata=data)


def _load(path: Path) -> Contributions:
    """Read a file of the cache; raises if it is anything else."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            values, bias, vector = (np.asarray(stored[name]) for name in ("values", "bias", "vector"))
            metadata = json.loads(np.asarray(stored["metadata"]).tobytes())
    except (LookupError, RuntimeError, zlib.error) as error:
        raise ValueError("no file of the cache") from error
    units = tuple(Unit(name, start, end, tuple(indices), kind) for name, start, end, indices, kind in metadata["units"])
    if values.shape != (len(units), *vector.shape) or bias.shape != vector.shape or vector.ndim != 1:
        raise ValueError("shapes that do not fit")
    return Contributions(
        metadata["text"], units, values, bias, vector, metadata["truncated"], ids=tuple(metadata["ids"])
    )
