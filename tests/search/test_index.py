"""The index: built, opened, searched, added to, deleted from; damage, other models and second writers are told."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from conftest import save_classic
from likewise.encoder import Encoded, Encoder
from likewise.encoder.postprocessing import fit_postprocessing
from likewise.errors import Cancelled, DamagedIndex, DataError, LikewiseError, ModelError, UsageError
from likewise.sample import sample_sentences
from likewise.search import Index, IndexSettings
from likewise.search.stores.folder import FolderStore, FolderWriter, IndexManifest

TEXTS = [(f"t{place}", text) for place, text in enumerate(sample_sentences()[:80])]
HOSTILE = [
    ("", "an empty id"), ("nothing", ""), ("line\nbreak", "two\nlines\u2028and more"), ('"quotes\\', 'say "no"'),
    ("emoji 🦊", "a fox 🦊 ran"), ("lone \ud83e", "a lone surrogate \ud83e here"), ("nul", "a \x00 in the midst"),
    ("long", "word " * 5000),
]  # fmt: skip


@pytest.fixture
def index(tiny: Encoder, tmp_path: Path) -> Index:
    return Index.build(tiny, TEXTS, tmp_path / "index")


def plain_search(encoder: Encoder, items: list[tuple[str, str]], query: str) -> list[tuple[str, float]]:
    """Ids by falling cosine, from the definition."""
    rows = encoder.encode([text for _, text in items]).astype(np.float64)
    asked = encoder.encode(query).astype(np.float64)
    scores = rows @ asked / np.linalg.norm(rows, axis=1) / np.linalg.norm(asked)
    return sorted(((name, float(score)) for (name, _), score in zip(items, scores, strict=True)), key=lambda it: -it[1])


def found(index: Index, query: str, k: int = 10) -> list[tuple[str, float]]:
    return [(hit.id, hit.score) for hit in index.search(query, k)]


def test_search_is_the_plain_one(index: Index, tiny: Encoder) -> None:
    for query in ("the cat sat", "volcano erupted", "a"):
        plain = plain_search(tiny, TEXTS, query)[:10]
        assert [name for name, _ in found(index, query)] == [name for name, _ in plain]
        np.testing.assert_allclose([s for _, s in found(index, query)], [s for _, s in plain], atol=1e-6)
    several = index.search_many(["the cat sat", "a"], k=3)
    assert [len(hits) for hits in several] == [3, 3] and several[0].query == "the cat sat"
    assert dict(TEXTS)[several[0][0].id] == several[0][0].text


def test_added_and_deleted_as_if_built_so(index: Index, tiny: Encoder) -> None:
    more = [(f"m{place}", text) for place, text in enumerate(sample_sentences()[80:140])]
    for start in range(0, 60, 7):
        index.add(more[start : start + 7])
    gone = [TEXTS[0][0], TEXTS[41][0], more[3][0], more[59][0]]
    index.delete(gone)
    items = [item for item in TEXTS + more if item[0] not in gone]
    assert list(index.corpus().ids) == [name for name, _ in items] and len(index) == len(items)
    reopened = Index.open(index.store.address, tiny)
    for query in ("the cat sat", "rates"):
        plain = [name for name, _ in plain_search(tiny, items, query)[:10]]
        assert [name for name, _ in found(index, query)] == plain == [name for name, _ in found(reopened, query)]
    assert len(FolderStore.open(Path(index.store.address)).segments) < 9


@pytest.mark.parametrize("engine", ["hnsw", "ivf"])
def test_a_saved_engine_outlives_changes_and_is_built_anew_when_stale(
    tiny: Encoder, tmp_path: Path, engine: str
) -> None:
    index = Index.build(tiny, TEXTS, tmp_path / "index", IndexSettings(engine))
    index.add([("new", "the fox ran")])
    index.delete([name for name, _ in TEXTS[:10]])
    assert index.store.engine.index.ntotal == 81  # type: ignore[attr-defined]
    assert index.search("the fox ran", 1)[0].id == "new"
    assert {hit.id for hit in index.search("the fox ran", 200)} == {"new", *(name for name, _ in TEXTS[10:])}
    index.delete([name for name, _ in TEXTS[10:40]])
    assert index.store.engine.index.ntotal == len(index) == 41  # type: ignore[attr-defined]
    assert index.store.searched.recall is not None and "by a sample" in index.summary()


def test_any_text_and_id_come_back_as_they_were(tiny: Encoder, tmp_path: Path) -> None:
    index = Index.build(tiny, HOSTILE, tmp_path / "index")
    corpus = Index.open(tmp_path / "index", tiny).corpus()
    assert list(zip(corpus.ids, corpus.texts, strict=True)) == HOSTILE
    index.delete(["", "line\nbreak"])
    assert list(index.corpus().ids) == [name for name, _ in HOSTILE if name not in ("", "line\nbreak")]
    assert index.search("fox", 1)[0].id in dict(HOSTILE)


def test_the_same_row_again_is_passed_over_and_another_text_refused(index: Index) -> None:
    before = IndexManifest.read(Path(index.store.address))
    index.add(TEXTS[:5])
    assert len(index) == len(TEXTS)
    with pytest.raises(DataError, match="'t3' is already in the index with another text"):
        index.add([("fresh", "a fresh text"), ("t3", "something else")])
    assert len(Index.open(index.store.address, index.encoder)) == len(TEXTS), "all or none"
    with pytest.raises(DataError, match="'twice' names two texts; give each text an id of its own"):
        index.add([("twice", "a"), ("twice", "b")])
    with pytest.raises(DataError, match=r"'x' and 1 others are not in the index; nothing was deleted"):
        index.delete(["t1", "x", "y"])
    assert before is not None and len(index) == len(TEXTS)


def test_an_emptied_index_finds_nothing_and_can_be_filled_again(index: Index) -> None:
    index.delete([name for name, _ in TEXTS])
    assert len(index) == 0 and len(index.search("cat")) == 0
    index.add([("one", "the cat sat")])
    assert [hit.id for hit in index.search("cat")] == ["one"]


def test_every_flipped_byte_is_found(index: Index, tiny: Encoder, tmp_path: Path) -> None:
    folder, rng = Path(index.store.address), np.random.default_rng(0)
    names = [path.name for path in folder.iterdir() if path.name != ".lock"]
    assert len(names) == 4
    for name in names:
        size = (folder / name).stat().st_size
        for place in {0, size - 1, *rng.integers(0, size, 4).tolist()}:
            copy = tmp_path / "copy"
            shutil.copytree(folder, copy)
            data = bytearray((copy / name).read_bytes())
            data[place] ^= 1 << int(rng.integers(0, 8))
            (copy / name).write_bytes(data)
            with pytest.raises(LikewiseError, match=r"damaged|format") as caught:
                Index.open(copy, tiny)
            assert "\n" not in str(caught.value)
            shutil.rmtree(copy)


@pytest.mark.parametrize("engine", ["exact", "hnsw"])
@pytest.mark.parametrize("change", ["add", "delete"])
def test_damage_is_not_written_anew(tiny: Encoder, tmp_path: Path, engine: str, change: str) -> None:
    index = Index.build(tiny, TEXTS[:3], tmp_path / "index", IndexSettings(engine))
    path = next((tmp_path / "index").glob("*.faiss" if engine == "hnsw" else "*.vectors.npy"))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match="is damaged"):
        index.add(TEXTS[3:9]) if change == "add" else index.delete([TEXTS[0][0]])
    assert IndexManifest.read(tmp_path / "index") == index.store.manifest  # type: ignore[attr-defined]


def test_a_missing_file_a_cut_file_and_no_index_are_told(index: Index, tiny: Encoder, tmp_path: Path) -> None:
    folder = Path(index.store.address)
    vectors = next(folder.glob("*.vectors.npy"))
    data = vectors.read_bytes()
    vectors.write_bytes(data[:-100])
    with pytest.raises(DataError, match="is damaged"):
        Index.open(folder, tiny)
    vectors.unlink()
    with pytest.raises(DataError, match="is missing; build the index again"):
        Index.open(folder, tiny)
    with pytest.raises(DataError, match="does not exist; make an index with: likewise index"):
        Index.open(tmp_path / "nowhere", tiny)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no index"):
        Index.open(tmp_path / "empty", tiny)


def test_a_newer_format_is_refused(index: Index, tiny: Encoder) -> None:
    path = Path(index.store.address) / "index.json"
    stored = json.loads(path.read_text())
    path.write_text(json.dumps(stored | {"format": 2}))
    with pytest.raises(DataError, match="format 2, this version of Likewise reads 1"):
        Index.open(path.parent, tiny)


def test_another_model_is_refused_with_both_names(index: Index, tmp_path: Path, tiny: Encoder) -> None:
    other = Encoder.load(save_classic(tmp_path / "other", seed=5), device="cpu")
    with pytest.raises(ModelError) as caught:
        Index.open(index.store.address, other)
    assert tiny.name in str(caught.value) and other.name in str(caught.value)
    with pytest.raises(ModelError, match='was made with pooling "mean", not "cls"'):
        Index.open(index.store.address, tiny.with_pooling(pooling="cls"))
    with pytest.raises(ModelError, match="layer"):
        Index.open(index.store.address, tiny.with_pooling(layer=1))


def test_the_index_loads_its_own_model_reading_and_post_processing(tiny: Encoder, tmp_path: Path) -> None:
    encoder = tiny.with_pooling(pooling="max", layer=(0, 1), special_tokens=False)
    post = fit_postprocessing("whitening", encoder.encode([text for _, text in TEXTS]), 6)
    encoder = encoder.with_postprocessing(post)
    index = Index.build(encoder, TEXTS, tmp_path / "index")
    opened = Index.open(tmp_path / "index")
    assert opened.encoder.pooling_config.pooling == "max" and opened.encoder.dimension == 6
    assert found(opened, "the cat sat") == found(index, "the cat sat")
    with pytest.raises(ModelError, match="postprocessing"):
        Index.open(tmp_path / "index", encoder.with_postprocessing(None))


def test_prompts_are_kept_and_used(tiny: Encoder, tmp_path: Path) -> None:
    modules_config = replace(tiny.modules_config, prompts={"query": "the ", "document": "a "})
    encoder = replace(tiny, modules_config=modules_config)
    index = Index.build(encoder, TEXTS, tmp_path / "index")
    assert index.prompts == ("the ", "a ")
    rows = encoder.encode([text for _, text in TEXTS], prompt="a ")
    scores = encoder.similarity(encoder.encode("cat", prompt="the "), rows)[0]
    np.testing.assert_allclose([s for _, s in found(index, "cat")], np.sort(scores)[::-1][:10], atol=1e-6)
    given = Index.build(encoder, TEXTS, tmp_path / "given", IndexSettings(query_prompt="", document_prompt="x "))
    assert given.prompts == ("", "x ")


def test_dot_products_are_not_normed(tiny: Encoder, tmp_path: Path) -> None:
    encoder = tiny.with_pooling(normalize=False)
    index = Index.build(encoder, TEXTS, tmp_path / "index", IndexSettings(similarity="dot"))
    rows = encoder.encode([text for _, text in TEXTS])
    np.testing.assert_allclose(found(index, "cat", 1)[0][1], (rows @ encoder.encode("cat")).max(), rtol=1e-5)


def test_a_second_writer_gets_a_clear_error_and_readers_none(index: Index, tiny: Encoder) -> None:
    with FileLock(Path(index.store.address) / ".lock"):
        for change in (lambda: index.add([("x", "y")]), lambda: index.delete(["t1"])):
            with pytest.raises(UsageError, match=r"another process is writing to .*; wait for it to end"):
                change()
        assert len(Index.open(index.store.address, tiny)) == len(TEXTS)
    index.add([("x", "y")])


def test_an_open_reader_keeps_its_state_while_another_writes(index: Index, tiny: Encoder) -> None:
    reader = Index.open(index.store.address, tiny)
    before = found(reader, "the cat sat", 80)
    index.delete([name for name, _ in TEXTS[:40]])
    index.add([("x", "the cat sat")])
    assert found(reader, "the cat sat", 80) == before
    assert len(reader.corpus()) == 80 and len(index) == 41


def test_building_over_something_is_refused(index: Index, tiny: Encoder, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="already holds an index"):
        Index.build(tiny, TEXTS, index.store.address)
    assert len(Index.build(tiny, TEXTS[:2], index.store.address, replace=True)) == 2
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("precious")
    with pytest.raises(UsageError, match=r"already holds thesis\.txt"):
        Index.build(tiny, TEXTS, tmp_path / "full")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be made"):
        Index.build(tiny, TEXTS, tmp_path / "file" / "index")


class Killed(BaseException):
    """Ends a writer where it stands."""


def killed(*_: object, **__: object) -> None:
    raise Killed


@pytest.mark.parametrize("source", ["", "sample"])
@pytest.mark.parametrize("moment", ["_go_on", "_written", "commit"])
def test_a_build_killed_at_its_first_steps_can_be_repeated(
    tiny: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, source: str
) -> None:
    post = fit_postprocessing("standardisation", tiny.encode([text for _, text in TEXTS]))
    encoder = tiny.with_postprocessing(post)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(FolderWriter, moment, killed)
        Index.build(encoder, TEXTS, tmp_path / "index", source=source)
    assert len(Index.build(encoder, TEXTS, tmp_path / "index", source=source)) == len(TEXTS)


def test_a_replacement_killed_while_attaching_leaves_the_old_index(
    tiny: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    post = fit_postprocessing("standardisation", tiny.encode([text for _, text in TEXTS]))
    encoder = tiny.with_postprocessing(post)
    Index.build(encoder, TEXTS[:3], tmp_path / "index")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr("likewise.search.stores.folder.synced_checksum", killed)
        Index.build(encoder, TEXTS, tmp_path / "index", replace=True)
    assert len(Index.open(tmp_path / "index")) == 3
    assert len(Index.build(encoder, TEXTS, tmp_path / "index", replace=True)) == len(TEXTS)


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"\xff" * 40])
def test_a_damaged_manifest_can_be_replaced(tiny: Encoder, tmp_path: Path, damage: bytes) -> None:
    Index.build(tiny, TEXTS, tmp_path / "index")
    (tmp_path / "index" / "index.json").write_bytes(damage)
    with pytest.raises(DamagedIndex, match="build the index again"):
        Index.build(tiny, TEXTS, tmp_path / "index")
    index = Index.build(tiny, TEXTS[:4], tmp_path / "index", replace=True)
    assert len(Index.open(tmp_path / "index", tiny)) == len(index) == 4
    assert {path.name for path in (tmp_path / "index").iterdir()} == {
        ".lock",
        "index.json",
        *index.store.manifest.files,
    }  # type: ignore[attr-defined]


@pytest.mark.parametrize("settings", [IndexSettings("hnsw"), IndexSettings("exact", 8)])
def test_a_reader_whose_engine_was_cleared_away_takes_the_new_one(
    tiny: Encoder, tmp_path: Path, settings: IndexSettings
) -> None:
    writer = Index.build(tiny, TEXTS, tmp_path / "index", settings)
    reader = Index.open(tmp_path / "index", tiny)
    writer.add([("new", "the fox ran")])
    assert reader.search("the fox ran", 1)[0].id == "new"


@pytest.mark.parametrize("bits", [32, 8])
@pytest.mark.parametrize("engine", ["exact", "hnsw", "ivf"])
def test_nothing_is_found_in_nothing(tiny: Encoder, tmp_path: Path, engine: str, bits: int) -> None:
    index = Index.build(tiny, TEXTS[:2], tmp_path / "index", IndexSettings(engine, bits))
    index.delete([name for name, _ in TEXTS[:2]])
    assert len(index.search("cat")) == 0
    with pytest.raises(DataError, match="at least one text; give or add some"):
        index.corpus()


def test_ids_and_texts_are_strings(tiny: Encoder, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="an id and a text are strings, got 1 and str"):
        Index.build(tiny, [(1, "x")], tmp_path / "index")  # type: ignore[list-item]


def test_a_cancelled_build_goes_on_where_it_stopped(
    tiny: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("likewise.encoder.forward.WINDOW_TEXTS", 10)
    monkeypatch.setattr("likewise.progress.SECONDS_BETWEEN_CALLS", 0.0)

    def stop(done: int, total: int | None, note: str) -> None:
        if done >= 35:
            raise Cancelled

    with pytest.raises(Cancelled):
        Index.build(tiny, TEXTS, tmp_path / "index", source="sample", progress=stop)
    with pytest.raises(DataError, match="is unfinished; run the same likewise index again"):
        Index.open(tmp_path / "index", tiny)
    encoded: list[str] = []
    original = Encoder.encode_with_stats

    def counting(self: Encoder, texts: list[str], **options: object) -> object:
        encoded.extend(texts)
        return original(self, texts, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Encoder, "encode_with_stats", counting)
    index = Index.build(tiny, TEXTS, tmp_path / "index", source="sample")
    assert len(index) == 80 and len(encoded) == 50
    assert list(index.corpus().ids) == [name for name, _ in TEXTS]


def test_another_source_begins_anew(tiny: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("likewise.encoder.forward.WINDOW_TEXTS", 10)

    def broken():  # type: ignore[no-untyped-def]
        yield from TEXTS[:30]
        raise DataError("the disk is gone")

    with pytest.raises(DataError, match="the disk is gone"):
        Index.build(tiny, broken(), tmp_path / "index", source="first")
    index = Index.build(tiny, TEXTS[50:], tmp_path / "index", source="second")
    assert list(index.corpus().ids) == [name for name, _ in TEXTS[50:]]


@pytest.mark.parametrize("query", ["", "  \n"])
def test_empty_queries_and_no_hits_are_refused(index: Index, query: str) -> None:
    with pytest.raises(UsageError, match="an empty query finds nothing"):
        index.search(query)
    with pytest.raises(UsageError, match="k = 0"):
        index.search("cat", 0)


def test_vectors_that_are_no_numbers_are_refused(
    tiny: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Encoded(np.full((1, 16), np.nan, np.float32), 0)
    monkeypatch.setattr(Encoder, "encode_with_stats", lambda *_, **__: broken)
    with pytest.raises(ModelError, match="not numbers; load it with dtype float32"):
        Index.build(tiny, TEXTS[:1], tmp_path / "index")


def test_an_index_of_nothing_can_be_made(tiny: Encoder, tmp_path: Path) -> None:
    index = Index.build(tiny, [], tmp_path / "index", IndexSettings("hnsw"))
    assert len(index) == 0 and len(Index.open(tmp_path / "index", tiny).search("cat")) == 0


def test_exact_scores_in_blocks_whatever_the_engine(tiny: Encoder, tmp_path: Path) -> None:
    index = Index.build(tiny, TEXTS, tmp_path / "index", IndexSettings("hnsw", 8))
    ((start, scores),) = index.score_blocks(["the cat sat", "a"])
    plain = dict(plain_search(tiny, TEXTS, "a"))
    assert start == 0 and scores.shape == (2, 80)
    np.testing.assert_allclose(scores[1], [plain[name] for name, _ in TEXTS], atol=1e-6)


def test_the_lazy_top_level_name() -> None:
    import likewise

    assert likewise.Index is Index
