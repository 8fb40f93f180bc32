"""Attention maps on disk against Hugging Face's own, in the study's order, and the measures of heads by plain loops."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from likewise.attention.maps import MEASURES, AttentionMaps, RandomMaps, measures_of, trivial_loss, write_maps
from likewise.encoder import Encoder
from likewise.errors import Cancelled, DataError
from tiny_models import tiny_encoder
from twins import twin_model

PAIRS = [("a cat sat", "the dog"), ("we", "you and i and they"), ("a cat", "a cat"), ("b", "c"), ("the sea", "is blue")]


def plain_maps(encoder: Encoder, pair: tuple[str, str]) -> np.ndarray:
    """Hugging Face's maps (L, H, n, n) of one pair as one sequence, without padding."""
    [text] = encoder.tokenize([pair], "")
    with torch.no_grad():
        said = twin_model(encoder)(
            torch.tensor([text.ids]), token_type_ids=torch.tensor([text.types]), output_attentions=True
        )
    return torch.stack([layer[0] for layer in said.attentions]).double().numpy()


def test_the_file_holds_every_weight_in_half_precision_step_by_step(tiny: Encoder, tmp_path: Path) -> None:
    maps = write_maps(tiny, PAIRS, tmp_path)
    assert (tmp_path / "maps.f16").stat().st_size == int((maps.lengths**2).sum()) * maps.layers * maps.heads * 2
    for place, pair in enumerate(PAIRS):
        truth = plain_maps(tiny, pair)
        layers, heads, n, _ = truth.shape
        steps = maps.sequence(place)
        assert steps.shape == (layers, n * n, heads) and steps.dtype == torch.float32
        for layer in range(layers):
            for i in range(n):
                for j in range(n):
                    seen = steps[layer, i * n + j].double().numpy()
                    # Half precision has 11 bits; ours and theirs may round apart by the last.
                    assert np.allclose(seen, truth[layer, :, i, j], rtol=1.1e-3, atol=1e-7)
        assert np.allclose(maps.map_of(place, 2), truth[1], rtol=1.1e-3, atol=1e-7)


