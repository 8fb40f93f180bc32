"""Files of texts -> indexes: built once, kept, added to and gone on with; baselines and hybrids as hits."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import save_classic
from likewise.data import Columns, Dataset
from likewise.encoder import Encoder
from likewise.errors import Cancelled, DataError, UsageError
from likewise.sample import sample_sentences
from likewise.search import Index, IndexSettings
from likewise.search.baselines import BASELINES, RankedCorpus, baseline, ranked_hits, stored_corpus, text_corpus
from likewise.search.indexed_files import add_file, cached_index, checked, fingerprint, index_file
from likewise.search.ranker import Corpus, Hybrid

USUAL = IndexSettings()


def baseline_hits(name: str, corpus: Corpus, queries: list[str], k: int, given: tuple[Any, Any] = (None, None)) -> Any:
    return ranked_hits(baseline(name, corpus.texts, encoder=given[0], vectors=given[1]), corpus, queries, k)


TEXTS = sample_sentences()[:60]


@pytest.fixture(autouse=True)
def kept_indexes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "indexes"


def written(path: Path, texts: list[str], prefix: str = "t") -> Dataset:
    rows = [{"id": f"{prefix}{place}", "text": text} for place, text in enumerate(texts)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Dataset(str(path))


@pytest.fixture
def source(tmp_path: Path) -> Dataset:
    return written(tmp_path / "texts.jsonl", TEXTS)


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were encoded since the test began; ten at a time, and every one is heard."""
    monkeypatch.setattr("likewise.encoder.forward.WINDOW_TEXTS", 10)
    monkeypatch.setattr("likewise.progress.SECONDS_BETWEEN_CALLS", 0.0)
    found: list[str] = []
    original = Encoder.encode_with_stats

    def counting(self: Encoder, texts: list[str], **options: object) -> object:
        found.extend(texts)
        return original(self, texts, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Encoder, "encode_with_stats", counting)
    return found


def stop_at(count: int) -> Callable[[int, int | None, str], None]:
    def stop(done: int, total: int | None, note: str) -> None:
        if note == "texts" and done >= count:
            raise Cancelled

    return stop


