"""Every measure of a geometry run against double loops over Hugging Face's own hidden states, in float64."""

from __future__ import annotations

import io
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate, combinations, permutations
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA, TruncatedSVD

from likewise.encoder import Encoder
from likewise.errors import DataError, UsageError
from likewise.geometry import Geometry, GeometrySettings, geometry_of, rounds
from likewise.geometry.measures import cluster_isotropy, debiased_cka, two_nn
from likewise.geometry.occurrences import PlannedWindow, corpus_stats, sampling_plan
from likewise.geometry.rounds import OccurrenceStream
from likewise.geometry.sums import PoissonWeights, SentenceBatch
from occurrence_batches import batches_of, windows_of
from tiny_models import tiny_encoder
from twins import twin_model

TEXTS = [
    "We rob a bank, and the bank is old.",
    "The children sat by the bank of a river",
    "A river runs by the old town.",
    "The town has a bank!",
    "Old children rob a river",
    "The children sat by the bank of a river",
    "unbelievable children, the old ones, rob the town",
    "bank",
    "...",
]
SETTINGS = GeometrySettings(min_contexts=3, draws=20, sample_points=10_000, clusters=2)


FIRST_WINDOW = 26e-6
"""Gigabytes for the vectors of the first three texts and not of the next three."""


class Plain:
    """The plain way: all words of all texts, their vectors from Hugging Face, and loops."""

    def __init__(self, encoder: Encoder, texts: list[str], layer: int) -> None:
        self.words: list[tuple[int, str, np.ndarray]] = []
        for sentence, text in enumerate(dict.fromkeys(texts)):
            marks = re.findall(r"\w+|[^\w\s]", text.lower())
            parts = [encoder.tokenizer.backend.encode(mark, add_special_tokens=False).ids for mark in marks]
            special = encoder.tokenizer.backend.encode("").ids
            ids = [special[0], *(one for part in parts for one in part), special[-1]]
            with torch.no_grad():
                hidden = twin_model(encoder)(torch.tensor([ids]), output_hidden_states=True).hidden_states[layer][0]
            place = 1
            for mark, part in zip(marks, parts, strict=True):
                if mark.isalnum():
                    self.words.append((sentence, mark, hidden[place : place + len(part)].mean(0).numpy()))
                place += len(part)

    @property
    def vectors(self) -> np.ndarray:
        return np.stack([vector for _, _, vector in self.words])

    def mapped(self, function) -> Plain:
        other = object.__new__(Plain)
        rows = function(self.vectors)
        other.words = [(sentence, word, row) for (sentence, word, _), row in zip(self.words, rows, strict=True)]
        return other

    def contexts(self) -> dict[str, list[np.ndarray]]:
        found: dict[str, dict[int, np.ndarray]] = defaultdict(dict)
        for sentence, word, vector in self.words:
            found[word].setdefault(sentence, vector)
        return {word: list(places.values()) for word, places in found.items() if len(places) >= SETTINGS.min_contexts}

    def baseline(self) -> float:
        pairs = [(x, y) for (s, _, x), (t, _, y) in permutations(self.words, 2) if s != t]
        return float(np.mean([cosine(x, y) for x, y in pairs]))

    def self_similarity(self) -> float:
        each = [np.mean([cosine(x, y) for x, y in combinations(rows, 2)]) for rows in self.contexts().values()]
        return float(np.mean(each))

    def intra_similarity(self) -> float:
        found = defaultdict(list)
        for sentence, _, vector in self.words:
            found[sentence].append(vector)
        return float(np.mean([np.mean([cosine(x, np.mean(rows, 0)) for x in rows]) for rows in found.values()]))

    def contribution(self, dimension: int) -> float:
        unit = [(s, x / np.linalg.norm(x)) for s, _, x in self.words]
        return float(np.mean([x[dimension] * y[dimension] for (s, x), (t, y) in permutations(unit, 2) if s != t]))


def cosine(x: np.ndarray, y: np.ndarray) -> float:
    return float(x @ y / (np.linalg.norm(x) * np.linalg.norm(y)))


