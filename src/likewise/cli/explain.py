"""``likewise explain``, ``explain-attention`` and ``attribute``: why a model gives a score."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from likewise.cli.output import Output, notice, progress_bar
from likewise.cli.settings import (
    CalibrationOf,
    EncoderSettings,
    FileSettings,
    Label,
    Model,
    ModelSettings,
    Prompt,
    RunSettings,
    TeamSettings,
    command,
    help_of,
)
from likewise.errors import DataError, UsageError
from likewise.explain.settings import BIAS, REFERENCE, ExplainOptions

if TYPE_CHECKING:
    from likewise.encoder import CrossEncoder, Encoder
    from likewise.explain.explanation import Explanation, PairShares
    from likewise.results import Result

OTHER = "--other-model or --other-pooling"
SPANS = "--left-span or --right-span"
EXCLUDES = {
    "--calibration": ("--pairs", "--against", OTHER),
    "--pairs": ("--against", OTHER, "--shares-only", SPANS, "--html", "--plot", "--json", "a text"),
    "--against": (OTHER, "--shares-only", "--top", SPANS, "--plot"),
    OTHER: ("--shares-only", "--top", SPANS),
    "--shares-only": ("--top", "--plot"),
}
"""Options, and those that have no effect with them."""


@command
def explain(
    model: ModelSettings,
    options: ExplainOptions,
    files: FileSettings,
    output: Output,
    team: TeamSettings,
    left: Annotated[str | None, Argument(help="A text.")] = None,
    right: Annotated[str | None, Argument(help="The text that it is similar to.")] = None,
    pairs: Annotated[
        str | None,
        Option(help="Explain every pair of this file, or of a name such as stsb/test; needs --out FILE.jsonl."),
    ] = None,
    against: Annotated[
        str | None, Option(help="A third text: which words put the right text above (or below) it?")
    ] = None,
    other_model: Annotated[str | None, Option(help="Explain by this model too, and show the difference.")] = None,
    other_pooling: Annotated[str | None, Option(help="The same with another pooling.")] = None,
    left_span: Annotated[list[str] | None, Option(help="A group of characters as 0:12; repeat.")] = None,
    right_span: Annotated[list[str] | None, Option(help="The same in the right text.")] = None,
    top: Annotated[
        int | None, Option(help="Show the strongest units of each text, all others as (rest): for long texts.", min=1)
    ] = None,
    shares_only: Annotated[
        bool, Option("--shares-only", help="What each unit makes of the score, without pairs: for long texts.")
    ] = False,
    label: Label = None,
    calibration: CalibrationOf = None,
) -> None:
    """Explain why the model finds two texts similar: which words with which, and what the biases add.

    Of a cross-encoder the logit is explained: what each word of both texts adds to it.
    """
    from likewise.encoder import Encoder

    spans = _spans(left_span, right_span)
    other = other_model or other_pooling
    _refuse({"--pairs": pairs, "--against": against, OTHER: other, "--shares-only": shares_only, "--top": top,
             SPANS: spans, "--html": output.html, "--plot": output.plot, "--json": output.as_json,
             "a text": left, "--calibration": calibration})  # fmt: skip
    if pairs is not None:
        if output.out is None:
            raise UsageError("--pairs needs --out FILE.jsonl, where the explanations go")
        from likewise.explain.files import explain_file

        with team.working(model) as working, progress_bar() as progress:
            scoring, own = working.load_scoring(label), options.keywords() | {"top": top}
            how = own if isinstance(scoring, Encoder) else _cross_encoder_options(options, top)
            written = explain_file(scoring, files.dataset(pairs), output.out, how, progress)
        return notice(f"{written} explanations in {output.out}")
    if team != TeamSettings():
        raise UsageError("--workers, --cluster and --gpus-per-worker go with --pairs; leave them out")
    if left is None or right is None:
        raise UsageError('give two texts: likewise explain "A fire." "It burns."; or a file with --pairs and --out')
    found: Result
    encoder, left_prompt, right_prompt = model.load_scoring(label), options.left_prompt, options.right_prompt
    if not isinstance(encoder, Encoder):
        given = spans or against or shares_only or top or calibration
        found = _cross_explained(encoder, (left, right), _cross_encoder_options(options, given), other_model, model)
    elif against is not None:
        from likewise.explain.comparisons import contrast

        prompts: dict[str, Any] = {"query_prompt": left_prompt, "document_prompt": right_prompt}
        found = contrast(encoder, left, right, against, **prompts, **options.difference_keywords())
    elif other is not None:
        from likewise.explain.comparisons import compare

        second = EncoderSettings(other_model or model.encoder.model, other_pooling or model.encoder.pooling)
        prompts = {"left_prompt": left_prompt, "right_prompt": right_prompt}
        other_encoder = second.load(model.run, model.pooling_config)
        found = compare(encoder, other_encoder, left, right, **prompts, **options.difference_keywords())
    else:
        from likewise.explain.pairs import explain as explain_pair

        how = options.keywords() | spans | {"top": top, "shares_only": shares_only}
        found = _with_meaning(explain_pair(encoder, left, right, **how), calibration, encoder, options)
    output.show(found, options=vars(options), **model.documented())


def _with_meaning(
    found: Explanation | PairShares, calibration: str | None, encoder: Encoder, options: ExplainOptions
) -> Result:
    if calibration is None:
        return found
    from likewise.search.meanings import calibration_for

    known = calibration_for(calibration, encoder, (options.left_prompt, options.right_prompt), options.similarity)
    return replace(found, meaning=known.meaning(found.similarity))


def _cross_encoder_options(options: ExplainOptions, given: object) -> dict[str, Any]:
    """The options of a cross-encoder's explanation; rejects those that need a vector of each text."""
    if given:
        raise UsageError("--against, --top, --shares-only, --calibration and spans need a vector of each text, which a"
                         " cross-encoder does not have; leave them out")  # fmt: skip
    return options.cross_encoder_keywords()


