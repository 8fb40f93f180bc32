"""Generates docs/models.md from src/likewise/encoder/published.json, so that each model is described once.

python docs/models.py           writes the page
python docs/models.py --check   fails if the page is not current
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from likewise.encoder.families import FAMILIES
from likewise.encoder.published import PublishedModel, published_models

PAGE = Path(__file__).with_name("models.md")
HUB = "https://huggingface.co/"
HEAD = """# Published models

Made from `src/likewise/encoder/published.json` by `python docs/models.py`. `likewise models` shows the same models.

The tables list published models by family. The family is the `model_type` of a model's `config.json`. All other
cells say what the sources in the last column say. A cell is empty where no source that was read says it.

- `short name` can be given wherever a model is asked for: `Encoder.load("bge-m3")`, `--model bge-m3`.
- `limit` is the number of tokens after which a text is cut.
- `own code` is `yes` if `config.json` names code of the publisher (`auto_map`). Likewise never runs it. Folders of
  Nomic, GTE and Jina v3 load all the same: transformers has these classes, and so has Likewise. Other folders are
  refused. Where a family is named, its plain class reads the same weights: delete `auto_map` in your copy.
- `tested here` is `yes` if the tests compare the family with the class of transformers, on small random models. The
  listed models themselves are not part of the tests. The licence is the publisher's; read it before you use a model.
"""
EMBEDDINGS = """## Embedding models

A prompt is put before the text. `{instruction}` stands for a sentence that names the task.
"""
RERANKERS = """## Rerankers

A reranker reads two texts together and gives a score, not a vector. The `nli` models give three scores: contradiction,
entailment, neutral.
"""
STATIC = """## Static models

A static model has one vector for each token of its vocabulary and averages them. It has no layers and no limit.
"""
REFUSED = """## Models that do not load

Most of these models need code of their own. Likewise never runs code from a model's folder.
"""
Cell = Callable[[PublishedModel], str]


def page() -> str:
    """The whole page."""
    loading = [model for model in published_models() if model.loads]
    kinds = {kind: [model for model in loading if model.kind == kind] for kind in ("embedding", "reranker", "static")}
    refused = [model for model in published_models() if not model.loads]
    parts = [
        HEAD,
        tested_families(),
        EMBEDDINGS,
        table(kinds["embedding"], NAMES | SIZES | {"prompts": prompts} | TERMS | TESTED | SOURCES),
        RERANKERS,
        table(kinds["reranker"], NAMES | {"limit": SIZES["limit"]} | TERMS | TESTED | SOURCES),
        STATIC,
        table(kinds["static"], NAMES | {"dimensions": SIZES["dimensions"], "licence": TERMS["licence"]} | SOURCES),
        REFUSED,
        table(refused, REFUSALS | SOURCES),
    ]
    return "\n".join(parts)


def tested_families() -> str:
    """The families of this version, and those that the tables name besides them."""
    listed = {model.family for model in published_models() if model.loads and model.kind != "static"}
    lines = [f"## Families tested here\n\n{_codes(FAMILIES)}.\n"]
    if missing := {family for family in listed if not _is_tested(family)}:
        lines.append(f"The tables also name families that this version does not load yet: {_codes(missing)}.\n")
    return "\n".join(lines)


def table(models: Iterable[PublishedModel], columns: dict[str, Cell]) -> str:
    """A table with a row for each model, sorted by family; models of one family keep the order of the file."""
    rows = [[cell(model) for cell in columns.values()] for model in sorted(models, key=_family)]
    lines = [[*columns], ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def linked(model: PublishedModel) -> str:
    return f"[{model.name}]({HUB}{model.name})"


def prompts(model: PublishedModel) -> str:
    # A bar would end the cell, and a line break the row.
    texts = {role: text.replace("|", "\\|").replace("\n", "\\n") for role, text in (model.prompts or {}).items()}
    return "<br>".join(f"{role}: `{text}`" for role, text in texts.items())


def own_code(model: PublishedModel) -> str:
    return _yes(model.own_code)


def sources(model: PublishedModel) -> str:
    return " ".join(f"[{number}]({address})" for number, address in enumerate(model.source, start=1))


def _is_tested(family: str | None) -> bool:
    # A model for texts and images names its text part in its config.
    return family in FAMILIES or f"{family}_text" in FAMILIES


def _family(model: PublishedModel) -> str:
    return (model.family or "").lower()


def _codes(names: Iterable[str | None]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(map(str, names)))


def _code(text: str | None) -> str:
    return f"`{text}`" if text else ""


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _yes(holds: bool) -> str:
    return "yes" if holds else ""


NAMES: dict[str, Cell] = {
    "family": lambda model: _code(model.family), "model": linked, "short name": lambda model: _code(model.short),
}  # fmt: skip
SIZES: dict[str, Cell] = {
    "dimensions": lambda model: _text(model.dimensions), "limit": lambda model: _text(model.limit),
}  # fmt: skip
TERMS: dict[str, Cell] = {"licence": lambda model: _text(model.licence), "own code": own_code}
TESTED: dict[str, Cell] = {"tested here": lambda model: _yes(_is_tested(model.family))}
REFUSALS: dict[str, Cell] = {
    "model": linked, "kind": lambda model: model.kind, "own code": own_code,
    "use instead": lambda model: _text(model.instead),
}  # fmt: skip
SOURCES: dict[str, Cell] = {"sources": sources}


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(
            0
            if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page()
            else f"{PAGE.name} is not current; run: python docs/models.py"
        )
    PAGE.write_text(page(), encoding="utf-8")