def mev(rows: np.ndarray) -> list[float]:
    squares = np.linalg.svd(rows, compute_uv=False) ** 2
    pca = PCA(1, svd_solver="full").fit(rows).explained_variance_ratio_[0]
    svd = TruncatedSVD(1, algorithm="arpack", random_state=0).fit(rows).explained_variance_ratio_[0]
    return [squares[0] / squares.sum(), pca, svd]


def standardised(rows: np.ndarray) -> np.ndarray:
    return (rows - rows.mean(0)) / rows.std(0)


def without_top(rows: np.ndarray) -> np.ndarray:
    centred = rows - rows.mean(0)
    top = PCA(1, svd_solver="full").fit(rows).components_
    return centred - centred @ top.T @ top


def whitened(rows: np.ndarray) -> np.ndarray:
    pca = PCA(whiten=True, svd_solver="full").fit(rows)
    filled = pca.explained_variance_ > pca.explained_variance_[0] * 1e-10
    return pca.transform(rows)[:, filled]


CORRECTIONS = {
    "mean-removal": lambda rows: rows - rows.mean(0),
    "standardisation": standardised,
    "all-but-the-top": without_top,
    "whitening": whitened,
}


def stream_of(encoder: Encoder, file: IO[bytes], **changes: float) -> OccurrenceStream:
    settings, stats = replace(SETTINGS, **changes), corpus_stats(TEXTS, folds_case=True)
    return OccurrenceStream(encoder, lambda: TEXTS, sampling_plan(stats, settings), settings, stats.texts, file)


@pytest.fixture(params=[0, 1, 2], scope="module")
def encoder(request: pytest.FixtureRequest) -> Encoder:
    return tiny_encoder(seed=request.param)


@pytest.fixture(scope="module")
def found(encoder: Encoder) -> Geometry:
    return geometry_of(encoder, TEXTS, SETTINGS)


@pytest.mark.parametrize("layer", [0, 1, 3])
class TestMeasuresAreDoubleLoops:
    def test_similarities(self, encoder: Encoder, found: Geometry, layer: int) -> None:
        plain = Plain(encoder, TEXTS, layer)
        values = found.to_dict()["layers"][layer]
        assert values["baseline"] == pytest.approx(plain.baseline(), abs=1e-10)
        assert values["self_similarity"] == pytest.approx(plain.self_similarity(), abs=1e-10)
        assert values["intra_similarity"] == pytest.approx(plain.intra_similarity(), abs=1e-10)
        for name in ("self", "intra"):
            raw, adjusted = values[f"{name}_similarity"], values[f"{name}_similarity_adjusted"]
            assert adjusted == pytest.approx(raw - plain.baseline(), abs=1e-10)

    @pytest.mark.parametrize("kind", CORRECTIONS)
    def test_corrected_similarities(self, encoder: Encoder, found: Geometry, layer: int, kind: str) -> None:
        plain = Plain(encoder, TEXTS, layer).mapped(CORRECTIONS[kind])
        values = found.to_dict()["layers"][layer]["corrected"][kind]
        assert values["baseline"] == pytest.approx(plain.baseline(), abs=1e-10)
        assert values["self_similarity"] == pytest.approx(plain.self_similarity(), abs=1e-10)
        assert values["intra_similarity"] == pytest.approx(plain.intra_similarity(), abs=1e-10)

    def test_explained_variance(self, encoder: Encoder, found: Geometry, layer: int) -> None:
        contexts = Plain(encoder, TEXTS, layer).contexts()
        means = np.mean([mev(np.stack(rows)) for rows in contexts.values()], axis=0)
        values = found.to_dict()["layers"][layer]["mev"]
        assert list(values.values()) == pytest.approx(means.tolist(), abs=1e-10)
        assert found.variances.words == len(contexts)

    def test_explained_variance_of_as_many_random_occurrences(
        self, encoder: Encoder, found: Geometry, layer: int
    ) -> None:
        plain = Plain(encoder, TEXTS, layer)
        contexts = plain.contexts()
        drawn = [
            np.random.default_rng((SETTINGS.seed, which)).choice(len(plain.words), len(contexts[word]), replace=False)
            for which, word in enumerate(found.words.words)
        ]
        means = np.mean([mev(plain.vectors[places]) for places in drawn], axis=0)
        values = found.to_dict()["layers"][layer]
        assert list(values["mev_baseline"].values()) == pytest.approx(means.tolist(), abs=1e-10)
        for variant, value in values["mev_adjusted"].items():
            assert value == pytest.approx(values["mev"][variant] - values["mev_baseline"][variant], abs=1e-10)

    def test_rogue_dimensions(self, encoder: Encoder, found: Geometry, layer: int) -> None:
        plain = Plain(encoder, TEXTS, layer)
        parts = np.array([plain.contribution(dimension) for dimension in range(found.shares.shape[1])])
        baseline = found.raw.baseline.values[layer]
        assert found.shares[layer] * baseline == pytest.approx(parts, abs=1e-10)
        first = found.to_dict()["layers"][layer]["rogue"]["dimensions"][0]["dimension"]
        assert first == int(np.argmax(parts / parts.sum()))

    def test_isoscore(self, encoder: Encoder, found: Geometry, layer: int) -> None:
        variances = PCA(svd_solver="full").fit(Plain(encoder, TEXTS, layer).vectors).explained_variance_
        width = found.shares.shape[1]
        variances = np.pad(variances, (0, width - len(variances)))
        scaled = np.sqrt(width) * variances / np.linalg.norm(variances)
        defect = np.linalg.norm(scaled - 1) / np.sqrt(2 * (width - np.sqrt(width)))
        phi = (width - defect**2 * (width - np.sqrt(width))) ** 2 / width**2
        assert found.isoscore.values[layer] == pytest.approx((width * phi - 1) / (width - 1), abs=1e-10)


