"""Explaining text similarity: a model that counts the nouns that two texts share, so that the truth is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from likewise.data import Pair
from likewise.encoder import Encoder
from likewise.grammar.words import shared_nouns
from likewise.lint.evidence import parsed_sides
from likewise.metrics import Array, Interval, bootstrap_means
from likewise.reproduce.controls import resampled, same_effect
from likewise.reproduce.explaining_similarity_faithfulness import difference, english_only, spaced
from likewise.reproduce.published import side_by_side
from likewise.reproduce.study import Context, Finding
from likewise.reproduce.verdicts import Control, Verdict, above, not_comparable
from likewise.train.examples import Example
from likewise.train.loop import CHECKPOINT
from likewise.train.runs import config_text, parse_plan, train_tasks
from likewise.train.synthetic import SyntheticBenchmark, synthetic_benchmark
from likewise.train.tasks import Task, without_overlap

ENOUGH = 0.8  # Spearman with the true counts, from which a model is taken to count
NOUN_METHODS = {
    "BiLRP": "bilrp", "embedding": "embedding", "HxP": "hxp", "embedding, squared": "embedding-squared",
    "random": "random",
}  # fmt: skip
DRAWN = (
    Pair(
        "The old dog slept quietly near the open window of our small house.",
        "A hungry dog chased the little ball across the wet and muddy field.", "1",
    ),
    Pair(
        "The tired nurse waited for the doctor until late in the evening.",
        "When the doctor finally arrived, he thanked the nurse and went back inside.", "2",
    ),
    Pair(
        "The farmer sold bread, cheese and wine at the market.",
        "At the market a farmer bought cheese, wine and bread.", "5",
    ),
)  # fmt: skip
"""Built-in pairs that share 1, 2 and 5 nouns: rows of the public data are not drawn."""


def noun_interactions(context: Context) -> Finding:
    """How close explanations come to the true interactions of a model that counts nouns."""
    english_only(context, "counting nouns needs a grammar, and the training data are English")
    found = [_noun_benchmark(context, seed) for seed in range(1, context.seeds + 1)]
    drawn = synthetic_benchmark(_noun_model(context, 1), {"built-in pairs": DRAWN}, context.grammar())
    cosines = {name: np.mean([one.cosines[name] for one in found], axis=0) for name in NOUN_METHODS.values()}
    measured: dict[tuple[str, str], object] = {
        (name, "ACS"): bootstrap_means([cosines[method]])[0] for name, method in NOUN_METHODS.items()
    }
    for name in found[0].counting:
        count = [one.counting[name] for one in found]
        measured[f"counting, {name}", "Spearman"] = float(np.mean([one.spearman for one in count]))
        measured[f"counting, {name}", "squared error"] = float(np.mean([one.mse for one in count]))
    published = context.published.of("nouns").values()
    title = "Mean cosine with the true interactions (ACS), and how well the model counts"
    table = side_by_side(published, measured, context.short, title, f"{found[0].compared} pairs that share a noun")
    figure = replace(drawn.figures()["examples"], note="Built-in pairs; the truth is on the left.")
    verdicts = _noun_verdicts(context, found, cosines)
    return Finding({"nouns": table}, {"nouns": figure}, verdicts)


def _noun_verdicts(
    context: Context, found: Sequence[SyntheticBenchmark], cosines: Mapping[str, Array]
) -> tuple[Verdict, ...]:
    first = "BiLRP is closer to the true interactions than embeddings and Hessian x product."
    second = "Embeddings are closer to the true interactions than Hessian x product."
    counts = min(one.counting["stsb/test"].spearman for one in found)
    if counts < ENOUGH:
        why = f"after this little training the model does not count (Spearman {counts:.2f}, {ENOUGH} is needed)"
        return not_comparable(first, why), not_comparable(second, why)
    own, rows = cosines["bilrp"], np.stack([cosines[name] for name in ("embedding", "embedding-squared", "hxp")])

    def margin(relevance: Array) -> Interval:
        return resampled(lambda weights: float(((relevance - rows) @ weights).min() / weights.sum()), len(relevance))

    effect, random = margin(own), margin(cosines["random"])
    return (
        above(
            first, "ACS: the smallest lead over embeddings (squared or not) and Hessian x product", effect,
            control=Control("random matrices", random, same_effect(effect, random)), seeds=context.seeds,
        ),
        above(
            second, "ACS of embeddings (not squared) minus that of Hessian x product",
            difference(cosines["embedding"], cosines["hxp"]), seeds=context.seeds,
        ),
    )  # fmt: skip


def _noun_benchmark(context: Context, seed: int) -> SyntheticBenchmark:
    compared = context.size(tiny=12, quick=60, standard=300, full=None)
    data = {
        "stsb/test": spaced(context.dataset("stsb/test").scored_pairs(), compared),
        "stsb/train": spaced(context.dataset("stsb/train").scored_pairs(), compared),
    }
    return synthetic_benchmark(_noun_model(context, seed), data, context.grammar(), progress=context.progress)


def _noun_model(context: Context, seed: int) -> Encoder:
    """The model of the preset ``synthetic``, trained in the work folder; an interrupted training continues."""
    folder = context.work / f"nouns-{context.budget}-{seed}"
    if not (folder / "likewise.json").exists() or (folder / CHECKPOINT).exists():
        epochs = context.size(tiny=1, quick=2, standard=4)
        changes = {"model": context.model, "seed": seed, "epochs": epochs, "out": str(folder)}
        config = parse_plan(config_text("synthetic"), "synthetic", **changes).single
        train = _noun_examples(context, "stsb/train", context.size(tiny=24, quick=1000, standard=None))
        dev = _noun_examples(context, "stsb/dev", context.size(tiny=12, quick=150, standard=None))
        rows = [row for file in ("stsb/dev", "stsb/test") for row in context.dataset(file).scored_pairs()]
        held_out = {"held out": [Example((row.left, row.right), 0.0, row.id, "held out") for row in rows]}
        left, overlaps = without_overlap({"stsb/train": train}, held_out)
        task = Task(config.tasks[0], tuple(left["stsb/train"]), tuple(dev))
        encoder = Encoder.load(context.model, threads=context.threads)  # its weights change
        train_tasks(encoder, [task], config, overlaps=overlaps, resume=True, progress=context.progress)
    return Encoder.load(str(folder), threads=context.threads)


def _noun_examples(context: Context, file: str, count: int | None) -> list[Example]:
    """Pairs with the number of nouns that they share."""
    pairs = spaced(context.dataset(file).scored_pairs(), count)
    parsed = parsed_sides(pairs, context.grammar(), progress=context.progress)
    return [
        Example(
            (one.left, one.right), float(shared_nouns(parsed.left[one.left], parsed.right[one.right])), one.id, file
        )
        for one in pairs
    ]
