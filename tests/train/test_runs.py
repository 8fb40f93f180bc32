"""The loop as a whole: it learns, it goes on bit for bit after any break, and it stops where it should."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from likewise.data import ScoredPair
from likewise.encoder import Encoder
from likewise.errors import Cancelled, DataError, TrainingError, UsageError
from likewise.train import Example, Source, Task, TaskConfig, TrainConfig, parse_config, read_tasks, train, train_tasks
from likewise.train import loop as loop_module
from likewise.train import multitask as trainee_module
from training_files import three_files, three_tasks

ONE = "seed = 3\nepochs = 2\nbatch = 8\nlearning_rate = 1e-3\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("files")
    for number, (part, count) in enumerate((("", 40), ("-dev", 24), ("-test", 24))):
        three_files(place, part, count, number)
    return place


def prepared(folder: Path, settings: str = ONE, kinds: int = 3, **tasks: str) -> tuple[TrainConfig, list[Task]]:
    tested = {"similarity": f'{tasks.pop("similarity", "")}\ntest = "{folder}/similar-test.csv"'}
    config = parse_config(settings + three_tasks(folder, **tested, **tasks))
    config = replace(config, tasks=config.tasks[:kinds])
    return config, read_tasks(config.tasks)[0]


def fresh(tiny_folder: Path) -> Encoder:
    return Encoder.load(str(tiny_folder), device="cpu")


def weights(encoder: Encoder) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in encoder.model.state_dict().items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


VARIANTS = {
    "bi-encoder": ({"similarity": 'loss = "cosent"'}, 1, ""),
    "cross-encoder": ({"similarity": 'pairs = "cross-encoder"\npooling = "cls"'}, 1, ""),
    "bilstm": ({"similarity": 'pooling = "bilstm"'}, 1, "lstm = 6\n"),
    "qkv": ({"similarity": 'pooling = "qkv"'}, 1, ""),
    "multitask": ({}, 3, ""),
    "feed-forward": (
        dict.fromkeys(("similarity", "paraphrase", "sentiment"), 'head = "feed-forward"'), 3, "shared_head = true\n",
    ),
    "frozen": ({}, 3, 'freeze = "lower"\n'),
    "smart": ({}, 2, "smart = 1.0\n"),
    "pcgrad": ({}, 3, "pcgrad = true\naccumulate = 2\n"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_it_learns(tiny_folder: Path, folder: Path, variant: str) -> None:
    tasks, kinds, more = VARIANTS[variant]
    settings = ONE.replace("epochs = 2", "epochs = 8") + more
    config, data = prepared(folder, settings, kinds, **tasks)
    encoder = fresh(tiny_folder)
    before = weights(encoder)
    report = train_tasks(encoder, data, config)
    first, last = report.epochs[0]["train"], report.epochs[-1]["train"]
    assert sum(last.values()) < sum(first.values())
    assert not same(before, weights(encoder))
    assert report.score is not None and set(report.dev) == {task.name for task in data}
    assert set(report.test) == {"similarity"}


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_run_that_breaks_at_any_step_ends_the_same(
    tiny_folder: Path, folder: Path, tmp_path: Path, variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks, kinds, more = VARIANTS[variant]
    config, data = prepared(folder, ONE + more, kinds, **tasks)
    whole, broken = fresh(tiny_folder), fresh(tiny_folder)
    unbroken = train_tasks(whole, data, replace(config, out=str(tmp_path / "whole")))
    again = replace(config, out=str(tmp_path / "broken"))
    monkeypatch.setattr(loop_module, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    monkeypatch.setattr("likewise.progress.SECONDS_BETWEEN_CALLS", 0.0)
    for step in (1, 2, 4, 5):
        with pytest.raises(KeyboardInterrupt):
            train_tasks(fresh(tiny_folder), data, again, resume=step > 1, progress=stopping_at(step))
    finished = train_tasks(broken, data, again, resume=True)
    assert same(weights(whole), weights(broken))
    assert finished.epochs == unbroken.epochs and finished.curve == unbroken.curve
    for name in ("head.safetensors", "model.safetensors"):
        if (tmp_path / "whole" / name).exists():
            assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "broken" / name).read_bytes()


def stopping_at(step: int) -> Callable[[int, int | None, str], None]:
    """Ends like a kill would, in the midst of a run and without a word to it."""

    def progress(done: int, total: int | None, note: str) -> None:
        del total
        if note.startswith("steps") and done >= step:
            raise KeyboardInterrupt

    return progress


def test_a_cancelled_run_goes_on(tiny_folder: Path, folder: Path, tmp_path: Path) -> None:
    config, data = prepared(folder, kinds=1)
    config = replace(config, out=str(tmp_path / "run"))

    def cancel(done: int, total: int | None, note: str) -> None:
        if note.startswith("steps") and done >= 3:
            raise Cancelled("enough")

    with pytest.raises(Cancelled):
        train_tasks(fresh(tiny_folder), data, config, progress=cancel)
    with pytest.raises(UsageError, match="--resume"):
        train_tasks(fresh(tiny_folder), data, config)
    with pytest.raises(TrainingError, match="other settings"):
        train_tasks(fresh(tiny_folder), data, replace(config, batch=4), resume=True)
    report = train_tasks(fresh(tiny_folder), data, config, resume=True)
    assert report.steps == 10
    with pytest.raises(UsageError, match="finished run"):
        train_tasks(fresh(tiny_folder), data, config)


@pytest.mark.slow
def test_seeds_give_the_same_and_other_seeds_another(tiny_folder: Path, folder: Path) -> None:
    config, data = prepared(folder)
    found = []
    for seed in (1, 1, 2):
        encoder = fresh(tiny_folder)
        train_tasks(encoder, data, replace(config, seed=seed))
        found.append(weights(encoder))
    assert same(found[0], found[1]) and not same(found[0], found[2])


def test_training_leaves_the_callers_random_numbers_alone(tiny_folder: Path, folder: Path) -> None:
    config, data = prepared(folder, kinds=1)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train_tasks(fresh(tiny_folder), data, config)
    assert torch.equal(torch.rand(3), expected)


def test_frozen_layers_stay_and_their_cache_changes_nothing(tiny_folder: Path, folder: Path) -> None:
    config, data = prepared(folder, ONE + 'freeze = "lower"\ndropout = 0.0\n', 1)
    # In double precision: AdamW makes whole steps of the smallest gradients, roundings included.
    cached, plain = (Encoder.load(str(tiny_folder), device="cpu", dtype="float64") for _ in range(2))
    before = weights(cached)
    train_tasks(cached, data, config)
    depth = cached.model_view.layers
    after = weights(cached)
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved and all(f"layer.{layer}." not in name for name in moved for layer in range(depth // 2))
    assert not any("embeddings" in name for name in moved)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainee_module, "frozen_depth", lambda frozen, depth: None)
        train_tasks(plain, data, config)
    uncached = weights(plain)
    assert all(torch.allclose(after[name], uncached[name], atol=1e-7) for name in after)


def test_nan_names_the_batch(tiny_folder: Path, folder: Path) -> None:
    config, data = prepared(
        folder, "seed = 3\nepochs = 4\nbatch = 8\nlearning_rate = 1.0\nclip = 1e9\nwarmup = 0.0\n", 1
    )
    encoder = fresh(tiny_folder)
    with torch.no_grad():
        encoder.model_view.embeddings.word.weight.fill_(float("nan"))
    with pytest.raises(TrainingError, match=r"loss of similarity is nan at step 1 \(epoch 1\).*similar.csv"):
        train_tasks(encoder, data, config)


def test_patience_ends_a_run(tiny_folder: Path, folder: Path) -> None:
    config, data = prepared(
        folder, "epochs = 20\nbatch = 8\nlearning_rate = 0.0\nhead_learning_rate = 0.0\npatience = 2\n", 1
    )
    report = train_tasks(fresh(tiny_folder), data, config)
    assert len(report.epochs) == 3 and report.best_epoch == 1


def test_the_best_epoch_is_kept(tiny_folder: Path, folder: Path, tmp_path: Path) -> None:
    config, data = prepared(folder, ONE.replace("epochs = 2", "epochs = 6"), 1)
    encoder = fresh(tiny_folder)
    report = train_tasks(encoder, data, replace(config, out=str(tmp_path / "run")))
    scores = [epoch["score"] for epoch in report.epochs]
    assert report.best_epoch == scores.index(max(scores)) + 1
    assert report.score == pytest.approx(max(scores))


def test_a_saved_run_is_the_trained_model(tiny_folder: Path, folder: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    config, data = prepared(folder, kinds=1)
    encoder = fresh(tiny_folder)
    train_tasks(encoder, data, replace(config, out=str(tmp_path / "run")))
    texts = ["the cat runs", "a dog and a man"]
    vectors = Encoder.load(str(tmp_path / "run"), device="cpu").encode(texts)
    assert (vectors == encoder.encode(texts)).all()
    theirs: Any = SentenceTransformer(str(tmp_path / "run"), device="cpu").encode(texts)
    assert abs(theirs - vectors).max() < 1e-6
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert not {"checkpoint.safetensors", "best.safetensors"} & names and "README.md" in names


# From a list of pairs

PAIRS = [("a cat runs", "a cat sits", 4.0), ("a cat runs", "the sea", 0.5), ("a dog waits", "a dog sings", 3.5)]


def test_a_list_of_pairs_trains_a_copy(tiny_folder: Path) -> None:
    encoder = fresh(tiny_folder)
    before = encoder.encode("a cat runs")
    trained, report = train(encoder, PAIRS, epochs=2, batch=2, learning_rate=1e-2)
    assert report.steps == 4 and report.config.tasks[0].loss == "cosent" and report.dev == {}
    assert (encoder.encode("a cat runs") == before).all() and trained.hash != encoder.hash
    assert abs(trained.encode("a cat runs") - before).max() > 1e-4


def test_a_list_of_pairs_gives_what_the_task_gives(tiny_folder: Path) -> None:
    scored = [ScoredPair(left, right, score / 5, str(number)) for number, (left, right, score) in enumerate(PAIRS)]
    settings: dict[str, Any] = {"epochs": 2, "batch": 2, "learning_rate": 1e-2}
    trained, _ = train(fresh(tiny_folder), scored, "scaled-mse", scale=(0, 1), **settings)
    own = TaskConfig("similarity", (Source("pairs"),))
    examples = tuple(Example((left, right), score, "", "") for left, right, score in PAIRS)
    other = fresh(tiny_folder)
    train_tasks(other, [Task(own, examples)], TrainConfig((own,), other.name, **settings))
    assert abs(trained.encode("the sea") - other.encode("the sea")).max() < 1e-6


def test_dev_pairs_choose_the_epoch_and_may_not_be_trained_on(tiny_folder: Path) -> None:
    dev = [("the bank", "the river", 1.0), ("the house", "a house", 5.0)]
    _, report = train(fresh(tiny_folder), PAIRS, dev=dev, epochs=1)
    assert report.formula == "similarity spearman" and report.examples["similarity"]["dev"] == 2
    with pytest.raises(DataError, match="pairs holds 1 of the 3 rows of dev"):
        train(fresh(tiny_folder), PAIRS, dev=[*dev, PAIRS[0]], epochs=1)


def test_pairs_that_cannot_be_learned_are_named(tiny_folder: Path) -> None:
    with pytest.raises(DataError, match=r"pairs, pair 2: the score 7 is outside 0 to 5"):
        train(fresh(tiny_folder), [PAIRS[0], ("a", "b", 7)])
    with pytest.raises(DataError, match="at least 2 pairs, got 1"):
        train(fresh(tiny_folder), PAIRS[:1])
    with pytest.raises(UsageError, match="unknown loss of similarity 'mse'; choose from scaled-mse, cosent"):
        train(fresh(tiny_folder), PAIRS, "mse")
