"""Hostile, odd and broken input: a study, or one line that refuses, and never a traceback."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from answers import one_document, refusal
from attention_studies import attention_study as made_study
from conftest import save_tiny
from likewise.attention import (
    AttentionSettings,
    AttentionStudy,
    AutoencoderSettings,
    ClusterSettings,
    Highlight,
    attention_study,
    clusterings_of,
    verdicts,
)
from likewise.attention.settings import ALGORITHMS, FEWEST_PAIRS
from likewise.data import ScoredPair
from likewise.encoder import Encoder
from likewise.errors import Cancelled, LikewiseError, MissingExtra
from likewise.results.result import finite

pytest_plugins = ("command_line",)

QUICK = AttentionSettings(
    autoencoder=AutoencoderSettings(hidden=4, epochs=1),
    clusters=ClusterSettings(("kmeans",), most=3),
    permutations=49,
    control_pairs=0,
    compare=(),
    max_tokens=30,
)
PCA = replace(QUICK, reducer="pca")
QUICK_OPTIONS = (
    "--no-structure", "--hidden", 4, "--epochs", 1, "--clusters", "2-3", "--algorithms", "kmeans", "--compare", "none",
    "--permutations", 49, "--control-pairs", 0, "--max-tokens", 30,
)  # fmt: skip
LONE = "\ud83d"
MARKUP = "<script>alert(1)</script>"


def made_pairs(n: int = 20, seed: int = 0) -> list[ScoredPair]:
    """Short pairs of varied length; the tiny model's tokens are letters."""
    rng = np.random.default_rng(seed)
    words = ["a", "the", "cat", "sat", "on", "mat", "dog", "ran", "we", "sea"]
    sides = [[" ".join(rng.choice(words, rng.integers(1, 5))) for _ in range(2)] for _ in range(n)]
    return [ScoredPair(left, right, float(place % 6), f"id{place}") for place, (left, right) in enumerate(sides)]


