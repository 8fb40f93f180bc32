"""Tasks beyond scores and classes: contrast, hidden tokens, counts; and batches that memory cannot hold."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from likewise.data import Columns
from likewise.encoder import Encoder
from likewise.errors import DataError, UsageError
from likewise.sample import sample_sentences
from likewise.train import Task, TrainConfig, parse_config, read_tasks, train_tasks
from likewise.train import loop as loop_module
from likewise.train.examples import Source, read_examples
from likewise.train.heads import info_nce
from likewise.train.loop import Run
from likewise.train.multitask import MultiTaskModel, evaluate, new_multitask_model
from likewise.train.packed_encoder import UNMASKED, Masking
from likewise.train.processes import Processes
from training_files import similarity_file, write_rows
from twins import twin_model

SETTINGS = "seed = 2\nepochs = 1\nbatch = 8\nlearning_rate = 1e-3\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("files")
    similarity_file(place / "pairs.csv", 24, 1)
    similarity_file(place / "dev.csv", 16, 2)
    rows: list[list[object]] = [
        ["a man sleeps", "a man rests", "entailment"], ["a man sleeps", "a man runs", "contradiction"],
        ["a dog runs", "a dog moves", "entailment"], ["a dog runs", "a cat sits", "neutral"],
        ["a cat sits", "a cat rests", "entailment"], ["a cat sits", "a cat runs", "contradiction"],
        ["a cat sits", "the cat is there", "entailment"],
    ]  # fmt: skip
    write_rows(place / "nli.csv", ["sentence1", "sentence2", "label"], rows)
    triplets: list[list[object]] = [[f"a cat {n}", f"the cat {n}", f"a dog {n}", 0.5] for n in range(8)]
    write_rows(place / "triplets.csv", ["anchor", "positive", "negative", "negative_score"], triplets)
    for name, texts in (("texts", sample_sentences()[:40]), ("texts-dev", sample_sentences()[40:60])):
        write_rows(place / f"{name}.csv", ["sentence"], [[text] for text in texts])
    return place


def fresh(tiny_folder: Path) -> Encoder:
    return Encoder.load(str(tiny_folder), device="cpu", dtype="float64")


def prepared(folder: Path, lines: str, settings: str = SETTINGS) -> tuple[TrainConfig, list[Task]]:
    config = parse_config(f"{settings}[[task]]\n{lines}\n".replace("FOLDER", str(folder)))
    return config, read_tasks(config.tasks)[0]


def run_of(encoder: Encoder, config: TrainConfig, tasks: list[Task]) -> Run:
    return Run(new_multitask_model(encoder, tasks, config, Processes()), tasks, Processes(), folder=None)


CONTRAST = 'kind = "contrastive"\ntrain = "FOLDER/pairs.csv"\ndev = "FOLDER/dev.csv"'
MLM = 'kind = "mlm"\ntrain = "FOLDER/texts.csv"\ndev = "FOLDER/texts-dev.csv"'


# Contrast


@pytest.mark.parametrize("seed", range(3))
def test_info_nce_is_the_papers(seed: int) -> None:
    # SimCSE, equation 5: -log e^(s_ii) / sum_j (e^(s_ij) + e^(s_ij-)), the mean over i.
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((4, 8))
    plain = -np.mean([math.log(math.exp(row[i]) / sum(math.exp(each) for each in row)) for i, row in enumerate(scores)])
    assert float(info_nce(torch.from_numpy(scores), torch.zeros(4))) == pytest.approx(plain, abs=1e-12)


def test_entailed_texts_come_with_what_is_contradicted(folder: Path) -> None:
    found = [each.texts for each in read_examples(Source(f"{folder}/nli.csv"), "entailment")]
    assert found == [
        ("a man sleeps", "a man rests", "a man runs"),
        ("a cat sits", "a cat rests", "a cat runs"),
        ("a cat sits", "the cat is there", "a cat runs"),
    ]


def test_a_file_without_contradictions_is_refused(tmp_path: Path) -> None:
    file = write_rows(tmp_path / "a.csv", ["sentence1", "sentence2", "label"], [["a", "b", "entailment"]])
    with pytest.raises(DataError, match="no text has both"):
        read_examples(Source(str(file)), "entailment")


def test_triplets_are_read_as_they_are_mined(folder: Path, tmp_path: Path) -> None:
    found = [each.texts for each in read_examples(Source(f"{folder}/triplets.csv"), "triplets")]
    assert len(found) == 8 and found[1] == ("a cat 1", "the cat 1", "a dog 1")
    file = write_rows(tmp_path / "a.csv", ["anchor", "positive", "negative"], [["a", "b", " "]])
    for name in (str(file), f"{folder}/pairs.csv"):
        with pytest.raises(DataError, match="no text in a column 'negative'; write them with likewise mine"):
            read_examples(Source(name), "triplets")


def test_texts_of_pairs_are_read_once_each(folder: Path) -> None:
    found = [each.texts[0] for each in read_examples(Source(f"{folder}/nli.csv"), "texts")]
    assert len(found) == len(set(found)) == 9 and found[:2] == ["a man sleeps", "a man rests"]


def test_twins_differ_by_their_dropout_alone(folder: Path, tiny_folder: Path) -> None:
    config, tasks = prepared(folder, CONTRAST)
    multitask = new_multitask_model(fresh(tiny_folder), tasks, config, Processes())
    examples = tasks[0].train[:4]
    keys = [(1, place) for place in range(4)]
    one, other = multitask.vectors(tasks[0], examples, multitask.embedded(tasks[0], examples, keys))
    assert (one - other).abs().max() > 1e-3
    one, other = multitask.vectors(tasks[0], examples, multitask.embedded(tasks[0], examples, None))
    assert torch.allclose(one, other, atol=1e-12)


@pytest.mark.parametrize(
    ("views", "file"), [("dropout", "pairs"), ("pairs", "pairs"), ("entailment", "nli"), ("triplets", "triplets")]
)
def test_contrast_is_the_loss_of_plainly_encoded_texts(folder: Path, tiny_folder: Path, views: str, file: str) -> None:
    lines = f'kind = "contrastive"\nviews = "{views}"\ntrain = "FOLDER/{file}.csv"\ntemperature = 0.2'
    config, tasks = prepared(folder, lines, SETTINGS + "dropout = 0.0\n")
    encoder = fresh(tiny_folder)
    multitask = new_multitask_model(encoder, tasks, config, Processes())
    examples = tasks[0].train[:3]
    said = multitask.output(tasks[0], examples, multitask.embedded(tasks[0], examples, [(0, n) for n in range(3)]))
    sides = list(zip(*(tasks[0].texts(each) for each in examples), strict=True))
    units = [torch.from_numpy(encoder.encode([str(text) for text in side])).double() for side in sides]
    plain = units[0] @ torch.cat(units[1:]).T / 0.2
    assert said.shape == (3, 3 * (len(sides) - 1)) and torch.allclose(said, plain, atol=1e-6)


def test_contrast_learns_and_is_judged_by_scores(folder: Path, tiny_folder: Path) -> None:
    config, tasks = prepared(folder, CONTRAST, SETTINGS.replace("epochs = 1", "epochs = 6"))
    report = train_tasks(fresh(tiny_folder), tasks, config)
    losses = [epoch["train"]["contrastive"] for epoch in report.epochs]
    assert losses[-1] < losses[0]
    assert report.dev["contrastive"].kind == "similarity" and report.formula == "contrastive spearman"


def test_a_contrast_that_holds_a_held_out_pair_is_dropped(tmp_path: Path) -> None:
    rows: list[list[object]] = [[f"a cat {n}", f"a dog {n}", "entailment"] for n in range(40)]
    rows += [[f"a cat {n}", f"a man {n}", "contradiction"] for n in range(40)]
    write_rows(tmp_path / "nli.csv", ["sentence1", "sentence2", "label"], rows)
    held: list[list[object]] = [["A man 3.", "a cat 3", 1]] + [[f"an owl {n}", f"a bat {n}", 2] for n in range(40)]
    write_rows(tmp_path / "dev.csv", ["sentence1", "sentence2", "score"], held)
    lines = 'kind = "contrastive"\nviews = "entailment"\ntrain = "FOLDER/nli.csv"\ndev = "FOLDER/dev.csv"'
    config = parse_config(f"[[task]]\n{lines}".replace("FOLDER", str(tmp_path)))
    [task], [overlap] = read_tasks(config.tasks)
    assert len(task.train) == 39 and (overlap.rows, overlap.dropped) == (1, 1)


# Batches that memory cannot hold

CHUNKED = {
    "contrast": CONTRAST,
    "contrast with negatives": 'kind = "contrastive"\nviews = "entailment"\ntrain = "FOLDER/nli.csv"',
    "similarity": 'kind = "similarity"\nloss = "cosent"\ntrain = "FOLDER/pairs.csv"',
    "feed-forward": 'kind = "similarity"\nhead = "feed-forward"\ntrain = "FOLDER/pairs.csv"',
    "qkv": 'kind = "count"\npooling = "qkv"\ntrain = "FOLDER/pairs.csv"',
}


@pytest.mark.parametrize("case", CHUNKED)
@pytest.mark.parametrize("chunk", [1, 3])
def test_chunks_give_the_gradient_of_the_whole_batch(folder: Path, tiny_folder: Path, case: str, chunk: int) -> None:
    grown = []
    for size in (None, chunk):
        config, tasks = prepared(folder, CHUNKED[case])
        run = run_of(fresh(tiny_folder), replace(config, chunk=size), tasks)
        run.multitask.heads.train()
        loss = run._backward(0, tasks[0], 0)
        grown.append((loss, {name: weight.grad for name, weight in run.weights.items() if weight.grad is not None}))
    (loss, whole), (again, pieces) = grown
    assert loss == pytest.approx(again, abs=1e-12) and whole.keys() == pieces.keys()
    for name, gradient in whole.items():
        assert torch.allclose(gradient, pieces[name], atol=1e-10), name


RESUMED = {"contrast": CONTRAST, "contrast in chunks": CONTRAST, "hidden tokens": "MLM", "counts": CHUNKED["qkv"]}


@pytest.mark.slow
@pytest.mark.parametrize("case", RESUMED)
def test_a_run_that_breaks_ends_the_same(
    folder: Path, tiny_folder: Path, tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = SETTINGS + ("chunk = 3\n" if "chunks" in case else "")
    config, tasks = prepared(folder, MLM if RESUMED[case] == "MLM" else RESUMED[case], settings)
    monkeypatch.setattr(loop_module, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)

    def stop(done: int, total: int | None, note: str) -> None:
        if note.startswith("steps") and done >= 2:
            raise KeyboardInterrupt

    whole, broken = fresh(tiny_folder), fresh(tiny_folder)
    train_tasks(whole, tasks, replace(config, out=str(tmp_path / "whole")))
    again = replace(config, out=str(tmp_path / "broken"))
    with pytest.raises(KeyboardInterrupt):
        train_tasks(fresh(tiny_folder), tasks, again, progress=stop)
    train_tasks(broken, tasks, again, resume=True)
    for one, other in zip(whole.model.parameters(), broken.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_chunks_do_not_go_with_what_needs_tokens(folder: Path) -> None:
    for more in ("smart = 1.0\n", ""):
        lines = CONTRAST if more else MLM
        with pytest.raises(UsageError, match="chunk needs losses on whole vectors"):
            prepared(folder, lines, SETTINGS + "chunk = 2\n" + more)


# Hidden tokens


def test_masked_tokens_are_the_text_s_own_and_of_the_asked_share() -> None:
    masking = Masking(0.25, 99, tuple(range(10, 60)))
    ids = [2, *range(60, 80), 3]
    shown: list[int] = []
    for key in range(300):
        found = masking.masked(range(1, 21), ids, [key])
        assert len(found) == 5 and set(found) <= set(range(1, 21))
        shown += [0 if new == 99 else 1 if new != ids[place] else 2 for place, new in found.items()]
    shares = np.bincount(shown, minlength=3) / len(shown)
    assert np.abs(shares - [0.8, 0.1, 0.1]).max() < 0.03
    assert masking.masked([1], ids, [0]) and not masking.masked([], ids, [0])


def test_masked_tokens_are_told_by_their_states_and_the_input_embeddings(folder: Path, tiny_folder: Path) -> None:
    """The loss from Hugging Face's own states, with the head's equation written out."""
    config, tasks = prepared(folder, MLM, SETTINGS + "dropout = 0.0\n")
    encoder = fresh(tiny_folder)
    multitask = new_multitask_model(encoder, tasks, config, Processes())
    examples = tasks[0].train[:5]
    embedded = multitask.embedded(tasks[0], examples, [(7, place) for place in range(5)])
    said = multitask.output(tasks[0], examples, embedded)
    wanted, owners = multitask.encoders["mlm"].masked_tokens(embedded)
    assert embedded.targets is not None and int((embedded.targets != UNMASKED).sum()) == len(wanted) == len(said)
    head: Any = multitask.head(tasks[0].config)
    tokens = multitask.encoders["mlm"].tokens
    loss, count = 0.0, 0
    for place, example in enumerate(examples):
        number = tokens.indices(example.texts)[0]
        ids = list(tokens.ids[number])
        hidden = multitask.masking["mlm"].masked(tokens.own[number], ids, (7, place, 0))
        truth = [ids[at] for at in hidden]
        for at, new in hidden.items():
            ids[at] = new
        states = twin_model(encoder)(input_ids=torch.tensor([ids])).last_hidden_state[0, list(hidden)]
        inner = F.layer_norm(
            F.gelu(states @ head.dense.weight.T + head.dense.bias), (16,), head.norm.weight, head.norm.bias
        )
        logits = inner @ encoder.model.embeddings.word_embeddings.weight.T + head.bias
        loss += float(F.cross_entropy(logits, torch.tensor(truth), reduction="sum").detach())
        count += len(truth)
        assert sorted(wanted[owners == place].tolist()) == sorted(truth)
    assert float(F.cross_entropy(said, wanted)) == pytest.approx(loss / count, abs=1e-9)


def test_the_head_of_masked_tokens_learns_with_the_embeddings(folder: Path, tiny_folder: Path) -> None:
    config, tasks = prepared(folder, MLM, SETTINGS.replace("epochs = 1", "epochs = 12").replace("1e-3", "5e-3"))
    encoder = fresh(tiny_folder)
    before = encoder.model_view.embeddings.word.weight.detach().clone()
    report = train_tasks(encoder, tasks, config)
    assert report.epochs[-1]["dev"]["mlm"]["accuracy"] > report.epochs[0]["dev"]["mlm"]["accuracy"]
    assert report.epochs[-1]["train"]["mlm"] < 0.8 * report.epochs[0]["train"]["mlm"]
    assert not torch.equal(before, encoder.model_view.embeddings.word.weight)
    found = report.dev["mlm"]
    assert found.metrics["perplexity"] == pytest.approx(math.exp(found.loss))


def test_the_same_tokens_are_hidden_at_every_evaluation(folder: Path, tiny_folder: Path) -> None:
    config, tasks = prepared(folder, MLM)
    multitask: MultiTaskModel = new_multitask_model(fresh(tiny_folder), tasks, config, Processes())
    one, other = (evaluate(multitask, tasks[0], tasks[0].dev) for _ in range(2))
    assert one.loss == other.loss and np.array_equal(one.scores, other.scores) and len(one.scores) == len(tasks[0].dev)


def test_embeddings_that_hide_tokens_cannot_be_frozen(folder: Path, tiny_folder: Path) -> None:
    config, tasks = prepared(folder, MLM, SETTINGS + 'freeze = "lower"\n')
    with pytest.raises(UsageError, match="embeddings cannot be frozen"):
        train_tasks(fresh(tiny_folder), tasks, config)


# Sources


def test_rows_are_chosen_by_other_columns_and_by_scores(tmp_path: Path) -> None:
    rows: list[list[object]] = [[f"a cat {n}", f"a dog {n}", n % 6, "news" if n % 2 else "forum"] for n in range(12)]
    file = str(write_rows(tmp_path / "a.csv", ["sentence1", "sentence2", "score", "genre"], rows))
    found = read_examples(Source.parse({"source": file, "where": {"genre": "news"}, "scores": [3, 5]}), "similarity")
    assert [each.target for each in found] == [3, 5, 3, 5]
    with pytest.raises(DataError, match="no other column"):
        read_examples(Source(file, where=(("topic", "x"),)), "similarity")
    with pytest.raises(DataError, match="correct where"):
        read_examples(Source(file, where=(("genre", "x"),)), "similarity")
    with pytest.raises(DataError, match="widen scores"):
        read_examples(Source(file, scores=(6.0, 7.0)), "similarity")


def test_a_target_can_be_the_share_of_the_longer_text(tmp_path: Path) -> None:
    rows: list[list[object]] = [["one two three four", "one two", 5], ["one", "two", 0]]
    file = str(write_rows(tmp_path / "a.csv", ["sentence1", "sentence2", "score"], rows))
    found = read_examples(Source(file, target="length"), "similarity")
    assert [each.target for each in found] == [2.5, 5.0]
    with pytest.raises(DataError, match="for tasks of kind similarity"):
        read_examples(Source(file, target="length"), "paraphrase")
    with pytest.raises(DataError, match="for tasks of kind count"):
        read_examples(Source(file, target="shared-nouns"), "similarity")
    with pytest.raises(DataError, match="leave out scale"):
        read_examples(Source(file, target="length", scale=(0.0, 5.0)), "similarity")
    assert [each.target for each in read_examples(Source(file, target="length", scores=(4.0, 5.0)), "similarity")] == [
        5.0
    ]


def test_rows_without_a_target_are_chosen_by_scores_or_not_at_all(folder: Path) -> None:
    file = str(folder / "pairs.csv")
    wanted = [each.texts for each in read_examples(Source(file, scores=(2.0, 5.0)), "similarity")]
    assert 0 < len(wanted) < 24
    assert [each.texts for each in read_examples(Source(file, scores=(2.0, 5.0)), "pairs")] == wanted
    assert [each.texts for each in read_examples(Source(file, scores=(2.0, 5.0)), "negatives")] == [
        (left, left, right) for left, right in wanted
    ]
    for options in ({"scores": (2.0, 5.0)}, {"scale": (0.0, 1.0)}):
        with pytest.raises(DataError, match="reads no scores"):
            read_examples(Source(file, **options), "texts")


def test_one_side_of_a_pair_can_be_named(folder: Path) -> None:
    found = read_examples(Source(str(folder / "nli.csv"), columns=Columns(text="sentence2")), "texts")
    assert [each.texts[0] for each in found][:2] == ["a man rests", "a man runs"]


def test_a_contrastive_task_has_its_own_head_beside_a_shared_one(folder: Path, tiny_folder: Path) -> None:
    same = write_rows(
        folder / "same.csv", ["sentence1", "sentence2", "score"], [[f"a b {n}", f"c d {n}", n % 2] for n in range(16)]
    )
    tasks = f"""[[task]]
