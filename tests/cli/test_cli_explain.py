"""``likewise explain``: text, JSON, pages and figures; spans, methods, differences; files of pairs; hostile texts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from transformers import BertModel

from conftest import save_classic, save_tiny, tiny_config, tiny_tokenizer
from likewise.encoder import Encoder
from likewise.errors import Cancelled
from likewise.explain import compare, contrast, explain
from likewise.explain.linear_map import METHODS

pytest_plugins = ("command_line",)

LEFT, RIGHT, OTHER = "the man is out", "a man is in", "the sea"
PAIR = ("explain", LEFT, RIGHT)
HOSTILE = {
    "markup": "[bold]not bold[/bold] [link=file:///x]",
    "script": "<script>alert(1)</script><img src=x onerror=alert(2)>",
    "controls": "a\x1b[31mred\x07 b\rc",
    "quotes": "\"'`&amp; --> ]]> </style>",
    "emoji": "\U0001f469\u200d\U0001f692 and \U0001f1e9\U0001f1ea",
    "right to left": "שלום עולם",
    "turned around": "abc\u202egnp.exe",
    "lines": "one\ntwo\u2028three\ttabs",
}


@pytest.fixture(scope="module")
def wide_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More dimensions than any text here has tokens, as real models have."""
    return save_tiny(tmp_path_factory.mktemp("models") / "wide", hidden_size=64)


@pytest.fixture(scope="module")
def wide(wide_folder: Path) -> Encoder:
    return Encoder.load(str(wide_folder), device="cpu")


@pytest.fixture
def run_wide(run: Any, wide_folder: Path) -> Any:
    return lambda *arguments: run(*arguments, "--model", wide_folder)


def one_document(out: str) -> Any:
    """Standard output as the single line of JSON it must be; NaN is no JSON."""

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is no JSON")

    assert out.endswith("\n") and out.count("\n") == 1
    return json.loads(out, parse_constant=refuse)


def refusal(answer: Any) -> str:
    """The one line of a proper refusal."""
    assert (answer.code, answer.out) == (2, ""), answer
    assert answer.err.startswith("likewise: ") and answer.err.count("\n") == 1 and answer.err.endswith("\n")
    return str(answer.err)


def refuse_to_load(*_: Any, **__: Any) -> None:
    pytest.fail("the model was loaded before the mistake was told")


class TestText:
    def test_shows_all_parts(self, run_tiny: Any, tiny: Encoder) -> None:
        answer = run_tiny(*PAIR, "--granularity", "word")
        assert (answer.code, answer.err) == (0, "")
        found = explain(tiny, LEFT, RIGHT, granularity="word")
        assert answer.out.startswith(f"cosine {found.similarity:.4f}  (bilrp, {tiny.name}, mean)\n")
        assert "strongest pairs" in answer.out and "ledger" in answer.out
        for left, right, value in found.strongest(8):
            assert re.search(rf"{re.escape(left.text)} +{re.escape(right.text)} +{value:.4f}", answer.out)
        for name, value in (("units", found.ledger["units"]), ("gap", 0.0), ("similarity", found.similarity)):
            row = re.search(rf"^ *{name} +(-?[\d.]+)", answer.out, re.MULTILINE)
            assert row and float(row[1]) == pytest.approx(value, abs=1e-4), name
        shares = [f"{unit.text} {share:+.2f}" for unit, share in zip(found.left.units, found.left_shares, strict=True)]
        assert "  ".join(shares) in answer.out

    def test_where_biases_and_references_go(self, run_tiny: Any) -> None:
        """Tokens that take the biases leave no row of their own in the ledger."""
        by_default, plain = run_tiny(*PAIR).out, run_tiny(*PAIR, "--reference", "none").out
        local = run_tiny(*PAIR, "--bias", "local", "--reference", "none").out
        for name in ("left units with {}", "right units with {}", "{0} with {0}"):
            assert name.format("reference") in by_default and name.format("reference") not in plain + local
            assert name.format("bias") in plain and name.format("bias") not in by_default + local

    def test_split(self, run_tiny: Any, tiny: Encoder) -> None:
        """Parts of the input embedding, with the biases apart: dealt out, they would have no part."""
        out = run_tiny(*PAIR, "--split").out
        assert out.count("shares by part of the input embedding") == 2 and "reference with reference" in out
        found = explain(tiny, LEFT, RIGHT, split=True)
        assert set(found.left.parts) == {"word", "position", "type", "bias"}
        numbers = " +".join(re.escape(f"{part[0]:.4f}") for part in found.left.parts.values())
        assert re.search(rf"\[CLS\] +{numbers}", out)

    def test_no_colours_in_a_pipe(self, run_tiny: Any) -> None:
        assert "\x1b" not in run_tiny(*PAIR).out

    def test_texts_of_more_tokens_than_dimensions(self, run_tiny: Any) -> None:
        """Nobody asked for shared biases, so they must not be what stands in the way."""
        assert run_tiny("explain", "it is " * 9, "the sea").code == 0

    def test_dot(self, run_tiny: Any, tiny: Encoder) -> None:
        out = run_tiny(*PAIR, "--similarity", "dot").out
        assert out.startswith(f"dot {explain(tiny, LEFT, RIGHT, similarity='dot').similarity:.4f} ")


