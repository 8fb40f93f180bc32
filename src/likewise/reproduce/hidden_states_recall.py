"""Retrieval of whole sentences by their compressions: by pooling, layer and model, against classic baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace

import numpy as np

from likewise.encoder import Encoder
from likewise.encoder.pooling import Layer, PoolingConfig
from likewise.errors import UsageError
from likewise.metrics import Array, Interval, bootstrap_means
from likewise.plotting.curves import curves
from likewise.reproduce.controls import same_effect, untrained
from likewise.reproduce.published import side_by_side
from likewise.reproduce.running import STAND_IN
from likewise.reproduce.study import Context, Finding
from likewise.reproduce.verdicts import Control, Verdict, above, below, not_comparable
from likewise.results import Column, Figure, Table
from likewise.search.baselines import baseline, ranked_hits
from likewise.search.evaluation import (
    EncodedRanker,
    RetrievalSource,
    RetrievalTask,
    dense_setting,
    encoded_rankers,
    evaluate_ranker,
)
from likewise.search.ranker import Ranker
from likewise.search.recall import TIES, RetrievalResult, RetrievalTable, measures, ranks
from likewise.search.retrieval_grid import RetrievalGrid, compare_retrieval
from likewise.train.config import TaskConfig, TrainConfig
from likewise.train.examples import Source
from likewise.train.loop import CHECKPOINT
from likewise.train.runs import run_key, train_tasks
from likewise.train.tasks import read_tasks

K = 10  # the recall that verdicts compare
SEEN = "compression/test_36k"  # pairs of a kind that many models were trained on
UNSEEN = "stsb/test"
LEAST_SCORE = 4.0  # of scored pairs that count as a query and its text
DEV_ROWS = 200
RANDOM_WEIGHTS = "random weights"
POOLINGS = ("mean", "cls", "max")
CLASSIC = {"bow": "word counts", "tfidf": "TF-IDF", "bm25": "BM25", "static": "averaged word vectors"}
LEAK_NOTE = (
    "Leak: the bundled model was trained on 180,000 pairs of sentence compression, so these pairs are not new to it,"
    " whatever the split; a comparison with BERT, which has not seen them, is not like for like."
)
NO_LEAK_NOTE = "Leak: the model was never fine-tuned, so it was not trained on such pairs."
FAR_NOTE = (
    "The study finds mean pooling far better: 0.700 against 0.217 at 10. The verdict is on better at all. Random"
    " weights have a verdict of their own, since averaging alone may favour mean pooling."
)
DATA_NOTE = (
    "The study's 36,000 pairs are other ones. Those used here are extractive: every word of a query is in its text."
)
ZH_NOTE = "No Chinese compressions are at hand: pairs of mstsb/zh_test with a score of 4 or more are the queries."


def the_task(context: Context, limit: int | None = None) -> RetrievalTask:
    """The pairs of the context's language; ``limit``: fewer than the budget has."""
    rows = context.size(tiny=60, quick=2000, standard=None)
    rows = min(one for one in (rows, limit, 10**9) if one is not None)
    if context.language == "en":
        return RetrievalSource(context.dataset(SEEN, rows)).read()
    name = f"mstsb/{context.language}_test"
    return RetrievalSource(context.dataset(name, max(rows, 200)), min_score=LEAST_SCORE).read()


def compared(context: Context, task: RetrievalTask, **settings: object) -> RetrievalTable:
    """A grid of the context's model; each result is cached as soon as it is computed."""
    grid = RetrievalGrid((context.short,), **settings)  # type: ignore[arg-type]
    named = replace(context.encoder, name=context.short)
    return compare_retrieval(task, grid, lambda _: named, context.progress)


def measured_without_cache(
    encoder: Encoder, task: RetrievalTask, variants: Sequence[tuple[str, Layer]]
) -> list[RetrievalResult]:
    """Poolings and layers of an encoder whose weights no file has, such as random ones."""
    rankers, truncated = encoded_rankers(encoder, [PoolingConfig(*one) for one in variants], task)
    return [
        evaluate_ranker(ranker, task, dense_setting(encoder.with_pooling(pooling=pooling, layer=layer)), (1, K),
                        truncated)
        for (pooling, layer), ranker in zip(variants, rankers, strict=True)
    ]  # fmt: skip


