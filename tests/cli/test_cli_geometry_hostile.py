"""``likewise geometry`` and ``likewise layers`` with odd files, words and names."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from answers import one_document, refusal
from conftest import save_tiny

pytest_plugins = ("command_line",)

QUICK = ("--min-contexts", 2, "--draws", 10, "--threads", 1)
TEXTS = ("the old town", "the old bank", "a river by the bank", "old river", "the bank is old", "a town by a river")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return path


class TestGeometry:
    def test_words_are_trimmed_folded_and_told_once(self, run_tiny: Any, corpus: Path) -> None:
        words = ("--words", " The ,the,BANK ", "--no-corrections")
        found = one_document(run_tiny("geometry", corpus, *QUICK, *words, "--json"))
        assert [(word["word"], word["n"]) for word in found["words"]["chosen"]] == [("the", 4), ("bank", 3)]

    def test_files_of_several_kinds_are_one_corpus(self, run_tiny: Any, corpus: Path, tmp_path: Path) -> None:
        with gzip.open(tmp_path / "pairs.csv.gz", "wt", encoding="utf-8") as file:
            file.write("sentence1,sentence2\nthe old town,a red bank\n")
        (tmp_path / "rows.jsonl").write_text(json.dumps({"text": "the red town"}) + '\n{"text": ""}\n')
        (tmp_path / "rows.tsv").write_text("text\tlabel\nred river\t1\n")
        names = [corpus, *(tmp_path / name for name in ("pairs.csv.gz", "rows.jsonl", "rows.tsv"))]
        answer = run_tiny("geometry", *names, *QUICK, "--no-corrections", "--skip-bad", "--json")
        found = one_document(answer)
        assert (found["texts"], found["repeated"], found["skipped"]) == (9, 1, 1)
        assert "bad rows skipped: 1" in answer.err

    @pytest.mark.slow
    def test_a_handful_of_texts_leaves_nulls_and_no_warning(
        self, run_tiny: Any, tmp_path: Path, recwarn: pytest.WarningsRecorder
    ) -> None:
        (tmp_path / "few.txt").write_text("the old\nthe\n")
        found = one_document(
            run_tiny("geometry", tmp_path / "few.txt", *QUICK, "--json", "--html", tmp_path / "p.html")
        )
        assert found["texts"] == 2 and found["layers"][1]["intrinsic_dimension"] is None
        assert found["cka"][1][2] is None and found["layers"][1]["baseline"] is not None
        assert not [one for one in recwarn if issubclass(one.category, RuntimeWarning)]

    @pytest.mark.slow
    def test_names_are_letters_in_figures_pages_and_tables(self, run: Any, corpus: Path, tmp_path: Path) -> None:
        models = [save_tiny(tmp_path / name, seed) for seed, name in enumerate(("[red]$x^{$ <b>&", "--> $y_{$"))]
        options = ("--words", "the,old,bank", "--no-corrections", "--out", tmp_path / "out")
        answer = run("geometry", corpus, *QUICK, *options, "--model", models[0], "--model", models[1])
        # A table's title turns its lines where the folder's name happens to end.
        assert answer.code == 0 and "[red]$x^{$<b>&" in "".join(answer.out.split())
        page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
        assert "<b>" not in page and "[red]$x^{$ &lt;b&gt;&amp;" in page

    @pytest.mark.slow
    def test_pages_hold_no_letters_that_turn_a_line(self, run: Any, corpus: Path, tmp_path: Path) -> None:
        model = save_tiny(tmp_path / "a\u202eb\x1b[31m")
        answer = run("geometry", corpus, *QUICK, "--no-corrections", "--html", tmp_path / "p.html", "--model", model)
        assert answer.code == 0
        page = (tmp_path / "p.html").read_text(encoding="utf-8")
        assert "\u202e" not in page and "\x1b" not in page

    @pytest.mark.parametrize("disk", ["nan", "inf"])
    def test_an_infinite_disk_is_rejected_in_one_line(self, run_tiny: Any, corpus: Path, disk: str) -> None:
        assert "disk takes a number of gigabytes" in refusal(run_tiny("geometry", corpus, *QUICK, "--disk", disk))

    def test_a_prompt_as_long_as_the_limit_names_the_cure(self, run_tiny: Any, corpus: Path) -> None:
        answer = run_tiny("geometry", corpus, *QUICK, "--prompt", "old " * 80)
        assert answer.code == 2 and "prompt" in answer.err.splitlines()[-1]


class TestLayers:
    def test_a_broken_letter_can_be_written_to_a_page(self, run_tiny: Any, tmp_path: Path) -> None:
        answer = run_tiny("layers", "--word", "bank", "the caf\udce9 bank", "a bank", "--html", tmp_path / "p.html")
        assert answer.code == 0 and "bank" in (tmp_path / "p.html").read_text(encoding="utf-8")

    def test_rounding_is_no_curve(self, run_tiny: Any) -> None:
        answer = run_tiny("layers", "--sentences", *["it is an old bank now"] * 3)
        assert answer.code == 0 and "1.00 to" in answer.out
        [bars] = {
            cell
            for line in answer.out.splitlines()
            for cell in line.split()
            if len(cell) == 3 and cell[0] in "▁▂▃▄▅▆▇█"
        }
        assert len(set(bars)) == 1

    @pytest.mark.parametrize(
        ("word", "texts", "places"),
        [
            ("10:30:2", ("at 10:30 or 10:30", "10:30, 10:30"), [(6, 8), (5, 7)]),
            ("café", ("a cafe\u0301 x", "a CAFÉ y"), [(2, 2), (2, 2)]),
            ("👍🏽", ("ok 👍🏽 x", "👍🏽 y"), [(2, 2), (1, 1)]),
            (" old  bank ", ("the old\nbank", "Old Bank"), [(2, 3), (1, 2)]),
        ],
    )
    def test_odd_words_are_found(self, run_tiny: Any, word: str, texts: tuple[str, ...], places: list[Any]) -> None:
        found = one_document(run_tiny("layers", "--word", word, *texts, "--json"))
        assert [(place["first"], place["last"]) for place in found["places"]] == places
