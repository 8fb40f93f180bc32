"""10,000 damaged inputs for the command line and the server: no traceback, no hang, nothing written at an error.

The fast tests try a few of each kind, ``make nightly`` 2,000.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from harm import PIECES, harmed, harmed_json
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from command_line import Answer, Run
from likewise.encoder import Encoder
from likewise.search import Index
from likewise.server.app import create_app
from likewise.server.settings import Limits, StudioSettings
from training_files import sentence

SECONDS = 20  # no input takes longer
COUNTS = [pytest.param(20, id="few"), pytest.param(2_000, id="2000", marks=pytest.mark.nightly)]
pytest_plugins = ("command_line",)
Check = Callable[[Any], None]

pytestmark = pytest.mark.parametrize("count", COUNTS)


def fuzz(count: int, inputs: st.SearchStrategy[Any], check: Check) -> None:
    """Try a check with so many inputs, the same in every run."""

    @settings(
        max_examples=count, deadline=SECONDS * 1000, derandomize=True, database=None,
        phases=(Phase.explicit, Phase.generate, Phase.shrink), suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(inputs)
    def ask(one: Any) -> None:
        check(one)

    ask()


def accepted(answer: Answer, *written: Path) -> bool:
    """Whether an input was accepted; if not, there is one line on why, and nothing is written."""
    if answer.code == 0:
        return True
    *_, last = answer.err.strip().splitlines()
    assert answer.code == 2 and last.startswith("likewise: ") and "Traceback" not in answer.err, answer.err
    assert not answer.out and not [path for path in written if path.exists()], answer.err
    return False


@contextmanager
def folder() -> Iterator[Path]:
    """A folder for one input; fixtures last for all of them."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


# Readers

ROWS = ["sentence1,sentence2,score,text,id", *(f"a cat {n},the dog {n},{n},some text {n},row{n}" for n in range(5))]
OBJECTS = [
    json.dumps({"id": f"row{n}", "text": f"a text {n}", "sentence1": "a", "sentence2": "b", "score": n})
    for n in range(5)
]
CONTENT = {
    ".csv": "\n".join(ROWS), ".tsv": "\n".join(ROWS).replace(",", "\t"), ".jsonl": "\n".join(OBJECTS),
    ".txt": "\n".join(ROWS[1:]), ".csv.gz": "\n".join(ROWS), ".parquet": "\n".join(ROWS), ".json": f"[{OBJECTS[0]}]",
}  # fmt: skip
FILES = st.sampled_from(sorted(CONTENT)).flatmap(
    lambda ending: st.tuples(st.just(ending), st.one_of(harmed(CONTENT[ending].encode()), PIECES), st.booleans())
)


@pytest.mark.slow
def test_readers(count: int, run_tiny: Run) -> None:
    read = 0

    def check(one: tuple[str, bytes, bool]) -> None:
        nonlocal read
        ending, content, skip = one
        with folder() as here:
            path, out = here / f"file{ending}", here / "out"
            path.write_bytes(content)
            read += accepted(run_tiny("encode", path, "--out", out, *(["--skip-bad"] if skip else [])), out)

    fuzz(count, FILES, check)
    assert read > 0


# Configs of training

CONFIG = """
model = "{model}"
epochs = 1
batch = 4
learning_rate = 1e-3
seed = 3
[[task]]
kind = "similarity"
train = "{data}/pairs.csv"
dev = "{data}/pairs.csv"
weight = 2.0
[[task]]
kind = "paraphrase"
train = "{data}/pairs.csv"
dev = "{data}/pairs.csv"
"""


@pytest.mark.slow
def test_configs(count: int, run: Run, tiny_folder: Path, tmp_path: Path) -> None:
    rows = [f"a cat {n},the dog {n},{n % 2}" for n in range(4)]
    (tmp_path / "pairs.csv").write_text("\n".join(["sentence1,sentence2,score", *rows]))
    whole = CONFIG.format(model=tiny_folder, data=tmp_path).encode()

    def check(content: bytes) -> None:
        with folder() as here:
            (here / "config.toml").write_bytes(content)
            # A run that is accepted stops before its first step: --show prints the checked config.
            accepted(run("train", here / "config.toml", "--out", here / "out", "--show"), here / "out")

    fuzz(count, harmed(whole), check)


# Folders of models and of indexes


def with_harm(there: Path) -> st.SearchStrategy[tuple[str, bytes]]:
    """A file of a folder, and what it is replaced by."""
    names = sorted(str(path.relative_to(there)) for path in there.rglob("*") if path.is_file() and path.stat().st_size)

    def replaced(name: str) -> st.SearchStrategy[bytes]:
        content = (there / name).read_bytes()
        changed = harmed(content)
        if name.endswith(".json"):
            changed |= harmed_json(json.loads(content)).map(lambda value: json.dumps(value).encode())
        return changed

    return st.sampled_from(names).flatmap(lambda name: st.tuples(st.just(name), replaced(name)))


@pytest.mark.slow
def test_model_folders(count: int, run: Run, tiny_folder: Path) -> None:
    def check(one: tuple[str, bytes]) -> None:
        with folder() as here:
            model = shutil.copytree(tiny_folder, here / "model")
            (model / one[0]).write_bytes(one[1])
            answer = run("similarity", "a cat", "a dog", "--model", model, "--json")
            if accepted(answer):
                json.loads(answer.out)

    fuzz(count, with_harm(tiny_folder), check)


@pytest.mark.slow
def test_index_folders(count: int, run_tiny: Run, tiny: Encoder, tmp_path: Path) -> None:
    whole, rng = tmp_path / "index", random.Random(0)
    Index.build(tiny, [(str(n), sentence(rng)) for n in range(40)], whole).calibrate()

    def check(one: tuple[str, bytes]) -> None:
        with folder() as here:
            copy = shutil.copytree(whole, here / "index")
            (copy / one[0]).write_bytes(one[1])
            before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
            answer = run_tiny("search", copy, "the cat sleeps", "--json")
            if accepted(answer):
                json.loads(answer.out)
            assert before == {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}

    fuzz(count, with_harm(whole), check)


# Requests

REQUESTS: dict[str, Any] = {
    "/api/pair": {"left": "a cat sat", "right": "the cat sat", "granularity": "word"},
    "/api/search": {"index": "none", "query": "a cat", "k": 3},
    "/api/search/index": {"corpus": "sample/pairs"},
    "/api/layers": {"texts": ["a cat", "a dog"]},
    "/api/attention": {"corpus": "sample/pairs", "limit": 4},
}


def test_requests(count: int, tiny_folder: Path, tmp_path: Path) -> None:
    model = shutil.copytree(tiny_folder, tmp_path / "minilm")
    limits = Limits(characters=200, rows=50)
    app = create_app(
        StudioSettings(folder=tmp_path, models=(str(model),), runs=tmp_path / "runs", threads=1, limits=limits)
    )
    asked = st.sampled_from(sorted(REQUESTS)).flatmap(
        lambda path: st.tuples(
            st.just(path),
            harmed_json(REQUESTS[path]).map(lambda value: json.dumps(value).encode())
            | harmed(json.dumps(REQUESTS[path]).encode()),
        )
    )
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=True) as studio:

        def check(one: tuple[str, bytes]) -> None:
            path, body = one
            answer = studio.post(path, content=body, headers={"Content-Type": "application/json"})
            assert answer.status_code < 500, answer.text
            if answer.status_code >= 400:
                assert json.loads(answer.text)["error"]

        fuzz(count, asked, check)