class TestIndexFile:
    def test_built_and_then_kept(self, tiny: Encoder, source: Dataset, tmp_path: Path, encoded: list[str]) -> None:
        made = index_file(tiny, source, tmp_path / "index", USUAL)
        assert (made.cached, made.skipped.count, len(made.index)) == (False, 0, 60) and len(encoded) == 60
        plain = Index.build(tiny, [(f"t{place}", text) for place, text in enumerate(TEXTS)], tmp_path / "plain")
        assert made.index.search("the cat").hits == plain.search("the cat").hits
        encoded.clear()
        again = index_file(tiny, source, tmp_path / "index", USUAL)
        assert again.cached and encoded == [] and again.index.search("the cat") == made.index.search("the cat")

    def test_progress_knows_the_total(self, tiny: Encoder, source: Dataset, tmp_path: Path) -> None:
        heard: list[tuple[int, int | None, str]] = []
        index_file(tiny, source, tmp_path / "index", USUAL, progress=lambda *summary: heard.append(summary))
        assert (60, 60, "texts") in heard and {note for *_, note in heard} >= {"rows checked", "texts"}

    def test_other_texts_are_refused_with_their_cure(self, tiny: Encoder, source: Dataset, tmp_path: Path) -> None:
        index_file(tiny, source, tmp_path / "index", USUAL)
        other = written(tmp_path / "other.jsonl", TEXTS[:3])
        cure = r"already holds an index of other texts or settings; use --add, --replace or another --out"
        with pytest.raises(UsageError, match=cure):
            index_file(tiny, other, tmp_path / "index", USUAL)
        for settings in (IndexSettings(similarity="dot"), IndexSettings(query_prompt="the ")):
            with pytest.raises(UsageError, match=cure):
                index_file(tiny, source, tmp_path / "index", settings)
        with pytest.raises(UsageError, match=cure):
            index_file(tiny.with_pooling(pooling="cls"), source, tmp_path / "index", USUAL)
        assert len(index_file(tiny, other, tmp_path / "index", USUAL, replace=True).index) == 3
        assert index_file(tiny, other, tmp_path / "index", USUAL).cached

    def test_another_model_is_refused(self, tiny: Encoder, source: Dataset, tmp_path: Path) -> None:
        index_file(tiny, source, tmp_path / "index", USUAL)
        other = Encoder.load(str(save_classic(tmp_path / "other", seed=3)), device="cpu")
        with pytest.raises(UsageError, match="other texts or settings"):
            index_file(other, source, tmp_path / "index", USUAL)

    @pytest.mark.parametrize("settings", [IndexSettings("hnsw"), IndexSettings(bits=8)], ids=["hnsw", "8 bits"])
    def test_another_engine_is_no_less_another_setting(
        self, tiny: Encoder, source: Dataset, tmp_path: Path, settings: IndexSettings
    ) -> None:
        index_file(tiny, source, tmp_path / "index", USUAL)
        with pytest.raises(UsageError, match="other texts or settings"):
            index_file(tiny, source, tmp_path / "index", settings)

    def test_a_changed_index_is_not_the_files_any_more(self, tiny: Encoder, source: Dataset, tmp_path: Path) -> None:
        index_file(tiny, source, tmp_path / "index", USUAL).index.delete(["t0"])
        with pytest.raises(UsageError, match="other texts"):
            index_file(tiny, source, tmp_path / "index", USUAL)

    def test_replacing_leaves_the_old_one_until_then(
        self, tiny: Encoder, source: Dataset, tmp_path: Path, encoded: list[str]
    ) -> None:
        index_file(tiny, source, tmp_path / "index", USUAL)
        other = written(tmp_path / "other.jsonl", sample_sentences()[100:140])
        with pytest.raises(Cancelled):
            index_file(tiny, other, tmp_path / "index", USUAL, replace=True, progress=stop_at(25))
        assert list(Index.open(tmp_path / "index", tiny).corpus().texts) == TEXTS
        encoded.clear()
        done = index_file(tiny, other, tmp_path / "index", USUAL, replace=True)
        assert len(done.index) == 40 and len(encoded) <= 20, "goes on where it stopped"

    def test_a_cancelled_build_goes_on(
        self, tiny: Encoder, source: Dataset, tmp_path: Path, encoded: list[str]
    ) -> None:
        with pytest.raises(Cancelled):
            index_file(tiny, source, tmp_path / "index", USUAL, progress=stop_at(35))
        encoded.clear()
        done = index_file(tiny, source, tmp_path / "index", USUAL)
        assert not done.cached and len(encoded) == 30 and list(done.index.corpus().texts) == TEXTS

    def test_a_bad_row_is_told_before_any_work(self, tiny: Encoder, tmp_path: Path, encoded: list[str]) -> None:
        path = tmp_path / "texts.jsonl"
        written(path, TEXTS)
        path.write_text(path.read_text() + '{"id": "bad"}\n')
        with pytest.raises(DataError, match=r"texts\.jsonl, line 61"):
            index_file(tiny, Dataset(str(path)), tmp_path / "index", USUAL)
        assert encoded == [] and not (tmp_path / "index").exists()
        done = index_file(tiny, Dataset(str(path), skip_bad=True), tmp_path / "index", USUAL)
        assert (done.skipped.count, len(done.index)) == (1, 60) and "line 61" in str(done.skipped)

    def test_two_texts_of_one_id(self, tiny: Encoder, tmp_path: Path) -> None:
        (tmp_path / "two.csv").write_text("id,text\na,the cat\na,the sea\n")
        with pytest.raises(DataError, match="'a'"):
            index_file(tiny, Dataset(str(tmp_path / "two.csv")), tmp_path / "index", USUAL)


