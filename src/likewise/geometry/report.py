"""The page and the folder of a geometry run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from likewise.geometry.comparison import GeometryTable
from likewise.geometry.confidence import ConfidenceBand
from likewise.geometry.explained_variance import VARIANTS
from likewise.geometry.geometry import Geometry, mean_over_layers
from likewise.plotting.html import inline_svg, page, paragraph, section, table
from likewise.results.folder import Results, Table, write_results

NOTES = {
    "measures": "Baseline: the expected cosine of two random words of different texts. Self-similarity: the mean cosine"
    " of a word in two of its contexts. Intra-sentence similarity: the mean cosine of a word with the mean of its"
    " text. MEV: the share of the first component of a word's vectors, in three readings, beside as many random words."
    " A word is part of its own text's mean, so intra-sentence similarity is about 1 / sqrt(n) for n unrelated words."
    " Bands are 95 % intervals: bootstrap, jackknife for IsoScore and effective rank.",
    "corrected": "The same after each correction, fitted on all words of a layer.",
    "words": "Chosen words, with their number of contexts.",
    "alignment": "Debiased linear CKA of the random words between layers: 1 where two layers hold the same geometry.",
}
TITLES = {
    "measures": "Measures",
    "corrected": "After corrections",
    "words": "Chosen words",
    "alignment": "Layers beside layers",
}


def geometry_page(found: GeometryTable, run: Mapping[str, Any], path: Path) -> Path:
    """Write the page of a run, in one file; ``run`` says how it was made."""
    return _write_page(found, found.figures(), run, path)


def _write_page(found: GeometryTable, figures: Mapping[str, Any], run: Mapping[str, Any], path: Path) -> Path:
    drawn = [
        section(
            TITLES[name], [paragraph(NOTES[name], note=True), f"<p>{inline_svg(figures[name], TITLES[name])}</p>\n"]
        )
        for name in TITLES
        if name in figures
    ]
    metadata = [paragraph(_facts(one)) for one in found.results]
    named = zip(found.names, found.results, strict=True)
    words = [section(f"Words: {name}", _word_tables(one)) for name, one in named]
    numbers = section("Numbers", [found._repr_html_()])
    parts = [*metadata, paragraph(str(run.get("command", "")), note=True), *drawn, *words, numbers]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(f"Geometry: {found.results[0].data}", parts), encoding="utf-8")
    return path


def _facts(one: Geometry) -> str:
    averaged = int(one.words.averaged.sum())
    return (
        f"{one.model}: {one.metadata['texts']} different texts ({one.metadata['repeated']} repeated ones left out) with"
        f" {one.metadata['occurrences']} words. Averages over {averaged} words that stand in {one.settings.min_contexts}"
        f" texts or more; MEV over {one.variances.words} of them, at most {one.settings.max_contexts} contexts each;"
        f" {one.metadata['points']} random words for TwoNN, CKA and clusters."
    )


def _word_tables(one: Geometry) -> Iterator[str]:
    listed = one.to_dict()["words"]
    tables = {"self-similarity": listed["self_similarity"]} | {
        f"MEV, {pooling_config}": ends for pooling_config, ends in listed["mev"].items()
    }
    for name, ends in tables.items():
        header = (f"{name}: highest", "contexts", "mean over layers", "lowest", "contexts", "mean over layers")
        rows = [[*_word(high), *_word(low)] for high, low in zip(ends["highest"], ends["lowest"], strict=True)]
        yield table(header, rows)


def _word(one: Mapping[str, Any]) -> tuple[str, int, float]:
    return one["word"], one["n"], float(mean_over_layers(np.array(one["values"])[:, None])[0])


def write_geometry(found: GeometryTable, run: Mapping[str, Any], folder: Path) -> Path:
    """Write everything that a run shows: run.json, tidy tables, figures and the page."""
    figures = found.figures()
    tables = {"layers": _layers(found), "words": _words(found), "rogue": _rogue(found), "cka": _alignment(found)}
    write_results(Results({**run, "results": found.to_dict()}, tables, figures), folder)
    _write_page(found, figures, run, folder / "geometry.html")
    return folder


def _layers(found: GeometryTable) -> Table:
    """One row per model, space, layer and measure."""
    rows: list[tuple[object, ...]] = []
    for one in found.results:
        mev = {
            f"{name}_{pooling_config}": band
            for name, bands in one.variances.by_name.items()
            for pooling_config, band in bands.items()
        }
        spaces: dict[str, Mapping[str, ConfidenceBand]] = {"raw": one.bands | mev}
        spaces |= {kind: vars(space) for kind, space in one.corrected.items()}
        rows += [
            (one.model, space, layer, name, float(band.values[layer]), *band.ends(layer))
            for space, bands in spaces.items()
            for name, band in bands.items()
            for layer in range(one.layers)
        ]
        rows += [
            (one.model, "clusters", layer, name, float(getattr(clusters, name)), "", "")
            for layer, clusters in enumerate(one.clusters)
            for name in ("clusters", "baseline", "isoscore")
        ]
    return ("model", "space", "layer", "measure", "value", "low", "high"), rows


def _words(found: GeometryTable) -> Table:
    """One row per model, word and layer; MEV for the sampled words."""
    rows: list[tuple[object, ...]] = []
    for one in found.results:
        own = one.words
        for index, word in enumerate(own.words):
            for layer in range(one.layers):
                sampled = index < own.variance.shape[2]
                variances = own.variance[:, layer, index].tolist() if sampled else [""] * len(VARIANTS)
                value = float(own.self_similarity[layer, index])
                rows.append((one.model, word, int(own.contexts[index]), layer, value, *variances))
    return ("model", "word", "contexts", "layer", "self_similarity", *(f"mev_{name}" for name in VARIANTS)), rows


def _rogue(found: GeometryTable) -> Table:
    """Each dimension's share of each layer's baseline."""
    rows = [
        (one.model, layer, dimension, float(share))
        for one in found.results
        for layer, shares in enumerate(one.shares)
        for dimension, share in enumerate(shares)
    ]
    return ("model", "layer", "dimension", "share"), rows


def _alignment(found: GeometryTable) -> Table:
    rows = [
        (one.model, left, right, float(one.alignment[left, right]))
        for one in found.results
        for left in range(one.layers)
        for right in range(one.layers)
    ]
    return ("model", "left_layer", "right_layer", "cka"), rows
