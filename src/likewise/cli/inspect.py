"""``likewise inspect``: what the model makes of a text."""

from __future__ import annotations

from typing import Annotated

import typer

from likewise.cli.screen import show_json, show_table
from likewise.cli.settings import EncoderSettings, Json, RunSettings, with_settings
from likewise.plotting.text import printable


@with_settings
def inspect(
    texts: Annotated[list[str], typer.Argument(help="One text, or several to see a padded batch.")],
    encoder: EncoderSettings,
    run: RunSettings,
    prompt: Annotated[str | None, typer.Option(help="Put before each text; default: the model's own.")] = None,
    as_json: Json = False,
) -> None:
    """Show a text's tokens and ids, the special tokens, the model's sizes and the shapes of its outputs."""
    from likewise.encoder.inspection import inspect as look

    inspection = look(encoder.load(run), texts, prompt)
    if as_json:
        return show_json(inspection.to_dict())
    for text in inspection.texts:
        rows = [
            (index, token.token, token.id, token.type, token.mask, "yes" if token.special else "", _span(token.span))
            for index, token in enumerate(text.tokens)
        ]
        cut = f" (cut at {inspection.model.max_tokens} tokens)" if text.truncated else ""
        show_table(("#", "token", "id", "type", "mask", "special", "characters"), rows, text.text[:200] + cut)
        typer.echo(f"  decoded: {printable(text.decoded[:500])}\n")
    show_table(
        ("special token", "id", "role", "what it is for"),
        [(token.token, token.id, token.role, token.purpose) for token in inspection.special_tokens],
    )
    show_table(
        ("model", ""), [(name.replace("_", " "), _shown(value)) for name, value in vars(inspection.model).items()]
    )
    show_table(("output", "shape"), list(inspection.outputs.items()))


def _span(span: tuple[int, int]) -> str:
    return "" if span == (0, 0) else f"{span[0]}-{span[1]}"


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {text!r}" for name, text in value.items()) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)
