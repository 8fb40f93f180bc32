"""``likewise faithfulness``: tests whether explanations are faithful to the model."""

from __future__ import annotations

from typing import Annotated

import typer

from likewise.cli.output import Output, progress_bar
from likewise.cli.settings import EncoderSettings, FileSettings, PoolingOptions, RunSettings, with_settings


@with_settings
def faithfulness(
    file: Annotated[str, typer.Argument(help="A file of pairs, or a name such as stsb/test.")],
    output: Output,
    encoder: EncoderSettings,
    pooling_config: PoolingOptions,
    run: RunSettings,
    how: FileSettings,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="bilrp, as published; bilrp-filler, the default of explain; bilrp-local, -traced, -shared, each also"
            " with -filler; bilrp-attention-norm, hxp, integrated-jacobian, embedding, embedding-squared or random;"
            " repeat."
        ),
    ] = None,
    rank_special: Annotated[
        bool, typer.Option("--rank-special", help="Mask and rank special tokens like the rest.")
    ] = False,
    filler: Annotated[str, typer.Option(help="The token that masks others: mask or pad.")] = "mask",
    second_order: Annotated[
        bool, typer.Option("--second-order", help="Also insert and delete pairs of tokens.")
    ] = False,
    steps: Annotated[int, typer.Option(help="Points on the path of integrated-jacobian.", min=1)] = 10,
    jacobian_pairs: Annotated[int, typer.Option(help="Pairs for integrated-jacobian, which is slow.", min=1)] = 300,
    sentences: Annotated[int, typer.Option(help="Sentences of the conservation test; 0 leaves it out.", min=0)] = 300,
    limit: Annotated[int | None, typer.Option(help="Only the first pairs.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random method.", min=0)] = 0,
) -> None:
    """Test every method: tokens enter a masked text by relevance; how soon is its vector near the full text's?"""
    from likewise.evaluation.faithfulness import DEFAULT_VARIANTS, PerturbationSettings, study_faithfulness

    settings = PerturbationSettings(tuple(method or DEFAULT_VARIANTS), rank_special, filler, second_order, steps, seed)
    pairs = how.dataset(file, limit).pairs()
    model = encoder.load(run, pooling_config)
    with progress_bar() as progress:
        found = study_faithfulness(model, pairs, settings, jacobian_pairs, sentences, progress)
    output.show(
        found, data=file, pairs=len(pairs), model=model.name, model_hash=model.hash,
        reading=vars(model.pooling_config), settings=vars(settings), jacobian_pairs=jacobian_pairs,
        sentences=sentences, run=vars(run),
    )  # fmt: skip
