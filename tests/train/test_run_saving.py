"""Saved runs: what is loaded judges like what was trained, and others can open the folder."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from likewise.encoder import CrossEncoder, Encoder
from likewise.encoder.cross_encoder import is_cross_encoder
from likewise.errors import ModelError, UsageError
from likewise.explain import explain_cross_encoder
from likewise.train import Task, TrainConfig, TrainReport, parse_config, read_tasks, train_tasks
from likewise.train.multitask import evaluate, main_task
from likewise.train.saving import load_run, predict
from likewise.train.tasks import Overlap
from training_files import three_files, three_tasks

SETTINGS = """
seed = 3
epochs = 1
batch = 8
hidden = 6
lstm = 5
learning_rate = 1e-3
"""


def in_all(line: str) -> dict[str, str]:
    return dict.fromkeys(("similarity", "paraphrase", "sentiment"), line)


VARIANTS: dict[str, tuple[str, dict[str, str]]] = {
    "cls": ("", in_all('pooling = "cls"')),
    "mean": ("", in_all('pooling = "mean"')),
    "max": ("", in_all('pooling = "max"')),
    "own": ("max_tokens = 6\n", {"similarity": 'head = "linear"'}),
    "cross-encoder": (
        "",
        in_all('pairs = "cross-encoder"') | {"paraphrase": 'pairs = "cross-encoder"\nhead = "feed-forward"'},
    ),
    "bilstm": ("", in_all('pooling = "bilstm"')),
    "qkv": ("", in_all('pooling = "qkv"')),
    "shared": ("shared_head = true\n", in_all('head = "feed-forward"')),
    "bilstm beside mean": ("", {"sentiment": 'pooling = "bilstm"'}),
    "own beside cls": ("", {"similarity": 'pooling = "cls"'}),
}
TEXTS = ["the cat runs", "a dog and a man", "the child sings of a river and a house and a bank"]


@dataclass(frozen=True)
class Trained:
    """A run that was saved, and the encoder that it left in memory."""

    folder: Path
    report: TrainReport
    tasks: list[Task]
    encoder: Encoder


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("files")
    for number, (part, count) in enumerate((("", 24), ("-dev", 24), ("-test", 12))):
        three_files(place, part, count, number)
    # One row of dev is in train as well: a share of it that may be dropped.
    held_out = (place / "similar-dev.csv").read_text().splitlines()[1]
    with (place / "similar.csv").open("a") as file:
        file.write(f"{held_out}\n")
    return place


def prepared(files: Path, variant: str) -> tuple[TrainConfig, list[Task], list[Overlap]]:
    settings, tasks = VARIANTS[variant]
    tested = {"similarity": f'{tasks.get("similarity", "")}\ntest = "{files}/similar-test.csv"'}
    config = parse_config(SETTINGS + settings + three_tasks(files, **tasks | tested))
    found, overlaps = read_tasks(config.tasks)
    return config, found, overlaps


@pytest.fixture(scope="module")
def trained(files: Path, tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Trained]:
    """Each run once."""
    known: dict[str, Trained] = {}

    def run(variant: str) -> Trained:
        if variant not in known:
            folder = tmp_path_factory.mktemp("runs") / "run"
            config, tasks, overlaps = prepared(files, variant)
            encoder = Encoder.load(str(tiny_folder), device="cpu")
            report = train_tasks(encoder, tasks, replace(config, out=str(folder)), overlaps=overlaps)
            known[variant] = Trained(folder, report, tasks, encoder)
        return known[variant]

    return run


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_loaded_run_judges_as_the_trained_one_did(trained: Callable[[str], Trained], variant: str) -> None:
    run = trained(variant)
    loaded = load_run(run.folder, device="cpu")
    for task in run.tasks:
        before, after = run.report.dev[task.name], evaluate(loaded, task, task.dev)
        # To the bit: the same weights in the same batches.
        assert (after.scores == before.scores).all(), task.name
        assert after.loss == before.loss and after.metrics == pytest.approx(before.metrics, rel=0, nan_ok=True)


JOINT = """
seed = 3
epochs = 1
batch = 8
learning_rate = 1e-3
[[task]]
kind = "{kind}"
pairs = "cross-encoder"
head = "{head}"
pooling = "{pooling}"
train = "{files}/{name}.csv"
dev = "{files}/{name}-dev.csv"
"""


@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
@pytest.mark.parametrize(("kind", "name"), [("similarity", "similar"), ("paraphrase", "same")])
def test_a_run_on_pairs_opens_as_a_cross_encoder(
    kind: str, name: str, pooling: str, files: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    from sentence_transformers import CrossEncoder as Theirs

    config = parse_config(JOINT.format(kind=kind, head="linear", pooling=pooling, files=files, name=name))
    tasks, overlaps = read_tasks(config.tasks)
    folder = tmp_path / "run"
    encoder = Encoder.load(str(tiny_folder), device="cpu")
    train_tasks(encoder, tasks, replace(config, out=str(folder)), overlaps=overlaps)
    pairs = [example.texts for example in tasks[0].dev]
    said = predict(load_run(folder, device="cpu"), pairs, kind)
    model, ours = Theirs(str(folder), device="cpu"), CrossEncoder.load(folder, device="cpu")
    wanted = said.scores.reshape(len(pairs), -1)[:, -1]
    assert np.ptp(wanted) > 1e-3
    assert np.abs(model.predict([list(pair) for pair in pairs]) - wanted).max() < 1e-5
    assert np.abs(ours.score(pairs) - wanted).max() < 1e-5
    assert "CrossEncoder(folder).predict(pairs)" in (folder / "README.md").read_text()
    assert abs(explain_cross_encoder(ours, *pairs[0]).gap) < 1e-5


@pytest.mark.parametrize(("head", "pooling"), [("feed-forward", "cls"), ("linear", "bilstm")])
def test_a_head_that_others_cannot_express_stays_ours(
    head: str, pooling: str, files: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    config = parse_config(JOINT.format(kind="similarity", head=head, pooling=pooling, files=files, name="similar"))
    tasks, overlaps = read_tasks(config.tasks)
    encoder = Encoder.load(str(tiny_folder), device="cpu")
    train_tasks(encoder, tasks, replace(config, out=str(tmp_path / "run")), overlaps=overlaps)
    assert not is_cross_encoder(tmp_path / "run")
    assert predict(load_run(tmp_path / "run", device="cpu"), [("a cat", "a dog")]).scores.shape == (1,)


@pytest.mark.parametrize("variant", ["cross-encoder", "bilstm", "shared"])
def test_a_prediction_is_what_the_evaluation_said(trained: Callable[[str], Trained], variant: str) -> None:
    run = trained(variant)
    loaded = load_run(run.folder, device="cpu")
    for task in run.tasks:
        said = predict(loaded, [example.texts for example in task.dev], task.name)
        assert (said.scores == run.report.dev[task.name].scores).all()
        assert (said.predicted == run.report.dev[task.name].predicted).all()


def test_a_loaded_run_has_the_settings_it_was_trained_with(trained: Callable[[str], Trained]) -> None:
    run = trained("max")
    assert load_run(run.folder, device="cpu").config == run.report.config


# What others open


def theirs(folder: Path) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu")


@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
def test_sentence_transformers_gives_the_same_vectors(trained: Callable[[str], Trained], pooling: str) -> None:
    run = trained(pooling)
    ours = Encoder.load(str(run.folder), device="cpu")
    vectors = ours.encode(TEXTS)
    assert ours.pooling_config.pooling == pooling
    assert (vectors == run.encoder.encode(TEXTS, pooling=pooling)).all()
    assert np.abs(theirs(run.folder).encode(TEXTS) - vectors).max() < 1e-6
    # The model's own Normalize was off for the heads, and is on again.
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("pooling", ["bilstm", "qkv"])
def test_a_learned_pooling_is_ours_alone_and_the_card_says_so(trained: Callable[[str], Trained], pooling: str) -> None:
    run = trained(pooling)
    ours = Encoder.load(str(run.folder), device="cpu")
    assert ours.pooling_config.pooling == pooling and ours.dimension == {"bilstm": 10, "qkv": 16}[pooling]
    reader = load_run(run.folder, device="cpu").encoders["similarity"]
    rows = reader.vectors(TEXTS).numpy()
    assert np.abs(ours.encode(TEXTS) - rows / np.linalg.norm(rows, axis=1, keepdims=True)).max() < 1e-6
    vectors = theirs(run.folder).encode(TEXTS)
    assert np.abs(vectors - ours.encode(TEXTS, pooling="mean")).max() < 1e-6
    card = (run.folder / "README.md").read_text()
    assert f"; {pooling} pooling." in card
    assert "opens this folder with mean pooling" in card and "`likewise.Encoder.load` gives the real ones" in card


def test_the_learned_pooling_that_is_saved_has_learnt(trained: Callable[[str], Trained]) -> None:
    from likewise.encoder.learned_pooling import new_learned_pooling

    learned = Encoder.load(str(trained("qkv").folder), device="cpu").modules_config.learned
    assert learned is not None
    fresh = new_learned_pooling("qkv", 16, None, seed=3).state_dict()
    assert all((weight != fresh[name]).any() for name, weight in learned.state_dict().items() if name != "key.bias")


def test_the_main_task_is_the_first_about_two_vectors(files: Path) -> None:
    for variant, names in {"mean": ("similarity", "paraphrase"), "cross-encoder": ("similarity", "sentiment")}.items():
        config, _, _ = prepared(files, variant)
        backwards = replace(config, tasks=config.tasks[::-1])
        assert (main_task(config).name, main_task(backwards).name) == names


# The folder


@pytest.mark.parametrize("variant", ["mean", "bilstm", "shared"])
def test_weights_are_safetensors_and_nothing_is_left_over(trained: Callable[[str], Trained], variant: str) -> None:
    folder = trained(variant).folder
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {Path(name).suffix for name in names} == {".safetensors", ".json", ".md"}
    assert {name for name in names if name.endswith(".safetensors")} == {"model.safetensors", "head.safetensors"}
    beside = [path.name for path in folder.parent.iterdir()]
    assert beside == [folder.name]


def test_a_run_in_double_precision_is_loaded_in_it(files: Path, tiny_folder: Path, tmp_path: Path) -> None:
    config, tasks, _ = prepared(files, "mean")
    encoder = Encoder.load(str(tiny_folder), device="cpu", dtype="float64")
    report = train_tasks(encoder, tasks, replace(config, out=str(tmp_path / "run")))
    loaded = load_run(tmp_path / "run", device="cpu", dtype="float64")
    for task in tasks:
        assert np.abs(evaluate(loaded, task, task.dev).scores - report.dev[task.name].scores).max() < 1e-12


# The card


def test_the_card_holds_data_settings_and_scores(trained: Callable[[str], Trained], files: Path) -> None:
    run = trained("shared")
    card, report = (run.folder / "README.md").read_text(), run.report
    assert report.model_sha256 in card and f"`{report.model}`" in card
    for task in run.tasks:
        config = task.config
        parts = [part[0].file if part else "none" for part in (config.train, config.dev, config.test)]
        assert f"| {task.name} | {parts[0]} | {len(task.train)} | {parts[1]} | {parts[2]} |" in card
    for part, outcomes in (("dev", report.dev), ("test", report.test)):
        for name, eval_result in outcomes.items():
            for measure, value in eval_result.metrics.items():
                assert f"| {part} | {name} | {len(eval_result.examples)} | {measure} | {value:.4f} |" in card
    assert report.score is not None and f"Score on dev: {report.score:.4f} = {report.formula}." in card
    found = re.search(r"```json\n(.*?)\n```", card, re.DOTALL)
    assert found is not None
    wanted = {name: value for name, value in report.config.to_dict().items() if name not in ("out", "task")}
    assert json.loads(found[1]) == json.loads(json.dumps(wanted))


def test_the_card_tells_of_rows_that_were_left_out(trained: Callable[[str], Trained]) -> None:
    run = trained("mean")
    card = (run.folder / "README.md").read_text()
    assert any("similar-dev" in overlap.held_out for overlap in run.report.overlaps)
    for overlap in run.report.overlaps:
        summary = (
            overlap.train,
            overlap.held_out,
            f"{overlap.rows} of the {overlap.of} rows",
            f"{overlap.dropped} rows",
        )
        assert any(all(part in line for part in summary) for line in card.splitlines())


def test_the_card_of_a_plain_pooling_warns_of_nothing(trained: Callable[[str], Trained]) -> None:
    card = (trained("mean").folder / "README.md").read_text()
    assert "; mean pooling." in card and "gives other vectors" not in card


# What is refused


@pytest.mark.parametrize("resume", [False, True], ids=["anew", "resumed"])
def test_a_finished_run_is_not_written_over(
    trained: Callable[[str], Trained], files: Path, tiny_folder: Path, resume: bool
) -> None:
    run = trained("mean")
    before = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
    config, tasks, _ = prepared(files, "mean")
    encoder = Encoder.load(str(tiny_folder), device="cpu")
    with pytest.raises(UsageError, match="holds a finished run; choose another out, or delete it first"):
        train_tasks(encoder, tasks, replace(config, out=str(run.folder)), resume=resume)
    assert before == {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}


def test_a_folder_without_heads_is_refused(tiny_folder: Path) -> None:
    with pytest.raises(ModelError, match="no folder of a trained model with heads"):
        load_run(tiny_folder, device="cpu")


def test_heads_that_do_not_fit_are_refused(trained: Callable[[str], Trained], tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(trained("mean").folder, folder)
    weights = load_file(folder / "head.safetensors")
    save_file({name: each for name, each in weights.items() if "sentiment" not in name}, folder / "head.safetensors")
    with pytest.raises(ModelError, match="does not hold this run's heads"):
        load_run(folder, device="cpu")
    (folder / "head.safetensors").write_bytes(b"no weights")
    with pytest.raises(ModelError, match="cannot be read"):
        load_run(folder, device="cpu")
