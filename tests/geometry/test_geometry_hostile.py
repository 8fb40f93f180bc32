"""Geometry on what it was not made for: odd scripts, tiny corpora, full disks, cancelled runs, other families."""

from __future__ import annotations

import errno
import io
import json
import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import processors

from conftest import tiny_tokenizer
from likewise.encoder import Encoder
from likewise.encoder.forward import steady_memory
from likewise.encoder.pooling import ModulesConfig
from likewise.errors import Cancelled, DataError, UsageError
from likewise.geometry import Geometry, GeometrySettings, geometry_of
from likewise.geometry.geometry import ConfidenceBand
from likewise.geometry.occurrences import Occurrences, averaged_tokens, corpus_stats, sampling_plan
from likewise.geometry.rounds import OccurrenceStream
from likewise.geometry.sums import Counts, PoissonWeights, SentenceBatch, SimilaritySums, Space
from likewise.grammar import spans
from likewise.plotting.curves import curves
from likewise.plotting.html import inline_svg
from likewise.results import ResultSet
from occurrence_batches import batches_of
from tiny_models import tiny_encoder

TEXTS = ["the old town", "the old bank", "a river by the bank", "old river", "the bank is old", "a town by a river"]
SETTINGS = GeometrySettings(min_contexts=2, draws=10, clusters=2)
PLAIN = replace(SETTINGS, corrections=False)


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return tiny_encoder()


@pytest.fixture(scope="module")
def found(encoder: Encoder) -> Geometry:
    return geometry_of(encoder, TEXTS, SETTINGS)


class FullDisk(io.RawIOBase):
    """A disk of so many bytes; what is written beyond them is refused, as the system does it."""

    def __init__(self, size: int) -> None:
        self.size, self.data = size, io.BytesIO()

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, place: int, whence: int = 0) -> int:
        return self.data.seek(place, whence)

    def tell(self) -> int:
        return self.data.tell()

    def truncate(self, size: int | None = None) -> int:
        return self.data.truncate(size)

    def readinto(self, buffer: Any) -> int:
        return self.data.readinto(buffer)

    def write(self, data: Any) -> int:
        room = self.size - self.data.tell()
        if room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self.data.write(bytes(data)[:room])


class TestTemporaryFile:
    @pytest.mark.parametrize(
        "size",
        [
            0,
            pytest.param(100, id="less than the first batch"),
            pytest.param(9_000, id="within the second batch, which is held back"),
            pytest.param(10**9, id="enough"),
        ],
    )
    def test_a_full_disk_costs_time_and_nothing_else(self, encoder: Encoder, size: int) -> None:
        """Without a buffer: that would keep what was refused, and try it again at every truncate, seek and close."""
        stats = corpus_stats(TEXTS, folds_case=True)
        with FullDisk(size) as file:
            stream = OccurrenceStream(
                encoder, lambda: TEXTS, sampling_plan(stats, SETTINGS), SETTINGS, stats.texts, file
            )
            first, second = (batches_of(stream, note) for note in ("first", "second"))
        assert all(torch.equal(one.vectors, two.vectors) for one, two in zip(first, second, strict=True))

    @pytest.mark.parametrize("note", ["texts counted", "texts", "texts, corrected", "measures"])
    def test_a_cancelled_run_leaves_nothing_behind(
        self, encoder: Encoder, monkeypatch: pytest.MonkeyPatch, note: str
    ) -> None:
        made: list[Any] = []
        import tempfile

        temporary = tempfile.TemporaryFile

        def remembered(*arguments: Any, **options: Any) -> Any:
            made.append(temporary(*arguments, **options))
            return made[-1]

        def progress(done: int, total: int | None, said: str) -> None:
            if said == note:
                raise Cancelled("enough")

        monkeypatch.setattr(tempfile, "TemporaryFile", remembered)
        before = torch.backends.mkldnn.enabled
        with pytest.raises(Cancelled):
            geometry_of(encoder, TEXTS, SETTINGS, progress=progress)
        assert torch.backends.mkldnn.enabled == before
        assert all(file.closed for file in made) and bool(made) == (note != "texts counted")

    def test_two_runs_at_once_leave_the_backend_as_it_was(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.backends.mkldnn, "enabled", True)
        first, second = steady_memory(), steady_memory()
        for run in (first, second):
            run.__enter__()
        for run in (first, second):
            run.__exit__(None, None, None)
        assert torch.backends.mkldnn.enabled

    @pytest.mark.parametrize("disk", [float("inf"), float("nan")])
    def test_an_infinite_disk_is_rejected(self, disk: float) -> None:
        with pytest.raises(UsageError, match="disk takes a number of gigabytes"):
            replace(SETTINGS, disk=disk)