class TestSampledMeasuresSeeTheSample:
    """Their own twins are beside them; here the sample is all words, in the order of the texts."""

    def test_effective_rank(self, encoder: Encoder, found: Geometry) -> None:
        rows = Plain(encoder, TEXTS, 2).vectors
        singular = np.linalg.svd(rows - rows.mean(0), compute_uv=False)
        shares = singular[singular > 1e-9] / singular.sum()
        # An empty direction's variance of 1e-16 is a singular value of 1e-8: squares cannot do better.
        assert found.effective_rank.values[2] == pytest.approx(np.exp(-(shares * np.log(shares)).sum()), rel=1e-7)

    def test_intrinsic_dimension_and_clusters(self, encoder: Encoder, found: Geometry) -> None:
        plain = Plain(encoder, TEXTS, 2)
        assert found.intrinsic_dimension.values[2] == pytest.approx(two_nn(plain.vectors).value, rel=1e-10)
        sentences = [sentence for sentence, _, _ in plain.words]
        clusters = cluster_isotropy(plain.vectors, sentences, SETTINGS.clusters, SETTINGS.seed)
        assert vars(found.clusters[2]) == pytest.approx(vars(clusters), abs=1e-10)

    def test_alignment(self, encoder: Encoder, found: Geometry) -> None:
        states = np.stack([Plain(encoder, TEXTS, layer).vectors for layer in range(4)])
        assert found.alignment == pytest.approx(debiased_cka(states), abs=1e-10)


def test_words_are_listed_with_their_contexts(found: Geometry) -> None:
    measures = dict(zip(found.words.words, found.words.contexts.tolist(), strict=True))
    assert measures == {"a": 5, "bank": 4, "the": 5, "old": 4, "river": 3, "children": 3, "rob": 3, "town": 3}
    lowest = found.to_dict()["words"]["self_similarity"]["lowest"][0]
    means = found.words.self_similarity.mean(0)
    assert lowest["word"] == found.words.words[int(means.argmin())]


def test_shows_itself(found: Geometry) -> None:
    assert len(found.plot().lines) == 3
    table = found.tables()["similarities"]
    assert len(table.rows) == found.layers == len(found.to_dataframe())
    assert all(text in found._repr_html_() for text in table.texts()[1][2].splitlines())


def test_facts_tell_repeated_texts(found: Geometry) -> None:
    assert found.metadata == {"texts": 8, "repeated": 1, "occurrences": 44, "points": 44}


