"""The folder of a pattern study: tables of class pairs, words, errors and changes, and their figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from likewise.lint.level_errors import Disagreement
from likewise.lint.pos_relevance import KINDS, SIGNS
from likewise.lint.pos_study import PatternStudy
from likewise.lint.word_pairs import WordPair
from likewise.results.folder import Results, Table

SETTING = ("data", "model", "pooling")
CLASS_HEADER = (
    *SETTING, "class1", "class2", "token_pairs",
    *(f"{kind}_{sign}{ending}" for kind in KINDS for ending in ("", "_scaled") for sign in SIGNS),
)  # fmt: skip
LEVEL_HEADER = (*SETTING, "level", "n", "squared_error", "low", "high", "mean_human", "mean_predicted")


def patterns_results(study: PatternStudy, run: Mapping[str, Any]) -> Results:
    """What ``likewise patterns --out`` writes."""
    return Results({**run, "result": study.to_dict()}, _tables(study), _figures(study))


def _tables(study: PatternStudy) -> dict[str, Table]:
    named = [((one.data, one.model, one.pooling), one) for one in study.settings]
    tables: dict[str, Table] = {
        "classes": (CLASS_HEADER, [(*name, *row) for name, one in named for row in one.classes.rows]),
        "bias": (
            (*SETTING, "class", *SIGNS),
            [
                (*name, label, float(up), float(down))
                for name, one in named
                for label, up, down in [
                    *zip(one.classes.classes, one.classes.bias_positive, one.classes.bias_negative, strict=True),
                    ("bias", max(one.classes.bias_both, 0.0), min(one.classes.bias_both, 0.0)),
                ]
            ],
        ),
        "word_pairs": (
            (*SETTING, "quarter", "id", "left", "right", "relevance", "similarity"),
            [
                (*name, part, *_word(word))
                for name, one in named
                for part, words in one.strongest.items()
                for word in words
            ],
        ),
    }
    if study.settings[0].errors is not None:
        levels = [(name, level) for name, one in named if one.errors for level in one.errors.levels]
        tables["errors_by_level"] = (LEVEL_HEADER, [(*name, *level.row) for name, level in levels])
        header = (*SETTING, "id", "left", "right", "human", "predicted", "difference", "similarity")
        tables["disagreements"] = (header, [(*name, *_row(row)) for name, one in named for row in one.farthest])
    return tables | ({} if study.change is None else {"changes": _changes(study)})


def _word(word: WordPair) -> tuple[object, ...]:
    return word.id, word.left, word.right, word.relevance, word.similarity


def _row(row: Disagreement) -> tuple[object, ...]:
    return row.id, row.left, row.right, row.human, row.predicted, row.difference, row.similarity


def _changes(study: PatternStudy) -> Table:
    assert study.change is not None
    rows = [
        (kind, sign, one.first, one.second, one.before, one.after, one.change)
        for kind in KINDS
        for sign in SIGNS
        for one in study.change.changed(sign, kind)
    ]
    return ("table", "sign", "class1", "class2", *study.change.names, "change"), rows


def _figures(study: PatternStudy) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for index, one in enumerate(study.settings):
        ending = "" if len(study.settings) == 1 else f"_{index + 1}"
        figures |= {f"classes_{kind}{ending}": one.plot(kind=kind) for kind in KINDS}
        if one.errors is not None:
            figures[f"errors_by_level{ending}"] = one.errors.plot(title=f"{one.name}, n = {one.n}")
    if study.change is not None:
        figures |= {f"change_{kind}": study.change.plot(kind=kind) for kind in KINDS}
    return figures | ({} if study.row is None else {f"row_{study.row.row}": study.row.plot()})
