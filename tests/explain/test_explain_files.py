"""A file of pairs -> JSON lines: equal to single explanations, and an interrupted run goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from likewise.data import Columns, Dataset
from likewise.encoder import Encoder
from likewise.encoder.postprocessing import fit_postprocessing
from likewise.errors import Cancelled, DataError, UsageError
from likewise.explain import explain, pairs, texts
from likewise.explain.files import explain_file

ROWS = [
    ("a cat sat", "the cat sat"),
    ("a dog ran", "the sea is blue"),
    ("red", "green"),
    ("one two three", "one two"),
    ("a cat sat", "日本 <b>\u2028 'x'"),
    ("the last of them", "red"),
]


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "pairs.jsonl"
    rows = [{"id": f"p{place}", "sentence1": left, "sentence2": right} for place, (left, right) in enumerate(ROWS)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pair is a window of its own, and every tick is heard."""
    monkeypatch.setattr(pairs, "WINDOW_CHARACTERS", 1)
    monkeypatch.setattr("likewise.progress.SECONDS_BETWEEN_CALLS", 0)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts whose contributions are computed, in order."""
    seen: list[str] = []

    def counting(encoder: Encoder, given: Any, method: str, settings: Any) -> Iterator[Any]:
        seen.extend(each.text for each in given)
        yield from texts.contribution_stream(encoder, given, method, settings)

    monkeypatch.setattr(pairs, "contribution_stream", counting)
    monkeypatch.setattr(pairs, "COLUMN_COST", 1e9)
    return seen


def stop_at(count: int) -> Any:
    def progress(done: int, *_: Any) -> None:
        if done >= count:
            raise Cancelled

    return progress


def part_of(out: Path) -> Path:
    return out.with_name(out.name + ".part")


def lines(path: Path) -> list[str]:
    """Lines as JSON lines has them: only a line feed ends one."""
    whole = path.read_text(encoding="utf-8")
    assert whole == "" or whole.endswith("\n")
    return whole.split("\n")[:-1]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"granularity": "word", "bias": "shared"},
        {"method": "hxp", "similarity": "dot"},
        {"method": "random", "seed": 3},
    ],
    ids=str,
)
def test_lines_are_single_explanations(tiny: Encoder, source: str, tmp_path: Path, options: dict[str, Any]) -> None:
    out = tmp_path / "new" / "out.jsonl"
    assert explain_file(tiny, source, out, options) == len(ROWS)
    found = [json.loads(line) for line in lines(out)]
    assert [one["id"] for one in found] == [f"p{place}" for place in range(len(ROWS))]
    for one, (left, right) in zip(found, ROWS, strict=True):
        expected = explain(tiny, left, right, **options).to_dict()
        assert one.keys() == {"id", *expected}
        assert one["left"] == expected["left"] and one["right"] == expected["right"]
        assert one["similarity"] == pytest.approx(expected["similarity"], abs=1e-6)
        for row, wanted in zip(one["relevance"], expected["relevance"], strict=True):
            assert row == pytest.approx(wanted, abs=1e-5)
        for name in ("left", "right", "both"):
            assert one["bias"][name] == pytest.approx(expected["bias"][name], abs=1e-5)
        assert {one[name] for name in ("method", "by", "measure")} == {
            expected[name] for name in ("method", "by", "measure")
        }


def test_every_line_is_an_explanation_and_settings_lie_beside(tiny: Encoder, source: str, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    explain_file(tiny, source, out, {"granularity": "word"})
    assert len(lines(out)) == len(ROWS)
    assert all("relevance" in json.loads(line) for line in lines(out))
    settings = json.loads((tmp_path / "out.jsonl.run.json").read_text())
    assert settings["source"] == source and settings["pairs"] == len(ROWS)
    assert settings["model_hash"] == tiny.hash and settings["options"] == {"granularity": "word"}
    assert settings["reading"]["pooling"] == "mean"
    assert not part_of(out).exists()


def test_every_line_has_the_same_fields(tiny: Encoder, source: str, tmp_path: Path) -> None:
    out = tmp_path / "out.ndjson"
    explain_file(tiny, source, out, {})
    assert len({tuple(json.loads(line)) for line in lines(out)}) == 1


@pytest.mark.usefixtures("small_windows")
class TestInterrupted:
    @pytest.mark.parametrize("stop", [1, 3, 5])
    def test_goes_on_where_it_stopped(
        self, tiny: Encoder, source: str, tmp_path: Path, stop: int, computed: list[str]
    ) -> None:
        whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
        explain_file(tiny, source, whole, {"granularity": "word"})
        with pytest.raises(Cancelled):
            explain_file(tiny, source, out, {"granularity": "word"}, progress=stop_at(stop))
        assert not out.exists()
        done = len(lines(part_of(out)))
        assert done == stop
        computed.clear()
        assert explain_file(tiny, source, out, {"granularity": "word"}) == len(ROWS)
        assert set(computed) == {text for row in ROWS[done:] for text in row}
        assert out.read_bytes() == whole.read_bytes()
        assert not part_of(out).exists()

    def test_interrupt_of_the_keyboard(self, tiny: Encoder, source: str, tmp_path: Path) -> None:
        def interrupt(done: int, *_: Any) -> None:
            if done == 2:
                raise KeyboardInterrupt

        out = tmp_path / "out.jsonl"
        with pytest.raises(KeyboardInterrupt):
            explain_file(tiny, source, out, {}, progress=interrupt)
        assert len(lines(part_of(out))) == 2

    @pytest.mark.parametrize("cut", [1, 40, -1], ids=["one byte", "forty", "all but the newline"])
    def test_broken_last_line_is_cut(self, tiny: Encoder, source: str, tmp_path: Path, cut: int) -> None:
        """As a kill leaves it: the third line is not whole."""
        out = tmp_path / "out.jsonl"
        explain_file(tiny, source, out, {})
        whole = out.read_bytes()
        rows = whole.split(b"\n")
        out.unlink()
        part_of(out).write_bytes(b"\n".join([*rows[:2], rows[2][:cut] if cut > 0 else rows[2]]))
        assert explain_file(tiny, source, out, {}) == len(ROWS)
        assert out.read_bytes() == whole

    @pytest.mark.parametrize("left", [b"", b'{"id'], ids=["empty", "less than a line"])
    def test_nothing_whole_was_left(self, tiny: Encoder, source: str, tmp_path: Path, left: bytes) -> None:
        out = tmp_path / "out.jsonl"
        explain_file(tiny, source, out, {})
        whole = out.read_bytes()
        part_of(out).write_bytes(left)
        assert explain_file(tiny, source, out, {}) == len(ROWS)
        assert out.read_bytes() == whole

    def test_killed_before_the_renaming(self, tiny: Encoder, source: str, tmp_path: Path, computed: list[str]) -> None:
        out = tmp_path / "out.jsonl"
        explain_file(tiny, source, out, {})
        whole = out.read_bytes()
        out.rename(part_of(out))
        (tmp_path / "out.jsonl.run.json").rename(tmp_path / "out.jsonl.part.run.json")
        computed.clear()
        assert explain_file(tiny, source, out, {}) == len(ROWS)
        assert computed == [] and out.read_bytes() == whole

    def test_other_settings_begin_anew(self, tiny: Encoder, source: str, tmp_path: Path, computed: list[str]) -> None:
        out = tmp_path / "out.jsonl"
        with pytest.raises(Cancelled):
            explain_file(tiny, source, out, {"granularity": "word"}, progress=stop_at(3))
        computed.clear()
        explain_file(tiny, source, out, {"granularity": "sentence"})
        assert set(computed) == {text for row in ROWS for text in row}
        assert [json.loads(line)["by"] for line in lines(out)] == ["sentence"] * len(ROWS)

    def test_other_reading_begins_anew(self, tiny: Encoder, source: str, tmp_path: Path) -> None:
        out = tmp_path / "out.jsonl"
        with pytest.raises(Cancelled):
            explain_file(tiny, source, out, {}, progress=stop_at(3))
        explain_file(tiny.with_pooling(pooling="cls"), source, out, {})
        assert [json.loads(line)["pooling"] for line in lines(out)] == ["cls"] * len(ROWS)

    @pytest.mark.parametrize("change", ["columns", "content"])
    def test_other_pairs_begin_anew(self, tiny: Encoder, tmp_path: Path, change: str) -> None:
        source, out = tmp_path / "p.csv", tmp_path / "out.jsonl"
        source.write_text("one,two,three\na,b,c\nd,e,f\n")
        with pytest.raises(Cancelled):
            explain_file(tiny, Dataset(str(source), Columns(left="one", right="two")), out, {}, stop_at(1))
        if change == "content":
            source.write_text("one,two,three\nx,b,y\nd,e,f\n")
        columns = Columns(left="two", right="three") if change == "columns" else Columns(left="one", right="two")
        explain_file(tiny, Dataset(str(source), columns), out, {})
        expected = ["b", "e"] if change == "columns" else ["x", "d"]
        assert [json.loads(line)["left"]["text"] for line in lines(out)] == expected

    def test_other_post_processing_begins_anew(self, tiny: Encoder, source: str, tmp_path: Path) -> None:
        out = tmp_path / "out.jsonl"
        with pytest.raises(Cancelled):
            explain_file(tiny, source, out, {}, progress=stop_at(1))
        fitted = fit_postprocessing("standardisation", tiny.encode([text for row in ROWS for text in row]))
        changed = tiny.with_postprocessing(fitted)
        explain_file(changed, source, out, {})
        first = json.loads(lines(out)[0])["similarity"]
        assert first == pytest.approx(explain(changed, *ROWS[0]).similarity, abs=1e-5)

    def test_finished_file_stays_until_the_next_is_whole(self, tiny: Encoder, source: str, tmp_path: Path) -> None:
        out = tmp_path / "out.jsonl"
        explain_file(tiny, source, out, {})
        before = out.read_bytes()
        with pytest.raises(Cancelled):
            explain_file(tiny, source, out, {"granularity": "word"}, progress=stop_at(2))
        assert out.read_bytes() == before

    def test_repeated_texts_of_a_window_are_computed_once(
        self, tiny: Encoder, source: str, tmp_path: Path, computed: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pairs, "WINDOW_CHARACTERS", 10_000)
        explain_file(tiny, source, tmp_path / "out.jsonl", {})
        assert sorted(computed) == sorted({text for row in ROWS for text in row})

    def test_progress(self, tiny: Encoder, source: str, tmp_path: Path) -> None:
        seen: list[Any] = []
        explain_file(tiny, source, tmp_path / "out.jsonl", {}, progress=lambda *call: seen.append(call))
        assert seen[-1] == (len(ROWS), len(ROWS), "pairs")


class TestRefused:
    @pytest.mark.parametrize("name", ["out.json", "out.csv", "out", "out.jsonl.gz"])
    def test_wrong_ending(self, tiny: Encoder, tmp_path: Path, name: str) -> None:
        """Before anything is read: the source does not even exist."""
        with pytest.raises(UsageError, match=r"JSON lines; end '.*' with \.jsonl"):
            explain_file(tiny, "none.csv", tmp_path / "new" / name, {})
        assert not (tmp_path / "new").exists()

    def test_empty_file(self, tiny: Encoder, tmp_path: Path) -> None:
        (tmp_path / "pairs.csv").write_text("sentence1,sentence2\n")
        with pytest.raises(DataError, match="pairs"):
            explain_file(tiny, str(tmp_path / "pairs.csv"), tmp_path / "out.jsonl", {})
        assert [path.name for path in tmp_path.iterdir()] == ["pairs.csv"]

    def test_bad_row_is_told_before_the_work(self, tiny: Encoder, tmp_path: Path, computed: list[str]) -> None:
        (tmp_path / "pairs.csv").write_text("sentence1,sentence2\na,b\nc,\n")
        with pytest.raises(DataError, match="line 3"):
            explain_file(tiny, str(tmp_path / "pairs.csv"), tmp_path / "out.jsonl", {})
        assert computed == [] and not (tmp_path / "out.jsonl").exists()

    def test_unknown_option_leaves_no_finished_file(self, tiny: Encoder, source: str, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="unknown method 'lime'"):
            explain_file(tiny, source, tmp_path / "out.jsonl", {"method": "lime"})
        assert not (tmp_path / "out.jsonl").exists()


class TestDataset:
    def test_columns(self, tmp_path: Path) -> None:
        (tmp_path / "pairs.csv").write_text("one,two\na,b\n")
        pairs = Dataset(str(tmp_path / "pairs.csv"), Columns(left="two", right="one")).pairs()
        assert [(pair.left, pair.right) for pair in pairs] == [("b", "a")]

    def test_bad_rows_are_skipped_where_asked_for(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        (tmp_path / "pairs.csv").write_text("sentence1,sentence2\na,b\nc,\nd,e\n")
        found = Dataset(str(tmp_path / "pairs.csv"), skip_bad=True).pairs()
        assert [pair.left for pair in found] == ["a", "d"] and "skipped 1 bad row" in caplog.text
        with pytest.raises(DataError, match="line 3"):
            Dataset(str(tmp_path / "pairs.csv")).pairs()

    def test_name_and_data_dir(self, tmp_path: Path) -> None:
        assert len(Dataset("sample/pairs").pairs()) == 60
        with pytest.raises(DataError, match="stsb/nope"):
            Dataset("stsb/nope", data_dir=tmp_path).pairs()
