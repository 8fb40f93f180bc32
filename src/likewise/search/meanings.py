"""The meaning of single scores, by the calibration of an index, of a corpus, or of a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from likewise.data import Dataset
from likewise.encoder import Encoder
from likewise.encoder.cross_encoder import Scoring
from likewise.encoder.inspection import Similarities
from likewise.encoder.weights import identity
from likewise.errors import UsageError
from likewise.search.calibration import Calibration
from likewise.search.calibration_store import changed_setting, stored_calibration
from likewise.search.index import USUAL
from likewise.search.indexed_files import cached_index
from likewise.search.stores import open_store
from likewise.search.stores.folder import address_of, has_scheme


def calibration_for(
    where: str, encoder: Scoring, prompts: tuple[str | None, str | None] = (None, None), similarity: str = "cosine"
) -> Calibration:
    """The calibration at ``where`` for scores of this encoder with these prompts of the left and the right text.

    ``where`` is an index, a file of texts that was calibrated, or a file that ``Calibration.save`` wrote. Other scores
    than the ones that it was made of raise UsageError. A prompt of None is the model's own.
    """
    if not isinstance(encoder, Encoder):
        raise UsageError(f"{encoder.name} is a cross-encoder; a calibration is of vectors, so leave it out")
    found = _stored(where, encoder)
    left, right = (encoder.modules_config.prompt_for(None) if one is None else one for one in prompts)
    own = {"similarity": similarity, "query_prompt": left, "document_prompt": right}
    settings = identity(encoder) | own
    if changed := changed_setting(found, settings):
        name = changed.replace(" ", "_")
        values = f" ({found.depends.get(name)!r}, not {settings.get(name)!r})" if name in settings else ""
        raise UsageError(
            f"the calibration {where} was made for another {changed}{values}; use the same, or calibrate again"
        )
    return found


def similarities_with_meaning(found: Similarities, calibration: Calibration) -> Similarities:
    """Scores of pairs of texts with their meanings."""
    return replace(found, meanings=[calibration.meanings(row) for row in found.scores])


def _stored(where: str, encoder: Encoder) -> Calibration:
    address = address_of(where)
    if where.endswith(".json") and Path(where).is_file():
        return Calibration.load(where)
    if has_scheme(address) or Path(address).is_dir():
        with open_store(where, verify=False) as store:
            return stored_calibration(store).required(where)
    with cached_index(encoder, Dataset(where), USUAL).index as index:
        return index.current_calibration().required(where)