def recalls(result: RetrievalResult, k: int = K) -> Array:
    """The recall at k of each query: (n,)."""
    return np.asarray(result.values[list(result.recall).index(k)], np.float64)


def difference(better: RetrievalResult | Array, worse: RetrievalResult | Array) -> Interval:
    """How much more one ranker finds than another at k = 10: the mean over the same queries."""
    one, other = (recalls(each) if isinstance(each, RetrievalResult) else each for each in (better, worse))
    return bootstrap_means((one - other)[None])[0]


def chance(context: Context, task: RetrievalTask) -> Control:
    """Two random rankings, one against the other."""
    first, second = (compared(context, task, rankers=("random",), seed=seed).results[0] for seed in (0, 1))
    found = difference(first, second)
    return Control("two random rankings", found, found.low > 0)


def side_table(context: Context, item: str, rows: Mapping[str, RetrievalResult], task: RetrievalTask) -> Table:
    """Published recalls and those of some rankers."""
    measured = {(row, f"R@{k}"): one for row, found in rows.items() for k, one in found.recall.items()}
    title = f"{task.name}: {len(task.queries)} queries among {len(task.corpus)} texts"
    return side_by_side(context.published.of(item).values(), measured, context.short, title, f"A{TIES[1:]}.")


def notes(context: Context, task: RetrievalTask) -> tuple[str, ...]:
    """What to know of the data, with the leaks that are known or can be counted."""
    texts = set(task.corpus.texts)
    copies = sum(query in texts for query in task.queries)
    count = f"{copies} of the {len(task.queries)} queries are texts of the corpus themselves."
    if context.language != "en":
        return ZH_NOTE, count
    unknown = f"Leak: whether {context.short} was trained on compressions is not known here."
    seen = LEAK_NOTE if context.short == STAND_IN else NO_LEAK_NOTE if context.is_plain else unknown
    return DATA_NOTE, f"{seen} {count}"


def row_name(context: Context, result: RetrievalResult) -> str:
    """The model and its pooling, as the published rows name them."""
    return f"{context.short}, {'CLS' if result.setting.pooling == 'cls' else result.setting.pooling}"


def by_pooling(context: Context) -> Finding:
    """Recall by pooling, with random weights, random rankings and unseen data as controls."""
    task = the_task(context)
    found = compared(context, task, poolings=POOLINGS)
    mean, cls, _ = found.results
    blank = measured_without_cache(untrained(context.encoder), task, [("mean", -1), ("cls", -1)])
    rows = {row_name(context, one): one for one in found.results}
    rows |= {f"{RANDOM_WEIGHTS}, {name}": one for name, one in zip(("mean", "CLS"), blank, strict=True)}
    gained = difference(recalls(mean) - recalls(cls), recalls(blank[0]) - recalls(blank[1]))
    verdicts = [
        above("Mean pooling retrieves better than CLS pooling.", f"recall@{K} of mean pooling minus that of CLS",
              difference(mean, cls), control=chance(context, task)),
        above("What the model learned makes the advantage of mean pooling, not averaging as such.",
              f"that difference minus the same with {RANDOM_WEIGHTS}", gained, control=chance(context, task)),
        above(f"The model's vectors retrieve better than those of {RANDOM_WEIGHTS}.",
              f"recall@{K} minus that of {RANDOM_WEIGHTS}, mean pooling", difference(mean, blank[0]),
              control=chance(context, task)),
    ]  # fmt: skip
    if context.language == "en":
        verdicts.append(_unseen(context))
    rows["random ranking"] = compared(context, task, rankers=("random",)).results[0]
    return Finding(
        {"recall": side_table(context, "pooling", rows, task)},
        found.figures(),
        tuple(verdicts),
        (FAR_NOTE, *notes(context, task)),
    )