def test_a_broken_run_goes_on_and_leaves_the_same_bytes(
    tiny: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("likewise.progress.SECONDS_BETWEEN_CALLS", 0.0)
    pairs = PAIRS * 60
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    write_maps(tiny, pairs, whole)
    pooling_mask = []

    def stop(done: int, total: int | None, note: str) -> None:
        pooling_mask.append(done)
        if done > 40 and len(pooling_mask) < 50:
            raise Cancelled("stop")

    with pytest.raises(Cancelled):
        write_maps(tiny, pairs, broken, progress=stop)
    assert 40 < pooling_mask[-1] < len(pairs)
    starts: list[int] = []
    write_maps(tiny, pairs, broken, progress=lambda done, total, note: starts.append(done))
    assert starts[0] >= 40  # not from the beginning
    for name in ("maps.f16", "heads.f32", "even.npy"):
        assert (whole / name).read_bytes() == (broken / name).read_bytes()


def test_no_room_on_the_disk_is_said_before_the_work(
    tiny: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        free = 10

    monkeypatch.setattr("likewise.attention.maps.shutil.disk_usage", lambda folder: Full)
    with pytest.raises(DataError, match="take fewer pairs with --limit"):
        write_maps(tiny, PAIRS, tmp_path / "maps")


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_head_measures_are_plain_loops(seed: int) -> None:
    torch.manual_seed(seed)
    encoder = tiny_encoder("bert")
    tokens = encoder.tokenize([("abc de", "f gh")], "")
    n = len(tokens[0])
    maps = torch.rand(2, 1, 3, n, n, dtype=torch.float64).softmax(-1)
    found = measures_of(maps, tokens)[0]
    special, sides = tokens[0].special, tokens[0].sides
    assert [place for place, mark in enumerate(special) if mark] == [0, sides.index(1) - 1, n - 1]
    for layer in range(2):
        for head in range(3):
            rows = maps[layer, 0, head].tolist()
            texts = [i for i in range(n) if not special[i]]
            expected = {
                "entropy": sum(-weight * math.log(weight) for row in rows for weight in row) / n / math.log(n),
                "first": sum(row[0] for row in rows) / n,
                "separators": sum(row[j] for row in rows for j in range(1, n) if special[j]) / n,
                "previous": sum(rows[i][i - 1] for i in range(1, n)) / (n - 1),
                "next": sum(rows[i][i + 1] for i in range(n - 1)) / (n - 1),
                "between": sum(
                    rows[i][j] for i in texts for j in texts if sides[i] != sides[j]
                ) / len(texts),
            }  # fmt: skip
            for place, name in enumerate(MEASURES):
                assert float(found[place, layer, head]) == pytest.approx(expected[name], abs=1e-10)


def test_measures_average_over_sequences_beside_even_attention(tiny: Encoder, tmp_path: Path) -> None:
    maps = write_maps(tiny, PAIRS, tmp_path)
    heads = maps.head_measures()
    rows = [plain_maps(tiny, pair) for pair in PAIRS]
    first = np.mean([each[..., 0].mean(-1) for each in rows], axis=0)
    assert np.allclose(heads.values["first"], first, atol=1e-6)
    assert heads.even["first"] == pytest.approx(np.mean([1 / n for n in maps.lengths]))
    assert heads.even["entropy"] == pytest.approx(1.0)
    assert heads.values["between"].shape == (maps.layers, maps.heads)


def test_an_empty_text_has_nothing_between(tiny: Encoder, tmp_path: Path) -> None:
    maps = write_maps(tiny, [("", "a cat"), *PAIRS], tmp_path)
    assert np.isfinite(maps.head_measures().values["between"]).all()


def test_random_attention_is_a_share_of_one_and_always_the_same() -> None:
    maps = RandomMaps(np.array([4, 7]), layers=3, heads=5, seed=1)
    one = maps.sequence(1)
    assert one.shape == (3, 49, 5) and torch.equal(one, maps.sequence(1))
    assert torch.allclose(one.reshape(3, 7, 7, 5).sum(2), torch.ones(3, 7, 5), atol=1e-5)
    assert not torch.equal(one, RandomMaps(np.array([4, 7]), 3, 5, seed=2).sequence(1))
    # Dirichlet of ones: each weight has mean 1 / n and variance (n - 1) / (n^2 (n + 1)).
    many = RandomMaps(np.array([30]), layers=2, heads=8).sequence(0)
    assert float(many.var()) == pytest.approx(29 / (900 * 31), rel=0.05)


def test_the_trivial_loss_is_a_plain_loop(tiny: Encoder, tmp_path: Path) -> None:
    maps = write_maps(tiny, PAIRS, tmp_path)
    losses = []
    for place, n in enumerate(maps.lengths.tolist()):
        weights = maps.sequence(place).flatten().tolist()
        losses.append(sum((weight - 1 / n) ** 2 for weight in weights) / len(weights))
    assert trivial_loss(maps) == pytest.approx(sum(losses) / len(losses), rel=1e-5)


@pytest.mark.data
def test_lengths_of_the_benchmark(minilm: Encoder, shared_data: Path) -> None:
    from likewise.data import read_scored_pairs

    pairs = [(pair.left, pair.right) for pair in read_scored_pairs("stsb/test", data_dir=shared_data)]
    lengths = np.array([len(text) for text in minilm.tokenize(pairs, "")])
    assert (len(lengths), lengths.min(), lengths.max(), (lengths**2).sum()) == (1379, 9, 81, 1_287_517)


def test_maps_open_again_from_their_folder(tiny: Encoder, tmp_path: Path) -> None:
    maps = write_maps(tiny, PAIRS, tmp_path)
    again = AttentionMaps(tmp_path, maps.lengths, maps.layers, maps.heads)
    assert torch.equal(again.sequence(3), maps.sequence(3))


@pytest.mark.parametrize("family", ["roberta", "distilbert", "albert", "gpt_neo", "modernbert", "qwen3"])
def test_every_family_has_maps_and_measures(family: str, tmp_path: Path) -> None:
    encoder = tiny_encoder(family)
    maps = write_maps(encoder, [("ab cd", "ef"), ("g", "hi jk l")], tmp_path)
    for place, n in enumerate(maps.lengths.tolist()):
        rows = maps.sequence(place).reshape(maps.layers, n, n, maps.heads).sum(2)
        assert torch.allclose(rows, torch.ones_like(rows), atol=2e-3)
    values = maps.head_measures().values
    assert all(np.isfinite(found).all() and (found >= 0).all() for found in values.values())
    is_causal = family in ("gpt_neo", "qwen3")  # a token sees none after it
    assert (values["next"].max() == 0) == is_causal