class TestJson:
    def test_document(self, run_tiny: Any, tiny: Encoder) -> None:
        answer = run_tiny(*PAIR, "--json")
        assert (answer.code, answer.err) == (0, "")
        found = one_document(answer.out)
        assert found == json.loads(json.dumps(explain(tiny, LEFT, RIGHT).to_dict()))
        assert found.keys() == {
            "left", "right", "relevance", "bias", "similarity", "gap", "method", "model", "pooling", "by", "measure",
            "bias_mode", "complete", "layer", "rules", "relative_to",
        }  # fmt: skip
        assert found["left"].keys() == {"text", "units", "spans", "kinds", "truncated"}
        assert found["bias"].keys() == {"left", "right", "both"}
        assert np.shape(found["relevance"]) == (len(found["left"]["units"]), len(found["right"]["units"]))

    @pytest.mark.parametrize(("options", "mode"), [((), "separate"), (("--bias", "shared"), "shared")], ids=str)
    def test_biases_are_separate_unless_told_otherwise(
        self, run_tiny: Any, options: tuple[str, ...], mode: str
    ) -> None:
        found = one_document(run_tiny(*PAIR, *options, "--reference", "none", "--json").out)
        assert found["bias_mode"] == mode
        assert (found["bias"]["both"] == 0) == (mode == "shared")
        bias = sum(found["bias"]["left"]) + sum(found["bias"]["right"]) + found["bias"]["both"]
        assert np.sum(found["relevance"]) + bias == pytest.approx(found["similarity"], abs=1e-5)

    def test_page_and_document_at_once(self, run_tiny: Any, tmp_path: Path) -> None:
        """One explanation, shown in several ways."""
        answer = run_tiny(*PAIR, "--json", "--html", tmp_path / "a.html", "--plot", tmp_path / "a.svg")
        assert one_document(answer.out)["bias_mode"] == "separate"
        assert "<dd>separate</dd>" in (tmp_path / "a.html").read_text()
        assert answer.err.splitlines() == [f"likewise: wrote {tmp_path / name}" for name in ("a.svg", "a.html")]

    @pytest.mark.parametrize("granularity", ["token", "word", "sentence"])
    def test_by(self, run_tiny: Any, tiny: Encoder, granularity: str) -> None:
        left, right = "it is out. it is", "the sea. in it"
        found = one_document(run_tiny("explain", left, right, "--granularity", granularity, "--json").out)
        expected = explain(tiny, left, right, granularity=granularity)
        assert found["by"] == granularity and found["left"]["units"] == expected.left.labels
        np.testing.assert_allclose(found["relevance"], expected.relevance, atol=1e-6)
        if granularity == "sentence":
            assert found["left"]["units"] == ["[CLS]", "it is out.", "it is", "[SEP]"]

    @pytest.mark.parametrize("method", METHODS)
    def test_method(self, run_tiny: Any, tiny: Encoder, method: str) -> None:
        options = ("--method", method, "--steps", "3", "--seed", "5")
        found = one_document(run_tiny(*PAIR, *options, "--json").out)
        expected = explain(tiny, LEFT, RIGHT, method, steps=3, seed=5)
        np.testing.assert_allclose(found["relevance"], expected.relevance, atol=1e-6)
        assert found["method"] == method and ("reference" in found) == (method == "integrated-jacobian")
        assert found["complete"] == (method == "bilrp")
        shown = run_tiny(*PAIR, *options)
        assert shown.code == 0 and f"({method}, " in shown.out

    @pytest.mark.parametrize("rules", ["none", "attention,norm", "norm", "all"])
    def test_rules(self, run_tiny: Any, tiny: Encoder, rules: str) -> None:
        found = one_document(run_tiny(*PAIR, "--rules", rules, "--json").out)
        named = {"none": [], "all": ["attention", "norm", "activation"]}.get(rules, rules.split(","))
        assert found["rules"] == named and found["complete"] == (rules == "all")
        expected = explain(tiny, LEFT, RIGHT, rules=tuple(named)).relevance
        np.testing.assert_allclose(found["relevance"], expected, atol=1e-6)
        if rules == "none":
            np.testing.assert_allclose(expected, explain(tiny, LEFT, RIGHT, "hxp").relevance, atol=1e-5)

    @pytest.mark.parametrize(
        ("options", "settings"),
        [
            (("--fold-special",), {"fold_special": True}),
            (("--similarity", "dot"), {"similarity": "dot"}),
            (("--split",), {"split": True}),
            (("--left-prompt", "in: "), {"left_prompt": "in: "}),
            (("--right-prompt", "in: "), {"right_prompt": "in: "}),
            (
                ("--method", "integrated-jacobian", "--start-layer", "1"),
                {"method": "integrated-jacobian", "start_layer": 1},
            ),
        ],
        ids=str,
    )
    def test_other_settings(self, run_tiny: Any, tiny: Encoder, options: tuple[str, ...], settings: Any) -> None:
        found = one_document(run_tiny(*PAIR, *options, "--json").out)
        expected = explain(tiny, LEFT, RIGHT, **settings).to_dict()
        assert found["left"]["units"] == expected["left"]["units"] and found["left"].keys() == expected["left"].keys()
        np.testing.assert_allclose(found["relevance"], expected["relevance"], atol=1e-6)
        assert found["similarity"] == pytest.approx(expected["similarity"], abs=1e-6)

    def test_reading_is_explained_too(self, run_tiny: Any, tiny: Encoder) -> None:
        found = one_document(run_tiny(*PAIR, "--pooling", "cls", "--layer", "1", "--json").out)
        expected = explain(tiny.with_pooling(pooling="cls", layer=1), LEFT, RIGHT)
        assert found["similarity"] == pytest.approx(expected.similarity, abs=1e-6) and found["layer"] == "1"

    def test_cut_texts_are_told_on_stderr(self, run_tiny: Any) -> None:
        answer = run_tiny("explain", "it " * 50, "it", "--json")
        assert one_document(answer.out)["left"]["truncated"] is True
        assert answer.err == "likewise: cut at the model's limit of 32 tokens: 1 of 2 texts\n"