class TestAddFile:
    @pytest.fixture
    def index(self, tiny: Encoder, source: Dataset, tmp_path: Path) -> Index:
        return index_file(tiny, source, tmp_path / "index", USUAL).index

    def test_with_a_prefix(self, index: Index, tmp_path: Path) -> None:
        more = written(tmp_path / "more.jsonl", sample_sentences()[60:90])
        with pytest.raises(DataError, match="'t0' is already in the index with another text"):
            add_file(index, more)
        assert len(index) == 60
        assert add_file(index, more, "more-").count == 0
        assert list(index.corpus().ids)[60:] == [f"more-t{place}" for place in range(30)]
        add_file(index, more, "more-")
        assert len(index) == 90, "what is there already is passed over"
        add_file(index, more, "again-")
        assert len(index) == 120

    def test_a_cancelled_addition_goes_on(self, index: Index, tmp_path: Path, encoded: list[str]) -> None:
        more = written(tmp_path / "more.jsonl", sample_sentences()[60:110], "m")
        with pytest.raises(Cancelled):
            add_file(index, more, progress=stop_at(35))
        assert len(Index.open(index.store.address, index.encoder)) == 60, "all of them or none"
        encoded.clear()
        add_file(index, more)
        assert len(index) == 110 and len(encoded) == 20

    def test_another_prefix_is_another_addition(self, index: Index, tmp_path: Path, encoded: list[str]) -> None:
        more = written(tmp_path / "more.jsonl", sample_sentences()[60:110], "m")
        with pytest.raises(Cancelled):
            add_file(index, more, "a-", progress=stop_at(35))
        encoded.clear()
        add_file(index, more, "b-")
        assert len(index) == 110 and len(encoded) == 50
        assert all(name.startswith("b-") for name in list(index.corpus().ids)[60:])

    def test_skipped_rows_are_counted(self, index: Index, tmp_path: Path, encoded: list[str]) -> None:
        (tmp_path / "more.csv").write_text("id,text\nx,the cat\ny,\nz,the sea\n")
        with pytest.raises(DataError, match="line 3"):
            add_file(index, Dataset(str(tmp_path / "more.csv")))
        assert encoded == [] and len(index) == 60
        assert add_file(index, Dataset(str(tmp_path / "more.csv"), skip_bad=True)).count == 1
        assert len(index) == 62


