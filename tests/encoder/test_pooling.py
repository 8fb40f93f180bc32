"""Each pooler equals a plain loop over tokens, and sentence-transformers' own module."""

from __future__ import annotations

import pytest
import torch
from sentence_transformers.sentence_transformer.modules.pooling import Pooling
from torch import Tensor

from likewise.encoder import Encoder
from likewise.encoder.config import POOLING_NAMES
from likewise.encoder.pooling import POOLERS, pooling_parts
from likewise.errors import UsageError

LENGTHS = (9, 5, 2, 1)


def random_states(seed: int) -> Tensor:
    torch.manual_seed(seed)
    return torch.randn(len(LENGTHS), max(LENGTHS), 6, dtype=torch.float64)


def ragged_mask() -> Tensor:
    """Ones for the real tokens of each text, zeros for the padding behind them."""
    return (torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]).long()


def plain_pool(name: str, tokens: list[list[float]], counts: list[int]) -> list[float]:
    """One text's vector by the definition: tokens (T, D) and which of them count -> (D,)."""
    kept = [(place, token) for place, token in enumerate(tokens, start=1) if counts[place - 1]]
    if name in ("cls", "last"):
        return kept[0 if name == "cls" else -1][1]
    pooled = []
    for d in range(len(tokens[0])):
        total = sum(token[d] for _, token in kept)
        pooled.append(
            {
                "max": max(token[d] for _, token in kept),
                "mean": total / len(kept),
                "mean-sqrt-len": total / len(kept) ** 0.5,
                "weighted": sum(place * token[d] for place, token in kept) / sum(place for place, _ in kept),
            }[name]
        )
    return pooled


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", POOLERS)
def test_poolers_equal_a_plain_loop(name: str, seed: int) -> None:
    states = random_states(seed)
    # Ragged, with holes: where special tokens or a prompt do not count.
    mask = ragged_mask() * (torch.rand(states.shape[:2]) < 0.6).long()
    mask[torch.arange(len(LENGTHS)), torch.tensor(LENGTHS) - 1] = 1
    plain = [plain_pool(name, tokens, counts) for tokens, counts in zip(states.tolist(), mask.tolist(), strict=True)]
    assert torch.allclose(POOLERS[name](states, mask), torch.tensor(plain, dtype=torch.float64), atol=1e-12, rtol=0)


@pytest.mark.parametrize("mode", Pooling.POOLING_MODES)
def test_poolers_equal_sentence_transformers(mode: str) -> None:
    states, mask = random_states(3), ragged_mask()
    theirs = Pooling(6, mode)({"token_embeddings": states, "attention_mask": mask})["sentence_embedding"]
    assert torch.allclose(POOLERS[POOLING_NAMES[mode]](states, mask), theirs, atol=1e-12, rtol=0)


@pytest.mark.parametrize("mode", Pooling.POOLING_MODES)
def test_poolers_equal_sentence_transformers_without_the_prompt(mode: str) -> None:
    states, mask = random_states(4)[:2], ragged_mask()[:2]
    features = {"token_embeddings": states, "attention_mask": mask, "prompt_length": 3}
    theirs = Pooling(6, mode, include_prompt=False)(features)["sentence_embedding"]
    pooling_mask = mask.clone()
    pooling_mask[:, :3] = 0
    assert torch.allclose(POOLERS[POOLING_NAMES[mode]](states, pooling_mask), theirs, atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", POOLERS)
def test_no_counting_token_gives_zeros(name: str) -> None:
    states, mask = random_states(5), ragged_mask()
    mask[1] = 0
    pooled = POOLERS[name](states, mask)
    assert torch.equal(pooled[1], torch.zeros(6, dtype=torch.float64))
    assert pooled[0].abs().min() > 0


@pytest.mark.parametrize("name", POOLERS)
def test_states_that_do_not_count_do_not_matter(name: str) -> None:
    states, mask = random_states(6), ragged_mask()
    other = torch.where(mask[..., None] == 1, states, 1e6)
    assert torch.equal(POOLERS[name](states, mask), POOLERS[name](other, mask))


@pytest.mark.parametrize("name", POOLERS)
def test_half_precision_does_not_overflow(name: str) -> None:
    states = torch.full((1, 500, 2), 3.0)
    mask = torch.ones(1, 500, dtype=torch.long)
    pooled = POOLERS[name](states.half(), mask)
    assert pooled.dtype == torch.float16
    assert torch.allclose(pooled.float(), POOLERS[name](states, mask), rtol=1e-2)


def test_several_poolings_are_concatenated(tiny: Encoder) -> None:
    states, mask = torch.randn(4, 9, 16), ragged_mask()
    pooled = tiny.with_pooling(pooling="cls+mean").pool(states, mask)
    assert torch.equal(pooled, torch.cat([POOLERS["cls"](states, mask), POOLERS["mean"](states, mask)], dim=1))
    assert pooling_parts("mean+pooler") == ("mean", "pooler")


@pytest.mark.parametrize("name", ["avg", "mean+avg", "", "mean+"])
def test_unknown_pooling_names_the_known(name: str) -> None:
    with pytest.raises(UsageError) as raised:
        pooling_parts(name)
    unknown = name.split("+")[-1]
    names = "cls, last, max, mean, mean-sqrt-len, pooler, weighted, qkv, bilstm"
    assert str(raised.value) == f"unknown pooling {unknown!r}; choose from {names}, or join several with +"
