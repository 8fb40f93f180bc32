"""Public data sets: hashes of rows, what is missing, and downloads from a server on this machine."""

from __future__ import annotations

import csv
import gzip
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from likewise.data import public
from likewise.data.public import PublicFile, data_named, download, public_data, report, rows_hash
from likewise.errors import DataError, UsageError

PAIRS = ["sentence1", "sentence2", "score"]


@contextmanager
def served(files: dict[str, bytes]) -> Iterator[str]:
    """A server on the loopback address with these files."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = files.get(self.path.lstrip("/"))
            self.send_response(200 if found is not None else 404)
            self.end_headers()
            self.wfile.write(found or b"")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def from_server(monkeypatch: pytest.MonkeyPatch, name: str, url: str) -> None:
    """Let a data set come from this address."""
    data = data_named(name)
    assert data.download is not None
    changed = public_data() | {name: replace(data, download=replace(data.download, url=url))}
    monkeypatch.setattr(public, "public_data", lambda: changed)


def rows_of(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def packed_tar(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


def packed_zip(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def tabbed(rows: list[dict[str, str]]) -> str:
    return "".join("\t".join(values) + "\n" for values in [list(rows[0]), *(list(row.values()) for row in rows)])


def test_the_hash_is_of_rows_and_not_of_bytes(tmp_path: Path) -> None:
    for name, text in {
        "a.csv": "sentence1,sentence2,score\nA é,B,2.500\n",
        "b.csv": "score,id,sentence2,sentence1\n2.5,7,B,A é\n",
        "c.csv": "sentence1,sentence2,score\nA é,B,2.6\n",
        "d.csv": "sentence1,sentence2,score\nA é,B,2.5\nA é,B,2.5\n",
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = {name: rows_hash(tmp_path / f"{name}.csv", PAIRS) for name in "abcd"}
    assert found["a"] == found["b"]
    assert len({one.sha256 for one in found.values()}) == 3
    assert [found[name].rows for name in "acd"] == [1, 1, 2]


def test_missing_changed_and_unknown_files_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "biosses").mkdir()
    (tmp_path / "biosses" / "all.csv").write_text("sentence1,sentence2,score\nA,B,1\n")
    states = report(["biosses", "amazon"], tmp_path, check=True).states
    assert [one.state for one in states["biosses"]] == ["other rows"]
    assert [one.state for one in states["amazon"]] == ["missing"]
    with pytest.raises(UsageError, match="choose from stsb"):
        report(["nothing"])


def test_every_data_set_has_a_licence_and_a_way(tmp_path: Path) -> None:
    for one in public_data().values():
        assert one.licence and one.page.startswith("https://") and one.files
        assert (one.download is None) == bool(one.how)
        if one.download is not None:
            assert one.download.members.keys() == one.files.keys()
            assert one.download.format in public.READERS
    with pytest.raises(UsageError, match="get it from its page"):
        download("quora", tmp_path)


def test_the_files_at_hand_are_the_published_ones(shared_data: Path) -> None:
    states = report([], shared_data, check=True).states
    assert {one.state for files in states.values() for one in files} == {"same rows"}


def test_stsb_from_its_archive(shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {}
    for split in ("train", "dev", "test"):
        names = ("genre", "file", "year", "sid", "score", "sentence1", "sentence2")
        lines = ["\t".join(row[name] for name in names) for row in rows_of(shared_data / "stsb" / f"{split}.csv.gz")]
        texts[f"stsbenchmark/sts-{split}.csv"] = "\n".join([lines[0] + "\tlicence\tnote", *lines[1:]]) + "\n"
    with served({"stsb.tar.gz": packed_tar(texts)}) as home:
        from_server(monkeypatch, "stsb", f"{home}/stsb.tar.gz")
        written = download("stsb", tmp_path)
    assert [path.name for path in written] == ["train.csv.gz", "dev.csv.gz", "test.csv.gz"]
    assert {one.state for one in report(["stsb"], tmp_path, check=True).states["stsb"]} == {"same rows"}


def test_sick_and_snli_from_their_tables(shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"train": "SICK_train", "dev": "SICK_trial", "test": "SICK_test_annotated"}
    files = {}
    for split, name in names.items():
        rows = [
            {
                "pair_ID": row["pair_id"], "sentence_A": row["sentence1"], "sentence_B": row["sentence2"],
                "relatedness_score": row["score"], "entailment_judgment": row["label"].upper(),
            }
            for row in rows_of(shared_data / "sick" / f"{split}.csv.gz")
        ]  # fmt: skip
        files[f"{name}.txt"] = tabbed(rows).encode()
    undecided = {"gold_label": "-", "sentence1": "Nobody agrees.", "sentence2": "Everybody agrees.", "pairID": "0"}
    texts = {}
    for split in ("dev", "test"):
        found = [
            {"gold_label": row["label"], "sentence1": row["sentence1"], "sentence2": row["sentence2"], "pairID": "1"}
            for row in rows_of(shared_data / "snli" / f"{split}.csv.gz")
        ]
        texts[f"snli_1.0/snli_1.0_{split}.txt"] = tabbed([found[0], undecided, *found[1:]])
    with served(files | {"snli.zip": packed_zip(texts)}) as home:
        from_server(monkeypatch, "sick", home + "/{file}.txt")
        assert len(download("sick", tmp_path)) == 3
        monkeypatch.undo()
        from_server(monkeypatch, "snli", f"{home}/snli.zip")
        assert len(download("snli", tmp_path)) == 2


def test_other_rows_than_the_published_ones_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "g\tf\ty\t1\t2.5\tA cat.\tA dog."
    members = {f"stsbenchmark/sts-{split}.csv": line for split in ("train", "dev", "test")}
    with served({"other.tar.gz": packed_tar(members), "broken.tar.gz": b"no archive"}) as home:
        for name, words in {"other": "see https", "broken": "is not the archive", "absent": "did not answer"}.items():
            from_server(monkeypatch, "stsb", f"{home}/{name}.tar.gz")
            with pytest.raises(DataError, match=words):
                download("stsb", tmp_path)
            monkeypatch.undo()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_download_that_never_ends_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public, "LARGEST", 100)
    with served({"huge": bytes(5000)}) as home:
        from_server(monkeypatch, "stsb", f"{home}/huge")
        with pytest.raises(DataError, match="more than 100 bytes"):
            download("stsb", tmp_path)


def test_a_public_file_is_its_rows() -> None:
    assert data_named("stsb/test").files["test"] == PublicFile(1379, data_named("stsb").files["test"].sha256)