class TestIntervals:
    def test_poisson_draws_cover_what_is_true(self) -> None:
        """Sentences with a topic of their own: an interval that took words for independent would be far too narrow."""
        rng = np.random.default_rng(0)
        truth = np.array([one.values[0] for one in intervals(corpus(rng, 40_000), draws=2)])
        hits = np.zeros(2)
        for _ in range(150):
            bands = intervals(corpus(rng, 80), draws=150)
            hits += [band.low[0] <= value <= band.high[0] for band, value in zip(bands, truth, strict=True)]
        assert (hits / 150 > 0.89).all() and (hits / 150 < 0.995).all(), hits / 150

    def test_a_layer_without_any_draw_is_no_cause_for_alarm(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert np.isnan(ConfidenceBand.of_jackknife(np.full(2, np.nan), np.full((2, 10), np.nan)).low).all()

    def test_spectra_of_texts_of_one_length_have_an_interval(self, encoder: Encoder) -> None:
        rng = np.random.default_rng(0)
        texts = [" ".join(rng.choice(list("abcdefghijklmn"), 6)) for _ in range(100)]
        measured = geometry_of(encoder, texts, PLAIN)
        for band in (measured.isoscore, measured.effective_rank):
            assert (band.high - band.low > 1e-6 * band.values).all()

    def test_one_word_has_no_interval_of_width_zero(self, encoder: Encoder) -> None:
        measured = geometry_of(encoder, ["the old town", "a old bank", "b old river"], PLAIN)
        assert measured.words.words == ["old"]
        band = measured.raw.self_similarity
        assert np.isnan(band.low[1]) and np.isnan(band.high[1])


def corpus(rng: np.random.Generator, count: int, size: int = 5, width: int = 6) -> np.ndarray:
    """Sentences (S, n, D) whose words share a topic."""
    topics = rng.normal(size=(count, 1, width)) + np.eye(width)[0]
    return topics + rng.normal(size=(count, size, width)) * np.linspace(1, 0.2, width)


def intervals(sentences: np.ndarray, draws: int) -> tuple[ConfidenceBand, ConfidenceBand]:
    """The bands of baseline and intra-sentence similarity."""
    count, size, width = sentences.shape
    nothing = torch.zeros(0, dtype=torch.long)
    space = Space(1, width, 1, draws, count, torch.float64)
    counts, sums, poisson = Counts(draws, 1), SimilaritySums(space), PoissonWeights(draws, count, 0)
    of_word = torch.arange(count).repeat_interleave(size)
    batch = Occurrences(
        torch.tensor(sentences.reshape(1, -1, width)), of_word, count, nothing, nothing, [], []
    )  # fmt: skip
    drawn = SentenceBatch.of(batch, poisson)
    counts.add(batch, drawn)
    sums.add(batch, batch.vectors, drawn)
    return ConfidenceBand.of_draws(sums.baseline(counts)), ConfidenceBand.of_draws(sums.intra_similarity(counts))


class TestFamilies:
    @pytest.mark.parametrize("family", ["qwen3", "modernbert"])
    def test_words_are_listed_where_positions_are_turned_and_not_added(self, family: str) -> None:
        listed = geometry_of(tiny_encoder(family), TEXTS, PLAIN).to_dict()["words"]["mev"]
        assert {variant: bool(ends["highest"]) for variant, ends in listed.items()} == dict.fromkeys(listed, True)

    def test_equal_vectors_have_no_rank(self) -> None:
        same = geometry_of(tiny_encoder("qwen3"), ["bank", "bank bank", "bank bank bank"], PLAIN)
        assert np.isnan(same.isoscore.values[0]) and np.isnan(same.effective_rank.values[0])

    @pytest.mark.parametrize("family", ["qwen3", "gpt_neo", "distilbert", "albert"])
    def test_a_word_of_two_texts_is_their_cosine(self, family: str) -> None:
        encoder = tiny_encoder(family)
        texts = ["the river bank", "an old town bank", "by night"]
        measured = geometry_of(encoder, texts, replace(PLAIN, words=("bank",)))
        left, right = (one.hidden for one in encoder.states(texts[:2]))
        tokens = encoder.tokenize(texts[:2])
        for layer in range(measured.layers):
            vectors = [
                hidden[layer][[start >= text.index("bank") and end > start for start, end in one.offsets]].mean(0)
                for hidden, one, text in zip((left, right), tokens, texts, strict=False)
            ]
            cosine = vectors[0] @ vectors[1] / np.prod(np.linalg.norm(vectors, axis=1))
            assert measured.words.self_similarity[layer, 0] == pytest.approx(cosine, abs=1e-5)

    def test_a_tokenizer_without_special_tokens_reads_blank_texts(self) -> None:
        tokenizer = tiny_tokenizer()
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B")
        bare = tiny_encoder(tokenizer=tokenizer)
        blank = geometry_of(bare, [*TEXTS, "", "   ", "..."], SETTINGS)
        assert blank.metadata == {"texts": 9, "repeated": 0, "occurrences": 22, "points": 22}
        assert np.isfinite(blank.raw.baseline.values).all()

    def test_the_default_prompt_is_read_and_none_of_its_words_counts(self) -> None:
        modules_config = ModulesConfig(prompts={"query": "the bank: "}, default_prompt="query")
        text_inputs = tiny_encoder(modules_config=modules_config)
        own, named, none = (
            geometry_of(text_inputs, TEXTS, replace(PLAIN, prompt=it)) for it in (None, "the bank: ", "")
        )
        assert own.metadata == none.metadata and own.words.contexts.tolist() == none.words.contexts.tolist()
        assert own.raw.baseline.values == pytest.approx(named.raw.baseline.values, abs=1e-12)
        assert abs(own.raw.baseline.values - none.raw.baseline.values).max() > 1e-3

    def test_half_precision_is_averaged_in_a_wider_one(self) -> None:
        hidden = torch.full((1, 1, 4, 2), 2e4, dtype=torch.float16)
        assert averaged_tokens(hidden, [(0, (0, 1, 2, 3))]).isfinite().all()


class TestTexts:
    def test_words_of_any_script(self, encoder: Encoder) -> None:
        texts = [
            "日本 語",
            "日 本",
            "مرحبا بك",
            "مرحبا",
            "👍 👍",
            "e\u0301 x",
            "\u0301",
            "...",
            "",
            "\ud800 x",
            "क्षत्रिय क",
        ]
        measured = geometry_of(encoder, texts, SETTINGS)
        assert sorted(measured.words.words) == sorted(["日", "本", "مرحبا", "x"])
        assert measured.metadata["occurrences"] == 3 + 2 + 2 + 1 + 2 + 1 + 2

    def test_a_generator_is_read_once(self, encoder: Encoder, found: Geometry) -> None:
        # As text: nan, which few points leave, is equal to nothing.
        assert json.dumps(geometry_of(encoder, (text for text in TEXTS), SETTINGS).to_dict()) == json.dumps(
            found.to_dict()
        )

    def test_huge_texts_are_seen_up_to_the_limit(self, encoder: Encoder) -> None:
        measured = geometry_of(encoder, ["old " * 20_000, "a" * 100_000 + " old", "the old"], SETTINGS)
        assert measured.words.words == ["old"] and measured.words.contexts.tolist() == [3]

    def test_only_one_text_with_words_that_are_seen_has_no_baseline(self, encoder: Encoder) -> None:
        texts = ["the old bank", f"{'. ' * 60}the old bank"]
        measured = geometry_of(encoder, texts, replace(SETTINGS, words=("bank",)))
        assert measured.metadata["occurrences"] == 3 and np.isnan(measured.raw.baseline.values).all()
        assert math.isfinite(measured.raw.intra_similarity.values[0])

    def test_a_prompt_that_leaves_no_room_is_told_so(self, encoder: Encoder) -> None:
        with pytest.raises(DataError, match=r"prompt|limit|cut"):
            geometry_of(encoder, TEXTS, replace(SETTINGS, prompt="a " * 100))

    def test_a_text_cut_at_its_beginning_still_has_its_last_words(self) -> None:
        tokenizer = tiny_tokenizer()
        tokenizer.truncation_side = "left"
        texts = [f"bank {'x ' * 50} {letter} bank" for letter in "abc"]
        measured = geometry_of(tiny_encoder(tokenizer=tokenizer), texts, replace(PLAIN, words=("bank",)))
        assert measured.words.contexts[0] == 3

    def test_an_accent_may_be_a_letter_of_its_own(self, encoder: Encoder) -> None:
        texts = ["a cafe\u0301 x", "the caf\u00e9 y", "b z"]
        measured = geometry_of(encoder, texts, replace(PLAIN, words=("caf\u00e9",)))
        assert measured.words.contexts[0] == 2

    def test_models_with_and_without_case_see_the_same_points(self) -> None:
        texts = [f"{one} {two} w{number}" for number, (one, two) in enumerate([("Old", "Town"), ("old", "town")] * 40)]
        settings = GeometrySettings(min_contexts=2, max_contexts=20, sample_points=20)
        folded, cased = (sampling_plan(corpus_stats(texts, folds_case), settings) for folds_case in (True, False))
        assert set(folded.points) == set(cased.points)

    def test_a_flag_does_not_look_back_over_all_others(self, monkeypatch: pytest.MonkeyPatch) -> None:
        looked: list[int] = []
        joins = spans._joins
        monkeypatch.setattr(
            spans, "_joins", lambda text, index, start: looked.append(index - start) or joins(text, index, start)
        )
        assert len(spans.word_spans("🇩🇪" * 50)) == 50
        assert len(looked) == 99 and max(looked) == 2


class TestFigures:
    def test_two_models_of_one_name_are_both_drawn(self, found: Geometry) -> None:
        other = geometry_of(tiny_encoder(seed=3), TEXTS, SETTINGS)
        figures = ResultSet((found, other)).figures()
        assert len(figures["measures"].draw().lines) == 2

    def test_tables_tell_two_folders_of_one_name_apart(self, found: Geometry) -> None:
        pair = replace(found, model="first/model"), replace(found, model="second/model")
        rows = ResultSet(pair).tables()["similarities"].rows
        assert [row[0] for row in rows] == ["first/model"] * found.layers + ["second/model"] * found.layers
        shown = ResultSet(pair)._repr_html_()
        assert "first" in shown and "second" in shown

    def test_dollars_in_a_legend_are_letters(self) -> None:
        names = [f"{letter} $x^{{$" for letter in "abc"]
        axes = curves([0, 1], {name: ([0.5, 1.0], None, None) for name in names}, ("layer", "cosine"))
        assert inline_svg(axes, "curves").startswith("<svg")

    @pytest.mark.slow
    def test_a_layer_without_any_number_can_be_drawn(self, found: Geometry, tmp_path: Path) -> None:
        nothing = np.full(found.layers, np.nan)
        empty = replace(
            found, isoscore=ConfidenceBand(nothing, nothing, nothing), alignment=np.full_like(found.alignment, np.nan)
        )
        for name, figure in empty.figures().items():
            figure.draw().figure.savefig(tmp_path / f"{name}.svg")
            assert (tmp_path / f"{name}.svg").stat().st_size > 1000
