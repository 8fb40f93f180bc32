"""``likewise compare-models``: options of models, JSON and pages, indexes and files, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from answers import one_document, refusal
from conftest import save_classic
from likewise.cli.compare_models import KEYS, parse_model
from likewise.encoder import Encoder
from likewise.encoder.postprocessing import fit_postprocessing
from likewise.errors import UsageError
from likewise.search import Index
from tiny_cross_encoders import save_cross_encoder, tiny_classifier

pytest_plugins = ("command_line",)

TEXTS = ["the cat sat on it", "a man is out", "the sea is blue", "a volcano erupted", "the bank cut rates", "it rains"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "indexes"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "texts.csv"
    path.write_text("id,text\n" + "".join(f"t{number},{text}\n" for number, text in enumerate(TEXTS)))
    return path


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    path = tmp_path / "queries.csv"
    path.write_text("query,relevant\na cat,t0\nthe sea,t2\nfire,t3\n")
    return path


@pytest.fixture
def folder(tiny: Encoder, tmp_path: Path) -> Path:
    Index.build(tiny, [(f"t{number}", text) for number, text in enumerate(TEXTS)], tmp_path / "index")
    return tmp_path / "index"


class TestModels:
    def test_a_name_alone(self, tiny_folder: Path) -> None:
        found = parse_model(str(tiny_folder))
        assert found.load().pooling_config.pooling == "mean" and found.changes == {}

    def test_options(self, tiny_folder: Path) -> None:
        spec = f"{tiny_folder}@layer=0,1,pooling=cls,truncate-dim=8,special_tokens=no,heads=yes,dtype=float64"
        encoder = parse_model(spec, "--device=cpu").load()
        config = encoder.pooling_config
        assert (config.layer, config.pooling, config.truncate_dim) == ([0, 1], "cls", 8)
        assert (config.special_tokens, config.heads, encoder.dimension) == (False, True, 8)
        assert str(encoder.model_view.dtype) == "torch.float64"

    def test_postprocessing(self, tiny: Encoder, tiny_folder: Path, tmp_path: Path) -> None:
        fitted = fit_postprocessing("mean-removal", tiny.encode(TEXTS))
        fitted.save(tmp_path / "post.safetensors")
        encoder = parse_model(f"{tiny_folder}@post={tmp_path / 'post.safetensors'}").load()
        assert encoder.postprocessing is not None and encoder.postprocessing.name == fitted.name

    def test_prompts_keep_commas_and_blanks(self) -> None:
        found = parse_model("minilm@query_prompt=Query, in short: ,document_prompt=,similarity=dot")
        assert found.changes == {"query_prompt": "Query, in short: ", "document_prompt": "", "similarity": "dot"}

    def test_a_path_with_an_at_sign(self, tmp_path: Path) -> None:
        folder = save_classic(tmp_path / "me@home")
        assert parse_model(str(folder)).load().name == str(folder)
        assert parse_model(f"{folder}@layer=1").load().pooling_config.layer == 1

    @pytest.mark.parametrize(
        ("spec", "flaw"),
        [
            ("minilm@size=3", f"size is not an option of a model; there are {', '.join(KEYS)}"),
            ("minilm@threads=3", "threads is not an option of a model"),
            ("minilm@int8", "after @ come options such as truncate_dim=128"),
            ("minilm@", "after @ come options"),
            ("minilm@layer=1,layer=2", "layer is given twice"),
            ("minilm@heads=perhaps", "heads takes yes or no, not 'perhaps'"),
            ("minilm@truncate_dim=0", "--truncate-dim"),
            ("minilm@truncate_dim=many", "--truncate-dim"),
        ],
    )
    def test_refused(self, spec: str, flaw: str) -> None:
        with pytest.raises(UsageError, match=flaw) as error:
            parse_model(spec)
        assert str(error.value).startswith(f"{spec}: ") and "\n" not in str(error.value)


class TestOutput:
    def test_json(self, run: Any, file: Path, queries: Path, tiny_folder: Path) -> None:
        answer = run(
            "compare-models", tiny_folder, f"{tiny_folder}@truncate_dim=4", "--corpus", file, "--queries", queries,
            "--k", "1,3", "--top", 2, "--most-changed", 1, "--json",
        )  # fmt: skip
        found = one_document(answer)
        assert found["models"] == [str(tiny_folder), f"{tiny_folder}@truncate_dim=4"]
        assert (found["texts"], found["n"], found["k"], found["top"], found["depth"]) == (6, 3, [1, 3], 2, 3)
        assert list(found["means"]) == ["overlap_1", "overlap_3", "rbo", "kendall"]
        assert found["quality"]["n"] == 3 and len(found["queries"]) == 3 and len(found["explained"]) == 1

    def test_the_same_model_changes_nothing(self, run: Any, file: Path, tiny_folder: Path) -> None:
        answer = run("compare-models", tiny_folder, tiny_folder, "--corpus", file, "--query", "a cat")
        assert answer.code == 0 and "1 query to 6 texts" in answer.out and "nothing changes" in answer.out
        assert "Queries that change most" not in answer.out and "Why" not in answer.out

    @pytest.mark.slow
    def test_folder_page_and_figure(
        self, run: Any, file: Path, queries: Path, tiny_folder: Path, tmp_path: Path
    ) -> None:
        pytest.importorskip("matplotlib")
        out, page, figure = tmp_path / "out", tmp_path / "page.html", tmp_path / "figure.svg"
        answer = run(
            "compare-models", tiny_folder, f"{tiny_folder}@layer=0", "--corpus", file, "--queries", queries,
            "--out", out, "--html", page, "--plot", figure,
        )  # fmt: skip
        assert answer.code == 0 and figure.is_file() and "Why: " in page.read_text()
        run_document = json.loads((out / "run.json").read_text())
        assert run_document["models"][1] == f"{tiny_folder}@layer=0"
        assert run_document["results"]["texts"] == 6 and (out / "words.csv").is_file()

    def test_an_index_and_one_model(self, run: Any, folder: Path, tiny_folder: Path, own_cache: Path) -> None:
        spec = f"{tiny_folder}@layer=1"
        given = "--index", folder, "--query", "a cat", "--query", "the sea", "--json"
        found = one_document(run("compare-models", spec, *given))
        assert found["models"] == [str(tiny_folder), spec] and found["quality"] is None
        assert len(list(own_cache.iterdir())) == 1
        both = run(
            "compare-models", tiny_folder, spec, "--index", folder, "--query", "a cat", "--query", "the sea", "--json"
        )
        assert one_document(both) == found


class TestRefused:
    @pytest.mark.parametrize(
        ("arguments", "flaw"),
        [
            (["--query", "cat"], "give the texts once: --index FOLDER, or --corpus FILE"),
            (["--query", "cat", "--corpus", "FILE", "--index", "x"], "give the texts once"),
            (["--corpus", "FILE"], "holds no queries; give --queries FILE or --query TEXT"),
            (["--corpus", "FILE", "--query", "cat", "--k", "1,9"], "9 first texts of a corpus of 6"),
            (["--corpus", "FILE", "--query", "cat", "--k", "one"], "--k takes numbers"),
            (["--corpus", "FILE", "--query", "cat", "--persistence", "2"], "lies between 0 and 1"),
            (["--corpus", "FILE", "--query", " "], "an empty query finds nothing"),
            (["--corpus", "FILE", "--query", "cat", "--qrels", "q.tsv"], "give --queries too"),
            (["--index", "nowhere", "--query", "cat"], "nowhere does not exist; make an index with"),
        ],
    )
    def test_options(self, run: Any, file: Path, tiny_folder: Path, arguments: list[str], flaw: str) -> None:
        given = [str(file) if each == "FILE" else each for each in arguments]
        assert flaw in refusal(run("compare-models", tiny_folder, f"{tiny_folder}@layer=1", *given))

    def test_a_cross_encoder(self, run: Any, file: Path, tiny_folder: Path, tmp_path: Path) -> None:
        cross = save_cross_encoder(tmp_path / "cross", tiny_classifier("bert"))
        line = refusal(run("compare-models", tiny_folder, cross, "--corpus", file, "--query", "cat"))
        assert "is a cross-encoder and has no vectors of texts; use it in" in line and "--rerank" in line

    def test_no_model(self, run: Any, file: Path, tiny_folder: Path) -> None:
        line = refusal(run("compare-models", tiny_folder, "./nowhere", "--corpus", file, "--query", "cat"))
        assert "no folder './nowhere'" in line