def unseen_task(context: Context) -> RetrievalTask:
    """Pairs that are no compressions: the words of the two sides differ."""
    limit = context.size(tiny=200, quick=None)
    return RetrievalSource(context.dataset(UNSEEN, limit), min_score=LEAST_SCORE).read()


def _unseen(context: Context) -> Verdict:
    """Mean against CLS pooling on pairs of another kind."""
    task = unseen_task(context)
    mean, cls = compared(context, task, poolings=("mean", "cls")).results
    return above(
        "The same on pairs that are no compressions, with other words on the two sides.",
        f"recall@{K} of mean pooling minus that of CLS, {task.name}, {len(task.queries)} queries",
        difference(mean, cls),
        control=chance(context, task),
    )


def by_layer(context: Context) -> Finding:
    """Recall by layer, mean pooling."""
    task = the_task(context)
    found = compared(context, task, poolings=("mean",), layers=("all",)).results
    depth = len(found) - 1
    middle = depth // 2
    blank = measured_without_cache(untrained(context.encoder), task, [("mean", middle), ("mean", depth)])
    control, last = difference(blank[1], blank[0]), difference(found[depth], found[middle])
    verdicts = (
        above("The last layer retrieves better than the middle one.",
              f"recall@{K} of layer {depth} minus that of layer {middle}", last,
              control=Control(RANDOM_WEIGHTS, control, same_effect(last, control))),
        above("The last layer retrieves better than the embeddings (layer 0).",
              f"recall@{K} of layer {depth} minus that of layer 0", difference(found[depth], found[0]),
              control=chance(context, task)),
    )  # fmt: skip
    ks = list(found[0].recall)
    series = {f"recall@{k}": tuple(zip(*(vars(one.recall[k]).values() for one in found), strict=True)) for k in ks}
    figure = Figure(
        lambda: curves(range(depth + 1), series, ("layer", "recall"), f"{context.short}, mean pooling", whole=True),  # type: ignore[arg-type]
        "Recall by layer",
    )
    return Finding(RetrievalTable(found).tables(), {"layers": figure}, verdicts, notes(context, task))


def by_model(context: Context) -> Finding:
    """A plain model and the same after contrastive training with mean pooling."""
    task = the_task(context)
    mean, cls = compared(context, task, poolings=("mean", "cls")).results
    rows = {row_name(context, one): one for one in (mean, cls)}
    claims = (
        "A model that was tuned for retrieval beats the plain one with mean pooling.",
        "With CLS pooling it falls behind the plain one.",
    )
    if not context.is_plain:
        why = f"{context.short} was fine-tuned before, and the same model before that is not at hand; take a plain one"
        verdicts = tuple(not_comparable(claim, why) for claim in claims)
        return Finding({"recall": side_table(context, "models", rows, task)}, {}, verdicts, notes(context, task))
    tuned = [_tuned(context, seed) for seed in range(1, context.seeds + 1)]
    found = [compare_tuned(context, encoder, task) for encoder in tuned]
    for seed, pair in enumerate(found, start=1):
        rows |= {f"{row_name(context, one)}, tuned, seed {seed}": one for one in pair}
    after = [np.mean([recalls(pair[which]) for pair in found], axis=0) for which in (0, 1)]
    control = chance(context, task)
    gains = [difference(after[0], recalls(mean)), difference(after[1], recalls(cls))]
    verdicts = (
        above(claims[0], f"recall@{K} after tuning minus before, mean pooling", gains[0], control=control,
              seeds=context.seeds),
        below(claims[1], f"recall@{K} after tuning minus before, CLS pooling", gains[1], control=control,
              seeds=context.seeds),
    )  # fmt: skip
    return Finding(
        {"recall": side_table(context, "models", rows, task)}, {}, verdicts, (*notes(context, task), TUNED_NOTE)
    )


TUNED_NOTE = (
    "Tuned: contrastive training through the mean, on pairs of the train part of STS-B with a score of 4 or more."
    " Pairs that are in its dev or test part are left out."
)