class TestSpans:
    def test_groups(self, run_tiny: Any, tiny: Encoder) -> None:
        spans = ("--left-span", "0:7", "--right-span", "0:5", "--right-span", "6:11")
        found = one_document(run_tiny(*PAIR, *spans, "--json").out)
        expected = explain(tiny, LEFT, RIGHT, granularity=([(0, 7)], [(0, 5), (6, 11)]))
        assert found["by"] == "span" and found["left"]["units"] == ["[CLS]", "the man", "is", "out", "[SEP]"]
        assert found["right"]["units"] == ["[CLS]", "a man", "is in", "[SEP]"]
        np.testing.assert_allclose(found["relevance"], expected.relevance, atol=1e-6)

    def test_of_one_side_only(self, run_tiny: Any) -> None:
        found = one_document(run_tiny(*PAIR, "--right-span", "0:5", "--json").out)
        assert found["left"]["units"] == ["[CLS]", "the", "man", "is", "out", "[SEP]"]
        assert "the man" in run_tiny(*PAIR, "--left-span", "0:7").out

    @pytest.mark.parametrize("span", ["x", "3", "1:2:3", "a:b", "1.5:2", ""])
    def test_no_span(self, run_tiny: Any, span: str) -> None:
        words = f"a span is two character positions such as 0:12, not {span!r}"
        assert words in refusal(run_tiny(*PAIR, "--left-span", span))

    @pytest.mark.parametrize("spans", [("5:99",), ("5:5",), ("7:2",), ("0:5", "3:7")], ids=str)
    def test_that_do_not_fit(self, run_tiny: Any, spans: tuple[str, ...]) -> None:
        given = [word for span in spans for word in ("--left-span", span)]
        said = refusal(run_tiny(*PAIR, *given))
        assert "span" in said and ("14 characters" in said or "overlap" in said)