kind = "paraphrase"
head = "feed-forward"
train = "{same}"
[[task]]
kind = "similarity"
head = "feed-forward"
train = "FOLDER/pairs.csv"
"""
    config = parse_config(f"{SETTINGS}shared_head = true\n{tasks}[[task]]\n{CONTRAST}".replace("FOLDER", str(folder)))
    report = train_tasks(fresh(tiny_folder), read_tasks(config.tasks)[0], config)
    assert report.dev["contrastive"].kind == "similarity"


def test_a_layer_that_is_read_is_run(folder: Path, tiny_folder: Path) -> None:
    lines = 'kind = "similarity"\nhead = "feed-forward"\ntrain = "FOLDER/pairs.csv"'
    config, tasks = prepared(folder, lines, SETTINGS + 'freeze = "lower"\ndropout = 0.0\n')
    encoder = fresh(tiny_folder).with_pooling(layer=(1, 2))
    multitask = new_multitask_model(encoder, tasks, config, Processes())
    texts = tasks[0].train[0].texts
    found = multitask.encoders["similarity"].vectors(list(texts))
    assert np.abs(found.numpy() - encoder.with_pooling(normalize=False).encode(list(texts))).max() < 1e-6


@pytest.mark.parametrize(
    "wrong", [{"where": "news"}, {"where": {"genre": ["a"]}}, {"scores": [5, 3]}, {"target": "size"}]
)
def test_wrong_keys_are_told(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Source.parse({"source": "stsb/train", **wrong})


def test_a_source_comes_back_from_its_json() -> None:
    table = {"source": "a", "where": {"genre": "x"}, "scores": [3.0, 5.0], "target": "length", "grammar": "g"}
    assert Source.parse(Source.parse(table).to_dict()) == Source.parse(table)


@pytest.mark.parametrize("lines", ['kind = "count"\npairs = "cross-encoder"', 'kind = "contrastive"\nviews = "both"'])
def test_what_does_not_go_together_is_refused(lines: str) -> None:
    with pytest.raises(UsageError):
        parse_config(f'[[task]]\n{lines}\ntrain = "a"')