def compare_tuned(context: Context, encoder: Encoder, task: RetrievalTask) -> tuple[RetrievalResult, ...]:
    """Mean and CLS pooling of a tuned model."""
    grid = RetrievalGrid((encoder.name,), ("mean", "cls"))
    return compare_retrieval(task, grid, lambda _: encoder, context.progress).results


def _tuned(context: Context, seed: int) -> Encoder:
    """The context's model after contrastive training; an interrupted run continues."""
    train, dev, test = (
        f"stsb/{part}" if context.language == "en" else f"mstsb/{context.language}_{part}"
        for part in ("train", "dev", "test")
    )
    own = TaskConfig(
        "contrastive", (Source(train, scores=(LEAST_SCORE, 5.0)),), (Source(dev),), (Source(test),),
        pooling="mean", views="pairs",
    )  # fmt: skip
    samples, epochs = context.size(tiny=32, quick=512, standard=None), context.size(tiny=1, standard=3)
    config = TrainConfig((own,), context.model, seed=seed, epochs=epochs or 1, samples=samples)
    tasks, overlaps = read_tasks(config.tasks, context.data_dir)
    # A part of dev is enough to choose an epoch, and test is only there to be left out of train.
    tasks = [replace(one, dev=one.dev[:DEV_ROWS], test=()) for one in tasks]
    folder = context.work / "runs" / run_key(context.encoder, tasks, config)[:16]
    if not (folder / "likewise.json").exists() or (folder / CHECKPOINT).exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        options = {"resume": True, "overlaps": overlaps, "progress": context.progress}
        train_tasks(deepcopy(context.encoder), tasks, replace(config, out=str(folder)), **options)
    return Encoder.load(str(folder), threads=context.threads)


def against_baselines(context: Context) -> Finding:
    """The model against word counts, TF-IDF, BM25 and averaged word vectors."""
    if context.language != "en":
        raise UsageError("the classic baselines split texts at blanks, which Chinese has not; run it with English")
    task = the_task(context)
    names = [name for name in CLASSIC if name != "static" or context.vectors is not None]
    rankers = ("dense", "input-embeddings", *names, "random")
    table = compared(context, task, poolings=("mean",), rankers=rankers, vectors=context.vectors)
    found = {one.setting.ranker: one for one in table.results}
    verdicts = [_gain_over(name, found) for name in names]
    other = unseen_task(context)
    rest = compared(context, other, poolings=("mean",), rankers=("dense", "input-embeddings", "bm25")).results
    verdicts.append(_gain_over("bm25", {one.setting.ranker: one for one in rest}, f", {other.name}"))
    missing = "not run; give their text file with --vectors"
    if context.vectors is not None:
        missing = f"from {context.vectors.name}; other files, such as fastText's, run one at a time with --vectors"
    return Finding(
        table.tables(), table.figures(), tuple(verdicts),
        (*notes(context, task), f"Averaged GloVe or fastText vectors (static): {missing}."),
    )  # fmt: skip


def _gain_over(name: str, found: Mapping[str, RetrievalResult], data: str = "") -> Verdict:
    """The verdict on the model against a baseline; the control is what the model has before any layer."""
    gain, control = (difference(found[one], found[name]) for one in ("dense", "input-embeddings"))
    shown = Control("averaged input embeddings, without layers", control, same_effect(gain, control))
    claim = f"The model's vectors retrieve better than {CLASSIC[name]}{data}."
    return above(claim, f"recall@{K} of mean pooling minus that of {name}{data}", gain, control=shown)