class TestCachedIndex:
    def test_found_again_by_its_content(
        self, tiny: Encoder, source: Dataset, tmp_path: Path, encoded: list[str], kept_indexes: Path
    ) -> None:
        first = cached_index(tiny, source, USUAL)
        assert Path(first.index.store.address).parent == kept_indexes and not first.cached
        encoded.clear()
        copy = tmp_path / "elsewhere" / "copy.jsonl"
        copy.parent.mkdir()
        copy.write_bytes(Path(source.name).read_bytes())
        again = cached_index(tiny, Dataset(str(copy)), USUAL)
        assert again.cached and again.index.store.address == first.index.store.address and encoded == []

    def test_changed_content_is_another_index(self, tiny: Encoder, source: Dataset, kept_indexes: Path) -> None:
        cached_index(tiny, source, USUAL)
        path = Path(source.name)
        path.write_text(path.read_text() + '{"id": "new", "text": "the volcano erupted"}\n')
        changed = cached_index(tiny, source, USUAL)
        assert not changed.cached and len(changed.index) == 61 and changed.index.search("volcano erupted", 1)[0].id
        assert len(list(kept_indexes.iterdir())) == 2

    def test_each_setting_has_its_own(self, tiny: Encoder, tmp_path: Path, kept_indexes: Path) -> None:
        (tmp_path / "two.csv").write_text("text,title\nthe cat sat,a cat\nthe sea,a sea\n")
        source = Dataset(str(tmp_path / "two.csv"), Columns(text="text"))
        titles = Dataset(source.name, Columns(text="title"))
        for settings in (USUAL, IndexSettings("hnsw"), IndexSettings(bits=8), IndexSettings(similarity="dot"),
                         IndexSettings(query_prompt="the "), IndexSettings(document_prompt="the ")):  # fmt: skip
            assert not cached_index(tiny, source, settings).cached
        assert not cached_index(tiny.with_pooling(pooling="max"), source, USUAL).cached
        found = cached_index(tiny, titles, USUAL)
        assert not found.cached and list(found.index.corpus().texts) == ["a cat", "a sea"]
        assert len(list(kept_indexes.iterdir())) == 8
        assert cached_index(tiny, source, IndexSettings("hnsw")).index.store.searched.engine == "hnsw"

    def test_the_same_bytes_read_in_another_way(self, tiny: Encoder, tmp_path: Path) -> None:
        for name in ("a.csv", "a.txt"):
            (tmp_path / name).write_text("text\nthe cat\n")
        assert len(cached_index(tiny, Dataset(str(tmp_path / "a.csv")), USUAL).index) == 1
        assert len(cached_index(tiny, Dataset(str(tmp_path / "a.txt")), USUAL).index) == 2

    def test_a_damaged_one_is_made_again(self, tiny: Encoder, source: Dataset) -> None:
        vectors = next(Path(cached_index(tiny, source, USUAL).index.store.address).glob("*.vectors.npy"))
        vectors.write_bytes(vectors.read_bytes()[:-4] + b"abcd")
        assert len(cached_index(tiny, source, USUAL).index.search("cat")) == 10

    def test_those_used_longest_ago_go_first(
        self, tiny: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def folder_of(number: int) -> Path:
            path = tmp_path / f"{number}.txt"
            path.write_text(f"text number {number}\n")
            return Path(cached_index(tiny, Dataset(str(path)), USUAL).index.store.address)

        folders = [folder_of(number) for number in range(4)]
        size = sum(path.stat().st_size for path in folders[0].iterdir())
        monkeypatch.setattr("likewise.search.indexed_files.MOST_CACHED_BYTES", 2.5 * size)
        for age, folder in enumerate(folders):
            for path in folder.iterdir():
                os.utime(path, (1000 + age, 1000 + age))
        folder_of(0)  # used again, so the second is now the oldest
        latest = folder_of(9)
        others = [folder for folder in folders if folder.exists()]
        assert latest.exists() and others == [folders[0], folders[3]]

    def test_names_and_packed_files(self, tiny: Encoder, source: Dataset, tmp_path: Path) -> None:
        assert len(cached_index(tiny, Dataset("sample/sentences"), USUAL).index) == 300
        packed = tmp_path / "texts.jsonl.gz"
        packed.write_bytes(gzip.compress(Path(source.name).read_bytes()))
        assert list(cached_index(tiny, Dataset(str(packed)), USUAL).index.corpus().texts) == TEXTS


class TestFingerprint:
    def test_of_content_and_reading_alone(self, source: Dataset, tmp_path: Path) -> None:
        copy = tmp_path / "copy.jsonl"
        copy.write_bytes(Path(source.name).read_bytes())
        assert fingerprint(Dataset(str(copy))) == fingerprint(source)
        others = [
            Dataset(source.name, Columns(text="text")), Dataset(source.name, skip_bad=True),
            written(tmp_path / "less.jsonl", TEXTS[:-1]),
        ]  # fmt: skip
        assert len({fingerprint(one) for one in (source, *others)}) == 4

    def test_of_nothing(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"no file .*check the path"):
            fingerprint(Dataset(str(tmp_path / "none.csv")))

    def test_checked_counts(self, tmp_path: Path) -> None:
        (tmp_path / "some.csv").write_text("text\nthe cat\n \nthe sea\n")
        skipped, total = checked(Dataset(str(tmp_path / "some.csv"), skip_bad=True))
        assert (skipped.count, total) == (1, 2)


CORPUS = Corpus(("a", "b", "c", "d"), ("the cat sat", "a dog ran", "the cat and the dog", "volcanoes"))


class TestRankedHits:
    @pytest.mark.parametrize("name", sorted(set(BASELINES) - {"static"}))
    def test_every_baseline_in_order(self, name: str, tiny: Encoder) -> None:
        (found,) = baseline_hits(name, CORPUS, ["cat"], 3, (tiny, None))
        scores = [hit.score for hit in found]
        assert found.query == "cat" and found.ranker == baseline(name, CORPUS.texts, encoder=tiny).name
        assert scores == sorted(scores, reverse=True) and 0 < len(found) <= 3
        assert all(CORPUS.texts[CORPUS.row_of[hit.id]] == hit.text for hit in found)

    @pytest.mark.parametrize("name", ["bm25", "tfidf", "bow"])
    def test_a_text_with_nothing_in_common_is_no_hit(self, name: str) -> None:
        found = baseline_hits(name, CORPUS, ["cat", "zebra", "dog ran"], 4)
        assert [{hit.id for hit in hits} for hits in found] == [{"a", "c"}, set(), {"b", "c"}]
        assert found[1].to_dict() == {"query": "zebra", "ranker": name, "hits": []}
        assert found[2][0].id == "b" and all(hit.score > 0 for hits in found for hit in hits)

    def test_chance_finds_everything(self) -> None:
        assert len(baseline_hits("random", CORPUS, ["zebra"], 9)[0]) == 4

    def test_word_vectors(self, tmp_path: Path) -> None:
        path = tmp_path / "vectors.txt"
        path.write_text("cat 1 0\ndog 0.8 0.6\nvolcanoes 0 1\n")
        (found,) = baseline_hits("static", CORPUS, ["cat"], 4, (None, path))
        assert [hit.id for hit in found][:2] == ["a", "c"] and found[0].score == pytest.approx(1)
        with pytest.raises(UsageError, match="needs word vectors; give --vectors FILE"):
            baseline_hits("static", CORPUS, ["cat"], 4)

    def test_refusals(self) -> None:
        with pytest.raises(UsageError, match="unknown baseline 'bm52'; choose from bow, tfidf, bm25"):
            baseline_hits("bm52", CORPUS, ["cat"], 4)
        with pytest.raises(UsageError, match="needs a model"):
            baseline_hits("input-embeddings", CORPUS, ["cat"], 4)
        for query, k, words in (("", 3, "an empty query"), ("cat", 0, "k = 0")):
            with pytest.raises(UsageError, match=words):
                baseline_hits("bm25", CORPUS, [query], k)

    def test_hybrid_is_the_fusion_of_both(self, tiny: Encoder, source: Dataset, tmp_path: Path) -> None:
        index = index_file(tiny, source, tmp_path / "index", USUAL).index
        queries = ["the cat sat", "rates"]
        found = RankedCorpus.hybrid(index).search_many(queries, 7)
        ((_, scores),) = Hybrid([baseline("bm25", TEXTS), index]).score_blocks(queries)
        for hits, row in zip(found, scores, strict=True):
            expected = np.argsort(-row, kind="stable")[:7]
            assert [hit.id for hit in hits] == [f"t{place}" for place in expected]
            np.testing.assert_allclose([hit.score for hit in hits], row[expected], atol=1e-6)
            assert hits.ranker == f"bm25+{index.name}"

    def test_hybrid_of_an_approximate_engine_is_exact(self, tiny: Encoder, source: Dataset, tmp_path: Path) -> None:
        plain = index_file(tiny, source, tmp_path / "plain", USUAL).index
        graph = index_file(tiny, source, tmp_path / "graph", IndexSettings("hnsw", 8)).index
        assert [hit.id for hit in RankedCorpus.hybrid(graph).search("the cat", 9)] == [
            hit.id for hit in RankedCorpus.hybrid(plain).search("the cat", 9)
        ]

    def test_the_texts_of_an_index_without_its_model(self, tiny: Encoder, source: Dataset, tmp_path: Path) -> None:
        index_file(tiny, source, tmp_path / "index", USUAL)
        stored, (read, _) = stored_corpus(tmp_path / "index"), text_corpus(source)
        assert (list(stored.ids), list(stored.texts)) == (list(read.ids), list(read.texts))
        with pytest.raises(DataError, match="does not exist; make an index with"):
            stored_corpus(tmp_path / "nowhere")
        with pytest.raises(DataError, match="at least one row"):
            text_corpus(written(tmp_path / "none.jsonl", []))