class TestFiles:
    def test_page(self, run_wide: Any, wide: Encoder, tmp_path: Path) -> None:
        path = tmp_path / "new" / "page.html"
        answer = run_wide(*PAIR, "--html", path)
        assert answer.code == 0 and answer.err.endswith(f"likewise: wrote {path}\n")
        page = path.read_text(encoding="utf-8")
        assert page.startswith("<!doctype html>") and len(page.encode()) < 300_000
        assert f"{explain(wide, LEFT, RIGHT).similarity:.4f}" in page and "<dd>separate</dd>" in page
        assert not re.search(r"https?://|<link|<script\s|src=", page.replace("http://www.w3.org/2000/svg", ""))
        assert "strongest pairs" in answer.out, "the text output comes as well"

    def test_page_of_a_long_text_stays_small(self, run: Any, tmp_path: Path) -> None:
        config = tiny_config()
        config.max_position_embeddings = 500
        folder = tmp_path / "long"
        BertModel(config).save_pretrained(folder)
        words = tiny_tokenizer()
        words.model_max_length = 500
        words.save_pretrained(folder)
        long = "it is out of the sea " * 60
        options = ("--bias", "separate", "--html", tmp_path / "a.html", "--model", folder)
        assert run("explain", long, long, *options).code == 0
        assert 50_000 < (tmp_path / "a.html").stat().st_size < 300_000

    @pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
    def test_figure(self, run_tiny: Any, tmp_path: Path, ending: str) -> None:
        path = tmp_path / "new" / f"a.{ending}"
        assert run_tiny(*PAIR, "--plot", path).code == 0
        assert path.read_bytes()[:5] in (b"\x89PNG\r", b"<?xml", b"%PDF-")
        if ending == "svg":
            ElementTree.parse(path)

    def test_wrong_ending_is_told_before_the_work(self, run_tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Encoder, "load", refuse_to_load)
        assert "cannot draw to 'a.jpg'; end it with .png, .svg" in refusal(run_tiny(*PAIR, "--plot", "a.jpg"))

    def test_page_that_cannot_be_written(self, run_tiny: Any, tmp_path: Path) -> None:
        assert str(tmp_path) in refusal(run_tiny(*PAIR, "--html", tmp_path))


class TestDifferences:
    def test_against(self, run_tiny: Any, tiny: Encoder) -> None:
        found = one_document(run_tiny(*PAIR, "--against", OTHER, "--json").out)
        expected = contrast(tiny, LEFT, RIGHT, OTHER)
        assert found["difference"] == pytest.approx(expected.difference, abs=1e-6)
        assert [row["unit"] for row in found["query"]] == [unit.text for unit, _ in expected.query]
        total = sum(row["difference"] for row in found["query"]) + found["query_bias"]
        assert total == pytest.approx(found["difference"], abs=1e-5)
        assert found["better"]["right"]["text"] == RIGHT and found["worse"]["right"]["text"] == OTHER

    def test_against_as_text(self, run_tiny: Any, tiny: Encoder) -> None:
        out = run_tiny(*PAIR, "--against", OTHER).out
        expected = contrast(tiny, LEFT, RIGHT, OTHER)
        assert f"{expected.better.similarity:.4f} against {expected.worse.similarity:.4f}" in out
        assert f"{expected.difference:+.4f}" in out and "(reference)" in out and "(gap)" in out
        for unit, share in expected.query:
            assert re.search(rf"^ *{re.escape(unit.text)} +{share:.4f}", out, re.MULTILINE), unit.text

    def test_other_pooling(self, run_tiny: Any, tiny: Encoder, tmp_path: Path) -> None:
        options = (*PAIR, "--other-pooling", "cls")
        found = one_document(run_tiny(*options, "--json").out)
        folded = "[CLS]" not in found["units"]["left"]
        expected = compare(tiny, tiny.with_pooling(pooling="cls"), LEFT, RIGHT, fold_special=folded)
        assert found["change"] == pytest.approx(expected.change, abs=1e-6) and abs(found["gap"]) < 1e-5
        np.testing.assert_allclose(found["difference"], expected.difference, atol=1e-5)
        assert (found["first"]["pooling"], found["second"]["pooling"]) == ("mean", "cls")
        answer = run_tiny(*options, "--plot", tmp_path / "a.png")
        assert f"second minus first: {expected.change:+.4f}" in answer.out and (tmp_path / "a.png").exists()

    def test_other_model(self, run_tiny: Any, tiny: Encoder, tmp_path: Path) -> None:
        second = save_classic(tmp_path / "second", seed=1)
        found = one_document(run_tiny(*PAIR, "--other-model", second, "--json").out)
        expected = explain(Encoder.load(str(second), device="cpu"), LEFT, RIGHT).similarity
        assert found["second"]["similarity"] == pytest.approx(expected, abs=1e-6)
        assert found["first"]["similarity"] == pytest.approx(explain(tiny, LEFT, RIGHT).similarity, abs=1e-6)

    @pytest.mark.parametrize("which", [("--against", OTHER), ("--other-pooling", "cls")], ids=lambda one: one[0])
    def test_page(self, run_tiny: Any, which: tuple[str, ...], tmp_path: Path) -> None:
        assert run_tiny(*PAIR, *which, "--html", tmp_path / "a.html").code == 0
        page = (tmp_path / "a.html").read_text()
        assert page.startswith("<!doctype html>") and "difference" in page and "man" in page

    @pytest.mark.parametrize("options", [("--method", "hxp"), ("--rules", "none")], ids=str)
    @pytest.mark.parametrize("which", [("--against", OTHER), ("--other-pooling", "cls")], ids=lambda one: one[0])
    def test_exact_only_by_bilrp(self, run_tiny: Any, which: tuple[str, ...], options: tuple[str, ...]) -> None:
        assert "exact only by plain bilrp" in refusal(run_tiny(*PAIR, *which, *options))


