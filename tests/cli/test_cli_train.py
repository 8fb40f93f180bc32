"""``likewise train``: its folder, runs that break, tables of runs, overlaps, and its error lines."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from answers import one_document, refusal
from likewise.encoder import Encoder
from likewise.errors import Cancelled
from likewise.train import parse_config, read_tasks, runs, train_tasks
from likewise.train.loop import Run
from likewise.train.runs import parse_plan, presets
from training_files import numbered_file, task_text, three_kinds, write_rows

pytest_plugins = ("command_line",)
READY_MADE = ("multitask", "multitask-best", "multitask-grid", "sts-bilstm", "sts-cls", "sts-max", "sts-mean")
TABLES = (
    "biased",
    "contrastive",
    "layers",
    "multitask-ablations",
    "multitask-grid",
    "repair",
    "sts-heads",
    "sts-cross-encoder",
)
QUICK = "epochs = 1\nbatch = 8\nlearning_rate = 1e-3\n"
ROWS = "[[row]]\nname = 'slow'\npublished = [0.5, 0.5]\n[[row]]\nname = 'Fast, too'\nlearning_rate = 1e-2\n"
PAIR = ["the cat sits", "a dog runs", 2]
NO_MODEL = "model = 'no such model'\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return three_kinds(tmp_path_factory.mktemp("files"))


def written(folder: Path, text: str) -> Path:
    path = folder / "config.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def config(tmp_path: Path, files: Path) -> Path:
    """One similarity task, a bi-encoder."""
    return written(tmp_path, QUICK + task_text(files, more="head = 'linear'\npooling = 'mean'\nloss = 'scaled-mse'"))


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders of all runs that are trained, in order."""
    seen: list[str] = []

    open_run = runs.open_run

    def noted(encoder: Any, tasks: Any, config: Any, **options: Any) -> Any:
        seen.append(Path(config.out).name)
        return open_run(encoder, tasks, config, **options)

    monkeypatch.setattr(runs, "open_run", noted)
    return seen


# Ready-made configs


def test_list_names_the_ready_made_configs(run: Any) -> None:
    shown = run("train", "--list")
    assert shown.code == 0 and all(f" {name} " in shown.out for name in READY_MADE)
    found = one_document(run("train", "--list", "--json"))["configs"]
    assert {one["name"] for one in found} == set(presets()) >= set(READY_MADE)
    assert all(one["about"] for one in found)


@pytest.mark.parametrize("name", presets())
def test_show_prints_a_config_that_parses(run: Any, name: str) -> None:
    shown = run("train", name, "--show")
    assert shown.code == 0 and shown.out == presets()[name]
    plan = parse_plan(shown.out)
    assert plan.out == f"runs/{name}" and plan.table == (name in TABLES)


def test_grid_has_the_rows_and_the_length_of_the_published_table() -> None:
    rows = parse_plan(presets()["multitask-grid"]).rows
    assert len(rows) == 18 and len({row.name for row in rows}) == 18
    assert {(row.config.epochs, row.config.samples) for row in rows} == {(25, 4096)}
    for row in rows:
        *tasks, mean = row.published
        # Published to three digits, the mean as well.
        assert len(tasks) == len(row.config.tasks) == 3 and abs(sum(tasks) / 3 - mean) < 0.0011, row.name


# One run