class TestDraws:
    @pytest.mark.parametrize("window", [3, 100])
    def test_a_draw_counts_each_sentence_as_often_as_its_weight_says(
        self, encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int
    ) -> None:
        monkeypatch.setattr("likewise.encoder.forward.WINDOW_TEXTS", window)
        stream = stream_of(encoder, (tmp_path / "kept").open("w+b", buffering=0))
        weights, vectors, sentences, start = [], [], [], 0
        for number, batches in enumerate(windows_of(stream, "texts")):
            poisson = PoissonWeights(SETTINGS.draws, SETTINGS.seed, number)
            for batch in batches:
                weights.append(SentenceBatch.of(batch, poisson).weights.numpy())
                vectors.append(batch.vectors[2].numpy())
                sentences += (batch.sentences + start).tolist()
                start += batch.texts
        weight, rows = np.concatenate(weights, axis=1), np.concatenate(vectors)
        found = geometry_of(encoder, TEXTS, SETTINGS)
        drawn = []
        for one in weight:
            parts = [
                (one[s] * one[t], cosine(rows[x], rows[y]))
                for (x, s), (y, t) in permutations(enumerate(sentences), 2)
                if s != t
            ]
            total = sum(share for share, _ in parts)
            drawn.append(sum(share * value for share, value in parts) / total if total else np.nan)
        ends = np.nanpercentile(drawn, [2.5, 97.5])
        assert found.to_dict()["layers"][2]["intervals"]["baseline"] == pytest.approx(ends.tolist(), abs=1e-10)

    def test_sentences_without_words_never_count(self) -> None:
        assert PoissonWeights(50, 0, 0).next(torch.tensor([0.0, 3.0]))[:, 0].sum() == 0

    @pytest.mark.slow
    def test_intervals_hold_their_values_and_narrow_with_more_texts(self, tiny: Encoder) -> None:
        from likewise.sample import sample_sentences

        few, many = (
            geometry_of(tiny, sample_sentences()[:count], GeometrySettings(min_contexts=3, corrections=False))
            for count in (60, 300)
        )
        for name in ("baseline", "intra_similarity", "isoscore", "effective_rank"):
            for found in (few, many):
                band = found.bands[name]
                assert (band.low <= band.values).all() and (band.values <= band.high).all(), name
        widths = [(one.raw.baseline.high - one.raw.baseline.low).mean() for one in (few, many)]
        assert widths[1] < widths[0]


