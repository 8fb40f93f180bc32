"""The folder of a study of word senses: run.json, tables of layers and of words, the figure and a page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from likewise.geometry.sense_study import SenseTable
from likewise.plotting.html import inline_svg, page, paragraph
from likewise.results.folder import Results, Table, flat, write_results


def write_senses(found: SenseTable, run: Mapping[str, Any], folder: Path) -> Path:
    """Write everything that a table of models shows; ``run`` says how it was made."""
    figure = found.plot()
    tables = {"layers": _layers(found), "words": _words(found)}
    write_results(Results({**run, "results": found.to_dict()}, tables, {"senses": figure}), folder)
    drawn = f"<div class=wide>{inline_svg(figure, 'cosines and accuracy by layer')}</div>\n"
    parts = [paragraph(str(run.get("command", "")), note=True), drawn, found._repr_html_()]
    title = f"Word senses: {found.results[0].data}"
    (folder / "senses.html").write_text(page(title, parts), encoding="utf-8")
    return folder


def _layers(found: SenseTable) -> Table:
    """Every layer of every model."""
    names = found.results[0].geometry.layers[0].intervals
    rows = [(one.model, *row) for one in found.results for row in one.layer_rows]
    return flat(("model", "layer", *names), rows)


def _words(found: SenseTable) -> Table:
    """Every word in every layer."""
    rows = [
        (one.model, word.word, word.n, word.senses, word.baseline, layer, *values)
        for one in found.results
        for word in one.geometry.words
        for layer, values in enumerate(zip(word.within, word.between, word.accuracy, strict=True))
    ]
    return ("model", "word", "n", "senses", "baseline", "layer", "within", "between", "accuracy"), rows
