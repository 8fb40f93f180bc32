"""``likewise explain``: why two texts are similar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from likewise.cli.output import Output, notice, progress_bar
from likewise.cli.settings import (
    EncoderSettings,
    FileSettings,
    PoolingOptions,
    RunSettings,
    with_settings,
)
from likewise.errors import UsageError
from likewise.explain.settings import ExplainOptions

if TYPE_CHECKING:
    from pathlib import Path

    from likewise.data import Dataset
    from likewise.encoder import Encoder
    from likewise.results import Result

OTHER = "--other-model or --other-pooling"
SPANS = "--left-span or --right-span"


@with_settings
def explain(
    encoder: EncoderSettings,
    pooling_config: PoolingOptions,
    options: ExplainOptions,
    run: RunSettings,
    files: FileSettings,
    output: Output,
    left: Annotated[str | None, typer.Argument(help="A text.")] = None,
    right: Annotated[str | None, typer.Argument(help="The text that it is similar to.")] = None,
    pairs: Annotated[
        str | None,
        typer.Option(help="Explain every pair of this file, or of a name such as stsb/test; needs --out FILE.jsonl."),
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="A third text: which words put the right text above (or below) it?")
    ] = None,
    other_model: Annotated[str | None, typer.Option(help="Explain by this model too, and show the difference.")] = None,
    other_pooling: Annotated[str | None, typer.Option(help="The same with another pooling.")] = None,
    left_span: Annotated[list[str] | None, typer.Option(help="A group of characters as 0:12; repeat.")] = None,
    right_span: Annotated[list[str] | None, typer.Option(help="The same in the right text.")] = None,
    top: Annotated[
        int | None,
        typer.Option(help="Show the strongest units of each text, all others as (rest): for long texts.", min=1),
    ] = None,
    shares_only: Annotated[
        bool, typer.Option("--shares-only", help="What each unit makes of the score, without pairs: for long texts.")
    ] = False,
) -> None:
    """Explain why the model finds two texts similar: which words with which, and what the biases add."""
    spans = _spans(left_span, right_span)
    other = other_model or other_pooling
    given = {"--pairs": pairs, "--against": against, OTHER: other, "--shares-only": shares_only, "--top": top,
             SPANS: spans, "--html": output.html, "--plot": output.plot, "--json": output.as_json,
             "a text": left}  # fmt: skip
    _refuse(given)
    if pairs is not None:
        if output.out is None:
            raise UsageError("--pairs needs --out FILE.jsonl, where the explanations go")
        model = encoder.load(run, pooling_config)
        return _explain_file(model, files.dataset(pairs), output.out, options.keywords() | {"top": top})
    if left is None or right is None:
        raise UsageError('give two texts: likewise explain "A fire." "It burns."; or a file with --pairs and --out')
    model = encoder.load(run, pooling_config)
    prompts: dict[str, Any] = {"left_prompt": options.left_prompt, "right_prompt": options.right_prompt}
    found: Result
    if against is not None:
        from likewise.explain.differences import contrast

        prompts = {"query_prompt": options.left_prompt, "document_prompt": options.right_prompt}
        found = contrast(model, left, right, against, **prompts, **options.difference_keywords())
    elif other is not None:
        from likewise.explain.differences import compare

        second = EncoderSettings(other_model or encoder.model, other_pooling or encoder.pooling)
        second_model = second.load(run, pooling_config)
        found = compare(model, second_model, left, right, **prompts, **options.difference_keywords())
    else:
        from likewise.explain.pairs import explain as explain_pair

        how: dict[str, Any] = options.keywords() | spans | {"top": top, "shares_only": shares_only}
        found = explain_pair(model, left, right, **how)
    output.show(found, options=vars(options), reading=vars(pooling_config), run=vars(run))


EXCLUDES = {
    "--pairs": ("--against", OTHER, "--shares-only", SPANS, "--html", "--plot", "--json", "a text"),
    "--against": (OTHER, "--shares-only", "--top", SPANS, "--plot"),
    OTHER: ("--shares-only", "--top", SPANS),
    "--shares-only": ("--top", "--plot"),
}
"""Options, and those that have no effect with them."""


def _refuse(given: dict[str, Any]) -> None:
    """Reject options that have no effect."""
    for option, excluded in EXCLUDES.items():
        for name in excluded if given[option] else ():
            if given[name]:
                raise UsageError(f"{name} does not go with {option}; leave one of them out")


def _explain_file(model: Encoder, dataset: Dataset, out: Path, options: dict[str, Any]) -> None:
    from likewise.explain.files import explain_file

    with progress_bar() as progress:
        written = explain_file(model, dataset, out, options, progress)
    notice(f"{written} explanations in {out}")


def _spans(left: list[str] | None, right: list[str] | None) -> dict[str, Any]:
    """``granularity`` for explain, if the user gave spans."""
    if not left and not right:
        return {}
    return {"granularity": ([_span(text) for text in left or []], [_span(text) for text in right or []])}


def _span(text: str) -> tuple[int, int]:
    try:
        start, end = (int(part) for part in text.split(":"))
    except ValueError as error:
        raise UsageError(f"a span is two character positions such as 0:12, not {text!r}") from error
    return start, end