class TestStream:
    @pytest.mark.slow
    def test_what_is_kept_and_what_is_encoded_again_give_the_same(
        self, encoder: Encoder, found: Geometry, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("likewise.encoder.forward.WINDOW_TEXTS", 3)
        whole = geometry_of(encoder, TEXTS, SETTINGS).to_dict()
        for disk in (0.0, FIRST_WINDOW):
            assert geometry_of(encoder, TEXTS, replace(SETTINGS, disk=disk)).to_dict() == whole

    @pytest.mark.parametrize(("disk", "kept", "again"), [(0.0, 0, 3), (FIRST_WINDOW, 1, 2), (1.0, 3, 0)])
    def test_only_what_is_not_kept_is_encoded_again(
        self, encoder: Encoder, monkeypatch: pytest.MonkeyPatch, disk: float, kept: int, again: int
    ) -> None:
        monkeypatch.setattr("likewise.encoder.forward.WINDOW_TEXTS", 3)
        calls: list[int] = []
        encode = rounds.encoded_window

        def counting(encoder: Encoder, window: PlannedWindow, prompt: str | None) -> Iterator[Any]:
            calls.append(len(window))
            return encode(encoder, window, prompt)

        monkeypatch.setattr(rounds, "encoded_window", counting)
        with tempfile.TemporaryFile(buffering=0) as file:
            stream = stream_of(encoder, file, disk=disk)
            first = batches_of(stream, "first")
            assert calls == [3, 3, 2]
            second = batches_of(stream, "second")
            ends = accumulate(batch.texts for batch in first)
            window = [batch.vectors.nbytes for batch, end in zip(first, ends, strict=True) if end <= 3 * kept]
            assert file.seek(0, 2) == sum(window)
        assert len(calls) - 3 == again
        assert all(torch.equal(one.vectors, two.vectors) for one, two in zip(first, second, strict=True))
        assert [one.sampled for one in first] == [two.sampled for two in second]

    def test_a_full_disk_costs_time_and_nothing_else(self, encoder: Encoder, found: Geometry) -> None:
        class Full(io.BytesIO):
            def write(self, data: Any) -> int:
                raise OSError(28, "No space left on device")

        stream = stream_of(encoder, Full())
        rounds = [batches_of(stream, note) for note in ("first", "second")]
        assert all(torch.equal(one.vectors, two.vectors) for one, two in zip(*rounds, strict=True))

    def test_a_corpus_may_be_read_anew_instead_of_held(self, encoder: Encoder, found: Geometry) -> None:
        assert geometry_of(encoder, lambda: iter(TEXTS), SETTINGS).to_dict() == found.to_dict()

    def test_the_same_seed_gives_the_same_numbers(self, encoder: Encoder, found: Geometry) -> None:
        assert geometry_of(encoder, TEXTS, SETTINGS).to_dict() == found.to_dict()


class TestLimitsOfTheSample:
    LIMITS = GeometrySettings(min_contexts=3, max_contexts=3, sample_rows=7, max_words=4, sample_points=6, draws=5)

    def test_the_plan_keeps_to_them(self) -> None:
        found = sampling_plan(corpus_stats(TEXTS, folds_case=True), self.LIMITS)
        assert len(found.words) == 4 and found.sampled == 2 and len(found.points) == 6
        assert found.starts.tolist() == [0, 3, 6] and sorted(found.rows.values()) == list(range(6))
        assert {word for word, _ in found.rows} == {0, 1}

    def test_chosen_words_are_sampled_whatever_the_limits(self) -> None:
        settings = replace(self.LIMITS, words=("bank", "the", "old"), sample_rows=2)
        found = sampling_plan(corpus_stats(TEXTS, folds_case=True), settings)
        assert found.words[:3] == ["bank", "the", "old"] and found.sampled == 3

    def test_variance_is_of_exactly_the_planned_contexts(self, encoder: Encoder) -> None:
        found, drawn = (
            geometry_of(encoder, TEXTS, self.LIMITS),
            sampling_plan(corpus_stats(TEXTS, folds_case=True), self.LIMITS),
        )
        plain = Plain(encoder, TEXTS, 1).contexts()
        for which, word in enumerate(drawn.words[: drawn.sampled]):
            contexts = sorted(context for number, context in drawn.rows if number == which)
            expected = mev(np.stack([plain[word][context] for context in contexts]))
            assert found.words.variance[:, 1, which] == pytest.approx(expected, abs=1e-10)
        assert found.metadata["points"] == 6 and found.variances.words == 2


class TestInputs:
    def test_a_word_that_stands_once_cannot_be_chosen(self, tiny: Encoder) -> None:
        with pytest.raises(DataError, match="'town' stands in 1 of the 2 different texts"):
            geometry_of(tiny, ["the old town", "the old bank"], GeometrySettings(words=("town",)))

    def test_too_rare_words_name_the_cure(self, tiny: Encoder) -> None:
        with pytest.raises(DataError, match="the most frequent stands in 2: give more texts or a lower --min-contexts"):
            geometry_of(tiny, ["the old town", "the old bank"])

    def test_one_text_is_not_enough(self, tiny: Encoder) -> None:
        with pytest.raises(DataError, match="at least 2, got 1"):
            geometry_of(tiny, ["the old town", "the old town"])

    def test_settings_are_checked(self) -> None:
        with pytest.raises(UsageError, match="min-contexts must be at least 2, got 1"):
            GeometrySettings(min_contexts=1)

    def test_punctuation_can_be_counted(self, tiny: Encoder) -> None:
        texts = ["the old town.", "the old bank.", "a river."]
        settings = GeometrySettings(min_contexts=3, punctuation=True, corrections=False)
        assert geometry_of(tiny, texts, settings).words.words == ["."]

    def test_words_cut_off_at_the_limit_are_no_contexts(self, tiny: Encoder) -> None:
        texts = [f"{'old ' * 40}bank {letter}" for letter in "abc"] + ["the bank", "a bank"]
        settings = GeometrySettings(min_contexts=2, words=("bank",), corrections=False)
        assert geometry_of(tiny, texts, settings).words.contexts[0] == 2