class TestPairs:
    def test_file(self, run_tiny: Any, tiny: Encoder, pairs_file: Path, tmp_path: Path) -> None:
        out = tmp_path / "new" / "out.jsonl"
        answer = run_tiny("explain", "--pairs", pairs_file, "--out", out, "--granularity", "word")
        assert (answer.code, answer.out, answer.err) == (0, "", f"likewise: 4 explanations in {out}\n")
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        assert [row["left"]["text"] for row in rows] == ["a cat sat", "a dog ran", "red", "one two three"]
        expected = explain(tiny, "a cat sat", "the cat sat", granularity="word")
        np.testing.assert_allclose(rows[0]["relevance"], expected.relevance, atol=1e-5)
        assert {row["bias_mode"] for row in rows} == {"separate"}

    def test_columns(self, run_tiny: Any, tmp_path: Path) -> None:
        (tmp_path / "p.csv").write_text("one,two\na,b\n")
        columns = ("--left-column", "two", "--right-column", "one")
        assert run_tiny("explain", "--pairs", tmp_path / "p.csv", "--out", tmp_path / "o.jsonl", *columns).code == 0
        assert json.loads((tmp_path / "o.jsonl").read_text())["left"]["text"] == "b"

    def test_skipped_rows_are_counted(self, run_tiny: Any, tmp_path: Path) -> None:
        (tmp_path / "p.csv").write_text("sentence1,sentence2\na,b\nc,\n")
        answer = run_tiny("explain", "--pairs", tmp_path / "p.csv", "--out", tmp_path / "o.jsonl", "--skip-bad")
        assert answer.code == 0 and "skipped 1 bad row" in answer.err

    @pytest.mark.slow
    def test_cancelled_run_goes_on(
        self, run_tiny: Any, pairs_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("likewise.explain.pairs.WINDOW_CHARACTERS", 1)
        monkeypatch.setattr("likewise.explain.pairs.COLUMN_COST", 1e9)
        command = ("explain", "--pairs", pairs_file, "--out")
        assert run_tiny(*command, tmp_path / "whole.jsonl").code == 0
        from likewise.explain import pairs

        made, count = pairs.explanation, []

        def dies(*arguments: Any) -> Any:
            count.append(1)
            if len(count) == 3:
                raise Cancelled
            return made(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(pairs, "explanation", dies)
            assert run_tiny(*command, tmp_path / "o.jsonl").code == 130
        assert (tmp_path / "o.jsonl.part").read_text().count("\n") == 2 and not (tmp_path / "o.jsonl").exists()
        assert run_tiny(*command, tmp_path / "o.jsonl").code == 0
        assert (tmp_path / "o.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ((), "--pairs needs --out FILE.jsonl"),
            (("--out", "o.csv"), "end 'o.csv' with .jsonl"),
            (("--out", "o.jsonl", "--method", "lime"), "unknown method 'lime'"),
        ],
        ids=str,
    )
    def test_mistakes(self, run_tiny: Any, options: tuple[str, ...], words: str, tmp_path: Path,
                      monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
        monkeypatch.chdir(tmp_path)
        assert words in refusal(run_tiny("explain", "--pairs", "sample/pairs", *options))
        assert not (tmp_path / "o.jsonl").exists()


class TestMistakes:
    @pytest.mark.parametrize("texts", [(), (LEFT,)], ids=["none", "one"])
    def test_missing_texts(self, run_tiny: Any, texts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Encoder, "load", refuse_to_load)
        assert "give two texts" in refusal(run_tiny("explain", *texts))

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (("--method", "lime"), "unknown method 'lime'; choose from bilrp, hxp"),
            (("--granularity", "letter"), "cannot explain by 'letter'; choose from token, word"),
            (("--similarity", "l2"), "unknown similarity 'l2'; choose from"),
            (("--bias", "hidden"), "unknown bias 'hidden'; choose from separate, local, traced, shared"),
            (("--rules", "attention,nrom"), "unknown rule 'nrom'; choose from attention, norm"),
            (("--split", "--bias", "shared"), "split does not go with bias='shared'"),
            (("--split", "--method", "hxp"), "only bilrp can split"),
            (("--memory", "0"), "memory budget must be above 0"),
            (("--method", "integrated-jacobian", "--start-layer", "9"), "can start at layers 0 to 2"),
            (("--other-pooling", "avg"), "unknown pooling 'avg'"),
            (("--other-model", "no/such"), "no/such"),
        ],
        ids=str,
    )
    @pytest.mark.parametrize("output", [(), ("--json",)], ids=["text", "json"])
    def test_settings(self, run_tiny: Any, options: tuple[str, ...], words: str, output: tuple[str, ...]) -> None:
        assert words in refusal(run_tiny(*PAIR, *options, *output))

    @pytest.mark.parametrize("option", ["--steps", "--start-layer", "--seed"])
    def test_parser(self, run_tiny: Any, option: str) -> None:
        answer = run_tiny(*PAIR, option, "-1")
        assert answer.code == 2 and option in answer.err and "Traceback" not in answer.err