def _cross_explained(
    scoring: CrossEncoder, texts: tuple[str, str], how: dict[str, Any], other: str | None, model: ModelSettings
) -> Result:
    """A cross-encoder's explanation, or its words next to those of another model."""
    from likewise.explain.comparisons import compare_scorers
    from likewise.explain.cross_encoder import explain_cross_encoder

    if other is None:
        return explain_cross_encoder(scoring, *texts, **how)
    shared = {name: how[name] for name in ("granularity", "bias", "reference", "fold_special", "memory") if name in how}
    second = EncoderSettings(other).load_scoring(model.run, model.pooling_config)
    return compare_scorers(scoring, second, *texts, **shared)


def _refuse(given: dict[str, Any]) -> None:
    """Reject options that have no effect."""
    for option, excluded in EXCLUDES.items():
        for name in excluded if given[option] else ():
            if given[name]:
                raise UsageError(f"{name} does not go with {option}; leave one of them out")


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


@command
def explain_attention(
    text: Annotated[str, Argument(help="A text.")],
    query: Annotated[str, Argument(help="The token that attends: its number from 0, or its text.")],
    key: Annotated[str, Argument(help="The token that it attends to.")],
    run: RunSettings,
    output: Output,
    model: Model = "minilm",
    layer: Annotated[int, Option(help="The layer, from 1.", min=1)] = 1,
    head: Annotated[int, Option(help="The head, from 1.", min=1)] = 1,
    granularity: Annotated[str, Option(help="token, word or sentence.")] = "token",
    prompt: Annotated[str | None, Option(help="Put before the text; default: the model's own.")] = None,
) -> None:
    """Explain a query-key score before the softmax as a sum over pairs of input tokens."""
    from likewise.explain.attention_score import explain_attention as explain_score
    from likewise.explain.attention_score import token_index

    encoder = run.load(model)
    i, j = (token_index(encoder, text, name, prompt) for name in (query, key))
    output.show(explain_score(encoder, text, layer, head, i, j, granularity, prompt), run=vars(run))