def ties(context: Context) -> Finding:
    """How much of the recall is owed to ties."""
    task = the_task(context, context.size(tiny=60, quick=500, standard=5000, full=None))
    variants = {"mean": ("mean", -1), "CLS": ("cls", -1), "CLS, layer 0": ("cls", 0)}
    rankers, _ = encoded_rankers(context.encoder, [PoolingConfig(*one) for one in variants.values()], task)
    both = {name: both_ways(ranker, task) for name, ranker in zip(variants, rankers, strict=True)}
    rows = [(name, *(float(way.mean()) for way in ways), difference(*ways)) for name, ways in both.items()]
    columns = [Column("vectors"), Column("favour", f"R@{K}, ties in the query's favour", ".3f"),
               Column("against", f"R@{K}, ties against it", ".3f"), Column("difference", "", ".3f")]  # fmt: skip
    control = difference(*both["CLS, layer 0"])
    verdict = below(
        "Counting ties in the query's favour does not make the recall.",
        f"recall@{K} with ties in the query's favour minus that with ties against it, mean pooling",
        difference(*both["mean"]), 0.01, control=Control("CLS at layer 0, where all texts tie,", control),
    )  # fmt: skip
    title = f"{task.name}: {len(task.queries)} queries among {len(task.corpus)} texts"
    note = "The CLS token of layer 0 has seen no text, so all texts tie: in the query's favour each is found."
    return Finding({"ties": Table.of(columns, rows, title, note)}, {}, (verdict,), notes(context, task))


def both_ways(ranker: EncodedRanker, task: RetrievalTask) -> tuple[Array, Array]:
    """The recall at 10 of each query, with ties in its favour and against it: two (n,)."""
    favour = ranks(ranker.score_blocks(task.queries), task.relevant)
    beaten = ranks(((start, -scores) for start, scores in ranker.score_blocks(task.queries)), task.relevant)
    ways = favour, len(task.corpus) - 1 - beaten
    first, second = (np.asarray(measures(way, task.relevant, [K])[0], np.float64) for way in ways)
    return first, second


def six_queries(context: Context) -> Finding:
    """Six queries of a news search: judged hits among the built-in sentences, hits by id among the compressed ones."""
    if context.language != "en":
        raise UsageError("the six queries are English; run it with an English model")
    task = RetrievalSource("sample/sentences", "sample/queries").read()
    table = compared(context, task, poolings=("mean", "cls"), rankers=("dense", "bm25", "random"), ks=(5, 10))
    mean, cls, bm25, random = table.results
    control = difference(random, bm25)
    verdicts = (
        above("Mean pooling finds more of the right news than CLS pooling.",
              f"recall@{K} of mean pooling minus that of CLS, six queries, 300 built-in sentences",
              difference(mean, cls), control=chance(context, task)),
        above("The model finds more of the right news than BM25.", f"recall@{K} of mean pooling minus that of BM25",
              difference(mean, bm25), control=Control("a random ranking", control, control.low > 0)),
    )  # fmt: skip
    relevant = [{task.corpus.ids[row] for row in task.relevant.rows[slice(*ends)]}
                for ends in zip(task.relevant.starts, task.relevant.starts[1:], strict=False)]  # fmt: skip
    tables = {
        "recall": table.tables()["recall"],
        "built-in": _hits(context, task, "Built-in sentences: the first five hits; * is relevant", relevant),
    }
    news = replace(the_task(context), queries=task.queries)
    title = f"{news.name}: ids and scores of the first five hits among {len(news.corpus)} texts"
    tables["compression"] = _hits(context, news, title)
    note = "Hits among the compressed sentences are not judged here: a person has to read them."
    return Finding(tables, table.figures(), verdicts, (*notes(context, news)[1:], note))


def _hits(context: Context, task: RetrievalTask, title: str, relevant: Sequence[set[str]] = ()) -> Table:
    """The first five hits of each query by mean pooling, CLS pooling and BM25, as ids and scores."""
    dense, _ = encoded_rankers(context.encoder, [PoolingConfig("mean"), PoolingConfig("cls")], task, context.progress)
    rankers: dict[str, Ranker] = {"mean": dense[0], "CLS": dense[1], "BM25": baseline("bm25", task.corpus.texts)}
    found = {name: ranked_hits(ranker, task.corpus, task.queries, 5) for name, ranker in rankers.items()}
    rows = []
    for number, query in enumerate(task.queries):
        marked = relevant[number] if relevant else set()
        cells = [", ".join(f"{hit.id}{'*' if hit.id in marked else ''} {hit.score:.3g}" for hit in hits[number])
                 for hits in found.values()]  # fmt: skip
        rows.append((query, *cells))
    return Table.of(["query", *found], rows, title)