def write_pairs(path: Path, pairs: list[ScoredPair]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(
            [("sentence1", "sentence2", "score"), *((one.left, one.right, one.score) for one in pairs)]
        )
    return path


@pytest.fixture
def pairs_csv(tmp_path: Path) -> Path:
    return write_pairs(tmp_path / "pairs.csv", made_pairs())


def document(study: AttentionStudy) -> dict[str, Any]:
    """What ``results.json`` would hold, which must be JSON."""
    found: dict[str, Any] = json.loads(json.dumps(finite(study.to_dict()), allow_nan=False))
    assert "nan" not in " ".join(found["verdicts"])
    return found


@pytest.fixture(autouse=True)
def _quick_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made and not saved, which takes most of the time."""
    monkeypatch.setattr("likewise.results.result.save_figure", lambda figure, path: path.touch())
    monkeypatch.setattr("likewise.results.result.inline_figure", lambda figure, title: "<svg></svg>")


# Variables


@pytest.mark.slow
def test_scores_that_are_all_equal(tiny: Encoder, tmp_path: Path) -> None:
    pairs = [replace(pair, score=3.0) for pair in made_pairs()]
    study = attention_study(tiny, pairs, tmp_path, replace(PCA, control_pairs=10))
    test = document(study)["layers"][0]["tests"]["similarity"]
    assert (test["kruskal_p"], test["epsilon2"]) == (1.0, 0.0)
    assert "nothing survives" in verdicts(study)[-2] and study.controls[0].points["similarity"].r2 == 0
    study.save(tmp_path, {})


@pytest.mark.slow
def test_lengths_that_are_all_equal(tiny: Encoder, tmp_path: Path) -> None:
    characters = "abcdefghijklmnopqrst"
    pairs = [ScoredPair(letter, other, float(place % 5), "") for place, (letter, other) in
             enumerate(zip(characters, reversed(characters), strict=True))]  # fmt: skip
    study = attention_study(tiny, pairs, tmp_path, replace(PCA, control_pairs=10))
    assert set(study.variables.length) == {5.0}
    assert document(study)["layers"][0]["tests"]["length"]["kruskal_p"] == 1.0
    study.save(tmp_path, {})


@pytest.mark.slow
def test_the_fewest_pairs_are_enough_and_one_less_is_not(tiny: Encoder, tmp_path: Path) -> None:
    few = made_pairs(FEWEST_PAIRS)
    study = attention_study(tiny, few, tmp_path, replace(QUICK, compare=("pca",), control_pairs=300))
    document(study)
    study.save(tmp_path, {})
    with pytest.raises(LikewiseError, match="9 pairs"):
        attention_study(tiny, few[1:], tmp_path, QUICK)


@pytest.mark.parametrize("wrong", [float("inf"), float("-inf"), float("nan")])
def test_a_score_that_is_no_number(wrong: float, tiny: Encoder, tmp_path: Path) -> None:
    pairs = made_pairs()
    pairs[3] = replace(pairs[3], score=wrong)
    test = document(attention_study(tiny, pairs, tmp_path, PCA))["layers"][0]["tests"]["similarity"]
    # Ranks take infinity as the largest value; nan is left out.
    assert test["n"] == len(pairs) - (wrong != wrong)


def test_all_scores_nan(tiny: Encoder, tmp_path: Path) -> None:
    pairs = [replace(pair, score=float("nan")) for pair in made_pairs()]
    study = attention_study(tiny, pairs, tmp_path, replace(PCA, control_pairs=10))
    test = document(study)["layers"][0]["tests"]["similarity"]
    assert (test["n"], test["kruskal_p"]) == (0, None)


# Texts


@pytest.mark.slow
def test_empty_sides_special_tokens_and_strange_letters(tiny: Encoder, tmp_path: Path) -> None:
    odd = ["", " ", "[SEP]", "[CLS] [MASK] [PAD]", LONE, "\x00\x1b[31m", MARKUP, "$x^$ %", "\u202e\u2028", "é" * 3]
    pairs = [ScoredPair(left, right, float(place % 4), f"{left}{place}") for place, (left, right) in
             enumerate(zip([*odd, *odd], [*reversed(odd), *odd], strict=True))]  # fmt: skip
    study = attention_study(tiny, [*pairs, *made_pairs()], tmp_path, replace(PCA, max_tokens=64))
    study = replace(study, model=f"tiny {MARKUP} {LONE} $x", data=f"{LONE}\x00{MARKUP}")
    document(study)
    study.save(tmp_path, {"command": f"likewise {MARKUP}"})
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert MARKUP not in page and "\x1b" not in page and "\x00" not in page
    rows = list(csv.DictReader((tmp_path / "pairs.csv").open(newline="", encoding="utf-8")))
    assert len(rows) == len(study.pairs) and MARKUP in {row["left"] for row in rows}


def test_a_command_with_a_lone_surrogate_is_written(tmp_path: Path) -> None:
    made_study(n=30, depth=1).save(tmp_path, {"command": "likewise attention pairs\udcff.csv"})
    assert "likewise attention" in json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))["command"]


def test_a_prompt_of_special_tokens(tiny: Encoder, tmp_path: Path) -> None:
    study = attention_study(tiny, made_pairs(), tmp_path, replace(PCA, prompt=f"[SEP] {LONE} {MARKUP}", max_tokens=64))
    assert document(study)["n"] == 20


@pytest.mark.slow
def test_few_distinct_pairs_among_many(tiny: Encoder, tmp_path: Path) -> None:
    few = made_pairs(3)
    pairs = [replace(few[place % 3], score=float(place % 5)) for place in range(45)]
    every = replace(PCA.clusters, algorithms=ALGORITHMS, most=6)
    study = attention_study(tiny, pairs, tmp_path, replace(PCA, clusters=every))
    assert all(group.clusters.chosen.k <= 3 for group in study.main.groups)
    document(study)


# Models


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"num_hidden_layers": 1, "num_attention_heads": 1}])
def test_one_layer_and_one_head(changes: dict[str, int], tmp_path: Path) -> None:
    encoder = Encoder.load(str(save_tiny(tmp_path / "model", **changes)), device="cpu")
    how = replace(QUICK, compare=("pca",), control_pairs=10)
    study = attention_study(encoder, made_pairs(), tmp_path / "study", how)
    document(study)
    study.save(tmp_path / "study", {})
    assert (tmp_path / "study" / "heads.png").exists() and (tmp_path / "study" / "index.html").exists()


# Settings


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"hidden": 1},
        {"directions": 1},
        {"held_out": 0.0},
        {"held_out": 0.5},
        {"latent": 50},
        {"hidden": 1, "latent": 5, "directions": 1, "held_out": 0.0},
    ],
)
def test_odd_autoencoders(changes: dict[str, Any], tiny: Encoder, tmp_path: Path) -> None:
    how = replace(QUICK, autoencoder=replace(QUICK.autoencoder, **changes), compare=("pca",))
    study = attention_study(tiny, made_pairs(12), tmp_path, how)
    assert study.main.points.shape == (12, 2, how.autoencoder.latent) == study.others[0].points.shape
    assert study.main.view.shape == (12, 2, 2)
    document(study)


def test_a_learning_rate_that_is_far_too_high(tiny: Encoder, tmp_path: Path) -> None:
    how = replace(QUICK, autoencoder=replace(QUICK.autoencoder, learning_rate=1.0, epochs=3))
    with pytest.raises(LikewiseError, match="1 of them distinct") as raised:
        attention_study(tiny, made_pairs(12), tmp_path, how)
    assert "\n" not in str(raised.value)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_one_algorithm_alone(algorithm: str, tiny: Encoder, tmp_path: Path) -> None:
    alone = ClusterSettings((algorithm,), most=3, distances=("cosine",), min_samples=(2,), most_noise=0.9)
    study = attention_study(tiny, made_pairs(), tmp_path, replace(PCA, clusters=alone, control_pairs=10))
    assert {group.clusters.chosen.algorithm for group in study.main.groups} == {algorithm}
    document(study)


@pytest.mark.slow
def test_two_clusters_alone_and_reducers_named_twice(tiny: Encoder, tmp_path: Path) -> None:
    how = replace(PCA, compare=("pca", "lstm", "lstm"), clusters=ClusterSettings(("kmeans", "kmeans"), most=2))
    study = attention_study(tiny, made_pairs(), tmp_path, how)
    assert [one.reducer for one in study.others] == ["lstm"] and study.loss is None and study.curve is None
    assert document(study)["reducers"][0]["loss"] > 0
    study.save(tmp_path, {})
    assert not (tmp_path / "loss.png").exists()


@pytest.mark.slow
def test_nearly_as_many_clusters_as_pairs(tiny: Encoder, tmp_path: Path) -> None:
    many = replace(PCA, clusters=ClusterSettings(most=15), control_pairs=10)
    study = attention_study(tiny, made_pairs(FEWEST_PAIRS), tmp_path, many)
    assert all(2 <= layer["k"] <= 9 for layer in document(study)["layers"])
    only = replace(many, clusters=ClusterSettings(("kmeans",), least=9, most=9))
    study = attention_study(tiny, made_pairs(FEWEST_PAIRS), tmp_path, only)
    assert [layer["k"] for layer in document(study)["layers"]] == [9, 9]


def test_a_missing_umap_is_told_before_any_work(tiny: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("likewise.attention.reduction.find_spec", lambda name: None)
    how = replace(QUICK, reducer="umap", autoencoder=replace(QUICK.autoencoder, latent=5))
    for wanted in (how, replace(QUICK, compare=("umap",))):
        with pytest.raises(MissingExtra, match="umap"):
            attention_study(tiny, made_pairs(), tmp_path / "new", wanted)
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_highlights_of_nothing_of_all_and_of_one_variable_twice(tiny: Encoder, tmp_path: Path) -> None:
    texts = ("length:900-", "length:0-", "length:-9--3,5", "similarity:-1-99", "similarity:3,3,3")
    how = replace(PCA, highlights=tuple(Highlight.parse(text) for text in texts))
    attention_study(tiny, made_pairs(), tmp_path, how).save(tmp_path, {})
    drawn = sorted(path.name for path in tmp_path.glob("highlight-*.svg"))
    assert drawn == sorted(
        f"highlight-{name}.svg" for name in ("length", "length-2", "length-3", "similarity", "similarity-2")
    )


@pytest.mark.slow
def test_no_highlight_at_all(tiny: Encoder, tmp_path: Path) -> None:
    attention_study(tiny, made_pairs(), tmp_path, replace(PCA, highlights=())).save(tmp_path, {})
    assert not list(tmp_path.glob("highlight-*"))


@pytest.mark.parametrize(
    "text", ["", ":", "length:", "length:1--", "length:5-3", "colour:1-2", "length:1e3", "length:nan", "length:1,,2"]
)
def test_highlights_that_cannot_be_read(text: str) -> None:
    with pytest.raises(LikewiseError):
        Highlight.parse(text)


# Points


@pytest.mark.parametrize(
    "points",
    [
        np.concatenate([np.random.default_rng(0).normal(size=(20, 2)), [[1e12, 1e12]]]),
        np.random.default_rng(0).normal(size=(20, 2)) * 1e-30,
        np.random.default_rng(0).normal(size=(20, 2)) * 1e30,
        np.repeat([[0.0, 0.0], [1.0, 1.0]], 10, axis=0),
        np.column_stack([np.arange(20.0), np.zeros(20)]),
        np.repeat([[0.0, 0.0], [1e-12, 0.0], [1.0, 1.0]], 7, axis=0),
        1e6 + np.random.default_rng(0).normal(size=(20, 2)) * 1e-6,
        np.random.default_rng(0).normal(size=(20, 30)),
    ],
    ids=["outlier", "small", "large", "two-places", "a-line", "three-places", "far-away", "more-columns-than-points"],
)
def test_points_of_strange_shapes(points: Any) -> None:
    settings = ClusterSettings(most=4, distances=("euclidean", "manhattan", "cosine"), min_samples=(3,))
    found = clusterings_of(points, settings)
    assert len(found.chosen.labels) == len(points) and 2 <= found.chosen.k <= 4


# Seeds


@pytest.mark.slow
def test_a_seed_gives_the_same_study_and_another_one_another(tiny: Encoder, tmp_path: Path) -> None:
    how = replace(QUICK, control_pairs=10)
    one, same, other = (
        attention_study(tiny, made_pairs(), tmp_path / name, replace(how, seed=seed))
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert np.array_equal(one.main.points, same.main.points) and str(one.to_dict()) == str(same.to_dict())
    assert not np.array_equal(one.main.points, other.main.points)


@pytest.mark.slow
def test_the_largest_seed(tiny: Encoder, tmp_path: Path) -> None:
    how = replace(QUICK, seed=2**32 - 1, control_pairs=10)
    assert document(attention_study(tiny, made_pairs(12), tmp_path, how))["n"] == 12


@pytest.mark.parametrize("seed", [2**32, 2**64], ids=str)
def test_larger_seeds_are_rejected(seed: int) -> None:
    with pytest.raises(LikewiseError, match="seed must be at most 4294967295"):
        replace(QUICK, seed=seed)


# Broken stages


@pytest.fixture(scope="module")
def whole(tiny: Encoder, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, AttentionStudy]:
    folder = tmp_path_factory.mktemp("whole")
    return folder, attention_study(tiny, made_pairs(12), folder, QUICK)


def halved(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garbled(path: Path) -> None:
    path.write_bytes(b"\xff\x00 no such thing")


def removed(path: Path) -> None:
    path.unlink()


def damages(*names: str) -> list[Any]:
    """Every file with every damage."""
    return [
        pytest.param(name, damage, id=f"{name}-{damage.__name__}")
        for name in names
        for damage in (halved, garbled, removed)
    ]


@pytest.mark.parametrize(
    ("name", "damage"),
    damages(
        "points-lstm/result.npz", "points-lstm/key.txt", "clusters-lstm-1/result.json", "gaussian-1/result.npz",
        "trivial/result.json", "maps/key.txt", "maps/progress.json", "maps/heads.f32", "maps/even.npy",
    ),
)  # fmt: skip
def test_a_damaged_stage_is_made_again(
    name: str, damage: Callable[[Path], None], whole: tuple[Path, AttentionStudy], tiny: Encoder, tmp_path: Path
) -> None:
    folder, study = whole
    shutil.copytree(folder, tmp_path / "study")
    damage(tmp_path / "study" / "stages" / name)
    found = attention_study(tiny, made_pairs(12), tmp_path / "study", QUICK)
    assert str(found.to_dict()) == str(study.to_dict())


@pytest.mark.parametrize(("name", "damage"), damages("maps/maps.f16", "lstm/autoencoder.pt"))
def test_damage_below_a_stage_that_must_be_made_again(
    name: str, damage: Callable[[Path], None], whole: tuple[Path, AttentionStudy], tiny: Encoder, tmp_path: Path
) -> None:
    folder, study = whole
    shutil.copytree(folder, tmp_path / "study")
    shutil.rmtree(tmp_path / "study" / "stages" / "points-lstm")
    damage(tmp_path / "study" / "stages" / name)
    found = attention_study(tiny, made_pairs(12), tmp_path / "study", QUICK)
    assert str(found.to_dict()) == str(study.to_dict())


@pytest.mark.parametrize(
    "said", ["[]", '{"batches": "many"}', '{"batches": -3, "sequences": 2}', '{"batches": 99, "sequences": 99}', "1"]
)
def test_progress_that_no_run_would_note(
    said: str, whole: tuple[Path, AttentionStudy], tiny: Encoder, tmp_path: Path
) -> None:
    folder, study = whole
    shutil.copytree(folder, tmp_path / "study")
    (tmp_path / "study" / "stages" / "maps" / "progress.json").write_text(said)
    found = attention_study(tiny, made_pairs(12), tmp_path / "study", QUICK)
    assert str(found.to_dict()) == str(study.to_dict())


@pytest.mark.slow
@pytest.mark.parametrize("stop", [Cancelled, KeyboardInterrupt])
@pytest.mark.parametrize("note", ["attention maps", "learnt", "clusterings"])
def test_a_stop_passes_through_and_leaves_what_can_go_on(
    note: str,
    stop: type[BaseException],
    whole: tuple[Path, AttentionStudy],
    tiny: Encoder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("likewise.progress.SECONDS_BETWEEN_CALLS", 0.0)

    def progress(done: int, total: int | None, said: str) -> None:
        if note in said and done > 0:
            raise stop

    with pytest.raises(stop):
        attention_study(tiny, made_pairs(12), tmp_path, QUICK, progress=progress)
    again = attention_study(tiny, made_pairs(12), tmp_path, QUICK)
    assert str(again.to_dict()) == str(whole[1].to_dict())


@pytest.mark.slow
def test_a_stop_while_figures_are_drawn_frees_the_folder(tmp_path: Path) -> None:
    def progress(done: int, total: int | None, said: str) -> None:
        raise Cancelled("stop")

    study = made_study(n=30, depth=1)
    with pytest.raises(Cancelled):
        study.save(tmp_path, {}, progress)
    study.save(tmp_path, {})
    assert (tmp_path / "index.html").exists()


# The command line


@pytest.mark.slow
@pytest.mark.parametrize("more", [("--reducer", "pca", "--compare", "lstm,pca"), ("--latent", 3)])
def test_one_document_and_the_same_in_the_folder(
    more: tuple[object, ...], run_tiny: Any, pairs_csv: Path, tmp_path: Path
) -> None:
    said = one_document(run_tiny("attention", pairs_csv, "--out", tmp_path / "o", *QUICK_OPTIONS, *more, "--json"))
    kept = (tmp_path / "o" / "results.json").read_text()
    assert json.loads(kept, parse_constant=lambda name: pytest.fail(name)) == said


@pytest.mark.slow
def test_more_control_pairs_than_pairs(run_tiny: Any, pairs_csv: Path, tmp_path: Path) -> None:
    more = ("--reducer", "pca", "--control-pairs", 9999, "--json")
    said = one_document(run_tiny("attention", pairs_csv, "--out", tmp_path / "o", *QUICK_OPTIONS, *more))
    assert said["layers"][0]["controls"]["random_attention"]["n"] == said["n"] == 20


@pytest.mark.parametrize(
    "options",
    [
        ("--alpha", "1e-320"),
        ("--alpha", "nan"),
        ("--alpha", 1),
        ("--seed", 2**32),
        ("--seed", 2**64),
        ("--seed", -1),
        ("--clusters", ""),
        ("--clusters", "2-"),
        ("--clusters", "99999999999999999999"),
        ("--min-samples", ""),
        ("--distances", ""),
        ("--covariances", "round"),
        ("--held-out", 1),
        ("--held-out", "nan"),
        ("--latent", 1),
        ("--hidden", 0),
        ("--epochs", 0),
        ("--max-tokens", -1),
        ("--smallest", "nan"),
        ("--most-noise", "inf"),
        ("--highlight", ""),
        ("--highlight", "length:9-1"),
        ("--out", "/dev/null/study"),
        ("--score-column", "sentence1"),
    ],
    ids=str,
)
def test_options_that_cannot_work(options: tuple[object, ...], run_tiny: Any, pairs_csv: Path, tmp_path: Path) -> None:
    answer = run_tiny("attention", pairs_csv, "--out", tmp_path / "o", *QUICK_OPTIONS, "--reducer", "pca", *options)
    assert answer.code == 2 and "Traceback" not in answer.err and answer.out == ""
    assert not (tmp_path / "o" / "index.html").exists()


@pytest.mark.parametrize("score", ["inf", "nan", "", "1e999"])
def test_a_file_with_a_score_that_is_no_number(score: str, run_tiny: Any, tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("left,right,score\n" + "".join(f"a {'b' * n},c,{n}\n" for n in range(12)) + f"a,b,{score}\n")
    answer = run_tiny("attention", path, "--out", tmp_path / "o", *QUICK_OPTIONS, "--reducer", "pca")
    assert "pairs.csv" in refusal(answer) and not (tmp_path / "o").exists()


@pytest.mark.slow
def test_names_that_are_no_text(run: Any, tiny_folder: Path, tmp_path: Path) -> None:
    path, model = tmp_path / "pairs\udcff<b>.csv", tmp_path / "model $x<b>"
    write_pairs(path, made_pairs())
    shutil.copytree(tiny_folder, model)
    more = ("--reducer", "pca", "--model", model, "--json")
    said = one_document(run("attention", path, "--out", tmp_path / "o\udcff", *QUICK_OPTIONS, *more))
    assert said["n"] == 20 and (tmp_path / "o\udcff" / "index.html").exists()


@pytest.mark.slow
def test_damaged_stages_on_the_command_line(run_tiny: Any, pairs_csv: Path, tmp_path: Path) -> None:
    arguments = ("attention", pairs_csv, "--out", tmp_path / "o", *QUICK_OPTIONS, "--reducer", "pca")
    assert run_tiny(*arguments).code == 0
    for path in (tmp_path / "o" / "stages").glob("*/*"):
        garbled(path)
    assert run_tiny(*arguments).code == 0


@pytest.mark.slow
def test_a_picture_of_ones_own_is_left_alone(run_tiny: Any, pairs_csv: Path, tmp_path: Path) -> None:
    mine = tmp_path / "o" / "highlight-of-my-year.png"
    mine.parent.mkdir()
    mine.write_bytes(b"mine")
    answer = run_tiny("attention", pairs_csv, "--out", mine.parent, *QUICK_OPTIONS, "--reducer", "pca")
    assert answer.code == 0 and (mine.parent / "index.html").exists()
    assert mine.read_bytes() == b"mine"