DIRECTION_HELP = (
    "A text; difference:A | B; centroid:FILE; axis:1, a principal axis of FILE's texts; or vector:FILE.npy. Repeat."
)


@command
def attribute(
    file: Annotated[str, Argument(help="A file of texts, or a name such as sample/sentences.")],
    model: ModelSettings,
    files: FileSettings,
    output: Output,
    team: TeamSettings,
    direction: Annotated[list[str], Option(help=DIRECTION_HELP)],
    granularity: Annotated[str, Option(help="token, word or sentence.")] = "word",
    similarity: Annotated[str, Option(help="dot, or cosine: divided by the text's length.")] = "dot",
    bias: Annotated[str, Option(help=help_of(BIAS))] = "separate",
    reference: Annotated[str, Option(help=help_of(REFERENCE))] = "filler",
    prompt: Prompt = None,
    limit: Annotated[int | None, Option(help="Only the first texts.", min=1)] = None,
) -> None:
    """Attribute a text's score along a direction to its words: their shares and the bias sum to <vector, direction>.

    --out FILE.jsonl writes one text a line; an interrupted run goes on where it stopped.
    """
    from likewise.explain.attribution import attribute as attribute_texts
    from likewise.explain.attribution import parse_direction
    from likewise.explain.files import attribute_file, is_lines

    if output.plot is not None:
        raise UsageError("attributions have no figure; leave --plot out")
    out = output.out if output.out is not None and is_lines(output.out) else None
    if out is not None and (output.html is not None or output.as_json):
        raise UsageError("--out writes lines of JSON; leave --html and --json out")
    rows = files.dataset(file, limit).texts()
    if rows.skipped:
        notice(f"{file}: bad rows skipped: {rows.skipped}")
    if not rows:
        raise DataError(f"{file} holds no texts")
    texts = [row.text for row in rows]
    options: dict[str, Any] = {"granularity": granularity, "similarity": similarity, "prompt": prompt}
    options |= {"bias": bias, "reference": reference}
    with team.working(model) as working, progress_bar() as progress:
        encoder = working.load()
        directions = [parse_direction(encoder, one, texts, files.dataset(file)) for one in direction]
        if out is not None:
            written = attribute_file(encoder, [(row.id, row.text) for row in rows], directions, out, options, progress)
            return notice(f"{written} attributions in {out}")
        found = attribute_texts(encoder, texts, directions, progress=progress, **options)
    output.show(found, options=options, **model.documented())


@command
def align(
    left: Annotated[str, Argument(help="A text.")],
    right: Annotated[str, Argument(help="The text that is compared with it.")],
    model: ModelSettings,
    output: Output,
    granularity: Annotated[str, Option(help="token, word or sentence.")] = "word",
    threshold: Annotated[
        float | None, Option(help="The score from which on two words are linked; default: chosen on people's links.")
    ] = None,
    ledger: Annotated[bool, Option(help="Also explain what the cosine rests on.")] = True,
    left_prompt: Annotated[str | None, Option(help="Put before the left text; default: the model's own.")] = None,
    right_prompt: Annotated[str | None, Option(help="Put before the right text; default: the model's own.")] = None,
) -> None:
    """Show which words of two texts correspond, and what their cosine rests on: these are two things."""
    from likewise.explain.alignment import align as align_texts

    prompts: dict[str, Any] = {"left_prompt": left_prompt, "right_prompt": right_prompt}
    found = align_texts(
        model.load(), left, right, granularity=granularity, threshold=threshold, ledger=ledger, **prompts
    )
    output.show(found, **prompts, **model.documented())


@command
def differences(
    left: Annotated[str, Argument(help="A text.")],
    right: Annotated[str, Argument(help="The text that is compared with it.")],
    model: ModelSettings,
    output: Output,
) -> None:
    """Show the spans in which two texts differ, and how much each sets them apart: exact shares in 1 - cosine."""
    from likewise.explain.text_differences import differences as text_differences

    if output.plot is not None:
        raise UsageError("differences have no figure; leave --plot out")
    output.show(text_differences(model.load(), left, right), **model.documented())