@pytest.mark.slow
def test_a_run_leaves_a_model_that_sentence_transformers_opens(run_tiny: Any, config: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    out = tmp_path / "a ü#?"
    answer = run_tiny("train", config, "--out", out, "--limit", 20, "--epochs", 1, "--threads", 1, "--json")
    found = one_document(answer)
    assert answer.err == f"likewise: wrote {out}\n"
    for part in ("dev", "test"):
        measured = found[part]["similarity"]
        assert measured["n"] == 20 and -1 <= measured["spearman"] <= 1 and measured["mse"] >= 0
    assert found["examples"] == {"similarity": {"train": 20, "dev": 20, "test": 20}} and found["steps"] == 3
    names = {path.name for path in out.rglob("*")}
    assert {"README.md", "likewise.json", "model.safetensors", "head.safetensors", "index.html"} <= names
    assert {"run.json", "config.json", "tokenizer.json"} <= names
    assert not {"checkpoint.safetensors", "best.safetensors"} & names
    assert not [name for name in names if name.endswith((".bin", ".pt", ".pkl", ".draft"))]
    texts = ["the cat runs", "a dog and a man", "rivers"]
    ours = Encoder.load(str(out), device="cpu").encode(texts)
    theirs: Any = SentenceTransformer(str(out), device="cpu").encode(texts)
    assert np.abs(theirs - ours).max() < 1e-6


@pytest.mark.slow
def test_a_run_is_shown_as_a_table(run_tiny: Any, tmp_path: Path, files: Path) -> None:
    kinds = "".join(task_text(files, kind) for kind in ("similarity", "paraphrase"))
    config = written(tmp_path, QUICK + f"out = '{tmp_path / 'from config'}'\n" + kinds)
    answer = run_tiny("train", config, "--threads", 1)
    assert answer.code == 0 and f"wrote {tmp_path / 'from config'}" in answer.err
    assert "spearman" in answer.out and "false_positive_rate" in answer.out
    assert "Score on dev" in answer.out and "(similarity spearman + paraphrase accuracy) / 2" in answer.out


@pytest.mark.slow
def test_the_folder_must_be_named_and_free(run_tiny: Any, config: Path, tmp_path: Path, trained: list[str]) -> None:
    assert "give --out" in refusal(run_tiny("train", config))
    used = tmp_path / "used"
    used.mkdir()
    (used / "thesis.txt").write_text("mine")
    assert "choose another out" in refusal(run_tiny("train", config, "--out", used))
    assert "is a file; choose another out" in refusal(run_tiny("train", config, "--out", used / "thesis.txt"))
    assert "give another path" in refusal(run_tiny("train", config, "--out", used / "thesis.txt" / "below"))
    (used / "thesis.txt").rename(used / "likewise.json")
    assert "holds a finished run; choose another out" in refusal(run_tiny("train", config, "--out", used))
    assert [path.name for path in used.iterdir()] == ["likewise.json"]


def test_resume_leaves_a_strangers_folder_alone(run: Any, config: Path, tmp_path: Path, tiny_folder: Path) -> None:
    base = tmp_path / "base"
    shutil.copytree(tiny_folder, base)
    before = (base / "model.safetensors").read_bytes()
    answer = run("train", config, "--model", base, "--out", base, "--resume", "--threads", 1)
    assert (base / "model.safetensors").read_bytes() == before
    assert "choose another out" in refusal(answer)


# Runs that break


def killed_after_an_epoch(arguments: list[str], checkpoint: Path) -> None:
    """Run ``likewise`` in a process of its own and end it, without a word, once a checkpoint is there."""
    child = subprocess.Popen(
        [sys.executable, "-m", "likewise", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        patience = time.monotonic() + 300
        while not checkpoint.exists() and child.poll() is None and time.monotonic() < patience:
            time.sleep(0.005)
    finally:
        child.send_signal(signal.SIGKILL)
        said = child.communicate()[1]
    assert child.returncode == -signal.SIGKILL, said


@pytest.fixture
def taken_up(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The steps at which runs went on."""
    seen: list[int] = []
    resume = Run.resume

    def noted(loop: Run, key: str) -> None:
        resume(loop, key)
        seen.append(loop.train_state.step)

    monkeypatch.setattr(Run, "resume", noted)
    return seen


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(os.name != "posix", reason="kill -9 is Unix")
def test_a_killed_run_goes_on_to_the_same_bytes(
    run: Any, tmp_path: Path, files: Path, tiny_folder: Path, taken_up: list[int]
) -> None:
    settings = f"model = '{tiny_folder}'\nepochs = 20\nbatch = 8\nlearning_rate = 1e-3\n"
    config = written(tmp_path, settings + task_text(files, "paraphrase"))
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    options = ("--threads", "1", "--device", "cpu")
    arguments = ["train", str(config), "--out", str(broken), *options]
    killed_after_an_epoch(arguments, broken / "checkpoint.safetensors")
    assert not (broken / "likewise.json").exists()
    said = refusal(run(*arguments))
    assert "holds a run that was interrupted; add --resume" in said
    assert run(*arguments, "--resume").code == 0
    assert len(taken_up) == 1 and 5 <= taken_up[0] < 100
    assert run("train", config, "--out", whole, *options).code == 0
    for name in ("model.safetensors", "head.safetensors"):
        assert (whole / name).read_bytes() == (broken / name).read_bytes()
    assert not [path for path in broken.iterdir() if path.suffix == ".draft" or path.name == "checkpoint.safetensors"]
    assert "holds a finished run" in refusal(run(*arguments, "--resume"))


@pytest.fixture
def interrupted(tmp_path: Path, files: Path, tiny_folder: Path) -> Path:
    """The config of a run that stopped after its first epoch, beside that run's folder."""
    shutil.copytree(files, tmp_path / "own")
    path = written(
        tmp_path,
        f"model = '{tiny_folder}'\nout = '{tmp_path / 'run'}'\n{QUICK}".replace("epochs = 1", "epochs = 2")
        + task_text(tmp_path / "own"),
    )

    def stop(epoch: int, score: float) -> None:
        raise Cancelled(f"after epoch {epoch} with {score}")

    config = parse_config(path.read_text(encoding="utf-8"))
    with pytest.raises(Cancelled):
        train_tasks(Encoder.load(config.model, device="cpu"), read_tasks(config.tasks)[0], config, on_epoch=stop)
    return path


@pytest.mark.parametrize("option", [("--seed", 9), ("--epochs", 3), ("--limit", 30)], ids=lambda option: option[0])
def test_resume_refuses_other_settings(run: Any, interrupted: Path, option: tuple[object, ...]) -> None:
    checkpoint = interrupted.parent / "run" / "checkpoint.safetensors"
    before = checkpoint.read_bytes()
    said = refusal(run("train", interrupted, "--resume", "--threads", 1, *option))
    assert "was begun with other settings, data or weights; give it what it had, or another out" in said
    assert checkpoint.read_bytes() == before


def test_resume_refuses_other_data_and_damaged_checkpoints(run: Any, interrupted: Path) -> None:
    source = interrupted.parent / "own" / "similarity-train.csv"
    text = source.read_text()
    source.write_text(text.replace("cat", "dog", 1))
    said = refusal(run("train", interrupted, "--resume", "--threads", 1))
    assert "other settings, data or weights" in said
    source.write_text(text)
    (interrupted.parent / "run" / "checkpoint.safetensors").write_bytes(b"half")
    said = refusal(run("train", interrupted, "--resume", "--threads", 1))
    assert "is no checkpoint that can be read; delete it and begin anew" in said


@pytest.mark.slow
def test_a_run_whose_report_failed_goes_on_to_it(
    run: Any, interrupted: Path, monkeypatch: pytest.MonkeyPatch, taken_up: list[int]
) -> None:
    def full(*given: Any) -> None:
        raise OSError(28, "No space left on device")

    out = interrupted.parent / "run"
    with monkeypatch.context() as patch:
        patch.setattr("likewise.results.result.write_document", full)
        assert "No space left on device; " in refusal(run("train", interrupted, "--resume", "--threads", 1))
    assert run("train", interrupted, "--resume", "--threads", 1).code == 0
    assert taken_up == [5, 10] and (out / "index.html").exists() and not (out / "checkpoint.safetensors").exists()


# Tables of runs


@pytest.fixture
def table(tmp_path: Path, files: Path) -> Path:
    return written(tmp_path, "seeds = [1, 2]\n" + QUICK + task_text(files) + ROWS)


@pytest.mark.slow
def test_a_table_trains_only_the_rows_that_are_missing(
    run_tiny: Any, table: Path, tmp_path: Path, trained: list[str]
) -> None:
    out, slugs = tmp_path / "table", ["slow-1", "slow-2", "fast-too-1", "fast-too-2"]
    order = ("train", table, "--out", out, "--threads", 1, "--limit", 16)
    first = one_document(run_tiny(*order, "--json"))["rows"]
    assert trained == slugs
    assert [(row["name"], row["seed"]) for row in first] == [
        ("slow", 1), ("slow", 2), ("Fast, too", 1), ("Fast, too", 2)
    ]  # fmt: skip
    assert first[0]["published"] == [0.5, 0.5] and first[0]["dev"]["similarity"]["n"] == 16
    assert {path.name for path in out.iterdir()} == {*slugs, "table.csv", "runs.csv", "run.json", "index.html"}
    # Only what is reported of a row stays, unless --keep-models is given.
    assert all([path.name for path in (out / slug).iterdir()] == ["row.json"] for slug in slugs)

    times = [(out / slug / "row.json").stat().st_mtime_ns for slug in slugs]
    assert one_document(run_tiny(*order, "--json"))["rows"] == first and trained == slugs
    assert [(out / slug / "row.json").stat().st_mtime_ns for slug in slugs] == times

    shutil.rmtree(out / "fast-too-1")
    again = one_document(run_tiny(*order, "--json"))["rows"]
    assert trained == [*slugs, "fast-too-1"]
    assert [row["score"] for row in again] == [row["score"] for row in first]
    shown = run_tiny(*order)
    assert shown.code == 0 and "Fast, too" in shown.out and "published" in shown.out

    assert "is of other settings than row 'slow' has" in refusal(run_tiny(*order, "--epochs", 2))
    (out / "slow-2" / "row.json").write_text("{")
    assert "cannot be read; delete it, and the row is trained again" in refusal(run_tiny(*order))
    assert len(trained) == 5


def test_a_table_keeps_models_that_are_wanted(run_tiny: Any, table: Path, tmp_path: Path) -> None:
    options = ("--threads", 1, "--limit", 10, "--seed", 7, "--keep-models")
    assert run_tiny("train", table, "--out", tmp_path / "kept", *options).code == 0
    for slug in ("slow-7", "fast-too-7"):
        folder = tmp_path / "kept" / slug
        assert (folder / "row.json").exists() and not (folder / "checkpoint.safetensors").exists()
        assert Encoder.load(str(folder), device="cpu").encode("the cat runs").shape == (16,)


def test_a_table_of_a_quick_try_is_not_read_back_as_the_whole(run_tiny: Any, table: Path, tmp_path: Path) -> None:
    order = ("train", table, "--out", tmp_path / "o", "--threads", 1, "--seed", 1)
    assert run_tiny(*order, "--limit", 10).code == 0
    assert "row.json" in refusal(run_tiny(*order))


def test_a_table_of_built_in_data(run_tiny: Any, tmp_path: Path) -> None:
    task = "[[task]]\nkind = 'similarity'\ntrain = 'sample/pairs'\n"
    config = written(tmp_path, QUICK + task + "[[row]]\nname = 'one'\n")
    order = ("train", config, "--out", tmp_path / "o", "--threads", 1)
    assert run_tiny(*order).code == 0 and run_tiny(*order, "--json").code == 0


# Overlap


def overlapping(folder: Path, common: int) -> str:
    """A config whose dev file of 40 rows has so many of them in the train file."""
    numbered_file(folder / "similarity-train.csv", range(40))
    numbered_file(folder / "similarity-dev.csv", range(40 - common, 80 - common))
    numbered_file(folder / "similarity-test.csv", range(200, 220))
    return QUICK + task_text(folder)


@pytest.mark.slow
def test_a_small_overlap_is_dropped_and_told(run_tiny: Any, tmp_path: Path) -> None:
    config = written(tmp_path, overlapping(tmp_path, 2))
    answer = run_tiny("train", config, "--out", tmp_path / "o", "--threads", 1, "--json")
    found = one_document(answer)
    assert found["examples"]["similarity"] == {"train": 38, "dev": 40, "test": 20}
    assert [(one["rows"], one["dropped"]) for one in found["overlaps"]] == [(2, 2)]
    assert "similarity-train.csv: 2 rows left out, for 2 of the 40 rows of" in answer.err
    assert answer.err.count("\n") == 2 and "wrote" in answer.err


def test_a_table_tells_of_dropped_rows_too(run_tiny: Any, tmp_path: Path) -> None:
    config = written(tmp_path, overlapping(tmp_path, 2) + "[[row]]\nname = 'one'\n")
    answer = run_tiny("train", config, "--out", tmp_path / "o", "--threads", 1)
    assert answer.code == 0 and "2 rows left out" in answer.err


@pytest.mark.slow
def test_a_large_overlap_is_refused_unless_allowed(run_tiny: Any, tmp_path: Path, trained: list[str]) -> None:
    config = written(tmp_path, overlapping(tmp_path, 3))
    said = refusal(run_tiny("train", config, "--out", tmp_path / "o", "--threads", 1))
    assert "holds 3 of the 40 rows of" in said and "(7.5%" in said
    assert "the cat sits 37 | a dog runs 37" in said and "--allow-overlap" in said
    assert not trained and not (tmp_path / "o").exists()
    allowed = run_tiny("train", config, "--out", tmp_path / "o", "--threads", 1, "--allow-overlap", "--json")
    found = one_document(allowed)
    assert found["examples"]["similarity"]["train"] == 40 and found["overlaps"][0]["dropped"] == 0


@pytest.mark.data
def test_overlap_of_public_files_is_found_before_a_model_is_loaded(run: Any, tmp_path: Path, shared_data: Path) -> None:
    text = NO_MODEL + "[[task]]\nkind = 'similarity'\ntrain = 'cs224n/sts-train'\ntest = 'stsb/test'\n"
    config = written(tmp_path, text)
    said = refusal(run("train", config, "--out", tmp_path / "o", "--data-dir", shared_data))
    assert "cs224n/sts-train holds 951 of the 1379 rows of stsb/test" in said and "--allow-overlap" in said
    assert not (tmp_path / "o").exists()


# Mistakes

TASK = "[[task]]\nkind = 'similarity'\ntrain = 'similarity-train.csv'\n"
MISTAKES = {
    "unknown setting": ("learning_rat = 1\n" + TASK, "learning_rat of a config; did you mean learning_rate?"),
    "unknown setting of a task": (TASK + "poling = 'cls'\n", "poling of a task; did you mean pooling?"),
    "wrong type": ("epochs = 'four'\n" + TASK, "epochs takes int, got 'four'"),
    "true is no number": ("epochs = true\n" + TASK, "epochs takes int, got True"),
    "number out of range": ("warmup = 2\n" + TASK, "warmup lies between 0 and 1, got 2"),
    "nan": ("learning_rate = nan\n" + TASK, "learning_rate lies between 0 and 1, got nan"),
    "unknown choice": (TASK + "pooling = 'median'\n", "unknown pooling 'median'; choose from cls, mean"),
    "no task": ("epochs = 2\n", "no task; give at least one [[task]]"),
    "one bracket": (TASK.replace("[[task]]", "[task]"), "write tasks as [[task]] tables, with two brackets"),
    "no train file": ("[[task]]\nkind = 'similarity'\n", "a [[task]] needs train"),
    "no train files": ("[[task]]\nkind = 'similarity'\ntrain = []\n", "no train file; give train ="),
    "two tasks of a name": (TASK * 2, "two tasks are called similarity; give each its own name"),
    "cross-encoder cosine": (TASK + "pairs = 'cross-encoder'\nhead = 'cosine'\n", "is one vector and has no cosine"),
    "shared head alone": ("shared_head = true\n" + TASK, "shared_head needs a paraphrase and a similarity task"),
    "no TOML": ("epochs = = 2\n", ": invalid TOML: "),
    "row without a name": (TASK + "[[row]]\nepochs = 2\n", "a [[row]] needs a name"),
    "rows of a name": (TASK + "[[row]]\nname = 'a'\n[[row]]\nname = 'A!'\n", "two rows are called a-1"),
    "row of no task": (TASK + "[[row]]\nname = 'a'\n[row.task.stars]\nweight = 2\n", "no task 'stars'; choose from"),
    "seeds": ("seeds = 3\n" + TASK + "[[row]]\nname = 'a'\n", "seeds takes whole numbers as [1, 2, 3], got 3"),
    "seeds without rows": ("seeds = [1, 2]\n" + TASK, "seeds needs [[row]] tables; one run takes seed = 1"),
    "row with a seed": (TASK + "[[row]]\nname = 'a'\nseed = 4\n", "a row has no seed of its own; give seeds ="),
    "published number": (TASK + "[[row]]\nname = 'a'\npublished = 3\n", "published takes numbers as [0.5, 0.7], got 3"),
    "every_task": (TASK + "[[row]]\nname = 'a'\nevery_task = 'mean'\n", "every_task takes a table as"),
    "row's task": (TASK + "[[row]]\nname = 'a'\ntask = 'similarity'\n", "task takes a table as"),
    "task is a word": ("task = 'similarity'\n[[row]]\nname = 'a'\n", "write tasks as [[task]] tables"),
    "name with a dot": (TASK + "name = 'a.b'\n", "a task's name is made of letters, digits, - and _"),
    "seed of too many digits": ("seed = 4294967296\n" + TASK, "seed lies between 0 and 4294967295, got 4294967296"),
    "freeze": ("freeze = [0, 7]\n" + TASK, "no layer 7 to freeze; this model has layers 0 to 2"),
    "empty file": (TASK.replace("similarity-train", "empty"), "empty.csv: is empty; give"),
    "one row": (TASK.replace("similarity-train", "single"), "task similarity, train: 1 example(s); give at least 2"),
    "file nowhere": (TASK.replace("similarity-train", "nowhere"), "nowhere.csv"),
    "texts for pairs": (TASK.replace("similarity-train", "sentiment-train"), "no column for the left text"),
    "scores too high": (TASK.replace("similarity-train", "high"), "7 is outside 0 to 5; give the file's own range"),
}  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_in_a_config_is_told_in_a_line(
    run_tiny: Any, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    text, said = MISTAKES[case]
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    (tmp_path / "empty.csv").touch()
    write_rows(tmp_path / "single.csv", ["sentence1", "sentence2", "score"], [PAIR])
    write_rows(tmp_path / "high.csv", ["sentence1", "sentence2", "score"], [PAIR, ["a", "b", 7]])
    monkeypatch.chdir(tmp_path)
    assert said in refusal(run_tiny("train", written(tmp_path, text), "--out", "o", "--threads", 1))
    assert not (tmp_path / "o" / "likewise.json").exists()


def test_a_name_that_no_folder_can_have_is_refused(run_tiny: Any, files: Path, tmp_path: Path) -> None:
    config = written(tmp_path, 'out = "a\\u0000b"\n' + task_text(files))
    assert "no folder can be called 'a\\x00b'; choose another out" in refusal(run_tiny("train", config))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give a TOML file, or a ready-made config by name; see: likewise train --list"),
        (("nowhere.toml",), "nowhere.toml is no TOML file that can be read; give one, or a ready-made one of"),
        (("sts-meen",), "sts-meen is no TOML file that can be read; give one, or a ready-made one of "),
        ((Path(__file__).parent,), "is no TOML file that can be read"),
        (("sts-mean", "--limit", 1), "--limit takes a number of rows from 2 on, got 1"),
        (("sts-mean", "--seed", 2**32), "seed lies between 0 and"),
        (("sts-mean", "--seed", -1), "seed is a whole number from 0 on, got -1"),
        (("sts-mean", "--epochs", 0), "epochs is a whole number from 1 on, got 0"),
        (("sts-mean", "--samples", 0), "samples is a whole number from 1 on, got 0"),
    ],
    ids=["nothing", "no file", "no preset", "folder", "limit", "large seed", "negative seed", "epochs", "samples"],
)  # fmt: skip
def test_a_mistake_in_the_arguments_is_told_in_a_line(
    run_tiny: Any, tmp_path: Path, arguments: tuple[object, ...], said: str
) -> None:
    assert said in refusal(run_tiny("train", *arguments, "--out", tmp_path / "o"))
    assert not (tmp_path / "o").exists()


def test_no_processes_is_a_usage_error(run_tiny: Any, config: Path, tmp_path: Path) -> None:
    answer = run_tiny("train", config, "--out", tmp_path / "o", "--processes", 0)
    assert answer.code == 2 and "--processes" in answer.err and "Traceback" not in answer.err
    assert not (tmp_path / "o").exists()


def test_a_model_that_is_nowhere_is_told_in_a_line(run: Any, config: Path, tmp_path: Path) -> None:
    said = refusal(run("train", config, "--out", tmp_path / "o", "--model", tmp_path / "no model"))
    assert "no model" in said and not (tmp_path / "o").exists()
