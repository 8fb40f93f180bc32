"""The attention study of a file of scored pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from likewise.attention import AttentionSettings, AttentionStudy, attention_study
from likewise.data import ScoredPair
from likewise.data.pair_files import PairFile
from likewise.encoder import Encoder
from likewise.errors import DataError
from likewise.grammar import Grammar
from likewise.progress import Progress


def study_attention(
    source: PairFile,
    load: Callable[[], Encoder],
    grammar: Grammar | None,
    settings: AttentionSettings,
    folder: Path,
    progress: Progress | None = None,
) -> AttentionStudy:
    """Read pairs with human scores, then run the study in ``folder``; the model is loaded once the file is good."""
    pairs = [pair for pair in source.read_checked() if isinstance(pair, ScoredPair)]
    if not pairs:
        raise DataError(f"{source.file} has no scores; name their column with --score-column")
    return replace(attention_study(load(), pairs, folder, settings, grammar, progress), data=source.file)
