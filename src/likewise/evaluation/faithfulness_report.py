"""The folder of a proof: run.json, tables and figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from likewise.evaluation.faithfulness import Faithfulness
from likewise.evaluation.faithfulness_study import Proof
from likewise.evaluation.perturbation import FRACTIONS
from likewise.results.folder import Results, Table, write_results


def write_proof(proof: Proof, run: Mapping[str, Any], folder: Path) -> Path:
    """Write everything that a proof shows."""
    tables: dict[str, Table] = {}
    figures: dict[str, Any] = {}
    for prefix, found in (("", proof.faithfulness), ("slow_", proof.slow)):
        if found is not None:
            tables |= _tables(found, prefix)
            figures[f"{prefix}curves"] = found.plot()
        if found is not None and found.insertion:
            tables[f"{prefix}second_order"] = (("method", "insertion", "deletion"), found.second_order_rows())
            figures |= {f"{prefix}{name}": found.plot_second_order(name) for name in ("insertion", "deletion")}
    if proof.conservation is not None:
        rows = [
            (panel.name, float(across), float(up))
            for panel in proof.conservation.panels
            for across, up in zip(panel.components, panel.relevance, strict=True)
        ]
        tables["conservation"] = (("panel", "components", "relevance"), rows)
        figures["conservation"] = proof.conservation.plot()
    return write_results(Results({**run, "results": proof.to_dict()}, tables, figures), folder)


def _tables(found: Faithfulness, prefix: str) -> dict[str, Table]:
    areas = [(name, pair, float(value)) for name, areas in found.areas.items() for pair, value in enumerate(areas)]
    steps = [
        (name, float(fraction), float(value))
        for name, curve in found.curves.items()
        for fraction, value in zip(FRACTIONS, curve.mean(0), strict=True)
    ]
    return {
        f"{prefix}methods": (found.header, found.rows()),
        f"{prefix}areas": (("method", "pair", "aupc"), areas),
        f"{prefix}curves": (("method", "fraction", "distance"), steps),
    }