class TestHostileTexts:
    @pytest.mark.parametrize("texts", [("", ""), ("", "a man"), ("   ", "\n")], ids=str)
    def test_empty(self, run_tiny: Any, texts: tuple[str, str], tmp_path: Path) -> None:
        """[CLS] and [SEP] are all there is to explain."""
        found = one_document(run_tiny("explain", *texts, "--json").out)
        assert found["left"]["units"] == ["[CLS]", "[SEP]"] and abs(found["gap"]) < 1e-5
        assert run_tiny("explain", *texts, "--html", tmp_path / "a.html", "--plot", tmp_path / "a.png").code == 0
        for granularity in ("word", "sentence"):
            assert run_tiny("explain", *texts, "--granularity", granularity, "--fold-special").code == 0

    @pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
    def test_text_is_text(self, run_wide: Any, text: str, tmp_path: Path) -> None:
        path = tmp_path / "a.html"
        answer = run_wide("explain", text, "the man", "--granularity", "sentence", "--html", path)
        assert answer.code == 0 and "strongest pairs" in answer.out
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", answer.out), "it could drive a terminal"
        page = path.read_text(encoding="utf-8")
        assert "<script>alert" not in page and "<img" not in page and page.count("<script") == 1
        assert "</style> " not in page and not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e]", page)
        found = one_document(run_wide("explain", text, "the man", "--json").out)
        assert found["left"]["text"] == text and abs(found["gap"]) < 1e-5

    def test_nothing_is_turned_around_in_a_terminal(self, run_wide: Any) -> None:
        answer = run_wide("explain", HOSTILE["turned around"], "the man", "--granularity", "sentence")
        assert not re.search("[\u202a-\u202e]", answer.out)

    def test_markup_is_shown(self, run_wide: Any) -> None:
        shown = run_wide("explain", HOSTILE["markup"], "the man", "--granularity", "sentence").out
        assert HOSTILE["markup"] in shown

    def test_figure_of_strange_letters(self, run_wide: Any, tmp_path: Path) -> None:
        text = "$x^2 _ \U0001f469 שלום 日本 <b>"
        assert run_wide("explain", text, "the man", "--granularity", "word", "--plot", tmp_path / "a.svg").code == 0
        ElementTree.parse(tmp_path / "a.svg")

    def test_contrast_of_markup(self, run_tiny: Any) -> None:
        answer = run_tiny("explain", "[b] man", "<i>", "--against", "[/b]")
        assert answer.code == 0 and "man" in answer.out
