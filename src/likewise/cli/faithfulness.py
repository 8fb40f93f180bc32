"""``likewise faithfulness``: proof that explanations are right."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from likewise.cli.screen import notice, progress_bar, show_json, show_table
from likewise.cli.settings import EncoderSettings, FileSettings, Json, PoolingOptions, RunSettings, with_settings


@with_settings
def faithfulness(
    file: Annotated[str, typer.Argument(help="A file of pairs, or a name such as stsb/test.")],
    encoder: EncoderSettings,
    pooling_config: PoolingOptions,
    run: RunSettings,
    how: FileSettings,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="bilrp, as published; bilrp-filler, the default of explain; bilrp-local, -traced, -shared, each also"
            " with -filler; bilrp-attention-norm, hxp, jacobian, embedding, embedding-squared or random; repeat."
        ),
    ] = None,
    rank_special: Annotated[
        bool, typer.Option("--rank-special", help="Mask and rank special tokens like the rest.")
    ] = False,
    filler: Annotated[str, typer.Option(help="The token that hides others: mask or pad.")] = "mask",
    second_order: Annotated[
        bool, typer.Option("--second-order", help="Also insert and delete pairs of tokens.")
    ] = False,
    steps: Annotated[int, typer.Option(help="Points on the path of jacobian.", min=1)] = 10,
    jacobian_pairs: Annotated[int, typer.Option(help="Pairs that jacobian is run on, being slow.", min=1)] = 300,
    sentences: Annotated[int, typer.Option(help="Sentences of the conservation test; 0 leaves it out.", min=0)] = 300,
    limit: Annotated[int | None, typer.Option(help="Only the first pairs.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Of the random method.", min=0)] = 0,
    out: Annotated[Path | None, typer.Option(help="A folder for run.json, tables and figures.")] = None,
    as_json: Json = False,
) -> None:
    """Test every method: masked texts get their tokens back by relevance; how soon is the vector the old one?"""
    from likewise.evaluation.faithfulness import DEFAULT_VARIANTS, PerturbationSettings
    from likewise.evaluation.faithfulness_report import write_proof
    from likewise.evaluation.faithfulness_study import prove

    settings = PerturbationSettings(tuple(method or DEFAULT_VARIANTS), rank_special, filler, second_order, steps, seed)
    pairs = how.pairs(file, limit).read_checked()
    model = encoder.load(run, pooling_config)
    with progress_bar() as progress:
        proof = prove(model, pairs, settings, jacobian_pairs, sentences, progress)
    if out is not None:
        metadata = {
            "command": "faithfulness", "data": file, "pairs": len(pairs), "model": model.name, "model_hash": model.hash,
            "reading": vars(model.pooling_config), "settings": vars(settings), "jacobian_pairs": jacobian_pairs,
            "sentences": sentences, "run": vars(run),
        }  # fmt: skip
        notice(f"written: {write_proof(proof, metadata, out)}")
    if as_json:
        return show_json(proof.to_dict())
    for found in (proof.faithfulness, proof.slow):
        if found is not None:
            show_table(found.header, found.rows(), f"{file}, {model.name}: area under the distance; lower is better")
            if found.insertion:
                header = ("method", "insertion, lower is better", "deletion, higher is better")
                show_table(header, found.second_order_rows(), "pairs of tokens, the strongest first")
    if proof.conservation is not None:
        show_table(("conservation", "R² to the identity"), [(one.name, one.r2) for one in proof.conservation.panels])
