from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from likewise.errors import MissingExtra, ModelError
from likewise.grammar import Grammar

spacy = pytest.importorskip("spacy", reason="spaCy is not installed (extra: grammar)")


def save(folder: Path, labels: dict[str, str]) -> Path:
    """A pipeline that gives every token the same labels."""
    nlp = spacy.blank("en")
    if labels:
        nlp.add_pipe("attribute_ruler").add([[{}]], labels)
    nlp.to_disk(folder)
    return folder


@pytest.fixture
def tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Relative: messages shorten long names, and where tests lie is anybody's choice."""
    monkeypatch.chdir(tmp_path)
    return Path()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save(tmp_path / "constant", {"POS": "NOUN", "DEP": "dep"})


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LIKEWISE_GRAMMAR", raising=False)


def install(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    monkeypatch.setattr(spacy.util, "get_installed_models", lambda: list(names))


def message(name: str | Path | None = None) -> str:
    with pytest.raises(ModelError) as caught:
        Grammar.load(name)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 600
    return str(caught.value)


@pytest.mark.parametrize("kind", [str, Path])
def test_a_folder_loads(folder: Path, kind: Any) -> None:
    grammar = Grammar.load(kind(folder))
    assert (grammar.name, grammar.language, grammar.has_lemmas) == ("constant", "en", False)
    assert [(word.text, word.pos, word.dep) for word in grammar.parse(["Dogs bark"])[0].words] == [
        ("Dogs", "NOUN", "dep"),
        ("bark", "NOUN", "dep"),
    ]


def test_relative_folders_have_their_own_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert Grammar.load(".").name == "constant"


def test_the_home_folder_is_expanded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder.parent))
    assert Grammar.load("~/constant").name == "constant"


def test_the_variable_names_the_default(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "xx_other")
    monkeypatch.setenv("LIKEWISE_GRAMMAR", str(folder))
    assert Grammar.load().name == "constant"


def test_a_given_name_wins_over_the_variable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKEWISE_GRAMMAR", "/nowhere/at/all")
    assert Grammar.load(folder).name == "constant"
    assert message().startswith("no folder '/nowhere/at/all'; ")


def test_the_first_installed_pipeline_is_the_last_resort(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    nlp = spacy.load(folder)
    install(monkeypatch, "en_b", "en_a")
    monkeypatch.setattr(spacy, "load", lambda name: asked.append(name) or nlp)
    monkeypatch.setenv("LIKEWISE_GRAMMAR", "")
    assert Grammar.load().name == "en_a"
    assert Grammar.load("en_b").name == "en_b"
    assert asked == ["en_a", "en_b"]


def test_an_empty_name_asks_for_no_default(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "en_a")
    assert message("").startswith("no spaCy pipeline ''; installed: en_a; ")


def test_no_pipeline_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    assert message() == (
        "no spaCy pipeline found; run: python -m spacy download en_core_web_sm, "
        "or give a folder with --grammar or $LIKEWISE_GRAMMAR"
    )


def test_an_unknown_name_is_told_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "en_core_web_sm", "de_core_news_sm")
    assert message("en_web").startswith("no spaCy pipeline 'en_web'; installed: de_core_news_sm, en_core_web_sm; run: ")


@pytest.mark.parametrize("name", ["numpy", "spacy", "blank:en", "en", "os", "pip"])
def test_only_pipelines_are_loaded_by_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    monkeypatch.setattr(spacy, "load", lambda *_: pytest.fail("spaCy was asked"))
    assert message(name).startswith(f"no spaCy pipeline {name!r}; run: ")


@pytest.mark.parametrize(
    "name",
    [
        "", " ", "\0", "a\nb", "a\u2028b", "\udcff", "x" * 5000, "~nobody-here/x", "~nobody-here", "../../none", "//",
        "$(touch x)", "😀", "C:\\models\\en", "a/\0/b", "\x1b[31mred",
    ],
    ids=repr,
)  # fmt: skip
def test_hostile_names(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    install(monkeypatch)
    summary = message(name)
    assert summary.isprintable()
    assert "run: python -m spacy download" in summary
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    path.write_bytes(b"PK")
    assert message(path) == f"{str(path)!r} is a file; give the folder of a spaCy pipeline"


@pytest.mark.parametrize(
    "config",
    [None, "", "[nlp", "\0\1\2", '[nlp]\nlang = "zz"\n', '[nlp]\nlang = "en"\npipeline = ["x"]\n'],
    ids=["no file", "empty", "cut off", "bytes", "unknown language", "unknown component"],
)
def test_broken_folders(folder: Path, config: str | None) -> None:
    (folder / "config.cfg").unlink()
    if config is not None:
        (folder / "config.cfg").write_text(config)
    summary = message(folder)
    assert summary.startswith(f"cannot load the spaCy pipeline {str(folder)!r} (")
    assert "()" not in summary
    assert summary.endswith("or give a folder with --grammar or $LIKEWISE_GRAMMAR")


def test_an_empty_folder(tmp_path: Path) -> None:
    assert "meta.json" in message(tmp_path)


@pytest.mark.data
@pytest.mark.parametrize("part", ["parser/model", "vocab/strings.json", "tok2vec/model", "meta.json"])
def test_a_cut_off_download(english_folder: Path, tmp_path: Path, part: str) -> None:
    copy = tmp_path / "en_ud"
    shutil.copytree(english_folder, copy)
    (copy / part).write_bytes((copy / part).read_bytes()[:100])
    assert message(copy).startswith(f"cannot load the spaCy pipeline {str(copy)!r} (")


@pytest.mark.parametrize(
    ("labels", "lacking"),
    [
        ({}, "parts of speech and no dependency labels"),
        ({"POS": "NOUN"}, "dependency labels"),
        ({"TAG": "NN", "DEP": "dep"}, "parts of speech"),
    ],
    ids=["blank", "no parser", "no tagger"],
)
def test_pipelines_that_lack_a_part(tmp_path: Path, labels: dict[str, str], lacking: str) -> None:
    path = save(tmp_path / "part", labels)
    assert message(path) == (
        f"the spaCy pipeline {str(path)!r} sets no {lacking}; "
        "use one with a tagger and a parser, such as en_core_web_sm"
    )


def test_a_pipeline_that_fails(tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("morphologizer").add_label("POS=NOUN")
    nlp.to_disk(tmp_path / "raw")
    summary = message(tmp_path / "raw")
    assert summary.startswith(f"the spaCy pipeline {str(tmp_path / 'raw')!r} fails on a sentence (")
    assert "run: python -m spacy download" in summary


def test_spacy_is_missing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    for name in (folder, "en_core_web_sm", None):
        with pytest.raises(MissingExtra, match=r'^spacy is not installed; run: pip install "likewise\[grammar\]"$'):
            Grammar.load(name)
