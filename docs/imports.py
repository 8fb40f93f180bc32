"""Writes run files for what earlier pages of docs/results measured at greater cost: three seeds, grids, long runs.

python docs/imports.py    writes docs/results/runs/STUDY/ITEM-NAME.json and its figures

The pages are read from git at ``COMMIT``, the last one that had them. Tables, text and commands are taken over as they
are, so that no number is typed again. Links are left out, since they lead to pages that are gone.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from likewise.reproduce.records import DrawnFigure, Record
from likewise.results import Column, Table
from likewise.storage import content_key

COMMIT = "09a11a4"
FOLDER = Path(__file__).with_name("results")
RUNS = FOLDER / "runs"
HEADING = re.compile(r"^(#+) (.+)$")
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")
LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")
VERSION = re.compile(r"\b(Python|torch|transformers|numpy|scipy|scikit-learn|spaCy|faiss|bm25s|Likewise) (\d[\d.]*\d)")
SEEDS = "seeds 1, 2 and 3"
INTRODUCTION = ""  # the heading of what stands before all headings


@dataclass(frozen=True)
class Source:
    """Sections of a page, with all below them, and the item that they belong to."""

    page: str
    headings: tuple[str, ...]
    study: str
    item: str
    name: str  # takes the place of a model's name in the run file
    made_in: str = ""  # the section with the commands, if another one


BERT, HIDDEN, MULTITASK = "bert-visualization", "hidden-states", "multitask-bert"
CLUSTERS, EXPLAINING = "attention-clusters", "explaining-similarity"
SOURCES = (
    Source("training", ("Hyperparameters for STS-B",), CLUSTERS, "table-1", "bi-encoder"),
    Source("training", ("STS-B by four poolings",), CLUSTERS, "table-3", "bi-encoder-three-seeds"),
    Source("training", ("Cross-encoder",), CLUSTERS, "table-3", "cross-encoder"),
    Source("training", ("e5-small",), CLUSTERS, "table-3", "e5-small"),
    Source("training", ("CoSENT: temperature and dropout",), CLUSTERS, "table-3", "cosent", "STS-B by four poolings"),
    Source("attention", ("Heads",), CLUSTERS, "autoencoder", "heads-without-fine-tuning"),
    Source("attention", ("Clusters",), CLUSTERS, "table-2", "without-fine-tuning"),
    Source("attention", ("Findings",), CLUSTERS, "table-5", "findings-without-fine-tuning"),
    Source("attention", ("Tests",), CLUSTERS, "table-5", "tests-without-fine-tuning"),
    Source("attention", ("PCA of summaries",), CLUSTERS, "table-5", "pca-without-fine-tuning"),
    Source("attention", ("After fine-tuning",), CLUSTERS, "table-5", "e5-small-three-seeds"),
    Source("attention", ("Validity of the tests",), CLUSTERS, "table-5", "validity-of-the-tests"),
    Source("sts", ("Poolings",), EXPLAINING, "table-1", "poolings"),
    Source("explain", ("Faithfulness: perturbation tests",), EXPLAINING, "aupc", "special-tokens-in-place"),
    Source("explain", ("Conservation",), EXPLAINING, "conservation", "minilm-and-e5-small",
           "Faithfulness: perturbation tests"),
    Source("studies", ("A synthetic task with known interactions: counting nouns",), EXPLAINING, "nouns",
           "three-seeds"),
    Source("explain", ("Parts of speech",), EXPLAINING, "pos-summed", "minilm-and-e5-small"),
    Source("sts", ("Languages",), EXPLAINING, "languages", "minilm-and-e5-small"),
    Source("explain", ("English and German",), EXPLAINING, "language-changes", "all-pairs"),
    Source("explain", ("BIOSSES",), EXPLAINING, "biosses-levels", "minilm-and-e5-small"),
    Source("layers", ("Summary",), HIDDEN, "word-trajectories", "summary"),
    Source("layers", ("bank, banks",), HIDDEN, "word-trajectories", "bank"),
    Source("layers", ("weather",), HIDDEN, "word-trajectories", "weather"),
    Source("layers", ("vehicles",), HIDDEN, "word-trajectories", "vehicles"),
    Source("layers", ("idiom",), HIDDEN, "sentence-trajectories", "idiom"),
    Source("layers", ("certainty",), HIDDEN, "sentence-trajectories", "certainty"),
    Source("retrieval", ("Layer by layer",), HIDDEN, "layers", "36000-queries"),
    Source("retrieval", ("Six queries of a news search on the 36,000 sentences",), HIDDEN, "queries", "judged"),
    Source("retrieval", ("Sentence compression: 36,000 queries among 36,000 sentences",), HIDDEN, "baselines",
           "compression"),
    Source("retrieval", ("stsb: 338 queries among 1,379 sentences",), HIDDEN, "baselines", "stsb"),
    Source("retrieval", ("sick: 958 queries among 4,927 image captions",), HIDDEN, "baselines", "sick"),
    Source("retrieval", ("biosses: 41 queries among 100 biomedical sentences",), HIDDEN, "baselines", "biosses"),
    Source("geometry", (INTRODUCTION, "Published claims on BERT"), BERT, "baseline", "claims"),
    Source("geometry", ("SNLI",), BERT, "baseline", "snli"),
    Source("geometry", ("STS-B",), BERT, "baseline", "stsb"),
    Source("studies", ("Biased training data",), BERT, "biased-data", "three-seeds"),
    Source("studies", ("Which layers matter for similarity",), BERT, "frozen-layers", "three-seeds"),
    Source("studies", ("Contrastive training",), BERT, "contrastive", "three-seeds"),
    Source("training", ("Multi-task: the published table at a small budget",), MULTITASK, "table", "small-grid"),
    Source("training", ("The best row with a larger budget",), MULTITASK, "table", "small-grid-best-row"),
    Source("training", ("Multi-task: our best run",), MULTITASK, "table", "best-run"),
    Source("training", ("Attempts to reach .74",), MULTITASK, "table", "best-run-attempts", "Multi-task: our best run"),
    Source("training", ("Ablations",), MULTITASK, "ablations", "small-grid"),
)  # fmt: skip


@cache
def shown(page: str) -> str:
    """The text of a page, or a figure of it, at the commit."""
    name = f"{COMMIT}:docs/results/{page}"
    return subprocess.run(["git", "show", name], cwd=FOLDER, capture_output=True, text=True, check=True).stdout


def committed(page: str, line: str) -> str:
    """The day on which a line came to a page."""
    words = ["git", "log", "--format=%cs", f"-S{line}", COMMIT, "--", f"{page}.md"]
    days = subprocess.run(words, cwd=FOLDER, capture_output=True, text=True, check=True).stdout.split()
    return days[-1]


@cache
def sections(page: str) -> dict[str, str]:
    """The bodies of the sections of a page by heading, each with those below it; the introduction has no heading."""
    found: dict[str, list[str]] = {INTRODUCTION: []}
    open_ones: list[tuple[int, str]] = []
    for line in shown(f"{page}.md").splitlines():
        heading = HEADING.match(line)
        if heading is not None:
            level, title = len(heading[1]), heading[2]
            open_ones = [one for one in open_ones if one[0] < level]
            for _, name in open_ones:
                found[name].append("" if _is_apart(page, title) else f"**{title}**")
            if level > 1:
                found.setdefault(title, [])
                open_ones = [(level, title)] if _is_apart(page, title) else [*open_ones, (level, title)]
            continue
        for name in [one for _, one in open_ones] or [INTRODUCTION]:
            found[name].append(line)
    return {name: "\n".join(lines) for name, lines in found.items()}


def _is_apart(page: str, title: str) -> bool:
    """Whether a section is imported on its own."""
    return any(one.page == page and title in one.headings for one in SOURCES)


def blocks(text: str) -> Iterator[str]:
    """Paragraphs, tables, lists item by item, and code."""
    fenced = re.split(r"^(```.*?^```)$", text, flags=re.MULTILINE | re.DOTALL)
    for part in fenced:
        if part.startswith("```"):
            yield part
        else:
            for block in re.split(r"\n\s*\n|\n(?=- )", part):
                if block.strip():
                    yield block.strip()


def record(source: Source) -> Record:
    """The run file of a source."""
    commands: list[str] = []
    notes: list[str] = []
    tables: dict[str, Table] = {}
    figures: dict[str, DrawnFigure] = {}
    stem = f"{source.item}-{source.name}"
    text = "\n\n".join(sections(source.page)[heading] for heading in source.headings)
    for block in blocks(text):
        if block.startswith("```"):
            commands += commands_of(block)
        elif block.startswith("|"):
            is_title = bool(notes) and notes[-1].endswith((":", "**"))
            tables[f"table-{len(tables) + 1}"] = table_of(block, notes.pop() if is_title else "")
        elif IMAGE.match(block):
            for title, file in IMAGE.findall(block):
                name = Path(file).stem
                figures[name] = DrawnFigure(f"{stem}-{name}.svg", title)
                (RUNS / source.study).mkdir(parents=True, exist_ok=True)
                (RUNS / source.study / f"{stem}-{name}.svg").write_text(shown(file), encoding="utf-8")
        else:
            notes.append(plain(block))
    head = sections(source.page)[INTRODUCTION]
    introduction = next(blocks(head))
    if source is next(one for one in SOURCES if (one.page, one.item) == (source.page, source.item)):
        notes = [plain(introduction), *(note for note in notes if note != plain(introduction))]  # once for each item
    commands = commands or [
        line for block in blocks(sections(source.page)[source.made_in]) for line in commands_of(block)
    ]
    dates = DATE.findall(text) or DATE.findall(introduction) or [committed(source.page, first_result(text))]
    return Record(
        source.study, source.item, source.name, content_key(COMMIT, source.page, source.headings),
        "\n".join(commands), dates[0], None, budget="", seeds=3 if SEEDS in introduction + text else 1,
        versions=dict(VERSION.findall(introduction)),
        origin=f"docs/results/{source.page}.md of commit {COMMIT}, {'; '.join(filter(None, source.headings))}",
        tables=tables, figures=figures, notes=tuple(notes),
    )  # fmt: skip


def first_result(text: str) -> str:
    """The first row of the first table, or the first line if there is no table."""
    lines = text.strip().splitlines()
    rules = [index for index, line in enumerate(lines) if re.fullmatch(r"[|:\- ]+", line) and "-" in line]
    return lines[rules[0] + 1] if rules else lines[0]


def commands_of(block: str) -> list[str]:
    """The lines of a block of code; none of another block."""
    return [line for line in block.splitlines() if not line.startswith("```")] if block.startswith("```") else []


def table_of(block: str, title: str) -> Table:
    """A Markdown table with its cells as they are printed."""
    lines = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in block.splitlines()]
    header, _, *rows = lines
    columns = [Column(f"column_{index}", cell or " ") for index, cell in enumerate(header, start=1)]
    filled = [row + [""] * (len(header) - len(row)) for row in rows]
    return Table.of(columns, filled, title.rstrip(":").strip("*"))


def plain(block: str) -> str:
    """A paragraph in one line, without links and marks of lists."""
    return LINK.sub(r"\1", " ".join(block.removeprefix("- ").split()))


if __name__ == "__main__":
    for source in SOURCES:
        record(source).write(RUNS)
